"""FedCCEA: clients with index 0, removal, detection, and cost. Chapter 7 reads these results.

[shyn2021fedccea, Section 4 and appendix C]. Above: fedccea_claims.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.methods.fedccea import Simulations
from fedlab_mini.streams import stream
from fedlab_mini.worlds.corrupt import Backdoor
from fedlab_mini.worlds.partition import ByClass, Split

from .study import Row

CLIENTS, ROUNDS, SIMULATIONS, SAMPLES = 20, 50, 100, 600
STEPS = 3000  # of Adam, where its fit is stopped
NOISY, HIDDEN = 4, 16  # clients, a fifth of all; hidden units
REMOVED = (2, 4, 8, 12)
SKEWS = ("alike", "weak", "strong")
SETTLED, STOPPED = "FedCCEA", "FedCCEA, stopped"
METHODS = (SETTLED, STOPPED, "TMC", "LOO")
PLAIN, NOISE = "no noise", "40 % noise"
FULL, FULL_LOCAL = f"strong, {PLAIN}", fm.LocalSGD(epochs=3, batch=32, lr=0.001)
WRONGS = ("10 % noise", "20 % noise", "square", "80 % noise", "square and label")
RATES = (0.03, 0.1, 0.3)
PATH = (100, 300, 1000, 3000, 10000, 20000)  # Adam's steps that are looked at
STARTS, HELD = 4, 20  # of Adam; simulations that the fit does not see
KINDS = (*SKEWS, "sizes", "graded noise")  # federations of eight
LENGTHS = (25, 100, 400)  # simulations
TABLE2 = (4, 8, 12, 16, 32, 64)  # clients
BILLS = {8: (100,), 16: (100, 400), 32: (100, 400), 64: (100,)}  # clients: simulations
ANOTHER = 1000  # is added to a seed for runs that share nothing with those of the seed


@dataclass(frozen=True)
class Source:
    """A data set and the paper's setting for it: classes per client (weak, strong), local work."""

    weak: int
    strong: int
    local: fm.LocalSGD


SOURCES = {
    "mnist": Source(5, 2, fm.LocalSGD(epochs=3, batch=32, lr=0.1)),
    "digits": Source(5, 2, fm.LocalSGD(epochs=3, batch=32, lr=0.1)),
    "emnist-letters": Source(13, 5, fm.LocalSGD(epochs=1, batch=16, lr=0.3)),
}


def split_of(skew: str, source: str = "digits") -> Split:
    """How labels are distributed: IID, or a few classes per client."""
    classes = SOURCES[source]
    splits = {
        "alike": fm.IID(),
        "weak": ByClass(classes.weak),
        "strong": ByClass(classes.strong),
    }
    return splits[skew]


def wrongs(data: fm.Dataset) -> dict[str, object]:
    """The faults of a fifth of the clients: none, wrong labels, a square in images, both."""
    levels = {f"{percent} % noise": fm.FlipLabels(percent / 100) for percent in (10, 20, 40, 80)}
    shape = data.shape or (1, 8, 8)
    side = 3 if shape[1] > 8 else 2
    squares = {
        "square": Backdoor(None, 0.2, shape, size=side),
        "square and label": Backdoor(0, 0.2, shape, size=side),
    }
    return {PLAIN: None, **levels, **squares}


def dealt(data: fm.Dataset, skew: str, wrong: object, seed: int, source: str = "") -> fm.Federation:
    """Twenty clients, 600 images; every fault corrupts the same four clients.

    source  the data set that sets the classes per client, if it is another
    """
    bad = torch.randperm(CLIENTS, generator=stream(seed, "noisy clients"))[:NOISY].tolist()
    return fm.federation(
        data,
        clients=CLIENTS,
        split=split_of(skew, source or data.name),
        corrupt={} if wrong is None else dict.fromkeys(sorted(bad), wrong),
        samples=SAMPLES,
        validation=500,
        test=600 if data.name == "digits" else 1000,
        seed=seed,
    )


