"""CGSV: what its weights find and cost, how long a step may be, gamma_0, and whom it misjudges.

[cgsvaggregation] gives formulas and no setting, so the setting is this book's; chapter 4 reads it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn.functional import normalize

from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import Model, mlp
from fedlab_mini.engine.rounds import History, Round, Server
from fedlab_mini.engine.train import local_updates, train
from fedlab_mini.games.shapley import leave_one_out
from fedlab_mini.games.training_games import round_game
from fedlab_mini.judge.metrics import spearman
from fedlab_mini.methods.cgsv import CGSV, cosines
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.worlds.corrupt import flip_labels, replay, sign_flip
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation, federation
from fedlab_mini.worlds.partition import dirichlet_labels

from .study import Row

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
