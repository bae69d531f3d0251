"""FedCCEA: exclusion, removal, partial participation, noise; the fit, exact values, time.

[shyn2021fedccea, Section 4 and appendix C]; chapter 7 reads these results. Above: fedccea_claims.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import Model, mlp
from fedlab_mini.engine.simulate import simulate
from fedlab_mini.games.sampling import truncated
from fedlab_mini.games.shapley import exact, leave_one_out
from fedlab_mini.games.training_games import retraining_game
from fedlab_mini.judge.metrics import detection_auc, spearman
from fedlab_mini.methods.aam_fit import fit_aam, settle
from fedlab_mini.methods.fedccea import Simulations, contribution_index, simulator
from fedlab_mini.streams import stream
from fedlab_mini.worlds.corrupt import backdoor, flip_labels
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.partition import Split, by_class, iid

from .study import Row

CLIENTS, ROUNDS, SIMULATIONS, SAMPLES = 20, 50, 100, 600
NOISY, HIDDEN = 4, 16  # clients, a fifth of all; hidden units
REMOVED = (2, 4, 8, 12)
SKEWS = ("alike", "weak", "strong")
METHODS = ("FedCCEA", "FedCCEA, 3,000 steps", "TMC", "LOO")
FULL, FULL_LOCAL = "strong, no noise", LocalSGD(epochs=3, batch=32, lr=0.001)
FULL_KEEP = ("accuracy", "without zeros", "lowest gone @ 8", "highest gone @ 8")
RATES = (0.03, 0.1, 0.3)
PATH = (100, 300, 1000, 3000, 10000, 20000)  # Adam's steps that are looked at
STARTS, HELD = 4, 20  # of Adam; simulations that the fit does not see
KINDS = (*SKEWS, "sizes", "graded noise")  # federations of eight
MANY = (4, 8, 12, 16, 32, 64)  # clients of Table 2


@dataclass(frozen=True)
class Source:
    """A data set with what the paper does on it: classes a client (weak, strong), local work."""

    weak: int
    strong: int
    local: LocalSGD


SOURCES = {
    "mnist": Source(5, 2, LocalSGD(epochs=3, batch=32, lr=0.1)),
    "digits": Source(5, 2, LocalSGD(epochs=3, batch=32, lr=0.1)),
    "emnist-letters": Source(13, 5, LocalSGD(epochs=1, batch=16, lr=0.3)),
}


def split_of(skew: str, source: str = "digits") -> Split:
    """How labels are dealt: all alike, or a few classes a client."""
    classes = SOURCES[source]
    return {"alike": iid(), "weak": by_class(classes.weak), "strong": by_class(classes.strong)}[
        skew
    ]


def wrongs(data: Dataset) -> dict[str, object]:
    """What can be wrong with a fifth of the clients: nothing, labels, a square, both."""
    levels = {f"{p} % noise": flip_labels(p / 100) for p in (10, 20, 40, 80)}
    shape = data.shape or (1, 8, 8)
    side = 3 if shape[1] > 8 else 2
    return {
        "no noise": None,
        **levels,
        "square": backdoor(None, 0.2, shape, size=side),
        "square and label": backdoor(0, 0.2, shape, size=side),
    }


def dealt(data: Dataset, skew: str, wrong: object, seed: int) -> Federation:
    """Twenty clients, 600 images; the same four are corrupted whatever is wrong."""
    # A stream of their own: the same four, whatever is wrong with them.
    bad = torch.randperm(CLIENTS, generator=stream(seed, "noisy clients"))[:NOISY].tolist()
    return federation(
        data,
        clients=CLIENTS,
        split=split_of(skew, data.name),
        corrupt={} if wrong is None else dict.fromkeys(sorted(bad), wrong),
        samples=SAMPLES,
        validation=500,
        test=600 if data.name == "digits" else 1000,
        seed=seed,
    )


def gini(shares: Tensor) -> float:
    """How unequal: 0 if all have the same, near 1 if one has all. shares [n] >= 0, sum 1."""
    count, ordered = len(shares), shares.sort().values
    places = 2 * torch.arange(1, count + 1) - count - 1
    return float(places.double() @ ordered / count)


def without(order: Tensor, dropped: slice) -> Tensor:
    """Who stays [..., K] when the named places of a ranking [..., K], lowest first, go."""
    staying = torch.ones(order.shape, dtype=torch.float64)
    return staying.scatter_(-1, order[..., dropped], 0.0)


def settings(
    seed: int, source: str, skews: tuple[str, ...], what: tuple[str, ...]
) -> Iterator[Row]:
    """All tests of all settings on one data set."""
    data = load(source)
    for skew in skews:
        for wrong in what:
            fed = dealt(data, skew, wrongs(data)[wrong], seed)
            yield from evaluation(fed, f"{skew}, {wrong}", SOURCES[source].local, seed)


def halves_agree(simulated: Simulations) -> float:
    """Rank correlation of the qualities from every other simulation with those from the rest."""
    # Two halves share nothing but the clients: what they agree on is about these.
    fits = [settle(simulated.sizes[i::2], simulated.accuracy[i::2], 1).omega[0] for i in (0, 1)]
    return spearman(*fits)


def evaluation(fed: Federation, label: str, local: LocalSGD, seed: int) -> Iterator[Row]:
    """One federation: the values, how settled they are, and what leaving clients out does."""
    net = mlp(fed.x[0].numel(), HIDDEN, fed.classes)
    simulated = simulator(fed, net, SIMULATIONS, ROUNDS, local, seed)
    settled = settle(simulated.sizes, simulated.accuracy, seed=seed)
    omega = settled.model.omega[0]
    # Beside the settled fit the one that a user of the paper might stop.
    steps = fit_aam(simulated.sizes, simulated.accuracy, every=100, seed=seed).omega[:, 0]
    game = retraining_game(fed, net, ROUNDS, local, seed=seed)
    values = {
        "FedCCEA": simulated.full * omega,
        "FedCCEA, 3,000 steps": simulated.full * steps[-1],
        "TMC": truncated(game, 2, 0.01, seed=seed).values,
        "LOO": leave_one_out(game).values,
    }
    index = torch.stack([contribution_index(simulated.full * quality) for quality in settled.omega])
    yield label, "agreement of starts", settled.agreement
    yield label, "spread between starts", float(index.std(0).mean())
    yield label, "split half", halves_agree(simulated)
    yield label, "steps and end", spearman(steps[-1], omega)
    yield label, "gini of sizes", gini(simulated.full / CLIENTS)
    yield label, "gini, 100 steps", gini(contribution_index(simulated.full * steps[0]))
    yield label, "accuracy of simulations", float(simulated.accuracy[:, -1].mean())
    for method, value in values.items():
        share, variant = contribution_index(value), f"{label}; {method}"
        yield variant, "gini", gini(share)
        yield variant, "zeros", int((share == 0).sum())
        yield variant, "smallest share", float(share.min())
        yield variant, "largest share", float(share.max())
        if fed.corrupted:
            yield variant, "AUC", detection_auc(value, fed.corrupted)
        if method != "FedCCEA":
            yield variant, "agrees with FedCCEA", spearman(value, values["FedCCEA"])
    shares = exclusions(values, seed) | partial(values["FedCCEA"], fed, seed)
    yield from retrained(fed, net, label, shares, local, seed)


Shares = dict[tuple[str, str], Tensor]  # method, metric -> who trains, [K] or [R, K]


def retrained(
    fed: Federation, net: Model, label: str, shares: Shares, local: LocalSGD, seed: int
) -> Iterator[Row]:
    """Test accuracy of trainings in which some clients are left out, all in one stack."""
    # One stack from one start: differences are due to who leaves.
    tables = torch.stack([staying.expand(ROUNDS, CLIENTS) for staying in shares.values()])
    final = simulate(fed, net, tables, local=local, seed=seed, on="test", last=True)[:, 0]
    for (method, metric), accuracy in zip(shares, final.tolist(), strict=True):
        yield f"{label}; {method}" if method else label, metric, accuracy


def exclusions(values: dict[str, Tensor], seed: int) -> Shares:
    """Who trains when zeros, the lowest or the highest are left out; ties break at random."""
    staying = {("", "accuracy"): torch.ones(CLIENTS, dtype=torch.float64)}
    shuffled = torch.randperm(CLIENTS, generator=stream(seed, "ties"))
    for method, value in values.items():
        # Shuffled first: clients of equal value would leave in the order of their ids.
        order = shuffled[value[shuffled].argsort(stable=True)]
        staying[method, "without zeros"] = (contribution_index(value) > 0).double()
        for removed in REMOVED:
            top = slice(CLIENTS - removed, None)
            staying[method, f"lowest gone @ {removed}"] = without(order, slice(0, removed))
            staying[method, f"highest gone @ {removed}"] = without(order, top)
    return staying


def partial(values: Tensor, fed: Federation, seed: int) -> Shares:
    """Random amounts every round; gone are the lowest or highest of the round, by x omega or x."""
    generator, size = stream(seed, "amounts"), (ROUNDS, CLIENTS)
    # No amount is exactly 0: that would be absence.
    amount = torch.rand(size, generator=generator, dtype=torch.float64).clamp(min=1e-9)
    staying = {("", "accuracy, partial"): amount}
    for label, rank in {"x omega": amount * values, "x alone": amount * fed.sizes}.items():
        order = rank.argsort(stable=True)
        for removed in (4, 8):
            top = slice(CLIENTS - removed, None)
            staying[label, f"lowest gone @ {removed}"] = amount * without(order, slice(0, removed))
            staying[label, f"highest gone @ {removed}"] = amount * without(order, top)
    return staying


def mnist_rows(seed: int) -> Iterator[Row]:
    """The main paper on MNIST: three skews, without noise and with 40 %."""
    yield from settings(seed, "mnist", SKEWS, ("no noise", "40 % noise"))


def letters_rows(seed: int) -> Iterator[Row]:
    """The same on letters."""
    yield from settings(seed, "emnist-letters", SKEWS, ("no noise", "40 % noise"))


def noise_rows(seed: int) -> Iterator[Row]:
    """The appendix: little noise and the square, on digits; ours: 80 %, a square that lies."""
    what = ("10 % noise", "20 % noise", "square", "80 % noise", "square and label")
    yield from settings(seed, "digits", ("alike",), what)


def full_rows(seed: int) -> Iterator[Row]:
    """All of MNIST, two classes a client, the paper's own rate: the index, and who leaves."""
    data, split = load("mnist"), by_class(2)
    fed = federation(data, clients=CLIENTS, split=split, validation=1_000, test=2_000, seed=seed)
    net = mlp(784, HIDDEN, fed.classes)
    simulated = simulator(fed, net, SIMULATIONS, ROUNDS, FULL_LOCAL, seed)
    settled = settle(simulated.sizes, simulated.accuracy, seed=seed)
    stopped = fit_aam(simulated.sizes, simulated.accuracy, every=100, seed=seed).omega[-1, 0]
    yield FULL, "agreement of starts", settled.agreement
    yield FULL, "split half", halves_agree(simulated)
    yield FULL, "steps and end", spearman(stopped, settled.model.omega[0])
    yield FULL, "accuracy of simulations", float(simulated.accuracy[:, -1].mean())
    values = {
        METHODS[0]: simulated.full * settled.model.omega[0],
        METHODS[1]: simulated.full * stopped,
    }
    for label, value in values.items():
        share = contribution_index(value)
        yield f"{FULL}; {label}", "gini", gini(share)
        yield f"{FULL}; {label}", "zeros", int((share == 0).sum())
    staying = {
        key: shares for key, shares in exclusions(values, seed).items() if key[1] in FULL_KEEP
    }
    yield from retrained(fed, net, FULL, staying, FULL_LOCAL, seed)


