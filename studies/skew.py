"""Skew: can a server that sees no labels tell label skew from similar label mixes?

Evidence 10 and *Which score?* read these results. Five quantities that a server can compute are
held against what matters: whether the loss of each client's own model still finds wrong labels.
Below: protocols, results. Above: lessons, advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Round, Step
from fedlab_mini.gate.networks import mlp
from fedlab_mini.gate.training import train
from fedlab_mini.judge.metrics import detection_auc
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.worlds.attacks import FreeRide
from fedlab_mini.worlds.corrupt import FlipLabels
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.partition import DirichletLabels

from .protocols import study
from .results import Results
from .study import Claim, Derived, Row

SAMPLES = 50  # per client, on average
SPLITS = {
    "Dirichlet 0.1": 0.1,
    "Dirichlet 0.5": 0.5,
    "Dirichlet 1": 1.0,
    "Dirichlet 5": 5.0,
    "IID": None,
}
DATA = ("digits", "mnist5k")
CLEAN, WRONG = "clean", "two wrong, one idle"
FINDS = 0.9  # the AUC from which own loss counts as finding wrong labels
ROUND = 2  # in which the server looks
RISE, ROWS, MIXES, COSINE, RECALL = (
    "rise of own loss",
    "rows of the last layer",
    "predicted label mixes",
    "mean pairwise cosine",
    "recall by class",
)
# Above it the label mixes count as skewed; for the cosine, below it. Fixed on the seeds to look at.
LIMITS = {RISE: -0.02, ROWS: 0.48, MIXES: 0.13, COSINE: 0.16, RECALL: 0.32}
ALL, BETWEEN, ENDS = "all federations", "Dirichlet 1 or 5", "Dirichlet 0.1 or IID"
SEEN, AUC, MEAN_COSINE, DISTANCE = "seen", "AUC", "AUC of the mean cosine", "distance of mixes"
ERRS, CALLED = "errs", "called skewed"
MISSED, ALARM = "errs if it says similar", "errs if it says skewed"
LENGTHS = (8, 32)
LONG = ("Dirichlet 0.1", "Dirichlet 0.5", "Dirichlet 1", "IID")


@cache
def samples(name: str) -> Dataset:
    """A data set, read once."""
    return load(name)


@dataclass(frozen=True)
class Kind:
    """What is varied from one federation to the next."""

    data: str
    clients: int
    epochs: int
    split: str
    corrupted: str

    @property
    def name(self) -> str:
        """The name of its scenario."""
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        return f"{self.data}, {self.clients} clients, {epochs}, {self.split}, {self.corrupted}"

    @property
    def long(self) -> bool:
        """Whether it is also trained for many rounds, if its split is among those."""
        return (self.data, self.clients, self.epochs, self.corrupted) == (DATA[0], 8, 1, WRONG)

    @property
    def hard(self) -> bool:
        """Whether clients take many steps on similar data: read late, it looks like skew."""
        return (self.data, self.epochs, self.split, self.corrupted) == (DATA[1], 5, "IID", CLEAN)

    def made(self, seed: int) -> tuple[Federation, Model]:
        """The federation and its model. The last two clients' labels are all wrong, one is idle."""
        data, last = samples(self.data), self.clients - 1
        bad = {last: FlipLabels(1.0), last - 1: FlipLabels(1.0), last - 2: FreeRide()}
        alpha = SPLITS[self.split]
        fed = federation(
            data,
            clients=self.clients,
            samples=SAMPLES * self.clients,
            split=None if alpha is None else DirichletLabels(alpha, floor=10),
            corrupt=bad if self.corrupted == WRONG else {},
            seed=seed,
        )
        return fed, mlp(data.x[0].numel(), 32, data.classes)


# Twenty clients take one epoch only, which halves the time.
WORK = ((8, 1), (20, 1), (8, 5))  # clients, epochs
KINDS = [
    Kind(data, *work, split, corrupted)
    for data, work, split, corrupted in product(DATA, WORK, SPLITS, (CLEAN, WRONG))
]


def distance(mixes: Tensor) -> Tensor:
    """Total variation distance of every pair of mixes [K, classes]: [K (K - 1) / 2]."""
    one, other = torch.triu_indices(len(mixes), len(mixes), 1)
    return (mixes[one] - mixes[other]).abs().sum(1) / 2


def rise(net: Model, round: Round, fed: Federation) -> float:
    """By how much the median client's own training raises the validation loss."""
    models = torch.cat([round.theta[None], round.theta + round.updates])
    loss = net.evaluate(models, *fed.validation, "loss")
    return float((loss[1:] - loss[0]).median())


def rows_of_last_layer(net: Model, round: Round) -> float:
    """How far clients differ in which classes' weights they change: the median pair."""
    weight, bias = net.split(round.updates.double())[-2:]  # [m, classes, h] and [m, classes]
    squares = weight.square().sum(2) + bias.square()
    return float(distance(squares / squares.sum(1, keepdim=True)).median())


def pairwise_cosine(round: Round) -> float:
    """The mean cosine of two clients' updates."""
    units = normalize(round.updates.double(), dim=1)
    count = len(units)
    return float((units.sum(0).square().sum() - count) / (count * (count - 1)))


