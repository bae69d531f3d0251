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
    hides = ("weight", "share of the shown", "weight of the shown")
    accuracy = traitlets.List(REAL).tag(sync=True)
    scores = traitlets.List(traitlets.List(REAL)).tag(sync=True)
    weights = traitlets.List(traitlets.List(REAL)).tag(sync=True)
    corrupted = traitlets.List(traitlets.Int()).tag(sync=True)
    round = traitlets.Int(min=0).tag(sync=True)
    shown = traitlets.List(traitlets.Bool()).tag(sync=True)
    quantity = traitlets.Enum(["weights", "scores"], "weights").tag(sync=True)

    def __init__(self, history: History, *, corrupted: Iterable[int] = ()):
        checks.instance("history", history, History, "the History that train returns")
        rounds, clients = history.scores.shape
        super().__init__(
            accuracy=_rounded(history.accuracy),
            scores=[_rounded(row) for row in history.scores],
            weights=[_rounded(row) for row in history.weights],
            corrupted=sorted(checks.distinct_ids("corrupted", corrupted, clients).tolist()),
            round=rounds,
            shown=[True] * clients,
        )

    def numbers(self) -> Numbers:
        t, clients = min(self.round, len(self.scores)), range(len(self.shown))
        # Before the first round nobody has a score or a weight.
        scores = _real(self.scores[t - 1]) if t else [0.0 for _ in clients]
        weights = _real(self.weights[t - 1]) if t else [0.0 for _ in clients]
        shown = [client for client in clients if self.shown[client]]
        # Clients that are switched off leave their weight to the others.
        together = sum(weights[client] for client in shown)
        shares = [
            weights[client] / together if client in shown and together else 0.0
            for client in clients
        ]
        columns = {"score": scores, "weight": weights, "share of the shown": shares}
        facts = {
            "test accuracy": _real(self.accuracy)[t],
            "weight of the shown": together,
            "mean score of the shown": sum(scores[client] for client in shown) / max(1, len(shown)),
        }
        client_labels = client_names(len(clients), self.corrupted, "corrupted")
        return {**by_name(client_labels, columns), "value": facts}


def _rounded(values: Iterable[float]) -> list[float | None]:
    """Five digits are more than a screen shows, and keep pages small; JSON knows no NaN."""
    return [round(float(value), 5) if math.isfinite(value) else None for value in values]


def _real(values: Iterable[float | None]) -> list[float]:
    """Numbers again, NaN for None."""
    return [math.nan if value is None else value for value in values]
