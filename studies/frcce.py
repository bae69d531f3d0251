"""F-RCCE: which of the paper's choices work, removal and its rival, sizes, judges, time.

[zhao2021efficient, Section 3]; chapter 5 reads these results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server, State, Step
from fedlab_mini.methods.fedavg import Weighting
from fedlab_mini.methods.policy import Policy, log_probability, scaled
from fedlab_mini.show import plots
from fedlab_mini.streams import stream
from fedlab_mini.worlds.corrupt import DeleteWords

from .protocols import study
from .results import Results, shown
from .study import Claim, Derived, Row, rows_of

CLIENTS, ROUNDS = 50, 1000
LOCAL = fm.LocalSGD(epochs=1, batch=64, lr=0.1)
WORDS = {"sms-synthetic": 200, "sms": 500}  # of the bag of words
OURS, PRINTED, RIVAL, PLAIN = "ours", "as printed", "leave-one-out", "FedAvg"

# --- which choices work, and when ------------------------------------------------------------

LOOKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # rounds at which the ranking is looked at
ALL_FLIPPED, HALF_FLIPPED = "all flipped", "half flipped"
FLIPS = {ALL_FLIPPED: 1.0, HALF_FLIPPED: 0.5}
BUT_SIGN = "printed but for the sign"
VARIANTS: dict[str, dict] = {
    OURS: {},
    "printed sign": {"sign": "printed"},
    "printed step size": {"lr": 1e-5},
    "printed baseline": {"baseline": "moving"},
    "printed input": {"scaling": "none"},
    "no clamp": {"clamp": 0.0},
    "no limit": {"limit": None},
    PRINTED: {"literal": True},
    BUT_SIGN: {"literal": True, "sign": "gain"},
}


def rounds_rows(
    seed: int, *, data: str = "sms-synthetic", samples: int | None = None, rounds: int = ROUNDS
) -> Iterator[Row]:
    """Detection AUC after 1 to 1,000 rounds, for each variant and both degrees of flipping.

    data     "sms-synthetic" or "sms"
    samples  how many messages, the server's among them; None: all
    rounds   of every training run
    """
    net = fm.logistic(WORDS[data], 2)
    for degree, share in FLIPS.items():
        fed = messages(seed, CLIENTS, data, samples, 0.2, corrupt=fm.FlipLabels(share))
        # All have the same messages and the same start, so only the evaluator differs.
        for method, options in VARIANTS.items():
            strategy = fm.FRCCE(**options)
            history = fm.train(fed, net, strategy, rounds=rounds, local=LOCAL, seed=seed)
            yield from rows_of(degree, method, ranked(fed, history))


def ranked(fed: fm.Federation, history: fm.History) -> Iterator[tuple[str, float]]:
    """Results of a training run: AUC of the score at several rounds, spread of omega, accuracy."""
    omega = by_round(history)
    for place in LOOKS:
        if place <= len(omega):
            yield f"AUC @ {place}", fm.detection_auc(history.scores[place - 1], fed.corrupted)
    # The score is a mean over rounds, but omega of the last round shows what was learned.
    yield "AUC of the last round", fm.detection_auc(omega[-1], fed.corrupted)
    yield "spread of omega", float(omega[-1].std())
    yield "accuracy", float(history.accuracy[-1])


def by_round(history: fm.History) -> Tensor:
    """Omega of each round [T, K], from the scores, which are running means."""
    total = history.scores * torch.arange(1, len(history.scores) + 1)[:, None]
    return total.diff(dim=0, prepend=torch.zeros_like(total[:1]))


def sides(feds: Sequence[fm.Federation], histories: Sequence[fm.History]) -> dict[str, Tensor]:
    """Mean omega of the clean and of the corrupted clients in each round, each [seeds, T]."""
    lines: dict[str, list[Tensor]] = {"clean": [], "corrupted": []}
    for fed, history in zip(feds, histories, strict=True):
        bad = torch.tensor([client in fed.corrupted for client in range(fed.clients)])
        for name, clients in (("clean", ~bad), ("corrupted", bad)):
            lines[name].append(by_round(history)[:, clients].mean(1))
    return {name: torch.stack(curves) for name, curves in lines.items()}


def learned(results: Results) -> Derived:
    """The gain of 1,000 rounds over the ranking of round 1; in which seeds a choice works."""
    for degree in results.scenarios:
        for method in results.methods:
            last = results.values("AUC of the last round", method, degree)
            first = results.values("AUC @ 1", method, degree)
            yield degree, method, "AUC gained since round 1", last - first
            behind, behind_late = (
                results.minus(f"AUC @ {place}", OURS, method, degree) for place in (50, 1000)
            )
            late = results.values("AUC @ 1000", method, degree)
            # One seed with a reversed ranking makes the interval too wide, so seeds are counted.
            yield degree, method, "finds them @ 1000", (late > 0.9).double()
            yield degree, method, "behind ours @ 50", (behind > 0).double()
            apart = torch.maximum(behind.abs(), behind_late.abs())
            yield degree, method, "AUC moved by more than .02", (apart > 0.02).double()


ROUNDS_CLAIMS = [
    Claim(
        f"{degree}: as published, the score finds corrupted clients (AUC above .75)",
        "AUC @ 1000", PRINTED, at=degree, low=0.75, item="Abstract",
    )
    for degree in FLIPS
]  # fmt: skip


def rounds_figure(results: Results) -> Figure:
    """AUC of every variant against rounds, half of the labels flipped; one band per picture."""
    lines = {
        shown(method): {HALF_FLIPPED: results.curve("AUC", method, HALF_FLIPPED)[1]}
        for method in VARIANTS
    }
    return plots.panels(lines, x=LOOKS, ylabel="detection AUC", chance=0.5)


# --- one round: the slope, and where the first step goes --------------------------------------

SLOPE_BAD = (2, 5)  # of eight clients
NETWORKS = 5  # random policies per seed
LAST_LAYER = 330  # parameters of the digits' network that the policy reads


def slope_rows(seed: int, *, networks: int = NETWORKS) -> Iterator[Row]:
    """The sixth round of eight clients: values, the policy's first step, and baselines.

    networks  random policies
    """
    digits, net = fm.load("digits", dtype=torch.float64), fm.mlp(64, 32, 10)
    local = fm.LocalSGD(epochs=1, batch=32, lr=0.1)
    wrong = {client: fm.FlipLabels(1.0) for client in SLOPE_BAD}
    fed = fm.federation(digits, clients=8, corrupt=wrong, seed=seed)
    theta = fm.train(fed, net, fm.FedAvg(), rounds=5, local=local, seed=seed).theta
    updates = fm.local_updates(fed, net, theta, local=local, seed=seed, t=6)
    game = fm.round_game(net, theta, updates, *fed.validation, metric="loss")
    slope = fm.banzhaf(game).values
    yield "", "Banzhaf", "AUC", fm.detection_auc(slope, fed.corrupted)
    yield "", "Shapley", "AUC", fm.detection_auc(fm.exact(game).values, fed.corrupted)
    everyone = fm.all_coalitions(8)
    worth, inputs = game(everyone), scaled(updates[:, -LAST_LAYER:], "client")
    steps = [first_step(1000 * seed + i, inputs, everyone, worth) for i in range(networks)]
    cosines = torch.cosine_similarity(torch.stack(steps), slope[None])
    found = torch.tensor([fm.detection_auc(step, fed.corrupted) for step in steps])
    yield "", "first step of the policy", "AUC", float(found.mean())
    yield "", "first step of the policy", "cosine with Banzhaf", float(cosines.mean())
    # At omega = 1/2 all 256 selections are equally likely, so the variance is exact.
    coins = everyone.double() - 0.5
    noise = {"none": worth, "everybody": worth - worth[-1], "mean loss": worth - worth.mean()}
    for baseline, reward in noise.items():
        estimates = reward[:, None] * coins
        variance = float(estimates.var(0, correction=0).sum())
        yield "", f"baseline: {baseline}", "variance", variance


def first_step(seed: int, inputs: Tensor, everyone: Tensor, worth: Tensor) -> Tensor:
    """The change of a new policy's probabilities [m] in a small step up the exact gradient."""
    policy = Policy(inputs.shape[1], 1, (64, 32, 16), lr=1e-3, clamp=0.0)
    policy.start(seed, like=inputs)
    before = policy.logits(inputs)
    expected = log_probability(before, everyone).exp() @ worth
    (gradient,) = torch.autograd.grad(expected, policy.phi)
    policy.phi.data += 1e-4 * gradient
    return (policy.logits(inputs).sigmoid() - before.sigmoid()).detach()


