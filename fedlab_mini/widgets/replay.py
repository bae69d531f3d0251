"""RoundReplay: a training again, round by round. Chapter 6 shows one; any History will do."""

from __future__ import annotations

from collections.abc import Iterable

import traitlets

from ..rounds import History
from .base import Explorer, Numbers, client_names, program


class RoundReplay(Explorer):
    """Accuracy, scores and weights of a training after each round; clients on and off.

    history    what `train` returned: T rounds, K clients
    corrupted  ids to be marked, for instance ``fed.corrupted``
    round      0 ... T; shown [K] which clients; quantity "weights" or "scores" of the lines
    raises     ValueError for ids outside 0 ... K - 1
    """

    _esm = program("kit", "replay")
    accuracy = traitlets.List(traitlets.Float()).tag(sync=True)
    scores = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    weights = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    corrupted = traitlets.List(traitlets.Int()).tag(sync=True)
    round = traitlets.Int(min=0).tag(sync=True)
    shown = traitlets.List(traitlets.Bool()).tag(sync=True)
    quantity = traitlets.Enum(["weights", "scores"], "weights").tag(sync=True)

    def __init__(self, history: History, *, corrupted: Iterable[int] = ()):
        T, K = history.scores.shape
        marked = sorted(int(k) for k in corrupted)
        if marked and not 0 <= marked[0] <= marked[-1] < K:
            raise ValueError(f"corrupted: expected client ids from 0 to {K - 1}, got {marked}")
        super().__init__(
            accuracy=_rounded(history.accuracy),
            scores=[_rounded(row) for row in history.scores],
            weights=[_rounded(row) for row in history.weights],
            corrupted=marked,
            round=T,
            shown=[True] * K,
        )

    def numbers(self) -> Numbers:
        t, K = min(self.round, len(self.scores)), len(self.shown)
        score = self.scores[t - 1] if t else [0.0] * K
        weight = self.weights[t - 1] if t else [0.0] * K
        kept = [k for k in range(K) if self.shown[k]]
        together = sum(weight[k] for k in kept)
        share = [weight[k] / together if k in kept and together else 0.0 for k in range(K)]
        names = client_names(K, set(self.corrupted), "corrupted")
        columns = {"score": score, "weight": weight, "share of the shown": share}
        facts = {
            "test accuracy": self.accuracy[t],
            "weight of the shown": together,
            "mean score of the shown": sum(score[k] for k in kept) / max(1, len(kept)),
        }
        found = {name: dict(zip(names, row, strict=True)) for name, row in columns.items()}
        return {**found, "value": facts}


def _rounded(row: Iterable[float]) -> list[float]:
    """Five digits are more than a screen shows, and keep pages small."""
    return [round(float(x), 5) for x in row]
