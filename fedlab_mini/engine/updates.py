"""Updates: from shares of data to what clients send, and which of it counts.

One training and many at once take this same way. Chapter 1 derives it for one, chapter 3 for many.
Below: local, minibatches. Above: train, simulate, flower.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..checks import reals
from ..streams import stream
from ..worlds.federation import Federation
from .local import train_rows
from .minibatches import LocalSGD, Shuffles
from .model import Model
from .rounds import Server

# An update is too long at this many times the first model and the server's own update.
TOO_LONG = 1e4
DIVERGED = 100.0  # and a model is beyond blaming a client, at this many times the first


class Participants(NamedTuple):
    """Who trains in a round: client ``client[i]`` of run ``run[i]``, on ``samples[i]``; all [R]."""

    run: Tensor
    client: Tensor
    samples: Tensor


def samples_used(fed: Federation, shares: Tensor) -> Tensor:
    """How many samples [..., K] the clients use at these shares [..., K]: rounded up, 0 for 0."""
    # A tenth of ten samples is one, in float32 too, where 0.1 is a little more than a tenth.
    fractional_counts = shares.double() * fed.sizes * (1 - 1e-7)
    counts = torch.ceil(fractional_counts).clamp_(max=fed.sizes).long()
    # A share of 1 is all; of more than ten million samples the factor above takes some away.
    counts = torch.where(shares >= 1, fed.sizes, counts)
    # A share above 0 is at least one sample, however small the client.
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
    last_steps: Tensor,
    out: Tensor | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """What the participants [R] send in round ``t``, attacks included, one stack after another.

    thetas, last_steps [B, P]  the model of every run, and what its server added to it last
    out     [R, P] where the updates go; without it the next stack overwrites them, so that memory
            is bounded by a stack
    yields  (positions [rows] among the participants, updates [rows, P])
    """
    run, client, samples = participants
    if len(client) == 0:
        return
    pairs = torch.stack([client, samples], 1)
    entry = torch.arange(len(pairs))
    if len(thetas) > 1:  # many runs share a client's minibatches
        pairs, entry = torch.unique(pairs, dim=0, return_inverse=True)
    plan = shuffles.plan(t, *pairs.numpy().T)
    # Rows with equally many steps side by side leave no gaps in a stack; lexsort is stable.
    stack_order = torch.from_numpy(
        np.lexsort((-samples.numpy(), -plan.steps[entry].numpy()))
    )
    run, client, entry = run[stack_order], client[stack_order], entry[stack_order]
    in_order = torch.equal(stack_order, torch.arange(len(stack_order)))
    # Stacks write into slices of ``out``; in another order, rows are copied to their places below.
    place = out if in_order else None
    lr = shuffles.local.rate(t)
    stacks = train_rows(
        fed, net, thetas, run, entry, plan, lr, out=place, shuffles=shuffles
    )
    for stack_rows, updates in stacks:
        # In place, and before anything is copied: nobody sees what an attacker has trained.
        attack(
            fed,
            updates,
            client[stack_rows],
            last_steps,
            run[stack_rows],
            shuffles.seed,
            t,
        )
        if out is not None and not in_order:
            out[stack_order[stack_rows]] = updates
        yield stack_order[stack_rows], updates


def round_updates(
    fed: Federation,
    net: Model,
    theta: Tensor,
    ids: Tensor,
    shuffles: Shuffles,
    t: int,
    last_step: Tensor,
    memory: UpdateMemory | None = None,
) -> Tensor:
    """What the clients ``ids`` [m] send in round ``t`` of one training: updates [m, P]."""
    sizes = torch.from_numpy(shuffles.sizes[ids.numpy()])
    everybody = Participants(torch.zeros_like(ids), ids, sizes)
    # [m, P], filled stack by stack while the loop below runs the generator to its end
    updates = (memory or UpdateMemory()).lend(len(ids), theta)
    for _ in client_updates(
        fed, net, theta[None], everybody, shuffles, t, last_step[None], out=updates
    ):
        pass
    return updates


class UpdateMemory:
    """Memory for a round's updates; it serves again once nobody holds those of the round before.

    Fresh pages would cost a training of 100 clients a twentieth of its time
    """

    def __init__(self) -> None:
        self.rows = torch.empty(0, 0)
        self.lent: Callable[[], object] = lambda: None

    def lend(self, count: int, like: Tensor) -> Tensor:
        """Memory [count, P] for rows like ``like`` [P]."""
        # NumPy, whose array tells below who still holds the memory, has none on other devices.
        if like.device.type != "cpu" or like.dtype not in (torch.float32, torch.float64):
            return like.new_empty(count, len(like))
        fits = len(self.rows) >= count and self.rows.shape[1] == len(like)
        if self.lent() is not None or not fits:
            self.rows = like.new_empty(count, len(like))
        # Whatever views a strategy keeps, torch holds the array as long as one of them lives.
        array = self.rows[:count].numpy()
        self.lent = weakref.ref(array)
        return torch.from_numpy(array)


def attack(
    fed: Federation,
    updates: Tensor,
    ids: Tensor,
    last_steps: Tensor,
    run: Tensor,
    seed: int,
    t: int,
) -> None:
    """Let the attackers among the clients ``ids`` [m] change their rows of ``updates``, in place.

    run [m]  of which run each is, whose last step among ``last_steps`` [B, P] it knows
    """
    for client_id, attacker in fed.attacks.items():
        for row in (ids == client_id).nonzero().flatten().tolist():
            # Copies: an attack of anybody's own may work in place.
            honest, last_step = updates[[row]], last_steps[run[[row]]]
            # One stream a client and round: the same noise in every run.
            sent = attacker(honest, last_step, stream(seed, "attack", t, client_id))
            attack_name, shape = f"attack of client {client_id}", list(honest.shape)
            updates[row] = reals(
                attack_name, sent, shape, dtype=updates.dtype, finite=False
            )[0]


class Verdict(NamedTuple):
    """Of every update, [m] bool: does it count, and if not, may its client be blamed?"""

    usable: Tensor
    blamed: Tensor

    @property
    def unblamed(self) -> Tensor:
        """What does not count for a reason that is not the client's."""
        return ~self.usable & ~self.blamed


