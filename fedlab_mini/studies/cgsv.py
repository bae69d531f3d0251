"""CGSV: what its weights find and cost, how long a step may be, gamma_0, and whom it misjudges.

[cgsvaggregation] gives formulas and no setting, so the setting is this book's; chapter 4 reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from matplotlib.figure import Figure
from torch.nn.functional import normalize

from .. import plots
from ..corrupt import flip_labels, replay, sign_flip
from ..data import Dataset, load
from ..federation import Federation, federation
from ..games import round_game
from ..local import LocalSGD
from ..methods.cgsv import CGSV, cosines
from ..methods.fedavg import FedAvg
from ..metrics import spearman
from ..model import Model, mlp
from ..partition import dirichlet_labels
from ..rounds import History, Round, Server
from ..shapley import leave_one_out
from ..training import local_updates, train
from .study import Claim, Results, Row, Study, beyond, higher, within

CLIENTS, ROUNDS = 10, 60
LOCAL = LocalSGD(epochs=1, batch=20, lr=0.1)
IMAGES = {"digits": None, "mnist5k": 3000}  # of all clients
SPLITS = {"alike": None, "Dirichlet 0.5": 0.5, "Dirichlet 0.1": 0.1}
RARE, UNIT = "the only one with nines", "equal weights, unit updates"
RAW = "CGSV's weights, raw updates"
FLOORS: dict[str, dict] = {"": {}, ", no floor": {"floor": None}}
GAMMAS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
RULES: dict[str, dict] = {
    "CGSV": {},
    "equal weights, same step": {"gamma0": 1.0},
    "CGSV as printed": {"literal": True},
    "equal weights, printed step": {"gamma0": 1.0, "literal": True},
}
MEDIAN = "weighted median (ours)"
STEPS: dict[str, dict] = {
    MEDIAN: {},
    "weighted mean": {"server_lr": "mean"},
    "0.1": {"server_lr": 0.1},
    "0.3": {"server_lr": 0.3},
    "1 (printed)": {"server_lr": 1.0, "floor": None},
    "3": {"server_lr": 3.0},
}


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
        r = self.weights(round)
        theta = super().aggregate(round)
        step = normalize(theta - round.theta, dim=0)
        turn = float(step @ self.last) if self.seen else 0.0
        floor = float(1 / (len(r) * r.norm()))
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
    order = torch.randperm(CLIENTS, generator=torch.Generator().manual_seed(seed)).tolist()
    return federation(
        data,
        clients=CLIENTS,
        split=None if alpha is None else dirichlet_labels(alpha, floor=10),
        corrupt={k: flip_labels(0.1 * place) for k, place in enumerate(order)},
        samples=IMAGES[source],
        seed=seed,
    )


def left(fed: Federation, history: History) -> Iterator[tuple[str, float]]:
    """What a training leaves: accuracy, its restlessness, and what the weights say of noise."""
    yield "accuracy, round 20", float(history.accuracy[11:21].mean())
    yield "accuracy", float(history.accuracy[-10:].mean())
    yield "change per round", float(history.accuracy[-31:].diff().abs().mean())
    r = history.scores[-1]
    if isinstance(history.strategy, CGSV) and history.strategy.gamma0 < 1:
        yield "ranks quality", spearman(r, 1 - fed.noise)
        yield "weight of the cleaner half", float(r[fed.noise.argsort()[: CLIENTS // 2]].sum())
        yield "clients in effect", float(1 / (r / r.sum()).square().sum())


def ablation(seed: int, source: str = "digits") -> Iterator[Row]:
    """Weights against equal weights, with our step and the printed one, and FedAvg."""
    data, net = setting(source)
    rules = {**{name: CGSV(**given) for name, given in RULES.items()}, "FedAvg": FedAvg()}
    for split, alpha in SPLITS.items():
        fed = ladder(data, source, seed, alpha)
        for name, rule in rules.items():
            history = train(fed, net, rule, rounds=ROUNDS, local=LOCAL, seed=seed)
            for metric, value in left(fed, history):
                yield f"{name}; {split}", metric, value


def ablation_mnist5k(seed: int) -> Iterator[Row]:
    """The same on 3,000 images of MNIST."""
    yield from ablation(seed, "mnist5k")


def steps(seed: int) -> Iterator[Row]:
    """The server's step on two data sets: lengths that follow the updates, and constants."""
    for source in ("digits", "mnist5k"):
        data, net = setting(source)
        fed = ladder(data, source, seed)
        for name, given in STEPS.items():
            history = train(fed, net, Watched(**given), rounds=ROUNDS, local=LOCAL, seed=seed)
            for metric, value in (*watched(history.strategy, given), *left(fed, history)):
                yield f"{name}; {source}", metric, value