def judged_by_class(net: Model, round: Round, fed: Federation) -> tuple[float, float]:
    """How far the models differ in their mean probability of each class; spread of recall.

    The first is the mean over pairs. Recall's spread is over the classes, of the median client
    """
    x, y = fed.validation
    out = torch.stack([net.forward(one, x).double() for one in round.theta + round.updates])
    labels = one_hot(y, fed.classes).double()
    recall = (out.argmax(2) == y).double() @ labels / labels.sum(0)  # [m, classes]
    return float(distance(out.softmax(2).mean(1)).mean()), float(recall.std(1).median())


def observed(net: Model, round: Round, fed: Federation) -> dict[str, float]:
    """All five quantities of a round."""
    mixes, recall = judged_by_class(net, round, fed)
    return {
        RISE: rise(net, round, fed),
        ROWS: rows_of_last_layer(net, round),
        MIXES: mixes,
        COSINE: pairwise_cosine(round),
        RECALL: recall,
    }


def detected(net: Model, round: Round, fed: Federation) -> tuple[float, float]:
    """The AUC with which own loss, and the mean cosine, find the two clients with wrong labels."""
    idle = fed.clients - 3
    others = [client for client in range(fed.clients) if client != idle]
    wrong = [len(others) - 2, len(others) - 1]
    models = round.theta + round.updates
    own = -net.evaluate(models, *fed.validation, "loss")
    units = normalize(round.updates.double(), dim=1)
    cosines = units @ (round.sizes.double() @ round.updates.double())
    return detection_auc(own[others], wrong), detection_auc(cosines[others], wrong)


def rows(
    seed: int,
    *,
    data: Sequence[str] = DATA,
    clients: Sequence[int] = (8, 20),
    epochs: Sequence[int] = (1, 5),
    splits: Sequence[str] = tuple(SPLITS),
    lengths: Sequence[int] = LENGTHS,
    long: Sequence[str] = LONG,
) -> Iterator[Row]:
    """What the server sees in round 2, and whether own loss finds wrong labels.

    lengths  further rounds to look at, of eight clients with digits and one epoch, two wrong; the
             first of them also of IID clients with MNIST and five epochs
    long     splits for which this is done
    """
    for kind in KINDS:
        if kind.data not in data or kind.clients not in clients or kind.epochs not in epochs:
            continue
        if kind.split not in splits:
            continue
        fed, net = kind.made(seed)
        later = lengths if kind.long and kind.split in long else lengths[: int(kind.hard)]
        looks = (ROUND, *later)
        seen: list[Round] = []

        def watch(round: Round, step: Step, looks=looks, seen=seen) -> None:
            if round.t in looks:
                seen.append(round)

        local = LocalSGD(epochs=kind.epochs, batch=20, lr=0.2)
        train(fed, net, FedAvg(), rounds=max(looks), local=local, seed=seed, watch=watch)
        if kind.corrupted == CLEAN:
            counts = fed.label_counts.double()
            mixes = distance(counts / counts.sum(1, keepdim=True))
            yield kind.name, "labels", DISTANCE, float(mixes.mean())
        for round in seen:
            at_first = round.t == ROUND
            found = observed(net, round, fed) if at_first else {RISE: rise(net, round, fed)}
            for name, value in found.items():
                yield kind.name, name, f"{SEEN} @ {round.t}", value
            if kind.corrupted == WRONG:
                own, cosine = detected(net, round, fed)
                yield kind.name, "own loss", f"{AUC} @ {round.t}", own
                if at_first:
                    yield kind.name, "own loss", f"{MEAN_COSINE} @ {round.t}", cosine


def says_skewed(rule: str, seen: Tensor) -> Tensor:
    """Whether a rule calls federations skewed, by what the server has seen."""
    # Updates of clients with different mixes point apart, so a low cosine speaks of skew.
    return seen < LIMITS[rule] if rule == COSINE else seen > LIMITS[rule]


GROUPS: dict[str, Callable[[Kind], bool]] = {
    ALL: lambda kind: True,
    "digits": lambda kind: kind.data == "digits",
    "MNIST": lambda kind: kind.data == "mnist5k",
    "8 clients": lambda kind: kind.clients == 8,
    "20 clients": lambda kind: kind.clients == 20,
    "1 epoch": lambda kind: kind.epochs == 1,
    "5 epochs": lambda kind: kind.epochs == 5,
    "all clean": lambda kind: kind.corrupted == CLEAN,
    WRONG: lambda kind: kind.corrupted == WRONG,
    BETWEEN: lambda kind: kind.split in ("Dirichlet 1", "Dirichlet 5"),
    ENDS: lambda kind: kind.split in ("Dirichlet 0.1", "IID"),
    **{split: lambda kind, split=split: kind.split == split for split in SPLITS},  # type: ignore[misc]
}


def finds(results: Results, kind: Kind, t: int = ROUND) -> Tensor:
    """Whether own loss finds wrong labels in round t of such a federation, [seeds]."""
    twin = replace(kind, corrupted=WRONG)
    return results.values(f"{AUC} @ {t}", "own loss", twin.name) >= FINDS


