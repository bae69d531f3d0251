"""Standing: where every node stands after the rounds of a ledger, by the book's own rules.

Nothing but a ledger's entries is needed, so a server that was started again goes on from them.
Below: ledger, methods. Above: scored.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.methods.cgsv import admitted

from .ledger import Entry

# Share of the past, as in the bench's class cosine; other scores are means.
MEMORY = {"class cosine": 0.5}
NO_SERVER: Any = None  # CGSV asks none for its weights


class Standing:
    """Running scores of nodes that may join at any time.

    CGSV: the weight r of the coming round; class cosine: a moving average; all others: the mean
    over rounds, in which a round without the node counts 0
    """

    def __init__(self, methods: Iterable[str]):
        self.place: dict[str, int] = {}
        self.rounds, self.cgsv = 0, fm.CGSV()
        none = torch.zeros(0, dtype=torch.float64)
        self.now = dict.fromkeys(methods, none)  # [K] each
        self.times = none.long()  # [K] rounds in which a node was scored
        self.state = {"r": none, "psi": none, "sizes": none.long(), "times": none.long()}

    def scores(self) -> dict[str, dict[str, float]]:
        """{score: {node: where it stands}}, all nodes that were ever asked."""
        cgsv = {"CGSV": self.state["r"]} if "CGSV" in self.now else {}
        columns = self.now | cgsv
        return {
            score: dict(zip(self.place, column.tolist(), strict=True))
            for score, column in columns.items()
        }

    def add(self, entry: Entry) -> None:
        """Hear of the next round."""
        round = self._round(entry.node, entry.size, list(entry.missing))
        places = round.clients
        self.rounds += 1
        self.times[places] += 1
        for score, column in entry.scores.items():
            said, now = torch.tensor(column, dtype=torch.float64), self.now[score]
            if score == "CGSV":
                # Without nodes nothing was aggregated that anybody could be aligned with.
                if entry.node:
                    self.state |= admitted(self.state, round)
                    self.cgsv.learn(self.state, round, said)
            elif score in MEMORY:
                # Nothing is remembered of a node that is scored for the first time.
                share = MEMORY[score] * (self.times[places] > 1).double()
                now[places] = share * now[places] + (1 - share) * said
            else:
                # The mean over all rounds: who was not in this one shrinks with the others.
                now *= (self.rounds - 1) / self.rounds
                now[places] += said / self.rounds

    def weights(self, nodes: Sequence[str], sizes: Sequence[int]) -> Tensor:
        """CGSV's shares [m] of the coming round's nodes; nothing is remembered of being asked."""
        twin = copy.deepcopy(self)
        round = twin._round(nodes, sizes, [])
        return self.cgsv.weights(NO_SERVER, twin.state, round)

    def _round(
        self, nodes: Sequence[str], sizes: Sequence[int], missing: Sequence[str]
    ) -> fm.Round:
        """A round as the book's strategies know it, nodes by their places; no updates."""
        for node in (*nodes, *missing):
            self.place.setdefault(node, len(self.place))
        self.now = {score: self._wide(column) for score, column in self.now.items()}
        self.state = {name: self._wide(column) for name, column in self.state.items()}
        self.times = self._wide(self.times)
        clients, absent = (
            torch.tensor([self.place[node] for node in some], dtype=torch.long)
            for some in (nodes, missing)
        )
        # [m, 0]: a strategy asks for a row per node, and no score here needs what stands in it.
        rows = torch.empty(len(nodes), 0, dtype=torch.float64)
        counts = torch.tensor(sizes, dtype=torch.long)
        return fm.Round(self.rounds + 1, rows.new_empty(0), clients, counts, rows, absent)

    def _wide(self, column: Tensor) -> Tensor:
        """A column [K] with zeros for newcomers, in memory of its own."""
        return torch.cat([column, column.new_zeros(len(self.place) - len(column))])
