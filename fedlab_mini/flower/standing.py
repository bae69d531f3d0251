"""Standing: where every node stands after the rounds of a ledger, by the book's own rules.

Nothing but a ledger's entries is needed, so a server that was started again goes on from them.
Below: ledger, methods. Above: scored, page.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ..engine.rounds import Round
from ..methods.cgsv import CGSV
from ..methods.neighbours import ClassCosine
from .ledger import Entry

MEMORY = {"class cosine": ClassCosine.memory}  # share of the past; other scores are means


class Reputation(CGSV):
    """CGSV that is told its cosines."""

    def learn(self, round: Round, psi: Tensor) -> None:
        """A round's cosines [m] change the weights of all who were asked."""
        self._admit(round)
        self._learn(round, psi)


class Standing:
    """Running scores of nodes that may join at any time.

    CGSV: the weight r of the coming round; class cosine: a moving average; all others: the mean
    over rounds, in which a round without the node counts 0
    """

    def __init__(self, methods: Iterable[str]):
        self.place: dict[str, int] = {}
        self.rounds = 0
        self.cgsv = Reputation()
        nobody = torch.zeros(0, dtype=torch.float64)
        self.now = dict.fromkeys(methods, nobody)  # [K] each
        self.times = nobody.long()
        self.cgsv.r, self.cgsv.psi = nobody, nobody
        self.cgsv.sizes, self.cgsv.times = nobody.long(), nobody.long()

    def values(self) -> dict[str, Tensor]:
        """{score: [K]}, all nodes that were ever asked, in the order of ``place``."""
        now = self.now | ({"CGSV": self.cgsv.r} if "CGSV" in self.now else {})
        return {name: values[: len(self.place)].clone() for name, values in now.items()}

    def scores(self) -> dict[str, dict[str, float]]:
        """{score: {node: where it stands}}."""
        tables = {name: values.tolist() for name, values in self.values().items()}
        return {name: dict(zip(self.place, row, strict=True)) for name, row in tables.items()}

    def add(self, entry: Entry) -> None:
        """Hear of the next round."""
        round = self._round(entry.t, entry.nodes, entry.sizes, list(entry.missing))
        rows = round.clients
        self.rounds += 1
        self.times[rows] += 1
        for name, column in entry.scores.items():
            scores = torch.tensor(column, dtype=torch.float64)
            if name == "CGSV":
                if entry.nodes:  # else nothing was aggregated that anybody could be aligned with
                    self.cgsv.learn(round, scores)
                continue
            values = self.now[name]
            if name in MEMORY:
                # Nothing is remembered of a node that is scored for the first time.
                memory = MEMORY[name] * (self.times[rows] > 1).double()
                values[rows] = memory * values[rows] + (1 - memory) * scores
            else:
                values *= (self.rounds - 1) / self.rounds
                values[rows] += scores / self.rounds

    def weights(self, nodes: Sequence[str], sizes: Sequence[int]) -> Tensor:
        """CGSV's shares [m] of the coming round's nodes; nothing is remembered of being asked."""
        # Only what is written to is copied: a deep copy would grow with all that were ever asked.
        ahead = copy.copy(self)
        ahead.place, ahead.now = dict(self.place), dict(self.now)
        ahead.cgsv = copy.deepcopy(self.cgsv)
        return ahead.cgsv.weights(ahead._round(self.rounds + 1, nodes, sizes, []))

    def _round(
        self, t: int, nodes: Sequence[str], sizes: Sequence[int], missing: Sequence[str]
    ) -> Round:
        """A round as the book's strategies know it, nodes by their places; no updates."""
        for node in (*nodes, *missing):
            self.place.setdefault(node, len(self.place))
        if (lacking := len(self.place) - len(self.times)) > 0:
            self._widen(max(lacking, len(self.times)))
        clients, absent = (
            torch.tensor([self.place[node] for node in listed], dtype=torch.long)
            for listed in (nodes, missing)
        )
        no_updates = torch.empty(len(nodes), 0, dtype=torch.float64)
        samples = torch.tensor(sizes, dtype=torch.long)
        return Round(t, no_updates.new_empty(0), clients, samples, no_updates, absent)

    def _widen(self, more: int) -> None:
        def wider(values: Tensor) -> Tensor:
            return torch.cat([values, values.new_zeros(more)])

        self.now = {name: wider(values) for name, values in self.now.items()}
        self.times = wider(self.times)
        for name in ("r", "psi", "sizes", "times"):
            setattr(self.cgsv, name, wider(getattr(self.cgsv, name)))
