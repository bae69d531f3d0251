"""S-FedAvg: does selection happen, what does it gain, and what does its relevance know?

[nagalapatti2021game, Figs. 1, 3 and 4]; chapter 8 reads these results. Above: labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.engine.history import History
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import Model, mlp
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.engine.train import train
from fedlab_mini.judge.evidence import paired
from fedlab_mini.judge.metrics import detection_auc
from fedlab_mini.methods.sfedavg import SFedAvg
from fedlab_mini.show import plots
from fedlab_mini.streams import stream
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation
from fedlab_mini.worlds.partition import iid, sorted_shards
from fedlab_mini.worlds.scenarios import irrelevant_digits

from .claims import beyond, bounded, higher, ours, within
from .protocols import study
from .study import HOLDS, NOT_SHOWN, Claim, Measure, Results, Row

ROUNDS, HALF, M, RELEVANT, IRRELEVANT = 100, 50, 5, 6, 4
SPLITS = {"IID": iid(), "1 class": sorted_shards(1)}
# The rate is higher than the paper's: a client has a small part of its samples.
LOCAL = LocalSGD(epochs=5, batch=32, lr=0.05, decay=0.995, decay_every=20)
TEMPERATURES = {"T = 1 (printed)": 1.0, "T = 0.1": 0.1, "T = 0.02": 0.02, "T = 0.005": 0.005}
WARM, COLD, COLDEST = (f"S-FedAvg, T = {T}" for T in ("1 (printed)", "0.02", "0.005"))
PRECISE, ORDERS = "exact values", "ten orders"
VALUES: dict[str, dict] = {
    PRECISE: {},
    ORDERS: {"exact": False},
    "exact, nobody worth 0": {"exact": True, "empty": "zero"},
    "ten orders, nobody worth 0": {"exact": False, "empty": "zero"},
    "Algorithm 2 as printed": {"literal": True},
}
SIZES = (15, 60)  # of the validation set
FEDS = {"relevant data": 0, "irrelevant data": IRRELEVANT}  # Fig. 4
SHARE, RESTLESS = "relevant share", "change per round"


@dataclass(eq=False, kw_only=True)
class Oracle(SFedAvg):
    """Draws from those who are relevant in truth, and from nobody else."""

    pool: tuple[int, ...] = ()

    def select(self, t: int) -> Tensor:
        """Ids [m] drawn from the pool, all alike."""
        pool, generator = torch.tensor(self.pool), stream(self.server.seed, "oracle", t)
        return pool[torch.randperm(len(pool), generator=generator)[: self.m]].sort().values


@dataclass(eq=False, kw_only=True)
class Bandit(SFedAvg):
    """Upper confidence bound on S-FedAvg's relevance: phi_k + s sqrt(2 ln t / n_k), the m largest.

    n_k counts a client's rounds, s is a moving average of the spread of a round's values
    [Auer et al. 2002]
    """

    def start(self, server: Server) -> None:
        """Forget everything."""
        super().start(server)
        self.asked, self.spread = torch.zeros(server.clients), 1.0

    def select(self, t: int) -> Tensor:
        """Ids [m] of the largest bounds; at random first, then whoever was never asked."""
        bound = self.phi + self.spread * (2 * math.log(t) / self.asked).sqrt()
        # In round 1 the bound is 0/0; afterwards it is infinite for clients never asked.
        if not self.asked.any():
            bound = torch.rand(len(bound), generator=stream(self.server.seed, "bandit"))
        return bound.topk(self.m or len(bound)).indices.sort().values

    def aggregate(self, round: Round) -> Tensor:
        """As S-FedAvg; then count, and look how far values are apart."""
        theta = super().aggregate(round)
        spread = float(self.values[round.clients].std())
        self.spread = spread if not self.asked.any() else 0.75 * self.spread + 0.25 * spread
        self.asked[round.clients] += 1
        return theta


@dataclass(eq=False, kw_only=True)
class Watched(SFedAvg):
    """S-FedAvg that keeps the class relevances of every round, ``seen`` [K, classes] each."""

    def start(self, server: Server) -> None:
        """Forget everything."""
        super().start(server)
        self.seen: list[Tensor] = []

    def aggregate(self, round: Round) -> Tensor:
        """As S-FedAvg; then note the class relevances."""
        theta = super().aggregate(round)
        self.seen.append(self.class_scores.clone())
        return theta


def uniform(**options: object) -> SFedAvg:
    """FedAvg that also keeps phi: at an infinite temperature all clients are drawn alike."""
    return SFedAvg(M, temperature=math.inf, **options)  # type: ignore[arg-type]


def setting() -> tuple[Dataset, Model, LocalSGD]:
    """Data, network, local work."""
    return load("digits", dtype=torch.float64), mlp(64, 32, 5), LOCAL


def sound(fed: Federation) -> list[int]:
    """Ids of the relevant clients."""
    return [k for k in range(fed.clients) if k not in fed.corrupted]


def late_auc(history: History, irrelevant: list[int]) -> float:
    """How well relevance finds the clients: AUC, mean over every fifth round of the second half."""
    areas = [detection_auc(phi, irrelevant) for phi in history.scores[HALF - 1 :: 5]]
    return sum(areas) / len(areas)


def left(fed: Federation, history: History, every: int = 10) -> Iterator[tuple[str, float]]:
    """What a training leaves: accuracy, restlessness, who was asked, and what relevance says."""
    for t in range(every, ROUNDS + 1, every):
        yield f"accuracy @ {t}", float(history.accuracy[t - every + 1 : t + 1].mean())
    yield "accuracy", float(history.accuracy[HALF + 1 :].mean())
    yield RESTLESS, float(history.accuracy[HALF:].diff().abs().mean())
    if fed.corrupted:
        relevant, irrelevant = sound(fed), sorted(fed.corrupted)
        # The second half: relevance needs rounds to form.
        asked, phi = history.selected[HALF:].double(), history.scores[HALF:].mean(0)
        yield SHARE, float(asked[:, relevant].sum() / asked.sum())
        # An oracle asks relevant clients alone: the others have nothing to compare.
        if not isinstance(history.strategy, Oracle):
            yield "AUC", late_auc(history, irrelevant)
            yield "relevance gap", float(phi[relevant].mean() - phi[irrelevant].mean())


def selection(seed: int) -> Iterator[Row]:
    """Figs. 1 and 3: without irrelevant clients; FedAvg; temperatures; a bandit; an oracle."""
    data, net, local = setting()
    for name, split in SPLITS.items():
        clean = irrelevant_digits(data, RELEVANT + IRRELEVANT, 0, split=split, seed=seed)
        fed = irrelevant_digits(data, RELEVANT, IRRELEVANT, split=split, seed=seed)
        rules: dict[str, SFedAvg] = {
            "FedAvg, 10 relevant": uniform(),
            "FedAvg": uniform(),
            **{f"S-FedAvg, {n}": SFedAvg(M, temperature=T) for n, T in TEMPERATURES.items()},
            "bandit": Bandit(M),
            "oracle": Oracle(M, pool=tuple(sound(fed))),
        }
        for rule, strategy in rules.items():
            federated = clean if "10" in rule else fed
            history = train(federated, net, strategy, rounds=ROUNDS, local=local, seed=seed)
            yield from ((f"{rule}; {name}", *row) for row in left(federated, history))


def mnist_rows(seed: int) -> Iterator[Row]:
    """Figs. 1 and 3 on MNIST with the paper's network, rate and split."""
    data = load("mnist")
    fed = irrelevant_digits(data, RELEVANT, IRRELEVANT, validation=1_000, test=4_000, seed=seed)
    net, local = mlp(784, 200, 200, 5), replace(LOCAL, lr=0.01)
    rules = {
        "FedAvg": uniform(),
        WARM: SFedAvg(M, temperature=1.0),
        COLD: SFedAvg(M, temperature=0.02),
    }
    for rule, strategy in rules.items():
        history = train(fed, net, strategy, rounds=ROUNDS, local=local, seed=seed)
        yield from ((rule, *row) for row in left(fed, history))


