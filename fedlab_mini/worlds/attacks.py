"""Attacks: what a client sends instead of its update, every round.

Chapters 1 and 13 use them. They differ in what the attacker must know: nothing, its own update, the
server's last step, how long other updates are, another client's update. The repr of an attack says
what it does; the federation keeps this text in `truth`. Attacks do not change the honest updates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..parse import checks
from ..parse.settings import Count, Natural, NotNegative, Positive, Settings


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
        return self.of(self.client)

    @property
    def others(self) -> Tensor:
        """The honest updates of the other clients in the round, [m - 1, P]."""
        return self.updates[self.clients != self.client]

    @property
    def usual_length(self) -> Tensor:
        """The median length of the other clients' updates; alone, the length of the own one."""
        rows = self.others if len(self.others) else self.updates
        return rows.norm(dim=1).median()

    def of(self, client: int) -> Tensor:
        """A client's honest update, [P]; zeros if it does not take part in the round."""
        rows = self.updates[self.clients == client]
        return rows[0] if len(rows) else torch.zeros_like(self.theta)


class UpdateAttack(Settings):
    """What a client sends instead of its update; an attack of your own says it in ``sends``.

    looks_around  whether it may read more than its own update, its data and the last step
    """

    looks_around = True

    def sends(self, known: Known) -> Tensor:
        """What the client sends in a round, [P]; ``known.updates`` does not change."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it sends")

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

    looks_around = False
    strength: Positive = 1.0

    def sends(self, known: Known) -> Tensor:
        return -self.strength * known.update


@dataclass(frozen=True)
class FreeRide(UpdateAttack):
    """Trains nothing: sends Gaussian noise, of standard deviation ``noise`` in every parameter."""

    looks_around = False
    noise: NotNegative = 1e-3

    def sends(self, known: Known) -> Tensor:
        return _noise(known, self.noise)


@dataclass(frozen=True)
class Scale(UpdateAttack):
    """Sends ``factor * update``: a large factor boosts the update, a small factor hides it."""

    looks_around = False
    factor: float

    def sends(self, known: Known) -> Tensor:
        return self.factor * known.update


@dataclass(frozen=True)
class Replay(UpdateAttack):
    """Trains nothing: sends the server's last step back; zeros in round 1."""

    looks_around = False

    def sends(self, known: Known) -> Tensor:
        return known.last_step


@dataclass(frozen=True)
class NoisyReplay(UpdateAttack):
    """Trains nothing: sends the server's last step with Gaussian noise in every parameter.

    noise   standard deviation of the noise, as a share of the step's root mean square
    source  "advanced delta weights" [Lin et al. 2019]
    """

    looks_around = False
    noise: NotNegative = 0.1

    def sends(self, known: Known) -> Tensor:
        size = known.last_step.norm() / len(known.last_step) ** 0.5
        return known.last_step + _noise(known, self.noise) * size


# --- attacks that see more than their own update and the last step -------------------------------


@dataclass(frozen=True)
class AtMedianLength(UpdateAttack):
    """Another attack's row, as long as the median of the other clients' updates.

    The attacker knows, or guesses, how long updates are. A row of zeros stays one.
    """

    inside: UpdateAttack

    def __post_init__(self) -> None:
        checks.instance("inside", self.inside, UpdateAttack, "an attack such as FreeRide()")

    def sends(self, known: Known) -> Tensor:
        row = self.inside.sends(known)
        return row * (known.usual_length / row.norm().clamp(min=1e-30))


@dataclass(frozen=True)
class Disguise(UpdateAttack):
    """Trains nothing, and looks like an honest client to a detector that it knows.

    Sends a mixture of the server's last step and noise, with the median length of the other
    clients' updates and the median of their cosines with the last step.

    source  the adaptive free riders of [Fraboni et al. 2021] and of Flower's benchmark, in our form
    """

    def sends(self, known: Known) -> Tensor:
        others, noise = known.others, _noise(known)
        if not known.last_step.any() or not len(others):  # round 1: nothing to compare with
            return known.usual_length * noise / noise.norm()
        step = known.last_step / known.last_step.norm()
        cosine = torch.nn.functional.cosine_similarity(others, step[None]).median()
        noise = noise - (noise @ step) * step
        sideways = (1 - cosine**2).clamp(min=0).sqrt() * noise / noise.norm()
        return known.usual_length * (cosine * step + sideways)


