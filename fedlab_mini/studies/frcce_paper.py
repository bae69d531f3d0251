"""F-RCCE's own figures and table: removal by a fixed evaluator, many clients, sizes, time.

[zhao2021efficient, Sections 3.1 to 3.5]; chapters 5 and 14 read these results. Beside: frcce.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor

from .. import plots
from ..corrupt import delete_words
from ..data import load
from ..evidence import Interval, interval
from ..federation import Federation
from ..games import retraining_game
from ..local import LocalSGD
from ..methods.fedavg import FedAvg
from ..methods.reinforce import FRCCE, scaled
from ..metrics import detection_auc, spearman
from ..model import logistic
from ..rounds import Round
from ..scenarios import spam
from ..shapley import leave_one_out
from ..training import train
from .study import FAILS, HOLDS, Claim, Results, Study, beyond, higher, within

Rows = Iterator[tuple[str, str, float]]
LOCAL = LocalSGD(epochs=1, batch=64, lr=0.1)
WORDS = {"sms-synthetic": 200, "sms": 500}  # of the bag of words
EVALUATORS: dict[str, dict] = {"ours": {}, "as printed": {"literal": True}}
LOOKS = (20, 50, 100)  # rounds of a retraining at which the model is tested
CURVE = (20, 50, 100, 200, 500, 1000)  # of a training
REMOVED = 0.3
NOISE_ROUNDS, MANY_ROUNDS = 300, 200  # instead of the 1,000 of the paper
DEGREES = {"20 % of the words": 0.2, "80 % of the words": 0.8}


PROTOCOL = {
    "data": ("SMS Spam, 5,572 messages, 5,000 of them with clients", "5,574, 4,430 with clients"),
    "clients, sizes": ("50, Dirichlet, concentration not given", "50, Dirichlet(0.5), at least 5"),
    "input": ("token numbers, 150 columns", "bag of 500 words"),
    "model, rate": ("logistic regression, 0.1", "the same"),
    "local work": ("not given", "1 epoch, batches of 64"),
    "evaluator": ("4 layers, widths not given, Adam 1e-5", "64-32-16-1; as printed, and ours"),
    "judged on": ("the server's 572 validation messages", "572 others"),
    "repetitions": ("5, mean shown", "3 seeds, interval"),
}
TEST = {
    "rounds": ("1,000; of the retraining not given", "1,000; 100 of the retraining"),
    "leave-one-out": ("50 rounds, by which metric not given", "50 rounds, validation loss"),
    "removed": ("30 % of the updates a round", "the same; leave-one-out: 30 % of the clients"),
}
CLEAN = TEST | {"corrupted": ("nobody", "nobody")}
NOISE = TEST | {
    "corrupted": ("20 % of the messages lose 20 % of their words", "all messages of 10 clients"),
    "rounds": ("1,000; of the retraining not given", "300; 100 of the retraining"),
    "stronger": ("nothing", "the same clients lose 80 % of their words"),
}
MANY = {
    "clients, sizes": ("50 to 500", "50, 200, 500; at least 5, 2 and 2 messages"),
    "rounds": ("1,000", "200; 100 of the retraining"),
    "evaluator": ("4 layers, widths not given, Adam 1e-5", "64-32-16-1, our defaults"),
}
SIZE = {"rounds": ("trained, then 50", "1,000, then 50"), "corrupted": ("nobody", "nobody")}
BILL = {
    "data": ("SMS Spam", "synthetic messages, 4,430 with clients"),
    "input": ("token numbers, 150 columns", "bag of 200 words"),
    "clients, sizes": ("100 to 500", "100 to 500, Dirichlet(0.5), at least 2"),
    "rounds": ("F-RCCE 1,000, leave-one-out 50", "measured over 50 and 1, scaled to these"),
    "evaluator": ("4 layers, widths not given, Adam 1e-5", "64-32-16-1, our defaults"),
    "time": ("seconds, machine not given", "CPU seconds on one thread"),
}


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
        kept = {"highest": order[: len(order) - cut], "lowest": order[cut:], "nobody": order}
        weights = torch.zeros_like(worth, dtype=round.updates.dtype)
        weights[kept[self.end]] = 1 / len(kept[self.end])
        self.record(round, weights, worth)
        return round.theta + weights @ round.updates


def fixed(evaluator: FRCCE, round: Round) -> Tensor:
    """Selection probabilities [m] by an evaluator that learns no more."""
    rows = scaled(round.updates[:, -evaluator.read :], evaluator.scaling)
    return evaluator.policy.logits(rows).detach().sigmoid()


def fixed_scores(scores: Tensor, round: Round) -> Tensor:
    """Scores [m] of a round's clients that are the same in every round."""
    return scores[round.clients]


