"""CGSV: which clients its weights find or miss, when they gain accuracy, how long a step may be.

[cgsvaggregation] gives no setting, so this book chose one. Chapter 4 reads these results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server, State, Step
from fedlab_mini.show import plots

from .protocols import study
from .results import Results, shown
from .study import Claim, Derived, Row, rows_of

CLIENTS, ROUNDS = 10, 60
LOCAL = fm.LocalSGD(epochs=1, batch=20, lr=0.1)
IMAGES = {"digits": None, "mnist5k": 3000}  # of all clients
ALIKE, SKEWED, VERY_SKEWED = "alike", "Dirichlet 0.5", "Dirichlet 0.1"
SPLITS = {ALIKE: None, SKEWED: 0.5, VERY_SKEWED: 0.1}
SOUND = "Dirichlet 0.1, no wrong labels"

OURS, PRINTED = "CGSV", "CGSV as printed"
EQUAL, EQUAL_PRINTED = "equal weights", "equal weights, printed step"
SIZES, TIMES_SIZE = "size weights", "CGSV times size"
FEDAVG, UNIFORM = "FedAvg", "FedAvg, equal weights"


class EqualWeights(fm.CGSV):
    """The control: unit updates and steps as in CGSV, but equal weights.

    gamma_0 = 1 is another control: its weights stay proportional to the sizes.
    """

    def weights(self, server: Server, state: State, round: Round) -> Tensor:
        """1 / m for everybody [m]."""
        m = len(round.clients)
        return round.updates.new_full((m,), 1 / m)


class TimesSize(fm.CGSV):
    """CGSV with its weights multiplied by the clients' numbers of samples."""

    def weights(self, server: Server, state: State, round: Round) -> Tensor:
        """r_k n_k, scaled to sum 1 [m]."""
        weights = super().weights(server, state, round) * round.sizes
        return weights / weights.sum()


class Seen:
    """What CGSV sees in every round: ``train(..., watch=Seen())``.

    seen    [T][4]     mean cosine, its floor, median length of an update, turn of the server
    angles  [T, K, K]  cosines between the clients' updates
    undoing [T, K]     cosines of the updates with the way back to the first model

    The floor is the mean cosine of updates that are pure noise: in many dimensions they are nearly
    at right angles, so cos(u_k, U) is about r_k / |r| and its mean 1 / (K |r|).
    """

    def __init__(self) -> None:
        self.seen: list[list[float]] = []
        self.angles: list[Tensor] = []
        self.undoing: list[Tensor] = []

    def __call__(self, round: Round, step: Step) -> None:
        """Note a round."""
        direction = normalize(step.theta - round.theta, dim=0)
        if not self.seen:
            self.first, self.last = round.theta, torch.zeros_like(direction)
        units = normalize(round.updates, dim=1)
        self.angles.append(units @ units.T)
        self.undoing.append(fm.cosines(round.updates, self.first - round.theta))
        floor = float(1 / (len(step.weights) * step.weights.norm()))
        length, turn = float(round.updates.norm(dim=1).median()), float(direction @ self.last)
        self.seen.append([float(step.state["psi"].mean()), floor, length, turn])
        self.last = direction


def cleaner(noise: Tensor) -> Tensor:
    """Which clients have fewer wrong labels than the median client, [K] bool."""
    return noise < noise.median() + 1e-9


def by_group(angles: Tensor, noise: Tensor) -> dict[str, float]:
    """Mean cosine between the updates of two clients, by the half they belong to.

    angles  [K, K]  cosines of all pairs
    noise   [K]     share of wrong labels
    """
    clean = cleaner(noise)
    others = ~torch.eye(len(noise), dtype=torch.bool)
    groups = {
        "two cleaner": clean[:, None] & clean,
        "one of each": clean[:, None] & ~clean,
        "two noisier": ~clean[:, None] & ~clean,
    }
    return {name: float(angles[pairs & others].mean()) for name, pairs in groups.items()}


def setting(source: str) -> tuple[fm.Dataset, fm.Model]:
    """Data and network."""
    data = fm.load(source, dtype=torch.float64)
    return data, fm.mlp(data.x.shape[1], 32, data.classes)


