"""F-RCCE: which printed choices work and when, removal by a fixed evaluator, sizes, time.

[zhao2021efficient, Section 3]; chapters 5 and 14 read these results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.engine.history import History
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import logistic
from fedlab_mini.engine.rounds import Round
from fedlab_mini.engine.train import train
from fedlab_mini.games.shapley import leave_one_out
from fedlab_mini.games.training_games import retraining_game
from fedlab_mini.judge.evidence import Interval, interval
from fedlab_mini.judge.metrics import detection_auc, spearman
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.methods.policy import scaled
from fedlab_mini.methods.reinforce import FRCCE
from fedlab_mini.show import plots
from fedlab_mini.worlds.corrupt import delete_words, flip_labels
from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.federation import Federation
from fedlab_mini.worlds.scenarios import spam

from .claims import (
    alike,
    beyond,
    bounded,
    covers,
    higher,
    lower,
    minus,
    ours,
    ratio,
    sentences,
    within,
)
from .protocols import study
from .study import HOLDS, NOT_SHOWN, Claim, Measure, Results, Row, Test

CLIENTS, ROUNDS = 50, 1000
LOCAL = LocalSGD(epochs=1, batch=64, lr=0.1)
WORDS = {"sms-synthetic": 200, "sms": 500}  # of the bag of words
LOOKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # rounds at which the ranking is looked at
CURVE = (20, 50, 100, 200, 500, 1000)  # rounds of a training at which the model is tested
RETRAINED = (20, 50, 100)  # the same of a retraining
NOISE_ROUNDS, MANY_ROUNDS = 300, 200  # instead of the 1,000 of the paper
VARIANTS: dict[str, dict] = {
    "ours": {},
    "printed sign": {"sign": "printed"},
    "printed step size": {"lr": 1e-5},
    "printed baseline": {"baseline": "moving"},
    "printed input": {"scaling": "none"},
    "no clamp": {"clamp": 0.0},
    "no limit": {"limit": None},
    "all as printed": {"literal": True},
    "printed but for the sign": {"literal": True, "sign": "gain"},
}
FLIPS = {"all flipped": 1.0, "half flipped": 0.5}
EVALUATORS: dict[str, dict] = {"ours": {}, "as printed": {"literal": True}}
BY_SIZE = "ours, mean weighted by size"
DEGREES = {"20 % of the words": 0.2, "80 % of the words": 0.8}
MANY = (50, 200, 500)  # clients of Fig. 2c
BILLED = (100, 200, 300, 400, 500)  # clients of Table 1
RIVALS = ("F-RCCE", "leave-one-out")
REMOVED = 0.3  # of the updates of a round
PAPER_GROWTH = 66.9 / 62.6  # of the seconds of Table 1
AT_50 = "test accuracy @ 50"


def rounds_rows(seed: int, source: str = "sms-synthetic") -> Iterator[Row]:
    """Detection AUC after 1 to 1,000 rounds, for each variant and both degrees of flipping."""
    data = load(source, vocabulary=WORDS[source], dtype=torch.float64)
    net = logistic(WORDS[source], 2)
    for degree, share in FLIPS.items():
        fed = spam(data, clients=CLIENTS, corrupt=flip_labels(share), seed=seed)
        # The same messages and the same start for all: only the evaluator differs.
        for method, options in VARIANTS.items():
            strategy = FRCCE(**options)
            history = train(fed, net, strategy, rounds=ROUNDS, local=LOCAL, seed=seed)
            for metric, value in ranked(fed, history):
                yield f"{method}, {degree}", metric, value


def rounds_sms(seed: int) -> Iterator[Row]:
    """The same on the real messages."""
    yield from rounds_rows(seed, "sms")


def ranked(fed: Federation, history: History) -> Iterator[tuple[str, float]]:
    """What a training leaves: AUC of the score at several rounds, spread of omega, accuracy."""
    omega = by_round(history)
    for t in LOOKS:
        yield f"AUC @ {t}", detection_auc(history.scores[t - 1], fed.corrupted)
    # The score is a mean over rounds; the last one shows what was learned by then.
    yield "AUC, last round alone", detection_auc(omega[-1], fed.corrupted)
    yield "spread of omega", float(omega[-1].std())
    yield "test accuracy", float(history.accuracy[-1])


def by_round(history: History) -> Tensor:
    """Omega of each round [T, K], from the scores, which are running means."""
    total = history.scores * torch.arange(1, len(history.scores) + 1)[:, None]
    return total.diff(dim=0, prepend=torch.zeros_like(total[:1]))


def sides(feds: Sequence[Federation], histories: Sequence[History]) -> dict[str, Tensor]:
    """Mean omega of the sound and of the corrupted clients, round by round, each [seeds, T]."""
    lines: dict[str, list[Tensor]] = {"sound": [], "corrupted": []}
    for fed, history in zip(feds, histories, strict=True):
        bad = torch.tensor([k in fed.corrupted for k in range(fed.clients)])
        for method, clients in (("sound", ~bad), ("corrupted", bad)):
            lines[method].append(by_round(history)[:, clients].mean(1))
    return {method: torch.stack(curves) for method, curves in lines.items()}


@dataclass(eq=False, kw_only=True)
class Removal(FedAvg):
    """The plain mean of a round's updates without those that are valued highest, or lowest.

    value  a round -> what each of its m updates is worth, [m]; its mean over rounds is the score
    end    "highest", "lowest" or "nobody"
    """

    value: Callable[[Round], Tensor]
    end: str = "nobody"
    weighting: str = "uniform"

    def aggregate(self, round: Round) -> Tensor:
        """The new global model [P]; see `FedAvg`."""
        worth = self.value(round)
        order, cut = worth.argsort(), int(REMOVED * len(worth))
        stay = {"highest": order[: len(order) - cut], "lowest": order[cut:], "nobody": order}
        weights = torch.zeros_like(worth, dtype=round.updates.dtype)
        weights[stay[self.end]] = 1 / len(stay[self.end])
        self.record(round, weights, worth)
        return round.theta + weights @ round.updates


def fixed(evaluator: FRCCE, round: Round) -> Tensor:
    """Selection probabilities [m] by an evaluator that learns no more."""
    inputs = scaled(round.updates[:, -evaluator.read :], evaluator.scaling)
    return evaluator.policy.logits(inputs).detach().sigmoid()


def fixed_scores(scores: Tensor, round: Round) -> Tensor:
    """Scores [m] of a round's clients that are the same in every round."""
    return scores[round.clients]


