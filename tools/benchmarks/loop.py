"""The plain ways to average models, written with care: client by client, and with ``vmap``.

The loop has ``nn.Module``, ``torch.optim.SGD`` and ``cross_entropy``, no DataLoader, one gather
per client and epoch, one model and one optimiser for all clients, in-place copies. foreach=True and
fused=True were not faster here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

import fedlab_mini as fm
from fedlab_mini.engine import plain
from fedlab_mini.engine.fast.stacks import STACK

Order = Callable[[int, int], Tensor]  # (round, client) -> the order of the client's samples


class PlainLoop:
    """Federated averaging of any module, client by client.

    fed     the data; module  what is trained; batch, lr  of local SGD, one epoch per round
    order   the order of a client's samples in a round; default: a fresh random one
    """

    def __init__(
        self,
        fed: fm.Federation,
        module: nn.Module,
        *,
        batch: int,
        lr: float,
        order: Order | None = None,
    ):
        self.model = copy.deepcopy(module).to(fed.x).train()
        self.parameters = list(self.model.parameters())
        self.optimiser = torch.optim.SGD(self.parameters, lr=lr)
        self.batch = batch
        self.data = [fed.client(k) for k in range(fed.clients)]
        self.sizes = fed.sizes.tolist()
        chance = torch.Generator().manual_seed(0)
        self.order = order or (lambda t, k: torch.randperm(self.sizes[k], generator=chance))

    def split(self, theta: Tensor) -> list[Tensor]:
        """A flat theta [P] as the model's parameters."""
        pieces = theta.split([p.numel() for p in self.parameters])
        return [piece.view_as(p) for piece, p in zip(pieces, self.parameters, strict=True)]

    def round(self, start: list[Tensor], t: int, clients: Sequence[int]) -> list[Tensor]:
        """Local training of the clients from ``start``, and the mean weighted by their sizes."""
        total = sum(self.sizes[k] for k in clients)
        mean = [torch.zeros_like(p) for p in start]
        for k in clients:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, start)
            self.client(t, k)
            with torch.no_grad():
                torch._foreach_add_(mean, self.parameters, alpha=self.sizes[k] / total)
        return mean

    def client(self, t: int, k: int) -> None:
        """One epoch of minibatch SGD on client ``k``."""
        x, y = self.data[k]
        order = self.order(t, k)
        x, y = x[order], y[order]
        for inputs, labels in zip(x.split(self.batch), y.split(self.batch), strict=True):
            self.optimiser.zero_grad()
            cross_entropy(self.model(inputs), labels).backward()
            self.optimiser.step()

    def train(self, theta: Tensor, rounds: int, clients: Sequence[int] | None = None) -> Tensor:
        """The final model [P] after some rounds from ``theta`` [P]; default: all clients."""
        parameters = self.split(theta)
        for t in range(1, rounds + 1):
            parameters = self.round(parameters, t, clients or range(len(self.data)))
        return torch.cat([p.flatten() for p in parameters])


class Vmapped:
    """The same rounds with ``vmap(grad)`` over stacks of clients, for clients of one size.

    The stacks are as large as the engine's, because larger ones were slower.
    """

    def __init__(self, loop: PlainLoop, fed: fm.Federation, *, samples: int, batch: int, lr: float):
        self.loop, self.samples, self.batch, self.lr = loop, samples, batch, lr
        self.x, self.y = fed.x.view(fed.clients, samples, -1), fed.y.view(fed.clients, samples)
        self.names = [name for name, _ in loop.model.named_parameters()]
        self.many = max(1, STACK // sum(4 * p.numel() for p in loop.parameters))
        self.slope = vmap(grad(self.loss))
        self.chance = torch.Generator().manual_seed(0)

    def loss(self, parts: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Mean cross-entropy of one client's minibatch."""
        return cross_entropy(functional_call(self.loop.model, parts, x), y)

    def stack(self, start: list[Tensor], x: Tensor, y: Tensor) -> list[Tensor]:
        """The sums of the models that some clients train on x [c, samples, d], y [c, samples]."""
        parts = {
            n: p.expand(len(x), *p.shape).clone() for n, p in zip(self.names, start, strict=True)
        }
        client = torch.arange(len(x))[:, None]
        order = torch.rand(len(x), self.samples, generator=self.chance).argsort(1)
        for at in order.split(self.batch, 1):
            steps = self.slope(parts, x[client, at], y[client, at])
            for name in self.names:
                parts[name].sub_(steps[name], alpha=self.lr)
        return [parts[name].sum(0) for name in self.names]

    def train(self, theta: Tensor, rounds: int) -> Tensor:
        """The final model [P] after some rounds of all clients from ``theta`` [P]."""
        start = self.loop.split(theta)
        for _ in range(rounds):
            pairs = zip(self.x.split(self.many), self.y.split(self.many), strict=True)
            sums = zip(*(self.stack(start, x, y) for x, y in pairs), strict=True)
            start = [sum(parts) / len(self.x) for parts in sums]
        return torch.cat([p.flatten() for p in start])


def engine_order(fed: fm.Federation, local: fm.LocalSGD, seed: int) -> Order:
    """The orders that the engine draws, for an exact comparison of loop and engine."""
    return lambda t, k: torch.cat(plain.batches(fed, local, seed, t, k))
