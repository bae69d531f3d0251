"""Metrics: how good is a contribution score? Chapters 3 and 10 use them.

All scores are indexed by client id, higher meaning a larger contribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from .. import checks

Scores = Tensor | Sequence[float]


def spearman(a: Scores, b: Scores) -> float:
    """Rank correlation of two scores in [-1, 1], ties at mean rank; 0 if either is constant."""
    from scipy.stats import spearmanr  # here, since it takes a second to import

    return _correlation(spearmanr, a, b)


def kendall(a: Scores, b: Scores) -> float:
    """Kendall's tau-b: pairs ranked alike minus pairs ranked the other way, as a share in [-1, 1].

    Pairs tied in one score are taken out of that score's half of the share; 0 if either is constant
    source  [Kendall 1945]
    """
    from scipy.stats import kendalltau

    return _correlation(kendalltau, a, b)


def detection_auc(scores: Scores, bad: Iterable[int]) -> float:
    """Chance that a random bad client scores below a random good one (ties count half).

    scores [K], bad  ids of the bad clients, at least one bad, one good; 1 is perfect, .5 guessing
    """
    from sklearn.metrics import roc_auc_score  # here, since it takes a second to import

    scores = as_scores("scores", scores)
    clients = len(scores)
    bad_ids = checks.distinct_ids("bad", bad, clients).tolist()
    if not 0 < len(bad_ids) < clients:
        raise ValueError(
            f"bad: expected some of {clients} ids but not all, got {bad_ids}"
        )
    is_bad = [client in bad_ids for client in range(clients)]
    # Turned round: here the bad are the positive class, and they are those with low scores.
    return float(roc_auc_score(is_bad, (-scores).tolist()))


def _correlation(statistic: Callable, a: Scores, b: Scores) -> float:
    first, second = as_scores("a", a), as_scores("b", b)
    lengths = f"{len(first)}, {len(second)}"
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(f"a, b: expected one length of at least 2, got {lengths}")
    # SciPy answers NaN here: a constant score orders no pair at all.
    if first.min() == first.max() or second.min() == second.max():
        return 0.0
    return float(statistic(first.numpy(), second.numpy()).statistic)


def as_scores(label: str, values: Scores) -> Tensor:
    """One finite number a client, [K] in float64 on the CPU."""
    return checks.reals(label, values, ["K"], dtype=torch.float64).cpu()