def gini(shares: Tensor) -> float:
    """The inequality of shares [n] >= 0 with sum 1: 0 if all are equal, near 1 if one has all."""
    count, ordered = len(shares), shares.sort().values
    places = 2 * torch.arange(1, count + 1) - count - 1
    return float(places.double() @ ordered / count)


Measured = Iterator[tuple[str, str, float]]  # method, metric, value: a row of one scenario


def index_rows(
    seed: int,
    *,
    source: str = "mnist",
    data: str = "",
    skews: Sequence[str] = SKEWS,
    wrong: Sequence[str] = (PLAIN, NOISE),
    rounds: int = ROUNDS,
    simulations: int = SIMULATIONS,
    steps: int = STEPS,
) -> Iterator[Row]:
    """The index on one data set, for each skew and each fault of a fifth of the clients.

    source  the data set of the protocol        data   the images, if they are others
    wrong   of ``wrongs``; without noise first  steps  of Adam, where its fit is stopped
    """
    images, local = fm.load(data or source), SOURCES[source].local
    for skew, what in itertools.product(skews, wrong):
        fed = dealt(images, skew, wrongs(images)[what], seed, source)
        for row in evaluation(fed, local, seed, rounds, simulations, steps):
            yield f"{skew}, {what}", *row


def halves_agree(simulated: Simulations) -> float:
    """Rank correlation of qualities from the even simulations with those from the odd ones."""
    # Two halves share only the clients, so their agreement is due to the clients.
    halves = (slice(0, None, 2), slice(1, None, 2))
    fits = [
        fm.methods.settle(simulated.sizes[half], simulated.accuracy[half], 1) for half in halves
    ]
    return fm.spearman(*(fit.omega[0] for fit in fits))


def evaluation(
    fed: fm.Federation,
    local: fm.LocalSGD,
    seed: int,
    rounds: int,
    simulations: int,
    steps: int,
    whole: bool = False,
) -> Measured:
    """One federation: the values, their convergence, and the effect of removing clients.

    whole  at the paper's size: only FedCCEA, because one training run takes seconds
    steps  of Adam, where its fit is stopped
    """
    net = fm.mlp(fed.x[0].numel(), HIDDEN, fed.classes)
    simulated = fm.methods.simulator(fed, net, simulations, rounds, local, seed)
    settled = fm.methods.settle(simulated.sizes, simulated.accuracy, seed=seed)
    omega = settled.model.omega[0]
    # Beside the converged fit, one that a user of the paper might stop early.
    adam = fm.methods.fit_aam(
        simulated.sizes, simulated.accuracy, steps=steps, every=100, seed=seed
    )
    stopped = adam.omega[:, 0]
    values = {SETTLED: simulated.full * omega, STOPPED: simulated.full * stopped[-1]}
    yield "", "agreement of starts", settled.agreement
    yield "", "split half", halves_agree(simulated)
    yield "", "agreement of stopped and settled", fm.spearman(stopped[-1], omega)
    yield "simulations", "accuracy", float(simulated.accuracy[:, -1].mean())
    if not whole:
        game = fm.retraining_game(fed, net, rounds, local, seed=seed)
        values["TMC"] = fm.truncated(game, 2, 0.01, seed=seed).values
        values["LOO"] = fm.leave_one_out(game).values
        yield "sizes", "Gini coefficient", gini(simulated.full / CLIENTS)
        early = fm.contribution_index(simulated.full * stopped[0])
        yield "FedCCEA, 100 steps", "Gini coefficient", gini(early)
    for method, value in values.items():
        share = fm.contribution_index(value)
        yield method, "Gini coefficient", gini(share)
        yield method, "zeros", int((share == 0).sum())
        if not whole:
            yield method, "smallest share", float(share.min())
        if fed.corrupted:
            yield method, "AUC", fm.detection_auc(value, fed.corrupted)
    staying = exclusions(values, seed, (8,) if whole else REMOVED)
    if not whole:
        staying |= partial(values[SETTLED], fed, seed, rounds)
    yield from retrained(fed, net, staying, local, seed, rounds)


