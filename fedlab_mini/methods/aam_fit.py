"""Fit the accuracy approximation model, either to convergence or for a number of steps. Chapter 7.

The paper runs Adam for a number of steps [Shyn et al. 2021], as ``fit_aam`` does. ``settle``
minimises the squared error from several starts: qualities mean something only if all starts lead to
the same ranking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..streams import one_thread, stream
from .aam import AAM, RESTING
from .adam import adam_step

NODES = 10  # of the AAM's hidden layer
# A descent ends after three steps in a row with a relative gain below CALM.
MOST_STEPS, CALM = 300, 1e-9
MOST_TRIES = 12  # how often a step that raises the error is repeated with more damping
NEGLIGIBLE = 1e-3  # a quality below this share of the mean counts as 0


@dataclass(frozen=True)
class Settled:
    """The best of several fits, and the results of the others.

    model      an AAM with one node [F = 1]            omega [starts, K]  qualities, best fit first
    loss       [starts] mean squared errors            agreement  lowest rank correlation of starts
    """

    model: AAM
    omega: Tensor
    loss: Tensor
    agreement: float


def settle(sizes: Tensor, accuracy: Tensor, starts: int = 3, seed: int = 0) -> Settled:
    """Fit the linear form to convergence, from equal and from random qualities.

    sizes [S, R, K], accuracy [S, R]; a quality below a thousandth of the mean counts as 0
    raises        ValueError or TypeError naming the argument
    """
    clients = sizes.shape[2]
    chance = stream(seed, "settle")
    first = torch.rand(starts, clients, generator=chance, dtype=torch.float64) * 2 / clients
    first[0] = 1 / clients
    # A client that never participated changes no guess, so no descent would lower its quality.
    first = first.to(sizes) * (sizes > 0).flatten(0, 1).any(0)
    with one_thread():
        descents = [_descend(sizes, accuracy, omega) for omega in first]
    losses = torch.tensor([loss for _, loss in descents])
    best_first = losses.argsort().tolist()
    points = torch.stack([descents[start][0] for start in best_first])
    omega = points[:, :clients]
    model = one_node(points[0], clients)
    return Settled(model, omega, losses[best_first], rank_agreement(omega))


def one_node(point: Tensor, clients: int) -> AAM:
    """The AAM [F = 1] with one node that collapses to a point (omega [K], a [R], c)."""
    omega, increments, intercept = point[:clients], point[clients:-1], point[-1]
    one = torch.ones(1, 1).to(point)
    level = intercept - RESTING * increments.sum()
    return AAM(omega[None], increments[None, None], level.view(1, 1), one, torch.zeros_like(one[0]))


def rank_agreement(scores: Tensor) -> float:
    """Lowest rank correlation of two rows of scores [F, K], ties at mean rank; 1 if all rows agree.

    A row of equal scores ranks nobody, so its correlation with any other ranking is 0.
    """
    # Clients below minus clients above: twice the centred rank, where ties share their mean rank.
    ranks = (scores[:, :, None] - scores[:, None, :]).sign().sum(2)
    if (ranks == ranks[0]).all():
        return 1.0
    units = torch.nn.functional.normalize(ranks, dim=1)
    return float((units @ units.T).min())


@dataclass(frozen=True)
class _Guess:
    """The collapsed model at a point p = (omega [K], a [R], c), compared with the data."""

    point: Tensor
    squashed: Tensor  # sigmoid(X) [S, R]
    error: Tensor  # guess minus accuracy, [S R]
    loss: float


def _guess(point: Tensor, sizes: Tensor, accuracy: Tensor) -> _Guess:
    clients = sizes.shape[2]
    squashed = (sizes @ point[:clients]).sigmoid()
    error = ((squashed - 0.5) * point[clients:-1]).cumsum(1) + point[-1] - accuracy
    return _Guess(point, squashed, error.flatten(), float(error.square().mean()))


def _jacobian(guess: _Guess, sizes: Tensor) -> Tensor:
    """The derivative of every guess by every parameter, [S R, K + R + 1]."""
    simulations, rounds, clients = sizes.shape
    increments, squashed = guess.point[clients:-1], guess.squashed
    # The derivative of a sigmoid s is s (1 - s). All later guesses keep what a round adds.
    by_weighted = squashed * (1 - squashed) * increments
    by_omega = (sizes * by_weighted[:, :, None]).cumsum(1)
    # Round r' changes all guesses from r' on.
    later = torch.ones(rounds, rounds).to(sizes).tril()
    by_increments = (squashed - 0.5)[:, None] * later
    by_intercept = torch.ones(simulations, rounds, 1).to(sizes)
    return torch.cat([by_omega, by_increments, by_intercept], 2).flatten(0, 1)


def _descend(sizes: Tensor, accuracy: Tensor, omega: Tensor) -> tuple[Tensor, float]:
    """Levenberg-Marquardt on (omega, a, c) with omega >= 0; returns the point and its loss."""
    rounds, clients = sizes.shape[1:]
    start = [omega, omega.new_full((rounds,), 0.1), accuracy.mean()[None]]
    guess = _guess(torch.cat(start), sizes, accuracy)
    damping, calm_steps = 1e-2, 0
    for _ in range(MOST_STEPS):
        jacobian = _jacobian(guess, sizes)
        gradient = jacobian.T @ guess.error
        curvature = jacobian.T @ jacobian
        free = torch.ones_like(guess.point, dtype=torch.bool)
        # A quality at 0 whose gradient points below 0 stays there and is left out of the step.
        free[:clients] = ~((guess.point[:clients] <= 0) & (gradient[:clients] > 0))
        for _ in range(MOST_TRIES):
            point = guess.point - _damped_step(gradient, curvature, free, damping)
            point[:clients].clamp_(min=0)
            trial = _guess(point, sizes, accuracy)
            if trial.loss < guess.loss:
                break
            damping *= 4
        else:
            break
        # One small gain may come from too much damping; three in a row mean convergence.
        calm_steps = calm_steps + 1 if guess.loss - trial.loss < CALM * guess.loss else 0
        guess = trial
        damping = max(damping / 5, 1e-10)
        if calm_steps == 3:
            break
    # Damping leaves tiny values for qualities that tend to 0; they would count as contributions.
    quality = guess.point[:clients]
    quality[quality < NEGLIGIBLE * quality.mean()] = 0
    return guess.point, guess.loss


def _damped_step(gradient: Tensor, curvature: Tensor, free: Tensor, damping: float) -> Tensor:
    step = torch.zeros_like(gradient)
    damped = curvature[free][:, free]
    # Each parameter is damped in proportion to its curvature, or slightly if it has none.
    damped.diagonal().add_(damping * damped.diagonal() + 1e-12)
    step[free] = torch.linalg.solve(damped, gradient[free])
    return step


@dataclass(frozen=True)
class Fit:
    """F AAMs as Adam left them.

    model            the AAMs
    loss [steps // every, F]      mean squared error on the simulations fitted, before every
                                  ``every``-th step
    omega [steps // every, F, K]  the qualities after that step
    """

    model: AAM
    loss: Tensor
    omega: Tensor
    every: int


def fit_aam(
    sizes: Tensor,
    accuracy: Tensor,
    *,
    used: Tensor | None = None,
    starts: int = 1,
    start: str = "equal",
    form: str = "linear",
    steps: int = 3000,
    lr: float = 0.01,
    every: int = 50,
    seed: int = 0,
) -> Fit:
    """Fit AAMs by Adam on the mean squared error of all rounds, all fits in one stack.

    sizes [S, R, K], accuracy [S, R]
    used [F, S]   weight of each simulation in each of F fits, 0 leaves it out; instead of it:
    starts        how many fits to all simulations, from different starts
    start         omega begins "equal" (1 / K) or "random" (uniform in [0, 2 / K))
    steps, lr     of Adam;  every: loss and omega are stored after so many steps
    omega stays >= 0, which picks one of two equal models, (omega, a) and (-omega, -a)
    raises        ValueError or TypeError naming the argument
    """
    used = torch.ones(starts, len(sizes), dtype=torch.float64) if used is None else used
    # The weight of each squared error, [F, S].
    weight = used / (used.sum(1, keepdim=True) * sizes.shape[1])
    # The fit begins at the mean accuracy, so Adam spends no steps on getting there.
    level = (accuracy * weight[:, :, None]).sum((1, 2))
    parameters = _first_parameters(sizes, level, start, seed)
    moments = [[torch.zeros_like(parameter) for parameter in parameters] for _ in range(2)]
    step_counts = [torch.zeros((), device=level.device) for _ in parameters]
    omega = parameters[0]
    slopes_of = _linear_slopes if form == "linear" else _hidden_slopes
    losses = omega.new_empty(steps // every, len(omega))
    omegas = omega.new_empty(steps // every, *omega.shape)
    with one_thread():
        for step in range(1, steps + 1):
            model = AAM(*parameters, form=form)
            loss, slopes = slopes_of(model, sizes, accuracy, weight)
            adam_step(parameters, slopes, *moments, state_steps=step_counts, lr=lr)
            omega.clamp_(min=0)
            if step % every == 0:
                losses[step // every - 1], omegas[step // every - 1] = loss, omega
    return Fit(AAM(*parameters, form=form), losses, omegas, every)


def _linear_slopes(
    model: AAM, sizes: Tensor, accuracy: Tensor, weight: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Loss [F] of the linear form and its derivatives, from the collapsed line (chapter 7).

    Autograd would take twice as long, which matters because a fit has thousands of steps.
    """
    increments, intercept = model.collapsed()
    squashed = model.weighted(sizes).sigmoid_()
    added = squashed - RESTING  # by a round, in units of its increment
    guess = (added * increments[:, None]).cumsum(2).add_(intercept[:, None, None])
    error = guess.sub_(accuracy)
    by_guess = error * (2 * weight[:, :, None])
    loss = (error * by_guess).sum((1, 2)) / 2
    # The chain rule back through c = W2 b1 + b2 + sum(a) / 2, and then through a = W2 W1.
    by_intercept = by_guess.sum((1, 2))
    later = by_guess.flip(2).cumsum(2).flip(2)  # round r' changes all guesses from r' on
    by_increments = (later * added).sum(1) + RESTING * by_intercept[:, None]
    by_weighted = later.mul_(increments[:, None]).mul_(squashed).mul_(1 - squashed)
    return loss, [
        by_weighted.flatten(1) @ sizes.flatten(0, 1),
        model.w2[:, :, None] * by_increments[:, None],
        model.w2 * by_intercept[:, None],
        (model.w1 * by_increments[:, None]).sum(2) + model.b1 * by_intercept[:, None],
        by_intercept,
    ]


def _hidden_slopes(
    model: AAM, sizes: Tensor, accuracy: Tensor, weight: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Loss [F] of the hidden form and its derivatives, by autograd."""
    parameters = (model.omega, model.w1, model.b1, model.w2, model.b2)
    leaves = [parameter.detach().requires_grad_() for parameter in parameters]
    with torch.enable_grad():
        guess = AAM(*leaves, form="hidden")(sizes)
        loss = ((guess - accuracy).square() * weight[:, :, None]).sum((1, 2))
        gradients = torch.autograd.grad(loss.sum(), leaves)
    # Fused Adam walks through memory, so gradients need the same memory layout as parameters.
    return loss.detach(), [gradient.contiguous() for gradient in gradients]


def _first_parameters(sizes: Tensor, level: Tensor, start: str, seed: int) -> list[Tensor]:
    """Initial omega [F, K], w1 [F, H, R], b1 [F, H], w2 [F, H], b2 [F].

    The later layers begin with absolute values of weights drawn as in PyTorch. If some slopes
    began below 0, the clamp could drive every omega to 0, and at X = 0 nothing is learned. The last
    bias begins at ``level`` [F], the mean accuracy. A client that never participated has omega 0.
    Each fit draws from its own stream.
    """
    fits, (rounds, clients) = len(level), sizes.shape[1:]

    def draw(name: str, *shape: int) -> Tensor:
        streams = (stream(seed, name, fit) for fit in range(fits))
        draws = [torch.rand(shape, generator=chance, dtype=torch.float64) for chance in streams]
        return torch.stack(draws).to(level)

    def layer(name: str, *shape: int, inputs: int) -> Tensor:
        return (2 * draw(name, *shape) - 1).abs() / math.sqrt(inputs)

    w1 = layer("w1", NODES, rounds, inputs=rounds)
    b1 = layer("b1", NODES, inputs=rounds)
    w2 = layer("w2", NODES, inputs=NODES)
    if start == "random":
        omega = draw("omega", clients) * 2 / clients
    else:
        omega = level.new_full((fits, clients), 1 / clients)
    took_part = (sizes > 0).flatten(0, 1).any(0)
    return [omega * took_part, w1, b1, w2, level]
