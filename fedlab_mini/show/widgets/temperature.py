"""TemperatureExplorer: from relevances to selection probabilities. Chapter 8 shows it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
import traitlets

from ...parse import checks
from .base import Explorer, Numbers, by_name, client_names, program


class TemperatureExplorer(Explorer):
    """Relevances and a temperature: who is likely to be drawn, and how many irrelevant clients?

    relevance    [K]  2 to 12 clients
    irrelevant        ids of the irrelevant clients
    drawn             how many clients are drawn one after another, without replacement, from
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
        slider_room = max(max(phi) - min(phi), 0.05)
        super().__init__(
            relevance=phi,
            irrelevant=sorted(checks.distinct_ids("irrelevant", irrelevant, len(phi)).tolist()),
            temperature=checks.number("temperature", temperature, 0, ends="(]"),
            drawn=checks.whole("drawn", drawn, 1, len(phi)),
            lowest=min(phi) - slider_room,
            highest=max(phi) + slider_room,
        )

    def numbers(self) -> Numbers:
        logits = torch.tensor(self.relevance, dtype=torch.float64) / self.temperature
        client_count = len(logits)
        draw_count = min(self.drawn, client_count)
        chances = inclusion(logits, draw_count)
        expected_count = float(chances[self.irrelevant].sum())
        single_numbers = {
            "irrelevant clients expected": expected_count,
            "the same without relevance": draw_count * len(self.irrelevant) / client_count,
            "share of relevant clients": 1 - expected_count / draw_count,
        }
        client_columns = {
            "relevance": list(self.relevance),
            "first draw": logits.softmax(0).tolist(),
            "among those drawn": chances.tolist(),
        }
        client_labels = client_names(client_count, self.irrelevant, "irrelevant")
        return {**by_name(client_labels, client_columns), "value": single_numbers}


def inclusion(logits: torch.Tensor, m: int) -> torch.Tensor:
    """Probability [K] to be among m clients drawn in turn, each from the softmax of the others.

    It sums over all sets that may have been drawn, in order of size: 2^K steps.
    """
    client_count = len(logits)
    # [2^K, K]: the bits of each set.
    is_member = (torch.arange(1 << client_count)[:, None] >> torch.arange(client_count) & 1).bool()
    # Probabilities of the next draw after each set. The row of the full set is NaN and not used.
    next_chances = logits.masked_fill(is_member, -math.inf).softmax(1)
    chances = torch.zeros(1 << client_count, dtype=torch.float64)
    # Before the first draw, the empty set has probability 1.
    chances[0] = 1
    # In order of size, so that a set's probability is complete before larger sets use it.
    for set_size in range(m):
        set_masks = (is_member.sum(1) == set_size).nonzero().flatten()
        for client_id in range(client_count):
            smaller = set_masks[~is_member[set_masks, client_id]]
            chances[smaller | 1 << client_id] += chances[smaller] * next_chances[smaller, client_id]
    is_drawn = is_member.sum(1) == m
    return (chances[is_drawn, None] * is_member[is_drawn]).sum(0)
