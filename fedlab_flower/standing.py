"""Standing: the running scores of every node after the rounds of a ledger, by the book's rules.

It needs only a ledger's entries, so a restarted server continues from them. Builds on ledger and
methods; used by scored.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round
from fedlab_mini.methods.cgsv import admitted

from .ledger import Entry

# Share of the past, as in the bench's class cosine; other scores are means.
MEMORY = {"class cosine": 0.5}
NO_SERVER: Any = None  # CGSV's weights do not use the server


class Standing:
    """Running scores of nodes that may join at any time.

    CGSV: the weight r for the next round; class cosine: a moving average; all others: the mean
    over rounds, where a round without the node counts 0
    """

    def __init__(self, methods: Iterable[str]):
        self.place: dict[str, int] = {}
        self.rounds, self.cgsv = 0, fm.CGSV()
        none = torch.zeros(0, dtype=torch.float64)
        self.now = dict.fromkeys(methods, none)  # [K] each
        self.times = none.long()  # [K] rounds in which a node was scored
        self.state = {"r": none, "psi": none, "sizes": none.long(), "times": none.long()}

    def scores(self) -> dict[str, dict[str, float]]:
        """{score: {node: running score}}, for all nodes that were ever selected."""
        cgsv = {"CGSV": self.state["r"]} if "CGSV" in self.now else {}
        columns = self.now | cgsv
        return {
            score: dict(zip(self.place, column.tolist(), strict=True))
            for score, column in columns.items()
        }

    def add(self, entry: Entry) -> None:
        """Add the next round."""
        round = self._round(entry.node, entry.size, list(entry.missing))
        places = round.clients
        self.rounds += 1
        self.times[places] += 1
        for score, column in entry.scores.items():
            said, now = torch.tensor(column, dtype=torch.float64), self.now[score]
            if score == "CGSV":
                # Without nodes there is no aggregate to compare with.
                if entry.node:
                    self.state |= admitted(self.state, round)
                    self.cgsv.learn(self.state, round, said)
            elif score in MEMORY:
                # A node that is scored for the first time has no past to keep.
                share = MEMORY[score] * (self.times[places] > 1).double()
                now[places] = share * now[places] + (1 - share) * said
            else:
                # The mean over all rounds, so the score of an absent node shrinks, too.
                now *= (self.rounds - 1) / self.rounds
                now[places] += said / self.rounds

    def weights(self, nodes: Sequence[str], sizes: Sequence[int]) -> Tensor:
        """CGSV's shares [m] for the next round's nodes, without a change of the state."""
        twin = copy.deepcopy(self)
        round = twin._round(nodes, sizes, [])
        return self.cgsv.weights(NO_SERVER, twin.state, round)

    def _round(self, nodes: Sequence[str], sizes: Sequence[int], missing: Sequence[str]) -> Round:
        """A round for the book's strategies, without updates; nodes are given by their places."""
        for node in (*nodes, *missing):
            self.place.setdefault(node, len(self.place))
        self.now = {score: self._wide(column) for score, column in self.now.items()}
        self.state = {name: self._wide(column) for name, column in self.state.items()}
        self.times = self._wide(self.times)
        clients, absent = (
            torch.tensor([self.place[node] for node in some], dtype=torch.long)
            for some in (nodes, missing)
        )
        # [m, 0]: a strategy needs one row per node, but no score here reads it.
        rows = torch.empty(len(nodes), 0, dtype=torch.float64)
        counts = torch.tensor(sizes, dtype=torch.long)
        return Round(self.rounds + 1, rows.new_empty(0), clients, counts, rows, absent)

    def _wide(self, column: Tensor) -> Tensor:
        """A copy of a column, extended to [K] with zeros for newcomers."""
        return torch.cat([column, column.new_zeros(len(self.place) - len(column))])