def messages(seed: int, clients: int = 50, source: str = "sms", **given: object) -> Federation:
    """The federation of a study: text messages, nobody corrupted unless asked for."""
    data = load(source, vocabulary=WORDS[source], dtype=torch.float64)
    floor = 5 if clients <= 50 else 2
    given = {"share": 0.0, **given}
    return spam(data, clients=clients, floor=floor, seed=seed, **given)  # type: ignore[arg-type]


def removal_rows(
    seed: int,
    fed: Federation,
    names: tuple[str, ...],
    note: str = "",
    plain: int = LOOKS[-1],
    trained: int = CURVE[-1],
) -> Rows:
    """Train evaluators and leave-one-out, then retrain without the highest and the lowest.

    names  of the evaluators; note  what is appended to variants; plain, trained  rounds
    of FedAvg and of the evaluators
    """
    net = logistic(fed.x.shape[1], 2)
    values: dict[str, Callable[[Round], Tensor]] = {}
    rule = FedAvg(weighting="uniform")
    histories = {"FedAvg": train(fed, net, rule, rounds=plain, local=LOCAL, seed=seed)}
    for name in names:
        rule = FRCCE(**EVALUATORS[name])
        history = train(fed, net, rule, rounds=trained, local=LOCAL, seed=seed)
        histories[f"{name}, while training"] = history
        values[name] = partial(fixed, history.strategy)
        if fed.corrupted:
            auc = detection_auc(history.scores[-1], fed.corrupted)
            yield f"{name}, while training{note}", "AUC", auc
    loo = leave_one_out(retraining_game(fed, net, 50, LOCAL, "loss", seed)).values
    values["leave-one-out"] = partial(fixed_scores, loo)
    if fed.corrupted:
        yield f"leave-one-out{note}", "AUC", detection_auc(loo, fed.corrupted)
    for name, history in histories.items():
        for t in (t for t in CURVE if t < len(history.accuracy)):
            yield f"{name}{note}", f"test accuracy @ {t}", float(history.accuracy[t])
            yield f"{name}{note}", f"test loss @ {t}", float(history.loss[t])
    for name, value in values.items():
        for end in ("highest", "lowest"):
            rule = Removal(value=value, end=end)
            history = train(fed, net, rule, rounds=LOOKS[-1], local=LOCAL, seed=seed)
            for t in LOOKS:
                variant = f"{name}, {end} removed{note}"
                yield variant, f"test accuracy @ {t}", float(history.accuracy[t])
                yield variant, f"test loss @ {t}", float(history.loss[t])


def clean_rows(seed: int) -> Rows:
    """Fig. 2a: nobody is corrupted."""
    yield from removal_rows(seed, messages(seed), tuple(EVALUATORS), plain=CURVE[-1])


def noise_rows(seed: int) -> Rows:
    """Fig. 2b: a fifth of the clients lose a fifth of the words of all messages; then four."""
    for name, share in DEGREES.items():
        fed = messages(seed, share=0.2, corrupt=delete_words(share))
        evaluators = tuple(EVALUATORS) if share < 0.5 else ("ours",)
        yield from removal_rows(seed, fed, evaluators, f"; {name}", trained=NOISE_ROUNDS)


