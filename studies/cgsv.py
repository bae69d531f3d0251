"""CGSV: what its weights find and cost, how long a step may be, gamma_0, and whom it misjudges.

[cgsvaggregation] gives formulas and no setting, so the setting is this book's; chapter 4 reads it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from matplotlib.figure import Figure
from torch.nn.functional import normalize

from fedlab_mini.engine.history import History
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import Model, mlp
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.engine.train import local_updates, train
from fedlab_mini.games.shapley import leave_one_out
from fedlab_mini.games.training_games import round_game
from fedlab_mini.judge.metrics import spearman
from fedlab_mini.methods.cgsv import CGSV, cosines
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.show import plots
from fedlab_mini.worlds.attacks import replay, sign_flip
from fedlab_mini.worlds.corrupt import flip_labels
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.partition import dirichlet_labels

from .claims import alike, beyond, higher, lower, minus, not_above, ours, sentences, within
from .protocols import study
from .study import HOLDS, NOT_SHOWN, Claim, Results, Row, Test

CLIENTS, ROUNDS = 10, 60
LOCAL = LocalSGD(epochs=1, batch=20, lr=0.1)
IMAGES = {"digits": None, "mnist5k": 3000}  # of all clients
SPLITS = {"alike": None, "Dirichlet 0.5": 0.5, "Dirichlet 0.1": 0.1}
GAMMAS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
PRINTED, FAIR, FAIR_PRINTED = (
    "CGSV as printed",
    "equal weights, same step",
    "equal weights, printed step",
)
# Weights alone are compared at the same length of the step: FedAvg's step is another one.
RULES: dict[str, dict] = {
    "CGSV": {},
    FAIR: {"gamma0": 1.0},
    PRINTED: {"literal": True},
    FAIR_PRINTED: {"gamma0": 1.0, "literal": True},
}
MEDIAN, ONE = "weighted median (ours)", "1 (printed)"
STEPS: dict[str, dict] = {
    MEDIAN: {},
    "weighted mean": {"server_lr": "mean"},
    "0.1": {"server_lr": 0.1},
    "0.3": {"server_lr": 0.3},
    # The printed rule knows no floor, so its weights may turn negative.
    ONE: {"server_lr": 1.0, "floor": None},
    "3": {"server_lr": 3.0},
}
RARE, UNIT = "the only one with nines", "equal weights, unit updates"
RAW = "CGSV's weights, raw updates"
FLOORS: dict[str, dict] = {"": {}, ", no floor": {"floor": None}}
RANKS, EARLY, HALF = "ranks quality", "accuracy, round 20", "weight of the cleaner half"
LENGTH, TURN = "step in lengths", "successive steps"
WEIGHT, RECALL = "weight in honest clients", "recall of nines"


class Watched(CGSV):
    """CGSV that keeps of every round: mean cosine, its noise floor, length, turn of the server.

    The floor is the mean cosine of updates that are pure noise: in many dimensions they are nearly
    at right angles, so cos(u_k, U) is about r_k / |r| and its mean 1 / (K |r|)
    """

    def start(self, server: Server) -> None:
        """Forget everything."""
        super().start(server)
        self.seen: list[list[float]] = []
        self.last = torch.zeros(1)

    def aggregate(self, round: Round) -> torch.Tensor:
        """As CGSV; then note the round."""
        weights = self.weights(round)
        theta = super().aggregate(round)
        step = normalize(theta - round.theta, dim=0)
        turn = float(step @ self.last) if self.seen else 0.0
        floor = float(1 / (len(weights) * weights.norm()))
        length = float(round.updates.norm(dim=1).median())
        self.seen.append([float(self.psi.mean()), floor, length, turn])
        self.last = step
        return theta


def setting(source: str) -> tuple[Dataset, Model]:
    """Data and network."""
    data = load(source, dtype=torch.float64)
    return data, mlp(data.x.shape[1], 32, data.classes)


def ladder(data: Dataset, source: str, seed: int, alpha: float | None = None) -> Federation:
    """Ten clients with 0, 10, ... 90 per cent of wrong labels, in random order."""
    # In random order, so that no client id stands for clean labels.
    order = torch.randperm(CLIENTS, generator=torch.Generator().manual_seed(seed)).tolist()
    return federation(
        data,
        clients=CLIENTS,
        split=None if alpha is None else dirichlet_labels(alpha, floor=10),
        corrupt={k: flip_labels(0.1 * place) for k, place in enumerate(order)},
        samples=IMAGES[source],
        seed=seed,
    )


def trained(fed: Federation, net: Model, strategy: FedAvg, seed: int) -> History:
    """The training that all of these studies share."""
    return train(fed, net, strategy, rounds=ROUNDS, local=LOCAL, seed=seed)


def left(fed: Federation, history: History) -> Iterator[tuple[str, float]]:
    """What a training leaves: accuracy, its restlessness, and what the weights say of noise."""
    accuracy = history.accuracy
    yield EARLY, float(accuracy[11:21].mean())
    # Means over rounds: a single one depends on its minibatches.
    yield "accuracy", float(accuracy[-10:].mean())
    yield "change per round", float(accuracy[-31:].diff().abs().mean())
    # With gamma_0 = 1 weights stay what they were at the start, and rank nobody.
    if isinstance(history.strategy, CGSV) and history.strategy.gamma0 < 1:
        weights, cleaner = history.scores[-1], fed.noise.argsort()[: CLIENTS // 2]
        yield RANKS, spearman(weights, 1 - fed.noise)
        yield HALF, float(weights[cleaner].sum())
        yield "clients in effect", float(1 / (weights / weights.sum()).square().sum())


def ablation(seed: int, source: str = "digits") -> Iterator[Row]:
    """Weights against equal weights, with our step and the printed one, and FedAvg."""
    data, net = setting(source)
    strategies = {
        **{method: CGSV(**options) for method, options in RULES.items()},
        "FedAvg": FedAvg(),
    }
    for split, alpha in SPLITS.items():
        fed = ladder(data, source, seed, alpha)
        for method, strategy in strategies.items():
            for metric, value in left(fed, trained(fed, net, strategy, seed)):
                yield f"{method}; {split}", metric, value


def ablation_mnist5k(seed: int) -> Iterator[Row]:
    """The same on 3,000 images of MNIST."""
    yield from ablation(seed, "mnist5k")


def steps(seed: int) -> Iterator[Row]:
    """The server's step on two data sets: lengths that follow the updates, and constants."""
    for source in IMAGES:
        data, net = setting(source)
        fed = ladder(data, source, seed)
        for method, options in STEPS.items():
            history = trained(fed, net, Watched(**options), seed)
            for metric, value in (*watched(history.strategy, options), *left(fed, history)):
                yield f"{method}; {source}", metric, value