def relative_noise(results: Results) -> Derived:
    """Log10 of a sampled gradient's variance over the variance with the best baseline."""
    best = results.values("variance", "baseline: mean loss")
    for baseline in ("none", "everybody"):
        method = f"baseline: {baseline}"
        ratio = results.values("variance", method) / best
        yield "", method, "variance in powers of ten", ratio.log10()


# --- what a linear model can read -------------------------------------------------------------

INPUTS = ("bag-of-words", "tokens")
LENGTHS = (25, 100, 400)


def input_rows(seed: int, *, data: str = "sms", rounds: int = LENGTHS[-1]) -> Iterator[Row]:
    """Word counts against token numbers: FedAvg, and detection of flipped labels.

    data    "sms" or "sms-synthetic"
    rounds  of F-RCCE, 25 or more; of FedAvg at most 100
    """
    given: dict = {"clients": CLIENTS, "dtype": torch.float64, "seed": seed}
    lengths = [length for length in LENGTHS if length <= rounds]
    for features in INPUTS:
        fed = fm.spam(data, features=features, share=0.0, **given)
        net = fm.logistic(fed.x.shape[1], 2)
        longest = min(rounds, LENGTHS[1])
        history = fm.train(fed, net, fm.FedAvg(), rounds=longest, local=LOCAL, seed=seed)
        constant = float((fed.test[1] == 0).double().mean())
        for length in lengths[:2]:
            value = float(history.accuracy[length]) - constant
            yield features, PLAIN, f"accuracy above the constant @ {length}", value
    # Another study has word counts; this one has the paper's input, and all labels are flipped.
    fed = fm.spam(data, features=INPUTS[-1], corrupt=fm.FlipLabels(1.0), **given)
    history = fm.train(fed, net, fm.FRCCE(), rounds=rounds, local=LOCAL, seed=seed)
    for length in lengths:
        found = fm.detection_auc(history.scores[length - 1], fed.corrupted)
        yield INPUTS[-1], OURS, f"AUC @ {length}", found