def fit_rows(seed: int) -> Iterator[Row]:
    """Fig. 7 at three rates, and Adam's way at the rate that matches the paper's."""
    data, net = load("digits"), mlp(64, 16, 10)
    for skew in SKEWS:
        fed = dealt(data, skew, None, seed)
        for rate in RATES:
            local = LocalSGD(epochs=3, batch=32, lr=rate)
            simulated = simulator(fed, net, 100, 50, local, seed)
            for metric, value in predicted(simulated, skew, seed):
                yield f"{skew}, rate {rate:g}", metric, value
            if rate == 0.1:
                yield from ((skew, *row) for row in path(simulated, seed))


def predicted(simulated: Simulations, skew: str, seed: int) -> Iterator[tuple[str, float]]:
    """Error on twenty held-out simulations, and the share of variance within rounds explained."""
    sizes, accuracy = simulated.sizes, simulated.accuracy
    random = torch.rand(len(sizes), 1, sizes.shape[2], generator=stream(seed, "mixed"))
    mixed = sizes.gather(2, random.argsort(2).expand_as(sizes))  # in every simulation anew
    seen, truth = slice(0, -HELD), accuracy[-HELD:]
    curve = accuracy[seen].mean(0)
    guess = {"mean curve": curve.expand_as(truth)}
    # If it matters who takes part, shuffled clients must predict worse.
    for label, inputs in {"AAM": sizes, "clients shuffled": mixed}.items():
        model = settle(inputs[seen], accuracy[seen], 1).model
        guess[label] = model(inputs[-HELD:])[0]
    if skew == "weak":
        guess["balance of two groups"] = balanced(sizes, accuracy - curve) + curve
    total = (truth - curve).square().sum()
    yield "accuracy at the end", float(curve[-1])
    for label, accuracies in guess.items():
        error = (accuracies - truth).square()
        yield f"error, {label}", float(error.mean().sqrt())
        yield f"R2, {label}", float(1 - error.sum() / total)


