"""FLDVE in the paper's scenarios, over thousands of rounds, for other faults and rewards.

[fldve2022data, Section 4]; chapter 6 derives the direct gradient and reads these results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import cross_entropy

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server, State, Step
from fedlab_mini.gate.networks import cnn
from fedlab_mini.methods.reinforce import others, shortened
from fedlab_mini.show import plots
from fedlab_mini.streams import one_thread

from .protocols import study
from .results import Results
from .study import Claim, Derived, Row, rows_of

SETS = (1, 2, 3)
PLACED = [f"set {number}" for number in SETS]
IMAGES = ("mnist", "mnist-full", "cifar")  # the studies of the paper's own data
SIZES = {"samples": 10_000, "validation": 2_000, "test": 2_000}  # of MNIST, as in the paper
SMALL: dict = {"channels": (4, 8)}  # the network for MNIST
ROUNDS = 30  # of the paper
LOCAL = fm.LocalSGD(epochs=1, batch=32, lr=0.25)
CURVE = (5, 10, 15, 20, 25, 30)  # rounds of the paper's training at which accuracy is looked at
LOOKS = (10, 30, 120, 300, 1200, 4800)  # rounds of the long training that are looked at
LONG = 1200  # of the shorter runs beside it; a server that stops early looks no further
LONG_RULES = ("FedAvg", "FLDVE", "rewarded by accuracy", "own loss", "direct gradient")
PLACES = (10, 30, 100)  # rounds of which the best selection and weights are sought
EARLY = (0, 10, 20, 30)  # rounds after which the noise of one and of eight probes is measured
# Different selection probabilities, as after some rounds, because equal ones are a special case.
OMEGA = torch.tensor([0.5, -0.3, 0.1, 0.8, -0.6]).double().sigmoid()
KINDS = {
    "half at random": fm.FlipLabels(0.5),
    "nine in ten at random": fm.FlipLabels(0.9),
    "half called nine": fm.RelabelAs(9, 0.5),
    "nine in ten called nine": fm.RelabelAs(9, 0.9),
}


class OwnLoss(fm.FedAvg):
    """Learns nothing: softmax of minus the validation loss of each client's own model.

    Losses are in units of their spread, so that the weights are equally uneven in every round.
    """

    def step(self, server: Server, state: State, round: Round) -> Step:
        """As federated averaging, with these weights."""
        alone = round.theta + round.updates  # one model per client
        loss = server.net.evaluate(alone, *server.validation, "loss")
        weights = torch.softmax(-loss / loss.std(), 0).to(round.updates)
        self.count(state, round, weights)
        theta = round.theta + weights @ round.updates
        return Step(theta, weights, state, evaluated=len(alone))


class Direct(fm.FLDVE):
    """FLDVE's policy, trained by the exact gradient of the deployed model's loss; no probes."""

    def step(self, server: Server, state: State, round: Round) -> Step:
        """Weigh, differentiate, learn; returns the deployed model [P]."""
        samples, labels = server.validation
        with one_thread(), torch.enable_grad():
            round = replace(round, updates=shortened(round.updates, self.limit or 5.0))
            policy = self.policy(state)
            logits = self.logits(state, round, policy)
            free_logits = logits.detach().requires_grad_()
            weights = free_logits.sigmoid() / free_logits.sigmoid().sum()
            model = round.theta + weights @ round.updates
            loss = cross_entropy(server.net.forward(model, samples), labels)
            (slope,) = torch.autograd.grad(loss, free_logits)
            omega = free_logits.detach().sigmoid()
            # `learn` follows selections - omega, which is -slope here.
            policy.learn(logits, (omega - slope)[None], torch.ones(1))
        state["omega"][round.clients] = omega.double()
        self.count(state, round, omega)
        return Step(model.detach(), weights.detach(), state | policy.state, evaluated=1)


class ByAccuracy(fm.FLDVE):
    """FLDVE with validation accuracy as reward, instead of the loss."""

    def losses(self, server: Server, round: Round, weights: Tensor) -> Tensor:
        """Share of wrong answers [C] of the models with aggregation weights [C, m]."""
        models = round.theta + weights @ round.updates
        return 1 - server.net.evaluate(models, *server.validation, "accuracy")


def best_weights(
    net: fm.Model, theta: Tensor, updates: Tensor, samples: Tensor, labels: Tensor, steps: int = 100
) -> Tensor:
    """The weights [m] of least loss, nonnegative with sum 1: exponentiated gradient steps."""
    weights = torch.full((len(updates),), 1 / len(updates)).to(updates)
    for step in range(steps):
        weights.requires_grad_()
        with torch.enable_grad():
            loss = cross_entropy(net.forward(theta + weights @ updates, samples), labels)
            (gradient,) = torch.autograd.grad(loss, weights)
        # The step depends on the gradient's spread, which varies a lot between rounds.
        spread = (gradient.max() - gradient.min()).clamp(min=1e-9)
        size = 2 / (1 + step / 10) / spread
        weights = torch.softmax(weights.detach().log() - size * gradient, 0)
    return weights


RULES: dict[str, fm.FedAvg] = {
    "FedAvg": fm.FedAvg(),
    "FLDVE": fm.FLDVE(),
    "removal": fm.DVRLRemoval(),
    "own loss": OwnLoss(),
    "direct gradient": Direct(),
    "rewarded by accuracy": ByAccuracy(),
}


# What is measured


def last_five(history: fm.History, t: int) -> float:
    """The mean test accuracy of the last five rounds up to t."""
    return float(history.accuracy[t - 4 : t + 1].mean())


def effective(weights: Tensor) -> Tensor:
    """Effective number of clients 1 / sum w^2 of weights [..., m]: m if equal, 1 if one has all."""
    return 1 / weights.square().sum(-1)


def looks(rounds: int) -> list[int]:
    """The rounds of LOOKS within a training run of this length."""
    return [t for t in LOOKS if t <= rounds]


def share(hits: Tensor) -> float:
    """The share of true values."""
    return float(hits.double().mean())


def noise_seen(fed: fm.Federation, weights: Tensor) -> tuple[str, float]:
    """How well the mean of weights [T, m] finds the noise: metric, value."""
    mean = weights.mean(0)
    if (fed.noise > 0).sum() == 1:
        return "noisy client lowest", float(mean.argmin() == fed.noise.argmax())
    return "rank correlation", fm.spearman(mean, -fed.noise)


# The paper's sets on images


def images(
    seed: int,
    *,
    data: str = "mnist",
    network: Mapping[str, object] = SMALL,
    samples: int = SIZES["samples"],
    validation: int = SIZES["validation"],
    test: int = SIZES["test"],
    methods: Sequence[str] = ("FedAvg", "FLDVE", "own loss"),
    rounds: int = ROUNDS,
) -> Iterator[Row]:
    """Table 1, Figs. 3 to 6: accuracy against rounds, recall by class, images called nine.

    data     "mnist", "mnist5k" or "cifar10"
    network  its kernel, channels and hidden units
    samples, validation, test  numbers of images, of all clients and of the server
    methods  of RULES
    rounds   of every training run, 5 or more
    """
    sizes: dict = {"samples": samples, "validation": validation, "test": test}
    dataset = fm.load(data)
    net = cnn(dataset.shape, **network)  # type: ignore[arg-type]
    cases = {("without noise", "FedAvg"): fm.federation(dataset, clients=5, **sizes, seed=seed)}
    for number in SETS:
        fed = fm.noisy_digits(dataset, number, **sizes, seed=seed)
        cases |= {(f"set {number}", method): fed for method in methods}
    for (scenario, method), fed in cases.items():
        history = fm.train(fed, net, RULES[method], rounds=rounds, local=LOCAL, seed=seed)
        yield from rows_of(scenario, method, accuracies(history))
        pixels, labels = fed.test
        with torch.no_grad():  # in parts, to save memory
            parts = [net.forward(history.theta, part).argmax(1) for part in pixels.split(250)]
        predicted = torch.cat(parts)
        for digit in range(10):
            hits = predicted[labels == digit] == digit
            yield scenario, method, f"recall @ {digit}", share(hits)
        yield scenario, method, "others called nine", share(predicted[labels != 9] == 9)
        if method != "FedAvg":
            metric, value = noise_seen(fed, history.weights[-10:])
            yield scenario, method, metric, value


def accuracies(history: fm.History) -> Iterator[tuple[str, float]]:
    """Test accuracy during training, and the mean of the last five rounds."""
    rounds = len(history.accuracy) - 1
    for t in CURVE:
        if t <= rounds:
            yield f"accuracy @ {t}", float(history.accuracy[t])
    yield "accuracy", last_five(history, rounds)


def removed(
    seed: int,
    *,
    data: str = "mnist",
    samples: int = SIZES["samples"],
    validation: int = SIZES["validation"],
    test: int = SIZES["test"],
    rounds: int = ROUNDS,
) -> Iterator[Row]:
    """Table 1, only removal, with the federations and the start of ``images``.

    rounds  of every training run, 10 or more
    """
    dataset, net = fm.load(data), cnn(**SMALL)
    sizes: dict = {"samples": samples, "validation": validation, "test": test}
    for number in SETS:
        fed = fm.noisy_digits(dataset, number, **sizes, seed=seed)
        history = fm.train(fed, net, fm.DVRLRemoval(), rounds=rounds, local=LOCAL, seed=seed)
        left = {
            f"effective clients @ {t}": float(effective(history.weights[t - 10 : t]).mean())
            for t in (10, 20, 30)
            if t <= rounds
        }
        noise = noise_seen(fed, history.weights[-10:])
        yield from rows_of(f"set {number}", "removal", [*accuracies(history), *left.items(), noise])


# Length


class Watch:
    """What a server sees with a second validation set, every ten rounds.

    loss  {round: loss on the second set}      theta  {round: model}, at the rounds of LOOKS
    """

    def __init__(self, net: fm.Model, second: tuple[Tensor, Tensor]):
        self.net, self.second = net, second
        self.loss: dict[int, float] = {}
        self.theta: dict[int, Tensor] = {}

    def __call__(self, round: Round, step: Step) -> None:
        if round.t % 10 == 0:
            loss = self.net.evaluate(step.theta[None], *self.second, "loss")
            self.loss[round.t] = float(loss)
        if round.t in LOOKS:
            self.theta[round.t] = step.theta

    def stop(self) -> int:
        """The round, at most LONG, after which the loss was lowest."""
        return min((t for t in self.loss if t <= LONG), key=self.loss.__getitem__)


def watched(
    fed: fm.Federation, net: fm.Model, rule: fm.FedAvg, rounds: int, seed: int
) -> tuple[fm.History, Watch]:
    """Train with half of the validation set; the other half only watches."""
    samples, labels = fed.validation
    watch = Watch(net, (samples[1::2], labels[1::2]))
    fed = replace(fed, validation=(samples[::2], labels[::2]))
    history = fm.train(fed, net, rule, rounds=rounds, local=LOCAL, seed=seed, watch=watch)
    return history, watch


def long(seed: int, *, rounds: int = LOOKS[-1]) -> Iterator[Row]:
    """Up to 4,800 rounds on the small digits: the final weights and their effect.

    rounds  of every training run, 10 or more; at most 1,200 for the rivals
    """
    data, net = fm.load("digits"), fm.mlp(64, 32, 10)
    clean = fm.federation(
        data, clients=5, validation=len(data) // 5, test=len(data) // 5, seed=seed
    )
    for number in SETS:
        fed = fm.noisy_digits(data, number, seed=seed)
        wrong = fed.y != clean.y
        for method in LONG_RULES:
            history, watch = watched(fed, net, RULES[method], rounds, seed)
            yield from rows_of(f"set {number}", method, lengths(fed, net, wrong, history, watch))
    yield from alone(fm.noisy_digits(data, 2, seed=seed), clean, net, min(rounds, LONG), seed)


def lengths(
    fed: fm.Federation, net: fm.Model, wrong: Tensor, history: fm.History, watch: Watch
) -> Iterator[tuple[str, float]]:
    """A training run at the rounds of LOOKS, and where its server would have stopped it."""
    for t in watch.theta:
        yield f"accuracy @ {t}", last_five(history, t)
        yield f"test loss @ {t}", float(history.loss[t])
        # Ten rounds, because the probe of a single round depends on chance.
        weights = history.weights[t - 10 : t]
        yield f"effective clients @ {t}", float(effective(weights).mean())
        metric, value = noise_seen(fed, weights)
        yield f"{metric} @ {t}", value
        answers = net.predict(watch.theta[t], fed.x[wrong])
        yield f"wrong labels repeated @ {t}", share(answers == fed.y[wrong])
    stop = watch.stop()
    yield "stopped round", stop
    yield "stopped accuracy", last_five(history, stop)
    yield "stopped clients", float(effective(history.weights[stop - 10 : stop]).mean())


def alone(
    fed: fm.Federation, clean: fm.Federation, net: fm.Model, rounds: int, seed: int
) -> Iterator[Row]:
    """The cleanest client of set 2 alone and all clients, with and without noise."""
    cleanest = int(fed.noise.argmin())
    for scenario, whole in (("set 2", fed), ("without noise", clean)):
        cases = {"cleanest alone": single(whole, *whole.client(cleanest))}
        if scenario == "without noise":  # with noise it is a separate rule above
            cases["FedAvg"] = whole
        for method, part in cases.items():
            history = fm.train(part, net, fm.FedAvg(), rounds=rounds, local=LOCAL, seed=seed)
            for t in looks(rounds):
                yield scenario, method, f"accuracy @ {t}", last_five(history, t)


def single(fed: fm.Federation, samples: Tensor, labels: Tensor) -> fm.Federation:
    """A federation of one client with these data, with the same server's samples."""
    data = [(samples, labels)]
    return fm.Federation.from_datasets(
        data, validation=fed.validation, test=fed.test, classes=fed.classes
    )


