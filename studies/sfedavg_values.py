"""S-FedAvg: what its relevance knows, by estimator and validation set, and class by class.

[nagalapatti2021game, Fig. 4]; chapter 8 reads these results. Below: sfedavg.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.engine.train import train
from fedlab_mini.judge.evidence import Interval, paired
from fedlab_mini.judge.metrics import detection_auc
from fedlab_mini.methods.sfedavg import SFedAvg
from fedlab_mini.show import plots
from fedlab_mini.worlds.federation import Federation
from fedlab_mini.worlds.partition import iid
from fedlab_mini.worlds.scenarios import irrelevant_digits

from .sfedavg import (
    HALF,
    IRRELEVANT,
    PROTOCOL,
    RELEVANT,
    ROUNDS,
    SPLITS,
    M,
    late_auc,
    left,
    setting,
    sound,
)
from .study import Claim, Results, Row, Study, beyond, bounded, higher, within

SIZES = (15, 60)  # of the validation set
VALUES: dict[str, dict] = {
    "exact values": {},
    "ten orders": {"exact": False},
    "exact, nobody worth 0": {"exact": True, "empty": "zero"},
    "ten orders, nobody worth 0": {"exact": False, "empty": "zero"},
    "Algorithm 2 as printed": {"literal": True},
}
FEDS = {"relevant data": 0, "irrelevant data": IRRELEVANT}  # Fig. 4


def values(seed: int) -> Iterator[Row]:
    """What the relevance knows under uniform draws: by estimator, work, validation set and kind."""
    data, net, local = setting()
    few = replace(local, steps=5, lr=0.01)
    for name, split in SPLITS.items():
        fed = irrelevant_digits(data, RELEVANT, IRRELEVANT, split=split, seed=seed)
        bad, (x, y) = sorted(fed.corrupted), fed.validation
        small = {f"validation {n}": replace(fed, validation=(x[:n], y[:n])) for n in SIZES}
        works = {estimator: (fed, estimator, local) for estimator in VALUES}
        works |= {"five minibatches": (fed, "exact values", few)}
        works |= {size: (own, "exact values", local) for size, own in small.items()}
        for label, (own, estimator, work) in works.items():
            rule = SFedAvg(M, temperature=math.inf, **VALUES[estimator])
            history = train(own, net, rule, rounds=ROUNDS, local=work, seed=seed)
            for t in (25, 50, 100):
                yield f"{label}; {name}", f"AUC @ {t}", detection_auc(history.scores[t - 1], bad)
            yield f"{label}; {name}", "AUC", late_auc(history, bad)
            if label == "exact values":
                yield from kinds(fed, history.scores[HALF:].mean(0), name)
            if label.startswith("validation"):
                cold = train(own, net, SFedAvg(M), rounds=ROUNDS, local=work, seed=seed)
                for metric, value in left(own, cold, ROUNDS):
                    yield f"T = 0.02, {label}; {name}", metric, value


def kinds(fed: Federation, phi: Tensor, name: str) -> Iterator[Row]:
    """Mean relevance by what a client holds."""
    held = (fed.label_counts > 0).sum(1)
    groups = {"irrelevant": sorted(fed.corrupted)} | {
        f"relevant, {n} class" + "es" * (n > 1): [k for k in sound(fed) if held[k] == n]
        for n in (1, 2, 5)
    }
    for kind, ids in groups.items():
        if ids:
            yield f"{kind}; {name}", "relevance", float(phi[ids].mean())


def classes(seed: int) -> Iterator[Row]:
    """Fig. 4: class relevance, with and without irrelevant clients; and one that shouts."""
    data, net, local = setting()
    for name, bad in FEDS.items():
        fed = irrelevant_digits(data, RELEVANT + IRRELEVANT - bad, bad, seed=seed)
        rule = Watched(M, temperature=1.0, by_class=True)
        train(fed, net, rule, rounds=ROUNDS, local=local, seed=seed)
        seen, held = torch.stack(rule.seen), fed.label_counts > 0  # [T, K, classes]
        for c in range(fed.classes):
            holds = [k for k in sound(fed) if held[k, c]]
            rest = [k for k in range(fed.clients) if k not in holds]
            for t in range(10, ROUNDS + 1, 10) if c == 1 else ():
                for who, ids in {"holders of 2": holds, "others": rest}.items():
                    part = seen[t - 10 : t, ids, c]
                    yield f"{who}; {name}", f"phi_2 @ {t}", float(part.mean())
            late = seen[HALF:, :, c]
            gap = late[:, holds].mean() - late[:, rest].mean()
            auc = [detection_auc(-phi, holds) for phi in late[::5]]
            yield name, f"gap of {2 * c}", float(gap)
            yield name, f"AUC of {2 * c}", sum(auc) / len(auc)
    fed = irrelevant_digits(data, RELEVANT, IRRELEVANT, split=iid(), seed=seed)
    k, y = min(fed.corrupted), fed.y.clone()
    y[slice(*fed.offsets[k : k + 2].tolist())] = 2  # the class of the digit 4
    rule = Watched(M, temperature=1.0, by_class=True)
    history = train(replace(fed, y=y), net, rule, rounds=ROUNDS, local=local, seed=seed)
    four = torch.stack(rule.seen)[HALF:, :, 2].mean(0)
    yield "shouts 4", "place in phi_4", 1.0 + float((four > four[k]).sum())
    phi = history.scores[HALF:].mean(0)
    yield "shouts 4", "place in phi", 1.0 + float((phi > phi[k]).sum())


@dataclass(eq=False, kw_only=True)
class Watched(SFedAvg):
    """S-FedAvg that keeps the class relevances of every round, ``seen`` [K, classes] each."""

    def start(self, server: Server) -> None:
        """Forget everything."""
        super().start(server)
        self.seen: list[Tensor] = []

    def aggregate(self, round: Round) -> Tensor:
        """As S-FedAvg; then note the class relevances."""
        theta = super().aggregate(round)
        self.seen.append(self.class_scores.clone())
        return theta


def values_figure(results: Results) -> Figure:
    """How well the relevance finds irrelevant clients, by estimator and split."""
    shown = [f"{name}; {split}" for split in SPLITS for name in (*VALUES, "five minibatches")]
    rows = {name.replace("; ", ", "): results.values("AUC", name) for name in shown}
    return plots.dots(rows, xlabel="detection AUC", reference={"chance": 0.5})


def classes_figure(results: Results) -> Figure:
    """Relevance for the digit 2 over rounds: who holds twos and who does not."""
    lines = {
        name: {
            who: results.curve("phi_2", f"{who}; {name}")[1] for who in ("holders of 2", "others")
        }
        for name in FEDS
    }
    at = results.curve("phi_2", f"others; {next(iter(FEDS))}")[0]
    return plots.panels(lines, x=at, ylabel="relevance for 2")


def values_claims() -> Iterator[Claim]:
    """What hurts the relevance under uniform draws, and how many validation samples it needs."""
    iid_, own = ({name: f"{name}; {split}" for name in VALUES} for split in SPLITS)
    exact, orders, nobody, orders_0, printed = VALUES
    found = beyond("AUC", iid_[exact], 0.95)
    yield Claim("IID: exact values find irrelevant clients (AUC above .95)", found, False)
    for a, b, metric in (
        (iid_[exact], own[exact], "AUC"),
        (iid_[orders], iid_[orders_0], "AUC"),
        (iid_[exact], iid_[nobody], "AUC"),
        (iid_[exact], iid_[printed], "AUC"),
        (own[exact], own[printed], "AUC"),
        (iid_[exact], "five minibatches; IID", "AUC"),
        (own[exact], "five minibatches; 1 class", "AUC"),
        ("relevant, 1 class; 1 class", "irrelevant; 1 class", "relevance"),
        ("relevant, 2 classes; 1 class", "relevant, 1 class; 1 class", "relevance"),
        ("T = 0.02, validation 60; IID", "T = 0.02, validation 15; IID", "relevant share"),
        ("T = 0.02, validation 60; 1 class", "T = 0.02, validation 15; 1 class", "relevant share"),
    ):
        yield Claim(f"{metric} is higher: {a}, than: {b}", higher(metric, a, b), False)


def all_digits(results: Results, kind: str, name: str) -> Tensor:
    """A metric of holders against others, mean over the five digits, [seeds]."""
    return torch.stack([results.values(f"{kind} of {d}", name) for d in range(0, 10, 2)]).mean(0)


def more_explicit(results: Results, kind: str) -> Interval:
    """Without irrelevant clients minus with them."""
    alone, mixed = (all_digits(results, kind, name) for name in FEDS)
    return paired(alone, mixed)


def classes_claims() -> Iterator[Claim]:
    """Fig. 4: holders of a class lead in its relevance; more clearly without irrelevant clients."""
    for name in FEDS:
        for digit in range(0, 10, 2):
            gap = beyond(f"gap of {digit}", name, 0.0)
            yield Claim(f"{name}: holders of {digit} lead in its relevance", gap)
    for kind in ("gap", "AUC"):
        test = bounded(partial(more_explicit, kind=kind), 0)
        yield Claim(f"with relevant data alone the {kind}, mean of all digits, is larger", test)
    first = within("place in phi_4", 0, 2, "shouts 4")
    yield Claim("who shouts 4 is among the first two in the relevance for 4", first, False)
    last = beyond("place in phi", "shouts 4", 8)
    yield Claim("and among the last two in relevance", last, False)


STUDIES = (
    Study(
        name="sfedavg-values",
        item="S-FedAvg: what the relevance knows, drawn uniformly",
        says="Ten random orders are enough; nobody is worth 0 by convention.",
        protocol=PROTOCOL
        | {
            "temperature": ("1: there is none", "infinite; 0.02 beside validation sets"),
            "server's samples": ("1,000 validation", "178 validation; 15 and 60"),
            "repetitions": ("none", "5 seeds"),
        },
        rows=values,
        claims=tuple(values_claims()),
        figure=values_figure,
    ),
    Study(
        name="sfedavg-classes",
        item="S-FedAvg, Fig. 4: relevance for a class",
        says="Clients that hold a class lead in its relevance; the separation is more explicit "
        "with relevant data alone. Shown for the class 2, others similar.",
        protocol=PROTOCOL
        | {"temperature": ("1: there is none", "1"), "repetitions": ("1", "5 seeds")},
        rows=classes,
        claims=tuple(classes_claims()),
        figure=classes_figure,
    ),
)