def clients_rows(seed: int) -> Rows:
    """Fig. 2c: the same messages over more clients."""
    for K in (50, 200, 500):
        fed = messages(seed, clients=K)
        net = logistic(fed.x.shape[1], 2)
        trained = train(fed, net, FRCCE(), rounds=MANY_ROUNDS, local=LOCAL, seed=seed)
        value = partial(fixed, trained.strategy)
        for end in ("nobody", "highest", "lowest"):
            rule = Removal(value=value, end=end)
            history = train(fed, net, rule, rounds=LOOKS[-1], local=LOCAL, seed=seed)
            for t in LOOKS:
                yield f"{K} clients, {end} removed", f"test accuracy @ {t}", history.accuracy[t]
                yield f"{K} clients, {end} removed", f"test loss @ {t}", history.loss[t]


def size_rows(seed: int) -> Rows:
    """Fig. 2d: contribution by a fixed evaluator over 50 rounds against the number of samples."""
    fed = messages(seed)
    net = logistic(fed.x.shape[1], 2)
    rules = {name: FRCCE(**options) for name, options in EVALUATORS.items()}
    rules["ours, mean weighted by size"] = FRCCE(weighting="size")
    for name, rule in rules.items():
        trained = train(fed, net, rule, rounds=1000, local=LOCAL, seed=seed)
        again = Removal(value=partial(fixed, trained.strategy))
        history = train(fed, net, again, rounds=50, local=LOCAL, seed=seed)
        yield name, "rank correlation", spearman(history.scores[-1], fed.sizes)
        yield name, "rank correlation, while training", spearman(trained.scores[-1], fed.sizes)


def bill_rows(seed: int) -> Rows:
    """Table 1: work counted exactly, seconds measured, 100 to 500 clients in turns."""
    feds = {K: messages(seed, K, "sms-synthetic") for K in (100, 200, 300, 400, 500)}
    net = logistic(WORDS["sms-synthetic"], 2)
    taken: dict[int, list[float]] = {K: [] for K in feds}
    for _ in range(5):
        for K, fed in feds.items():
            start = time.process_time()
            one = train(fed, net, FRCCE(), rounds=10, local=LOCAL, seed=seed)
            taken[K].append((time.process_time() - start) / 10)
            assert one.cost.client_epochs == 10 * K
    for K, fed in feds.items():
        all_of_them, passes = len(fed.y), retraining_game(fed, net, 50, LOCAL, "loss", seed)
        leave_one_out_epochs = passes.client_epochs * K**2  # everybody, then K times K - 1
        yield f"{K} clients", "client epochs, F-RCCE", 1000.0 * K
        yield f"{K} clients", "client epochs, leave-one-out", leave_one_out_epochs
        yield f"{K} clients", "messages a round, F-RCCE", all_of_them
        yield f"{K} clients", "messages a round, leave-one-out", float(K * all_of_them)
        yield f"{K} clients", "seconds, F-RCCE", 1000 * float(torch.tensor(taken[K]).median())
    for K in (100, 500):
        start = time.process_time()
        leave_one_out(retraining_game(feds[K], net, 1, LOCAL, "loss", seed))
        yield f"{K} clients", "seconds, leave-one-out", 50 * (time.process_time() - start)


def _shorter(results: Results, variant: str) -> tuple[str, str]:
    ours, theirs = (
        results.values(f"seconds, {name}", variant) for name in ("F-RCCE", "leave-one-out")
    )
    found = interval(ours / theirs)
    return (HOLDS if found.below(1) else FAILS if found.above(1) else "not shown"), str(found)


def alike(metric: str, a: str, b: str) -> Callable[[Results], tuple[str, str]]:
    """The paper sees no difference: the paired interval holds zero."""

    def test(results: Results) -> tuple[str, str]:
        found = results.paired(metric, a, b)
        return (FAILS if found.above(0) or found.below(0) else HOLDS), str(found)

    return test


def ratio(metric: str, low: float, high: float) -> Callable[[Results], tuple[str, str]]:
    """A metric of 500 clients over that of 100 lies between two bounds."""

    def test(results: Results) -> tuple[str, str]:
        found = growth(results, metric)
        if found.low > low and found.high < high:
            return HOLDS, str(found)
        return (FAILS if found.above(high) or found.below(low) else "not shown"), str(found)

    return test


