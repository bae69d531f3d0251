"""AAMExplorer: data sizes in, predicted accuracy and contribution index out. Chapter 7 shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import traitlets

from ... import checks
from ...methods.aam import AAM
from ...methods.fedccea import contribution_index
from .base import Explorer, Numbers, by_name, client_names, program


class AAMExplorer(Explorer):
    """A fitted accuracy approximation model of the linear form to play with.

    model      `AAM` with form "linear"; of several fits the first is shown
    full       [K] the clients' whole sizes, in the unit of the fit (their mean size is 1)
    corrupted  ids to be marked
    shares     [K] part of its data that each client uses, in every round
    raises     ValueError for another form, a fit that is not finite or a wrong number of sizes
    """

    _esm = program("kit", "aam")
    quality = traitlets.List(traitlets.Float()).tag(sync=True)
    slopes = traitlets.List(traitlets.Float()).tag(sync=True)
    start = traitlets.Float().tag(sync=True)
    neutral = traitlets.Bool().tag(sync=True)
    full = traitlets.List(traitlets.Float()).tag(sync=True)
    corrupted = traitlets.List(traitlets.Int()).tag(sync=True)
    shares = traitlets.List(traitlets.Float()).tag(sync=True)

    def __init__(self, model: AAM, full: Iterable[float], *, corrupted: Iterable[int] = ()):
        checks.instance("model", model, AAM, "an AAM of the linear form")
        checks.choice("model.form", model.form, ["linear"])
        K = model.omega.shape[1]
        sizes = checks.reals("full", full, [K], dtype=torch.float64)
        if (sizes < 0).any():
            raise ValueError(f"full: expected sizes of at least 0, got {sizes.tolist()}")
        parts = [part[0].double() for part in (model.omega, *model.collapsed())]
        quality, a, c = (checks.reals("model", part, ["..."]) for part in parts)
        super().__init__(
            quality=quality.tolist(),
            slopes=a.tolist(),
            start=float(c),
            neutral=model.neutral,
            full=sizes.tolist(),
            corrupted=sorted(checks.distinct_ids("corrupted", corrupted, K).tolist()),
            shares=[1.0] * K,
        )

    def predicted(self, sizes: torch.Tensor) -> float:
        """Accuracy after the last round when the sizes [K] are used in each."""
        R = len(self.slopes)
        one = torch.ones(1, 1, dtype=torch.float64)
        omega = torch.tensor([self.quality], dtype=torch.float64)
        a = torch.tensor(self.slopes, dtype=torch.float64)
        b1 = torch.full((1, 1), self.start - (0 if self.neutral else 0.5 * float(a.sum())))
        model = AAM(omega, a.view(1, 1, R), b1.double(), one, 0 * one[0], neutral=self.neutral)
        return float(model(sizes.expand(1, R, -1))[0, 0, -1])

    def numbers(self) -> Numbers:
        full = torch.tensor(self.full, dtype=torch.float64)
        sizes = full * torch.tensor(self.shares, dtype=torch.float64)
        value = sizes * torch.tensor(self.quality, dtype=torch.float64)
        index = contribution_index(value) if (value > 0).any() else torch.zeros_like(value)
        now, alone = self.predicted(sizes), torch.eye(len(sizes), dtype=torch.float64)
        columns: dict[str, Any] = {
            "samples used": sizes,
            "quality ω": self.quality,
            "contribution": value,
            "index": index,
            "loss without": [now - self.predicted(sizes * (1 - row)) for row in alone],
        }
        names = client_names(len(sizes), self.corrupted, "corrupted")
        facts = {
            "with these sizes": now,
            "with all data": self.predicted(full),
            "with no data": self.predicted(0 * full),
        }
        return {**by_name(names, columns), "accuracy": facts}