def messages(seed: int, clients: int = 50, source: str = "sms", **given: object) -> Federation:
    """The federation of a study: text messages, nobody corrupted unless asked for."""
    data = load(source, vocabulary=WORDS[source], dtype=torch.float64)
    # With hundreds of clients there are not five messages for the smallest.
    floor = 5 if clients <= 50 else 2
    given = {"share": 0.0, **given}
    return spam(data, clients=clients, floor=floor, seed=seed, **given)  # type: ignore[arg-type]


def tested(history: History, rounds: Sequence[int]) -> Iterator[tuple[str, float]]:
    """Test accuracy and loss after these rounds."""
    for t in rounds:
        yield f"test accuracy @ {t}", float(history.accuracy[t])
        yield f"test loss @ {t}", float(history.loss[t])


def removal_rows(
    seed: int,
    fed: Federation,
    names: Sequence[str],
    note: str = "",
    plain: int = RETRAINED[-1],
    trained: int = CURVE[-1],
) -> Iterator[Row]:
    """Train evaluators and leave-one-out, then retrain without the highest and the lowest.

    names  of the evaluators; note  what is appended to variants; plain, trained  rounds
    of FedAvg and of the evaluators
    """
    net = logistic(fed.x.shape[1], 2)
    values: dict[str, Callable[[Round], Tensor]] = {}
    # Removal takes plain means, so the training beside it does, too.
    strategy = FedAvg(weighting="uniform")
    histories = {"FedAvg": train(fed, net, strategy, rounds=plain, local=LOCAL, seed=seed)}
    for method in names:
        strategy = FRCCE(**EVALUATORS[method])
        history = train(fed, net, strategy, rounds=trained, local=LOCAL, seed=seed)
        histories[f"{method}, while training"] = history
        values[method] = partial(fixed, history.strategy)
        if fed.corrupted:
            auc = detection_auc(history.scores[-1], fed.corrupted)
            yield f"{method}, while training{note}", "AUC", auc
    # The paper says 50 rounds and not by what; a loss is finer than an accuracy.
    missed = leave_one_out(retraining_game(fed, net, 50, LOCAL, "loss", seed)).values
    values["leave-one-out"] = partial(fixed_scores, missed)
    if fed.corrupted:
        yield f"leave-one-out{note}", "AUC", detection_auc(missed, fed.corrupted)
    for method, history in histories.items():
        reached = [t for t in CURVE if t < len(history.accuracy)]
        yield from ((f"{method}{note}", *row) for row in tested(history, reached))
    for method, value in values.items():
        for end in ("highest", "lowest"):
            strategy = Removal(value=value, end=end)
            history = train(fed, net, strategy, rounds=RETRAINED[-1], local=LOCAL, seed=seed)
            variant = f"{method}, {end} removed{note}"
            yield from ((variant, *row) for row in tested(history, RETRAINED))