@dataclass(frozen=True)
class CopyOf(UpdateAttack):
    """Sends the update of another client; zeros in a round without that client.

    victim  the id of the client whose update is copied
    """

    victim: Natural

    def sends(self, known: Known) -> Tensor:
        return known.of(self.victim)


@dataclass(frozen=True)
class Against(UpdateAttack):
    """Trains, and pushes against another client to lower that client's score.

    Sends its own honest update minus ``strength`` times the other's direction at its own length,
    and then as long as the honest update was. Without that client it sends its honest update.

    victim    the id of the client that shall score less
    strength  0: honest; the larger, the more the row points away from the other's update
    source    the aim is that of [arXiv 2509.19921], which searches for the best row; this is a
              single step in its direction
    """

    victim: Natural
    strength: NotNegative = 1.0

    def sends(self, known: Known) -> Tensor:
        own, other = known.update, known.of(self.victim)
        length = own.norm()
        row = own - self.strength * length * other / other.norm().clamp(min=1e-30)
        return row * (length / row.norm().clamp(min=1e-30))


@dataclass(frozen=True)
class Withhold(UpdateAttack):
    """Takes part from the first round on, but sends zeros before round ``until``."""

    looks_around = False
    until: Count

    def sends(self, known: Known) -> Tensor:
        return known.update if known.t >= self.until else torch.zeros_like(known.update)


@dataclass(frozen=True)
class PredictedStep(UpdateAttack):
    """Trains nothing: predicts the server's next step from its last ones, and sends the prediction.

    The last step changes with the model as a gradient does: s_t = s_(t-1) - B (theta_t -
    theta_(t-1)), with B from the last differences of models and steps by L-BFGS. Where the
    prediction is longer than twice the last step, it is cut to that length.

    memory  how many differences are used; the first rounds, without any, replay the last step
    source  the aim and the form of ACE [Xu et al. 2024], which also trains on its own data in the
            first rounds
    """

    memory: Count = 5

    def sends(self, known: Known) -> Tensor:
        step, past = known.last_step, known.state.get("steps")
        if not step.any():
            return step
        steps = step[None] if past is None else torch.cat([past, step[None]])[-self.memory - 1 :]
        known.state["steps"] = steps
        predicted = step
        if len(steps) > 1:
            # Each step is also the difference between the model before it and the model after it.
            predicted = step - _times_hessian(steps[:-1], -steps.diff(dim=0), step)
        longest = 2 * step.norm()
        return predicted * (longest / predicted.norm().clamp(min=1e-30)).clamp(max=1)


def _times_hessian(models: Tensor, slopes: Tensor, vector: Tensor) -> Tensor:
    """B @ vector [P] for the L-BFGS matrix B of differences of models and slopes, both [k, P].

    source  [Byrd et al. 1994, Theorem 2.3]; pairs without positive curvature are left out
    """
    dtype, models, slopes = vector.dtype, models.double(), slopes.double()
    vector = vector.double()
    curved = (models * slopes).sum(1) > 1e-12 * models.norm(dim=1) * slopes.norm(dim=1)
    models, slopes = models[curved], slopes[curved]
    if not len(models):
        return torch.zeros_like(vector, dtype=dtype)
    products = models @ slopes.T
    first = (slopes[-1] @ slopes[-1]) / products[-1, -1]  # B before the first pair is first * I
    lower, diagonal = products.tril(-1), products.diagonal().diag()
    middle = torch.cat(
        [torch.cat([first * models @ models.T, lower], 1), torch.cat([lower.T, -diagonal], 1)]
    )
    ends = torch.cat([first * models, slopes])
    return (first * vector - ends.T @ torch.linalg.lstsq(middle, ends @ vector).solution).to(dtype)


def _noise(known: Known, scale: float = 1.0) -> Tensor:
    """Gaussian noise [P], drawn in double precision: the same in every type, on every device."""
    drawn = torch.randn(len(known.theta), generator=known.generator, dtype=torch.float64)
    return (scale * drawn).to(known.theta)
