"""Attacks: what a client sends instead of its update, every round.

Chapter 1 uses them. The repr of an attack says what it does; the federation keeps this text in
`truth`. Attacks do not change the honest updates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..parse import checks


class UpdateAttack:
    """What a client sends instead of its update: ``attack(updates, previous, generator)``.

    updates [m, P]   the honest updates, one row per attacking client
    previous         the server's last step, theta_t - theta_(t-1): [P] or [m, P]; None in round 1
    returns [m, P]   what the clients send; ``updates`` does not change
    """

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say what it sends")


@dataclass(frozen=True)
class SignFlip(UpdateAttack):
    """Sends the reversed update: ``-strength * update``."""

    strength: float = 1.0

    def __post_init__(self) -> None:
        checks.store(self, strength=checks.number("strength", self.strength, 0, ends="()"))

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        return -self.strength * _matrix(updates)


@dataclass(frozen=True)
class FreeRide(UpdateAttack):
    """Trains nothing: sends Gaussian noise, of standard deviation ``noise`` in every parameter."""

    noise: float = 1e-3

    def __post_init__(self) -> None:
        checks.store(self, noise=checks.number("noise", self.noise, 0))

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        updates = _matrix(updates)
        checks.instance("generator", generator, Generator, "a torch.Generator")
        # Double precision on the CPU gives the same noise in every type and on every device.
        drawn = torch.randn(updates.shape, generator=generator, dtype=torch.float64)
        return (self.noise * drawn).to(updates)


@dataclass(frozen=True)
class Scale(UpdateAttack):
    """Sends ``factor * update``: a large factor boosts the update, a small factor hides it."""

    factor: float

    def __post_init__(self) -> None:
        checks.store(self, factor=checks.number("factor", self.factor))

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        return self.factor * _matrix(updates)


@dataclass(frozen=True)
class Replay(UpdateAttack):
    """Trains nothing: sends the server's last step back; zeros in round 1."""

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        updates = _matrix(updates)
        if previous is None:
            return torch.zeros_like(updates)
        last_step = checks.reals("previous", previous, ["..."], finite=False).to(updates)
        vector, matrix = updates.shape[1:], updates.shape
        # One step for all rows, or one per row if several runs are trained at once.
        if last_step.shape not in (vector, matrix):
            expected = f"{checks.dims(vector)} or {checks.dims(matrix)}"
            got = checks.dims(last_step.shape)
            raise ValueError(f"previous: expected shape {expected}, got {got}")
        # Rows of an expanded tensor share memory, so a clone is needed before a row is changed.
        return last_step.expand_as(updates).clone()


def _matrix(updates: Tensor) -> Tensor:
    return checks.reals("updates", updates, ["m", "P"], finite=False)
