"""FedCCEA's model and price: has the fit settled, what does it predict, is it right, what it costs.

[shyn2021fedccea, Fig. 7 and Table 2]; chapters 7 and 14 read these results. Beside: fedccea.
Below: settled.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import torch
from matplotlib.figure import Figure
from torch import Tensor

from .. import plots
from ..corrupt import flip_labels
from ..data import Dataset, load
from ..evidence import interval
from ..federation import Federation, federation
from ..games import retraining_game
from ..local import LocalSGD
from ..methods.fedccea import Simulations, fit_aam, simulator
from ..metrics import contribution_index, spearman
from ..model import mlp
from ..partition import Split, by_class, iid
from ..shapley import exact, leave_one_out, truncated
from ..simulation import simulate
from ..streams import stream
from .fedccea import judged
from .settled import settle
from .study import Claim, Results, Row, Study, beyond, higher, within

SKEWS: dict[str, Split] = {"alike": iid(), "weak": by_class(5), "strong": by_class(2)}
RATES = (0.03, 0.1, 0.3)
PATH = (100, 300, 1000, 3000, 10000, 20000)  # Adam's steps that are looked at
STARTS, HELD = 4, 20
MANY = (4, 8, 12, 16, 32, 64)  # clients of Table 2
PRINTED = {  # its seconds
    "FedCCEA": (8.78, 10.50, 12.60, 14.35, 22.50, 38.58),
    "TMC": (40.37, 72.14, 107.21, 140.53, 279.48, 568.93),
}


def fit_rows(seed: int) -> Iterator[Row]:
    """Fig. 7 at three rates, and Adam's way at the rate that matches the paper's."""
    data, net = load("digits"), mlp(64, 16, 10)
    for skew, split in SKEWS.items():
        fed = federation(
            data, clients=20, split=split, samples=600, validation=500, test=600, seed=seed
        )
        for rate in RATES:
            local = LocalSGD(epochs=3, batch=32, lr=rate)
            runs = simulator(fed, net, 100, 50, local, seed)
            for metric, value in predicted(runs, skew, seed):
                yield f"{skew}, rate {rate:g}", metric, value
            if rate == 0.1:
                for metric, value in path(runs, seed):
                    yield skew, metric, value


def predicted(runs: Simulations, skew: str, seed: int) -> Iterator[tuple[str, float]]:
    """Error on twenty held-out simulations, and the share of variance within rounds explained."""
    sizes, accuracy = runs.sizes, runs.accuracy
    chance = torch.rand(len(sizes), 1, sizes.shape[2], generator=stream(seed, "mixed"))
    mixed = sizes.gather(2, chance.argsort(2).expand_as(sizes))  # in every simulation anew
    seen, truth = slice(0, -HELD), accuracy[-HELD:]
    curve = accuracy[seen].mean(0)
    guess = {"mean curve": curve.expand_as(truth)}
    for name, x in {"AAM": sizes, "clients shuffled": mixed}.items():
        guess[name] = settle(x[seen], accuracy[seen], 1).model(x[-HELD:])[0]
    if skew == "weak":
        guess["balance of two groups"] = balanced(sizes, accuracy - curve) + curve
    total = (truth - curve).square().sum()
    yield "accuracy at the end", float(curve[-1])
    for name, found in guess.items():
        error = (found - truth).square()
        yield f"error, {name}", float(error.mean().sqrt())
        yield f"R2, {name}", float(1 - error.sum() / total)


def balanced(sizes: Tensor, rest: Tensor) -> Tensor:
    """Three numbers instead of an AAM: a parabola in how unequal the groups of a round are.

    Clients in turn hold classes 0-4 and 5-9; returns what is added to the curve, [HELD, R]
    """
    even, odd = sizes[:, :, 0::2].sum(2), sizes[:, :, 1::2].sum(2)
    d = (even - odd) / (even + odd)
    terms = torch.stack([torch.ones_like(d), d, d**2], 2)
    seen = terms[:-HELD].flatten(0, 1), rest[:-HELD].reshape(-1, 1)
    return (terms[-HELD:] @ torch.linalg.lstsq(*seen).solution)[..., 0]


def path(runs: Simulations, seed: int) -> Iterator[tuple[str, float]]:
    """Four starts of Adam, looked at on their way, beside the least squared error."""
    adam = fit_aam(
        runs.sizes,
        runs.accuracy,
        starts=STARTS,
        start="random",
        steps=PATH[-1],
        every=100,
        seed=seed,
    )
    end = settle(runs.sizes, runs.accuracy, STARTS, seed)
    yield "settled: agreement of starts", end.agreement
    yield "settled: spread of the loss", float(end.loss[-1] / end.loss[0] - 1)
    for step in PATH:
        omega = adam.omega[step // 100 - 1]  # [starts, K]
        pairs = [spearman(a, b) for a, b in itertools.combinations(omega, 2)]
        index = torch.stack([contribution_index(runs.full * w) for w in omega])
        yield f"agreement of starts @ {step}", min(pairs)
        with_end = sum(spearman(w, end.omega[0]) for w in omega) / STARTS
        yield f"agreement with the end @ {step}", with_end
        yield f"zeros @ {step}", float((index < 1e-3 / 20).sum() / STARTS)
        yield f"spread of the index @ {step}", float(index.std(0).mean())
        yield f"excess error @ {step}", float(adam.loss[step // 100 - 1].mean() / end.loss[0] - 1)


def ladder(y: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
    """Client sizes in the proportions 1 : 2 : ... : n, in random order."""
    share = torch.randperm(clients, generator=generator) + 1
    cuts = (share.cumsum(0) * len(y) // share.sum())[:-1]
    return list(torch.randperm(len(y), generator=generator).tensor_split(cuts))


def eight(data: Dataset, kind: str, seed: int) -> Federation:
    """Eight clients: alike, skewed, of sizes 1 to 8, or with 0 to 7/8 of the labels wrong."""
    order = torch.randperm(8, generator=stream(seed, "who is noisy")).tolist()
    noise = {k: flip_labels(i / 8) for i, k in enumerate(order) if i}
    return federation(
        data,
        clients=8,
        split={**SKEWS, "sizes": ladder}.get(kind, iid()),
        corrupt=noise if kind == "graded noise" else {},
        samples=480,
        validation=500,
        test=500,
        seed=seed,
    )


def ridge(sizes: Tensor, accuracy: Tensor, penalty: float = 1.0) -> Tensor:
    """Coefficients [K] of the mean sizes used so far, for the deviation from the mean curve."""
    so_far = sizes.cumsum(1) / torch.arange(1, sizes.shape[1] + 1)[:, None]
    z = (so_far - so_far.mean(0)).flatten(0, 1)
    y = (accuracy - accuracy.mean(0)).flatten()
    return torch.linalg.solve(z.T @ z + penalty * torch.eye(z.shape[1]).to(z), z.T @ y)


def shapley_rows(seed: int) -> Iterator[Row]:
    """Rank correlation with the exact Shapley value by retraining, eight clients."""
    data, net, local = load("digits"), mlp(64, 16, 10), LocalSGD(epochs=2, batch=20, lr=0.3)
    for kind in ("alike", "weak", "strong", "sizes", "graded noise"):
        fed = eight(data, kind, seed)
        runs = simulator(fed, net, 100, 10, local, seed)
        fit = settle(runs.sizes, runs.accuracy, seed=seed)
        early = fit_aam(runs.sizes, runs.accuracy, every=3000, seed=seed).omega[-1, 0]
        game, again = (retraining_game(fed, net, 10, local, seed=s) for s in (seed, 1000 + seed))
        values, truth = exact(game).values, exact(again).values
        found = {
            "FedCCEA": runs.full * fit.model.omega[0],
            "FedCCEA, 3,000 steps": runs.full * early,
            "ridge regression": runs.full * ridge(runs.sizes, runs.accuracy),
            "TMC": truncated(game, 8, 0.01, seed=seed).values,
            "LOO": leave_one_out(game).values,
            "size alone": runs.full,
            "exact, trained again": truth,
        }
        yield kind, "agreement of starts", fit.agreement
        for method, v in found.items():
            yield f"{kind}; {method}", "rank correlation", spearman(v, values)


def time_rows(seed: int) -> Iterator[Row]:
    """Table 2: seconds of one training of each kind at every n, on one thread; 300 samples each."""
    data, net = load("mnist"), mlp(784, 16, 10)
    local, rounds = LocalSGD(epochs=3, batch=32, lr=0.1), 2
    for n in MANY:
        fed = federation(data, clients=n, samples=300 * n, validation=500, test=500, seed=seed)
        places = torch.linspace(1, n, min(n, 8)).round()
        some = torch.arange(n) < places[:, None]  # coalitions along one order
        chance = stream(seed, "shares", n)
        work = {
            "FedCCEA, one simulation": (torch.rand(3, rounds, n, generator=chance), 1),
            "TMC, one pass": (some[:, None].expand(-1, rounds, -1).double(), n),
            "LOO": (
                (torch.arange(n) != torch.arange(3)[:, None])[:, None]
                .expand(-1, rounds, -1)
                .double(),
                n + 1,
            ),
        }
        for name, (shares, trainings) in work.items():
            began = time.process_time()
            simulate(fed, net, shares, local=local, seed=seed)
            taken = (time.process_time() - began) / len(shares) * 50 / rounds
            epochs = float(shares.mean()) * n * 50 * local.epochs
            yield f"{n} clients", f"seconds, {name}", taken * trainings
            yield f"{n} clients", f"client epochs, {name}", epochs * trainings


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
            "simulation, paper (s)": simulation,
            "here (s)": results.interval("seconds, FedCCEA, one simulation", f"{n} clients"),
            "training of TMC, paper (s)": whole / n,
            "here (s) ": interval(own),
            "100 simulations / pass, paper": 100 * simulation / whole,
            "here": interval(times(results, n)),
            "S / (n + 1)": 100 / (n + 1),
        }
    told = "A training of each kind, and what a hundred simulations cost beside one pass."
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
    figure=explained_figure,
)
SHAPLEY = Study(
    name="fedccea-shapley",
    item="FedCCEA beside the exact Shapley value",
    says="FedCCEA estimates contributions precisely where clients differ in kind.",
    protocol=EXACT,
    rows=shapley_rows,
    claims=tuple(shapley_claims()),
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
)
STUDIES = (FIT, SHAPLEY, TIME)
