"""AAMExplorer: from data sizes to predicted accuracy and contribution index, for chapter 7."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import traitlets

from ...methods.aam import AAM
from ...methods.aam_fit import one_node
from ...methods.fedccea import contribution_index
from ...parse import checks
from .base import Explorer, Numbers, by_name, client_names, program


class AAMExplorer(Explorer):
    """A fitted accuracy approximation model of the linear form that a reader can change.

    model      `AAM` with form "linear"; if it holds several fits, the first one is shown
    full       [K] the clients' full sizes, in the unit of the fit (their mean size is 1)
    corrupted  ids to be marked
    shares     [K] share of its data that each client uses in every round
    raises     ValueError for another form, a fit that is not finite or a wrong number of sizes
    """

    _esm = program("kit", "aam")
    hides = ("loss without",)
    quality = traitlets.List(traitlets.Float()).tag(sync=True)
    slopes = traitlets.List(traitlets.Float()).tag(sync=True)
    start = traitlets.Float().tag(sync=True)
    full = traitlets.List(traitlets.Float()).tag(sync=True)
    corrupted = traitlets.List(traitlets.Int()).tag(sync=True)
    shares = traitlets.List(traitlets.Float()).tag(sync=True)

    def __init__(self, model: AAM, full: Iterable[float], *, corrupted: Iterable[int] = ()):
        checks.instance("model", model, AAM, "an AAM of the linear form")
        checks.choice("model.form", model.form, ["linear"])
        client_count = model.omega.shape[1]
        sizes = checks.reals("full", full, [client_count], dtype=torch.float64)
        if (sizes < 0).any():
            raise ValueError(f"full: expected sizes of at least 0, got {sizes.tolist()}")
        # Quality [K], slopes [R] and one intercept, from the collapsed linear layers.
        first_fit = [stack[0].double() for stack in (model.omega, *model.collapsed())]
        # A diverged fit raises an error, because neither the page nor JSON can hold NaN.
        quality, slopes, start = (checks.reals("model", values, ["..."]) for values in first_fit)
        super().__init__(
            quality=quality.tolist(),
            slopes=slopes.tolist(),
            start=float(start),
            full=sizes.tolist(),
            corrupted=sorted(checks.distinct_ids("corrupted", corrupted, client_count).tolist()),
            shares=[1.0] * client_count,
        )

    def predicted(self, sizes: torch.Tensor) -> float:
        """Accuracy after the last round if every round uses the sizes [K]."""
        point = torch.tensor([*self.quality, *self.slopes, self.start], dtype=torch.float64)
        model = one_node(point, len(self.quality))
        return float(model(sizes.expand(1, len(self.slopes), -1))[0, 0, -1])

    def numbers(self) -> Numbers:
        full_sizes = torch.tensor(self.full, dtype=torch.float64)
        sizes = full_sizes * torch.tensor(self.shares, dtype=torch.float64)
        contribution = sizes * torch.tensor(self.quality, dtype=torch.float64)
        anybody = bool((contribution > 0).any())
        # If nobody contributes, CCI would give equal shares, but the page shows zeros.
        indices = contribution_index(contribution) if anybody else torch.zeros_like(contribution)
        accuracy = self.predicted(sizes)
        masks = torch.eye(len(sizes), dtype=torch.float64)
        client_columns: dict[str, Any] = {
            "samples used": sizes,
            "quality ω": self.quality,
            "contribution": contribution,
            "index": indices,
            "loss without": [accuracy - self.predicted(sizes * (1 - mask)) for mask in masks],
        }
        client_labels = client_names(len(sizes), self.corrupted, "corrupted")
        predictions = {
            "with these sizes": accuracy,
            "with all data": self.predicted(full_sizes),
            "with no data": self.predicted(0 * full_sizes),
        }
        return {**by_name(client_labels, client_columns), "accuracy": predictions}