def clean_rows(seed: int) -> Iterator[Row]:
    """Fig. 2a: nobody is corrupted."""
    yield from removal_rows(seed, messages(seed), tuple(EVALUATORS), plain=CURVE[-1])


def noise_rows(seed: int) -> Iterator[Row]:
    """Fig. 2b: a fifth of the clients lose a fifth of the words of all messages; then four."""
    for method, share in DEGREES.items():
        fed = messages(seed, share=0.2, corrupt=delete_words(share))
        # The stronger noise is ours, and so is its evaluator.
        evaluators = tuple(EVALUATORS) if share < 0.5 else ("ours",)
        yield from removal_rows(seed, fed, evaluators, f"; {method}", trained=NOISE_ROUNDS)


def clients_rows(seed: int) -> Iterator[Row]:
    """Fig. 2c: the same messages over more clients."""
    for clients in MANY:
        fed = messages(seed, clients=clients)
        net = logistic(fed.x.shape[1], 2)
        trained = train(fed, net, FRCCE(), rounds=MANY_ROUNDS, local=LOCAL, seed=seed)
        value = partial(fixed, trained.strategy)
        for end in ("nobody", "highest", "lowest"):
            strategy = Removal(value=value, end=end)
            history = train(fed, net, strategy, rounds=RETRAINED[-1], local=LOCAL, seed=seed)
            variant = f"{clients} clients, {end} removed"
            yield from ((variant, *row) for row in tested(history, RETRAINED))


def size_rows(seed: int) -> Iterator[Row]:
    """Fig. 2d: contribution by a fixed evaluator over 50 rounds against the number of samples."""
    fed = messages(seed)
    net = logistic(fed.x.shape[1], 2)
    strategies = {method: FRCCE(**options) for method, options in EVALUATORS.items()}
    strategies[BY_SIZE] = FRCCE(weighting="size")
    for method, strategy in strategies.items():
        trained = train(fed, net, strategy, rounds=1000, local=LOCAL, seed=seed)
        again = Removal(value=partial(fixed, trained.strategy))
        history = train(fed, net, again, rounds=50, local=LOCAL, seed=seed)
        yield method, "rank correlation", spearman(history.scores[-1], fed.sizes)
        yield method, "rank correlation, while training", spearman(trained.scores[-1], fed.sizes)


