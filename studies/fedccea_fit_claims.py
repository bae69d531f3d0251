"""Claims, tables and protocols about FedCCEA's fit and price: the paper's, and chapter 7's.

[shyn2021fedccea, Fig. 7 and Table 2]. Below: fedccea_fit, which makes the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.judge.evidence import interval
from fedlab_mini.show import plots

from .fedccea_claims import everywhere, judged, measured
from .fedccea_fit import MANY, RATES, SKEWS, fit_rows, shapley_rows, time_rows
from .study import (
    FAILS,
    HOLDS,
    Claim,
    Results,
    Study,
    alike,
    beyond,
    bounded,
    covers,
    higher,
    within,
)

END = "agreement with the end"
PRINTED = {  # its seconds
    "FedCCEA": (8.78, 10.50, 12.60, 14.35, 22.50, 38.58),
    "TMC": (40.37, 72.14, 107.21, 140.53, 279.48, 568.93),
}


def error_below_curve(results: Results, variant: str) -> Tensor:
    """How much smaller the model's error is than that of the mean curve, seed by seed."""
    curve, model = (results.values(f"error, {name}", variant) for name in ("mean curve", "AAM"))
    return curve - model


def more_balance(results: Results, variant: str) -> Tensor:
    """How much more the parabola in the balance explains than the model, seed by seed."""
    names = ("balance of two groups", "AAM")
    parabola, model = (results.values(f"R2, {name}", variant) for name in names)
    return parabola - model


def times(results: Results, n: int, S: int = 100) -> Tensor:
    """Seconds of S simulations over those of one pass, at n clients, seed by seed."""
    one, other = (
        results.values(f"seconds, {name}", f"{n} clients")
        for name in ("FedCCEA, one simulation", "TMC, one pass")
    )
    return S * one / other


def growth(results: Results, name: str) -> Tensor:
    """Seconds at 64 clients over those at 4."""
    many, few = (results.values(f"seconds, {name}", f"{n} clients") for n in (64, 4))
    return many / few


def table2(results: Results) -> plots.Table:
    """Table 2: a training of each kind, and a hundred simulations over one pass."""
    data = {}
    for n, simulation, whole in zip(MANY, PRINTED["FedCCEA"], PRINTED["TMC"], strict=True):
        own = results.values("seconds, TMC, one pass", f"{n} clients") / n
        data[f"{n}"] = {
            "simulation, paper": simulation,
            "here": results.interval("seconds, FedCCEA, one simulation", f"{n} clients"),
            "TMC, paper": whole / n,
            "here ": interval(own),
            "100 / pass, paper": 100 * simulation / whole,
            "here  ": interval(times(results, n)),
            "S / (n + 1)": 100 / (n + 1),
        }
    told = "Seconds of a simulation and of a training of TMC; 100 simulations over one pass."
    return plots.table(data, rows="clients", caption=told, digits=1)


def ranks(results: Results) -> plots.Table:
    """Rank correlation with the exact value: a row a score, a column a kind of federation."""
    kinds = [v for v in results.variants if ";" not in v]
    scores = [v.partition("; ")[2] for v in results.variants if v.startswith("alike; ")]
    data = {
        score.replace("3,000 steps", "stopped"): {
            kind: results.interval("rank correlation", f"{kind}; {score}") for kind in kinds
        }
        for score in scores
    }
    return plots.table(data, rows="score", caption="Rank correlation with the exact value.")


def explained_figure(results: Results) -> Figure:
    """Fig. 7: explained within rounds on held-out simulations, model and shuffled model."""
    rows = {
        f"{skew}, rate {rate:g}, {label}": results.values(f"R2, {name}", f"{skew}, rate {rate:g}")
        for skew in ("alike", "strong")
        for rate in RATES
        for label, name in (("model", "AAM"), ("shuffled", "clients shuffled"))
    }
    return plots.dots(rows, xlabel="explained within rounds", reference={"mean curve": 0.0})


def fit_claims() -> Iterator[Claim]:
    """What the error proves, and where Adam stands on its way."""
    for skew in SKEWS:
        v = f"{skew}, rate 0.1"
        small = within("error, AAM", 0, 0.03, v)
        yield Claim(f"{v}: predicted accuracies are within .03 of the real ones", small)
        for rate in RATES:
            v = f"{skew}, rate {rate:g}"
            better = judged(error_below_curve, v)
            yield Claim(f"{v}: the error is below that of the mean curve", better, False)
        unique = beyond("settled: agreement of starts", skew, 0.95)
        yield Claim(f"{skew}: all starts end with one ranking (above .95)", unique, False)
        alike = beyond("agreement of starts @ 3000", skew, 0.5)
        yield Claim(f"{skew}: after 3,000 steps of Adam starts agree (above .5)", alike, False)
        there = beyond("agreement with the end @ 3000", skew, 0.5)
        yield Claim(f"{skew}: and with the least error (above .5)", there, False)
    for rate in (0.1, 0.3):
        v = f"weak, rate {rate:g}"
        yield Claim(
            f"{v}: the balance explains more than the model", judged(more_balance, v), False
        )