def watched(rule: object, given: dict) -> Iterator[tuple[str, float]]:
    """What the last ten rounds looked like; a step of one median length counts 1."""
    assert isinstance(rule, Watched)
    cosine, floor, length, turn = torch.tensor(rule.seen)[-10:].mean(0).tolist()
    yield "mean cosine", cosine
    yield "cosine above floor", cosine - floor
    yield "length of an update", length
    rate = given.get("server_lr", "median")
    yield "step in lengths", 1.0 if isinstance(rate, str) else rate / length
    yield "successive steps", turn


def gammas(seed: int) -> Iterator[Row]:
    """gamma_0 from 0 to 1, labels wrong and skewed (Dirichlet 0.5), both steps."""
    data, net = setting("digits")
    fed = ladder(data, "digits", seed, 0.5)
    for literal in (False, True):
        for gamma0 in GAMMAS:
            rule = CGSV(gamma0, literal=literal)
            history = train(fed, net, rule, rounds=ROUNDS, local=LOCAL, seed=seed)
            for metric, value in left(fed, history):
                name = "CGSV as printed" if literal else "CGSV"
                yield f"{name}, gamma_0 = {gamma0:g}", metric, value


def one_has_nines(data: Dataset, seed: int, others: int = 5, each: int = 120) -> Federation:
    """Six clients of equal size; nines, half of its images, only the last one has."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    kept, rest = order[:720], order[720:]
    nines, common = rest[data.y[rest] == 9], rest[data.y[rest] != 9]
    parts = [*common[: each * others].split(each)]
    parts.append(torch.cat([nines[: each // 2], common[-(each // 2) :]]))
    validation, test, *clients = ((data.x[i], data.y[i]) for i in (kept[:360], kept[360:], *parts))
    return Federation.from_datasets(clients, validation=validation, test=test)


def odd_clients(seed: int, source: str = "digits") -> Iterator[Row]:
    """Who is different, who echoes, who opposes: what the weights make of them."""
    data, net = setting(source)
    fed = one_has_nines(data, seed, each=120 if source == "digits" else 300)
    theta = train(fed, net, FedAvg(), rounds=20, local=LOCAL, seed=seed).theta
    updates = local_updates(fed, net, theta, local=LOCAL, seed=seed, t=21)
    game = round_game(net, theta, updates, *fed.validation, metric="loss")
    missed = leave_one_out(game).values
    psi = cosines(updates, normalize(updates, dim=1).sum(0))
    yield RARE, "cosine below the next", float(psi[:-1].min() - psi[-1])
    yield RARE, "missed beyond the next", float(missed[-1] - missed[:-1].max())
    nine = fed.test[1] == 9
    rules = {
        "FedAvg": FedAvg(),
        UNIT: CGSV(1.0),
        RAW: CGSV(normalise=False),
        "CGSV": CGSV(),  # the last: its weights are read below
    }
    for name, rule in rules.items():
        history = train(fed, net, rule, rounds=ROUNDS, local=LOCAL, seed=seed)
        found = net.evaluate(history.theta[None], fed.test[0][nine], fed.test[1][nine])
        yield name, "recall of nines", float(found)
        yield name, "accuracy", float(history.accuracy[-10:].mean())
    r = history.scores[-1]
    yield RARE, "weight in honest clients", float(r[-1] / r[:-1].mean())
    for name, attack in {"echo": replay(), "sign flip": sign_flip()}.items():
        samples = IMAGES[source]
        fed = federation(data, clients=CLIENTS, corrupt={4: attack}, samples=samples, seed=seed)
        for suffix, given in FLOORS.items():
            history = train(fed, net, CGSV(**given), rounds=ROUNDS, local=LOCAL, seed=seed)
            r = history.scores[-1]
            others = (r.sum() - r[4]) / (CLIENTS - 1)
            yield f"{name}{suffix}", "weight in honest clients", float(r[4] / others)
            yield f"{name}{suffix}", "accuracy", float(history.accuracy[-10:].mean())


def odd_clients_mnist5k(seed: int) -> Iterator[Row]:
    """The same on images of MNIST."""
    yield from odd_clients(seed, "mnist5k")


def gain(results: Results, split: str, rule: str, than: str) -> torch.Tensor:
    """Accuracy of one rule minus that of another, seed by seed."""
    a, b = (results.values("accuracy", f"{name}; {split}") for name in (rule, than))
    return a - b


def ablation_figure(results: Results) -> Figure:
    """What the weights gain over equal weights at the same step, split by split."""
    pairs = {"our step": ("CGSV", "equal weights, same step")}
    pairs |= {"printed step": ("CGSV as printed", "equal weights, printed step")}
    return plots.dots(
        {f"{s}, {how}": gain(results, s, *pair) for s in SPLITS for how, pair in pairs.items()},
        xlabel="accuracy minus that of equal weights",
        reference={"no gain": 0.0},
    )


def steps_figure(results: Results) -> Figure:
    """How well the weights rank, the shortest step first, measured in lengths of an update."""
    names = [f"{step}; {s}" for step in STEPS if "mean" not in step for s in ("digits", "mnist5k")]
    lengths = {name: results.interval("step in lengths", name).mean for name in names}
    return plots.dots(
        {
            f"{length:.1f}: {name.replace('; ', ', ')}": results.values("ranks quality", name)
            for name, length in sorted(lengths.items(), key=lambda item: item[1])
        },
        xlabel="rank correlation of weight and label quality",
        ylabel="step, in lengths of a median update",
    )


def gammas_figure(results: Results) -> Figure:
    """Accuracy against gamma_0, with our step and the printed one."""
    lines = {
        step: torch.stack(
            [results.values("accuracy", f"{name}, gamma_0 = {g:g}") for g in GAMMAS], dim=1
        )
        for step, name in {"our step": "CGSV", "printed step": "CGSV as printed"}.items()
    }
    return plots.curves(lines, x=list(GAMMAS), xlabel="gamma_0", ylabel="accuracy")


def ablation_claims() -> Iterator[Claim]:
    """Ranking, weight, and accuracy, split by split; the paper's case is skew with noise."""
    for split in SPLITS:
        own, fedavg = split != "alike", f"FedAvg; {split}"
        for name, how in (("CGSV", "same"), ("CGSV as printed", "printed")):
            run, equal = f"{name}; {split}", f"equal weights, {how} step; {split}"
            ranks = beyond("ranks quality", run, 0.5)
            yield Claim(f"{run}: weights rank label quality (correlation above .5)", ranks, own)
            half = beyond("weight of the cleaner half", run, 0.5)
            yield Claim(f"{run}: the cleaner half has more than half of the weight", half, own)
            early = higher("accuracy, round 20", run, equal)
            yield Claim(f"{run}: accuracy above equal weights at round 20", early, False)
            end = higher("accuracy", run, equal)
            yield Claim(f"{run}: accuracy above equal weights at the end", end, own)
            yield Claim(f"{run}: accuracy above FedAvg", higher("accuracy", run, fedavg), own)


