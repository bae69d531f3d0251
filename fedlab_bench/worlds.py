"""Worlds: the scenarios of the bench, in families; each makes a federation from a seed.

These are the nine scenarios and variants of them: other skews, few validation samples, attacks,
other data, more clients. The page *The bench* describes each one. Builds on dealing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.networks import mlp
from fedlab_mini.engine.outputs import snapshot
from fedlab_mini.gate.networks import cnn
from fedlab_mini.parse import checks
from fedlab_mini.parse.metric import Metric
from fedlab_mini.worlds.attacks import (
    Against,
    AtMedianLength,
    CopyOf,
    Disguise,
    FreeRide,
    Known,
    NoisyReplay,
    PredictedStep,
    Replay,
    Scale,
    SignFlip,
    UpdateAttack,
    Withhold,
)
from fedlab_mini.worlds.cases import four_hospitals
from fedlab_mini.worlds.corrupt import FlipLabels
from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.data.heart import HOSPITALS
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.partition import Alpha, DirichletLabels, LabelSplit, Split

from .dealing import CLIENTS, LEVELS, SCENARIOS, Made, Scenario, dealt, noisier_inputs

ROUNDS, LOCAL = 20, LocalSGD(epochs=1, batch=20, lr=0.2)
PATIENTS = LocalSGD(epochs=5, batch=16, lr=0.05)
# Clients of less use, known before any training: the worse half, or all without the rare class.
WORSE, DRAWN = tuple(range(CLIENTS // 2, CLIENTS)), ()
BAD = {
    "wrong labels": WORSE,
    "noisy inputs": WORSE,
    "irrelevant": DRAWN,
    "rare class": tuple(range(CLIENTS - 1)),
}
SOURCE = "digits"
ATTACKER = 2  # the client that attacks, in worlds with an attack
VICTIM = 5  # the client whose update is copied, or whose score shall fall
TWIN = "Dirichlet 0.5"  # the world of the attacks, but with honest clients only
GRADED = "wrong labels"  # the world with variants of what the server sees


@dataclass(frozen=True)
class even_dirichlet(LabelSplit):
    """All clients have the same size; each draws its classes from its own Dirichlet(alpha).

    A class without remaining samples is not drawn, so the last clients take what is left, whatever
    alpha is. source  [Hsu et al. 2019], who draw per client, over classes
    """

    alpha: Alpha

    def deal(self, y: Tensor, clients: int, generator: Generator) -> list[Tensor]:
        """See ``LabelSplit``; the remainder after division by the number of clients is unused."""
        order = torch.randperm(len(y), generator=generator)
        labels = y[order]
        piles = [order[labels == label].tolist() for label in y.unique()]
        shape = torch.full((clients, len(piles)), self.alpha + 1, dtype=torch.float64)
        # Gamma(alpha) from Gamma(alpha + 1), in logarithms, so that nothing underflows to zero.
        gamma = torch._standard_gamma(shape, generator=generator)
        uniform = 1 - torch.rand(shape.shape, generator=generator, dtype=torch.float64)
        # [K, classes]: one row per client, with sum 1
        preferences = (gamma.log() + uniform.log() / self.alpha).softmax(1)
        groups = []
        for preference in preferences:
            group = [_drawn(piles, preference, generator) for _ in range(len(y) // clients)]
            groups.append(torch.tensor(group))
        return groups


def _drawn(piles: list[list[int]], preference: Tensor, generator: Generator) -> int:
    """One sample from the piles, by preference among the piles that are not empty."""
    left = torch.tensor([float(len(pile) > 0) for pile in piles], dtype=torch.float64)
    # If the preference for every remaining pile is nearly 0, any of them is drawn.
    chances = preference * left + 1e-12 * left
    return piles[int(torch.multinomial(chances, 1, generator=generator))].pop()


@dataclass(frozen=True)
class predicted_step(UpdateAttack):
    """Trains nothing: sends a prediction of the server's step, with the length of an honest update.

    The prediction is the server's last step, or zeros in round 1. The step is a mean of updates
    that partly cancel, so it is scaled to the length of the update that the client would have
    trained. A real attacker would learn this length from one honest round.
    source  a simple form of ACE [arXiv 2405.20975], which predicts the next global step
    """

    looks_around = False

    def sends(self, known: Known) -> Tensor:
        """See ``UpdateAttack``."""
        tiny = torch.finfo(known.theta.dtype).tiny  # zeros have no direction and stay zeros
        direction = torch.nn.functional.normalize(known.last_step, dim=0, eps=tiny)
        return direction * known.update.norm()


@dataclass(frozen=True)
class World:
    """A scenario of the bench.

    make       (data, seed) -> federation and model
    family     the column of the leaderboard in which it counts
    `truth`    name of the world whose retraining judges it; empty: its own; None: no world
    beside     for a world without any: the world in which its attacker is honest
    per_round  how many clients participate in a round; None: all
    sampled    how many orderings estimate its reference values; 0: all coalitions are retrained
    seeds      how many of the public seeds it has, and how many of the held-out seeds
    clients    number of clients
    rounds, local, metric  of every run: number of rounds, local training, metric of worth
    bad        ids of the clients known to be of less use; None: nothing is known; DRAWN: the
               corrupted clients of the seed's federation
    version    of the bench that began with it; its files are in that version's folder
    rule       how rounds and reference values are aggregated: one of ``recording.RULES``
    counted    with an attack: whose scores count together; the first is the id without the attack
    harmed     whether the attack succeeds if these scores fall
    """

    make: Scenario
    family: str
    truth: str | None = ""
    beside: str = TWIN
    per_round: int | None = None
    sampled: int = 0
    seeds: int = 10
    source: str = SOURCE
    clients: int = CLIENTS
    rounds: int = ROUNDS
    local: LocalSGD = LOCAL
    metric: Metric = "loss"
    bad: tuple[int, ...] | None = None
    version: int = 1
    rule: str = "mean"
    counted: tuple[int, ...] = (ATTACKER,)
    harmed: bool = False

    def made(self, seed: int) -> Made:
        """The federation and the model of a seed."""
        fed, net = self.make(self.source, seed)
        # A copy, because every training run begins anew.
        return fed, snapshot(net)

    def worse(self, seed: int) -> list[int] | None:
        """Ids of the clients known to be of less use; None if there are none, or if all are."""
        if self.bad is None:
            return None
        fed = self.made(seed)[0] if self.bad == DRAWN else None
        worse = sorted(self.bad if fed is None else fed.corrupted)
        return worse if 0 < len(worse) < (fed or self).clients else None


def _standing(family: str, *names: str, source: str = SOURCE, seeds: int = 10) -> dict[str, World]:
    before = "" if source == SOURCE else f"{family}: "
    return {
        f"{before}{name}": World(
            SCENARIOS[name], family, source=source, seeds=seeds, bad=BAD.get(name)
        )
        for name in names
    }


def _skewed(split: Split) -> dict[str, World]:
    """Wrong labels and noisy inputs at clients that hold different classes."""
    makers = {
        "wrong labels": dealt(split, FlipLabels),
        "noisy inputs": dealt(split, noisier_inputs),
    }
    return {
        f"{dirt}, Dirichlet 0.5": World(make, "dirt under skew", bad=WORSE)
        for dirt, make in makers.items()
    }


def _graded(family: str, seen: Callable[[Federation, int], Federation]) -> World:
    """Wrong labels in increasing shares, other server samples, the same reference values."""

    def make(source: str, seed: int) -> tuple[Federation, Model]:
        fed, net = SCENARIOS[GRADED](source, seed)
        return seen(fed, seed), net

    return World(make, family, truth=GRADED, bad=WORSE)


def _first(count: int) -> Callable[[Federation, int], Federation]:
    def seen(fed: Federation, seed: int) -> Federation:
        inputs, labels = fed.validation  # in random order
        return replace(fed, validation=(inputs[:count], labels[:count]))

    return seen


def _lacking(fed: Federation, seed: int) -> Federation:
    """The server has no sample of one class, which depends on the seed."""
    inputs, labels = fed.validation
    kept = labels != seed % fed.classes
    return replace(fed, validation=(inputs[kept], labels[kept]))


def _attacked(attack: UpdateAttack, family: str = "attacks", beside: str = TWIN) -> World:
    """A world with one client that attacks."""

    def make(source: str, seed: int) -> tuple[Federation, Model]:
        fed, net = SCENARIOS[beside](source, seed)
        return replace(fed, attacks={ATTACKER: attack}, truth={ATTACKER: repr(attack)}), net

    return World(make, family, truth=None, beside=beside)


def _knowing() -> Iterator[tuple[str, World]]:
    """The attacks of version 2, in families by what the attacker must know."""
    for family, attacks in KNOWING.items():
        for name, attack in attacks.items():
            yield f"attack: {name}", replace(_attacked(attack, family), version=2)
    harm = _attacked(Against(VICTIM), "against another")
    yield "attack: against another", replace(harm, version=2, counted=(VICTIM,), harmed=True)
    names = World(_two_names, "two names", truth=None, clients=CLIENTS + 1)
    yield "attack: two names", replace(names, version=2, counted=(ATTACKER, CLIENTS))


def _two_names(source: str, seed: int) -> Made:
    """The attacker shares its samples among two names; both train."""
    fed, net = SCENARIOS[TWIN](source, seed)
    return fed.under_names(ATTACKER), net


def _ruled(family: str, rule: str) -> dict[str, World]:
    """Scenarios of version 1 where the server aggregates by another rule."""
    names = (TWIN, GRADED)
    made = {f"{rule}: {name}": World(SCENARIOS[name], family, bad=BAD.get(name)) for name in names}
    return {name: replace(world, version=2, rule=rule) for name, world in made.items()}


def _hospitals(judge: str) -> World:
    """Four real hospitals; one of them, or all, hold the samples of the server and of the test."""

    def make(source: str, seed: int) -> Made:
        fed = four_hospitals(judge, seed=seed).to(dtype=torch.float64)
        return fed, mlp(fed.x.shape[1], 8, fed.classes)

    return World(make, "four hospitals", clients=len(HOSPITALS), local=PATIENTS, version=2)


def _crowd(clients: int, orders: int) -> dict[str, World]:
    """Many clients with few samples each; wrong labels rise from 0 to 70 % over the clients."""
    levels = [LEVELS[-1] * client / (clients - 1) for client in range(clients)]
    corrupt = {client: FlipLabels(level) for client, level in enumerate(levels) if level}
    worse = tuple(range(clients // 2, clients))
    # Equal numbers for all clients, because one more sample would reveal a clean client.
    samples = 1000 // clients * clients

    def make(source: str, seed: int) -> tuple[Federation, Model]:
        _, net = SCENARIOS["alike"](source, seed)
        data = load(source, dtype=torch.float64)
        fed = federation(data, clients=clients, samples=samples, corrupt=corrupt, seed=seed)
        return fed, net

    name = f"wrong labels, {clients} clients"
    family = f"{clients} clients"
    world = World(make, family, sampled=orders, seeds=5, clients=clients, bad=worse)
    return {name: world}


def _convolved(source: str, seed: int) -> Made:
    """Wrong labels in increasing shares; a network with one convolution, on 8 x 8 pixels."""
    fed, _ = SCENARIOS[GRADED](source, seed)
    return fed, cnn((1, 8, 8), fed.classes, channels=(8,), kernel=3, hidden=32)


ATTACKS: dict[str, UpdateAttack] = {
    "scale x2": Scale(2),
    "scale x4": Scale(4),
    "replay": Replay(),
    "predicted step": predicted_step(),
    "sign flip": SignFlip(),
    "zero update": FreeRide(0.0),
    "noise": FreeRide(0.01),
}
KNOWING: dict[str, dict[str, UpdateAttack]] = {
    "attacker sees the steps": {"noisy replay": NoisyReplay(), "L-BFGS step": PredictedStep()},
    "attacker sees lengths": {
        "replay at median length": AtMedianLength(Replay()),
        "disguise": Disguise(),
    },
    "attacker sees an update": {"copied update": CopyOf(VICTIM)},
    "withheld work": {"withheld work": Withhold(ROUNDS // 2 + 1)},
}
WORLDS: dict[str, World] = {
    **_standing("alike", "alike"),
    **_standing("sizes", "sizes"),
    **_standing("skew", "Dirichlet 0.5", "Dirichlet 0.1"),
    "even Dirichlet 0.5": World(dealt(even_dirichlet(0.5)), "skew, even sizes"),
    "even Dirichlet 0.1": World(dealt(even_dirichlet(0.1)), "skew, even sizes"),
    **_standing("dirt", "wrong labels", "noisy inputs", "irrelevant"),
    **_skewed(DirichletLabels(0.5, floor=5)),
    **_standing("replicas", "replicas"),
    **_standing("rare class", "rare class"),
    **{f"validation {count}": _graded("few samples", _first(count)) for count in (100, 50, 20)},
    "validation lacks a class": _graded("few samples", _lacking),
    "half the clients a round": replace(
        _graded("half a round", lambda fed, seed: fed), per_round=4
    ),
    **{f"attack: {name}": _attacked(attack) for name, attack in ATTACKS.items()},
    "alike, scale x4": _attacked(Scale(4), "an attack among alike", "alike"),
    **_standing("messages", "sizes", "wrong labels", source="sms-synthetic"),
    **_standing("MNIST", "Dirichlet 0.5", "wrong labels", source="mnist5k", seeds=5),
    # A convolution needs larger steps: at 0.2 it has learned little after 20 rounds.
    "cnn: wrong labels": World(_convolved, "cnn", seeds=5, local=replace(LOCAL, lr=0.5), bad=WORSE),
    **_crowd(30, 32),
    **_crowd(100, 12),
    **dict(_knowing()),
    **_ruled("server momentum", "momentum"),
    **_ruled("median", "median"),
    "hospitals: all judge": _hospitals("all"),
    **{f"hospitals: {judge} judges": _hospitals(judge) for judge in HOSPITALS},
}
FAMILIES = tuple(dict.fromkeys(world.family for world in WORLDS.values()))


def chosen(names: Iterable[str] | None) -> dict[str, World]:
    """Worlds by name, by default all of them; ValueError for an unknown name."""
    asked = list(WORLDS) if names is None else list(names)
    return {checks.choice("scenarios", name, tuple(WORLDS)): WORLDS[name] for name in asked}
