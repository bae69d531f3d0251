"""Local training: what the clients of a round do, as many of them at once as their model allows.

``plain.py`` is the readable twin, one client after another. Perceptrons train in a stack by hand,
other modules in a stack by ``vmap``, and those that ``probe`` says must be asked alone one by one.
Below: stacks, alone. Above: updates.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..worlds.federation import Federation
from .alone import Alone
from .minibatches import LocalSGD, Plan, Shuffles
from .model import CACHE, Model
from .numerics import no_denormals, one_thread
from .stacks import ModuleStack, PerceptronStack, Stack

__all__ = ["LocalSGD", "Shuffles", "finite_rows", "train_rows"]

STACK = 5 << 20  # bytes of parameters trained in one stack: they stay in the cache


def train_rows(
    fed: Federation,
    net: Model,
    thetas: Tensor,
    run: Tensor,
    entry: Tensor,
    plan: Plan,
    lr: float,
    *,
    out: Tensor | None = None,
    shuffles: Shuffles | None = None,
) -> Iterator[tuple[slice, Tensor]]:
    """Train R rows, row r from ``thetas[run[r]]`` on the minibatches of entry ``entry[r]``.

    thetas [B, P]; run, entry [R], entries with more steps, then more samples first; lr step size
    out       [R, P] where the updates go; shuffles  whose working memory serves again
    yields    (slice of rows, updates [rows, P]) stack by stack; without ``out`` the next stack
              overwrites the updates, so memory is bounded by a stack, not by R
    """
    with one_thread(), no_denormals():
        at_once = rows_at_once(fed, net, plan, len(run))
        stack = shuffles.stack if shuffles else None
        if stack is None or stack.net is not net or stack.most < at_once:
            stack = new_stack(fed, net, thetas, plan, at_once)
        if shuffles:
            shuffles.stack = stack
        stack.begin_round(plan, lr)
        for low in range(0, len(run), at_once):
            rows = slice(low, low + at_once)
            part = None if out is None else out[rows]
            yield rows, stack.train(thetas, run[rows], entry[rows], part)


def rows_at_once(fed: Federation, net: Model, plan: Plan, rows: int) -> int:
    """How many of the rows the cache holds: their parameters, and what a step keeps."""
    number = fed.x.element_size()
    fitting = STACK // (net.P * number)
    if not net.layers and (kept := net.numbers_per_sample(fed.x, training=True)):
        batch = plan.blocks.shape[1]
        fitting = min(fitting, CACHE // (kept * batch * number))
    return min(rows, max(1, fitting))


def new_stack(fed: Federation, net: Model, like: Tensor, plan: Plan, most: int) -> Stack | Alone:
    """Working memory for ``most`` rows, of the kind that the model needs."""
    batch = plan.blocks.shape[1]
    if net.layers:
        return PerceptronStack(net, fed, like, most, batch)
    if net.numbers_per_sample(fed.x, training=True):
        return ModuleStack(net, fed, like, most, batch)
    return Alone(net, fed, like, most)


def finite_rows(updates: Tensor) -> Tensor:
    """Which rows [m] of updates [m, P] hold no NaN and no infinite value."""
    if updates.numel() == 0:
        return torch.ones(len(updates), dtype=torch.bool)
    finite = torch.isfinite(updates.sum(1))  # a finite sum has finite terms: one fast pass
    if not finite.all():  # a sum may overflow: look again at every value
        finite = torch.isfinite(updates.amin(1)) & torch.isfinite(updates.amax(1))
    return finite