def balanced(sizes: Tensor, rest: Tensor) -> Tensor:
    """Three numbers instead of an AAM: a parabola in how unequal the groups of a round are.

    Clients in turn hold classes 0-4 and 5-9; returns what is added to the curve, [HELD, R]
    """
    even, odd = sizes[:, :, 0::2].sum(2), sizes[:, :, 1::2].sum(2)
    balance = (even - odd) / (even + odd)
    terms = torch.stack([torch.ones_like(balance), balance, balance**2], 2)
    seen = terms[:-HELD].flatten(0, 1), rest[:-HELD].reshape(-1, 1)
    return (terms[-HELD:] @ torch.linalg.lstsq(*seen).solution)[..., 0]


def path(simulated: Simulations, seed: int) -> Iterator[tuple[str, float]]:
    """Four starts of Adam, looked at on their way, beside the least squared error."""
    adam = fit_aam(
        simulated.sizes,
        simulated.accuracy,
        starts=STARTS,
        start="random",
        steps=PATH[-1],
        every=100,
        seed=seed,
    )
    end = settle(simulated.sizes, simulated.accuracy, STARTS, seed)
    yield "settled: agreement of starts", end.agreement
    yield "settled: spread of the loss", float(end.loss[-1] / end.loss[0] - 1)
    for step in PATH:
        omega, loss = adam.omega[step // 100 - 1], adam.loss[step // 100 - 1]  # [starts, K]
        among = min(spearman(one, other) for one, other in itertools.combinations(omega, 2))
        index = torch.stack([contribution_index(simulated.full * quality) for quality in omega])
        yield f"agreement of starts @ {step}", among
        with_end = sum(spearman(quality, end.omega[0]) for quality in omega) / STARTS
        yield f"agreement with the end @ {step}", with_end
        yield f"zeros @ {step}", float((index < 1e-3 / 20).sum() / STARTS)
        yield f"spread of the index @ {step}", float(index.std(0).mean())
        yield f"excess error @ {step}", float(loss.mean() / end.loss[0] - 1)


def ladder(y: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
    """Client sizes in the proportions 1 : 2 : ... : n, in random order."""
    share = torch.randperm(clients, generator=generator) + 1
    cuts = (share.cumsum(0) * len(y) // share.sum())[:-1]
    return list(torch.randperm(len(y), generator=generator).tensor_split(cuts))


def eight(data: Dataset, kind: str, seed: int) -> Federation:
    """Eight clients: alike, skewed, of sizes 1 to 8, or with 0 to 7/8 of the labels wrong."""
    order = torch.randperm(8, generator=stream(seed, "who is noisy")).tolist()
    # Every client has another share, so that there is a right ranking.
    noise = {k: flip_labels(place / 8) for place, k in enumerate(order) if place}
    split = split_of(kind) if kind in SKEWS else iid()
    return federation(
        data,
        clients=8,
        split=ladder if kind == "sizes" else split,
        corrupt=noise if kind == "graded noise" else {},
        samples=480,
        validation=500,
        test=500,
        seed=seed,
    )


def ridge(sizes: Tensor, accuracy: Tensor, penalty: float = 1.0) -> Tensor:
    """Coefficients [K] of the mean sizes used so far, for the deviation from the mean curve."""
    # Deviations from the mean: what every training learns with time is taken out.
    so_far = sizes.cumsum(1) / torch.arange(1, sizes.shape[1] + 1)[:, None]
    inputs = (so_far - so_far.mean(0)).flatten(0, 1)
    targets = (accuracy - accuracy.mean(0)).flatten()
    damped = inputs.T @ inputs + penalty * torch.eye(inputs.shape[1]).to(inputs)
    return torch.linalg.solve(damped, inputs.T @ targets)


def shapley_rows(seed: int) -> Iterator[Row]:
    """Rank correlation with the exact Shapley value by retraining, eight clients."""
    data, net, local = load("digits"), mlp(64, 16, 10), LocalSGD(epochs=2, batch=20, lr=0.3)
    for kind in KINDS:
        fed = eight(data, kind, seed)
        simulated = simulator(fed, net, 100, 10, local, seed)
        settled = settle(simulated.sizes, simulated.accuracy, seed=seed)
        early = fit_aam(simulated.sizes, simulated.accuracy, every=3000, seed=seed).omega[-1, 0]
        # Trained again with another seed: how far does the truth agree with itself?
        game, again = (retraining_game(fed, net, 10, local, seed=s) for s in (seed, 1000 + seed))
        truth = exact(game).values
        scores = {
            "FedCCEA": simulated.full * settled.model.omega[0],
            "FedCCEA, 3,000 steps": simulated.full * early,
            "ridge regression": simulated.full * ridge(simulated.sizes, simulated.accuracy),
            "TMC": truncated(game, 8, 0.01, seed=seed).values,
            "LOO": leave_one_out(game).values,
            "size alone": simulated.full,
            "exact, trained again": exact(again).values,
        }
        yield kind, "agreement of starts", settled.agreement
        for method, value in scores.items():
            yield f"{kind}; {method}", "rank correlation", spearman(value, truth)


def time_rows(seed: int) -> Iterator[Row]:
    """Table 2: seconds of one training of each kind at every n, on one thread; 300 samples each."""
    data, net = load("mnist"), mlp(784, 16, 10)
    # Two rounds are timed and taken times 25: all rounds cost the same.
    local, rounds = LocalSGD(epochs=3, batch=32, lr=0.1), 2
    for clients in MANY:
        samples = 300 * clients
        fed = federation(
            data, clients=clients, samples=samples, validation=500, test=500, seed=seed
        )
        ids, places = torch.arange(clients), torch.linspace(1, clients, min(clients, 8)).round()
        along = ids < places[:, None]  # coalitions along one order
        others = ids != torch.arange(3)[:, None]
        generator = stream(seed, "shares", clients)
        shares = torch.rand(3, rounds, clients, generator=generator)
        work = {
            "FedCCEA, one simulation": (shares, 1),
            "TMC, one pass": (along[:, None].expand(-1, rounds, -1).double(), clients),
            "LOO": (others[:, None].expand(-1, rounds, -1).double(), clients + 1),
        }
        for label, (shares, trainings) in work.items():
            began = time.process_time()
            simulate(fed, net, shares, local=local, seed=seed)
            taken = (time.process_time() - began) / len(shares) * 50 / rounds
            epochs = float(shares.mean()) * clients * 50 * local.epochs
            yield f"{clients} clients", f"seconds, {label}", taken * trainings
            yield f"{clients} clients", f"client epochs, {label}", epochs * trainings