def bill_rows(seed: int) -> Iterator[Row]:
    """Table 1: work counted exactly, seconds measured, 100 to 500 clients in turns."""
    feds = {clients: messages(seed, clients, "sms-synthetic") for clients in BILLED}
    net = logistic(WORDS["sms-synthetic"], 2)
    taken: dict[int, list[float]] = {clients: [] for clients in feds}
    # In turns, so that a busy moment of the machine does not fall on one number of clients.
    for _ in range(5):
        for clients, fed in feds.items():
            start = time.process_time()
            history = train(fed, net, FRCCE(), rounds=10, local=LOCAL, seed=seed)
            taken[clients].append((time.process_time() - start) / 10)
            assert history.cost.client_epochs == 10 * clients
    for clients, fed in feds.items():
        game, variant = retraining_game(fed, net, 50, LOCAL, "loss", seed), f"{clients} clients"
        leave_one_out_epochs = game.client_epochs * clients**2  # everybody, then K times K - 1
        yield variant, "client epochs, F-RCCE", 1000.0 * clients
        yield variant, "client epochs, leave-one-out", leave_one_out_epochs
        yield variant, "messages a round, F-RCCE", len(fed.y)
        yield variant, "messages a round, leave-one-out", float(clients * len(fed.y))
        median = float(torch.tensor(taken[clients]).median())
        yield variant, "seconds, F-RCCE", 1000 * median
    # Each of its 50 rounds costs the same, so one is timed.
    for clients in (100, 500):
        start = time.process_time()
        leave_one_out(retraining_game(feds[clients], net, 1, LOCAL, "loss", seed))
        seconds = time.process_time() - start
        yield f"{clients} clients", "seconds, leave-one-out", 50 * seconds


def rounds_figure(results: Results) -> Figure:
    """AUC against rounds of every variant, all and half of the labels flipped."""
    lines = {
        method: {degree: results.curve("AUC", f"{method}, {degree}")[1] for degree in FLIPS}
        for method in VARIANTS
    }
    return plots.panels(lines, x=LOOKS, ylabel="detection AUC", chance=0.5)


def removal_figure(results: Results) -> Figure:
    """Test accuracy after 50 rounds of each removal, minus FedAvg's on the same messages."""
    differences = {}
    for variant in (method for method in results.variants if "removed" in method):
        # Beside FedAvg on the same messages, whole or with words deleted.
        plain = "FedAvg" + "".join(variant.partition(";")[1:])
        differences[variant] = results.values(AT_50, variant) - results.values(AT_50, plain)
    xlabel = "accuracy after 50 rounds, minus FedAvg's"
    return plots.dots(differences, xlabel=xlabel, reference={"FedAvg": 0.0})


def clients_figure(results: Results) -> Figure:
    """Test accuracy after 50 rounds without the highest and the lowest, by number of clients."""
    differences = {}
    for clients in MANY:
        with_all = results.values(AT_50, f"{clients} clients, nobody removed")
        for variant in (f"{clients} clients, {end} removed" for end in ("highest", "lowest")):
            differences[variant] = results.values(AT_50, variant) - with_all
    xlabel = "accuracy after 50 rounds, minus that with all"
    return plots.dots(differences, xlabel=xlabel, reference={"nobody removed": 0.0})


def size_figure(results: Results) -> Figure:
    """Rank correlation of score and number of messages."""
    differences = {
        method: results.values("rank correlation", method) for method in results.variants
    }
    xlabel = "rank correlation with the number of messages"
    return plots.dots(differences, xlabel=xlabel, reference={"none": 0.0})


def bill_figure(results: Results) -> Figure:
    """Time of 500 clients over that of 100, ours beside the paper's."""
    differences = {}
    for method in RIVALS:
        many, few = (results.values(f"seconds, {method}", f"{K} clients") for K in (500, 100))
        differences[method] = many / few
    paper = {"paper": PAPER_GROWTH, "paper: 4.6": 1135.9 / 249.5}
    return plots.dots(differences, xlabel="time for 500 clients over that for 100", reference=paper)


