"""ChangesExplorer: one thing about one client changes; who has which share then? Chapter 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from ...parse import checks
from .base import Explorer, Numbers, by_name, program


class ChangesExplorer(Explorer):
    """Shares of the pay by several scores, before and after one thing about one client changes.

    clients  K names
    shares   {change: {score: shares [K, seeds]}}; the first change is "nothing", and the first
             score is the reference
    who      {change: the name of the client that changes}, for all changes but the first
    change, score  shown first: one of the changes but the first, and one of the scores
    raises   ValueError naming `change` or `score`
    """

    _esm = program("kit", "changes")
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    changes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    who = traitlets.List(traitlets.Int()).tag(sync=True)  # [changes], ids of clients
    scores = traitlets.List(traitlets.Unicode()).tag(sync=True)
    # [changes, scores, K, seeds]
    shares: traitlets.List[Any] = traitlets.List().tag(sync=True)
    change = traitlets.Unicode().tag(sync=True)
    score = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        clients: Sequence[str],
        shares: Mapping[str, Mapping[str, Tensor]],
        who: Mapping[str, str],
        *,
        change: str,
        score: str,
    ):
        changes, scores = list(shares), list(next(iter(shares.values())))
        super().__init__(
            names=list(clients),
            changes=changes,
            who=[clients.index(who[name]) if name in who else 0 for name in changes],
            scores=scores,
            shares=[[_short(of[name]) for name in scores] for of in shares.values()],
            change=checks.choice("change", change, tuple(changes[1:])),
            score=checks.choice("score", score, tuple(scores)),
        )

    @property
    def hides(self) -> tuple[str, ...]:  # type: ignore[override]  # it names the reference
        return ("then", self.scores[0])

    def numbers(self) -> Numbers:
        change, score = self.changes.index(self.change), self.scores.index(self.score)
        shown = {"before": (0, score), "then": (change, score), self.scores[0]: (change, 0)}
        means = {
            name: torch.tensor(self.shares[i][j]).double().mean(1).tolist()
            for name, (i, j) in shown.items()
        }
        return by_name(self.names, means)


def _short(shares: Tensor) -> list[list[float]]:
    """Shares with three decimals, which is enough for the page."""
    return [[round(share, 3) for share in row] for row in shares.tolist()]
