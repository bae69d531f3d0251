"""F-RCCE at its paper's protocol, and over training length: when does each printed choice work?

[zhao2021efficient, Section 3]; chapter 5 reads these results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import logistic
from fedlab_mini.engine.rounds import History
from fedlab_mini.engine.train import train
from fedlab_mini.judge.metrics import detection_auc
from fedlab_mini.methods.reinforce import FRCCE
from fedlab_mini.worlds.corrupt import flip_labels
from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.federation import Federation
from fedlab_mini.worlds.scenarios import spam

from .study import Row

CLIENTS, ROUNDS = 50, 1000
LOCAL = LocalSGD(epochs=1, batch=64, lr=0.1)
LOOKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # rounds at which the ranking is looked at
WORDS = {"sms-synthetic": 200, "sms": 500}  # of the bag of words
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


def rounds_rows(seed: int, source: str = "sms-synthetic") -> Iterator[Row]:
    """Detection AUC after 1 to 1,000 rounds, for each variant and both degrees of flipping."""
    data = load(source, vocabulary=WORDS[source], dtype=torch.float64)
    net = logistic(WORDS[source], 2)
    for degree, share in FLIPS.items():
        fed = spam(data, clients=CLIENTS, corrupt=flip_labels(share), seed=seed)
        for name, options in VARIANTS.items():
            rule = FRCCE(**options)
            history = train(fed, net, rule, rounds=ROUNDS, local=LOCAL, seed=seed)
            for metric, value in ranked(fed, history):
                yield f"{name}, {degree}", metric, value


def rounds_sms(seed: int) -> Iterator[Row]:
    """The same on the real messages."""
    yield from rounds_rows(seed, "sms")


def ranked(fed: Federation, history: History) -> Iterator[tuple[str, float]]:
    """What a training leaves: AUC of the score at several rounds, spread of omega, accuracy."""
    omega = by_round(history)
    for t in LOOKS:
        yield f"AUC @ {t}", detection_auc(history.scores[t - 1], fed.corrupted)
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
        for name, who in (("sound", ~bad), ("corrupted", bad)):
            lines[name].append(by_round(history)[:, who].mean(1))
    return {name: torch.stack(found) for name, found in lines.items()}