def moved_more(results: Results) -> Interval:
    """How much farther the printed step moves omega alone than with all printed but the sign.

    In powers of ten: the ratio itself is far from normal.
    """
    step, corrected = (
        results.values("spread of omega", f"printed {method}, all flipped")
        for method in ("step size", "but for the sign")
    )
    return interval((step / corrected).log10())


def rounds_reads() -> Iterator[Claim]:
    """What chapter 5 says of 1,000 rounds."""
    all_ours, sign, literal = (
        f"{method}, all flipped" for method in ("ours", "printed sign", "all as printed")
    )
    lost = higher("test accuracy", all_ours, sign, by=0.5)
    yield ours("the printed sign costs more than half of the accuracy", lost, "lost")
    fallen = bounded(minus(("AUC, last round alone", literal), ("AUC @ 1", literal)), high=0)
    yield ours("all as printed: the last round ranks worse than the first", fallen, "fallen")
    still = within("spread of omega", -0.01, 0.01, literal)
    yield ours("all as printed: the probabilities hardly move", still)
    for degree in FLIPS:
        for t in (50, 1000):
            down = within(f"AUC @ {t}", -1, 0.1, f"printed sign, {degree}")
            yield ours(f"printed sign, {degree}: upside down at round {t}", down)
            for method in ("no clamp", "no limit"):
                same = within(f"AUC @ {t}", -0.01, 0.01, f"{method}, {degree}", f"ours, {degree}")
                yield ours(f"{method}, {degree}, round {t}: AUC within .01 of ours", same)
    step, moving, raw, half = (
        f"{method}, half flipped"
        for method in ("printed step size", "printed baseline", "printed input", "ours")
    )
    generator = covers("AUC @ 1000", "printed but for the sign, all flipped", 0.5)
    yield ours("printed step: behind ours at round 50", lower("AUC @ 50", step, half), "step_50")
    yield ours("moving: behind ours at round 50", lower("AUC @ 50", moving, half), "moving_50")
    yield ours("printed step: found in the end", beyond("AUC @ 1000", step, 0.95), "step_end")
    yield ours("moving: not shown to beat chance", covers("AUC @ 1000", moving, 0.5), "moving_end")
    last = beyond("AUC, last round alone", moving, 0.95)
    yield ours("moving: AUC of the last round above .95", last, "moving_last")
    yield ours("printed input: ahead at round 10", higher("AUC @ 10", raw, half), "raw_10")
    yield ours("printed but for the sign: no better than chance", generator, "fixed_end")
    yield ours("the printed step moves more than 10 times as far", bounded(moved_more, 1))


def sms_reads() -> Iterator[Claim]:
    """What chapter 5 says of the real messages."""
    for degree, key in zip(FLIPS, ("real_all", "real_half"), strict=True):
        yield ours(f"{degree}: found", beyond("AUC @ 1000", f"ours, {degree}", 0.95), key)
    # On the real messages these lag less: "not shown" is what the chapter says.
    for method in ("printed step size", "printed baseline"):
        same = alike("AUC @ 50", f"{method}, half flipped", "ours, half flipped")
        yield ours(f"{method}: a lag at round 50 is not shown", same)
    poor = within("AUC @ 1000", -1, 0.75, "all as printed, all flipped")
    yield ours("all as printed: AUC below .75", poor, "real_literal")