def growth(results: Results, metric: str) -> Interval:
    """How many times as much 500 clients cost as 100, seed by seed."""
    return interval(results.values(metric, "500 clients") / results.values(metric, "100 clients"))


def removal_claims(name: str, note: str = "", paper: bool = True) -> tuple[Claim, ...]:
    """What the paper says of removing the highest and the lowest, for one evaluator."""
    at, plain = "test accuracy @ 50", f"FedAvg{note}"
    worse, better = f"{name}, highest removed{note}", f"{name}, lowest removed{note}"
    said = f"{name}{note}: after 50 rounds accuracy is"
    return (
        Claim(f"{said} lower without the highest than with all", higher(at, plain, worse), paper),
        Claim(f"{said} higher without the lowest than with all", higher(at, better, plain), paper),
        Claim(
            f"{said} higher without the lowest than without the highest",
            higher(at, better, worse),
            paper,
        ),
    )


def loo_claim(note: str = "") -> Claim:
    pair = (f"leave-one-out, {end} removed{note}" for end in ("lowest", "highest"))
    return Claim(
        f"leave-one-out{note}: no difference between removing the highest and the lowest",
        alike("test accuracy @ 50", *pair),
    )


def removal_figure(results: Results) -> Figure:
    """Test accuracy after 50 rounds of each removal, minus FedAvg's on the same messages."""
    at = "test accuracy @ 50"
    shown = [v for v in results.variants if "removed" in v]
    plain = {v: results.values(at, "FedAvg" + "".join(v.partition(";")[1:])) for v in shown}
    return plots.dots(
        {v: results.values(at, v) - plain[v] for v in shown},
        xlabel="accuracy after 50 rounds, minus FedAvg's",
        reference={"FedAvg": 0.0},
    )


def clients_figure(results: Results) -> Figure:
    """Test accuracy after 50 rounds without the highest and the lowest, by number of clients."""
    at, rows = "test accuracy @ 50", {}
    for K in (50, 200, 500):
        for end in ("highest", "lowest"):
            with_all = results.values(at, f"{K} clients, nobody removed")
            rows[f"{K} clients, {end} removed"] = (
                results.values(at, f"{K} clients, {end} removed") - with_all
            )
    told = "accuracy after 50 rounds, minus that with all"
    return plots.dots(rows, xlabel=told, reference={"nobody removed": 0.0})


def size_figure(results: Results) -> Figure:
    """Rank correlation of score and number of messages."""
    rows = {name: results.values("rank correlation", name) for name in results.variants}
    told = "rank correlation with the number of messages"
    return plots.dots(rows, xlabel=told, reference={"none": 0.0})


def bill_figure(results: Results) -> Figure:
    """Time of 500 clients over that of 100, ours beside the paper's."""
    rows = {}
    for name in ("F-RCCE", "leave-one-out"):
        metric = f"seconds, {name}"
        more, few = (results.values(metric, f"{K} clients") for K in (500, 100))
        rows[name] = more / few
    paper = {"paper": 66.9 / 62.6, "paper: 4.6": 1135.9 / 249.5}
    return plots.dots(rows, xlabel="time for 500 clients over that for 100", reference=paper)


