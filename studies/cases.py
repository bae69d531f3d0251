"""Cases: what every score says of six clinics and of four hospitals, beside retraining.

All lessons read these results. Reference values come from two training runs of all coalitions, at
five lengths; scores come from a third training run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import fedlab_bench as fb  # registers the scores of the bench  # noqa: F401
import fedlab_mini as fm
from fedlab_mini.engine.minibatches import Shuffles
from fedlab_mini.engine.outputs import quality
from fedlab_mini.engine.simulate import Block, Simulation
from fedlab_mini.gate.training import starting_model
from fedlab_mini.parse.samples import Samples
from fedlab_mini.worlds.data.heart import HOSPITALS

from .case_claims import AGAIN, ALL, OF_CLINICS, OF_HOSPITALS, RETRAINED, gained
from .protocols import study
from .study import Row

LENGTHS = (6, 12, 24, 48, 96)  # rounds at which a training run is judged
ROUNDS = 48  # of the run that scores read
TIMES = (1, 4, 16)  # how much longer learned scores train
READ = (
    *("size", "alone", "leave one out", "Shapley", "Shapley, silent", "first order"),
    *(
        "second order",
        "second order, capped",
        "mean cosine",
        "class cosine",
        "S-FedAvg's relevance",
    ),
)
# Strategies that decide something by their score have a training run of their own.
OWN: dict[str, fm.FedAvg] = {
    "CGSV": fm.CGSV(),
    "CGSV as published": fm.CGSV(literal=True),
    "F-RCCE": fm.FRCCE(),
    "F-RCCE as published": fm.FRCCE(literal=True),
    "FLDVE": fm.FLDVE(),
    "FLDVE as published": fm.FLDVE(literal=True),
    "S-FedAvg": fm.SFedAvg(m=3),
    "S-FedAvg as published": fm.SFedAvg(m=3, literal=True),
    "FedAvg": fm.FedAvg(),
}
LEARNED = ("F-RCCE", "F-RCCE as published", "FLDVE", "FLDVE as published")
JUDGING = ("F-RCCE", "FLDVE", "S-FedAvg")  # rules that depend on whose samples judge
SIMULATIONS = 15  # of FedCCEA, and 4 and 16 times as many
# One thing about one clinic changes, and everything else stays.
CHANGES: dict[str, dict[str, Any]] = {
    "as they are": {},
    **{f"Alder {size}": {"alder": size} for size in (150, 225, 400)},
    **{f"Damson {wrong:.0%} wrong": {"damson": wrong} for wrong in (0.0, 0.25, 0.75, 1.0)},
    "Elm has its own": {"elm_copies": False},
    "Fir trains": {"fir_trains": True},
}
CLINICS = fm.LocalSGD(epochs=5, batch=32, lr=0.1)
PATIENTS = fm.LocalSGD(epochs=5, batch=16, lr=0.05)


@dataclass(frozen=True)
class Case:
    """A federation, how it is trained, and what the names of its methods end with.

    seed  of the data; the three training runs have seeds of their own
    """

    fed: fm.Federation
    net: fm.Model
    local: fm.LocalSGD
    seed: int
    of: str = ""

    def train(self, strategy: fm.FedAvg, rounds: int, **options: Any) -> fm.History:
        """The training run that scores read; retraining has two others."""
        given = {"local": self.local, "seed": 3 * self.seed + 2, **options}
        return fm.train(self.fed, self.net, strategy, rounds=rounds, **given)

    def rows(self, method: str, metric: str, values: Tensor) -> Iterator[Row]:
        """One row for each client, whose name is the scenario."""
        pairs = zip(self.fed.names, values, strict=True)
        return ((name, method, metric, float(value)) for name, value in pairs)


def worths(
    case: Case, seed: int, lengths: Sequence[int], judges: Mapping[str, Samples]
) -> dict[tuple[str, str, int], Tensor]:
    """{(judge, measure, length): worths of all coalitions [2^K]}, from one training run of each.

    It is what ``fm.retraining_game`` computes, for several lengths, measures and judges at once.
    """
    fed, local = case.fed, case.local
    coalitions = fm.all_coalitions(fed.clients)
    net, theta = starting_model(fed, case.net, max(lengths), local, seed)
    shuffles = Shuffles(fed, local, seed)
    simulation = Simulation(fed, net, theta, shuffles, "accuracy", "validation", last=True)
    found = defaultdict(list)
    for some in coalitions.split(32):
        block = Block(simulation, len(some))
        for t in range(1, max(lengths) + 1):
            block.one_round(some, t)
            if t in lengths:
                for judge, (x, y) in judges.items():
                    accuracy, loss = quality(net, block.thetas, x, y, "accuracy", "loss")
                    found[judge, "accuracy", t].append(accuracy)
                    found[judge, "loss", t].append(-loss)
    return {place: torch.cat(parts) for place, parts in found.items()}


@dataclass(frozen=True)
class _Worths:
    """The worth of a coalition, looked up among those of all coalitions, [2^K, K] and [2^K]."""

    coalitions: Tensor
    worths: Tensor

    def __call__(self, wanted: Tensor) -> Tensor:
        places = (wanted[:, None, :] == self.coalitions).all(2).int().argmax(1)
        return self.worths[places]


def twice_retrained(
    case: Case, lengths: Sequence[int], judges: Mapping[str, Samples]
) -> Iterator[Row]:
    """Reference values by two training runs of all coalitions, and how far both agree.

    judges  {what a method's name ends with: the samples that judge}
    """
    players = case.fed.clients
    coalitions = fm.all_coalitions(players)
    seen: dict[tuple[str, int], list[Tensor]] = defaultdict(list)
    for run, name in enumerate((RETRAINED, AGAIN)):
        told = worths(case, 3 * case.seed + run, lengths, judges)
        for (judge, measure, length), worth in told.items():
            game = fm.Game(players, _Worths(coalitions, worth))
            values, method = fm.exact(game).values, f"{measure}{judge}"
            seen[method, length].append(values)
            yield from case.rows(f"{name}, {method}", f"value @ {length}", values)
            shares = values / values.sum()
            yield from case.rows(f"{name}, {method}", f"share @ {length}", shares)
            if measure == "accuracy":
                for part, of in (("leave one out", fm.leave_one_out), ("alone", fm.alone)):
                    method = f"{measure}, {part}{judge}"
                    values = of(game).values
                    seen[method, length].append(values)
                    yield from case.rows(f"{name}, {method}", f"value @ {length}", values)
    for (method, length), (one, other) in seen.items():
        yield ALL, f"{RETRAINED}, {method}", f"tau @ {length}", fm.kendall(one, other)


def scores_of_rounds(case: Case, rounds: int) -> Iterator[Row]:
    """Scores that read one run of federated averaging and change nothing in it."""
    seen: list[dict] = []

    def watch(round: object, step: object) -> None:
        parts = ("theta", "updates", "clients", "sizes")
        seen.append({part: getattr(round, part) for part in parts})

    case.train(fm.FedAvg(), rounds, watch=watch)
    frame = fm.score(seen, net=case.net, validation=case.fed.validation, methods=list(READ))
    for name in READ:
        values = torch.tensor(frame[name].to_numpy())
        yield from case.rows(f"{name}{case.of}", f"score @ {rounds}", values)


def scores_of_strategies(
    case: Case, rounds: int, times: Iterable[int], names: Iterable[str] = tuple(OWN)
) -> Iterator[Row]:
    """Scores of strategies that act on them, each in its own run, also for more rounds."""
    for name in names:
        lengths = [rounds * many for many in times if many == 1 or name in LEARNED]
        history, method = case.train(OWN[name], max(lengths)), f"{name}{case.of}"
        for length in lengths:
            yield ALL, method, f"accuracy @ {length}", float(history.accuracy[length])
            if name != "FedAvg":
                scores = history.scores[length - 1]
                yield from case.rows(method, f"score @ {length}", scores)


def learned_from_sizes(case: Case, rounds: int, times: Iterable[int]) -> Iterator[Row]:
    """FedCCEA's index, from few simulations and from more, fitted to convergence."""
    for many in times:
        seed = 3 * case.seed + 2
        found = fm.fedccea(case.fed, case.net, SIMULATIONS * many, rounds, case.local, seed)
        yield from case.rows(f"FedCCEA{case.of}", f"score @ {rounds * many}", found.index)


def clinic_rows(
    seed: int,
    *,
    lengths: Sequence[int] = LENGTHS,
    rounds: int = ROUNDS,
    times: Sequence[int] = TIMES,
) -> Iterator[Row]:
    """What retraining and every score say of each of the six clinics.

    lengths  rounds at which the training runs of all coalitions are judged
    rounds   of the training runs that scores read
    times    how much longer the learned scores train
    """
    case = Case(fm.six_clinics(seed), fm.mlp(64, 32, 10), CLINICS, seed)
    yield from twice_retrained(case, lengths, {"": case.fed.validation})
    yield from scores_of_rounds(case, rounds)
    yield from scores_of_strategies(case, rounds, times)
    yield from learned_from_sizes(case, rounds, times)


def changed_rows(
    seed: int, *, changes: Sequence[str] = tuple(CHANGES), rounds: int = ROUNDS
) -> Iterator[Row]:
    """What retraining and some scores say of each clinic if one thing changes.

    changes  names in ``CHANGES``
    rounds   of every training run
    """
    for change in changes:
        fed = fm.six_clinics(seed, **CHANGES[change])
        case = Case(fed, fm.mlp(64, 32, 10), CLINICS, seed, f", {change}")
        told = worths(case, 3 * seed, (rounds,), {"": fed.validation})
        game = fm.Game(6, _Worths(fm.all_coalitions(6), told["", "accuracy", rounds]))
        values = fm.exact(game).values
        shares = values / values.sum()
        yield from case.rows(f"{RETRAINED}, accuracy{case.of}", f"share @ {rounds}", shares)
        yield from scores_of_rounds(case, rounds)
        yield from scores_of_strategies(case, rounds, (1,), ("CGSV",))


def hospital_rows(
    seed: int,
    *,
    judges: Sequence[str] = ("all", *HOSPITALS),
    lengths: Sequence[int] = LENGTHS,
    rounds: int = ROUNDS,
    times: Sequence[int] = TIMES,
) -> Iterator[Row]:
    """What retraining and every score say of each hospital, by whose patients judge.

    judges   whose patients the server holds
    lengths, rounds, times  as for the clinics
    """
    feds = {f", judged by {judge}": fm.four_hospitals(judge, seed=seed) for judge in judges}
    cases = [Case(fed, fm.mlp(14, 8, 2), PATIENTS, seed, of) for of, fed in feds.items()]
    # Who judges changes no training, so one training run of each coalition serves all judges.
    patients = {case.of: case.fed.validation for case in cases}
    yield from twice_retrained(cases[0], lengths, patients)
    for case in cases:
        names, many = (tuple(OWN), times) if case is cases[0] else (JUDGING, (1,))
        yield from scores_of_rounds(case, rounds)
        yield from scores_of_strategies(case, rounds, many, names)
        yield from learned_from_sizes(case, rounds, (1,))


SHORT = {"lengths": (1,), "rounds": 1, "times": (1,)}
STUDIES = (
    study("clinics", clinic_rows, OF_CLINICS.values(), derived=gained, probe=SHORT),
    study("clinics-changed", changed_rows, probe={"changes": ("Fir trains",), "rounds": 1}),
    study(
        "hospitals",
        hospital_rows,
        OF_HOSPITALS.values(),
        probe=SHORT | {"judges": ("Switzerland",)},
    ),
)