def ladder(
    data: fm.Dataset,
    source: str,
    seed: int,
    alpha: float | None = None,
    most: float = 0.9,
    images: int | None = None,
) -> fm.Federation:
    """Ten clients with 0, 10, ... 90 per cent wrong labels, in random order.

    alpha   concentration of the label skew; None: no skew
    most    the largest share of wrong labels; 0: none are wrong
    images  of all clients; None: those of IMAGES
    """
    # In random order, so that no client id stands for clean labels.
    order = torch.randperm(CLIENTS, generator=torch.Generator().manual_seed(seed)).tolist()
    shares = {client: most * place / (CLIENTS - 1) for client, place in enumerate(order)}
    return fm.federation(
        data,
        clients=CLIENTS,
        split=None if alpha is None else fm.DirichletLabels(alpha, floor=10),
        corrupt={client: fm.FlipLabels(share) for client, share in shares.items()} if most else {},
        samples=images or IMAGES[source],
        seed=seed,
    )


def trained(
    fed: fm.Federation,
    net: fm.Model,
    strategy: fm.FedAvg,
    seed: int,
    rounds: int = ROUNDS,
    watch: Seen | None = None,
) -> fm.History:
    """The training that all of these studies share."""
    return fm.train(fed, net, strategy, rounds=rounds, local=LOCAL, seed=seed, watch=watch)


def accuracies(history: fm.History, lengths: tuple[int, ...]) -> Iterator[tuple[str, float]]:
    """Accuracy after these rounds, a mean over ten, as one depends on its minibatches."""
    for length in lengths:
        if length < len(history.accuracy):
            yield f"accuracy @ {length}", float(history.accuracy[length - 9 : length + 1].mean())


def ranking(
    fed: fm.Federation, history: fm.History, lengths: tuple[int, ...]
) -> Iterator[tuple[str, float]]:
    """How well the weights rank label quality, and the effective number of clients."""
    for length in lengths:
        if length > len(history.scores):
            continue
        weights = history.scores[length - 1]
        yield f"rank correlation @ {length}", fm.spearman(weights, 1 - fed.noise)
        yield f"weight of the cleaner half @ {length}", float(weights[cleaner(fed.noise)].sum())
        yield f"clients in effect @ {length}", float(weights.sum() ** 2 / weights.square().sum())


# --- who gains, and when ---------------------------------------------------------------------

LENGTHS = (20, 60, 100, 200, 400, 1600)
CONTROLS_TO = 400  # rounds of the controls that separate causes


def rules(split: str, longest: int) -> Iterator[tuple[str, fm.FedAvg, int]]:
    """Method, strategy and rounds for a split."""
    yield OURS, fm.CGSV(), longest
    yield EQUAL, EqualWeights(1.0), longest
    yield FEDAVG, fm.FedAvg(), longest
    # Without skew all sizes are equal, so weights by size are equal weights.
    if split != ALIKE:
        yield SIZES, fm.CGSV(1.0), min(longest, CONTROLS_TO)
        yield TIMES_SIZE, TimesSize(), min(longest, CONTROLS_TO)
        yield UNIFORM, fm.FedAvg(weighting="uniform"), min(longest, CONTROLS_TO)


def over_length(
    seed: int,
    *,
    data: str = "digits",
    images: int | None = None,
    rounds: int = LENGTHS[-1],
    splits: Sequence[str] = tuple(SPLITS),
) -> Iterator[Row]:
    """Weights by cosine, equal weights and weights by size, from 20 rounds to 1,600.

    images  of all clients; None: those of IMAGES
    rounds  of the longest training, 20 or more
    splits  of SPLITS, the label skews
    """
    dataset, net = setting(data)
    for split in splits:
        fed = ladder(dataset, data, seed, SPLITS[split], images=images)
        for method, strategy, longest in rules(split, rounds):
            history = trained(fed, net, strategy, seed, longest)
            yield from rows_of(split, method, accuracies(history, LENGTHS))
            if method == OURS:
                yield from rows_of(split, method, ranking(fed, history, LENGTHS))
    # To separate noise from skew: the same split with correct labels only.
    fed = ladder(dataset, data, seed, SPLITS[VERY_SKEWED], most=0.0, images=images)
    for method, strategy in {OURS: fm.CGSV(), EQUAL: EqualWeights(1.0)}.items():
        history = trained(fed, net, strategy, seed, min(rounds, CONTROLS_TO))
        yield from rows_of(SOUND, method, accuracies(history, LENGTHS))