def rounds_claims() -> Iterator[Claim]:
    """Whom the score finds, as printed and by our defaults, and what each choice does."""
    sentence = "tells corrupted clients from sound ones (AUC above .75)"
    printed = beyond("AUC @ 1000", "all as printed, all flipped", 0.75)
    yield Claim(f"as printed, the evaluator {sentence}", printed)
    our_variant = {method: f"ours, {method} flipped" for method in ("all", "half")}
    base, step = (f"printed {method}, half flipped" for method in ("baseline", "step size"))
    find, rank = "our defaults find clients with", "after 50 rounds our"
    end = "AUC @ 1000"
    yield from sentences(
        {
            f"{find} all labels flipped (AUC above .95)": beyond(end, our_variant["all"], 0.95),
            f"{find} half of their labels flipped (AUC above .95)": beyond(
                end, our_variant["half"], 0.95
            ),
            f"{rank} baseline ranks better than the moving average, half flipped": higher(
                "AUC @ 50", our_variant["half"], base
            ),
            f"{rank} step size ranks better than the printed one, half flipped": higher(
                "AUC @ 50", our_variant["half"], step
            ),
            f"{base}: AUC rises from round 50 to round 1000": rises(base),
            f"{step}: AUC rises from round 50 to round 1000": rises(step),
            "the printed sign ranks the other way round: ours is higher, all flipped": higher(
                end, our_variant["all"], "printed sign, all flipped"
            ),
        }
    )


def rises(variant: str) -> Test:
    """A variant's AUC is higher after 1,000 rounds than after 50."""
    return bounded(minus(("AUC @ 1000", variant), ("AUC @ 50", variant)), 0)


def ends(method: str, note: str = "") -> tuple[str, str]:
    """The variants of a method without the lowest and without the highest."""
    return f"{method}, lowest removed{note}", f"{method}, highest removed{note}"


def removal_claims(method: str, note: str = "", paper: bool = True) -> tuple[Claim, ...]:
    """What the paper says of removing the highest and the lowest, for one evaluator."""
    plain, (better, worse) = f"FedAvg{note}", ends(method, note)
    tests: dict = {
        "lower without the highest than with all": higher(AT_50, plain, worse),
        "higher without the lowest than with all": higher(AT_50, better, plain),
        "higher without the lowest than without the highest": higher(AT_50, better, worse),
    }
    return sentences(tests, f"{method}{note}: after 50 rounds accuracy is ", paper)


def loo_claim(note: str = "") -> Claim:
    """The paper's sentence on leave-one-out."""
    sentence = f"leave-one-out{note}: no difference between removing the highest and the lowest"
    return Claim(sentence, alike(AT_50, *ends("leave-one-out", note)))


def removal_reads(note: str = "", suffix: str = "") -> Iterator[Claim]:
    """What chapter 5 says of the two ends, evaluator by evaluator."""
    our_variant, missed, printed = (ends(n, note) for n in ("ours", "leave-one-out", "as printed"))
    yield ours("ours: lowest minus highest", higher(AT_50, *our_variant), f"apart_ours{suffix}")
    yield ours("leave-one-out: the same", higher(AT_50, *missed), f"apart_loo{suffix}")
    yield ours("as printed: not shown", alike(AT_50, *printed), f"apart_printed{suffix}")


def clean_claims() -> Iterator[Claim]:
    """Fig. 2a: does the training converge as FedAvg does, and what do the two ends do?"""
    for method in EVALUATORS:
        sentence = f"{method}: accuracy after 1,000 rounds is within 0.01 of FedAvg's"
        near = within("test accuracy @ 1000", -0.01, 0.01, f"{method}, while training", "FedAvg")
        yield Claim(sentence, near, method != "ours")
    yield from removal_claims("as printed")
    yield from removal_claims("ours", paper=False)
    yield loo_claim()


def clean_reads() -> Iterator[Claim]:
    """What chapter 5 says of each end beside FedAvg, nobody corrupted."""
    better, worse = ends("ours")
    yield ours("ours without the highest: worse", lower(AT_50, worse, "FedAvg"), "worse")
    yield ours("ours without the lowest: better", higher(AT_50, better, "FedAvg"), "better")
    yield from removal_reads()


