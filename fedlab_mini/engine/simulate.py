"""Simulation: many federated trainings at once, one a row of a participation tensor.

Chapter 3 introduces it. Leave-one-out, exact Shapley by retraining, truncated Monte Carlo, removal
curves are this one call with different tensors. Below: local, sweep. Above: games, metrics.
"""

from __future__ import annotations

import copy
import os
import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from joblib import delayed
from torch import Tensor

from ..checks import array, choice, flag, instance
from ..worlds.federation import Federation
from . import checkpoint as files
from . import progress
from .local import LocalSGD, Shuffles, attack, finite_rows, train_rows
from .model import Model, check_metric
from .start import begin, describe, names, warn_unusable
from .sweep import spread

if TYPE_CHECKING:
    pass

ROOM = 64 << 20  # bytes of global models and their steps that one block of runs may hold
RUNS = 128  # and the most runs of a block: the task of a sweep, and what a kill loses a process


def simulate(
    fed: Federation,
    net: Model,
    participation: Tensor,
    *,
    local: LocalSGD | None = None,
    seed: int = 0,
    metric: str = "accuracy",
    on: str = "validation",
    theta: Tensor | None = None,
    last: bool = False,
    checkpoint: str | os.PathLike | None = None,
    n_jobs: int | None = None,
) -> Tensor:
    """Many federated trainings at once: who takes part, when, with which share of the data.

    participation [B, T, K]  share in [0, 1] (or bool) of its data that client k uses in round t of
                             run b: the first ceil(share * n_k) of one fixed shuffle; 0: absent
    metric, on   "accuracy" or "loss" on the server's "validation" or "test" samples
    last         evaluate the final models only
    checkpoint   file that finished blocks are written to; a killed run goes on from there
    n_jobs       processes, through joblib, a block of up to 128 runs at a time each; None: one, or
                 what ``joblib.parallel_config`` says (Ray's backend: one, unless it names
                 ``n_jobs=-1``). Their number changes no byte of the result
    returns      [B, T] float64 ([B, 1] with ``last``). Up to rounding, run b depends on its own
                 participation alone; the same tensor gives the same bytes
    raises       ValueError or TypeError naming the argument
    cost         sum of shares x epochs client epochs; memory: one block of runs, whatever B and K
    """
    local = LocalSGD() if local is None else local
    instance("fed", fed, Federation, "a Federation")
    check_metric(metric)
    choice("on", on, ("validation", "test"))
    last = flag("last", last)
    participation = check_participation(participation, fed.clients)
    runs, rounds, _ = participation.shape
    theta = begin(fed, net, rounds, local, seed, theta)
    warn_unusable(fed)
    room = 3 * net.P * theta.element_size()  # of one run: its model, its step, the step before
    if ((participation > 0) & (participation < 1)).any():
        room += 24 * len(fed.y) * local.epochs  # every share has minibatches of its own
    size = min(RUNS, max(1, ROOM // room))
    results = torch.full((runs, 1 if last else rounds), torch.nan, dtype=torch.float64)
    mark = files.fingerprint(
        "simulate", describe(fed, net, local, seed), theta, participation, metric, on, last, size
    )
    starts = list(range(0, runs, size))
    done, broken = 0, set()
    if checkpoint is not None and (saved := files.begin(checkpoint, mark)):
        done = int(saved["blocks"])
        results = torch.from_numpy(saved["results"])
        broken = set(saved["broken"].tolist())
    shuffles = Shuffles(fed, local, seed)
    jobs = (  # a clone is sent to a process without the rest of the tensor
        delayed(_block)(fed, net, theta, part.clone(), shuffles, metric, on, last)
        for part in participation.split(size)[done:]
    )
    bar = progress.bar(None, "blocks of runs", total=len(starts), done=done)
    for values, bad in spread(jobs, n_jobs):  # in order, so that a checkpoint holds the first ones
        results[starts[done] :][: len(values)] = values
        broken |= bad
        done += 1
        bar.update()
        if checkpoint is not None:
            files.save(
                checkpoint,
                mark,
                results=results.numpy(),
                blocks=np.array(done),
                broken=np.array(sorted(broken), dtype=np.int64),
            )
    bar.close()
    if broken:
        warnings.warn(
            f"client {names(broken)} sent updates that are not finite in some runs; "
            "they were left out of those rounds",
            stacklevel=2,
        )
    return results


def _block(
    fed: Federation,
    net: Model,
    theta: Tensor,
    participation: Tensor,
    shuffles: Shuffles,
    metric: str,
    on: str,
    last: bool,
) -> tuple[Tensor, set[int]]:
    """One block of runs, all rounds; returns values [b, T or 1] and the ids of broken clients."""
    runs, rounds, _ = participation.shape
    shuffles = copy.copy(shuffles)  # blocks may run in threads: each has working memory of its own
    x, y = fed.server(on)
    thetas = theta.expand(runs, -1).clone()
    previous = torch.zeros_like(thetas)
    values, broken = [], set()
    for t in range(1, rounds + 1):
        step, bad = _block_round(fed, net, thetas, participation[:, t - 1], shuffles, t, previous)
        broken |= bad
        thetas += step
        previous = step
        if not last or t == rounds:
            values.append(net.evaluate(thetas, x, y, metric).cpu())
    return torch.stack(values, 1), broken


def _block_round(
    fed: Federation,
    net: Model,
    thetas: Tensor,
    shares: Tensor,
    shuffles: Shuffles,
    t: int,
    previous: Tensor,
) -> tuple[Tensor, set[int]]:
    """The aggregated steps [b, P] of one round for all runs of a block, and broken clients' ids."""
    counts = samples_used(fed, shares)
    step, total = torch.zeros_like(thetas), torch.zeros(len(thetas), dtype=thetas.dtype)
    run, client = counts.nonzero(as_tuple=True)
    if len(run) == 0:
        return step, set()
    used = counts[run, client]
    entries, entry = torch.unique(torch.stack([client, used], 1), dim=0, return_inverse=True)
    plan = shuffles.plan(t, *entries.numpy().T)
    order = torch.from_numpy(np.lexsort((client, run, -used, -plan.steps[entry])))
    run, client, entry, used = run[order], client[order], entry[order], used[order].to(thetas.dtype)
    broken: set[int] = set()
    given = (fed, net, thetas, run, entry, plan, shuffles.local.rate(t))
    for rows, updates in train_rows(*given, shuffles=shuffles):
        who, where, weight = client[rows], run[rows], used[rows]
        if fed.attacks:
            updates = attack(fed, updates, who, previous[where], shuffles.seed, t)
        finite = finite_rows(updates)
        if not finite.all():
            broken |= set(who[~finite.cpu()].tolist())
            updates = updates.where(finite[:, None], 0)
            weight = weight * finite.cpu()
        step.index_add_(0, where.to(step.device), updates.mul_(weight.to(updates)[:, None]))
        total.index_add_(0, where, weight)
    return step.div_(total.clamp(min=1)[:, None].to(step)), broken


def samples_used(fed: Federation, shares: Tensor) -> Tensor:
    """How many samples [..., K] the clients use at these shares [..., K]: rounded up, 0 for 0."""
    rounding = 1 - 1e-7  # a tenth of ten samples is one, in float32 too
    counts = torch.ceil(shares.double() * rounding * fed.sizes).clamp_(max=fed.sizes).long()
    counts = torch.where(shares >= 1, fed.sizes, counts)
    counts[(shares > 0) & (counts == 0)] = 1
    counts[..., sorted(fed.unusable)] = 0
    return counts


def check_participation(participation: Tensor, clients: int) -> Tensor:
    """A participation tensor [B, T, K] of shares; TypeError or ValueError naming what is wrong."""
    found = array("participation", participation, ["B", "T", clients])
    if not ((found >= 0) & (found <= 1)).all():
        raise ValueError("participation: shares must lie in [0, 1]")
    return found.cpu()
