"""F-RCCE's own figures and table: protocols, pictures, the paper's sentences and chapter 5's.

[zhao2021efficient, Section 3]. Below: frcce_paper, which makes the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from matplotlib.figure import Figure

from fedlab_mini.judge.evidence import Interval, interval
from fedlab_mini.show import plots

from .frcce_paper import (
    DEGREES,
    EVALUATORS,
    PAPER_GROWTH,
    RIVALS,
    bill_rows,
    clean_rows,
    clients_rows,
    noise_rows,
    size_rows,
)
from .study import (
    Claim,
    Results,
    Study,
    Test,
    alike,
    beyond,
    bounded,
    covers,
    higher,
    lower,
    within,
)

PROTOCOL = {
    "data": ("SMS Spam, 5,572 messages, 5,000 of them with clients", "5,574, 4,430 with clients"),
    "clients, sizes": ("50, Dirichlet, concentration not given", "50, Dirichlet(0.5), at least 5"),
    "input": ("token numbers, 150 columns", "bag of 500 words"),
    "model, rate": ("logistic regression, 0.1", "the same"),
    "local work": ("not given", "1 epoch, batches of 64"),
    "evaluator": ("4 layers, widths not given, Adam 1e-5", "64-32-16-1; as printed, and ours"),
    "judged on": ("the server's 572 validation messages", "572 others"),
    "repetitions": ("5, mean shown", "5 seeds, interval"),
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


def shorter(results: Results) -> Interval:
    """F-RCCE's seconds over those of leave-one-out, 500 clients."""
    ours, theirs = (results.values(f"seconds, {n}", "500 clients") for n in RIVALS)
    return interval(ours / theirs)


def ratio(metric: str, low: float = 0.0, high: float = math.inf) -> Test:
    """A metric of 500 clients over that of 100 lies between two bounds."""
    return bounded(lambda results: growth(results, metric), low, high)


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
    for name in RIVALS:
        metric = f"seconds, {name}"
        more, few = (results.values(metric, f"{K} clients") for K in (500, 100))
        rows[name] = more / few
    paper = {"paper": PAPER_GROWTH, "paper: 4.6": 1135.9 / 249.5}
    return plots.dots(rows, xlabel="time for 500 clients over that for 100", reference=paper)


def removal_reads(note: str = "") -> Iterator[Claim]:
    """What chapter 5 says of the two ends, evaluator by evaluator."""
    at = "test accuracy @ 50"
    for name, short in {"ours": "ours", "leave-one-out": "loo", "as printed": "printed"}.items():
        ends = (f"{name}, {end} removed{note}" for end in ("lowest", "highest"))
        test = (alike if short == "printed" else higher)(at, *ends)
        key = f"apart_{short}{'_noise' if note else ''}"
        yield Claim(f"{name}{note}: lowest minus highest removed", test, key=key)


def clean_reads() -> Iterator[Claim]:
    """What chapter 5 says of each end beside FedAvg, nobody corrupted."""
    for end, key, test in (("highest", "worse", lower), ("lowest", "better", higher)):
        found = test("test accuracy @ 50", f"ours, {end} removed", "FedAvg")
        yield Claim(f"ours, {end} removed, minus FedAvg", found, key=key)
    yield from removal_reads()


def size_reads() -> Iterator[Claim]:
    """What chapter 5 says of contribution and size."""
    rank, ours, weighted = "rank correlation", "ours", "ours, mean weighted by size"
    yield Claim("ours: it rises with the number of messages", beyond(rank, ours, 0))
    yield Claim("as printed: that is not shown", covers(rank, "as printed", 0))
    live = higher(f"{rank}, while training", ours, weighted)
    yield Claim("while training the plain mean adds to it", live, key="size_live")
    yield Claim("with a fixed evaluator that is not shown", alike(rank, ours, weighted))


def bill_reads() -> Iterator[Claim]:
    """What chapter 5 says of seconds."""
    grown = ratio("seconds, F-RCCE", PAPER_GROWTH)
    yield Claim("F-RCCE's time grows more than in the paper", grown, key="growth")
    grown = ratio("seconds, leave-one-out", 4)
    yield Claim("leave-one-out's more than fourfold", grown, key="growth_loo")
    yield Claim("F-RCCE takes less than half as long", bounded(shorter, high=0.5), key="ratio")


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
        reads=tuple(clean_reads()),
        figure=removal_figure,
        seeds=5,
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
        reads=tuple(removal_reads(WORDS_20)),
        figure=removal_figure,
        seeds=5,
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
        seeds=5,
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
        reads=tuple(size_reads()),
        figure=size_figure,
        seeds=5,
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
                bounded(shorter, high=1),
            ),
        ),
        reads=tuple(bill_reads()),
        figure=bill_figure,
        seeds=5,
    ),
)
