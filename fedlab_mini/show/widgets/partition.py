"""PartitionExplorer: change alpha and see how few clients hold most of a class.

Chapters 1 and 3 split data this way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import traitlets
from scipy.special import gammaincinv

from ...parse import checks
from .base import Explorer, Numbers, by_name, client_names, program, uniforms

MOST = 12


class PartitionExplorer(Explorer):
    """Each class is divided among the clients in Dirichlet(alpha) proportions: who holds what?

    totals   [C]  samples of each class, 2 to 12 classes
    classes  [C]  names of the classes; default 0, 1, ...
    alpha         .05 to 100; small: few clients hold most of a class
    clients       2 to 12. With the same seed, shares change smoothly with alpha
    raises   ValueError naming the argument

    Shares are gamma variables of shape alpha at fixed uniform numbers, scaled to sum 1. The rule
    is that of `DirichletLabels`, but the random numbers differ.
    """

    _esm = program("kit", "random", "partition")
    totals = traitlets.List(traitlets.Int()).tag(sync=True)
    classes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    most = traitlets.Int(MOST).tag(sync=True)
    alpha = traitlets.Float(min=0.01).tag(sync=True)
    clients = traitlets.Int().tag(sync=True)
    seed = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        totals: Sequence[int],
        *,
        classes: Sequence[str] | None = None,
        alpha: float = 0.5,
        clients: int = 8,
        seed: int = 0,
    ):
        class_totals = checks.wholes("totals", totals, ["C"], 1, 10**9).tolist()
        class_names = [
            str(name) for name in (range(len(class_totals)) if classes is None else classes)
        ]
        if not 2 <= len(class_totals) <= MOST or len(class_names) != len(class_totals):
            given_lengths = f"{len(class_totals)} counts and {len(class_names)} names"
            raise ValueError(
                f"totals: expected 2 to 12 classes with a name each, got {given_lengths}"
            )
        super().__init__(
            totals=class_totals,
            classes=class_names,
            alpha=checks.number("alpha", alpha, 0.05, 100),
            clients=checks.whole("clients", clients, 2, MOST),
            seed=checks.whole("seed", seed, 0, 19),
        )

    def counts(self) -> np.ndarray:
        """Samples [C, K] of each class at each client."""
        uniform_draws = np.array(uniforms(self.seed, len(self.totals) * self.most))
        # Each row has numbers for the most clients, so one more client changes no other one.
        uniform_draws = uniform_draws.reshape(len(self.totals), self.most)[:, : self.clients]
        shares = gammaincinv(self.alpha, uniform_draws)
        shares /= shares.sum(1, keepdims=True)
        class_totals = np.array(self.totals)[:, None]
        # Running sums are rounded, because rounded shares would not add up to the total.
        cut_points = np.floor(shares.cumsum(1) * class_totals + 0.5).astype(int)
        # In floating point, the last running sum may differ slightly from 1.
        cut_points[:, -1:] = class_totals
        return np.diff(cut_points, axis=1, prepend=0)

    @property
    def hides(self) -> tuple[str, ...]:  # type: ignore[override]  # its classes have names
        columns = (f"class {name}" for name in self.classes)
        return (*columns, "classes a client holds", "classes of which one client holds 9 in 10")

    def numbers(self) -> Numbers:
        counts = self.counts()
        client_sizes = counts.sum(0)
        # [C + 1, most]: the classes and their sum; clients that do not participate hold zeros.
        padded_counts = np.zeros((len(counts) + 1, self.most))
        padded_counts[:, : self.clients] = np.vstack([counts, client_sizes])
        column_names = [*(f"class {name}" for name in self.classes), "samples"]
        in_one_hand = (counts.max(1) >= 0.9 * np.array(self.totals)).sum()
        single_numbers = {
            "classes a client holds": float((counts > 0).sum() / self.clients),
            "classes of which one client holds 9 in 10": float(in_one_hand),
            "largest client's share": float(client_sizes.max() / client_sizes.sum()),
        }
        client_columns = dict(zip(column_names, padded_counts, strict=True))
        return {**by_name(client_names(self.most), client_columns), "value": single_numbers}
