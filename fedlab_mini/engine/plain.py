"""Plain: read this first. A round in its simplest form, one client after another.

It is [McMahan et al. 2017, Algorithm 1], as chapter 1 writes it, and the shares of chapter 3.
Module, autograd and optimiser do what ``fast.stacks`` does by hand for many clients at once; tests
compare the two.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..parse.module import trainable
from ..parse.samples import Samples
from ..streams import stream
from ..worlds.federation import Federation
from .minibatches import LocalSGD
from .model import Model


def train(
    fed: Federation,
    net: Model,
    rounds: int,
    local: LocalSGD,
    seed: int,
    shares: Tensor | None = None,
) -> Tensor:
    """Federated averaging: send theta, train at every client, add the weighted mean update.

    shares [T, K]  share of its data that a client uses in a round, default all; returns theta [P]
    """
    theta = net.init(seed, dtype=fed.x.dtype)
    for t in range(1, rounds + 1):
        updates, sizes = [], []
        for k in range(fed.clients):
            share = 1.0 if shares is None else float(shares[t - 1, k])
            size = math.ceil(share * int(fed.sizes[k]))
            if size == 0:
                continue
            minibatches = batches(fed, local, seed, t, k, size)
            updates.append(update(net, theta, fed.client(k), minibatches, local.rate(t)))
            sizes.append(size)
        if updates:
            weights = torch.tensor(sizes).to(theta) / sum(sizes)  # [m]
            theta = theta + weights @ torch.stack(updates)  # [m] @ [m, P]
    return theta


def update(
    net: Model, theta: Tensor, samples: Samples, minibatches: Iterable[Tensor], lr: float
) -> Tensor:
    """One client's training: an SGD step from ``theta`` for each minibatch; returns the update [P].

    samples  the client's (x, y); minibatches  positions within them
    """
    x, y = samples
    model = module(net, theta).train()
    parameters = list(trainable(model).values())
    optimiser = torch.optim.SGD(parameters, lr=lr)
    for positions in minibatches:
        optimiser.zero_grad()
        net.objective.loss(model(x[positions]), y[positions]).backward()
        optimiser.step()
    trained = nn.utils.parameters_to_vector(parameters)
    return trained.detach() - theta


def batches(
    fed: Federation, local: LocalSGD, seed: int, t: int, k: int, count: int | None = None
) -> list[Tensor]:
    """The minibatches of client ``k`` in round ``t``: positions within its own samples.

    Every pass shuffles the samples and cuts them into pieces of ``local.batch``. Up to ``CROWD``
    clients, ``minibatches.py`` makes the same minibatches for many clients at once.
    count  how many samples the client uses, the first ones of one fixed shuffle; default all
    """
    used = shuffled(fed, k, stream(seed, "prefix"))[:count]
    # A pass has at least one step, so ``steps`` passes are always enough.
    passes = local.epochs if local.steps is None else local.steps
    dealt: list[Tensor] = []
    for epoch in range(passes):
        order = shuffled(fed, k, stream(seed, "minibatches", t, epoch))
        dealt += order[torch.isin(order, used)].split(local.batch)
    return dealt[: local.steps]


def shuffled(fed: Federation, k: int, generator: torch.Generator) -> Tensor:
    """Positions 0 .. n_k - 1 of client ``k``'s samples in the order of a shuffle of all samples."""
    order = torch.randperm(len(fed.y), generator=generator)
    first, end = fed.offsets[k : k + 2].tolist()
    return order[(order >= first) & (order < end)] - first


def judge(net: Model, theta: Tensor, samples: Samples) -> tuple[float, float]:
    """(accuracy, mean loss) of the model ``theta`` on samples (x, y)."""
    x, y = samples
    with torch.no_grad():
        scores = module(net, theta).eval()(x)  # [n, classes]
    correct = (scores.argmax(1) == y).double().mean()
    return float(correct), float(net.objective.loss(scores.double(), y))


def module(net: Model, theta: Tensor) -> nn.Module:
    """A copy of the model's module that holds the parameters ``theta`` [P]."""
    copied = copy.deepcopy(net.module).to(theta)
    nn.utils.vector_to_parameters(theta.clone(), trainable(copied).values())
    return copied