class UsableUpdates:
    """The rule of which updates count: those that are finite and not far too long.

    An update longer than ``TOO_LONG`` times the first model (or 1, if that is shorter) is compared
    with what the server gets by training on its own validation samples from the same model: longer
    than ``TOO_LONG`` times that, it is left out. No update is judged by those of other clients, of
    whom most may lie. Where the server's own training is not finite either, or the model is
    ``DIVERGED`` times as long as the first, model or step size are at fault: then no client is to
    blame, and none counts as missing.
    """

    def __init__(self, server: Server, first_length: float, local: LocalSGD):
        self.server, self.local, self.first_length = server, local, first_length
        dtype = server.validation[0].dtype
        self.largest = torch.finfo(dtype).max ** 0.5  # what is longer has no square
        self.measured, self.measured_round = torch.empty(0), 0

    def judge(
        self, thetas: Tensor, run: Tensor, updates: Tensor, t: int
    ) -> Verdict | None:
        """Which updates [m, P] of round ``t`` count; None: all of them.

        run [m]  from which model of ``thetas`` [B, P] each was trained
        """
        all_numbers, ordinary = updates.flatten(), TOO_LONG * self.first_length
        # One fast pass; false where not finite.
        if float(all_numbers @ all_numbers) <= ordinary**2:
            return None
        lengths = torch.linalg.vector_norm(updates, dim=1, dtype=torch.float64).cpu()
        # Not lengths > ordinary, which is false of a length that is NaN.
        suspect = ~(lengths <= ordinary)
        if not suspect.any():
            return None
        # Only runs with a suspect cost the server a training of its own.
        runs = run[suspect].unique()
        own_lengths = self._own_lengths(thetas, runs, t)
        # [B]: a limit for every run; finite also where the server's own training is not
        limits = torch.full([len(thetas)], ordinary, dtype=torch.float64)
        limits[runs] = (TOO_LONG * own_lengths).clamp(min=ordinary, max=self.largest)
        usable = lengths <= limits[run]
        model_lengths = torch.linalg.vector_norm(thetas, dim=1).cpu()
        sound = model_lengths <= DIVERGED * self.first_length
        # Where the server's own training diverges too, the model is at fault.
        sound[runs] &= own_lengths < torch.inf
        return Verdict(usable, ~usable & sound[run])

    def _own_lengths(self, thetas: Tensor, runs: Tensor, t: int) -> Tensor:
        """Lengths of the server's own updates of some runs; infinite where not finite."""
        if self.measured_round != t:
            self.measured = torch.full([len(thetas)], torch.nan, dtype=torch.float64)
            self.measured_round = t
        # Many stacks may ask about the same run; the server trains for it once a round.
        unmeasured = runs[self.measured[runs].isnan()]
        if len(unmeasured):
            self.measured[unmeasured] = self._train_server(
                thetas[unmeasured.to(thetas.device)], t
            )
        return self.measured[runs]

    def _train_server(self, thetas: Tensor, t: int) -> Tensor:
        """Lengths [B] of what the server's own samples give from the models ``thetas`` [B, P]."""
        # The server is the only client of a federation of its own: it trains as clients do.
        samples, classes = self.server.validation, self.server.classes
        alone = Federation.from_datasets(
            [samples], validation=samples, test=samples, classes=classes
        )
        run = torch.arange(len(thetas))
        client = torch.zeros_like(run)
        participants = Participants(run, client, alone.sizes[client])
        shuffles = Shuffles(alone, self.local, self.server.seed)
        lengths = torch.empty(len(thetas), dtype=torch.float64)
        for positions, updates in client_updates(
            alone,
            self.server.net,
            thetas,
            participants,
            shuffles,
            t,
            torch.zeros_like(thetas),
        ):
            own_length = torch.linalg.vector_norm(updates, dim=1, dtype=torch.float64)
            lengths[positions] = own_length.cpu()
        # NaN is below nothing, and so becomes infinite as well.
        return lengths.where(lengths < self.largest, torch.inf)
