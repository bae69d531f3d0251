"""Metrics: how good is a contribution score? Chapters 3 and 10 use them.

All scores are indexed by client id, higher meaning a larger contribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from scipy import stats
from sklearn.metrics import roc_auc_score
from torch import Tensor

from .. import checks

Scores = Tensor | Sequence[float]


def spearman(a: Scores, b: Scores) -> float:
    """Rank correlation of two scores in [-1, 1], ties at mean rank; 0 if either is constant."""
    return _correlation(stats.spearmanr, a=a, b=b)


def kendall(a: Scores, b: Scores) -> float:
    """Kendall's tau-b: pairs ranked alike minus pairs ranked the other way, as a share in [-1, 1].

    Pairs tied in one score are taken out of that score's half of the share; 0 if either is constant
    source  [Kendall 1945]
    """
    return _correlation(stats.kendalltau, a=a, b=b)


def detection_auc(scores: Scores, bad: Iterable[int]) -> float:
    """Chance that a random bad client scores below a random good one (ties count half).

    scores [K], bad  ids of the bad clients, at least one bad, one good; 1 is perfect, .5 guessing
    """
    scores = as_scores("scores", scores)
    wanted = checks.distinct_ids("bad", bad, len(scores)).tolist()
    if not 0 < len(wanted) < len(scores):
        raise ValueError(f"bad: expected some of {len(scores)} ids but not all, got {wanted}")
    return float(roc_auc_score([k in wanted for k in range(len(scores))], (-scores).tolist()))


def fairness(contributions: Scores, rewards: Scores) -> float:
    """Pearson correlation of what clients gave and got, in [-1, 1]; 0 if either is constant.

    source  collaborative fairness [Lyu et al. 2020]
    """
    return _correlation(stats.pearsonr, contributions=contributions, rewards=rewards)


def _correlation(statistic: Callable, **scores: Scores) -> float:
    a, b = (as_scores(label, values) for label, values in scores.items())
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(
            f"{', '.join(scores)}: expected one length of at least 2, got {len(a)}, {len(b)}"
        )
    if a.min() == a.max() or b.min() == b.max():
        return 0.0
    return float(statistic(a.numpy(), b.numpy()).statistic)


def as_scores(label: str, values: Scores) -> Tensor:
    """One finite number a client, [K] in float64 on the CPU."""
    return checks.reals(label, values, ["K"], dtype=torch.float64).cpu()
