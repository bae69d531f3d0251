"""CosineExplorer: drag update vectors, see cosines and exact Shapley values. Chapter 4 shows it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import traitlets
from torch.nn.functional import normalize

from ... import checks
from ...games.shapley import exact
from ...methods.cgsv import cosine_game, cosines
from .base import Explorer, Numbers, by_name, client_names, program


class CosineExplorer(Explorer):
    """Update vectors in the plane, their cosines with the sum, and the cosine game's Shapley value.

    updates  [n, 2]  one row a client, 2 to 6 of them; a length of 1 is the circle on the screen
    raises   ValueError for another shape, values that are not finite, or an update of length 0
    """

    _esm = program("kit", "cosine")
    updates = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)

    def __init__(self, updates: Sequence[Sequence[float]]):
        rows = checks.reals("updates", updates, ["n", 2], dtype=torch.float64)
        if not 2 <= len(rows) <= 6 or not (rows.norm(dim=1) > 0).all():
            raise ValueError(f"updates: expected 2 to 6 of length above 0, got {rows.tolist()}")
        super().__init__(updates=rows.tolist())

    def numbers(self) -> Numbers:
        rows = torch.tensor(self.updates, dtype=torch.float64)
        units = normalize(rows, dim=1)
        length = float(units.sum(0).norm())
        none = torch.zeros(len(rows), dtype=torch.float64)
        psi = cosines(rows, units.sum(0)) if length > 1e-9 else none
        phi = exact(cosine_game(rows)).values if length > 1e-9 else none
        scaled = psi / psi.sum()
        columns = {"cosine ψ": psi, "ψ, scaled to sum 1": scaled, "exact Shapley": phi}
        facts = {
            "length of the mean U": length / len(rows),
            "largest difference": float((phi - scaled).abs().max()),
        }
        return {**by_name(client_names(len(rows)), columns), "value": facts}