Staying = dict[tuple[str, str], Tensor]  # method, metric -> who trains, [K] or [R, K]


def retrained(
    fed: fm.Federation, net: fm.Model, staying: Staying, local: fm.LocalSGD, seed: int, rounds: int
) -> Measured:
    """Test accuracy of training runs without some clients, all computed at once."""
    # One stack from one start: differences are due to who leaves.
    tables = torch.stack([shares.expand(rounds, CLIENTS) for shares in staying.values()])
    final = fm.simulate(fed, net, tables, local=local, seed=seed, on="test", last=True)[:, 0]
    for (method, metric), accuracy in zip(staying, final.tolist(), strict=True):
        yield method, metric, accuracy


def ends(order: Tensor, removed: int) -> Iterator[tuple[str, Tensor]]:
    """Who stays [..., K] if the first or last of an ordering [..., K], lowest first, leave."""
    for end, gone in (("lowest", slice(0, removed)), ("highest", slice(CLIENTS - removed, None))):
        staying = torch.ones(order.shape, dtype=torch.float64)
        yield f"accuracy without {end} @ {removed}", staying.scatter_(-1, order[..., gone], 0.0)


def exclusions(values: dict[str, Tensor], seed: int, counts: tuple[int, ...]) -> Staying:
    """Who trains if zeros, the lowest or the highest are removed; ties are broken at random."""
    staying = {("", "accuracy"): torch.ones(CLIENTS, dtype=torch.float64)}
    shuffled = torch.randperm(CLIENTS, generator=stream(seed, "ties"))
    for method, value in values.items():
        # Shuffled first: clients of equal value would leave in the order of their ids.
        order = shuffled[value[shuffled].argsort(stable=True)]
        staying[method, "accuracy without zeros"] = (fm.contribution_index(value) > 0).double()
        for removed in counts:
            staying |= {(method, metric): shares for metric, shares in ends(order, removed)}
    return staying


def partial(values: Tensor, fed: fm.Federation, seed: int, rounds: int) -> Staying:
    """Random amounts every round, without the round's lowest or highest by x omega or by x."""
    generator, size = stream(seed, "amounts"), (rounds, CLIENTS)
    # No amount is exactly 0: that would be absence.
    amount = torch.rand(size, generator=generator, dtype=torch.float64).clamp(min=1e-9)
    staying = {("", "accuracy with random amounts"): amount}
    for method, rank in {"x omega": amount * values, "x alone": amount * fed.sizes}.items():
        for removed in (4, 8):
            for metric, shares in ends(rank.argsort(stable=True), removed):
                staying[method, metric] = amount * shares
    return staying


def full_rows(
    seed: int,
    *,
    data: str = "mnist",
    rounds: int = ROUNDS,
    simulations: int = SIMULATIONS,
    steps: int = STEPS,
) -> Iterator[Row]:
    """All of MNIST, two classes per client, the paper's rate: the index, and removals."""
    images, split = fm.load(data), ByClass(2)
    fed = fm.federation(
        images, clients=CLIENTS, split=split, validation=1_000, test=2_000, seed=seed
    )
    everybody = {("", "accuracy"): torch.ones(CLIENTS, dtype=torch.float64)}
    # The quick part first: renewing the study does not need the rest, an hour.
    net = fm.mlp(fed.x[0].numel(), HIDDEN, fed.classes)
    for row in retrained(fed, net, everybody, FULL_LOCAL, seed, rounds):
        yield FULL, *row
    found = evaluation(fed, FULL_LOCAL, seed, rounds, simulations, steps, whole=True)
    for method, metric, value in found:
        if (method, metric) not in everybody:
            yield FULL, method, metric, value


