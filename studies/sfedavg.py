"""S-FedAvg at its paper's protocol: does selection happen, and what does it gain?

[nagalapatti2021game, Figs. 1 and 3]; chapter 8 reads these results. Above: sfedavg_values,
label_standardisation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedlab_mini.engine.history import History
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import Model, mlp
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.engine.train import train
from fedlab_mini.judge.metrics import detection_auc
from fedlab_mini.methods.sfedavg import SFedAvg
from fedlab_mini.show import plots
from fedlab_mini.streams import stream
from fedlab_mini.worlds.data import Dataset, load
from fedlab_mini.worlds.federation import Federation
from fedlab_mini.worlds.partition import iid, sorted_shards
from fedlab_mini.worlds.scenarios import irrelevant_digits

from .study import Claim, Results, Row, Study, beyond, higher, within

ROUNDS, HALF, M, RELEVANT, IRRELEVANT = 100, 50, 5, 6, 4
SPLITS = {"IID": iid(), "1 class": sorted_shards(1)}
LOCAL = LocalSGD(epochs=5, batch=32, lr=0.05, decay=0.995, decay_every=20)
TEMPERATURES = {"T = 1 (printed)": 1.0, "T = 0.1": 0.1, "T = 0.02": 0.02, "T = 0.005": 0.005}
COLD = "S-FedAvg, T = 0.02"


@dataclass(eq=False, kw_only=True)
class Oracle(SFedAvg):
    """Draws from those who are relevant in truth, and from nobody else."""

    pool: tuple[int, ...] = ()

    def select(self, t: int) -> Tensor:
        """Ids [m] drawn from the pool, all alike."""
        pool, chance = torch.tensor(self.pool), stream(self.server.seed, "oracle", t)
        return pool[torch.randperm(len(pool), generator=chance)[: self.m]].sort().values


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
        if not self.asked.any():
            bound = torch.rand(len(bound), generator=stream(self.server.seed, "bandit"))
        return bound.topk(self.m or len(bound)).indices.sort().values

    def aggregate(self, round: Round) -> Tensor:
        """As S-FedAvg; then count, and look how far values are apart."""
        theta = super().aggregate(round)
        own = float(self.values[round.clients].std())
        self.spread = own if not self.asked.any() else 0.75 * self.spread + 0.25 * own
        self.asked[round.clients] += 1
        return theta


def setting() -> tuple[Dataset, Model, LocalSGD]:
    """Data, network, local work."""
    return load("digits", dtype=torch.float64), mlp(64, 32, 5), LOCAL


def sound(fed: Federation) -> list[int]:
    """Ids of the relevant clients."""
    return [k for k in range(fed.clients) if k not in fed.corrupted]


def late_auc(history: History, bad: list[int]) -> float:
    """How well relevance finds the clients: AUC, mean over every fifth round of the second half."""
    found = [detection_auc(phi, bad) for phi in history.scores[HALF - 1 :: 5]]
    return sum(found) / len(found)


def left(fed: Federation, history: History, every: int = 10) -> Iterator[tuple[str, float]]:
    """What a training leaves: accuracy, restlessness, who was asked, and what relevance says."""
    for t in range(every, ROUNDS + 1, every):
        yield f"accuracy @ {t}", float(history.accuracy[t - every + 1 : t + 1].mean())
    yield "accuracy", float(history.accuracy[HALF + 1 :].mean())
    yield "change per round", float(history.accuracy[HALF:].diff().abs().mean())
    if fed.corrupted:
        good, bad = sound(fed), sorted(fed.corrupted)
        asked, phi = history.selected[HALF:].double(), history.scores[HALF:].mean(0)
        yield "relevant share", float(asked[:, good].sum() / asked.sum())
        if not isinstance(history.strategy, Oracle):
            yield "AUC", late_auc(history, bad)
            yield "relevance gap", float(phi[good].mean() - phi[bad].mean())


def selection(seed: int) -> Iterator[Row]:
    """Figs. 1 and 3: without irrelevant clients; FedAvg; temperatures; a bandit; an oracle."""
    data, net, local = setting()
    for name, split in SPLITS.items():
        clean = irrelevant_digits(data, RELEVANT + IRRELEVANT, 0, split=split, seed=seed)
        fed = irrelevant_digits(data, RELEVANT, IRRELEVANT, split=split, seed=seed)
        rules: dict[str, SFedAvg] = {
            "FedAvg, 10 relevant": SFedAvg(M, temperature=math.inf),
            "FedAvg": SFedAvg(M, temperature=math.inf),  # uniform: FedAvg that also keeps phi
            **{f"S-FedAvg, {n}": SFedAvg(M, temperature=T) for n, T in TEMPERATURES.items()},
            "bandit": Bandit(M),
            "oracle": Oracle(M, pool=tuple(sound(fed))),
        }
        for rule, strategy in rules.items():
            own = clean if "10" in rule else fed
            history = train(own, net, strategy, rounds=ROUNDS, local=local, seed=seed)
            for metric, value in left(own, history):
                yield f"{rule}; {name}", metric, value


def selection_figure(results: Results) -> Figure:
    """Accuracy of the second half in the paper's split, rule by rule."""
    rows = [v for v in results.variants if v.endswith("; 1 class")]
    shown = {v.removesuffix("; 1 class"): results.values("accuracy", v) for v in rows}
    return plots.dots(shown, xlabel="test accuracy, rounds 51 to 100", ylabel="rule")