def values(seed: int) -> Iterator[Row]:
    """What the relevance knows under uniform draws: by estimator, work, validation set and kind."""
    data, net, local = setting()
    few = replace(local, steps=5, lr=0.01)
    for name, split in SPLITS.items():
        fed = irrelevant_digits(data, RELEVANT, IRRELEVANT, split=split, seed=seed)
        irrelevant, (x, y) = sorted(fed.corrupted), fed.validation
        works = {estimator: (fed, estimator, local) for estimator in VALUES}
        works["five minibatches"] = (fed, PRECISE, few)
        for size in SIZES:
            small = replace(fed, validation=(x[:size], y[:size]))
            works[f"validation {size}"] = (small, PRECISE, local)
        for label, (federated, estimator, work) in works.items():
            rule, variant = uniform(**VALUES[estimator]), f"{label}; {name}"
            history = train(federated, net, rule, rounds=ROUNDS, local=work, seed=seed)
            for t in (25, 50, 100):
                yield variant, f"AUC @ {t}", detection_auc(history.scores[t - 1], irrelevant)
            yield variant, "AUC", late_auc(history, irrelevant)
            if label == PRECISE:
                yield from kinds(fed, history.scores[HALF:].mean(0), name)
            # With selection, too: there a wrong relevance decides who is asked again.
            if label.startswith("validation"):
                cold = train(federated, net, SFedAvg(M), rounds=ROUNDS, local=work, seed=seed)
                yield from ((f"T = 0.02, {variant}", *row) for row in left(federated, cold, ROUNDS))


