"""Metrics: how good is a contribution score? Chapters 3 and 10 use them.

All scores are indexed by client id, higher meaning a larger contribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from scipy import stats
from sklearn.metrics import roc_auc_score
from torch import Tensor

Scores = Tensor | Sequence[float]


def contribution_index(v: Scores) -> Tensor:
    """CCI: negative values become 0, the rest is scaled to sum 1; equal shares if nothing is left.

    v [K]; returns [K]                                                [Shyn et al. 2021; chapter 7]
    """
    positive = as_scores("v", v).clamp(min=0)
    total = positive.sum()
    return positive / total if total > 0 else torch.full_like(positive, 1 / len(positive))


def spearman(a: Scores, b: Scores) -> float:
    """Rank correlation of two scores in [-1, 1], ties at mean rank; 0 if either is constant."""
    a, b = as_scores("a", a), as_scores("b", b)
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
    scores = as_scores("scores", scores)
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
    a, b = as_scores("contributions", contributions), as_scores("rewards", rewards)
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(
            f"contributions, rewards: expected one length of at least 2, got {len(a)}, {len(b)}"
        )
    if a.min() == a.max() or b.min() == b.max():
        return 0.0
    return float(stats.pearsonr(a, b).statistic)


def as_scores(label: str, values: Scores) -> Tensor:
    scores = torch.as_tensor(values, dtype=torch.float64).detach().cpu()
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(f"{label}: expected one number a client, got shape {list(scores.shape)}")
    if not torch.isfinite(scores).all():
        raise ValueError(f"{label}: holds NaN or infinite values")
    return scores
