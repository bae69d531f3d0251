"""Updates: from shares of data to what clients send, and which of it counts.

One training and many at once take this same way. Chapter 1 derives it for one, chapter 3 for many.
Below: local, minibatches. Above: train, simulate, flower.
"""

from __future__ import annotations

from collections.abc import Iterator
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

FAR_TOO_LONG = 1e4  # times the first model, and times the server's own update
DIVERGED = 100.0  # a model this many times as long as the first is beyond blaming a client


class Participants(NamedTuple):
    """Who trains in a round of some runs: client ``client[i]`` of run ``run[i]``, all [R].

    samples [R]  how many of its samples it uses
    """

    run: Tensor
    client: Tensor
    samples: Tensor


def samples_used(fed: Federation, shares: Tensor) -> Tensor:
    """How many samples [..., K] the clients use at these shares [..., K]: rounded up, 0 for 0."""
    # A tenth of ten samples is one, in float32 too, where a tenth lies above 1 / 10.
    rounding = 1 - 1e-7
    counts = torch.ceil(shares.double() * rounding * fed.sizes)
    counts = counts.clamp_(max=fed.sizes).long()
    counts = torch.where(shares >= 1, fed.sizes, counts)
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

    thetas [B, P] the model of every run; last_steps [B, P] what the servers added to it last
    out     [R, P] where the updates go; without it the next stack overwrites them, so that memory
            is bounded by a stack
    yields  (positions [rows] among the participants, updates [rows, P])
    """
    run, client, samples = participants
    if len(client) == 0:
        return
    entries, entry = _entries(participants, runs=len(thetas))
    plan = shuffles.plan(t, *entries.numpy().T)
    # Rows with equally many steps side by side leave no gaps in a stack; lexsort is stable.
    order = torch.from_numpy(np.lexsort((-samples.numpy(), -plan.steps[entry].numpy())))
    in_order = torch.equal(order, torch.arange(len(order)))
    stacks = train_rows(
        fed,
        net,
        thetas,
        run[order],
        entry[order],
        plan,
        shuffles.local.rate(t),
        out=out if in_order else None,
        shuffles=shuffles,
    )
    for rows, updates in stacks:
        positions = order[rows]
        senders, their_runs = client[positions], run[positions]
        attack(fed, updates, senders, their_runs, last_steps, shuffles.seed, t)
        if out is not None and not in_order:
            out[positions] = updates
        yield positions, updates


def _entries(participants: Participants, runs: int) -> tuple[Tensor, Tensor]:
    """The distinct pairs (client, samples) [E, 2], and which of them each participant is, [R]."""
    pairs = torch.stack([participants.client, participants.samples], 1)
    if runs == 1:  # nobody takes part twice, and sorting costs a small round a tenth
        return pairs, torch.arange(len(pairs))
    entries, entry = torch.unique(pairs, dim=0, return_inverse=True)
    return entries, entry


def round_updates(
    fed: Federation,
    net: Model,
    theta: Tensor,
    ids: Tensor,
    shuffles: Shuffles,
    t: int,
    last_step: Tensor,
) -> Tensor:
    """What the clients ``ids`` [m] send in round ``t`` of one training: updates [m, P]."""
    sizes = torch.from_numpy(shuffles.sizes[ids.numpy()])
    participants = Participants(torch.zeros_like(ids), ids, sizes)
    updates = theta.new_empty(len(ids), net.P)
    stacks = client_updates(
        fed, net, theta[None], participants, shuffles, t, last_step[None], out=updates
    )
    for _ in stacks:
        pass
    return updates


def attack(
    fed: Federation,
    updates: Tensor,
    ids: Tensor,
    run: Tensor,
    last_steps: Tensor,
    seed: int,
    t: int,
) -> None:
    """Let the attackers among the clients ``ids`` [m] change their rows of ``updates``, in place.

    run [m]  whose server's last step of ``last_steps`` [B, P] an attacker knows
    """
    for k, attacker in fed.attacks.items():
        for row in (ids == k).nonzero().flatten().tolist():
            # One stream a client and round: the same noise in every run and coalition.
            noise = stream(seed, "attack", t, k)
            last_step = last_steps[run[row]][None]
            honest = updates[row : row + 1]
            sent = attacker(honest, last_step, noise)
            updates[row] = reals(
                f"attack of client {k}", sent, list(honest.shape), dtype=updates.dtype, finite=False
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

    An update longer than ``FAR_TOO_LONG`` times the first model (or 1, if that is shorter) is
    compared with what the server gets by training on its own validation samples from the same
    model: longer than ``FAR_TOO_LONG`` times that, it is left out. No update is judged by those of
    other clients, of whom most may lie. Where the server's own training is not finite either, or
    the model is ``DIVERGED`` times as long as the first, model or step size are at fault: then
    the client is not to blame, and does not count as missing.
    """

    def __init__(self, server: Server, theta: Tensor, local: LocalSGD):
        self.server, self.local = server, local
        self.first_length = max(1.0, float(torch.linalg.vector_norm(theta)))
        # The square of what is longer has no number in the updates' type.
        self.longest = torch.finfo(theta.dtype).max ** 0.5
        self.measured_round, self.measured = 0, torch.empty(0)

    def judge(self, thetas: Tensor, run: Tensor, updates: Tensor, t: int) -> Verdict | None:
        """Which updates [m, P] of round ``t`` count; None: all of them.

        run [m]  from which model of ``thetas`` [B, P] each was trained
        """
        flat, ordinary = updates.flatten(), FAR_TOO_LONG * self.first_length
        if float(flat @ flat) <= ordinary**2:  # one fast pass; false where not finite
            return None
        lengths = torch.linalg.vector_norm(updates, dim=1, dtype=torch.float64).cpu()
        if (lengths <= ordinary).all():
            return None
        suspects = (~(lengths <= ordinary)).nonzero().flatten()
        runs, run_of_suspect = run[suspects].unique(return_inverse=True)
        own_lengths = self._own_lengths(thetas, runs, t)
        limits = (FAR_TOO_LONG * own_lengths).clamp(min=ordinary, max=self.longest)
        models = thetas[runs.to(thetas.device)]
        model_lengths = torch.linalg.vector_norm(models, dim=1).double().cpu()
        sound = (own_lengths < torch.inf) & (model_lengths <= DIVERGED * self.first_length)
        usable = torch.ones(len(updates), dtype=torch.bool)
        usable[suspects] = lengths[suspects] <= limits[run_of_suspect]
        blamed = torch.zeros_like(usable)
        blamed[suspects] = ~usable[suspects] & sound[run_of_suspect]
        return Verdict(usable, blamed)

    def _own_lengths(self, thetas: Tensor, runs: Tensor, t: int) -> Tensor:
        """Lengths of the server's own updates from the models ``thetas[runs]``, each made once."""
        if self.measured_round != t:
            self.measured = torch.full([len(thetas)], torch.nan, dtype=torch.float64)
            self.measured_round = t
        new = runs[self.measured[runs].isnan()]
        if len(new):
            self.measured[new] = self._train_server(thetas[new.to(thetas.device)], t)
        return self.measured[runs]

    def _train_server(self, thetas: Tensor, t: int) -> Tensor:
        """Lengths [B] of what the server's own samples give; infinite where it is not finite."""
        validation = self.server.validation
        alone = Federation.from_datasets(
            [validation], validation=validation, test=validation, classes=self.server.classes
        )
        run = torch.arange(len(thetas))
        client = torch.zeros_like(run)
        server_alone = Participants(run, client, alone.sizes[client])
        shuffles = Shuffles(alone, self.local, self.server.seed)
        no_steps = torch.zeros_like(thetas)
        lengths = torch.empty(len(thetas), dtype=torch.float64)
        stacks = client_updates(alone, self.server.net, thetas, server_alone, shuffles, t, no_steps)
        for positions, updates in stacks:
            length = torch.linalg.vector_norm(updates, dim=1, dtype=torch.float64)
            lengths[positions] = length.cpu()
        return lengths.where(lengths < self.longest, torch.inf)