def fit_rows(
    seed: int,
    *,
    skews: Sequence[str] = SKEWS,
    rounds: int = ROUNDS,
    simulations: int = SIMULATIONS,
    looks: Sequence[int] = PATH,
) -> Iterator[Row]:
    """Fig. 7 at three rates, and Adam's path at the rate that matches the paper's.

    simulations  the last twenty are held out    looks  steps of Adam, ascending hundreds
    """
    data, net = fm.load("digits"), fm.mlp(64, HIDDEN, 10)
    for skew in skews:
        fed = dealt(data, skew, None, seed)
        for rate in RATES:
            local = fm.LocalSGD(epochs=3, batch=32, lr=rate)
            simulated = fm.methods.simulator(fed, net, simulations, rounds, local, seed)
            for row in predicted(simulated, skew, seed):
                yield f"{skew}, rate {rate:g}", *row
            if rate == 0.1:
                for row in path(simulated, seed, looks):
                    yield skew, *row


def predicted(simulated: Simulations, skew: str, seed: int) -> Measured:
    """Error on twenty held-out simulations, and the explained share of variance within rounds."""
    sizes, accuracy = simulated.sizes, simulated.accuracy
    random = torch.rand(len(sizes), 1, sizes.shape[2], generator=stream(seed, "mixed"))
    mixed = sizes.gather(2, random.argsort(2).expand_as(sizes))  # in every simulation anew
    seen, truth = slice(0, -HELD), accuracy[-HELD:]
    curve = accuracy[seen].mean(0)
    guess = {"mean curve": curve.expand_as(truth)}
    # If it matters which clients participate, shuffled clients must predict worse.
    for label, inputs in {"AAM": sizes, "clients shuffled": mixed}.items():
        model = fm.methods.settle(inputs[seen], accuracy[seen], 1).model
        guess[label] = model(inputs[-HELD:])[0]
    if skew == "weak":
        guess["balance of two groups"] = balanced(sizes, accuracy - curve) + curve
    total = (truth - curve).square().sum()
    yield "mean curve", "accuracy", float(curve[-1])
    for label, accuracies in guess.items():
        error = (accuracies - truth).square()
        yield label, "error", float(error.mean().sqrt())
        yield label, "R2", float(1 - error.sum() / total)


def balanced(sizes: Tensor, rest: Tensor) -> Tensor:
    """Three numbers instead of an AAM: a parabola in how unequal the groups of a round are.

    Clients hold classes 0-4 and 5-9 alternately; returns the addition to the curve, [HELD, R]
    """
    even, odd = sizes[:, :, 0::2].sum(2), sizes[:, :, 1::2].sum(2)
    balance = (even - odd) / (even + odd)
    terms = torch.stack([torch.ones_like(balance), balance, balance**2], 2)
    seen = terms[:-HELD].flatten(0, 1), rest[:-HELD].reshape(-1, 1)
    return (terms[-HELD:] @ torch.linalg.lstsq(*seen).solution)[..., 0]