# Reward: loss or accuracy, and how strong its signal is


def signal(seed: int, *, rounds: int = LONG) -> Iterator[Row]:
    """Loss and accuracy as reward, each on many and on few images; digits, set 2.

    rounds  of every training run, 10 or more; FedAvg has at most 100
    """
    data, net = fm.load("digits"), fm.mlp(64, 32, 10)
    fed = fm.noisy_digits(data, 2, samples=540, validation=900, test=357, seed=seed)
    samples, labels = fed.validation
    way = list(fedavg_way(fed, net, min(rounds, 100), seed))
    for count in (900, 56):
        part = (samples[:count], labels[:count])
        judged = replace(fed, validation=part)
        for method, rule in {"loss": fm.FLDVE(), "accuracy": ByAccuracy()}.items():
            scenario = f"{count} images"
            history = fm.train(judged, net, rule, rounds=rounds, local=LOCAL, seed=seed)
            for t in looks(rounds):
                yield scenario, method, f"accuracy @ {t}", last_five(history, t)
                weights = history.weights[t - 10 : t]
                yield scenario, method, f"effective clients @ {t}", float(effective(weights).mean())
            games = [fm.round_game(net, *moment, *part, metric=method) for moment in way]
            yield from rows_of(
                scenario, method, strength([game(fm.all_coalitions(5)) for game in games], seed)
            )


