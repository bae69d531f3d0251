"""Local training: the updates of a round's clients, and which of them are usable.

It is ClientUpdate of [McMahan et al. 2017, Algorithm 1], which ``plain`` writes out for one client
after another. Here many clients train at once (``fast.stacks``), send their parameters minus the
global ones, and attackers change their rows after all honest ones are known.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..streams import one_thread, stream
from ..worlds.attacks import Known
from ..worlds.federation import Federation
from .fast.stacks import train_rows
from .minibatches import Shuffles
from .model import Model
from .rounds import State, copied

TOO_LONG = 1e3  # times the first model's length (at least 1): a longer update is not used


def limit_of(theta: Tensor) -> float:
    """The greatest length of a usable update in a training run from ``theta`` [P]."""
    length = float(torch.linalg.vector_norm(theta, dtype=torch.float64))
    return min(TOO_LONG * max(1.0, length), sys.float_info.max)


def usable(updates: Tensor, limit: float) -> Tensor | None:
    """Which updates [m, P] are usable, [m] bool: finite and no longer than ``limit``.

    None if all are. Other clients' updates do not matter here, because most of them may be false.
    """
    numbers = updates.flatten()
    # If all together are within the limit, each is; NaN makes this false.
    if float(numbers @ numbers) <= limit * limit < math.inf:
        return None
    lengths = torch.linalg.vector_norm(updates, dim=1, dtype=torch.float64).cpu()
    return None if (lengths <= limit).all() else lengths <= limit


class Participants(NamedTuple):
    """Who trains in a round: a run, a client, and on how many samples; each [R]."""

    run: Tensor
    client: Tensor
    samples: Tensor


def samples_used(fed: Federation, shares: Tensor) -> Tensor:
    """How many samples [..., K] the clients use at these shares [..., K], rounded up."""
    # 0.1 of ten samples must be one sample, although 0.1 in float32 is slightly more than 0.1.
    fractional_counts = shares.double() * fed.sizes * (1 - 1e-7)
    counts = torch.ceil(fractional_counts).clamp_(max=fed.sizes).long()
    # A share of 1 means all samples; of more than ten million the factor would remove some.
    counts = torch.where(shares >= 1, fed.sizes, counts)
    # A share above 0 is at least one sample, even of a small client.
    counts[(shares > 0) & (counts == 0)] = 1
    counts[..., sorted(fed.unusable)] = 0
    return counts


def client_updates(
    fed: Federation,
    net: Model,
    thetas: Tensor,
    participants: Participants,
    shuffles: Shuffles,
    t: int,
    out: Tensor | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """The honest updates of the participants [R] in round ``t``, stack by stack.

    thetas [B, P]  the model of each run
    out     [R, P] memory for the updates; without it the next stack overwrites them, so that only
            one stack is in memory
    yields  (positions [rows] among the participants, updates [rows, P])
    """
    run, client, samples = participants
    if len(client) == 0:
        return
    pairs = torch.stack([client, samples], 1)
    entry = torch.arange(len(pairs))
    if len(thetas) > 1:  # several runs may share a client's minibatches
        pairs, entry = torch.unique(pairs, dim=0, return_inverse=True)
    plan = shuffles.plan(t, *pairs.numpy().T)
    # Sorted by their number of steps, rows leave no gaps in a stack; lexsort is stable.
    stack_order = torch.from_numpy(np.lexsort((-samples.numpy(), -plan.steps[entry].numpy())))
    run, entry, lr = run[stack_order], entry[stack_order], shuffles.local.rate(t)
    in_order = torch.equal(stack_order, torch.arange(len(stack_order)))
    # Stacks write into slices of ``out``; if the order has changed, rows are copied there below.
    place = out if in_order else None
    for rows, updates in train_rows(fed, net, thetas, run, entry, plan, lr, shuffles, place):
        if out is not None and not in_order:
            out[stack_order[rows]] = updates
        yield stack_order[rows], updates


def round_updates(
    fed: Federation,
    net: Model,
    theta: Tensor,
    ids: Tensor,
    shuffles: Shuffles,
    t: int,
    last_step: Tensor,
    memory: UpdateMemory | None = None,
    states: AttackStates | None = None,
) -> Tensor:
    """The updates [m, P] that the clients ``ids`` [m] send in round ``t`` of one training run.

    memory  for the result; states  what attacks remember, changed in place
    """
    sizes, seed = torch.from_numpy(shuffles.sizes[ids.numpy()]), shuffles.seed
    everybody = Participants(torch.zeros_like(ids), ids, sizes)
    # [m, P], filled stack by stack while the loop below exhausts the generator
    updates = (memory or UpdateMemory()).lend(len(ids), theta)
    with one_thread():
        for _ in client_updates(fed, net, theta[None], everybody, shuffles, t, out=updates):
            pass
        if fed.attacks:
            models = theta[None], last_step[None]
            attack(fed, updates, everybody, *models, {} if states is None else states, seed, t)
    return updates


class UpdateMemory:
    """Memory for a round's updates; it is used again when nobody holds the earlier updates.

    New memory each round would cost a training run of 100 clients a twentieth of its time
    """

    def __init__(self) -> None:
        self.rows = torch.empty(0, 0)
        self.lent: Callable[[], object] = lambda: None

    def lend(self, count: int, like: Tensor) -> Tensor:
        """Memory [count, P] for rows like ``like`` [P]."""
        # The array below tells whether the memory is in use, and NumPy has arrays on the CPU only.
        if like.device.type != "cpu" or like.dtype not in (torch.float32, torch.float64):
            return like.new_empty(count, len(like))
        fits = len(self.rows) >= count and self.rows.shape[1] == len(like)
        if self.lent() is not None or not fits:
            self.rows = like.new_empty(count, len(like))
        # While a strategy keeps any view of this memory, torch keeps the array alive.
        array = self.rows[:count].numpy()
        self.lent = weakref.ref(array)
        return torch.from_numpy(array)


AttackStates = dict[tuple[int, int], State]  # what each attack remembers, by (run, client)


def attack(
    fed: Federation,
    updates: Tensor,
    participants: Participants,
    thetas: Tensor,
    last_steps: Tensor,
    states: AttackStates,
    seed: int,
    t: int,
) -> None:
    """Let the attackers change their rows of the honest ``updates`` [R, P], in place.

    thetas, last_steps [B, P] of each run; states  what each attack has stored so far: updated
    """
    run, client, _ = participants
    # Whoever looks around sees honest rows, also those of other attackers.
    around = any(attacker.looks_around for attacker in fed.attacks.values())
    honest = updates.clone() if around else updates
    for client_id, attacker in fed.attacks.items():
        for row in (client == client_id).nonzero().flatten().tolist():
            of_run = int(run[row])
            seen = run == of_run if attacker.looks_around else torch.tensor([row])
            known = Known(
                t,
                client_id,
                thetas[of_run].clone(),
                last_steps[of_run].clone(),
                client[seen],
                honest[seen.to(honest.device)],
                *fed.client(client_id),
                copied(states.get((of_run, client_id), {})),
                # One random stream for each client and round, so all runs have the same noise.
                stream(seed, "attack", t, client_id),
            )
            updates[row] = attacker.sent(known)
            if known.state:
                states[of_run, client_id] = known.state