# --- who judges the judge ---------------------------------------------------------------------

WRONG_JUDGES = (0.2, 0.3, 1.0)
JUDGED = (50, 200, 800)


def judge_rows(seed: int, *, rounds: int = JUDGED[-1]) -> Iterator[Row]:
    """All labels of ten clients and some of the server's labels are flipped.

    rounds  of every training run, 50 or more
    """
    fed = messages(seed, source="sms-synthetic", share=0.2)
    net = fm.logistic(fed.x.shape[1], 2)
    x, labels = fed.validation
    order = torch.randperm(len(labels), generator=stream(seed, "wrong judge"))
    for share in WRONG_JUDGES:
        wrong = labels.clone()
        chosen = order[: round(share * len(labels))]
        wrong[chosen] = 1 - wrong[chosen]
        misled = replace(fed, validation=(x, wrong))
        history = fm.train(misled, net, fm.FRCCE(), rounds=rounds, local=LOCAL, seed=seed)
        scenario = f"{100 * share:.0f} % wrong"
        for length in (length for length in JUDGED if length <= rounds):
            found = fm.detection_auc(history.scores[length - 1], fed.corrupted)
            yield scenario, OURS, f"AUC @ {length}", found
        yield scenario, OURS, "accuracy", float(history.accuracy[-1])