def noise_claims() -> Iterator[Claim]:
    """Fig. 2b: the two ends again, and who lacks words."""
    note, auc = f"; {next(iter(DEGREES))}", "finds the clients that lack"
    yield from removal_claims("as printed", note)
    yield from removal_claims("ours", note, paper=False)
    yield loo_claim(note)
    printed = beyond("AUC", f"as printed, while training{note}", 0.5)
    yield Claim(f"as printed: {auc} 20 % of the words (AUC above .5)", printed)
    for method in DEGREES:
        our_variant = beyond("AUC", f"ours, while training; {method}", 0.5)
        yield ours(f"ours: {auc} {method} (AUC above .5)", our_variant)


def noise_reads() -> Iterator[Claim]:
    """What chapter 5 says of the two ends where words are deleted."""
    yield from removal_reads(f"; {next(iter(DEGREES))}", "_noise")


def clients_claims() -> Iterator[Claim]:
    """Fig. 2c: the highest are missed, and accuracy shows no trend."""
    for clients in MANY:
        pair = (f"{clients} clients, {end} removed" for end in ("nobody", "highest"))
        sentence = f"{clients} clients: accuracy is lower without the highest than with all"
        yield Claim(sentence, higher(AT_50, *pair))
    pair = (f"{clients} clients, nobody removed" for clients in (500, 50))
    sentence = "with all updates accuracy is the same for 500 as for 50 clients"
    yield Claim(sentence, alike(AT_50, *pair))


def size_claims() -> Iterator[Claim]:
    """Fig. 2d: contribution and the number of messages; chapter 5 states three of the four."""
    rank, sentence = "rank correlation", "contribution rises with the number of messages"
    yield Claim(f"as printed: {sentence}", beyond(rank, "as printed", 0.0), stated=NOT_SHOWN)
    yield ours(f"ours: {sentence}", beyond(rank, "ours", 0.0), stated=HOLDS)
    less, live = "ours: less so where the mean is weighted by size", f"{rank}, while training"
    yield ours(less, higher(rank, "ours", BY_SIZE), stated=NOT_SHOWN)
    added = higher(live, "ours", BY_SIZE)
    yield ours(f"{less}, while training", added, "size_live", HOLDS)


def grown(method: str) -> Measure:
    """How many times as long 500 clients take as 100."""
    metric = f"seconds, {method}"
    return ratio((metric, "500 clients"), (metric, "100 clients"))


OURS, RIVAL = grown("F-RCCE"), grown("leave-one-out")
SHORTER = ratio(("seconds, F-RCCE", "500 clients"), ("seconds, leave-one-out", "500 clients"))
BILL_CLAIMS = {
    "500 clients take F-RCCE at most 1.1 times as long as 100": bounded(OURS, 0, 1.1),
    "500 clients take leave-one-out 4 to 6 times as long as 100": bounded(RIVAL, 4, 6),
    "F-RCCE in 1,000 rounds takes less time than leave-one-out in 50, 500 clients": bounded(
        SHORTER, high=1
    ),
}
BILL_READS = (
    ours("F-RCCE's grows more than in the paper", bounded(OURS, PAPER_GROWTH), "growth"),
    ours("leave-one-out's over fourfold", bounded(RIVAL, 4), "growth_loo"),
    ours("F-RCCE takes less than half as long", bounded(SHORTER, high=0.5), "ratio"),
)
STUDIES = (
    study("frcce-rounds", rounds_rows, rounds_claims(), rounds_reads(), rounds_figure),
    study("frcce-rounds-sms", rounds_sms, rounds_claims(), sms_reads(), rounds_figure),
    study("frcce-removal", clean_rows, clean_claims(), clean_reads(), removal_figure),
    study("frcce-noise", noise_rows, noise_claims(), noise_reads(), removal_figure),
    study("frcce-clients", clients_rows, clients_claims(), figure=clients_figure),
    study("frcce-size", size_rows, size_claims(), figure=size_figure),
    study("frcce-bill", bill_rows, sentences(BILL_CLAIMS, paper=True), BILL_READS, bill_figure),
)
