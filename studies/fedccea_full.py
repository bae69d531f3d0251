"""FedCCEA in one setting with all of MNIST: 2,850 images a client, and the paper's own rate.

Chapter 7 reads it beside fedccea-mnist, which has 30 a client. Below: fedccea, fedccea_claims.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import mlp
from fedlab_mini.engine.simulate import simulate
from fedlab_mini.judge.metrics import spearman
from fedlab_mini.methods.aam_fit import fit_aam, settle
from fedlab_mini.methods.fedccea import contribution_index, simulator
from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.federation import federation
from fedlab_mini.worlds.partition import by_class

from .fedccea import CLIENTS, HIDDEN, METHODS, ROUNDS, SIMULATIONS, exclusions, gini
from .fedccea_claims import PROTOCOL, starts
from .study import FAILS, HOLDS, Claim, Results, Row, Study, Test

SETTING = "strong, no noise"
LOCAL = LocalSGD(epochs=3, batch=32, lr=0.001)
KEEP = ("accuracy", "without zeros", "lowest gone @ 8", "highest gone @ 8")


def full_rows(seed: int) -> Iterator[Row]:
    """Two classes a client, nobody corrupted: the index, settled and stopped; who leaves."""
    data, split = load("mnist"), by_class(2)
    fed = federation(data, clients=CLIENTS, split=split, validation=1_000, test=2_000, seed=seed)
    net = mlp(784, HIDDEN, fed.classes)
    runs = simulator(fed, net, SIMULATIONS, ROUNDS, LOCAL, seed)
    fit = settle(runs.sizes, runs.accuracy, seed=seed)
    halves = [settle(runs.sizes[i::2], runs.accuracy[i::2], 1).omega[0] for i in (0, 1)]
    stopped = fit_aam(runs.sizes, runs.accuracy, every=100, seed=seed).omega[-1, 0]
    yield SETTING, "agreement of starts", fit.agreement
    yield SETTING, "split half", spearman(*halves)
    yield SETTING, "steps and end", spearman(stopped, fit.model.omega[0])
    yield SETTING, "accuracy of simulations", float(runs.accuracy[:, -1].mean())
    found = (fit.model.omega[0], stopped)
    values = {name: runs.full * w for name, w in zip(METHODS, found, strict=False)}
    for name, v in values.items():
        share = contribution_index(v)
        yield f"{SETTING}; {name}", "gini", gini(share)
        yield f"{SETTING}; {name}", "zeros", int((share == 0).sum())
    keep = {key: who for key, who in exclusions(values, seed).items() if key[1] in KEEP}
    tables = torch.stack([who.expand(ROUNDS, CLIENTS) for who in keep.values()])
    final = simulate(fed, net, tables, local=LOCAL, seed=seed, on="test", last=True)[:, 0]
    for (name, metric), value in zip(keep, final.tolist(), strict=True):
        yield f"{SETTING}; {name}" if name else SETTING, metric, value


def each_seed(low: float, high: float, metric: str, variant: str, than: str = "") -> Test:
    """Every seed lies between two bounds, by itself or minus the accuracy ``than``; shows them."""

    def test(results: Results) -> tuple[str, str]:
        found = results.values(metric, variant)
        if than:
            found = found - results.values(than, SETTING if than == "accuracy" else variant)
        inside = bool(((low <= found) & (found <= high)).all())
        digits = 0 if bool((found == found.round()).all()) else 2
        return (HOLDS if inside else FAILS), ", ".join(f"{x:.{digits}f}" for x in found.tolist())

    return test


def full_claims() -> Iterator[Claim]:
    """The paper's sentences in this setting, seed by seed."""
    yield starts(SETTING)
    halves = each_seed(0.5, 1, "split half", SETTING)
    said = f"{SETTING}: two halves of the simulations rank alike (.5 or more, every seed)"
    yield Claim(said, halves, False, "halves_full")
    for name in METHODS[:2]:
        v = f"{SETTING}; {name}"
        yield Claim(f"{v}: no zeros, in every seed", each_seed(0, 0, "zeros", v))
        kept = each_seed(-0.02, 1, "lowest gone @ 8", v, "accuracy")
        yield Claim(f"{v}: without its eight lowest accuracy stays, in every seed", kept)
        more = each_seed(0, 1, "lowest gone @ 8", v, "highest gone @ 8")
        yield Claim(f"{v}: the eight highest are missed more, in every seed", more)


def full_reads() -> Iterator[Claim]:
    """What chapter 7 says of this setting."""
    settled, stopped = (f"{SETTING}; {name}" for name in METHODS[:2])
    one = each_seed(0.95, 1, "agreement of starts", SETTING)
    yield Claim("the starts end with one ranking in every seed", one, False)
    zeros = each_seed(1, CLIENTS, "zeros", settled)
    yield Claim("settled, every seed has zeros", zeros, False, "zeros_full")
    yield Claim("stopped, no seed has", each_seed(0, 0, "zeros", stopped), False)
    less = each_seed(-1, -0.02, "without zeros", settled, "accuracy")
    yield Claim("without the zeros accuracy falls in every seed", less, False, "lost_full")
    for v, key in ((settled, "lowest_full"), (stopped, "stopped_full")):
        less = each_seed(-1, -0.02, "lowest gone @ 8", v, "accuracy")
        yield Claim(f"{v}: without the eight lowest it falls", less, False, key)


FULL = {
    "data": (PROTOCOL["data"][0], "57,000 images of MNIST: 2,850 a client"),
    "local work": ("3 epochs, batches of 32, rate 0.001", "the same"),
    "steps x rate": (PROTOCOL["steps x rate"][0], "13,400 x 0.001"),
    "full size": ("all settings", "this one"),
    "skew": ("10, 5 and 2 classes a client", "2 classes a client"),
    "noise": (PROTOCOL["noise"][0], "none"),
    "accuracy": (PROTOCOL["accuracy"][0], "1,000 validation images; judged on 2,000"),
    "TMC, LOO": (PROTOCOL["TMC, LOO"][0], "not run; see 30 images a client"),
    "repetitions": ("not given", "3 seeds, each for itself"),
}
STUDIES = (
    Study(
        name="fedccea-full",
        item="FedCCEA, MNIST with all images: Figs. 4a, 5a; Tables 1 and 3, strong skew",
        says="FedCCEA gives no client zero; its eight lowest can go without loss, its highest "
        "cannot.",
        protocol=PROTOCOL | FULL,
        rows=full_rows,
        claims=tuple(full_claims()),
        reads=tuple(full_reads()),
        seeds=3,
    ),
)