def shapley_claims() -> Iterator[Claim]:
    """Whom the index ranks as the exact value does, and what does so without it."""
    for kind in ("alike", *list(SKEWS)[1:], "sizes", "graded noise"):
        v = f"{kind}; FedCCEA"
        ranks = beyond("rank correlation", v, 0.5)
        yield Claim(f"{v}: ranks as the exact value (above .5)", ranks, kind in SKEWS)
        ridge = higher("rank correlation", v, f"{kind}; ridge regression")
        yield Claim(f"{v}: above a ridge regression", ridge, False)
        for other in ("TMC", "LOO"):
            above = higher("rank correlation", v, f"{kind}; {other}")
            yield Claim(f"{v}: above {other}", above, kind in SKEWS)
    alone = higher("rank correlation", "sizes; size alone", "sizes; FedCCEA")
    yield Claim("sizes: size alone ranks better than FedCCEA", alone, False)


def time_claims() -> Iterator[Claim]:
    """Table 2, per simulation and times S."""
    for n in MANY:
        one = judged(times, n, 1, low=0, high=1)
        yield Claim(f"{n} clients: one simulation is faster than one pass", one)
        whole = judged(times, n, 100, low=1, high=1e9)
        yield Claim(f"{n} clients: 100 simulations are slower than one pass", whole, False)
    flat = judged(growth, "FedCCEA, one simulation", low=0, high=2)
    yield Claim("the time of a simulation hardly grows: at most doubles from 4 to 64", flat)


def travelling(results: Results, skew: str) -> Tensor:
    """After 3,000 steps: agreement among starts minus agreement with the least error."""
    among, end = (results.values(f"{m} @ 3000", skew) for m in ("agreement of starts", END))
    return among - end


def nowhere_better(results: Results) -> tuple[str, str]:
    """In no split and at no rate is the model's error below that of the mean curve."""
    runs = [f"{skew}, rate {rate:g}" for skew in SKEWS for rate in RATES]
    found = [interval(error_below_curve(results, run)) for run in runs]
    worst = max(found, key=lambda one: one.low)
    return (FAILS if worst.above(0) else HOLDS), str(worst)


def fit_reads() -> Iterator[Claim]:
    """What chapter 7 says of the fit."""
    for skew in SKEWS:
        apart = bounded(measured(travelling, skew), 0)
        yield Claim(f"{skew}: starts agree before they arrive", apart, False)
        unique = everywhere("settled: agreement of starts", skew, 0.95, 1.001)
        yield Claim(f"{skew}: at the least error all starts rank alike", unique, False)
    for key, metric, low, high in (
        ("near_starts", "agreement of starts @ 3000", 0.7, 1.0),
        ("near_end", f"{END} @ 3000", -1.0, 0.5),
        ("far_end", f"{END} @ 20000", 0.5, 1.0),
        ("zeros_far", "zeros @ 20000", 1.0, 20.0),
    ):
        yield Claim(metric, within(metric, low, high, "alike"), False, key)
    none = everywhere("zeros @ 3000", "alike", 0, 0)
    yield Claim("alike: no zeros after 3,000 steps", none, False)
    for skew in ("alike", "strong"):
        for key, name in (("error", "AAM"), ("curve", "mean curve")):
            small = within(f"error, {name}", 0, 0.1, f"{skew}, rate 0.1")
            yield Claim(f"{skew}: error of {name}", small, False, f"{key}_{skew}")
    yield Claim("nowhere better than the mean curve", nowhere_better, False)
    balance = bounded(measured(more_balance, "weak, rate 0.1"), 0.05)
    yield Claim("weak: the balance explains more", balance, False, "parabola")