def rates(results: Results) -> Derived:
    """For each seed: how often every rule errs, by kind of federation and by what it says."""
    if any(not results.has(f"{SEEN} @ {ROUND}", RISE, kind.name) for kind in KINDS):
        return  # a probe, which has too few federations
    for group, holds in GROUPS.items():
        kinds = [kind for kind in KINDS if holds(kind)]
        found = torch.stack([finds(results, kind) for kind in kinds])
        for rule in LIMITS if group == ALL else (RISE,):
            seen = [results.values(f"{SEEN} @ {ROUND}", rule, kind.name) for kind in kinds]
            skewed = says_skewed(rule, torch.stack(seen))
            wrong = (skewed == found).double()
            yield group, rule, ERRS, wrong.mean(0)
            yield group, rule, CALLED, skewed.double().mean(0)
            if group == ALL:
                yield group, rule, MISSED, (wrong * ~skewed).sum(0) / (~skewed).sum(0)
                yield group, rule, ALARM, (wrong * skewed).sum(0) / skewed.sum(0)
    for split in SPLITS:
        names = [k.name for k in KINDS if (k.split, k.corrupted) == (split, WRONG)]
        for method, metric in (("own loss", AUC), ("mean cosine", MEAN_COSINE)):
            of_all = [results.values(f"{metric} @ {ROUND}", "own loss", name) for name in names]
            yield split, method, AUC, torch.stack(of_all).mean(0)
    long = [kind for kind in KINDS if kind.long and kind.split in LONG]
    for t in LENGTHS:
        found = torch.stack([finds(results, kind, t) for kind in long])
        seen = [results.values(f"{SEEN} @ {ROUND}", RISE, kind.name) for kind in long]
        wrong = (says_skewed(RISE, torch.stack(seen)) == found).double()
        yield f"round {ROUND}'s word on round {t}", RISE, ERRS, wrong.mean(0)
    for t in (ROUND, LENGTHS[0]):
        hard = [kind.name for kind in KINDS if kind.hard]
        seen = [results.values(f"{SEEN} @ {t}", RISE, name) for name in hard]
        place = f"IID, MNIST, 5 epochs, round {t}"
        yield place, RISE, CALLED, says_skewed(RISE, torch.stack(seen)).double().mean(0)


def says(sentence: str, metric: str, a: str, b: str = "", at: str = ALL, **ends: float) -> Claim:
    """A claim of the book; ends: low, high."""
    return Claim(sentence, metric, a, b, at, source="book", **ends)  # type: ignore[arg-type]


CLAIMS = {
    "errs": says("The rule errs in 5 to 15 of 100 federations", ERRS, RISE, low=0.05, high=0.15),
    **{
        group: says(f"{group}: the rule errs in less than a fifth", ERRS, RISE, at=group, high=0.2)
        for group in (
            *("digits", "MNIST", "8 clients", "20 clients", "1 epoch", "5 epochs", "all clean"),
            WRONG,
        )
    },
    "says skewed": says(
        "If it says skewed, it errs in less than 15 of 100", ALARM, RISE, high=0.15
    ),
    "says similar": says(
        "If it says similar, it errs in more than 5 of 100", MISSED, RISE, low=0.05
    ),
    "between": says(
        "At Dirichlet 1 and 5 it errs in more than a tenth", ERRS, RISE, at=BETWEEN, low=0.1
    ),
    "ends": says(
        "Under strong skew and IID it errs in less than a tenth", ERRS, RISE, at=ENDS, high=0.1
    ),
    **{
        rival: says(f"It errs less often than by {rival}", ERRS, RISE, rival, high=0)
        for rival in (ROWS, MIXES, COSINE, RECALL)
    },
    "own loss, IID": says("Among IID clients own loss finds wrong labels", AUC, "own loss",
                          at="IID", low=0.95),
    "own loss, Dirichlet 0.5": says(
        "At Dirichlet 0.5 own loss does not find them", AUC, "own loss", at="Dirichlet 0.5",
        high=0.7,
    ),
    "mean cosine, Dirichlet 0.5": says(
        "At Dirichlet 0.5 the mean cosine finds them", AUC, "mean cosine", at="Dirichlet 0.5",
        low=0.8,
    ),
    "word on 32": says(
        "Round 2's word still fits in round 32", ERRS, RISE, at="round 2's word on round 32",
        high=0.3,
    ),
    "word on 8": says(
        "Round 2's word still fits in round 8", ERRS, RISE, at="round 2's word on round 8",
        high=0.3,
    ),
    "late": says(
        "After five epochs per round, read in round 8, it calls IID clients skewed", CALLED, RISE,
        at="IID, MNIST, 5 epochs, round 8", low=0.5,
    ),
}  # fmt: skip
SHORT = {"data": ("digits",), "epochs": (1,), "splits": ("Dirichlet 0.5",), "lengths": ()}
STUDIES = (study("label-skew", rows, CLAIMS.values(), rates, probe=SHORT),)
