"""CGSV's claims, figures and protocols: what the text says, and what chapter 4 says.

[cgsvaggregation]. Below: cgsv, which makes the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from matplotlib.figure import Figure

from fedlab_mini.show import plots

from .cgsv import (
    GAMMAS,
    MEDIAN,
    RARE,
    RAW,
    SPLITS,
    STEPS,
    UNIT,
    ablation,
    ablation_mnist5k,
    gammas,
    odd_clients,
    odd_clients_mnist5k,
    steps,
)
from .study import Claim, Results, Study, Test, alike, beyond, higher, lower, not_above, within


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


def no_gain(metric: str, a: str, b: str) -> Test:
    """It is not shown that a is above b."""
    return not_above(lambda results: results.paired(metric, a, b))


def steps_reads() -> Iterator[Claim]:
    """What chapter 4 says of the step's length."""
    rank, early = "ranks quality", "accuracy, round 20"
    for source in ("digits", "mnist5k"):
        one, three, short = (f"{name}; {source}" for name in ("1 (printed)", "3", "0.1"))
        length = beyond("step in lengths", one, 0)
        yield Claim(f"{source}: a step of 1 in updates", length, key=f"lengths_{source}")
        yield Claim(f"{source}: a short step ranks best", higher(rank, short, one))
        yield Claim(f"{source}: with 3 the ranking is lost", higher(rank, one, three, by=0.2))
        yield Claim(f"{source}: a short step learns more slowly", higher(early, one, short))
    gap = (f"{MEDIAN}; digits", "1 (printed); digits")
    yield Claim("digits: ours ranks better than 1", higher(rank, *gap, by=0.1))
    gap = (f"{MEDIAN}; mnist5k", "1 (printed); mnist5k")
    yield Claim("MNIST: they differ by less than .1", within(rank, -0.1, 0.1, *gap))


def ablation_reads() -> Iterator[Claim]:
    """What chapter 4 says of digits: ranking and gain, split by split."""
    ours, fair = "CGSV", "equal weights, same step"
    printed, equal = "CGSV as printed", "equal weights, printed step"
    at, rank = "accuracy", "ranks quality"
    pays = higher(at, f"{ours}; alike", f"{fair}; alike")
    yield Claim("alike: our weights gain", pays, key="pays")
    harm = lower(at, f"{ours}; Dirichlet 0.1", f"{fair}; Dirichlet 0.1")
    yield Claim("Dirichlet 0.1: our weights lose", harm, key="harm")
    open_ = alike(at, f"{printed}; alike", f"{equal}; alike")
    yield Claim("alike: a gain of the printed weights is not shown", open_)
    half = f"{ours}; Dirichlet 0.5", f"{fair}; Dirichlet 0.5"
    yield Claim("Dirichlet 0.5: a gain at the end is not shown", no_gain(at, *half))
    yield Claim("Dirichlet 0.5: our weights rank", beyond(rank, half[0], 0.5))
    yield Claim("Dirichlet 0.5: they learn more slowly", lower("accuracy, round 20", *half))
    unseen = not_above(lambda results: results.interval(rank, f"{printed}; Dirichlet 0.5"))
    yield Claim("Dirichlet 0.5: a ranking of the printed ones is not shown", unseen)
    wrong = within(rank, -1, 0, f"{printed}; Dirichlet 0.1")
    yield Claim("Dirichlet 0.1: the printed ones rank the wrong way round", wrong)


def mnist_reads() -> Iterator[Claim]:
    """What chapter 4 says of MNIST."""
    fair = "equal weights, same step"
    for key, rule in {"ours": "CGSV", "printed": "CGSV as printed"}.items():
        ranks = beyond("ranks quality", f"{rule}; Dirichlet 0.5", 0.5)
        yield Claim(f"{rule}: weights rank at Dirichlet 0.5", ranks, key=f"mnist_{key}")
    lead = higher("accuracy, round 20", "CGSV; alike", f"{fair}; alike")
    yield Claim("alike: they lead at round 20", lead, key="mnist_lead")
    for split in SPLITS:
        end = alike("accuracy", f"CGSV; {split}", f"{fair}; {split}")
        yield Claim(f"{split}: at the end no difference is shown", end)


def gammas_reads() -> Iterator[Claim]:
    """What chapter 4 says of gamma_0."""
    for rule in ("CGSV", "CGSV as printed"):
        at = {g: f"{rule}, gamma_0 = {g:g}" for g in GAMMAS}
        for g in (0.0, 0.5, 0.9):
            yield Claim(f"{rule}: no gain of {g:g} over 1", no_gain("accuracy", at[g], at[1.0]))
        steady = no_gain("change per round", at[0.95], at[0.0])
        yield Claim(f"{rule}: 0 is not steadier than .95", steady)
    better = higher("ranks quality", "CGSV, gamma_0 = 0.5", "CGSV, gamma_0 = 0.95")
    yield Claim("CGSV: weights at 0.5 rank better than at 0.95", better)


def odd_reads() -> Iterator[Claim]:
    """What chapter 4 says of nines and of an echo."""
    recall = beyond("recall of nines", "FedAvg", 0.3)
    yield Claim("FedAvg finds nines", recall, key="nines")
    for name in (UNIT, RAW, "CGSV"):
        yield Claim(f"{name}: hardly any", within("recall of nines", -1, 0.1, name))
        fewer = higher("recall of nines", "FedAvg", name, by=0.3)
        yield Claim(f"{name}: many fewer than FedAvg", fewer)
    echo = beyond("weight in honest clients", "echo", 1)
    yield Claim("an echo earns more than an honest client", echo, key="echo")
    most = within("weight in honest clients", -10, 1, RARE)
    yield Claim("the client with nines weighs less than others", most)


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
    reads=tuple(ablation_reads()),
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
    reads=tuple(gammas_reads()),
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
    reads=tuple(odd_reads()),
    seeds=10,
)
STEP = Study(
    name="cgsv-steps",
    item="CGSV aggregation: the length of the server's step",
    says="The model is moved by U, whose length is at most 1.",
    protocol=PROTOCOL | {"data": ("not given", "digits; MNIST, 3,000 images")},
    rows=steps,
    claims=tuple(steps_claims()),
    reads=tuple(steps_reads()),
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
            reads=reads,
            seeds=5,
        )
        for study, rows, reads in (
            (ABLATION, ablation_mnist5k, tuple(mnist_reads())),
            (ODD, odd_clients_mnist5k, ()),
        )
    ),
)