def shapley_reads() -> Iterator[Claim]:
    """What chapter 7 says of the index beside the exact value."""
    metric = "rank correlation"
    for kind, key in (("graded noise", "rank_noise"), ("sizes", "rank_sizes")):
        yield Claim(f"{kind}: ranked", beyond(metric, f"{kind}; FedCCEA", 0.6), False, key)
    yield Claim("alike: not shown", covers(metric, "alike; FedCCEA", 0), False)
    little = within(metric, 0, 0.8, "alike; exact, trained again")
    yield Claim("alike: little to agree with", little, False, "again")
    size = higher(metric, "sizes; size alone", "sizes; FedCCEA")
    yield Claim("sizes: size alone is better", size, False, "size_more")
    loo = higher(metric, "strong; LOO", "strong; FedCCEA")
    yield Claim("strong: leave-one-out is better", loo, False, "loo_more")
    for kind in (*SKEWS, "sizes", "graded noise"):
        same = alike(metric, f"{kind}; FedCCEA", f"{kind}; ridge regression")
        yield Claim(f"{kind}: no difference to a ridge regression", same, False)


def time_reads() -> Iterator[Claim]:
    """What chapter 7 says of the bill."""
    for n in MANY:
        dearer = judged(times, n, 100, low=1, high=100)
        yield Claim(f"{n} clients: a hundred cost more than a pass", dearer, False, f"own_{n}")
    grown = judged(growth, "FedCCEA, one simulation", low=2, high=16)
    yield Claim("a simulation takes longer with 64 than with 4", grown, False, "growth")


PROTOCOL = {
    "data": ("MNIST and EMNIST", "digits, 600 images of 8 x 8: 30 a client"),
    "clients, rounds, simulations": ("20, 50, 100", "the same; 80 are fitted, 20 held out"),
    "model": ("perceptron of three layers, widths not given", "64-16-10"),
    "local work": ("3 epochs, batches of 32, rate 0.001", "the same at rates 0.03, 0.1 and 0.3"),
    "steps x rate": ("14,100 x 0.001 in 50 rounds", "150 x rate: 0.1 matches the paper"),
    "fit": ("until convergence; loss, optimiser not given", "least squares until nothing moves"),
    "on the way": ("nothing", "Adam at 0.01, 4 random starts, to 20,000 steps"),
    "beside it": ("nothing", "the mean curve; an AAM whose clients were shuffled"),
    "repetitions": ("not given", "5 seeds, interval"),
}
EXACT = {
    "data": ("not given", "digits, 480 images with the clients, validated on 500"),
    "clients": ("not given", "8: alike, 5 or 2 classes each, sizes 1 to 8, noise 0 to 7/8"),
    "training": ("not given", "10 rounds, 2 epochs, batches of 20, rate 0.3, 64-16-10"),
    "FedCCEA": ("not given", "100 simulations, fit until nothing moves; Adam, 3,000 steps"),
    "others": ("not given", "TMC with 8 passes, tolerance .01; LOO; ridge; size alone"),
    "truth": ("not given", "exact Shapley value of the accuracy by 256 trainings, twice"),
    "repetitions": ("not given", "10 seeds, interval"),
}
TABLE2 = {
    "data": ("300 samples a client", "MNIST, 300 images a client"),
    "training": ("50 rounds", "3 epochs, batches of 32, 784-16-10; 2 rounds timed, times 25"),
    "machine": ("16 cores, a client each", "CPU seconds on one thread"),
    "TMC": ("by retraining; passes not given", "one pass: coalitions of 1 to n clients"),
    "per training": ("not given", "3 simulations, 3 of LOO, up to 8 of a pass, at every n"),
    "repetitions": ("not given", "5 seeds"),
}
FIT = Study(
    name="fedccea-fit",
    item="FedCCEA, Fig. 7: the error of the model; has the fit settled?",
    says="Approximated accuracies differ trivially from the real ones, which justifies to read the "
    "shared weights as the clients' quality.",
    protocol=PROTOCOL,
    rows=fit_rows,
    claims=tuple(fit_claims()),
    reads=tuple(fit_reads()),
    figure=explained_figure,
)
SHAPLEY = Study(
    name="fedccea-shapley",
    item="FedCCEA beside the exact Shapley value",
    says="FedCCEA estimates contributions precisely where clients differ in kind.",
    protocol=EXACT,
    rows=shapley_rows,
    claims=tuple(shapley_claims()),
    reads=tuple(shapley_reads()),
    seeds=10,
)
TIME = Study(
    name="fedccea-time",
    item="FedCCEA, Table 2: evaluation time",
    says="One simulation takes 8.78 to 38.58 seconds for 4 to 64 clients, TMC 40.37 to 568.93, LOO "
    "41.16 to 584.37. The evaluation time is feasible whatever the number of clients.",
    protocol=TABLE2,
    rows=time_rows,
    claims=tuple(time_claims()),
    reads=tuple(time_reads()),
)
STUDIES = (FIT, SHAPLEY, TIME)