def length_derived(results: Results) -> Derived:
    """Accuracy early and at the best length, the cost of long training, losses without noise."""
    for method in (OURS, EQUAL, FEDAVG):
        at = {n: results.values(f"accuracy @ {n}", method, ALIKE) for n in LENGTHS}
        yield ALIKE, method, "accuracy, rounds 60 and 100", (at[60] + at[100]) / 2
        yield ALIKE, method, "accuracy at the best length", torch.stack([*at.values()]).amax(0)
        yield ALIKE, method, "accuracy lost from 200 to 1,600", at[200] - at[1600]
    behind = results.minus("accuracy @ 400", EQUAL, OURS, SOUND) > 0
    yield SOUND, OURS, "behind equal weights", behind.double()


def length_figure(results: Results) -> Figure:
    """What CGSV gains over equal weights at the same step, by rounds of training."""
    gains = {}
    for split in results.scenarios:
        if split != SOUND:
            places, ours = results.curve("accuracy", OURS, split)
            gains[split] = ours - results.curve("accuracy", EQUAL, split)[1]
    label = "accuracy minus that of equal weights"
    figure = plots.curves(gains, x=places, xlabel="rounds (logarithmic)", ylabel=label)
    axis = figure.axes[0]
    axis.axhline(0, color="grey", linewidth=0.8)
    axis.set(xscale="log", xticks=places, xticklabels=[f"{place:g}" for place in places])
    axis.minorticks_off()
    return figure


# --- the paper's rule under the paper's noise and skew -------------------------------------------

ONE_FOUR_SIXTEEN = (15, 60, 240)  # rounds


def ablation(
    seed: int,
    *,
    data: str = "digits",
    images: int | None = None,
    rounds: int = ONE_FOUR_SIXTEEN[-1],
) -> Iterator[Row]:
    """The rule as published, equal weights with the same step, and FedAvg.

    images  of all clients; None: those of IMAGES
    rounds  of every training run, 15 or more
    """
    dataset, net = setting(data)
    for split, alpha in SPLITS.items():
        fed = ladder(dataset, data, seed, alpha, images=images)
        strategies: dict[str, fm.FedAvg] = {
            PRINTED: fm.CGSV(literal=True),
            EQUAL_PRINTED: EqualWeights(literal=True),
            FEDAVG: fm.FedAvg(),
        }
        for method, strategy in strategies.items():
            history = trained(fed, net, strategy, seed, rounds)
            yield from rows_of(split, method, accuracies(history, ONE_FOUR_SIXTEEN))
            if method == PRINTED:
                yield from rows_of(split, method, ranking(fed, history, ONE_FOUR_SIXTEEN))


# --- the length of the server's step ---------------------------------------------------------

MEDIAN, ONE = "weighted median (ours)", "1 (printed)"
STEPS: dict[str, dict] = {
    MEDIAN: {},
    "0.1": {"server_lr": 0.1},
    "0.3": {"server_lr": 0.3},
    # The rule as published has no floor, so its weights may become negative.
    ONE: {"server_lr": 1.0, "floor": None},
    "3": {"server_lr": 3.0},
}


def steps(
    seed: int, *, images: int | None = None, rounds: int = ONE_FOUR_SIXTEEN[-1]
) -> Iterator[Row]:
    """The server's step on two data sets: the median length of an update, and constants.

    images  of all clients, of each data set; None: those of IMAGES
    rounds  of every training run, 15 or more; on MNIST at most 60
    """
    for source in IMAGES:
        data, net = setting(source)
        fed = ladder(data, source, seed, images=images)
        # A round of MNIST costs six times as much.
        longest = rounds if source == "digits" else min(rounds, ROUNDS)
        for method, options in STEPS.items():
            seen = Seen()
            history = trained(fed, net, fm.CGSV(**options), seed, longest, seen)
            rate = options.get("server_lr", "median")
            yield from rows_of(source, method, watched(seen, rate, fed.noise))
            yield from rows_of(source, method, accuracies(history, ONE_FOUR_SIXTEEN))
            yield from rows_of(source, method, ranking(fed, history, ONE_FOUR_SIXTEEN))
        # To separate the step from the weights: equal weights with our step.
        seen = Seen()
        trained(fed, net, EqualWeights(), seed, min(rounds, ROUNDS), seen)
        yield from rows_of(source, EQUAL, watched(seen, "median", fed.noise))


def watched(seen: Seen, rate: float | str, noise: Tensor) -> Iterator[tuple[str, float]]:
    """Measures of rounds 51 to 60, or of the last ten; a step of one median length counts 1."""
    end = min(ROUNDS, len(seen.seen))
    late = slice(end - 10, end)
    cosine, floor, length, turn = torch.tensor(seen.seen)[late].mean(0).tolist()
    yield "mean cosine", cosine
    yield "cosine above floor", cosine - floor
    yield "step in lengths", 1.0 if isinstance(rate, str) else rate / length
    yield "successive steps", turn
    angles, undoing = (torch.stack(kept[late]).mean(0) for kept in (seen.angles, seen.undoing))
    for pair, cosine in by_group(angles, noise).items():
        yield f"cosine of {pair}", cosine
    yield "way back, noisier half", float(undoing[~cleaner(noise)].mean())


