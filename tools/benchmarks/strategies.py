"""The strategies: their own work beside the clients' training, and their cost with more clients.

``strategy.aggregate`` against the local training of the same rounds; then whole runs of F-RCCE, and
leave-one-out by retraining, on more and more clients that share the same messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.local import Shuffles, round_updates

from .timing import Result, Side, cpu, interleave, ratios

NAME = "strategies"
STRATEGIES = (fm.FedAvg, fm.CGSV, fm.FRCCE, fm.FLDVE, fm.DVRLRemoval)  # with their defaults
WIDTHS, SAMPLES, VALIDATION = (64, 32, 10), 100, 360
LOCAL = fm.LocalSGD(epochs=1, batch=20, lr=0.1)
OVERHEAD = 0.5  # of the local training is the most that a strategy may cost
CLIENTS = (100, 200, 300, 400, 500)
MESSAGES = fm.LocalSGD(epochs=1, batch=32, lr=0.1)
ROUNDS, RETRAINED = 30, 2  # of F-RCCE, and of each training of leave-one-out
GROWTH = 1.5  # times the cost of 100 clients is the most that 500 may cost
SEED = 0


def random_federation(clients: int) -> fm.Federation:
    """Random inputs and labels, equal clients, and a validation set as large as the chapters'."""
    generator = torch.Generator().manual_seed(clients)
    total = clients * SAMPLES + VALIDATION + 1
    x = torch.randn(total, WIDTHS[0], generator=generator)
    y = torch.randint(0, WIDTHS[-1], (total,), generator=generator)
    data = fm.Dataset(x, y, classes=WIDTHS[-1], name="random")
    return fm.federation(data, clients=clients, validation=VALIDATION, test=1, seed=SEED)


def server(fed: fm.Federation, net: fm.Model) -> fm.Server:
    """What ``fm.train`` tells a strategy before the first round."""
    return fm.Server(fed.clients, fed.classes, net, fed.validation, SEED)


def real_rounds(fed: fm.Federation, net: fm.Model, count: int) -> list[fm.Round]:
    """The first rounds of FedAvg, as a strategy sees them."""
    theta, ids, strategy, rounds = net.init(SEED), torch.arange(fed.clients), fm.FedAvg(), []
    told = server(fed, net)
    state = strategy.init(told)
    for t in range(1, count + 1):
        updates = fm.local_updates(fed, net, theta, local=LOCAL, seed=SEED, t=t)
        rounds.append(fm.Round(t, theta, ids, fed.sizes, updates))
        theta, _, state, _ = strategy.step(told, state, rounds[-1])
    return rounds


class Training:
    """The clients' work in these rounds, as ``fm.train`` has it done, its set-up left out."""

    def __init__(self, fed: fm.Federation, net: fm.Model, rounds: Sequence[fm.Round]):
        self.fed, self.net, self.rounds = fed, net, rounds
        self.shuffles, self.previous = Shuffles(fed, LOCAL, SEED), torch.zeros(net.P)
        self.room = torch.empty(fed.clients, net.P)  # every round overwrites it

    def updates(self, r: fm.Round) -> Tensor:
        """What the clients send back in one round."""
        given = (self.fed, self.net, r.theta, r.clients, self.shuffles, r.t, self.previous)
        return round_updates(*given)

    def check_equal(self) -> None:
        """The updates of every round are those of ``fm.local_updates``, to the last digit."""
        for r in self.rounds:
            assert torch.equal(self.updates(r), r.updates), f"other updates in round {r.t}"

    def __call__(self) -> None:
        for r in self.rounds:
            self.updates(r)


def aggregation(strategy: fm.FedAvg, told: fm.Server, rounds: Sequence[fm.Round]) -> Side:
    """CPU seconds of a strategy's own work in these rounds, from a fresh start."""

    def work() -> None:
        state = strategy.init(told)
        for r in rounds:
            state = strategy.step(told, state, r).state

    def side() -> float:
        return cpu(work)()

    return side