def kinds(fed: Federation, phi: Tensor, name: str) -> Iterator[Row]:
    """Mean relevance by what a client holds."""
    held = (fed.label_counts > 0).sum(1)
    groups = {"irrelevant": sorted(fed.corrupted)}
    for count in (1, 2, 5):
        kind = f"relevant, {count} class" + "es" * (count > 1)
        groups[kind] = [k for k in sound(fed) if held[k] == count]
    for kind, ids in groups.items():
        if ids:
            yield f"{kind}; {name}", "relevance", float(phi[ids].mean())


def watched(fed: Federation, seed: int) -> tuple[Tensor, History]:
    """The class relevances of a training [T, K, classes], and the training."""
    _, net, local = setting()
    rule = Watched(M, temperature=1.0, by_class=True)
    history = train(fed, net, rule, rounds=ROUNDS, local=local, seed=seed)
    return torch.stack(rule.seen), history


def classes(seed: int) -> Iterator[Row]:
    """Fig. 4: class relevance, with and without irrelevant clients; and one that shouts."""
    data, _, _ = setting()
    for name, irrelevant in FEDS.items():
        fed = irrelevant_digits(data, RELEVANT + IRRELEVANT - irrelevant, irrelevant, seed=seed)
        seen, held = watched(fed, seed)[0], fed.label_counts > 0
        for c in range(fed.classes):
            holds = [k for k in sound(fed) if held[k, c]]
            rest = [k for k in range(fed.clients) if k not in holds]
            for t in range(10, ROUNDS + 1, 10) if c == 1 else ():
                for group, ids in {"holders of 2": holds, "others": rest}.items():
                    relevance = seen[t - 10 : t, ids, c].mean()
                    yield f"{group}; {name}", f"phi_2 @ {t}", float(relevance)
            # Later rounds: class relevances start alike for all.
            late = seen[HALF:, :, c]
            gap = late[:, holds].mean() - late[:, rest].mean()
            areas = [detection_auc(-phi, holds) for phi in late[::5]]
            yield name, f"gap of {2 * c}", float(gap)
            yield name, f"AUC of {2 * c}", sum(areas) / len(areas)
    fed = irrelevant_digits(data, RELEVANT, IRRELEVANT, split=iid(), seed=seed)
    loud, y = min(fed.corrupted), fed.y.clone()
    y[slice(*fed.offsets[loud : loud + 2].tolist())] = 2  # the class of the digit 4
    seen, history = watched(replace(fed, y=y), seed)
    four = seen[HALF:, :, 2].mean(0)
    yield "shouts 4", "place in phi_4", 1.0 + float((four > four[loud]).sum())
    phi = history.scores[HALF:].mean(0)
    yield "shouts 4", "place in phi", 1.0 + float((phi > phi[loud]).sum())


