"""FLDVE's figures and sentences on 300 rounds, kinds of fault and single rounds; chapter 6.

Below: fldve, which makes the rows. Beside: fldve_paper, at the paper's own sets.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.judge.evidence import Interval, interval
from fedlab_mini.show import plots

from .fldve import KINDS, LOOKS, PLACES, kinds, long
from .study import Claim, Measure, Results, Study, alike, beyond, bounded, higher, lower, within
from .weighing import SETS


def long_figure(results: Results) -> Figure:
    """Effective number of clients against rounds in each set."""
    return plots.panels(lines(results, "effective clients"), x=LOOKS, ylabel="effective clients")


def gain_figure(results: Results) -> Figure:
    """Accuracy from round 30 on minus FedAvg's, in each set."""
    found = lines(results, "accuracy")
    for n, part in found.items():
        for name in part:
            gain = part[name] - results.curve("accuracy", f"FedAvg, {n}")[1]
            part[name] = gain[:, 1:]
    return plots.panels(found, x=LOOKS[1:], ylabel="gain over FedAvg")


def lines(results: Results, metric: str) -> dict[str, dict[str, Tensor]]:
    """A metric against rounds, set by set and rule by rule, [seeds, LOOKS] each."""
    names = ("FLDVE", "direct gradient", "own loss", "rewarded by accuracy")
    return {
        f"set {n}": {name: results.curve(metric, f"{name}, set {n}")[1] for name in names}
        for n in SETS
    }


def kinds_figure(results: Results) -> Figure:
    """What FLDVE gains over FedAvg for each fault of one client."""
    found = {kind: gained(results, kind) for kind in KINDS}
    return plots.dots(found, xlabel="accuracy, FLDVE minus FedAvg", reference={"equal": 0.0})


def gained(results: Results, kind: str) -> Tensor:
    """Accuracy of FLDVE minus FedAvg's, [seeds]."""
    return results.values("accuracy", f"FLDVE, {kind}") - results.values(
        "accuracy", f"FedAvg, {kind}"
    )


def more(kind: str, than: str, key: str, paper: bool = False) -> Claim:
    """FLDVE gains more with one fault than with another."""
    return Claim(
        f"FLDVE gains more over FedAvg with {kind} than with {than}",
        bounded(lambda r: interval(gained(r, kind) - gained(r, than)), low=0),
        paper,
        key,
    )


def in_round(metric: str, way: str, t: int, n: int) -> Measure:
    """A metric of one round's best selection or weights, minus that of everybody's mean."""

    def measure(results: Results) -> Interval:
        mine, all_of_us = (
            results.values(f"test {metric}, {name} @ {t}", f"set {n}") for name in (way, "all")
        )
        return interval(mine - all_of_us)

    return measure


def kinds_reads() -> Iterator[Claim]:
    """Chapter 6 on probes, on systematic faults, and on single rounds."""
    for n in (1, 2):
        early = within("variance ratio @ 0", 0, 1 / 50, f"set {n}")
        yield Claim(
            f"at the start eight probes have below a fiftieth of the variance, set {n}", early
        )
    early = beyond("variance ratio @ 0", "set 3", 1 / 8)
    yield Claim("in set 3 eight probes only average, from the start", early)
    late = within("variance ratio @ 20", 1 / 8, 1 / 6, "set 1")
    yield Claim("after 20 rounds eight probes only average", late, key="ratio_late")
    rank = higher("ranks cleanness @ 30", "eight probes", "one probe")
    yield Claim("eight probes rank cleanness better than one", rank, key="more_rank")
    for kind, key in zip(KINDS, ("random_half", "random", "nine_half", "nine"), strict=True):
        most = beyond("systematic share", kind, 0.5)
        yield Claim(f"most of what {kind} does is systematic", most, key=f"systematic_{key}")
    for t in PLACES[1:4]:
        loss = bounded(in_round("loss", "best selection", t, 2), high=0)
        yield Claim(
            f"round {t}, set 2: the best selection has less test loss", loss, key=f"loss_{t}"
        )
        same = bounded(in_round("accuracy", "best selection", t, 2), high=0.01)
        yield Claim(f"round {t}, set 2: not more accuracy", same, key=f"accuracy_{t}")
        few = within(f"clients, best weights @ {t}", 1, 2.5, "set 2")
        yield Claim(f"round {t}, set 2: the best weights rest on few", few, key=f"few_{t}")


