"""The plain way: one client after another, ``nn.Module``, ``torch.optim.SGD``, ``cross_entropy``.

What a careful user writes: no DataLoader, one gather a client and epoch, one model and one
optimiser for all clients, in-place copies. foreach=True and fused=True were tried: no faster here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import fedlab_mini as fm
from fedlab_mini.local import Shuffles

Order = Callable[[int, int], Tensor]  # (round, client) -> the order of the client's samples


class PlainLoop:
    """Federated averaging of an MLP, client by client.

    fed     whose data; widths  of the MLP; batch, lr  of local SGD, one epoch a round
    order   the order of a client's samples in a round; default: a fresh random one
    """

    def __init__(
        self,
        fed: fm.Federation,
        widths: Sequence[int],
        *,
        batch: int,
        lr: float,
        order: Order | None = None,
    ):
        parts: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(widths):
            parts += [nn.Linear(inputs, outputs, dtype=fed.x.dtype), nn.ReLU()]
        self.model = nn.Sequential(*parts[:-1])
        self.parameters = list(self.model.parameters())
        self.optimiser = torch.optim.SGD(self.parameters, lr=lr)
        self.batch = batch
        self.data = [fed.client(k) for k in range(fed.clients)]
        self.sizes = fed.sizes.tolist()
        self.order = order or (lambda t, k: torch.randperm(self.sizes[k]))

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


def engine_order(fed: fm.Federation, local: fm.LocalSGD, seed: int) -> Order:
    """The orders that the engine draws, so that loop and engine can be compared exactly."""
    shuffles = Shuffles(fed, local, seed)

    def order(t: int, k: int) -> Tensor:
        sizes = shuffles.sizes[k : k + 1]
        plan = shuffles.plan(t, torch.tensor([k]).numpy(), sizes)
        return plan.blocks[plan.scale > 0] - int(fed.offsets[k])

    return order
