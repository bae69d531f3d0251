"""Metrics: how good is a contribution score? Chapters 3 and 10 use them.

All scores are indexed by client id, higher meaning a larger contribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from scipy import stats
from sklearn.metrics import roc_auc_score
from torch import Tensor

from .federation import Federation
from .local import LocalSGD
from .model import Model
from .simulation import simulate

Scores = Tensor | Sequence[float]


def contribution_index(v: Scores) -> Tensor:
    """CCI: negative values become 0, the rest is scaled to sum 1; equal shares if nothing is left.

    v [K]; returns [K]                                                [Shyn et al. 2021; chapter 7]
    """
    positive = _scores("v", v).clamp(min=0)
    total = positive.sum()
    return positive / total if total > 0 else torch.full_like(positive, 1 / len(positive))


def spearman(a: Scores, b: Scores) -> float:
    """Rank correlation of two scores in [-1, 1], ties at mean rank; 0 if either is constant."""
    a, b = _scores("a", a), _scores("b", b)
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(
            f"a, b: expected two scores of one length of at least 2, got {len(a)}, {len(b)}"
        )
    if a.min() == a.max() or b.min() == b.max():
        return 0.0
    return float(stats.spearmanr(a, b).statistic)


def detection_auc(scores: Scores, bad: Iterable[int]) -> float:
    """Chance that a random bad client scores below a random good one (ties count half).

    scores [K], bad  ids of the bad clients, at least one bad, one good; 1 is perfect, .5 guessing
    """
    scores = _scores("scores", scores)
    wanted = set(bad)
    if not wanted or not wanted < set(range(len(scores))):
        raise ValueError(
            f"bad: expected some but not all ids of 0..{len(scores) - 1}, got {sorted(wanted)}"
        )
    return float(roc_auc_score([k in wanted for k in range(len(scores))], (-scores).tolist()))


def fairness(contributions: Scores, rewards: Scores) -> float:
    """Pearson correlation of what clients gave and got, in [-1, 1]; 0 if either is constant.

    source  collaborative fairness [Lyu et al. 2020]
    """
    a, b = _scores("contributions", contributions), _scores("rewards", rewards)
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(
            f"contributions, rewards: expected one length of at least 2, got {len(a)}, {len(b)}"
        )
    if a.min() == a.max() or b.min() == b.max():
        return 0.0
    return float(stats.pearsonr(a, b).statistic)


@dataclass(frozen=True)
class RemovalCurves:
    """Quality after retraining without the highest- and without the lowest-scored clients.

    removed [F] numbers of clients; highest, lowest [F] the metric on the test set
    """

    removed: Tensor
    highest: Tensor
    lowest: Tensor


def removal_curves(
    fed: Federation,
    net: Model,
    scores: Scores,
    fractions: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    *,
    rounds: int,
    local: LocalSGD | None = None,
    seed: int = 0,
    metric: str = "accuracy",
) -> RemovalCurves:
    """Retrain without the best or without the worst clients: a good score makes the two part.

    scores [K]; fractions in [0, 1) of the clients, rounded down to whole clients; all trainings
    are one ``simulate`` call of 2 F runs, judged on the server's test set
    """
    scores = _scores("scores", scores)
    if len(scores) != fed.clients:
        raise ValueError(
            f"scores: expected one for each of {fed.clients} clients, got {len(scores)}"
        )
    if len(fractions) == 0 or any(not 0 <= f < 1 for f in fractions):
        raise ValueError(f"fractions: expected numbers in [0, 1), got {list(fractions)}")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise ValueError(f"rounds: expected a whole number of at least 1, got {rounds!r}")
    removed = torch.tensor([math.floor(f * fed.clients + 1e-9) for f in fractions])
    order = scores.argsort(stable=True)  # worst first
    keep = torch.ones(2, len(removed), fed.clients)
    for j, r in enumerate(removed.tolist()):
        keep[0, j, order[fed.clients - r :]] = 0
        keep[1, j, order[:r]] = 0
    participation = keep.flatten(0, 1)[:, None].expand(-1, rounds, -1)
    final = simulate(
        fed, net, participation, local=local, seed=seed, metric=metric, on="test", last=True
    )
    highest, lowest = final.view(2, -1)
    return RemovalCurves(removed, highest, lowest)


def _scores(label: str, values: Scores) -> Tensor:
    scores = torch.as_tensor(values, dtype=torch.float64).detach().cpu()
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(f"{label}: expected one number a client, got shape {list(scores.shape)}")
    if not torch.isfinite(scores).all():
        raise ValueError(f"{label}: holds NaN or infinite values")
    return scores