def selection_claims() -> Iterator[Claim]:
    """The paper's sentences in its own split; ours on temperature, bandit and oracle."""
    for split in ("1 class", "IID"):
        own, run = split == "1 class", f"{COLD}; {split}"
        clean, plain, one, bandit, oracle, coldest = (
            f"{rule}; {split}"
            for rule in (
                *("FedAvg, 10 relevant", "FedAvg", "S-FedAvg, T = 1 (printed)"),
                *("bandit", "oracle", "S-FedAvg, T = 0.005"),
            )
        )
        for sentence, test, paper in (
            ("irrelevant clients make FedAvg restless", ("change per round", plain, clean), own),
            ("and cost it accuracy", ("accuracy", clean, plain), own),
            ("S-FedAvg as printed is steadier", ("change per round", plain, one), own),
            ("and more accurate than FedAvg", ("accuracy", one, plain), own),
            ("at T = 0.02 it is more accurate than FedAvg", ("accuracy", run, plain), False),
            ("and steadier", ("change per round", plain, run), False),
            ("at T = 0.005 it is more accurate than at 0.02", ("accuracy", coldest, run), False),
            ("a bandit is more accurate than T = 0.02", ("accuracy", bandit, run), False),
            ("a bandit is more accurate than T = 0.005", ("accuracy", bandit, coldest), False),
            ("an oracle is more accurate than a bandit", ("accuracy", oracle, bandit), False),
        ):
            yield Claim(f"{split}: {sentence}", higher(*test), paper)
        gap = beyond("relevance gap", one, 0.0)
        yield Claim(f"{split}: relevant clients have more relevance, as printed", gap, own)
        auc = beyond("AUC", one, 0.95)
        yield Claim(f"{split}: one by one, too (AUC above .95)", auc, own)
        share = within("relevant share", 0.55, 0.65, one)
        yield Claim(f"{split}: as printed the share of relevant clients stays at .6", share, False)
        most = beyond("relevant share", run, 0.75)
        yield Claim(f"{split}: at T = 0.02 it is above .75", most, False)


PROTOCOL = {
    "data": ("MNIST, 30,000 even and 30,000 odd digits", "digits, 535 even and 906 odd"),
    "split": ("sorted by label, 1 or 2 classes a client", "the same, and IID"),
    "clients": ("6 relevant, 4 with odd digits under even names", "the same"),
    "server's samples": ("1,000 validation, 4,000 test", "178 and 178"),
    "model": ("three-layered, widths not given", "perceptron 64-32-5"),
    "local work": ("5 epochs, batches of 32, rate 0.01", "5 epochs, batches of 32, rate 0.05"),
    "rounds, asked a round": ("100, 5", "100, 5; means over rounds 51 to 100"),
    "values": ("ten random orders, Algorithm 2", "exact, by 32 coalitions"),
    "temperature": ("1: there is none", "1, 0.1, 0.02, 0.005"),
    "compared with": ("FedAvg", "FedAvg, a bandit, an oracle that knows who is relevant"),
    "repetitions": ("5 runs of FedAvg, 1 of S-FedAvg", "10 seeds"),
}
STUDIES = (
    Study(
        name="sfedavg-selection",
        item="S-FedAvg, Figs. 1 and 3: stability, accuracy, relevance",
        says="Irrelevant clients unsettle FedAvg; S-FedAvg converges smoothly, and relevant "
        "clients have the higher relevance throughout.",
        protocol=PROTOCOL,
        rows=selection,
        claims=tuple(selection_claims()),
        figure=selection_figure,
        seeds=10,
    ),
)