def steps_claims() -> Iterator[Claim]:
    """Which step lets the cosine see noise; on both data sets the same, in lengths of an update."""
    for source in ("digits", "mnist5k"):
        ours, mean, one, three = (
            f"{n}; {source}" for n in (MEDIAN, "weighted mean", "1 (printed)", "3")
        )
        ranks = beyond("ranks quality", one, 0.5)
        yield Claim(f"{one}: weights rank label quality (correlation above .5)", ranks)
        better = higher("ranks quality", ours, one)
        yield Claim(f"{source}: our step ranks better than the printed one", better, False)
        short = higher("ranks quality", f"0.1; {source}", one)
        yield Claim(f"{source}: a step of 0.1 ranks better than the printed one", short, False)
        worse = higher("ranks quality", one, three)
        yield Claim(f"{source}: a step of 3 ranks worse than the printed one", worse, False)
        for name in (one, three):
            back = within("successive steps", -2, 0, name)
            yield Claim(f"{name}: successive steps of the server oppose each other", back, False)
            agree = higher("mean cosine", name, ours)
            yield Claim(f"{name}: clients agree more than with our step", agree, False)
        floor = within("cosine above floor", -1, 0, ours)
        yield Claim(f"{ours}: cosines end below those of pure noise", floor, False)
        alike = within("ranks quality", -0.05, 0.05, ours, mean)
        yield Claim(f"{source}: weighted mean and median rank alike (within .05)", alike, False)


def gammas_claims() -> Iterator[Claim]:
    """What a larger gamma_0 buys and costs; 1 is equal weights, up to sizes."""
    for name in ("CGSV", "CGSV as printed"):
        at = {g: f"{name}, gamma_0 = {g:g}" for g in GAMMAS}
        steadier = higher("change per round", at[0.95], at[0.0])
        yield Claim(f"{name}: accuracy is steadier with gamma_0 = 0 than with .95", steadier)
        for g in (0.0, 0.5, 0.9):
            gain = higher("accuracy", at[g], at[1.0])
            yield Claim(f"{name}: accuracy with gamma_0 = {g:g} above that with 1", gain)
        ranks = higher("ranks quality", at[0.5], at[0.95])
        yield Claim(f"{name}: gamma_0 = .5 ranks better than .95", ranks, False)