def judged_longer(results: Results) -> Derived:
    """The loss of AUC from round 50 to round 800 if the server's labels are wrong."""
    for scenario in results.scenarios:
        early, late = (results.values(f"AUC @ {place}", OURS, scenario) for place in (50, 800))
        yield scenario, OURS, "AUC lost since round 50", early - late


# --- removal: what do the highest and the lowest do for the model? ------------------------------

CURVE = (20, 50, 100, 200, 500, 1000)  # rounds of a training run at which the model is tested
RETRAINED = (20, 50, 100)  # the same of a retraining
RIVALS = 50  # rounds of each training run of leave-one-out
SHORT = (50, 200)  # rounds of evaluators that are to show what a short run does
EVALUATORS: dict[str, dict] = {OURS: {}, PRINTED: {"literal": True}}
DEGREES = {"20 % of the words": 0.2, "80 % of the words": 0.8}
MANY = (50, 100, 200, 300, 400, 500)  # clients of Fig. 2c
REMOVED = 0.3  # of the updates of a round
ENDS = ("highest", "lowest")


@dataclass(frozen=True, eq=False, kw_only=True)
class Removal(fm.FedAvg):
    """The mean of a round's updates without those of highest, or of lowest, value.

    value  a round -> values of its m updates [m]; their mean over rounds is the score
    end    "highest", "lowest" or "nobody"
    """

    value: Callable[[Round], Tensor]
    end: str = "nobody"
    weighting: Weighting = "uniform"

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The new global model [P]; see `FedAvg`."""
        worth = self.value(round)
        order, cut = worth.argsort(), int(REMOVED * len(worth))
        stay = {"highest": order[: len(order) - cut], "lowest": order[cut:], "nobody": order}
        weights = torch.zeros_like(worth, dtype=round.updates.dtype)
        weights[stay[self.end]] = 1 / len(stay[self.end])
        self.count(state, round, worth)
        return Step(round.theta + weights @ round.updates, weights, state)


def fixed(evaluator: fm.FRCCE, state: State, round: Round) -> Tensor:
    """Selection probabilities [m] of an evaluator that has stopped learning."""
    return evaluator.logits(state, round).detach().sigmoid()


def fixed_scores(scores: Tensor, round: Round) -> Tensor:
    """Constant scores [m] of a round's clients."""
    return scores[round.clients]


def messages(
    seed: int,
    clients: int = CLIENTS,
    source: str = "sms",
    samples: int | None = None,
    share: float = 0.0,
    **given: object,
) -> fm.Federation:
    """The federation of a study: text messages, with corrupted clients only on request.

    samples  how many messages, the server's among them; None: all
    """
    data = fm.load(source, vocabulary=WORDS[source], dtype=torch.float64)
    if samples is not None:
        data = data.subset(range(samples))
    # With hundreds of clients, the smallest cannot have five messages.
    floor = 5 if clients <= 50 else 2
    return fm.spam(data, clients=clients, floor=floor, share=share, seed=seed, **given)  # type: ignore[arg-type]


def reached(history: fm.History, rounds: Sequence[int], without: str = "") -> Iterator[tuple]:
    """Accuracy and loss on the test messages after these rounds."""
    for place in rounds:
        if place < len(history.accuracy):
            yield f"accuracy{without} @ {place}", float(history.accuracy[place])
            yield f"loss{without} @ {place}", float(history.loss[place])


def without_ends(
    seed: int,
    fed: fm.Federation,
    scenario: str,
    values: dict[str, Callable[[Round], Tensor]],
    rounds: int,
) -> Iterator[Row]:
    """Retrain without the highest and without the lowest updates, for each way to value them.

    rounds  of a retraining, at most RETRAINED
    """
    net = fm.logistic(fed.x.shape[1], 2)
    for method, worth in values.items():
        for end in ENDS:
            strategy = Removal(value=worth, end=end)
            longest = min(rounds, RETRAINED[-1])
            history = fm.train(fed, net, strategy, rounds=longest, local=LOCAL, seed=seed)
            yield from rows_of(scenario, method, reached(history, RETRAINED, f" without {end}"))


