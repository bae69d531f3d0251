"""Standing: where every node stands after the rounds of a ledger, by the book's own rules.

Nothing but a ledger's entries is needed, so a server that was started again goes on from them.
Below: ledger, methods. Above: scored, page.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from fedlab_mini.engine.rounds import Round
from fedlab_mini.methods.cgsv import CGSV, admitted

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
        self.rounds = 0
        self.cgsv = CGSV()
        empty_column = torch.zeros(0, dtype=torch.float64)
        self.now = dict.fromkeys(methods, empty_column)  # [K] each
        self.times = empty_column.long()
        numbers, counts = dict.fromkeys(("r", "psi"), empty_column), ("sizes", "times")
        self.state = numbers | dict.fromkeys(counts, empty_column.long())

    def values(self) -> dict[str, Tensor]:
        """{score: [K]}, all nodes that were ever asked, in the order of ``place``."""
        current_scores = self.now | (
            {"CGSV": self.state["r"]} if "CGSV" in self.now else {}
        )
        # Columns have room for nodes to come, which is left out.
        return {
            score: column[: len(self.place)].clone()
            for score, column in current_scores.items()
        }

    def scores(self) -> dict[str, dict[str, float]]:
        """{score: {node: where it stands}}."""
        columns = {score: column.tolist() for score, column in self.values().items()}
        return {
            score: dict(zip(self.place, column, strict=True))
            for score, column in columns.items()
        }

    def add(self, entry: Entry) -> None:
        """Hear of the next round."""
        round = self._round(entry.t, entry.nodes, entry.sizes, list(entry.missing))
        places = round.clients
        self.rounds += 1
        self.times[places] += 1
        for score_name, column in entry.scores.items():
            round_scores = torch.tensor(column, dtype=torch.float64)
            if score_name == "CGSV":
                # Without nodes nothing was aggregated that anybody could be aligned with.
                if entry.nodes:
                    self.state |= admitted(self.state, round)
                    self.cgsv.learn(self.state, round, round_scores)
                continue
            running_scores = self.now[score_name]
            if score_name in MEMORY:
                # Nothing is remembered of a node that is scored for the first time.
                memory_share = MEMORY[score_name] * (self.times[places] > 1).double()
                running_scores[places] = (
                    memory_share * running_scores[places]
                    + (1 - memory_share) * round_scores
                )
            else:
                # The mean over all rounds: who was not in this one shrinks with the others.
                running_scores *= (self.rounds - 1) / self.rounds
                running_scores[places] += round_scores / self.rounds

    def weights(self, nodes: Sequence[str], sizes: Sequence[int]) -> Tensor:
        """CGSV's shares [m] of the coming round's nodes; nothing is remembered of being asked."""
        # Only what is written to is copied: a deep copy would grow with all that were ever asked.
        next_standing = copy.copy(self)
        next_standing.place, next_standing.now = dict(self.place), dict(self.now)
        next_standing.state = dict(self.state)
        round = next_standing._round(self.rounds + 1, nodes, sizes, [])
        return self.cgsv.weights(NO_SERVER, next_standing.state, round)

    def _round(
        self, t: int, nodes: Sequence[str], sizes: Sequence[int], missing: Sequence[str]
    ) -> Round:
        """A round as the book's strategies know it, nodes by their places; no updates."""
        for node_id in (*nodes, *missing):
            self.place.setdefault(node_id, len(self.place))
        if (lacking_places := len(self.place) - len(self.times)) > 0:
            # At least doubled: newcomers one by one do not cost a copy each.
            self._widen(max(lacking_places, len(self.times)))
        client_places, absent_places = (
            torch.tensor([self.place[node_id] for node_id in node_ids], dtype=torch.long)
            for node_ids in (nodes, missing)
        )
        # [m, 0]: a strategy asks for a row per node, and no score here needs what stands in it.
        no_updates = torch.empty(len(nodes), 0, dtype=torch.float64)
        sample_counts = torch.tensor(sizes, dtype=torch.long)
        return Round(
            t,
            no_updates.new_empty(0),
            client_places,
            sample_counts,
            no_updates,
            absent_places,
        )

    def _widen(self, more: int) -> None:
        def wider(column: Tensor) -> Tensor:
            return torch.cat([column, column.new_zeros(more)])

        self.now = {name: wider(column) for name, column in self.now.items()}
        self.times = wider(self.times)
        # CGSV keeps columns of its own, with the same places.
        self.state = {name: wider(column) for name, column in self.state.items()}