def fedavg_way(
    fed: fm.Federation, net: fm.Model, rounds: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The model and the updates in every tenth round of FedAvg."""
    theta = net.init(seed, dtype=fed.x.dtype)
    for t in range(1, rounds + 1):
        updates = fm.local_updates(fed, net, theta, local=LOCAL, seed=seed, t=t)
        if t % 10 == 0:
            yield theta, updates
        theta = theta + updates.mean(0)


def strength(worths: list[Tensor], seed: int) -> Iterator[tuple[str, float]]:
    """How strong the signal of a reward is, from the worth of all 32 selections in some rounds.

    signal of a round    length of the exact gradient over the error of eight drawn probes, mean
    agreement of rounds  length of the mean of the rounds' gradients, each of length 1: 1 if all
                         point one way, about the root of 1 / rounds if each points elsewhere
    """
    exact = torch.stack([gradient(worth) for worth in worths])  # [rounds, 5]
    drawn = [eight_probes(worth, seed) for worth in worths]
    errors = [estimates - estimates.mean(0) for estimates in drawn]
    noise = torch.stack([error.square().sum(1).mean().sqrt() for error in errors])
    yield "signal of a round", float((exact.norm(dim=1) / noise).mean())
    directions = exact / exact.norm(dim=1, keepdim=True).clamp(min=1e-12)
    yield "agreement of rounds", float(directions.mean(0).norm())


def gradient(worth: Tensor) -> Tensor:
    """The exact gradient [5] that probes estimate at OMEGA; empty probes do not count."""
    everyone = fm.all_coalitions(5)
    probability = torch.where(everyone, OMEGA, 1 - OMEGA).prod(1)
    probability[0] = 0
    mean = probability @ worth / probability.sum()
    return (probability * (worth - mean)) @ (everyone.double() - OMEGA)


def draws(seed: int) -> Tensor:
    """Two thousand rounds of eight selections, [2000, 8, 5]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(2000, 8, 5, generator=generator, dtype=torch.float64) < OMEGA


def eight_probes(worth: Tensor, seed: int) -> Tensor:
    """Gradient estimates of eight probes, each compared with the others, [2000, 5].

    worth [32]  of every selection, in the order of `all_coalitions`
    """
    selections = draws(seed)
    loss = -worth[(selections * 2 ** torch.arange(5)).sum(2)]
    used = selections.any(2)
    rivals = torch.stack([others(*round_of) for round_of in zip(loss, used, strict=True)])
    advantages = (rivals - loss) * used
    return (advantages[:, :, None] * (selections.double() - OMEGA)).mean(1)


# Kinds of fault, single rounds, probes


def kinds(
    seed: int, *, rounds: int = ROUNDS, early: Sequence[int] = EARLY, places: Sequence[int] = PLACES
) -> Iterator[Row]:
    """Amount and kind of noise; its systematic part; the best weights of a round; probes.

    rounds  of every training run, 5 or more
    early   rounds after which the noise of one and of eight probes is measured
    places  rounds of which the best selection and weights are sought
    """
    data, net = fm.load("digits", dtype=torch.float64), fm.mlp(64, 32, 10)
    # The same client in all four kinds, so that only the fault differs.
    noisy = int(torch.randint(5, (1,), generator=torch.Generator().manual_seed(seed)))
    for kind, fault in KINDS.items():
        fed = fm.federation(data, clients=5, corrupt={noisy: fault}, seed=seed)
        for method in ("FedAvg", "FLDVE"):
            history = fm.train(fed, net, RULES[method], rounds=rounds, local=LOCAL, seed=seed)
            yield kind, method, "accuracy", last_five(history, rounds)
        yield kind, "", "systematic share", systematic(fed, net, fault, seed)
    for number in SETS:
        fed = fm.noisy_digits(data, number, seed=seed)
        for t in early:
            theta, updates = after(fed, net, seed, t)
            game = fm.round_game(net, theta, updates, *fed.validation, metric="loss")
            ratio = variance_ratio(game(fm.all_coalitions(5)), seed)
            yield f"set {number}", "", f"variance ratio @ {t}", ratio
    fed = fm.noisy_digits(data, 2, seed=seed)
    yield from one_round(fed, net, places, seed)
    for method, rule in {"one probe": fm.FLDVE(probes=1), "eight probes": fm.FLDVE()}.items():
        history = fm.train(fed, net, rule, rounds=rounds, local=LOCAL, seed=seed)
        metric, value = noise_seen(fed, history.weights[-10:])
        yield "set 2", method, metric, value


def after(fed: fm.Federation, net: fm.Model, seed: int, t: int) -> tuple[Tensor, Tensor]:
    """The model after t rounds of FedAvg, and the clients' next updates."""
    theta = net.init(seed, dtype=fed.x.dtype)
    if t:
        theta = fm.train(fed, net, fm.FedAvg(), rounds=t, local=LOCAL, seed=seed).theta
    return theta, fm.local_updates(fed, net, theta, local=LOCAL, seed=seed, t=t + 1)


def systematic(fed: fm.Federation, net: fm.Model, fault: Callable, seed: int) -> float:
    """Share of a fault's squared effect on an update that is the same for all samples of the fault.

    One client's labels are drawn anew 20 times; images, minibatches and start do not change.
    """
    # A client with correct labels, so that each sampled fault starts from the same data.
    sound = next(k for k in range(5) if k not in fed.corrupted)
    (samples, labels), repeats = fed.client(sound), 20
    theta, _ = after(fed, net, seed, 10)

    def update(named: Tensor) -> Tensor:
        return fm.local_updates(single(fed, samples, named), net, theta, local=LOCAL, seed=seed)[0]

    generator = torch.Generator().manual_seed(seed)
    faulty = [fault(samples, labels, fed.classes, generator)[1] for _ in range(repeats)]
    effect = torch.stack([update(named) for named in faulty]) - update(labels)
    total = effect.square().sum(1).mean()
    common = effect.mean(0).square().sum()
    # The mean of 20 samples still contains a twentieth of their variance, which is subtracted.
    return float((repeats * common - total) / (repeats - 1) / total)


def one_round(fed: fm.Federation, net: fm.Model, places: Sequence[int], seed: int) -> Iterator[Row]:
    """The best selections and weights of single FedAvg rounds, and their effect."""
    everyone = fm.all_coalitions(5).double()
    for t in places:
        theta, updates = after(fed, net, seed, t - 1)
        ways = {"all": torch.ones(5).double() / 5}
        for metric in ("loss", "accuracy"):
            worth = fm.round_game(net, theta, updates, *fed.validation, metric=metric)(everyone > 0)
            # The largest of equally good selections, so that the list's order cannot favour few.
            size = everyone.sum(1)
            top = everyone[(worth + 1e-9 * size).argmax()]
            ways[f"best by {metric}"] = top / top.sum().clamp(min=1)
        ways["best weights"] = best_weights(net, theta, updates, *fed.validation)
        for way, weights in ways.items():
            clients = float(effective(weights)) if weights.any() else 0.0
            yield "set 2", way, f"effective clients @ {t}", clients
            model = (theta + weights @ updates)[None]
            loss, accuracy = (net.evaluate(model, *fed.test, m) for m in ("loss", "accuracy"))
            yield "set 2", way, f"test loss @ {t}", float(loss)
            yield "set 2", way, f"accuracy @ {t}", float(accuracy)


def variance_ratio(worth: Tensor, seed: int) -> float:
    """Variance of eight probes with the others as baseline, over that of one with past ones."""
    selections = draws(seed)[:, 0]  # the first probe of each round
    gain = worth[(selections * 2 ** torch.arange(5)).sum(1)] - worth[0]
    one = gain[:, None] * (selections.double() - OMEGA)
    return float(eight_probes(worth, seed).var(0).sum() / one.var(0).sum())


# Further metrics, figures, what the paper says


def image_metrics(results: Results) -> Derived:
    """The cost of noise to FedAvg; whether and by how much FLDVE is ahead of FedAvg and removal."""
    clean = results.values("accuracy", "FedAvg", "without noise")
    for scenario in PLACED:
        plain = results.values("accuracy", "FedAvg", scenario)
        yield scenario, "FedAvg", "cost of noise", clean - plain
        fldve = results.values("accuracy", "FLDVE", scenario)
        yield scenario, "FLDVE", "gain over FedAvg", fldve - plain
        yield scenario, "FLDVE", "ahead of FedAvg", (fldve > plain).double()
        if results.has("accuracy", "removal", scenario):
            removal = results.values("accuracy", "removal", scenario)
            yield scenario, "FLDVE", "ahead of removal", (fldve > removal).double()
            yield scenario, "FedAvg", "ahead of removal", (plain > removal).double()


def kind_metrics(results: Results) -> Derived:
    """The gain of FLDVE over FedAvg with each fault."""
    for kind in KINDS:
        yield kind, "FLDVE", "gain over FedAvg", results.minus("accuracy", "FLDVE", "FedAvg", kind)


def long_metrics(results: Results) -> Derived:
    """For each seed, whether a claim of chapter 6 is true: 1 or 0."""
    for where in PLACED:
        for method in ("FLDVE", "direct gradient", "rewarded by accuracy", "own loss"):
            places, clients = results.curve("effective clients", method, where)
            for place, left in zip(places, clients.T, strict=True):
                yield where, method, f"few clients left @ {place:g}", (left < 2.5).double()
        stopped = [results.values("stopped accuracy", rule, where) for rule in ("FLDVE", "FedAvg")]
        yield where, "FLDVE", "stopped ahead of FedAvg", (stopped[0] > stopped[1]).double()
    for method in ("FLDVE", "direct gradient", "own loss"):
        ranks = results.values("rank correlation @ 30", method, "set 2")
        yield "set 2", method, "ranks cleanness @ 30", (ranks > 0.5).double()
    for where in PLACED:
        curves = {
            rule: results.curve("accuracy", rule, where)[1].T
            for rule in ("FLDVE", "FedAvg", "own loss")
        }
        for rival in ("FedAvg", "own loss"):
            for t, fldve, other in zip(LOOKS, curves["FLDVE"], curves[rival], strict=True):
                yield where, "FLDVE", f"ahead of {rival} @ {t}", (fldve > other).double()
    late = results.values(f"accuracy @ {LONG}", "FLDVE", "set 2")
    stopped_plain = results.values("stopped accuracy", "FedAvg", "set 2")
    yield "set 2", "FedAvg", "stopped ahead of FLDVE", (stopped_plain > late).double()
    for t in LOOKS[:-1]:
        accuracy = {
            (method, where): results.values(f"accuracy @ {t}", method, where)
            for method in ("FedAvg", "cleanest alone")
            for where in ("without noise", "set 2")
        }
        five, one = accuracy["FedAvg", "without noise"], accuracy["cleanest alone", "without noise"]
        yield "without noise", "FedAvg", f"ahead of one client @ {t}", (five > one).double()
        lost_by_five = five - accuracy["FedAvg", "set 2"]
        lost_by_one = one - accuracy["cleanest alone", "set 2"]
        worse = (lost_by_five > lost_by_one).double()
        yield "set 2", "FedAvg", f"loses more than one client @ {t}", worse


def signal_metrics(results: Results) -> Derived:
    """For each seed, whether the loss on few images is ahead of accuracy on many: 1 or 0."""
    loss, accuracy = ("loss", "56 images"), ("accuracy", "900 images")
    for metric in ("effective clients @ 300", "agreement of rounds"):
        higher = results.values(metric, *accuracy) > results.values(metric, *loss)
        name = metric.partition(" @ ")[0]
        yield "900 images", "accuracy", f"{name} above the loss on few", higher.double()


def images_figure(results: Results) -> Figure:
    """FLDVE's gain in accuracy over each rival in each set, after all rounds."""
    gains = {
        f"{rival}, {where}": results.minus("accuracy", "FLDVE", rival, where)
        for rival in ("FedAvg", "own loss")
        for where in PLACED
    }
    xlabel = "accuracy, FLDVE minus the other rule"
    return plots.dots(gains, xlabel=xlabel, ylabel="other rule", reference={"equal": 0.0})


def long_figure(results: Results) -> Figure:
    """Effective number of clients against rounds in each set."""
    methods = ("FLDVE", "own loss", "rewarded by accuracy")
    curves = {
        scenario: {
            method: results.curve("effective clients", method, scenario)[1] for method in methods
        }
        for scenario in PLACED
    }
    return plots.panels(curves, x=LOOKS, ylabel="effective clients", low=1, high=5)


def length_figure(results: Results) -> Figure:
    """Set 2 over all rounds: test accuracy, and the share of wrong labels the model repeats."""
    rules = ("FedAvg", "FLDVE", "own loss")
    asked = {"test accuracy": "accuracy", "wrong labels repeated": "wrong labels repeated"}
    pictures = {
        title: {method: results.curve(metric, method, "set 2")[1] for method in rules}
        for title, metric in asked.items()
    }
    return plots.panels(pictures, x=LOOKS, ylabel="share", low=0, high=1)


def kinds_figure(results: Results) -> Figure:
    """FLDVE's gain over FedAvg for each fault of one client."""
    gains = {kind: results.values("gain over FedAvg", "FLDVE", kind) for kind in KINDS}
    xlabel = "accuracy, FLDVE minus FedAvg"
    return plots.dots(gains, xlabel=xlabel, ylabel="fault", reference={"equal": 0.0})


def beside(*all_results: Results) -> plots.Table:
    """FLDVE beside other rules after 30 rounds: a row per data set and set of noise."""
    table: dict[str, dict[str, object]] = {}
    for results in all_results:
        where = results.study.item.rpartition(": ")[2]
        for scenario in PLACED:
            row: dict[str, object] = {}
            row["noise costs FedAvg"] = results.interval("cost of noise", "FedAvg", scenario)
            for method in ("FedAvg", "removal", "own loss"):
                known = results.has("accuracy", method, scenario)
                difference = results.paired("accuracy", "FLDVE", method, scenario) if known else ""
                row[f"FLDVE minus {method}"] = difference
            table[f"{where}, {scenario}"] = row
    caption = "Test accuracy after 30 rounds: mean and 95 % interval."
    return plots.table(table, rows="data", caption=caption)


def grid(
    results: Results, rows: dict[str, tuple[str, str]], columns: dict[str, str], caption: str
) -> plots.Table:
    """A table: rows label -> (method, scenario), columns label -> metric."""
    table = {
        label: {
            head: short(results.interval(metric, *place)) if results.has(metric, *place) else ""
            for head, metric in columns.items()
        }
        for label, place in rows.items()
    }
    return plots.table(table, rows="what", caption=f"{caption}; {results.whose}.")


def short(found: fm.evidence.Interval) -> object:
    """An interval; a very narrow one as text with two decimals."""
    low, high = f"{found.low:.2f}", f"{found.high:.2f}"
    return f"{found.mean:.2f} [{low}, {high}]" if low == high else found


def everywhere(*methods: str) -> dict[str, tuple[str, str]]:
    """Rows of a table: every method in every set."""
    return {f"{method}, {where}": (method, where) for method in methods for where in PLACED}


def noise_found(results: Results) -> plots.Table:
    """How well the mean weights of rounds 21 to 30 find the noise, one row per rule."""
    table = {}
    for method in ("FLDVE", "direct gradient", "own loss"):
        row: dict[str, object] = {}
        for where in ("set 1", "set 3"):
            lowest = results.count("noisy client lowest @ 30", method, where)
            row[f"corrupted client lowest, {where}"] = str(lowest)
        row["rank correlation, set 2"] = results.interval("rank correlation @ 30", method, "set 2")
        table[method] = row
    return plots.table(table, rows="rule", caption=f"Weights after 30 rounds; {results.whose}.")


def clients_left(results: Results) -> plots.Table:
    """Effective clients after 300, 1,200 and 4,800 rounds."""
    rows = everywhere("FLDVE", "direct gradient", "rewarded by accuracy", "own loss")
    columns = {f"{t:,} rounds": f"effective clients @ {t}" for t in LOOKS[3:]}
    return grid(results, rows, columns, "Effective number of clients, of five")


def alone_table(results: Results) -> plots.Table:
    """All clients and the cleanest one alone, with and without the noise of set 2."""
    rows = {
        f"{label}, {where}": (method, where)
        for label, method in {"five clients": "FedAvg", "one client": "cleanest alone"}.items()
        for where in ("without noise", "set 2")
    }
    columns = {f"{t:,} rounds": f"accuracy @ {t}" for t in LOOKS[1:-1]}
    return grid(results, rows, columns, "Test accuracy of plain averaging")


def stopped_table(results: Results) -> plots.Table:
    """The round at which the second set stops each rule; accuracy there and at the end."""
    rows = everywhere("FedAvg", "FLDVE", "rewarded by accuracy", "own loss")
    columns = {"stopped in round": "stopped round", "accuracy then": "stopped accuracy"}
    columns[f"after {LONG:,} rounds"] = f"accuracy @ {LONG}"
    return grid(results, rows, columns, "Stopped by 179 images")


def signal_table(results: Results) -> plots.Table:
    """Loss and accuracy as reward, on many and on few images."""
    rows = {
        f"{method}, {where}": (method, where)
        for method in ("loss", "accuracy")
        for where in ("900 images", "56 images")
    }
    columns = {f"clients, {t:,} rounds": f"effective clients @ {t}" for t in (300, LONG)}
    columns |= {metric: metric for metric in ("signal of a round", "agreement of rounds")}
    return grid(results, rows, columns, "Reward, and images that judge it")


def small_claims() -> Iterator[Claim]:
    """The paper's claims with 250 images per client; the ledger has them at the paper's size."""
    for at in PLACED:
        clean, noisy = ("FedAvg", "without noise"), ("FedAvg", at)
        sentence = f"noise lowers the accuracy of FedAvg, {at}"
        yield Claim(sentence, "accuracy", clean, noisy, low=0, item="Table 1")
    sides = ("FLDVE", "set 3"), ("FLDVE", "set 1")
    sentence = "the gain of FLDVE is larger in set 3 than in set 1"
    yield Claim(sentence, "gain over FedAvg", *sides, low=0, item="Section 4.2")
    sentence = "weights follow cleanness, set 2"
    yield Claim(sentence, "rank correlation", "FLDVE", at="set 2", low=0, item="Section 4.2")
    sentence = "fewer other images are called nine than under FedAvg, set 3"
    nine = "others called nine", "FLDVE", "FedAvg"
    yield Claim(sentence, *nine, at="set 3", high=0, item="Figs. 5 and 6")


WITH_REMOVAL = ("FedAvg", "FLDVE", "removal", "own loss")
EMBEDDED: dict = {"data": "mnist5k", "samples": 60, "validation": 40, "test": 100, "rounds": 3}
STUDIES = (
    study("fldve-long", long, derived=long_metrics, figure=long_figure, probe={"rounds": 10}),
    study("fldve-signal", signal, derived=signal_metrics, probe={"rounds": 20}),
    study(
        "fldve-kinds",
        kinds,
        derived=kind_metrics,
        figure=kinds_figure,
        probe={"rounds": 5, "early": (5,), "places": (5,)},
    ),
    # 250 images per client, so that removal runs, too; then the paper's 2,000.
    study(
        "fldve-mnist",
        partial(images, samples=1_250, validation=250, test=1_000, methods=WITH_REMOVAL),
        small_claims(),
        image_metrics,
        probe=EMBEDDED,
    ),
    study("fldve-mnist-full", images, (), image_metrics, images_figure, EMBEDDED),
    study("fldve-removal", removed, probe=EMBEDDED | {"rounds": 6}),
    # The paper's 500 images per client, 500 validate, 500 test.
    study(
        "fldve-cifar",
        partial(
            images,
            data="cifar10",
            network={"kernel": 3, "hidden": 64},
            samples=2_500,
            validation=500,
            test=500,
            methods=WITH_REMOVAL,
        ),
        derived=image_metrics,
        probe=EMBEDDED | {"rounds": 2},
    ),
)