def removal_rows(
    seed: int, fed: fm.Federation, evaluators: Sequence[str], scenario: str, rounds: int, plain: int
) -> Iterator[Row]:
    """Train evaluators and leave-one-out, then retrain without the highest and the lowest.

    rounds  of an evaluator, and the most of any other training run
    plain   the most rounds of FedAvg
    """
    net = fm.logistic(fed.x.shape[1], 2)
    values: dict[str, Callable[[Round], Tensor]] = {}
    # Removal takes plain means, so the training beside it does, too.
    strategy = fm.FedAvg(weighting="uniform")
    longest = min(rounds, plain)
    histories = {PLAIN: fm.train(fed, net, strategy, rounds=longest, local=LOCAL, seed=seed)}
    for method in evaluators:
        strategy = fm.FRCCE(**EVALUATORS[method])
        history = fm.train(fed, net, strategy, rounds=rounds, local=LOCAL, seed=seed)
        histories[method] = history
        values[method] = partial(fixed, strategy, history.state)
        if fed.corrupted:
            yield scenario, method, "AUC", fm.detection_auc(history.scores[-1], fed.corrupted)
    # The paper says 50 rounds but not which metric; a loss is finer than an accuracy.
    game = fm.retraining_game(fed, net, min(rounds, RIVALS), LOCAL, "loss", seed)
    missed = fm.leave_one_out(game).values
    values[RIVAL] = partial(fixed_scores, missed)
    if fed.corrupted:
        yield scenario, RIVAL, "AUC", fm.detection_auc(missed, fed.corrupted)
    for method, history in histories.items():
        yield from rows_of(scenario, method, reached(history, CURVE))
    yield from without_ends(seed, fed, scenario, values, rounds)


# Settings of what follows: data is "sms" or "sms-synthetic", of which samples are taken; rounds is
# the most of any training, 20 or more: a retraining has fewer in any case.


def clean_rows(
    seed: int,
    *,
    data: str = "sms",
    samples: int | None = None,
    clients: int = CLIENTS,
    rounds: int = CURVE[-1],
) -> Iterator[Row]:
    """Fig. 2a: nobody is corrupted."""
    fed = messages(seed, clients, data, samples)
    yield from removal_rows(seed, fed, tuple(EVALUATORS), "", rounds, plain=rounds)


def noise_rows(
    seed: int,
    *,
    data: str = "sms",
    samples: int | None = None,
    clients: int = CLIENTS,
    rounds: int = CURVE[-1],
    degrees: Sequence[str] = tuple(DEGREES),
) -> Iterator[Row]:
    """Fig. 2b: a fifth of the clients lose a fifth of the words of all messages, or four fifths.

    degrees  of DEGREES, how many words are lost
    """
    for scenario in degrees:
        share = DEGREES[scenario]
        fed = messages(seed, clients, data, samples, 0.2, corrupt=DeleteWords(share))
        # The stronger noise is ours, and so is its evaluator.
        evaluators = tuple(EVALUATORS) if share < 0.5 else (OURS,)
        yield from removal_rows(seed, fed, evaluators, scenario, rounds, plain=RETRAINED[-1])


def clients_rows(
    seed: int,
    *,
    data: str = "sms",
    samples: int | None = None,
    clients: Sequence[int] = MANY,
    rounds: int = CURVE[-1],
) -> Iterator[Row]:
    """Fig. 2c: the same messages over more clients."""
    for many in clients:
        fed, scenario = messages(seed, many, data, samples), f"{many} clients"
        net = fm.logistic(fed.x.shape[1], 2)
        trained = fm.train(fed, net, fm.FRCCE(), rounds=rounds, local=LOCAL, seed=seed)
        evaluator = partial(fixed, fm.FRCCE(), trained.state)
        # Removal takes plain means, so the training beside it does, too.
        everybody = fm.FedAvg(weighting="uniform")
        history = fm.train(fed, net, everybody, rounds=rounds, local=LOCAL, seed=seed)
        yield from rows_of(scenario, PLAIN, reached(history, CURVE))
        yield from without_ends(seed, fed, scenario, {OURS: evaluator}, rounds)


