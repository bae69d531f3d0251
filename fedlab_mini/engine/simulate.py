"""Simulation: many federated training runs at once, one for each row of a participation tensor.

Chapter 3 introduces it. Leave-one-out, exact Shapley values by retraining, truncated Monte Carlo
and removal curves are this one call with different tensors. A run in which all clients always
participate is ``train`` with ``FedAvg``. Below: local, sweep. Above: games, metrics.
"""

from __future__ import annotations

import copy
import os
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from joblib import delayed
from torch import Tensor

from ..parse.checks import array, choice, flag, instance
from ..streams import one_thread
from ..worlds.federation import Federation
from . import guard, progress
from .files import Cache
from .local import Participants, client_updates, limit_of, samples_used, usable
from .minibatches import LocalSGD, Shuffles
from .model import Model
from .objective import Metric, check_metric
from .outputs import judged
from .sweep import block_size, spread


def simulate(
    fed: Federation,
    net: Model,
    participation: Tensor,
    *,
    local: LocalSGD | None = None,
    seed: int = 0,
    metric: Metric = "accuracy",
    on: str = "validation",
    theta: Tensor | None = None,
    last: bool = False,
    cache: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> Tensor:
    """Many training runs at once; a tensor says who participates when, with how much data.

    participation [B, T, K]  share in [0, 1] (or bool) of its data that client k uses in round t of
                             run b: the first ceil(share * n_k) of one fixed shuffle; 0: absent
    metric, on   "accuracy", "loss" or a function of (outputs, labels), on the server's
                 "validation" or "test" samples
    last         evaluate the final models only
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
    local = LocalSGD() if local is None else local
    instance("fed", fed, Federation, "a Federation")
    check_metric("metric", metric)
    choice("on", on, ("validation", "test"))
    last = flag("last", last)
    participation = check_participation(participation, fed.clients)
    _runs, rounds, _clients = participation.shape
    net, theta = guard.starting_model(fed, net, rounds, local, seed, theta)
    guard.warn_unusable_data(fed)
    judged(net, theta[None], *fed.server(on), metric)  # a metric that fails does so before training
    simulation = Simulation(fed, net, theta, Shuffles(fed, local, seed), metric, on, last)
    blocks = participation.split(block_size(fed, net, theta, participation, local))
    folder = None
    if cache is not None:
        work = guard.made_from(fed, net, local, seed)
        folder = Cache(cache, ("simulate", work, theta, metric, on, last))
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
    left_out = np.flatnonzero(np.any([block["left_out"] for block in done], 0)).tolist()
    if left_out:
        warnings.warn(
            f"client {guard.names(left_out)} sent updates that are not finite or far too long in "
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

    def run_block(self, participation: Tensor) -> dict[str, Tensor]:
        """All rounds of runs [b, T, K]: values [b, T], and which clients were left out [K]."""
        runs, rounds, _ = participation.shape
        x, y = self.fed.server(self.on)
        block, values = Block(self, runs), []
        with one_thread():
            for t in range(1, rounds + 1):
                block.one_round(participation[:, t - 1], t)
                if not self.last or t == rounds:
                    (found,) = judged(self.net, block.thetas, x, y, self.metric)
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

    def one_round(self, shares: Tensor, t: int) -> None:
        """Train all clients with a share [b, K] above 0; add each run's weighted mean update."""
        counts = samples_used(self.fed, shares)
        # [b, K] -> R pairs (run, client), run by run
        run, client = counts.nonzero(as_tuple=True)
        participants = Participants(run, client, counts[run, client])
        # Chapter 1, step 4: for every run the sum of n_k delta_k, divided by the sum of n_k below.
        steps = torch.zeros_like(self.thetas)
        samples = torch.zeros(len(steps), dtype=steps.dtype)
        for positions, updates in client_updates(
            self.fed, self.net, self.thetas, participants, self.shuffles, t, self.last_steps
        ):
            runs = run[positions]
            weights = participants.samples[positions].to(steps.dtype)
            good = usable(updates, self.limit)
            if good is not None:
                # A weight of 0 removes their samples; their rows become 0, because 0 * NaN is NaN.
                weights = weights * good
                updates = updates.where(good.to(updates.device)[:, None], 0)
                self.left_out[client[positions][~good]] = True
            # In place to save memory; the next stack overwrites these updates anyway.
            weighted = updates.mul_(weights.to(updates)[:, None])
            # [rows, P] -> [b, P]; steps[runs] += weighted would add only one client of each run.
            steps.index_add_(0, runs.to(steps.device), weighted)
            samples.index_add_(0, runs, weights)
        # A run in which nobody sent anything has 0 samples and a step of 0.
        self.last_steps = steps.div_(samples.clamp(min=1)[:, None].to(steps))
        self.thetas += self.last_steps


def check_participation(participation: Tensor, clients: int) -> Tensor:
    """A participation tensor [B, T, K] of shares, checked; TypeError or ValueError if wrong."""
    shares = array("participation", participation, ["B", "T", clients])
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError("participation: shares must lie in [0, 1]")
    return shares.cpu()
