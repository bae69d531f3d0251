"""ShapleyExplorer: change the worth of a coalition, watch every order and the Shapley value follow.

Chapter 2 shows it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import torch
import traitlets

from ..game import Game, all_coalitions
from ..shapley import exact

HERE = Path(__file__).parent


class ShapleyExplorer(anywidget.AnyWidget):
    """A small game to play with: a slider a coalition, a row an order, a bar a player.

    values   [2^n]  worth of every coalition, index = bit mask (first player 1, second 2, third 4);
                    the empty coalition is worth 0
    names    [n]    names of the players, 2 to 4 of them
    highest         upper end of the sliders; default: the largest worth. The lower end is 0, or
                    the lowest worth if that is negative
    phi      [n]    the Shapley value, computed anew in Python whenever ``values`` change
    raises   ValueError for 2^n numbers that are missing, not finite, or above ``highest``
    """

    _esm = HERE / "shapley_explorer.js"
    _css = HERE / "shapley_explorer.css"
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    values = traitlets.List(traitlets.Float()).tag(sync=True)
    lowest = traitlets.Float().tag(sync=True)
    highest = traitlets.Float().tag(sync=True)
    phi = traitlets.List(traitlets.Float()).tag(sync=True)

    def __init__(
        self,
        values: Sequence[float],
        *,
        names: Sequence[str] = ("A", "B", "C"),
        highest: float | None = None,
    ):
        worth, names = [float(v) for v in values], [str(name) for name in names]
        top = max(worth, default=0.0) if highest is None else float(highest)
        if not 2 <= len(names) <= 4:
            raise ValueError(f"names: expected 2 to 4 players, got {len(names)}")
        if len(worth) != 1 << len(names) or not all(map(math.isfinite, worth)):
            raise ValueError(
                f"values: expected {1 << len(names)} finite numbers, one a coalition, got {worth}"
            )
        if worth[0] != 0:
            raise ValueError(f"values: the empty coalition is worth 0, got {worth[0]}")
        if not max(worth) <= top < math.inf or top <= 0:
            raise ValueError(f"highest: expected a number above 0 and all values, got {top}")
        super().__init__(names=names, values=worth, lowest=min(worth), highest=top)

    @traitlets.observe("values")
    def _recompute(self, change: dict[str, Any]) -> None:
        table = torch.tensor(change["new"], dtype=torch.float64)
        n = len(table).bit_length() - 1
        bits = 1 << torch.arange(n)
        self.phi = exact(Game(n, lambda sets: table[(sets * bits).sum(1)])).values.tolist()

    def __repr__(self) -> str:
        return "<ShapleyExplorer: open it in JupyterLab or on the book's site>"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, "text/plain": repr(self), "text/html": self._table()}, metadata

    def _table(self) -> str:
        """The same numbers as plain tables, for viewers that run no widgets."""
        coalitions = all_coalitions(len(self.names)).tolist()[1:]
        sets = [
            "".join(name for name, inside in zip(self.names, row, strict=True) if inside)
            for row in coalitions
        ]
        return _html_table("worth", sets, self.values[1:]) + _html_table(
            "Shapley value", self.names, self.phi
        )


def _html_table(title: str, heads: Sequence[str], numbers: Sequence[float]) -> str:
    cells = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    row = "".join(f"<td>{number:.2f}</td>" for number in numbers)
    return f"<table><tr><th></th>{cells}</tr><tr><th>{title}</th>{row}</tr></table>"