WORDS_20, WORDS_80 = (f"; {name}" for name in DEGREES)
STUDIES = (
    Study(
        name="frcce-removal",
        item="F-RCCE, Fig. 2a: clean data, removal of updates",
        says="Training with the evaluator converges as FedAvg does. Without the 30 % of the "
        "updates that a fixed evaluator values highest it converges more slowly, without the "
        "lowest 30 % slightly better; for leave-one-out there is no significant difference.",
        protocol=PROTOCOL | CLEAN,
        rows=clean_rows,
        claims=(
            *(
                Claim(
                    f"{name}: accuracy after 1,000 rounds is within 0.01 of FedAvg's",
                    within(
                        "test accuracy @ 1000", -0.01, 0.01, f"{name}, while training", "FedAvg"
                    ),
                    name != "ours",
                )
                for name in EVALUATORS
            ),
            *removal_claims("as printed"),
            *removal_claims("ours", paper=False),
            loo_claim(),
        ),
        figure=removal_figure,
        seeds=3,
    ),
    Study(
        name="frcce-noise",
        item="F-RCCE, Fig. 2b: words deleted",
        says="With 20 % of the messages lacking 20 % of their words, leave-one-out again fails to "
        "tell highest from lowest; F-RCCE is more sensitive than on clean data.",
        protocol=PROTOCOL | NOISE,
        rows=noise_rows,
        claims=(
            *removal_claims("as printed", WORDS_20),
            *removal_claims("ours", WORDS_20, paper=False),
            loo_claim(WORDS_20),
            Claim(
                "as printed: finds the clients that lack 20 % of the words (AUC above .5)",
                beyond("AUC", f"as printed, while training{WORDS_20}", 0.5),
            ),
            *(
                Claim(
                    f"ours: finds the clients that lack {name} (AUC above .5)",
                    beyond("AUC", f"ours, while training; {name}", 0.5),
                    paper=False,
                )
                for name in DEGREES
            ),
        ),
        figure=removal_figure,
        seeds=3,
    ),
    Study(
        name="frcce-clients",
        item="F-RCCE, Fig. 2c: 50 to 500 clients",
        says="Removing the highest always degrades; removing the lowest sometimes helps and "
        "sometimes harms; accuracy shows no trend with the number of clients.",
        protocol=PROTOCOL | MANY,
        rows=clients_rows,
        claims=(
            *(
                Claim(
                    f"{K} clients: accuracy is lower without the highest than with all",
                    higher(
                        "test accuracy @ 50",
                        f"{K} clients, nobody removed",
                        f"{K} clients, highest removed",
                    ),
                )
                for K in (50, 200, 500)
            ),
            Claim(
                "with all updates accuracy is the same for 500 as for 50 clients",
                alike(
                    "test accuracy @ 50",
                    "500 clients, nobody removed",
                    "50 clients, nobody removed",
                ),
            ),
        ),
        figure=clients_figure,
        seeds=3,
    ),
    Study(
        name="frcce-size",
        item="F-RCCE, Fig. 2d: contribution against samples",
        says="The contribution rises with the number of clean samples.",
        protocol=PROTOCOL | SIZE,
        rows=size_rows,
        claims=(
            Claim(
                "as printed: contribution rises with the number of messages",
                beyond("rank correlation", "as printed", 0.0),
            ),
            Claim(
                "ours: contribution rises with the number of messages",
                beyond("rank correlation", "ours", 0.0),
                paper=False,
            ),
            *(
                Claim(
                    f"ours: less so where the mean is weighted by size{note}",
                    higher(f"rank correlation{note}", "ours", "ours, mean weighted by size"),
                    paper=False,
                )
                for note in ("", ", while training")
            ),
        ),
        figure=size_figure,
        seeds=3,
    ),
    Study(
        name="frcce-bill",
        item="F-RCCE, Table 1: time for 100 to 500 clients",
        says="From 100 to 500 clients F-RCCE's time grows by 6 % (62.6 to 66.9 s, so 7 %), that of "
        "leave-one-out almost linearly (249.5 to 1,135.9 s).",
        protocol=PROTOCOL | BILL,
        rows=bill_rows,
        claims=(
            Claim(
                "500 clients take F-RCCE at most 1.1 times as long as 100",
                ratio("seconds, F-RCCE", 0, 1.1),
            ),
            Claim(
                "500 clients take leave-one-out 4 to 6 times as long as 100",
                ratio("seconds, leave-one-out", 4, 6),
            ),
            Claim(
                "F-RCCE in 1,000 rounds takes less time than leave-one-out in 50, 500 clients",
                lambda results: _shorter(results, "500 clients"),
            ),
        ),
        figure=bill_figure,
        seeds=3,
    ),
)