def watched(strategy: object, options: dict) -> Iterator[tuple[str, float]]:
    """What the last ten rounds looked like; a step of one median length counts 1."""
    assert isinstance(strategy, Watched)
    cosine, floor, length, turn = torch.tensor(strategy.seen)[-10:].mean(0).tolist()
    yield "mean cosine", cosine
    yield "cosine above floor", cosine - floor
    yield "length of an update", length
    rate = options.get("server_lr", "median")
    yield LENGTH, 1.0 if isinstance(rate, str) else rate / length
    yield TURN, turn


def gammas(seed: int) -> Iterator[Row]:
    """gamma_0 from 0 to 1, labels wrong and skewed (Dirichlet 0.5), both steps."""
    data, net = setting("digits")
    fed = ladder(data, "digits", seed, 0.5)
    for method, literal in {"CGSV": False, PRINTED: True}.items():
        for gamma0 in GAMMAS:
            history = trained(fed, net, CGSV(gamma0, literal=literal), seed)
            for metric, value in left(fed, history):
                yield f"{method}, gamma_0 = {gamma0:g}", metric, value


def one_has_nines(data: Dataset, seed: int, others: int = 5, each: int = 120) -> Federation:
    """Six clients of equal size; nines, half of its images, only the last one has."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    servers, rest = order[:720], order[720:]
    nines, common = rest[data.y[rest] == 9], rest[data.y[rest] != 9]
    # All are equally large, so that no weight follows from size.
    parts = [*common[: each * others].split(each)]
    parts.append(torch.cat([nines[: each // 2], common[-(each // 2) :]]))
    samples = (
        (data.x[indices], data.y[indices]) for indices in (servers[:360], servers[360:], *parts)
    )
    validation, test, *clients = samples
    return Federation.from_datasets(clients, validation=validation, test=test)


def odd_clients(seed: int, source: str = "digits") -> Iterator[Row]:
    """Who is different, who echoes, who opposes: what the weights make of them."""
    data, net = setting(source)
    fed = one_has_nines(data, seed, each=120 if source == "digits" else 300)
    # One later round by itself: who is missed there, and who points elsewhere?
    theta = train(fed, net, FedAvg(), rounds=20, local=LOCAL, seed=seed).theta
    updates = local_updates(fed, net, theta, local=LOCAL, seed=seed, t=21)
    game = round_game(net, theta, updates, *fed.validation, metric="loss")
    missed = leave_one_out(game).values
    psi = cosines(updates, normalize(updates, dim=1).sum(0))
    yield RARE, "cosine below the next", float(psi[:-1].min() - psi[-1])
    yield RARE, "missed beyond the next", float(missed[-1] - missed[:-1].max())
    nine = fed.test[1] == 9
    strategies = {
        "FedAvg": FedAvg(),
        UNIT: CGSV(1.0),
        RAW: CGSV(normalise=False),
        "CGSV": CGSV(),  # the last: its weights are read below
    }
    for method, strategy in strategies.items():
        history = trained(fed, net, strategy, seed)
        recall = net.evaluate(history.theta[None], fed.test[0][nine], fed.test[1][nine])
        yield method, RECALL, float(recall)
        yield method, "accuracy", float(history.accuracy[-10:].mean())
    weights = history.scores[-1]
    yield RARE, WEIGHT, float(weights[-1] / weights[:-1].mean())
    # Ten clients that are alike; the one that attacks is no special one otherwise.
    for method, attack in {"echo": replay(), "sign flip": sign_flip()}.items():
        samples = IMAGES[source]
        fed = federation(data, clients=CLIENTS, corrupt={4: attack}, samples=samples, seed=seed)
        for suffix, options in FLOORS.items():
            history = trained(fed, net, CGSV(**options), seed)
            weights = history.scores[-1]
            honest = (weights.sum() - weights[4]) / (CLIENTS - 1)
            yield f"{method}{suffix}", WEIGHT, float(weights[4] / honest)
            yield f"{method}{suffix}", "accuracy", float(history.accuracy[-10:].mean())


def odd_clients_mnist5k(seed: int) -> Iterator[Row]:
    """The same on images of MNIST."""
    yield from odd_clients(seed, "mnist5k")


def ablation_figure(results: Results) -> Figure:
    """What the weights gain over equal weights at the same step, split by split."""
    pairs = {"our step": ("CGSV", FAIR), "printed step": (PRINTED, FAIR_PRINTED)}
    gains = {}
    for split in SPLITS:
        for step, pair in pairs.items():
            weighed, equal = (results.values("accuracy", f"{method}; {split}") for method in pair)
            gains[f"{split}, {step}"] = weighed - equal
    return plots.dots(
        gains, xlabel="accuracy minus that of equal weights", reference={"no gain": 0.0}
    )


def steps_figure(results: Results) -> Figure:
    """How well the weights rank, the shortest step first, measured in lengths of an update."""
    # The weighted mean is left out: it lies on the median.
    names = [f"{step}; {source}" for step in STEPS if "mean" not in step for source in IMAGES]
    lengths = {method: results.interval(LENGTH, method).mean for method in names}
    return plots.dots(
        {
            f"{length:.1f}: {method.replace('; ', ', ')}": results.values(RANKS, method)
            for method, length in sorted(lengths.items(), key=lambda item: item[1])
        },
        xlabel="rank correlation of weight and label quality",
        ylabel="step, in lengths of a median update",
    )


def gammas_figure(results: Results) -> Figure:
    """Accuracy against gamma_0, with our step and the printed one."""
    lines = {}
    for step, method in {"our step": "CGSV", "printed step": PRINTED}.items():
        variants = [f"{method}, gamma_0 = {gamma0:g}" for gamma0 in GAMMAS]
        lines[step] = torch.stack([results.values("accuracy", one) for one in variants], dim=1)
    return plots.curves(lines, x=list(GAMMAS), xlabel="gamma_0", ylabel="accuracy")


def ablation_claims() -> Iterator[Claim]:
    """Ranking, weight, and accuracy, split by split."""
    for split in SPLITS:
        for method, step in (("CGSV", FAIR), (PRINTED, FAIR_PRINTED)):
            run, equal = f"{method}; {split}", f"{step}; {split}"
            start = f"{run}: accuracy above "
            # The paper speaks of labels that are skewed as well as wrong.
            paper = split != "alike"
            ranking = {
                "weights rank label quality (correlation above .5)": beyond(RANKS, run, 0.5),
                "the cleaner half has more than half of the weight": beyond(HALF, run, 0.5),
            }
            yield from sentences(ranking, f"{run}: ", paper)
            yield from sentences({"equal weights at round 20": higher(EARLY, run, equal)}, start)
            end = {
                "equal weights at the end": higher("accuracy", run, equal),
                "FedAvg": higher("accuracy", run, f"FedAvg; {split}"),
            }
            yield from sentences(end, start, paper)


def pairs(method: str, equal: str) -> list[tuple[str, str]]:
    """A rule and its rival with equal weights, split by split."""
    return [(f"{method}; {split}", f"{equal}; {split}") for split in SPLITS]


def no_gain(metric: str, one: str, other: str) -> Test:
    """It is not shown that one variant is above the other."""
    return not_above(minus((metric, one), (metric, other)))


IID, MILD, SKEWED = pairs("CGSV", FAIR)
LITERAL = pairs(PRINTED, FAIR_PRINTED)
UNSEEN = not_above(lambda results: results.interval(RANKS, LITERAL[1][0]))
ABLATION_READS = (
    ours("alike: our weights gain", higher("accuracy", *IID), "pays"),
    ours("Dirichlet 0.1: our weights lose", lower("accuracy", *SKEWED), "harm"),
    ours("alike: the printed weights are not shown to gain", alike("accuracy", *LITERAL[0])),
    ours("Dirichlet 0.5: a gain at the end is not shown", no_gain("accuracy", *MILD)),
    ours("Dirichlet 0.5: our weights rank", beyond(RANKS, MILD[0], 0.5)),
    ours("Dirichlet 0.5: they learn more slowly", lower(EARLY, *MILD)),
    ours("Dirichlet 0.5: the printed ones are not shown to rank", UNSEEN),
    ours("Dirichlet 0.1: the printed ones rank wrongly", within(RANKS, -1, 0, LITERAL[2][0])),
)
MNIST_READS = (
    ours("ours: weights rank", beyond(RANKS, MILD[0], 0.5), "mnist_ours"),
    ours("printed: weights rank", beyond(RANKS, LITERAL[1][0], 0.5), "mnist_printed"),
    ours("alike: they lead at round 20", higher(EARLY, *IID), "mnist_lead"),
    *(
        ours(f"{p[0]}: at the end no difference", alike("accuracy", *p))
        for p in (IID, MILD, SKEWED)
    ),
)


def steps_claims() -> Iterator[Claim]:
    """Which step lets the cosine see noise; on both data sets the same, in lengths of an update."""
    for source in IMAGES:
        median, mean, one, three, short = (
            f"{step}; {source}" for step in (MEDIAN, "weighted mean", ONE, "3", "0.1")
        )
        ranks = {"weights rank label quality (correlation above .5)": beyond(RANKS, one, 0.5)}
        yield from sentences(ranks, f"{one}: ", paper=True)
        tests = {
            "our step ranks better than the printed one": higher(RANKS, median, one),
            "a step of 0.1 ranks better than the printed one": higher(RANKS, short, one),
            "a step of 3 ranks worse than the printed one": higher(RANKS, one, three),
        }
        yield from sentences(tests, f"{source}: ")
        for method in (one, three):
            tests = {
                "successive steps of the server oppose each other": within(TURN, -2, 0, method),
                "clients agree more than with our step": higher("mean cosine", method, median),
            }
            yield from sentences(tests, f"{method}: ")
        floor = within("cosine above floor", -1, 0, median)
        same = within(RANKS, -0.05, 0.05, median, mean)
        yield from sentences({f"{median}: cosines end below those of pure noise": floor})
        yield from sentences({f"{source}: weighted mean and median rank alike (within .05)": same})


def steps_reads() -> Iterator[Claim]:
    """What chapter 4 says of the step's length."""
    for source in IMAGES:
        one, three, short = (f"{method}; {source}" for method in (ONE, "3", "0.1"))
        yield ours(f"{source}: a step of 1", beyond(LENGTH, one, 0), f"lengths_{source}")
        yield ours(f"{source}: a short step ranks best", higher(RANKS, short, one))
        yield ours(f"{source}: with 3 the ranking is lost", higher(RANKS, one, three, by=0.2))
        yield ours(f"{source}: a short step learns more slowly", higher(EARLY, one, short))
    digits, mnist = ((f"{MEDIAN}; {source}", f"{ONE}; {source}") for source in IMAGES)
    yield ours("digits: ours ranks better than 1", higher(RANKS, *digits, by=0.1))
    # On MNIST updates are shorter, and a step of 1 is not yet too long.
    yield ours("MNIST: they differ by less than .1", within(RANKS, -0.1, 0.1, *mnist))


