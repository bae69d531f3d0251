"""Sieve: which updates a server leaves out, and whom it names for it.

Below: local, start. Above: loop.
"""

from __future__ import annotations

import warnings
from collections import Counter

import torch
from torch import Tensor

from ..worlds.federation import Federation
from .local import LocalSGD, Shuffles, round_updates
from .rounds import Server
from .start import names

LONG = 1e4  # an update is too long at this many times the first model and the server's own update
BLOATED = 100.0  # and a model is beyond blaming a client at this many times the first


class Sieve:
    """Leaves out updates that are not finite or far too long, and says whose they are.

    An update longer than ``LONG`` times the first model (or 1, if that is shorter) is compared with
    what the server gets by training on its own validation samples from the same model: longer than
    ``LONG`` times that, it is left out. No update is judged by those of other clients, of whom most
    may lie. Where the server's own training is not finite either, or the model is ``BLOATED`` times
    as long as the first one, the model or the step size is at fault: then no client is named, and
    none counts as missing.
    """

    def __init__(self, server: Server, theta: Tensor, local: LocalSGD):
        self.server, self.local = server, local
        self.first = max(1.0, float(torch.linalg.vector_norm(theta)))
        self.times: Counter[int] = Counter()  # rounds that a client was left out of
        self.warned = False

    def sift(
        self, theta: Tensor, ids: Tensor, updates: Tensor, t: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Clients [m] and updates [m, P] that are usable, and who is left out without blame."""
        flat, nobody, bound = updates.flatten(), ids[:0], LONG * self.first
        if float(flat @ flat) <= bound**2:  # one fast pass; false where not finite
            return ids, updates, nobody
        lengths = torch.linalg.vector_norm(updates, dim=1, dtype=torch.float64).cpu()
        if (lengths <= bound).all():
            return ids, updates, nobody
        own, largest = self._own(theta, t), torch.finfo(updates.dtype).max ** 0.5
        keep = lengths <= min(max(bound, LONG * own), largest)  # what is longer has no square
        bad, ids, updates = ids[~keep], ids[keep], updates[keep.to(updates.device)]
        if own < torch.inf and float(torch.linalg.vector_norm(theta)) <= BLOATED * self.first:
            self._name(bad.tolist(), t)
            return ids, updates, nobody
        if len(bad) and not self.warned:
            warnings.warn(
                f"round {t}: training diverges from this model; {len(bad)} updates that are not "
                "finite or far too long are left out, and nobody is named",
                stacklevel=4,
            )
            self.warned = True
        return ids, updates, bad

    def _own(self, theta: Tensor, t: int) -> float:
        """Length of the update that the server's own samples give; infinite if it is not finite."""
        samples, server = self.server.validation, self.server
        fed = Federation.from_datasets(
            [samples], validation=samples, test=samples, classes=server.classes
        )
        alone, shuffles = torch.tensor([0]), Shuffles(fed, self.local, server.seed)
        given = (alone, shuffles, t, torch.zeros_like(theta), theta.new_empty(1, len(theta)))
        update = round_updates(fed, server.net, theta, *given)
        length = float(torch.linalg.vector_norm(update, dtype=torch.float64))
        return length if length < torch.finfo(theta.dtype).max ** 0.5 else torch.inf

    def _name(self, bad: list[int], t: int) -> None:
        new = [k for k in bad if not self.times[k]]
        self.times.update(bad)
        if new:
            warnings.warn(
                f"round {t}: client {names(new)} sent an update that is not finite or far too "
                "long; it is left out, now and whenever that happens again",
                stacklevel=5,
            )

    def sum_up(self) -> None:
        """How often clients were left out, where once is not all."""
        often = [f"client {k} in {n} rounds" for k, n in sorted(self.times.items()) if n > 1]
        if often:
            warnings.warn(f"left out: {', '.join(often)}", stacklevel=4)
