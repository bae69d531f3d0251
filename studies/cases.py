"""Cases: what every score says of six clinics and of four hospitals, beside retraining.

All lessons read these results. Reference values come from two training runs of all coalitions, at
five lengths; scores come from a third training run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import fedlab_bench as fb  # registers the scores of the bench  # noqa: F401
import fedlab_mini as fm
from fedlab_mini.worlds.data.heart import HOSPITALS

from .protocols import study
from .study import Row

LENGTHS = (6, 12, 24, 48, 96)  # rounds at which a training run is judged
ROUNDS = 48  # of the run that scores read
TIMES = (1, 4, 16)  # how much longer learned scores train
ALL = "all clients"  # the scenario of what belongs to no single client
RETRAINED, AGAIN = "retrained", "retrained again"
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
SIMULATIONS = 15  # of FedCCEA, and 4 and 16 times as many
CLINICS = fm.LocalSGD(epochs=5, batch=32, lr=0.1)
PATIENTS = fm.LocalSGD(epochs=5, batch=16, lr=0.05)


def retrained(
    fed: fm.Federation, net: fm.Model, local: fm.LocalSGD, seed: int, lengths: Sequence[int]
) -> Iterator[tuple[str, str, Tensor]]:
    """Values of the training runs of all coalitions: method, metric @ length, values [K]."""
    coalitions = fm.all_coalitions(fed.clients)
    participation = coalitions[:, None, :].expand(-1, max(lengths), -1)
    for measure in ("accuracy", "loss"):
        curves = fm.simulate(fed, net, participation, local=local, seed=seed, metric=measure)
        worths = -curves if measure == "loss" else curves
        for length in lengths:
            game = fm.Game(fed.clients, _Worths(coalitions, worths[:, length - 1]))
            values = fm.exact(game).values
            yield measure, f"value @ {length}", values
            yield measure, f"share @ {length}", values / values.sum()
            if measure == "accuracy":
                left_out, alone = fm.leave_one_out(game), fm.alone(game)
                yield f"{measure}, leave one out", f"value @ {length}", left_out.values
                yield f"{measure}, alone", f"value @ {length}", alone.values


@dataclass(frozen=True)
class _Worths:
    """The worth of a coalition, looked up among those of all coalitions, [2^K, K] and [2^K]."""

    coalitions: Tensor
    worths: Tensor

    def __call__(self, wanted: Tensor) -> Tensor:
        places = (wanted[:, None, :] == self.coalitions).all(2).int().argmax(1)
        return self.worths[places]


def twice_retrained(
    fed: fm.Federation,
    net: fm.Model,
    local: fm.LocalSGD,
    seed: int,
    lengths: Sequence[int],
    of: str,
) -> Iterator[Row]:
    """Reference values by two training runs, and how far both agree."""
    seen: dict[tuple[str, str], list[Tensor]] = {}
    for run, name in enumerate((RETRAINED, AGAIN)):
        for measure, metric, values in retrained(fed, net, local, 3 * seed + run, lengths):
            seen.setdefault((measure, metric), []).append(values)
            yield from per_client(fed, f"{name}, {measure}{of}", metric, values)
    for (measure, metric), (one, other) in seen.items():
        if metric.startswith("value"):
            place = metric.partition(" @ ")[2]
            yield ALL, f"{RETRAINED}, {measure}{of}", f"tau @ {place}", fm.kendall(one, other)


def per_client(fed: fm.Federation, method: str, metric: str, values: Tensor) -> Iterator[Row]:
    """One row for each client, whose name is the scenario."""
    return ((name, method, metric, float(v)) for name, v in zip(fed.names, values, strict=True))


def scores_of_rounds(
    fed: fm.Federation, net: fm.Model, local: fm.LocalSGD, seed: int, rounds: int, of: str
) -> Iterator[Row]:
    """Scores that read one run of federated averaging and change nothing in it."""
    seen: list[dict] = []

    def watch(round: object, step: object) -> None:
        parts = ("theta", "updates", "clients", "sizes")
        seen.append({part: getattr(round, part) for part in parts})

    fm.train(fed, net, fm.FedAvg(), rounds=rounds, local=local, seed=seed, watch=watch)
    frame = fm.score(seen, net=net, validation=fed.validation, methods=list(READ))
    for name in READ:
        values = torch.tensor(frame[name].to_numpy())
        yield from per_client(fed, f"{name}{of}", f"score @ {rounds}", values)


def scores_of_strategies(
    fed: fm.Federation,
    net: fm.Model,
    local: fm.LocalSGD,
    seed: int,
    rounds: int,
    times: Iterable[int],
    of: str,
) -> Iterator[Row]:
    """Scores of strategies that act on them, each in its own run, also for more rounds."""
    for name, strategy in OWN.items():
        lengths = [rounds * many for many in times if many == 1 or name in LEARNED]
        history = fm.train(fed, net, strategy, rounds=max(lengths), local=local, seed=seed)
        for length in lengths:
            yield ALL, f"{name}{of}", f"accuracy @ {length}", float(history.accuracy[length])
            if name != "FedAvg":
                scores = history.scores[length - 1]
                yield from per_client(fed, f"{name}{of}", f"score @ {length}", scores)


def learned_from_sizes(
    fed: fm.Federation,
    net: fm.Model,
    local: fm.LocalSGD,
    seed: int,
    rounds: int,
    times: Iterable[int],
    of: str,
) -> Iterator[Row]:
    """FedCCEA's index, from few simulations and from more, fitted to convergence."""
    for many in times:
        found = fm.fedccea(
            fed, net, simulations=SIMULATIONS * many, rounds=rounds, local=local, seed=seed
        )
        yield from per_client(fed, f"FedCCEA{of}", f"score @ {rounds * many}", found.index)


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
    fed, net = fm.six_clinics(seed), fm.mlp(64, 32, 10)
    yield from twice_retrained(fed, net, CLINICS, seed, lengths, "")
    given = (fed, net, CLINICS, 3 * seed + 2, rounds)
    yield from scores_of_rounds(*given, "")
    yield from scores_of_strategies(*given, times, "")
    yield from learned_from_sizes(*given, times, "")


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
    net = fm.mlp(14, 8, 2)
    for judge in judges:
        fed, of = fm.four_hospitals(judge, seed=seed), f", judged by {judge}"
        yield from twice_retrained(fed, net, PATIENTS, seed, lengths, of)
        given = (fed, net, PATIENTS, 3 * seed + 2, rounds)
        yield from scores_of_rounds(*given, of)
        yield from scores_of_strategies(*given, times if judge == "all" else (1,), of)
        yield from learned_from_sizes(*given, (1,), of)


SHORT = {"lengths": (1,), "rounds": 1, "times": (1,)}
STUDIES = (
    study("clinics", clinic_rows, probe=SHORT),
    study("hospitals", hospital_rows, probe=SHORT | {"judges": ("Switzerland",)}),
)