def by_size(round: Round) -> Tensor:
    """A rival that learns nothing: the number of messages of each client, [m]."""
    return round.sizes.double()


def ends_rows(
    seed: int,
    *,
    data: str = "sms",
    samples: int | None = None,
    lengths: Sequence[int] = SHORT,
    rounds: int = RETRAINED[-1],
) -> Iterator[Row]:
    """The control of Fig. 2a: removal by size, and evaluators of 50 and of 200 rounds.

    lengths  rounds of the evaluators
    rounds   of a retraining, 20 or more
    """
    fed = messages(seed, source=data, samples=samples)
    net = fm.logistic(fed.x.shape[1], 2)
    values: dict[str, Callable[[Round], Tensor]] = {"sizes": by_size}
    for length in lengths:
        trained = fm.train(fed, net, fm.FRCCE(), rounds=length, local=LOCAL, seed=seed)
        values[f"{OURS}, {length} rounds"] = partial(fixed, fm.FRCCE(), trained.state)
    strategy = fm.FedAvg(weighting="uniform")
    history = fm.train(fed, net, strategy, rounds=rounds, local=LOCAL, seed=seed)
    yield from rows_of("", PLAIN, reached(history, RETRAINED))
    yield from without_ends(seed, fed, "", values, rounds)


def both_ends(results: Results) -> Derived:
    """The effect of removing each end against FedAvg, and the difference between both ends."""
    for scenario in results.scenarios:
        for method in results.methods:
            for place in RETRAINED:
                if not results.has(f"accuracy without lowest @ {place}", method, scenario):
                    continue
                plain = results.values(f"accuracy @ {place}", PLAIN, scenario)
                low, high = (
                    results.values(f"accuracy without {end} @ {place}", method, scenario)
                    for end in ("lowest", "highest")
                )
                yield scenario, method, f"lost without highest @ {place}", plain - high
                yield scenario, method, f"gained without lowest @ {place}", low - plain
                yield scenario, method, f"gap of the ends @ {place}", low - high


def ends_figure(results: Results) -> Figure:
    """The effect of removing each end after 50 rounds of retraining, for each method."""
    differences = {}
    for scenario in results.scenarios:
        for method in results.methods:
            label = ", ".join(filter(None, [shown(method), scenario]))
            for sign, metric in ((-1, "lost without highest"), (1, "gained without lowest")):
                if results.has(f"{metric} @ 50", method, scenario):
                    row = f"{label}: no {metric.split()[-1]}"
                    differences[row] = sign * results.values(f"{metric} @ 50", method, scenario)
    xlabel = "accuracy after 50 rounds, minus FedAvg's"
    return plots.dots(differences, xlabel=xlabel, reference={"FedAvg": 0.0})


# --- does more data count for more? -------------------------------------------------------------

SIZE_WEIGHTED = "ours, mean weighted by size"


def size_rows(seed: int, *, data: str = "sms", rounds: int = ROUNDS) -> Iterator[Row]:
    """Fig. 2d: contribution by a fixed evaluator over 50 rounds against the number of samples.

    rounds  of an evaluator's training
    """
    fed = messages(seed, source=data)
    net = fm.logistic(fed.x.shape[1], 2)
    strategies = {method: fm.FRCCE(**options) for method, options in EVALUATORS.items()}
    strategies[SIZE_WEIGHTED] = fm.FRCCE(weighting="size")
    for method, strategy in strategies.items():
        trained = fm.train(fed, net, strategy, rounds=rounds, local=LOCAL, seed=seed)
        again = Removal(value=partial(fixed, strategy, trained.state))
        history = fm.train(fed, net, again, rounds=min(rounds, 50), local=LOCAL, seed=seed)
        fixed_rank, live_rank = (
            fm.spearman(run.scores[-1], fed.sizes) for run in (history, trained)
        )
        yield "", method, "rank correlation", fixed_rank
        yield "", method, "rank correlation while training", live_rank


