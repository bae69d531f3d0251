"""RoundReplay: a training again, round by round. Chapter 6 shows one; any History will do."""

from __future__ import annotations

import math
from collections.abc import Iterable

import traitlets

from ... import checks
from ...engine.history import History
from .base import Explorer, Numbers, by_name, client_names, program

REAL = traitlets.Float(allow_none=True)


class RoundReplay(Explorer):
    """Accuracy, scores and weights of a training after each round; clients on and off.

    history    what `train` returned: T rounds, K clients; what is not finite is shown as a dash
    corrupted  ids to be marked, for instance ``fed.corrupted``
    round      0 ... T; shown [K] which clients; quantity "weights" or "scores" of the lines
    raises     ValueError for ids outside 0 ... K - 1
    """

    _esm = program("kit", "replay")
    accuracy = traitlets.List(REAL).tag(sync=True)
    scores = traitlets.List(traitlets.List(REAL)).tag(sync=True)
    weights = traitlets.List(traitlets.List(REAL)).tag(sync=True)
    corrupted = traitlets.List(traitlets.Int()).tag(sync=True)
    round = traitlets.Int(min=0).tag(sync=True)
    shown = traitlets.List(traitlets.Bool()).tag(sync=True)
    quantity = traitlets.Enum(["weights", "scores"], "weights").tag(sync=True)

    def __init__(self, history: History, *, corrupted: Iterable[int] = ()):
        checks.instance("history", history, History, "the History that train returns")
        T, K = history.scores.shape
        super().__init__(
            accuracy=_rounded(history.accuracy),
            scores=[_rounded(row) for row in history.scores],
            weights=[_rounded(row) for row in history.weights],
            corrupted=sorted(checks.distinct_ids("corrupted", corrupted, K).tolist()),
            round=T,
            shown=[True] * K,
        )

    def numbers(self) -> Numbers:
        t, K = min(self.round, len(self.scores)), len(self.shown)
        score = _real(self.scores[t - 1]) if t else [0.0] * K
        weight = _real(self.weights[t - 1]) if t else [0.0] * K
        kept = [k for k in range(K) if self.shown[k]]
        together = sum(weight[k] for k in kept)
        share = [weight[k] / together if k in kept and together else 0.0 for k in range(K)]
        names = client_names(K, self.corrupted, "corrupted")
        columns = {"score": score, "weight": weight, "share of the shown": share}
        facts = {
            "test accuracy": _real(self.accuracy)[t],
            "weight of the shown": together,
            "mean score of the shown": sum(score[k] for k in kept) / max(1, len(kept)),
        }
        return {**by_name(names, columns), "value": facts}


def _rounded(row: Iterable[float]) -> list[float | None]:
    """Five digits are more than a screen shows, and keep pages small; JSON knows no NaN."""
    return [round(float(x), 5) if math.isfinite(x) else None for x in row]


def _real(row: Iterable[float | None]) -> list[float]:
    """Numbers again, NaN for None."""
    return [math.nan if x is None else x for x in row]
