"""Attacks: what a client sends instead of its update, every round.

Chapter 1 uses them. The repr of an attack says what it does; the federation keeps this text in
`truth`. Attacks do not change the honest updates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..parse import checks
from ..parse.settings import NotNegative, Positive, Settings


@dataclass(frozen=True)
class Known:
    """The most that an attacking client can know when it sends; each attack says what it reads.

    t, client           the round, and the attacker's id
    theta, last_step    [P] the model that the server sent, and what it added to the model last
    clients, updates    [m] ids and [m, P] updates of all who train in this round, as honest work
                        gives them; where clients cannot see each other, its own alone
    x, y                the attacker's own samples
    state               what the attack has stored in earlier rounds, tensors by name; it may write
                        into this dict, and gets it back in the next round
    generator           its random numbers, from the seed, the client and the round
    """

    t: int
    client: int
    theta: Tensor
    last_step: Tensor
    clients: Tensor
    updates: Tensor
    x: Tensor
    y: Tensor
    state: dict[str, Tensor]
    generator: Generator

    @property
    def update(self) -> Tensor:
        """The attacker's own honest update, [P]."""
        return self.updates[self.clients == self.client][0]


class UpdateAttack(Settings):
    """What a client sends instead of its update: ``attack(updates, previous, generator)``.

    updates [m, P]   the honest updates, one row per attacking client
    previous         the server's last step, theta_t - theta_(t-1): [P] or [m, P]; None in round 1
    returns [m, P]   what the clients send; ``updates`` does not change

    An attack that needs more than its own update and the last step overrides ``sends``.
    """

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say what it sends")

    def sends(self, known: Known) -> Tensor:
        """What the client sends in a round, [P]."""
        return self(known.update[None], known.last_step[None], known.generator)[0]

    @property
    def looks_around(self) -> bool:
        """Whether the attack may read more than its own update and the last step."""
        return type(self).sends is not UpdateAttack.sends

    def sent(self, known: Known) -> Tensor:
        """What ``sends`` returns, checked: numbers [P], as the updates are."""
        like = known.updates
        name = f"attack of client {known.client}"
        found = checks.reals(name, self.sends(known), [like.shape[1]], finite=False)
        for part, value in known.state.items():
            checks.instance(f'{name}: state["{part}"]', value, Tensor, "a tensor")
        return found.to(like)


@dataclass(frozen=True)
class SignFlip(UpdateAttack):
    """Sends the reversed update: ``-strength * update``."""

    strength: Positive = 1.0

    def __call__(self, updates: Tensor, previous: Tensor | None, generator: Generator) -> Tensor:
        return -self.strength * _matrix(updates)


@dataclass(frozen=True)
class FreeRide(UpdateAttack):
    """Trains nothing: sends Gaussian noise, of standard deviation ``noise`` in every parameter."""

    noise: NotNegative = 1e-3

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