def gammas_claims() -> Iterator[Claim]:
    """What a larger gamma_0 buys and costs; 1 is equal weights, up to sizes."""
    for method in ("CGSV", PRINTED):
        at = {gamma0: f"{method}, gamma_0 = {gamma0:g}" for gamma0 in GAMMAS}
        steadier = higher("change per round", at[0.95], at[0.0])
        tests = {"is steadier with gamma_0 = 0 than with .95": steadier}
        for gamma0 in (0.0, 0.5, 0.9):
            gain = higher("accuracy", at[gamma0], at[1.0])
            tests[f"with gamma_0 = {gamma0:g} above that with 1"] = gain
        yield from sentences(tests, f"{method}: accuracy ", paper=True, stated=NOT_SHOWN)
        ranks = higher(RANKS, at[0.5], at[0.95])
        # The chapter says nothing of this with the printed step.
        stated = HOLDS if method == "CGSV" else ""
        yield Claim(f"{method}: gamma_0 = .5 ranks better than .95", ranks, False, stated=stated)


ECHO, FREE = beyond(WEIGHT, "echo", 1.0), "sign flip, no floor"
FEWER = {method: higher(RECALL, "FedAvg", method) for method in (UNIT, RAW, "CGSV")}
CRUCIAL = {"the only client with nines weighs more than others": beyond(WEIGHT, RARE, 1.0)}
ODD_CLAIMS = sentences(CRUCIAL, paper=True) + sentences(
    {
        "its cosine is the lowest (below the next by)": beyond("cosine below the next", RARE, 0),
        "it is missed most (beyond the next by)": beyond("missed beyond the next", RARE, 0),
        **{
            f"fewer nines are found than with FedAvg: {method}": test
            for method, test in FEWER.items()
        },
        "an echo of the server's last step weighs more than an honest client": ECHO,
        "without a floor the weight of a sign flip turns negative": within(WEIGHT, -10, 0, FREE),
        "without a floor a sign flip helps: accuracy above that with it": higher(
            "accuracy", FREE, "sign flip"
        ),
    }
)


def odd_reads() -> Iterator[Claim]:
    """What chapter 4 says of nines and of an echo."""
    yield ours("FedAvg finds nines", beyond(RECALL, "FedAvg", 0.3), "nines")
    for method in FEWER:
        yield ours(f"{method}: hardly any nines", within(RECALL, -1, 0.1, method))
        yield ours(f"{method}: many fewer", higher(RECALL, "FedAvg", method, by=0.3))
    yield ours("an echo earns more than an honest client", ECHO, "echo")
    yield ours("the client with nines weighs less than others", within(WEIGHT, -10, 1, RARE))


STUDIES = (
    study("cgsv-ablation", ablation, ablation_claims(), ABLATION_READS, ablation_figure),
    study("cgsv-steps", steps, steps_claims(), steps_reads(), steps_figure),
    study("cgsv-gamma", gammas, gammas_claims(), figure=gammas_figure),
    study("cgsv-odd", odd_clients, ODD_CLAIMS, odd_reads()),
    study(
        "cgsv-ablation-mnist5k", ablation_mnist5k, ablation_claims(), MNIST_READS, ablation_figure
    ),
    study("cgsv-odd-mnist5k", odd_clients_mnist5k, ODD_CLAIMS),
)
