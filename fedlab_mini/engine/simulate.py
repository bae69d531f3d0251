"""Simulation: many federated training runs at once, one for each row of a participation tensor.

Chapter 3 introduces it. Leave-one-out, exact Shapley values by retraining, truncated Monte Carlo
and removal curves are this one call with different tensors. Compared with a loop over ``train`` and
``FedAvg``, clients of all runs train in common stacks, and a client may use a part of its data.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from joblib import delayed
from torch import Tensor

from ..keep.files import Cache
from ..parse.metric import Metric
from ..streams import one_thread
from ..worlds.federation import Federation
from . import left_out, progress
from .local import (
    AttackStates,
    Participants,
    attack,
    client_updates,
    limit_of,
    samples_used,
    usable,
)
from .minibatches import LocalSGD, Shuffles
from .model import Model
from .outputs import quality
from .sweep import block_size, spread
from .train import first_model, of_clients, written_to

# (updates [m, P], samples [m]) -> the step [P] that is added to the model.
Rule = Callable[[Tensor, Tensor], Tensor]


def simulate(
    fed: Federation,
    net: Model,
    participation: Tensor,
    *,
    local: LocalSGD = LocalSGD(),  # noqa: B008
    seed: int = 0,
    metric: Metric = "accuracy",
    on: str = "validation",
    theta: Tensor | None = None,
    last: bool = False,
    rule: Rule | None = None,
    momentum: float = 0.0,
    cache: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> Tensor:
    """Many training runs at once; a tensor says who participates when, with how much data.

    participation [B, T, K]  share in [0, 1] (or bool) of its data that client k uses in round t of
                             run b: the first ceil(share * n_k) of one fixed shuffle; 0: absent
    metric, on   "accuracy", "loss" or a function of (outputs, labels), on the server's
                 "validation" or "test" samples
    last         evaluate the final models only
    rule         a function of a round's updates [m, P] and their clients' samples [m] that returns
                 the step [P], such as a median; by default their mean weighted by samples
    momentum     in [0, 1): this share of a run's last step is added to the next (server momentum)
    cache        folder for finished blocks; a run that was killed continues from them
    n_jobs       number of processes, through joblib; each takes blocks of up to 32 runs (128 if
                 some client uses only a share of its data). None: one process, or what
                 ``joblib.parallel_config`` says (Ray's backend: one, unless it names
                 ``n_jobs=-1``). The number of processes changes no byte of the result
    returns      [B, T] float64 ([B, 1] with ``last``). Up to rounding, run b depends on its own
                 participation alone; the same tensor gives the same bytes
    raises       ValueError or TypeError naming the argument. Unusable updates are left out as in
                 ``train`` (``local.usable``); a warning at the end names their clients
    cost         client epochs: sum of shares x epochs; memory: one block of runs, for any B and K
    """
    theta = first_model(fed, net, seed) if theta is None else theta
    left_out.warn_unusable_data(fed)
    shuffles = Shuffles(fed, local, seed)
    simulation = Simulation(fed, net, theta, shuffles, metric, on, last, rule, momentum)
    blocks = participation.split(block_size(fed, net, theta, participation, local))
    folder = None
    if cache is not None:
        work = of_clients(fed, net, local, seed, written_to(fed))
        settings = ("simulate", work, theta, metric, on, last)
        # Only what is not the default, so that folders of before are still found.
        folder = Cache(cache, (*settings, *(part for part in (rule, momentum) if part)))
    finished = [None if folder is None else folder.load(block) for block in blocks]
    found = {place: done for place, done in enumerate(finished) if done is not None}
    missing = [place for place in range(len(blocks)) if place not in found]
    # A clone, or each process would receive the whole tensor.
    tasks = (delayed(simulation.run_block)(blocks[place].clone()) for place in missing)
    bar = progress.bar(None, "blocks of runs", total=len(blocks), done=len(found))
    for place, result in zip(missing, spread(tasks, n_jobs), strict=True):
        found[place] = {name: part.numpy() for name, part in result.items()}
        if folder is not None:
            folder.save(found[place], blocks[place])
        bar.update()
    bar.close()
    done = [found[place] for place in range(len(blocks))]
    unused = np.flatnonzero(np.any([block["left_out"] for block in done], 0)).tolist()
    if unused:
        warnings.warn(
            f"client {left_out.names(unused)} sent updates that are not finite or far too long in "
            "some runs; they were left out of those rounds",
            stacklevel=2,
        )
    return torch.from_numpy(np.concatenate([block["values"] for block in done]))


@dataclass(frozen=True)
class Simulation:
    """What all blocks of runs share: the clients, the first model, and the metric."""

    fed: Federation
    net: Model
    theta: Tensor
    shuffles: Shuffles
    metric: Metric
    on: str
    last: bool
    rule: Rule | None = None
    momentum: float = 0.0

    def run_block(self, participation: Tensor) -> dict[str, Tensor]:
        """All rounds of runs [b, T, K]: values [b, T], and which clients were left out [K]."""
        runs, rounds, _ = participation.shape
        x, y = self.fed.server(self.on)
        block, values = Block(self, runs), []
        with one_thread():
            for t in range(1, rounds + 1):
                block.one_round(participation[:, t - 1], t)
                if not self.last or t == rounds:
                    (found,) = quality(self.net, block.thetas, x, y, self.metric)
                    values.append(found.cpu())
        return {
            "values": torch.stack(values, 1),  # T tensors [b] -> [b, T]
            "left_out": block.left_out,
        }


class Block:
    """The runs of one block: the global model of each, and the last step of each, [b, P]."""

    def __init__(self, simulation: Simulation, runs: int):
        self.fed, self.net = simulation.fed, simulation.net
        # Blocks may run in threads, so each needs its own working memory.
        self.shuffles = copy.copy(simulation.shuffles)
        # A clone, because the rows of an expanded tensor share memory (an exercise of chapter 1).
        self.thetas = simulation.theta.expand(runs, -1).clone()
        self.last_steps = torch.zeros_like(self.thetas)
        self.limit = limit_of(simulation.theta)
        self.left_out = torch.zeros(self.fed.clients, dtype=torch.bool)
        self.attack_states: AttackStates = {}
        # A rule needs all updates of a round at once, and so do attacks that look around.
        around = (attacker.looks_around for attacker in self.fed.attacks.values())
        self.rule, self.at_once = simulation.rule, simulation.rule is not None or any(around)
        self.momentum = simulation.momentum

    def one_round(self, shares: Tensor, t: int) -> None:
        """Train all clients with a share [b, K] above 0; add each run's weighted mean update."""
        counts = samples_used(self.fed, shares)
        # [b, K] -> R pairs (run, client), run by run
        run, client = counts.nonzero(as_tuple=True)
        participants = Participants(run, client, counts[run, client])
        # Chapter 1, step 4: for every run the sum of n_k delta_k, divided by the sum of n_k below.
        steps = torch.zeros_like(self.thetas)
        samples = torch.zeros(len(steps), dtype=steps.dtype)
        for positions, updates in self._sent(participants, t):
            runs = run[positions]
            weights = participants.samples[positions].to(steps.dtype)
            good = usable(updates, self.limit)
            if good is not None:
                # A weight of 0 removes their samples; their rows become 0, because 0 * NaN is NaN.
                weights = weights * good
                updates = updates.where(good.to(updates.device)[:, None], 0)
                self.left_out[client[positions][~good]] = True
            if self.rule is not None:
                self._by_rule(steps, runs, updates, weights)
                continue
            # In place to save memory; the next stack overwrites these updates anyway.
            weighted = updates.mul_(weights.to(updates)[:, None])
            # [rows, P] -> [b, P]; steps[runs] += weighted would add only one client of each run.
            steps.index_add_(0, runs.to(steps.device), weighted)
            samples.index_add_(0, runs, weights)
        # A run in which nobody sent anything has 0 samples and a step of 0.
        steps.div_(samples.clamp(min=1)[:, None].to(steps))
        if self.momentum:  # adding 0 would change the sign of a zero
            steps.add_(self.last_steps, alpha=self.momentum)
        self.last_steps = steps
        self.thetas += self.last_steps

    def _sent(self, participants: Participants, t: int) -> Iterator[tuple[Tensor, Tensor]]:
        """What the participants send, stack by stack or all at once; see ``client_updates``."""
        given = self.fed, self.net, self.thetas, participants, self.shuffles, t
        stacks: Iterable[tuple[Tensor, Tensor]] = client_updates(*given)
        if self.at_once:
            everybody = torch.arange(len(participants.client))
            updates = self.thetas.new_empty(len(everybody), self.net.P)
            for _ in client_updates(*given, out=updates):
                pass
            stacks = [(everybody, updates)]
        for positions, updates in stacks:
            if self.fed.attacks:
                those = Participants(*(part[positions] for part in participants))
                models = self.thetas, self.last_steps
                attack(self.fed, updates, those, *models, self.attack_states, self.shuffles.seed, t)
            yield positions, updates

    def _by_rule(self, steps: Tensor, runs: Tensor, updates: Tensor, weights: Tensor) -> None:
        """Put each run's step [P] by the rule into ``steps`` [b, P]; weight 0: left out."""
        assert self.rule is not None
        for run in runs.unique().tolist():
            rows = (runs == run) & (weights > 0)
            if rows.any():
                steps[run] = self.rule(updates[rows.to(updates.device)], weights[rows])
