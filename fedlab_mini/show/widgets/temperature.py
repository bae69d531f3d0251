"""TemperatureExplorer: from relevances to selection probabilities. Chapter 8 shows it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
import traitlets

from ... import checks
from .base import Explorer, Numbers, by_name, client_names, program


class TemperatureExplorer(Explorer):
    """Relevances and a temperature: who is likely to be drawn, and how many irrelevant clients?

    relevance    [K]  2 to 12 clients
    irrelevant        ids of the irrelevant ones
    drawn             clients drawn one after another, without replacement, from
                      softmax(relevance / temperature)
    raises       ValueError naming the argument
    """

    _esm = program("kit", "random", "temperature")
    hides = ("among those drawn", "irrelevant clients expected", "share of relevant clients")
    relevance = traitlets.List(traitlets.Float()).tag(sync=True)
    irrelevant = traitlets.List(traitlets.Int()).tag(sync=True)
    temperature = traitlets.Float().tag(sync=True)
    drawn = traitlets.Int(min=1).tag(sync=True)
    lowest = traitlets.Float().tag(sync=True)
    highest = traitlets.Float().tag(sync=True)

    def __init__(
        self,
        relevance: Sequence[float],
        *,
        irrelevant: Iterable[int] = (),
        temperature: float = 1.0,
        drawn: int = 5,
    ):
        phi = checks.reals("relevance", relevance, ["K"], dtype=torch.float64).tolist()
        if not 2 <= len(phi) <= 12:
            raise ValueError(f"relevance: expected 2 to 12 numbers, got {len(phi)}")
        span = max(max(phi) - min(phi), 0.05)
        super().__init__(
            relevance=phi,
            irrelevant=sorted(checks.distinct_ids("irrelevant", irrelevant, len(phi)).tolist()),
            temperature=checks.number("temperature", temperature, 0, ends="(]"),
            drawn=checks.whole("drawn", drawn, 1, len(phi)),
            lowest=min(phi) - span,
            highest=max(phi) + span,
        )

    def numbers(self) -> Numbers:
        logits = torch.tensor(self.relevance, dtype=torch.float64) / self.temperature
        clients = len(logits)
        drawn = min(self.drawn, clients)
        chances = inclusion(logits, drawn)
        expected = float(chances[self.irrelevant].sum())
        facts = {
            "irrelevant clients expected": expected,
            "the same without relevance": drawn * len(self.irrelevant) / clients,
            "share of relevant clients": 1 - expected / drawn,
        }
        columns = {
            "relevance": list(self.relevance),
            "first draw": logits.softmax(0).tolist(),
            "among those drawn": chances.tolist(),
        }
        client_labels = client_names(clients, self.irrelevant, "irrelevant")
        return {**by_name(client_labels, columns), "value": facts}


def inclusion(logits: torch.Tensor, m: int) -> torch.Tensor:
    """Chance [K] to be among m clients drawn one after another, each from the softmax of the rest.

    Sums over the sets that may have been drawn, one size after the other: 2^K steps.
    """
    clients = len(logits)
    member = (torch.arange(1 << clients)[:, None] >> torch.arange(clients) & 1).bool()
    following = logits.masked_fill(member, -math.inf).softmax(1)  # of each set, who comes next
    chances = torch.zeros(1 << clients, dtype=torch.float64)
    # Before the first draw it is certain that nobody has been drawn.
    chances[0] = 1
    for size in range(m):
        sets = (member.sum(1) == size).nonzero().flatten()
        for client in range(clients):
            without = sets[~member[sets, client]]
            chances[without | 1 << client] += chances[without] * following[without, client]
    is_drawn = member.sum(1) == m
    return (chances[is_drawn, None] * member[is_drawn]).sum(0)
