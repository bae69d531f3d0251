"""FedCCEA's model and price: has the fit settled, what does it predict, is it right, what it costs.

[shyn2021fedccea, Fig. 7 and Table 2]. Above: fedccea_fit_claims. Beside: fedccea.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import mlp
from fedlab_mini.engine.simulate import simulate
from fedlab_mini.games.sampling import truncated
from fedlab_mini.games.shapley import exact, leave_one_out
from fedlab_mini.games.training_games import retraining_game
from fedlab_mini.judge.metrics import spearman
from fedlab_mini.methods.aam_fit import fit_aam, settle
from fedlab_mini.methods.fedccea import Simulations, contribution_index, simulator
from fedlab_mini.streams import stream
from fedlab_mini.worlds.corrupt import flip_labels
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.partition import Split, by_class, iid

from .study import Row

SKEWS: dict[str, Split] = {"alike": iid(), "weak": by_class(5), "strong": by_class(2)}
RATES = (0.03, 0.1, 0.3)
PATH = (100, 300, 1000, 3000, 10000, 20000)  # Adam's steps that are looked at
STARTS, HELD = 4, 20
MANY = (4, 8, 12, 16, 32, 64)  # clients of Table 2


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
