"""PartitionExplorer: turn alpha and watch classes gather in few hands.

Chapters 1 and 3 split data this way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import traitlets
from scipy.special import gammaincinv

from ... import checks
from .base import Explorer, Numbers, by_name, client_names, program, uniforms

MOST = 12


class PartitionExplorer(Explorer):
    """Each class is cut among the clients in Dirichlet(alpha) proportions: who holds what?

    totals   [C]  samples of each class, 2 to 12 classes
    classes  [C]  their names; default 0, 1, ...
    alpha         .05 to 100; small: a class lies in few hands
    clients       2 to 12; seed: which draw. Shares follow alpha smoothly within one draw
    raises   ValueError naming the argument

    Shares are gamma variables of shape alpha at fixed uniform numbers, scaled to sum 1. The rule
    is that of `dirichlet_labels`, the random numbers are not.
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
        counts = checks.wholes("totals", totals, ["C"], 1, 10**9).tolist()
        class_names = [str(name) for name in (range(len(counts)) if classes is None else classes)]
        if not 2 <= len(counts) <= MOST or len(class_names) != len(counts):
            given = f"{len(counts)} counts and {len(class_names)} names"
            raise ValueError(f"totals: expected 2 to 12 classes with a name each, got {given}")
        super().__init__(
            totals=counts,
            classes=class_names,
            alpha=checks.number("alpha", alpha, 0.05, 100),
            clients=checks.whole("clients", clients, 2, MOST),
            seed=checks.whole("seed", seed, 0, 19),
        )

    def counts(self) -> np.ndarray:
        """Samples [C, K] of each class at each client."""
        drawn = np.array(uniforms(self.seed, len(self.totals) * self.most))
        # A row a class for the most clients: one more client leaves the others' numbers alone.
        drawn = drawn.reshape(len(self.totals), self.most)[:, : self.clients]
        shares = gammaincinv(self.alpha, drawn)
        shares /= shares.sum(1, keepdims=True)
        totals = np.array(self.totals)[:, None]
        ends = np.floor(shares.cumsum(1) * totals + 0.5).astype(int)
        ends[:, -1:] = totals
        return np.diff(ends, axis=1, prepend=0)

    @property
    def hides(self) -> tuple[str, ...]:  # type: ignore[override]  # its classes have names
        classes = (f"class {name}" for name in self.classes)
        return (*classes, "classes a client holds", "classes of which one client holds 9 in 10")

    def numbers(self) -> Numbers:
        counts = self.counts()
        sizes = counts.sum(0)
        padded = np.zeros((len(counts) + 1, self.most))
        padded[:, : self.clients] = np.vstack([counts, sizes])
        heads = [*(f"class {name}" for name in self.classes), "samples"]
        in_one_hand = (counts.max(1) >= 0.9 * np.array(self.totals)).sum()
        facts = {
            "classes a client holds": float((counts > 0).sum() / self.clients),
            "classes of which one client holds 9 in 10": float(in_one_hand),
            "largest client's share": float(sizes.max() / sizes.sum()),
        }
        columns = dict(zip(heads, padded, strict=True))
        return {**by_name(client_names(self.most), columns), "value": facts}
