"""Metrics: how good is a contribution score? Chapters 3 and 10 use them.

All scores are indexed by client id, and higher means a larger contribution. Ids are 0..K-1, or the
index of a pandas column. Every rank measure ties scores that differ only by rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..parse import checks

Scores = Tensor | Sequence[float]
# Two scores are tied if they differ by at most this share of the larger one ...
TIED = 1e-6
# ... or by at most this share of the largest of all scores.
NOTHING = 1e-12


def ranks(scores: Tensor) -> Tensor:
    """Ranks 0, 1, ... of scores [K], the lowest first; tied scores share a rank.

    A score ties with the lowest one of its group if they differ by at most 1e-6 of the larger
    one's size, or 1e-12 of the largest size of all; otherwise, it is the lowest of the next group
    """
    ascending, order = scores.double().sort(stable=True)
    nothing = NOTHING * ascending.abs().max().item()
    places, rank, lowest = [], 0, ascending[0].item()
    for score in ascending.tolist():
        if score - lowest > max(TIED * max(abs(score), abs(lowest)), nothing):
            rank, lowest = rank + 1, score
        places.append(rank)
    return torch.empty_like(order).scatter_(0, order, torch.tensor(places, device=order.device))


def spearman(a: Scores, b: Scores) -> float:
    """Rank correlation of two scores in [-1, 1], ties at mean rank; 0 if either is constant.

    Pandas columns are matched by their index
    """
    from scipy.stats import spearmanr  # here, since it takes a second to import

    return _correlation(spearmanr, a, b)


def kendall(a: Scores, b: Scores) -> float:
    """Kendall's tau-b in [-1, 1]: concordant minus discordant pairs, as a share of untied pairs.

    The denominator is the geometric mean of the numbers of untied pairs in both scores; 0 if either
    score is constant. Pandas columns are matched by their index
    source  [Kendall 1945]
    """
    from scipy.stats import kendalltau

    return _correlation(kendalltau, a, b)


def detection_auc(scores: Scores, bad: Iterable[int]) -> float:
    """Probability that a random corrupted client scores below a clean one (ties count half).

    scores [K]; bad: ids of the corrupted clients; at least one client is corrupted and one
    clean. 1 is perfect, .5 is guessing. The ids of a pandas column are those of its index
    """
    from sklearn.metrics import roc_auc_score  # here, since it takes a second to import

    ids, scores = checks.ids_of(scores), as_scores("scores", scores)
    clients = len(scores)
    if ids is not None and ids != list(range(clients)):
        bad = _places(ids, bad)
    bad_ids = checks.distinct_ids("bad", bad, clients).tolist()
    if not 0 < len(bad_ids) < clients:
        raise checks.refusal("bad", f"some of {clients} ids but not all", bad_ids)
    is_bad = [client in bad_ids for client in range(clients)]
    # Ranks are negated, because corrupted clients are the positive class: low scores.
    return float(roc_auc_score(is_bad, (-ranks(scores)).tolist()))


def _places(ids: list[Any], bad: Iterable[Any]) -> list[int]:
    """The positions of the corrupted clients in an index."""
    places = {client: place for place, client in enumerate(ids)}
    bad_ids = list(checks.instance("bad", bad, Iterable, "client ids"))
    unknown = [client for client in bad_ids if client not in places]
    if unknown or len(places) != len(ids):
        raise checks.refusal(
            "bad", f"ids of an index of distinct ones, {checks.shown(ids)}", bad_ids
        )
    return [places[client] for client in bad_ids]


def _correlation(statistic: Callable[..., Any], a: Scores, b: Scores) -> float:
    ids = checks.ids_of(a)
    if ids is None or checks.ids_of(b) is None:
        # An array's ids are 0..K-1, so a column compared with it must have the same ids.
        a, b = checks.in_order("a", a), checks.in_order("b", b)
    else:
        b = checks.by_id("b", b, ids)
    first, second = as_scores("a", a), as_scores("b", b)
    lengths = len(first), len(second)
    if lengths[0] != lengths[1] or lengths[0] < 2:
        raise checks.refusal("a, b", "one length of at least 2", lengths)
    first_ranks, second_ranks = ranks(first), ranks(second)
    # SciPy would return NaN here, because a constant score orders no pair.
    if not first_ranks.any() or not second_ranks.any():
        return 0.0
    return float(statistic(first_ranks.numpy(), second_ranks.numpy()).statistic)


def as_scores(label: str, values: Scores) -> Tensor:
    """One finite number per client, [K] in float64 on the CPU."""
    return checks.reals(label, values, ["K"], dtype=torch.float64).cpu()