def overhead(repetitions: int, clients: int = 100, count: int = 20) -> list[Result]:
    """Every strategy's own work over the local training of the same rounds."""
    fed, net = random_federation(clients), fm.mlp(*WIDTHS)
    rounds, told = real_rounds(fed, net, count), server(fed, net)
    train = Training(fed, net, rounds)
    train.check_equal()
    sides = {kind.__name__: aggregation(kind(), told, rounds) for kind in STRATEGIES}
    seconds = interleave({"training": cpu(train)} | sides, 5 * repetitions)  # short and noisy
    best = {name: f"{1e3 * min(taken) / count:.2f}" for name, taken in seconds.items()}
    print("ms a round, at best:", ", ".join(f"{name} {ms}" for name, ms in best.items()))
    what = f"64-32-10, K = {clients}: {{}} / local training"
    return [
        Result(NAME, what.format(name), ratios(seconds[name], seconds["training"]), OVERHEAD, True)
        for name in sides
    ]


def federations(
    data: fm.Dataset, clients: Sequence[int], equal: bool = False
) -> dict[int, fm.Federation]:
    """The same messages over more and more clients, sizes as in ``fm.spam`` or all alike."""
    feds = {}
    for number in clients:
        fed = fm.spam(data, clients=number, seed=SEED)
        if equal:
            fed = fm.federation(
                data,
                clients=number,
                corrupt=dict.fromkeys(sorted(fed.corrupted), fm.flip_labels(1.0)),
                validation=len(fed.validation[1]),
                test=len(fed.test[1]),
                seed=SEED,
            )
        feds[number] = fed
    totals = {int(fed.sizes.sum()) for fed in feds.values()}
    assert len(totals) == 1, f"clients that should share the same messages hold {sorted(totals)}"
    return feds


def describe(fed: fm.Federation) -> str:
    """Messages a client; minibatches of a round, of its largest client, and how full they are."""
    steps = -(-fed.sizes // MESSAGES.batch)
    full = float(fed.sizes.sum() / (steps.sum() * MESSAGES.batch))
    return (
        f"{fed.clients} clients x {int(fed.sizes.min())}-{int(fed.sizes.max())} messages: "
        f"{int(steps.sum())} minibatches, {int(steps.max())} of the largest client, {full:.0%} full"
    )


def left_out(fed: fm.Federation, net: fm.Model, rounds: int) -> fm.Estimate:
    """One training with all clients, and one without each."""
    estimate = fm.leave_one_out(fm.retraining_game(fed, net, rounds, MESSAGES, seed=SEED))
    assert estimate.evaluations == fed.clients + 1, estimate
    return estimate


def growth(
    data: fm.Dataset,
    repetitions: int,
    clients: Sequence[int] = CLIENTS,
    rounds: int = ROUNDS,
    retrained: int = RETRAINED,
) -> list[Result]:
    """Whole runs on more clients over those on the fewest, the messages in all being the same."""
    ends = (clients[0], clients[-1])
    unequal, equal = federations(data, clients), federations(data, ends, equal=True)
    for fed in (*unequal.values(), *equal.values()):
        print(describe(fed), flush=True)
    net = fm.logistic(fed.x.shape[1], fed.classes)
    both = {number: unequal[number] for number in ends}

    def whole(kind: type[fm.FedAvg], fed: fm.Federation) -> Side:
        return cpu(lambda: fm.train(fed, net, kind(), rounds=rounds, local=MESSAGES, seed=SEED))

    def without(fed: fm.Federation) -> Side:
        return cpu(lambda: left_out(fed, net, retrained))

    work = {
        f"FRCCE, {rounds} rounds": {n: whole(fm.FRCCE, fed) for n, fed in unequal.items()},
        f"FRCCE, {rounds} rounds, equal sizes": {n: whole(fm.FRCCE, f) for n, f in equal.items()},
        f"FedAvg, {rounds} rounds": {n: whole(fm.FedAvg, fed) for n, fed in both.items()},
        f"FedAvg, {rounds} rounds, equal sizes": {n: whole(fm.FedAvg, f) for n, f in equal.items()},
        f"leave one out, {retrained} rounds": {n: without(fed) for n, fed in both.items()},
    }
    wanted = {(f"FRCCE, {rounds} rounds", clients[-1]): GROWTH}
    results = []
    for what, sides in work.items():
        seconds = interleave(sides, repetitions)
        for number in list(sides)[1:]:
            values = ratios(seconds[number], seconds[clients[0]])
            label = f"{what}: {number} / {clients[0]} clients"
            results.append(Result(NAME, label, values, wanted.get((what, number)), at_most=True))
    return results


def run(repetitions: int) -> list[Result]:
    """A round's training against five strategies; 100 to 500 clients with the same messages."""
    return overhead(repetitions) + growth(fm.load("sms-synthetic"), repetitions)
