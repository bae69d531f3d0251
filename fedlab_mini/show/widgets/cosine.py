"""CosineExplorer: drag update vectors and see cosines and exact Shapley values, for chapter 4."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import traitlets
from torch.nn.functional import normalize

from ...games.shapley import exact
from ...methods.cgsv import cosine_game, cosines
from ...parse import checks
from .base import Explorer, Numbers, by_name, client_names, program

# Client 0's value is far above its scaled cosine, and the order of the other two differs.
ANGLES = (-40, 139, 117)


class CosineExplorer(Explorer):
    """Update vectors in the plane, their cosines with the sum, and the cosine game's Shapley value.

    updates  [n, 2]  one row per client, 2 to 6 rows; a length of 1 is the circle on the screen.
                     Default: three rows of length 1 that cosine and value rank differently
    raises   ValueError for another shape, values that are not finite, or an update of length 0
    """

    _esm = program("kit", "cosine")
    hides = ("exact Shapley", "largest difference")
    updates = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)

    def __init__(self, updates: Sequence[Sequence[float]] | None = None):
        if updates is None:
            angles = torch.tensor(ANGLES).double().deg2rad()
            updates = torch.stack([angles.cos(), angles.sin()], 1).tolist()
        vectors = checks.reals("updates", updates, ["n", 2], dtype=torch.float64)
        if not 2 <= len(vectors) <= 6 or not (vectors.norm(dim=1) > 0).all():
            given_rows = vectors.tolist()
            raise ValueError(f"updates: expected 2 to 6 rows of length above 0, got {given_rows}")
        # The browser computes all other numbers from the vectors.
        super().__init__(updates=vectors.tolist())

    def numbers(self) -> Numbers:
        vectors = torch.tensor(self.updates, dtype=torch.float64)
        # [n, 2], each of length 1, because a cosine does not depend on the length of an update.
        directions = normalize(vectors, dim=1)
        sum_length = float(directions.sum(0).norm())
        psi = phi = torch.zeros(len(vectors), dtype=torch.float64)
        # Directions that cancel each other have no mean direction to compare with.
        if sum_length > 1e-9:
            psi = cosines(vectors, directions.sum(0))
            phi = exact(cosine_game(vectors)).values
        # NaN if the directions cancel, because a sum of 0 cannot be scaled.
        scaled_psi = psi / psi.sum()
        client_columns = {"cosine ψ": psi, "ψ, scaled to sum 1": scaled_psi, "exact Shapley": phi}
        single_numbers = {
            "length of the mean U": sum_length / len(vectors),
            "largest difference": float((phi - scaled_psi).abs().max()),
        }
        return {**by_name(client_names(len(vectors)), client_columns), "value": single_numbers}