def path(simulated: Simulations, seed: int, looks: Sequence[int]) -> Measured:
    """Four starts of Adam at several steps, compared with least squares."""
    adam = fm.methods.fit_aam(
        simulated.sizes,
        simulated.accuracy,
        starts=STARTS,
        start="random",
        steps=looks[-1],
        every=100,
        seed=seed,
    )
    end = fm.methods.settle(simulated.sizes, simulated.accuracy, STARTS, seed)
    yield "settled", "agreement of starts", end.agreement
    for step in looks:
        omega, loss = adam.omega[step // 100 - 1], adam.loss[step // 100 - 1]  # [starts, K]
        among = min(fm.spearman(one, other) for one, other in itertools.combinations(omega, 2))
        index = torch.stack([fm.contribution_index(simulated.full * quality) for quality in omega])
        with_end = sum(fm.spearman(quality, end.omega[0]) for quality in omega) / STARTS
        yield "Adam", f"agreement of starts @ {step}", among
        yield "Adam", f"agreement with the end @ {step}", with_end
        yield "Adam", f"zeros @ {step}", float((index < 1e-3 / CLIENTS).sum() / STARTS)
        yield "Adam", f"excess error @ {step}", float(loss.mean() / end.loss[0] - 1)


def ladder(y: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
    """Client sizes in the proportions 1 : 2 : ... : n, in random order."""
    share = torch.randperm(clients, generator=generator) + 1
    cuts = (share.cumsum(0) * len(y) // share.sum())[:-1]
    return list(torch.randperm(len(y), generator=generator).tensor_split(cuts))


def eight(data: fm.Dataset, kind: str, seed: int) -> fm.Federation:
    """Eight clients: IID, with skew, of sizes 1 to 8, or with 0 to 7/8 wrong labels."""
    order = torch.randperm(8, generator=stream(seed, "who is noisy")).tolist()
    # Every client has a different share, so that there is one right ranking.
    noise = {client: fm.FlipLabels(place / 8) for place, client in enumerate(order) if place}
    split = split_of(kind) if kind in SKEWS else fm.IID()
    return fm.federation(
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
    # Deviations from the mean remove what every training run learns over time.
    so_far = sizes.cumsum(1) / torch.arange(1, sizes.shape[1] + 1)[:, None]
    inputs = (so_far - so_far.mean(0)).flatten(0, 1)
    targets = (accuracy - accuracy.mean(0)).flatten()
    damped = inputs.T @ inputs + penalty * torch.eye(inputs.shape[1]).to(inputs)
    return torch.linalg.solve(damped, inputs.T @ targets)


def learned(simulated: Simulations, count: int, seed: int) -> dict[str, Tensor]:
    """Three scores from the first ``count`` simulations; the stopped fit at the paper's number."""
    sizes, accuracy = simulated.sizes[:count], simulated.accuracy[:count]
    scores = {
        SETTLED: simulated.full * fm.methods.settle(sizes, accuracy, seed=seed).model.omega[0],
        "ridge regression": simulated.full * ridge(sizes, accuracy),
    }
    if count == SIMULATIONS:
        stopped = fm.methods.fit_aam(sizes, accuracy, every=3000, seed=seed).omega[-1, 0]
        scores[STOPPED] = simulated.full * stopped
    return scores


def shapley_rows(
    seed: int,
    *,
    kinds: Sequence[str] = KINDS,
    rounds: int = 10,
    simulations: Sequence[int] = LENGTHS,
) -> Iterator[Row]:
    """Rank correlation with exact Shapley values from other training runs, for eight clients."""
    data, net, local = (
        fm.load("digits"),
        fm.mlp(64, HIDDEN, 10),
        fm.LocalSGD(epochs=2, batch=20, lr=0.3),
    )
    truth_seed = ANOTHER + seed
    # A score from the same training runs as the reference values would share their chance errors.
    assert truth_seed != seed
    for kind in kinds:
        fed = eight(data, kind, seed)
        truth = fm.exact(fm.retraining_game(fed, net, rounds, local, seed=truth_seed)).values
        game = fm.retraining_game(fed, net, rounds, local, seed=seed)
        simulated = fm.methods.simulator(fed, net, max(simulations), rounds, local, seed)
        for count in simulations:
            for method, value in learned(simulated, count, seed).items():
                yield kind, method, f"rank correlation @ {count}", fm.spearman(value, truth)
        scores = {
            "TMC": fm.truncated(game, 8, 0.01, seed=seed).values,
            "LOO": fm.leave_one_out(game).values,
            "size alone": simulated.full,
            "exact, trained again": fm.exact(game).values,
        }
        for method, value in scores.items():
            yield kind, method, "rank correlation", fm.spearman(value, truth)


def bill_rows(
    seed: int, *, bills: Mapping[int, Sequence[int]] = BILLS, rounds: int = 10
) -> Iterator[Row]:
    """A quarter of the clients have 80 % wrong labels: which method finds them at equal cost?

    `bills`  {number of clients: number of simulations that a method may cost}
    """
    data, net, local = (
        fm.load("digits"),
        fm.mlp(64, HIDDEN, 10),
        fm.LocalSGD(epochs=2, batch=10, lr=0.3),
    )
    for clients, counts in bills.items():
        order = torch.randperm(clients, generator=stream(seed, "noisy clients")).tolist()
        bad = dict.fromkeys(order[: clients // 4], fm.FlipLabels(0.8))
        fed = fm.federation(
            data,
            clients=clients,
            corrupt=bad,
            samples=20 * clients,
            validation=400,
            test=100,
            seed=seed,
        )
        for count in counts:
            spent = same_bill(fed, net, local, count, seed, rounds)
            for method, (value, bill) in spent.items():
                yield (
                    f"{clients} clients",
                    method,
                    f"AUC @ {count}",
                    fm.detection_auc(value, fed.corrupted),
                )
                yield f"{clients} clients", method, f"client epochs @ {count}", bill


def same_bill(
    fed: fm.Federation, net: fm.Model, local: fm.LocalSGD, count: int, seed: int, rounds: int
) -> dict[str, tuple[Tensor, float]]:
    """Values and client epochs of methods that cost at most as much as ``count`` simulations."""
    simulated = fm.methods.simulator(fed, net, count, rounds, local, seed)
    scores = learned(simulated, count, seed)
    spent = {method: (value, simulated.cost.client_epochs) for method, value in scores.items()}
    # One pass trains n (n + 1) / 2 clients, one simulation n / 2.
    game = fm.retraining_game(fed, net, rounds, local, seed=seed)
    orders = fm.permutation(game, max(1, count // (fed.clients + 1)), seed=seed)
    spent["TMC"] = orders.values, orders.client_epochs
    if count == SIMULATIONS:
        for method, shares in designs(count, fed.clients, seed).items():
            table = shares.expand(-1, rounds, -1)
            accuracy = fm.simulate(fed, net, table, local=local, seed=seed)
            bill = float(shares.sum()) * rounds * local.epochs
            spent[method] = ridge(table, accuracy), bill
    return spent


def designs(count: int, clients: int, seed: int) -> dict[str, Tensor]:
    """Other random shares [count, 1, K], the same in all rounds of a run; half on average."""
    generator = stream(seed, "designs")
    amounts, coins = torch.rand(2, count, 1, clients, generator=generator, dtype=torch.float64)
    whole = (coins < 0.5).double()
    whole[whole.sum(2).squeeze(1) == 0] = 1  # somebody has to train
    return {"ridge, amounts kept": amounts.clamp(min=1e-9), "ridge, whole clients": whole}


def time_rows(seed: int, *, data: str = "mnist", clients: Sequence[int] = TABLE2) -> Iterator[Row]:
    """Table 2: seconds of one run of each kind at every n, on one thread; 300 samples each."""
    images, net = fm.load(data), fm.mlp(784, HIDDEN, 10)
    # Two rounds are timed and taken times 25: all rounds cost the same.
    local, rounds = fm.LocalSGD(epochs=3, batch=32, lr=0.1), 2
    for count in clients:
        samples = 300 * count
        fed = fm.federation(
            images, clients=count, samples=samples, validation=500, test=500, seed=seed
        )
        ids, places = torch.arange(count), torch.linspace(1, count, min(count, 8)).round()
        along = ids < places[:, None]  # coalitions along one ordering
        others = ids != torch.arange(3)[:, None]
        generator = stream(seed, "shares", count)
        shares = torch.rand(3, rounds, count, generator=generator)
        work = {
            "FedCCEA, one simulation": (shares, 1),
            "TMC, one pass": (along[:, None].expand(-1, rounds, -1).double(), count),
            "LOO": (others[:, None].expand(-1, rounds, -1).double(), count + 1),
        }
        for method, (shares, trainings) in work.items():
            began = time.process_time()
            fm.simulate(fed, net, shares, local=local, seed=seed)
            taken = (time.process_time() - began) / len(shares) * 50 / rounds
            epochs = float(shares.mean()) * count * 50 * local.epochs
            yield f"{count} clients", method, "seconds", taken * trainings
            yield f"{count} clients", method, "client epochs", epochs * trainings
