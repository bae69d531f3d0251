"""Cases: what every score says of six clinics and of four hospitals, beside retraining.

All lessons read these results. Reference values come from two training runs of all coalitions, at
five lengths; scores come from a third training run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import fedlab_bench as fb  # registers the scores of the bench  # noqa: F401
import fedlab_mini as fm
from fedlab_mini.engine import guard
from fedlab_mini.engine.minibatches import Shuffles
from fedlab_mini.engine.outputs import judged
from fedlab_mini.engine.simulate import Block, Simulation
from fedlab_mini.worlds.data.dataset import Samples
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
JUDGING = ("F-RCCE", "FLDVE", "S-FedAvg")  # rules that depend on whose samples judge
SIMULATIONS = 15  # of FedCCEA, and 4 and 16 times as many
# One thing about one clinic changes, and everything else stays.
CHANGES: dict[str, dict] = {
    "as they are": {},
    **{f"Alder {size}": {"alder": size} for size in (150, 225, 400)},
    **{f"Damson {wrong:.0%} wrong": {"damson": wrong} for wrong in (0.0, 0.25, 0.75, 1.0)},
    "Elm has its own": {"elm_copies": False},
    "Fir trains": {"fir_trains": True},
}
CLINICS = fm.LocalSGD(epochs=5, batch=32, lr=0.1)
PATIENTS = fm.LocalSGD(epochs=5, batch=16, lr=0.05)


def worths(
    fed: fm.Federation,
    net: fm.Model,
    local: fm.LocalSGD,
    seed: int,
    lengths: Sequence[int],
    judges: Mapping[str, Samples],
) -> dict[tuple[str, str, int], Tensor]:
    """{(judge, measure, length): worths of all coalitions [2^K]}, from one training run of each.

    It is what ``fm.retraining_game`` computes, for several lengths, measures and judges at once.
    """
    coalitions = fm.all_coalitions(fed.clients)
    net, theta = guard.starting_model(fed, net, max(lengths), local, seed)
    shuffles = Shuffles(fed, local, seed)
    simulation = Simulation(fed, net, theta, shuffles, "accuracy", "validation", last=True)
    found = defaultdict(list)
    for some in coalitions.split(32):
        block = Block(simulation, len(some))
        for t in range(1, max(lengths) + 1):
            block.one_round(some, t)
            if t in lengths:
                for judge, (x, y) in judges.items():
                    accuracy, loss = judged(net, block.thetas, x, y, "accuracy", "loss")
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
    fed: fm.Federation,
    net: fm.Model,
    local: fm.LocalSGD,
    seed: int,
    lengths: Sequence[int],
    judges: Mapping[str, Samples],
) -> Iterator[Row]:
    """Reference values by two training runs of all coalitions, and how far both agree.

    judges  {what a method's name ends with: the samples that judge}
    """
    coalitions = fm.all_coalitions(fed.clients)
    seen: dict[tuple[str, int], list[Tensor]] = defaultdict(list)
    for run, name in enumerate((RETRAINED, AGAIN)):
        told = worths(fed, net, local, 3 * seed + run, lengths, judges)
        for (judge, measure, length), worth in told.items():
            game = fm.Game(fed.clients, _Worths(coalitions, worth))
            values, method = fm.exact(game).values, f"{measure}{judge}"
            seen[method, length].append(values)
            yield from per_client(fed, f"{name}, {method}", f"value @ {length}", values)
            shares = values / values.sum()
            yield from per_client(fed, f"{name}, {method}", f"share @ {length}", shares)
            if measure == "accuracy":
                for part, of in (("leave one out", fm.leave_one_out), ("alone", fm.alone)):
                    method = f"{measure}, {part}{judge}"
                    values = of(game).values
                    seen[method, length].append(values)
                    yield from per_client(fed, f"{name}, {method}", f"value @ {length}", values)
    for (method, length), (one, other) in seen.items():
        yield ALL, f"{RETRAINED}, {method}", f"tau @ {length}", fm.kendall(one, other)


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
    names: Iterable[str] = tuple(OWN),
) -> Iterator[Row]:
    """Scores of strategies that act on them, each in its own run, also for more rounds."""
    for name in names:
        lengths = [rounds * many for many in times if many == 1 or name in LEARNED]
        history = fm.train(fed, net, OWN[name], rounds=max(lengths), local=local, seed=seed)
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
    yield from twice_retrained(fed, net, CLINICS, seed, lengths, {"": fed.validation})
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
    feds = {f", judged by {judge}": fm.four_hospitals(judge, seed=seed) for judge in judges}
    # Who judges changes no training, so one training run of each coalition serves all judges.
    patients = {of: fed.validation for of, fed in feds.items()}
    first = next(iter(feds.values()))
    yield from twice_retrained(first, net, PATIENTS, seed, lengths, patients)
    for of, fed in feds.items():
        given = (fed, net, PATIENTS, 3 * seed + 2, rounds)
        yield from scores_of_rounds(*given, of)
        if fed is first:
            yield from scores_of_strategies(*given, times, of)
        else:
            yield from scores_of_strategies(*given, (1,), of, JUDGING)
        yield from learned_from_sizes(*given, (1,), of)


def changed_rows(
    seed: int, *, changes: Sequence[str] = tuple(CHANGES), rounds: int = ROUNDS
) -> Iterator[Row]:
    """What retraining and some scores say of each clinic if one thing changes.

    changes  names in ``CHANGES``
    rounds   of every training run
    """
    net = fm.mlp(64, 32, 10)
    for change in changes:
        fed, of = fm.six_clinics(seed, **CHANGES[change]), f", {change}"
        told = worths(fed, net, CLINICS, 3 * seed, (rounds,), {"": fed.validation})
        game = fm.Game(6, _Worths(fm.all_coalitions(6), told["", "accuracy", rounds]))
        values = fm.exact(game).values
        shares = values / values.sum()
        yield from per_client(fed, f"{RETRAINED}, accuracy{of}", f"share @ {rounds}", shares)
        given = (fed, net, CLINICS, 3 * seed + 2, rounds)
        yield from scores_of_rounds(*given, of)
        yield from scores_of_strategies(*given, (1,), of, ("CGSV",))


SHORT = {"lengths": (1,), "rounds": 1, "times": (1,)}
STUDIES = (
    study("clinics", clinic_rows, probe=SHORT),
    study("clinics-changed", changed_rows, probe={"changes": ("Fir trains",), "rounds": 1}),
    study("hospitals", hospital_rows, probe=SHORT | {"judges": ("Switzerland",)}),
)