def odd_claims() -> Iterator[Claim]:
    """The only client with nines, by cosine, by what is missed, by recall; echo and sign flip."""
    nines, weight, recall = RARE, "weight in honest clients", "recall of nines"
    yield Claim("the only client with nines weighs more than others", beyond(weight, nines, 1.0))
    lowest = beyond("cosine below the next", nines, 0.0)
    yield Claim("its cosine is the lowest (below the next by)", lowest, False)
    most = beyond("missed beyond the next", nines, 0.0)
    yield Claim("it is missed most (beyond the next by)", most, False)
    for name in (UNIT, RAW, "CGSV"):
        fewer = higher(recall, "FedAvg", name)
        yield Claim(f"fewer nines are found than with FedAvg: {name}", fewer, False)
    echo = beyond(weight, "echo", 1.0)
    yield Claim("an echo of the server's last step weighs more than an honest client", echo, False)
    below = within(weight, -10, 0, "sign flip, no floor")
    yield Claim("without a floor the weight of a sign flip turns negative", below, False)
    helps = higher("accuracy", "sign flip, no floor", "sign flip")
    yield Claim("without a floor a sign flip helps: accuracy above that with it", helps, False)


PROTOCOL = {
    "data": ("not given", "digits, 1,797 images"),
    "clients, sizes": ("not given", "10, equal where clients are alike"),
    "skew": ("labels not identically distributed", "none, Dirichlet 0.5 and 0.1"),
    "noise": ("different shares of wrong labels", "0, 10, ... 90 % of a client's labels, uniform"),
    "model": ("a pruned one, not given", "perceptron, 32 hidden units, nothing pruned"),
    "local work": ("not given", "1 epoch, batches of 20, rate 0.1"),
    "rounds": ("T, not given", "60, mean of the last ten"),
    "gamma_0": ("discussed in a section that the copy lacks", "0.5, or the sweep"),
    "server's step": ("U itself", "U times the weighted median length, or U itself"),
    "equal weights": ("FedAvg", "FedAvg, and gamma_0 = 1 at the same step"),
    "repetitions": ("not given", "10 seeds"),
}
SMALL = {"data": ("not given", "MNIST, 3,000 images"), "repetitions": ("not given", "5 seeds")}
STRANGE = {"clients, sizes": ("a few crucial samples", "6, one with nines; 10, one that attacks")}
ABLATION = Study(
    name="cgsv-ablation",
    item="CGSV aggregation: ranking of noise, and accuracy",
    says="Weights that follow the cosine lower the part of clients that contribute little, and "
    "train a better model where labels are skewed and wrong to different degrees.",
    protocol=PROTOCOL,
    rows=ablation,
    claims=tuple(ablation_claims()),
    figure=ablation_figure,
    seeds=10,
)
SWEEP = Study(
    name="cgsv-gamma",
    item="CGSV aggregation: the sweep of gamma_0",
    says="A larger gamma_0 looks more at late rounds; with a smaller one accuracy changes more "
    "steadily; gamma_0 = 1 is FedAvg.",
    protocol=PROTOCOL,
    rows=gammas,
    claims=tuple(gammas_claims()),
    figure=gammas_figure,
    seeds=10,
)
ODD = Study(
    name="cgsv-odd",
    item="CGSV: who is different, echoes or opposes",
    says="Clients with a few crucial samples matter, so marginal gains should be valued.",
    protocol=PROTOCOL | STRANGE,
    rows=odd_clients,
    claims=tuple(odd_claims()),
    seeds=10,
)
STEP = Study(
    name="cgsv-steps",
    item="CGSV aggregation: the length of the server's step",
    says="The model is moved by U, whose length is at most 1.",
    protocol=PROTOCOL | {"data": ("not given", "digits; MNIST, 3,000 images")},
    rows=steps,
    claims=tuple(steps_claims()),
    figure=steps_figure,
    seeds=10,
)
STUDIES = (
    *(ABLATION, STEP, SWEEP, ODD),
    *(
        replace(
            study,
            name=f"{study.name}-mnist5k",
            protocol={**study.protocol, **SMALL},
            rows=rows,
            seeds=5,
        )
        for study, rows in ((ABLATION, ablation_mnist5k), (ODD, odd_clients_mnist5k))
    ),
)