# --- what does it cost? -------------------------------------------------------------------------

BILLED = (100, 200, 300, 400, 500)  # clients of Table 1
LEARNED = "F-RCCE"


def bill_rows(seed: int, *, clients: Sequence[int] = BILLED, rounds: int = ROUNDS) -> Iterator[Row]:
    """Table 1 in full: 1,000 rounds of F-RCCE, 50 of each run of leave-one-out.

    rounds  of F-RCCE, and the most of leave-one-out
    """
    net = fm.logistic(WORDS["sms-synthetic"], 2)
    for many in clients:
        fed, scenario = messages(seed, many, "sms-synthetic"), f"{many} clients"
        start = time.process_time()
        history = fm.train(fed, net, fm.FRCCE(), rounds=rounds, local=LOCAL, seed=seed)
        yield scenario, LEARNED, "seconds", time.process_time() - start
        yield scenario, LEARNED, "client epochs", history.cost.client_epochs
        game = fm.retraining_game(fed, net, min(rounds, RIVALS), LOCAL, "loss", seed)
        start = time.process_time()
        fm.leave_one_out(game)
        yield scenario, RIVAL, "seconds", time.process_time() - start
        # Leave-one-out trains everybody once, then K times K - 1 clients.
        yield scenario, RIVAL, "client epochs", game.client_epochs * many**2
        yield scenario, LEARNED, "messages per round", len(fed.y)
        yield scenario, RIVAL, "messages per round", float(many * len(fed.y))


def growth(results: Results) -> Derived:
    """Time for 500 clients over time for 100, and one method's time over the other's."""
    many = {method: results.values("seconds", method, "500 clients") for method in (LEARNED, RIVAL)}
    for method, seconds in many.items():
        few = results.values("seconds", method, "100 clients")
        yield "", method, "growth of seconds", seconds / few
    yield "", LEARNED, "share of the rival's seconds", many[LEARNED] / many[RIVAL]


FEW: dict = {"data": "sms-synthetic", "samples": 1_500}  # and 1,144 of them the server's
STUDIES = (
    study("frcce-rounds", rounds_rows, ROUNDS_CLAIMS, learned, rounds_figure, {"rounds": 3}),
    study(
        "frcce-rounds-sms",
        partial(rounds_rows, data="sms"),
        derived=learned,
        probe=FEW | {"rounds": 2},
    ),
    study("frcce-slope", slope_rows, derived=relative_noise, probe={"networks": 2}),
    study("frcce-input", input_rows, probe={"data": "sms-synthetic", "rounds": 25}),
    study("frcce-judge", judge_rows, derived=judged_longer, probe={"rounds": 50}),
    study(
        "frcce-removal", clean_rows, derived=both_ends, probe=FEW | {"clients": 10, "rounds": 20}
    ),
    study(
        "frcce-noise",
        noise_rows,
        derived=both_ends,
        probe=FEW | {"clients": 10, "rounds": 20, "degrees": tuple(DEGREES)[:1]},
    ),
    study(
        "frcce-clients",
        clients_rows,
        derived=both_ends,
        probe=FEW | {"clients": (10, 60), "rounds": 20},
    ),
    study(
        "frcce-ends",
        ends_rows,
        derived=both_ends,
        figure=ends_figure,
        probe=FEW | {"lengths": (10, 20), "rounds": 20},
    ),
    study("frcce-size", size_rows, probe={"data": "sms-synthetic", "rounds": 10}),
    study("frcce-bill", bill_rows, derived=growth, probe={"clients": (10, 20), "rounds": 5}),
)
