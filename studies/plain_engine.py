"""Plain engine: central rows of the ledger, computed without the engine and its methods.

Clients train one after another by ``engine.plain``: modules, autograd, an optimiser. What the
server does is written out here: draws, coalitions, Shapley values, cosines. Only data, networks and
settings are shared. Rows have the same names as in sfedavg-selection and cgsv-steps, so
that an item of the ledger can be read from either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine import plain

from . import cgsv, sfedavg
from .protocols import study
from .study import Row

CENTRAL = (  # items of the ledger that should agree
    "S-FedAvg-1-4",
    "S-FedAvg-C-1",
    "S-FedAvg-3b-5",
    "S-FedAvg-A-3",
    "S-FedAvg-3a-8",
    "CGSV-A1-4",
)
SPLIT = "1 class"
Choice = Callable[[Tensor], Tensor]  # relevances [K] -> ids [m]


@dataclass
class Course:
    """Results of a training run: accuracies [T + 1]; selections and relevances, [T, K] each."""

    accuracy: Tensor
    asked: Tensor
    relevance: Tensor


def rows(seed: int, *, rounds: int = sfedavg.ROUNDS) -> Iterator[Row]:
    """FedAvg with 0, 1 and 4 irrelevant clients; S-FedAvg at two temperatures; CGSV's ranking.

    rounds  of every training run, 4 or more; of CGSV at most 60
    """
    data, net, local = sfedavg.setting()
    split = sfedavg.SPLITS[SPLIT]
    for irrelevant in (0, 1, sfedavg.IRRELEVANT):
        fed = sfedavg.federation_of(data, split, irrelevant, seed)
        several = irrelevant == sfedavg.IRRELEVANT
        scenario = SPLIT if several else f"{SPLIT}, {irrelevant} irrelevant"
        course = selected(fed, net, local, math.inf, seed, rounds)
        yield from told(scenario, sfedavg.FEDAVG, fed, course)
        if several:
            for rule, temperature in ((sfedavg.WARM, 1.0), (sfedavg.COLD, 0.02)):
                course = selected(fed, net, local, temperature, seed, rounds)
                yield from told(scenario, rule, fed, course)
    data, net = cgsv.setting("digits")
    noisy = cgsv.ladder(data, "digits", seed)
    longest = min(rounds, cgsv.ROUNDS)
    weights = aligned(noisy, net, seed, longest)
    correlation = fm.spearman(weights, 1 - noisy.noise)
    yield "digits", cgsv.ONE, f"rank correlation @ {longest}", correlation


def told(scenario: str, rule: str, fed: fm.Federation, course: Course) -> Iterator[Row]:
    """Accuracy, restlessness, share of relevant clients and relevance gap of the second half."""
    half = len(course.asked) // 2
    late = course.accuracy[half:]
    yield scenario, rule, "accuracy", float(late[1:].mean())
    yield scenario, rule, sfedavg.RESTLESS, float(late.diff().abs().mean())
    if fed.corrupted:
        bad = torch.tensor([k in fed.corrupted for k in range(fed.clients)])
        asked = course.asked[half:].double()
        yield scenario, rule, sfedavg.SHARE, float(asked[:, ~bad].sum() / asked.sum())
        if rule != sfedavg.FEDAVG:
            phi = course.relevance[half:].mean(0)
            yield scenario, rule, "relevance gap", float(phi[~bad].mean() - phi[bad].mean())


def selected(
    fed: fm.Federation,
    net: fm.Model,
    local: fm.LocalSGD,
    temperature: float,
    seed: int,
    rounds: int,
) -> Course:
    """S-FedAvg by hand; at an infinite temperature selection is uniform, and nothing is valued."""
    generator = torch.Generator().manual_seed(seed)
    theta = net.init(seed, dtype=fed.x.dtype)
    phi = torch.full((fed.clients,), 1 / fed.clients, dtype=torch.float64)
    accuracy = [plain.judge(net, theta, fed.test)[0]]
    asked = torch.zeros(rounds, fed.clients, dtype=torch.bool)
    relevance = torch.zeros(rounds, fed.clients, dtype=torch.float64)
    for t in range(1, rounds + 1):
        chances = (phi / temperature).softmax(0)
        ids = torch.multinomial(chances, sfedavg.M, generator=generator).sort().values
        updates = torch.stack([_update(fed, net, theta, local, seed, t, int(k)) for k in ids])
        if math.isfinite(temperature):
            phi[ids] = 0.75 * phi[ids] + 0.25 * shapley(fed, net, theta, updates)
        theta = theta + updates.mean(0)
        accuracy.append(plain.judge(net, theta, fed.test)[0])
        asked[t - 1, ids], relevance[t - 1] = True, phi
    return Course(torch.tensor(accuracy, dtype=torch.float64), asked, relevance)


def _update(
    fed: fm.Federation, net: fm.Model, theta: Tensor, local: fm.LocalSGD, seed: int, t: int, k: int
) -> Tensor:
    minibatches = plain.batches(fed, local, seed, t, k)
    return plain.update(net, theta, fed.client(k), minibatches, local.rate(t))


def shapley(fed: fm.Federation, net: fm.Model, theta: Tensor, updates: Tensor) -> Tensor:
    """Shapley values [m] of accuracy on the server's samples, by the sum over coalitions."""
    players = range(len(updates))
    worth = {}
    for size in range(len(updates) + 1):
        for coalition in combinations(players, size):
            step = updates[list(coalition)].mean(0) if coalition else torch.zeros_like(theta)
            worth[coalition] = plain.judge(net, theta + step, fed.validation)[0]
    values = torch.zeros(len(updates), dtype=torch.float64)
    for coalition, value in worth.items():
        size = len(coalition)
        for player in set(players) - set(coalition):
            joined = tuple(sorted((*coalition, player)))
            share = math.factorial(size) * math.factorial(len(updates) - size - 1)
            gain = worth[joined] - value
            values[player] += share / math.factorial(len(updates)) * gain
    return values


def aligned(fed: fm.Federation, net: fm.Model, seed: int, rounds: int) -> Tensor:
    """CGSV's weights [K] after its rounds, with the paper's step of length up to 1."""
    theta = net.init(seed, dtype=fed.x.dtype)
    weights = fed.sizes.double() / fed.sizes.sum()
    for t in range(1, rounds + 1):
        clients = range(fed.clients)
        updates = torch.stack([_update(fed, net, theta, cgsv.LOCAL, seed, t, k) for k in clients])
        units = updates / updates.norm(dim=1, keepdim=True)
        step = weights @ units
        cosines = units @ step / step.norm()
        theta = theta + step
        gamma = 1 - (1 - 0.5) / t
        weights = (gamma * weights + (1 - gamma) * cosines).clamp(min=1e-3)
        weights = weights / weights.sum()
    return weights


STUDIES = (study("plain-engine", rows, probe={"rounds": 4}),)
