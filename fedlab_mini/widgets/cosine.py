"""CosineExplorer: drag update vectors, see cosines and exact Shapley values. Chapter 4 shows it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import traitlets
from torch.nn.functional import normalize

from ..methods.cgsv import cosine_game, cosines
from ..shapley import exact
from .base import Explorer, Numbers, client_names, program


class CosineExplorer(Explorer):
    """Update vectors in the plane, their cosines with the sum, and the cosine game's Shapley value.

    updates  [n, 2]  one row a client, 2 to 6 of them; a length of 1 is the circle on the screen
    raises   ValueError for another shape, values that are not finite, or an update of length 0
    """

    _esm = program("kit", "cosine")
    updates = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)

    def __init__(self, updates: Sequence[Sequence[float]]):
        rows = torch.as_tensor(updates, dtype=torch.float64)
        if rows.ndim != 2 or rows.shape[1] != 2 or not 2 <= len(rows) <= 6:
            raise ValueError(
                f"updates: expected 2 to 6 rows of 2 numbers, got shape {list(rows.shape)}"
            )
        if not torch.isfinite(rows).all() or not (rows.norm(dim=1) > 0).all():
            raise ValueError("updates: expected finite numbers and no update of length 0")
        super().__init__(updates=rows.tolist())

    def numbers(self) -> Numbers:
        rows = torch.tensor(self.updates, dtype=torch.float64)
        units = normalize(rows, dim=1)
        length = float(units.sum(0).norm())
        none = torch.zeros(len(rows), dtype=torch.float64)
        psi = cosines(rows, units.sum(0)) if length > 1e-9 else none
        phi = exact(cosine_game(rows)).values if length > 1e-9 else none
        scaled = psi / psi.sum()
        names = client_names(len(rows))
        columns = {"cosine ψ": psi, "ψ, scaled to sum 1": scaled, "exact Shapley": phi}
        facts = {
            "length of the mean U": length / len(rows),
            "largest difference": float((phi - scaled).abs().max()),
        }
        found = {name: dict(zip(names, v.tolist(), strict=True)) for name, v in columns.items()}
        return {**found, "value": facts}