def steps_figure(results: Results) -> Figure:
    """How well the weights rank, the shortest step first, measured in lengths of an update."""
    lengths = {
        (source, method): results.interval("step in lengths", method, source).mean
        for source in IMAGES
        for method in STEPS
    }
    return plots.dots(
        {
            f"{length:.1f}: {shown(method)}, {source}": results.values(
                "rank correlation @ 60", method, source
            )
            for (source, method), length in sorted(lengths.items(), key=lambda item: item[1])
        },
        xlabel="rank correlation of weight and label quality",
        ylabel="step, in lengths of a median update",
        low=-1,
        high=1,
    )


# --- gamma_0 -----------------------------------------------------------------------------------

GAMMAS = (0.0, 0.5, 0.9, 0.95, 1.0)
OUR_STEP, PRINTED_STEP = "our step", "printed step"


def named(gamma0: float) -> str:
    """The method of a gamma_0."""
    return f"gamma_0 = {gamma0:g}"


def gammas(seed: int, *, rounds: int = ONE_FOUR_SIXTEEN[-1]) -> Iterator[Row]:
    """gamma_0 from 0 to 1, with wrong labels and label skew (Dirichlet 0.5).

    rounds  of every training run, 15 or more
    """
    data, net = setting("digits")
    fed = ladder(data, "digits", seed, SPLITS[SKEWED])
    for step, literal in {OUR_STEP: False, PRINTED_STEP: True}.items():
        for gamma0 in GAMMAS:
            strategy = fm.CGSV(gamma0, literal=literal)
            history = trained(fed, net, strategy, seed, rounds)
            yield from rows_of(step, named(gamma0), accuracies(history, ONE_FOUR_SIXTEEN))
            last = history.accuracy[: ROUNDS + 1][-31:]
            yield step, named(gamma0), "change per round", float(last.diff().abs().mean())
            # With gamma_0 = 1 weights stay what they were at the start: sizes.
            if gamma0 < 1:
                yield from rows_of(step, named(gamma0), ranking(fed, history, ONE_FOUR_SIXTEEN))


GAMMA_CLAIMS = [
    Claim(
        f"Weights that listen to the cosine ({named(gamma0)}) train a better model than sizes "
        "alone (the paper's step).",
        "accuracy @ 60", named(gamma0), named(1), PRINTED_STEP, low=0, source="book",
    )
    for gamma0 in (0.0, 0.5, 0.9)
]  # fmt: skip


def gammas_figure(results: Results) -> Figure:
    """Accuracy after 60 rounds against gamma_0, with our step and the published one."""
    lines = {
        shown(step): torch.stack(
            [results.values("accuracy @ 60", named(gamma0), step) for gamma0 in GAMMAS], dim=1
        )
        for step in (OUR_STEP, PRINTED_STEP)
    }
    return plots.curves(lines, x=list(GAMMAS), xlabel="gamma_0", ylabel="accuracy")


# --- who is different, who echoes, who opposes -----------------------------------------------

RARE, UNIT = "the only one with nines", "equal weights, unit updates"
RAW = "CGSV's weights, raw updates"
WEIGHT = "weight in honest clients"
NINES_TO = 960


