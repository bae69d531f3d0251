"""RoundReplay: show a training run again, round by round. It works with any History.

Chapter 6 uses it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import traitlets

from ...engine.history import History
from ...parse import checks
from .base import Explorer, Numbers, by_name, client_names, program

REAL = traitlets.Float(allow_none=True)


class RoundReplay(Explorer):
    """Accuracy, scores and weights of a training run after each round; clients can be switched off.

    history    what `train` returned: T rounds, K clients; a dash shows a value that is not finite
    corrupted  ids to be marked, for instance ``fed.corrupted``
    asked      the client whose weight is to be guessed; by default the first corrupted one, or 0
    scored     "ω" after a learned evaluator: each round's omega replaces the score, which is the
               mean of omega over the rounds so far; else "score"
    round      0 ... T; shown [K]: which clients; quantity: "weights" or "scores", for the lines
    raises     ValueError for ids outside 0 ... K - 1
    """

    _esm = program("kit", "replay")
    # A weight is a share of ω.
    hides = (
        *("ω", "mean ω of the shown"),
        *("weight", "share of the shown", "weight of the shown"),
    )
    accuracy = traitlets.List(REAL).tag(sync=True)
    scored = traitlets.Unicode("score").tag(sync=True)
    scores = traitlets.List(traitlets.List(REAL)).tag(sync=True)
    weights = traitlets.List(traitlets.List(REAL)).tag(sync=True)
    corrupted = traitlets.List(traitlets.Int()).tag(sync=True)
    asked = traitlets.Int(min=0).tag(sync=True)
    round = traitlets.Int(min=0).tag(sync=True)
    shown = traitlets.List(traitlets.Bool()).tag(sync=True)
    quantity = traitlets.Enum(["weights", "scores"], "weights").tag(sync=True)

    def __init__(
        self, history: History, *, corrupted: Iterable[int] = (), asked: int | None = None
    ):
        checks.instance("history", history, History, "the History that train returns")
        scores = history.scores
        round_count, client_count = scores.shape
        learned = "omega" in history.state
        if learned:
            # t times the mean is the sum of omega, and its increase is this round's omega.
            sums = scores * torch.arange(1, round_count + 1)[:, None]
            scores = sums.diff(dim=0, prepend=torch.zeros_like(sums[:1]))
        marked = sorted(checks.distinct_ids("corrupted", corrupted, client_count).tolist())
        about = [*marked, 0][:1] if asked is None else [asked]
        super().__init__(
            accuracy=_rounded(history.accuracy),
            scored="ω" if learned else "score",
            scores=[_rounded(round_values) for round_values in scores],
            weights=[_rounded(round_values) for round_values in history.weights],
            corrupted=marked,
            asked=int(checks.distinct_ids("asked", about, client_count)[0]),
            round=round_count,
            shown=[True] * client_count,
        )

    def numbers(self) -> Numbers:
        # The trait has no upper end, because histories have different numbers of rounds.
        t, client_ids = min(self.round, len(self.scores)), range(len(self.shown))
        # Before the first round nobody has a score or a weight.
        scores = _real(self.scores[t - 1]) if t else [0.0 for _ in client_ids]
        weights = _real(self.weights[t - 1]) if t else [0.0 for _ in client_ids]
        shown_ids = [client_id for client_id in client_ids if self.shown[client_id]]
        # The other clients share the weight of those that are switched off.
        shown_weight = sum(weights[client_id] for client_id in shown_ids)
        shown_shares = [
            weights[client_id] / shown_weight if client_id in shown_ids and shown_weight else 0.0
            for client_id in client_ids
        ]
        client_columns = {
            self.scored: scores,
            "weight": weights,
            "share of the shown": shown_shares,
        }
        single_numbers = {
            # Accuracy has one more entry than scores, for the time before the first round.
            "test accuracy": _real(self.accuracy)[t],
            "weight of the shown": shown_weight,
            f"mean {self.scored} of the shown": sum(scores[client_id] for client_id in shown_ids)
            / max(1, len(shown_ids)),
        }
        client_labels = client_names(len(client_ids), self.corrupted, "corrupted")
        return {**by_name(client_labels, client_columns), "value": single_numbers}


def _rounded(values: Iterable[float]) -> list[float | None]:
    """Five digits are more than a screen shows, and keep pages small; JSON does not allow NaN."""
    return [round(float(value), 5) if math.isfinite(value) else None for value in values]


def _real(values: Iterable[float | None]) -> list[float]:
    """Numbers, with NaN for None."""
    return [math.nan if value is None else value for value in values]