def selection_figure(results: Results) -> Figure:
    """Accuracy of the second half in the paper's split, rule by rule."""
    rows = [variant for variant in results.variants if variant.endswith("; 1 class")]
    shown = {name.removesuffix("; 1 class"): results.values("accuracy", name) for name in rows}
    return plots.dots(shown, xlabel="test accuracy, rounds 51 to 100", ylabel="rule")


def mnist_figure(results: Results) -> Figure:
    """Accuracy against rounds, rule by rule."""
    rounds = [*range(10, ROUNDS + 1, 10)]
    lines = {rule: results.curve("accuracy", rule)[1] for rule in results.variants}
    return plots.panels({"1 class a client": lines}, x=rounds, ylabel="test accuracy")


def values_figure(results: Results) -> Figure:
    """How well the relevance finds irrelevant clients, by estimator and split."""
    shown = [f"{name}; {split}" for split in SPLITS for name in (*VALUES, "five minibatches")]
    rows = {name.replace("; ", ", "): results.values("AUC", name) for name in shown}
    return plots.dots(rows, xlabel="detection AUC", reference={"chance": 0.5})


def classes_figure(results: Results) -> Figure:
    """Relevance for the digit 2 over rounds: who holds twos and who does not."""
    groups, lines = ("holders of 2", "others"), {}
    for name in FEDS:
        curves = {group: results.curve("phi_2", f"{group}; {name}") for group in groups}
        lines[name] = {group: line for group, (_, line) in curves.items()}
        rounds = curves["others"][0]
    return plots.panels(lines, x=rounds, ylabel="relevance for 2")


def selection_claims() -> Iterator[Claim]:
    """The paper's sentences in its own split; ours on temperature, bandit and oracle."""
    for split in ("1 class", "IID"):
        paper = split == "1 class"
        clean, plain, warm, cold, coldest, bandit, oracle = (
            f"{rule}; {split}"
            for rule in ("FedAvg, 10 relevant", "FedAvg", WARM, COLD, COLDEST, "bandit", "oracle")
        )
        for whose, sentence, metric, better, worse in (
            (paper, "irrelevant clients make FedAvg restless", RESTLESS, plain, clean),
            (paper, "and cost it accuracy", "accuracy", clean, plain),
            (paper, "S-FedAvg as printed is steadier", RESTLESS, plain, warm),
            (paper, "and more accurate than FedAvg", "accuracy", warm, plain),
            (False, "at T = 0.02 it is more accurate than FedAvg", "accuracy", cold, plain),
            (False, "and steadier", RESTLESS, plain, cold),
            (False, "at T = 0.005 it is more accurate than at 0.02", "accuracy", coldest, cold),
            (False, "a bandit is more accurate than T = 0.02", "accuracy", bandit, cold),
            (False, "a bandit is more accurate than T = 0.005", "accuracy", bandit, coldest),
            (False, "an oracle is more accurate than a bandit", "accuracy", oracle, bandit),
        ):
            yield Claim(f"{split}: {sentence}", higher(metric, better, worse), whose)
        yield from asked_claims(warm, cold, f"{split}: ", paper)


def asked_claims(warm: str, cold: str, start: str = "", paper: bool = True) -> Iterator[Claim]:
    """What relevance knows of clients, and whom that makes the server ask."""
    gap = beyond("relevance gap", warm, 0.0)
    yield Claim(f"{start}relevant clients have more relevance, as printed", gap, paper)
    yield Claim(f"{start}one by one, too (AUC above .95)", beyond("AUC", warm, 0.95), paper)
    share = within(SHARE, 0.55, 0.65, warm)
    yield ours(f"{start}as printed the share of relevant clients stays at .6", share)
    yield ours(f"{start}at T = 0.02 it is above .75", beyond(SHARE, cold, 0.75))