def long_reads() -> Iterator[Claim]:
    """Chapter 6 on weights and accuracy over 300 rounds."""
    few = (
        ("FLDVE", 2, 300, 2.5, "few_fldve"),
        ("FLDVE", 1, 300, 3.9, "few_1"),
        ("FLDVE", 3, 300, 3.9, "few_3"),
        ("direct gradient", 2, 300, 2.5, "few_direct"),
        ("best of each round", 2, 10, 2.5, "few_best"),
    )
    for rule, n, t, most, key in few:
        test = within(f"effective clients @ {t}", 1, most, f"{rule}, set {n}")
        yield Claim(f"{rule}, set {n}, round {t}: at most {most:g} clients", test, key=key)
    for rule, least, key in (("own loss", 2.5, ""), ("rewarded by accuracy", 3.0, "few_accuracy")):
        test = beyond("effective clients @ 300", f"{rule}, set 2", least)
        yield Claim(f"{rule}, set 2: more than {least:g} clients in the end", test, key=key)
    end, fedavg = "accuracy @ 300", "FedAvg, set 2"
    for n in (1, 2, 3):
        rules = {"rewarded by accuracy": f"accuracy_{n}"} | (
            {"FLDVE": f"ahead_{n}"} if n != 2 else {}
        )
        for rule, key in rules.items():
            test = higher(end, f"{rule}, set {n}", f"FedAvg, set {n}")
            yield Claim(f"after 300 rounds {rule} is ahead of FedAvg, set {n}", test, key=key)
    for rule, key in (("FLDVE", "behind"), ("direct gradient", "behind_direct")):
        test = lower(end, f"{rule}, set 2", fedavg)
        yield Claim(f"after 300 rounds {rule} is behind FedAvg, set 2", test, key=key)
    rules = {"own loss": "own", "rewarded by accuracy": "", "direct gradient": "direct"}
    for rule, key in rules.items():
        test = higher(end, f"{rule}, set 2", "FLDVE, set 2")
        yield Claim(f"after 300 rounds {rule} is ahead of FLDVE, set 2", test, key=key)
    start = "accuracy @ 30"
    for n, order in ((1, lower), (2, higher), (3, lower)):
        test = order(start, f"FLDVE, set {n}", f"removal, set {n}")
        yield Claim(
            f"after 30 rounds FLDVE is {order.__name__} than removal, set {n}",
            test,
            key=f"removal_{n}",
        )
    for n, order in ((1, lower), (2, alike), (3, lower)):
        test = order(start, f"FLDVE, set {n}", f"own loss, set {n}")
        yield Claim(
            f"after 30 rounds FLDVE is {order.__name__} to own loss, set {n}", test, key=f"own_{n}"
        )
    for n, order in ((1, higher), (2, alike), (3, higher)):
        test = order(start, f"FLDVE, set {n}", f"FedAvg, set {n}")
        yield Claim(
            f"after 30 rounds FLDVE is {order.__name__} to FedAvg, set {n}", test, key=f"early_{n}"
        )
    for rule in ("FLDVE", "direct gradient", "own loss"):
        for n in (1, 3):
            test = beyond("noisy one lowest @ 30", f"{rule}, set {n}", 0.95)
            yield Claim(f"{rule} gives the noisy client the least weight, set {n}", test)
        test = beyond("ranks cleanness @ 30", f"{rule}, set 2", 0.5)
        yield Claim(f"{rule} ranks cleanness, set 2", test)


OURS = {
    "data, model": ("MNIST, CNN", "8 x 8 digits, perceptron 64-32-10"),
    "clients, data": ("5, 2,000 images each, IID", "5, about 215 each"),
    "rounds, rate": ("30, SGD .25", "300, SGD .25"),
}
STUDIES = (
    Study(
        name="fldve-long",
        item="FLDVE over 300 rounds: where do the weights end?",
        says="Nothing: the paper stops after 30 rounds.",
        protocol=OURS,
        rows=long,
        claims=tuple(
            Claim(
                f"after {t} rounds FLDVE is more accurate than {rule}, set {n}",
                higher(f"accuracy @ {t}", f"FLDVE, set {n}", f"{rule}, set {n}"),
                paper=False,
            )
            for t in (30, 300)
            for rule in ("FedAvg", "removal", "own loss")
            for n in SETS
        ),
        reads=tuple(long_reads()),
        figure=long_figure,
        seeds=10,
    ),
    Study(
        name="fldve-kinds",
        item="FLDVE: amount against kind of noise, single rounds, probes",
        says="The larger the gap in quality, the larger the gain.",
        protocol=OURS | {"rounds, rate": ("30, SGD .25", "the same")},
        rows=kinds,
        claims=(
            more("nine in ten at random", "half at random", "amount", True),
            more("nine in ten called nine", "half called nine", "amount_nine", True),
            more("nine in ten called nine", "nine in ten at random", "kind"),
            more("half called nine", "half at random", "kind_half"),
        ),
        reads=tuple(kinds_reads()),
        figure=kinds_figure,
        seeds=10,
    ),
)