def one_has_nines(data: fm.Dataset, seed: int, others: int = 5, each: int = 120) -> fm.Federation:
    """Six clients of equal size; only the last one has nines, half of its images."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    servers, rest = order[:720], order[720:]
    nines, common = rest[data.y[rest] == 9], rest[data.y[rest] != 9]
    # All sizes are equal, so that no weight depends on size.
    parts = [*common[: each * others].split(each)]
    parts.append(torch.cat([nines[: each // 2], common[-(each // 2) :]]))
    samples = (
        (data.x[indices], data.y[indices]) for indices in (servers[:360], servers[360:], *parts)
    )
    validation, test, *clients = samples
    return fm.Federation.from_datasets(clients, validation=validation, test=test)


def nines(dataset: fm.Dataset, net: fm.Model, seed: int, each: int, rounds: int) -> Iterator[Row]:
    """The only client with nines: its cosine, a loss without it, which rules learn nines."""
    fed = one_has_nines(dataset, seed, each=each)
    # One later round alone: which client is missed, and which update points elsewhere?
    theta = trained(fed, net, fm.FedAvg(), seed, 20).theta
    updates = fm.local_updates(fed, net, theta, local=LOCAL, seed=seed, t=21)
    missed = fm.leave_one_out(
        fm.round_game(net, theta, updates, *fed.validation, metric="loss")
    ).values
    psi = fm.cosines(updates, normalize(updates, dim=1).sum(0))
    lengths = updates.norm(dim=1)
    yield "", RARE, "cosine below the next", float(psi[:-1].min() - psi[-1])
    yield "", RARE, "missed beyond the next", float(missed[-1] - missed[:-1].max())
    yield "", RARE, "length in others' lengths", float(lengths[-1] / lengths[:-1].mean())
    # Tested on nines alone, accuracy is the share of nines that are found.
    x, y = fed.test
    fed = replace(fed, test=(x[y == 9], y[y == 9]))
    strategies: dict[str, fm.FedAvg] = {
        FEDAVG: fm.FedAvg(),
        UNIT: EqualWeights(1.0),
        RAW: fm.CGSV(normalise=False),
        OURS: fm.CGSV(),  # the last: its weights are read below
    }
    for method, strategy in strategies.items():
        history = trained(fed, net, strategy, seed, rounds)
        for metric, value in accuracies(history, (60, 240, 960)):
            yield "", method, metric.replace("accuracy", "recall of nines"), value
    weights = history.scores[ROUNDS - 1]
    yield "", RARE, WEIGHT, float(weights[-1] / weights[:-1].mean())


def odd_clients(
    seed: int,
    *,
    data: str = "digits",
    each: int = 120,
    images: int | None = None,
    rounds: int = NINES_TO,
) -> Iterator[Row]:
    """The weights of clients that are different, send a copy, or oppose the others.

    each    images per client if one client has the nines
    images  of all clients if one attacks; None: those of IMAGES
    rounds  of a run if one has the nines, 60 or more; a quarter of them if one attacks
    """
    dataset, net = setting(data)
    yield from nines(dataset, net, seed, each, rounds)
    # Ten similar clients; the one that attacks differs only in its attack.
    attacks: dict[str, tuple[object, dict]] = {
        "echo": (fm.attacks.Replay(), {}),
        "sign flip": (fm.attacks.SignFlip(), {}),
        "sign flip, no floor": (fm.attacks.SignFlip(), {"floor": None}),
    }
    samples = images or IMAGES[data]
    for method, (attack, options) in attacks.items():
        fed = fm.federation(
            dataset, clients=CLIENTS, corrupt={4: attack}, samples=samples, seed=seed
        )
        history = trained(fed, net, fm.CGSV(**options), seed, rounds // 4)
        yield from rows_of("", method, accuracies(history, ONE_FOUR_SIXTEEN))
        for length in ONE_FOUR_SIXTEEN:
            if length > rounds // 4:
                continue
            weights = history.scores[length - 1]
            honest = (weights.sum() - weights[4]) / (CLIENTS - 1)
            yield "", method, f"{WEIGHT} @ {length}", float(weights[4] / honest)


SHORT = {"images": 600, "rounds": 15}
STUDIES = (
    study(
        "cgsv-length",
        over_length,
        derived=length_derived,
        figure=length_figure,
        probe={"rounds": 20, "splits": (ALIKE, VERY_SKEWED)},
    ),
    study("cgsv-ablation", ablation, probe={"rounds": 15}),
    study("cgsv-steps", steps, figure=steps_figure, probe=SHORT),
    study("cgsv-gamma", gammas, GAMMA_CLAIMS, figure=gammas_figure, probe={"rounds": 15}),
    study("cgsv-odd", odd_clients, probe={"rounds": 60}),
    # 3,000 images of MNIST, not as long, and the lengths without the weaker skew.
    study(
        "cgsv-length-mnist5k",
        partial(over_length, data="mnist5k", rounds=200, splits=(ALIKE, VERY_SKEWED)),
        probe={"images": 400, "rounds": 20},
    ),
    study("cgsv-ablation-mnist5k", partial(ablation, data="mnist5k", rounds=60), probe=SHORT),
    study(
        "cgsv-odd-mnist5k",
        partial(odd_clients, data="mnist5k", each=300, rounds=240),
        probe={"each": 100, "images": 200, "rounds": 60},
    ),
)