def mnist_claims() -> Iterator[Claim]:
    """The paper's sentences with its network and rate; ours on temperature."""
    plain, more = "FedAvg", "at T = 0.02 it is more accurate than FedAvg"
    steadier = higher(RESTLESS, plain, WARM)
    yield Claim("S-FedAvg as printed is steadier than FedAvg", steadier, stated=NOT_SHOWN)
    yield Claim("and more accurate", higher("accuracy", WARM, plain))
    yield ours(more, higher("accuracy", COLD, plain), "mnist_gain", HOLDS)
    yield ours("and steadier", higher(RESTLESS, plain, COLD), stated=HOLDS)
    yield from asked_claims(WARM, COLD)


MNIST_READS = (
    ours("as printed a small gain", within("accuracy", 0, 0.03, WARM, "FedAvg"), "mnist_warm"),
    ours("at T = 0.02 nearly all are relevant", beyond(SHARE, COLD, 0.9), "mnist_share"),
    ours("as printed hardly more than by chance", within(SHARE, 0.5, 0.7, WARM), "mnist_all"),
)


def values_claims() -> Iterator[Claim]:
    """What hurts the relevance under uniform draws, and how many validation samples it needs."""
    exact, orders, nobody, orders_0, printed = (f"{name}; IID" for name in VALUES)
    skewed, few = f"{PRECISE}; 1 class", "five minibatches; "
    one, two = (f"relevant, {kind}; 1 class" for kind in ("1 class", "2 classes"))
    yield ours(
        "IID: exact values find irrelevant clients (AUC above .95)", beyond("AUC", exact, 0.95)
    )
    for better, worse, metric in (
        (exact, skewed, "AUC"),
        (orders, orders_0, "AUC"),
        (exact, nobody, "AUC"),
        (exact, printed, "AUC"),
        (skewed, "Algorithm 2 as printed; 1 class", "AUC"),
        (exact, f"{few}IID", "AUC"),
        (skewed, f"{few}1 class", "AUC"),
        (one, "irrelevant; 1 class", "relevance"),
        (two, one, "relevance"),
        *(
            (f"T = 0.02, validation 60; {s}", f"T = 0.02, validation 15; {s}", SHARE)
            for s in SPLITS
        ),
    ):
        sentence = f"{metric} is higher: {better}, than: {worse}"
        yield ours(sentence, higher(metric, better, worse))


def all_digits(results: Results, kind: str, name: str) -> Tensor:
    """A metric of holders against others, mean over the five digits, [seeds]."""
    return torch.stack([results.values(f"{kind} of {d}", name) for d in range(0, 10, 2)]).mean(0)


def more_explicit(kind: str) -> Measure:
    """Without irrelevant clients minus with them."""
    alone, mixed = FEDS
    return lambda found: paired(all_digits(found, kind, alone), all_digits(found, kind, mixed))


def classes_claims() -> Iterator[Claim]:
    """Fig. 4: holders of a class lead in its relevance; more clearly without irrelevant clients."""
    for name in FEDS:
        for digit in range(0, 10, 2):
            gap = beyond(f"gap of {digit}", name, 0.0)
            yield Claim(f"{name}: holders of {digit} lead in its relevance", gap)
    for kind in ("gap", "AUC"):
        sentence = f"with relevant data alone the {kind}, mean of all digits, is larger"
        yield Claim(sentence, bounded(more_explicit(kind), 0))
    first = within("place in phi_4", 0, 2, "shouts 4")
    yield ours("who shouts 4 is among the first two in the relevance for 4", first)
    yield ours("and among the last two in relevance", beyond("place in phi", "shouts 4", 8))


STUDIES = (
    study("sfedavg-selection", selection, selection_claims(), figure=selection_figure),
    study("sfedavg-mnist", mnist_rows, mnist_claims(), MNIST_READS, mnist_figure),
    study("sfedavg-values", values, values_claims(), figure=values_figure),
    study("sfedavg-classes", classes, classes_claims(), figure=classes_figure),
)
