"""FedCCEA: contribution learned from simulated data sizes [Shyn et al. 2021]. Chapter 7 derives it.

A simulator trains many times on random shares of the clients' data. An accuracy approximation model
is fitted to the accuracies; its first layer holds a quality for every client. Compared with the
paper, the fit runs to convergence from several starts, and the result says whether they agree.
"""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..engine.history import Cost, frame
from ..engine.local import samples_used
from ..engine.minibatches import LocalSGD
from ..engine.model import Model
from ..engine.simulate import simulate
from ..parse.metric import Metric
from ..streams import stream
from ..worlds.federation import Federation
from .aam_fit import Fit, Settled, fit_aam, rank_agreement, settle
from .fedavg import versus

if TYPE_CHECKING:
    import pandas

UNSAID = "not said"
PRINTED = {"on": "test", "steps": UNSAID, "starts": UNSAID}


def contribution_index(v: Tensor | Sequence[float]) -> Tensor:
    """CCI: negative values become 0, the rest is scaled to sum 1; equal shares if all become 0.

    v [K]; returns [K]                                                [Shyn et al. 2021; chapter 7]
    """
    positive = torch.as_tensor(v, dtype=torch.float64).clamp(min=0)
    total = positive.sum()
    return positive / total if total > 0 else torch.full_like(positive, 1 / len(positive))


@dataclass(frozen=True)
class Simulations:
    """The simulator's results: S training runs of R rounds with K clients.

    sizes [S, R, K]     samples used, in units of the clients' mean size |D|
    accuracy [S, R]     of the global model after each round
    full [K]            the sizes of the clients' whole data in the same unit; cost: see ``Cost``
    """

    sizes: Tensor
    accuracy: Tensor
    full: Tensor
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class FedCCEAResult:
    """FedCCEA's result for K clients.

    quality [K]       omega, the AAM's shared weights; their scale means nothing by itself
    contribution [K]  v_k = x_k omega_k, with client k's whole data
    index [K]         CCI: ``contribution`` without negative values, sum 1
    spread [K]        largest minus smallest index of a client over the starts of the fit
    agreement         lowest rank correlation between the indices of two starts; well below 1, the
                      simulations allow several rankings. A fit by Adam has only one start, so
                      agreement and spread are NaN
    slope             gain in final accuracy if a client with omega = 1 uses |D| more samples in one
                      round; slope * quality is in units of accuracy
    fit_error         root mean squared error of an AAM on the fifth of the simulations that it was
                      not fitted to (NaN with fewer than five)
    mean_error        the same error of the mean learning curve, which ignores who participates
    simulations, fit, cost  the data and the model behind these numbers, and the cost
    """

    quality: Tensor
    contribution: Tensor
    index: Tensor
    spread: Tensor
    agreement: float
    slope: float
    fit_error: float
    mean_error: float
    simulations: Simulations
    fit: Settled | Fit
    cost: Cost

    @staticmethod
    def departures() -> dict[str, dict[str, str]]:
        """Paper versus code, see ``FedAvg.departures``; "ours" are the defaults of ``fedccea``."""
        options = inspect.signature(fedccea).parameters
        ours = {name: options[name].default for name in PRINTED}
        ours["steps"] = ours["steps"] or "until converged"
        return versus({name: (printed, ours[name]) for name, printed in PRINTED.items()})

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table: a row for every client, columns quality, contribution, cci, spread."""
        return frame(
            "client",
            quality=self.quality,
            contribution=self.contribution,
            cci=self.index,
            spread=self.spread,
        )


def fedccea(
    fed: Federation,
    net: Model,
    simulations: int = 100,
    rounds: int = 10,
    local: LocalSGD | None = None,
    seed: int = 0,
    *,
    starts: int = 3,
    steps: int | None = None,
    lr: float = 0.01,
    form: str = "linear",
    metric: Metric = "accuracy",
    on: str = "validation",
    cache: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> FedCCEAResult:
    """Contribution by data quality, learned from the accuracies that random data sizes reach.

    simulations, rounds  S training runs of R rounds; in each round every client uses a random share
                         of its data, uniform in (0, 1)
    starts               how many fits run to convergence from different qualities; the best counts
    steps, lr            fit once by Adam for so many steps instead, see `fit_aam`
    form                 of the AAM, see `AAM`; "hidden" only with ``steps``
    metric, on           what is approximated (minus the loss, if it is a loss), and on which of the
                         server's samples it is measured
    cache, n_jobs        of the simulator, see `simulate`; the fit takes about a second
    cost                 about simulations x rounds x K / 2 x epochs client epochs
    raises               ValueError or TypeError naming the argument
    source               [Shyn et al. 2021, Algorithms 1 and 2; chapter 7]

    Warning: with ``steps``, ``starts`` decides nothing; without it, neither does ``lr``.
    """
    began = time.perf_counter()
    runs = simulator(
        fed, net, simulations, rounds, local, seed, metric=metric, on=on, cache=cache, n_jobs=n_jobs
    )
    # Qualities are at least 0, so the model needs a metric of which more is better.
    worth = -runs.accuracy if metric == "loss" else runs.accuracy

    def fitted(sizes: Tensor, accuracy: Tensor, starts: int) -> Settled | Fit:
        if steps is None:
            return settle(sizes, accuracy, starts, seed)
        return fit_aam(sizes, accuracy, form=form, steps=steps, lr=lr, seed=seed)

    fit = fitted(runs.sizes, worth, starts)
    quality = fit.model.omega[0]
    omegas = fit.omega if isinstance(fit, Settled) else fit.model.omega
    indices = torch.stack([contribution_index(runs.full * omega) for omega in omegas])
    # One start alone does not show what another start would have found.
    several = len(indices) > 1
    spread = indices.amax(0) - indices.amin(0)
    fit_error = mean_error = math.nan
    # Simulations are independent samples, so the last fifth serves as a random fifth.
    held_out = len(worth) // 5
    # The error of a fit is measured on simulations that it has not seen.
    if held_out:
        seen_sizes, seen_worth = runs.sizes[:-held_out], worth[:-held_out]
        judge = fitted(seen_sizes, seen_worth, starts=1).model
        truth = worth[-held_out:]
        fit_error = _error(judge(runs.sizes[-held_out:])[0], truth)
        mean_error = _error(seen_worth.mean(0), truth)
    return FedCCEAResult(
        quality=quality,
        contribution=runs.full * quality,
        index=indices[0],
        spread=spread if several else torch.full_like(spread, math.nan),
        agreement=rank_agreement(indices) if several else math.nan,
        slope=float(fit.model.slope(runs.sizes)[0]),
        fit_error=fit_error,
        mean_error=mean_error,
        simulations=runs,
        fit=fit,
        cost=replace(runs.cost, seconds=time.perf_counter() - began),
    )


def _error(guess: Tensor, truth: Tensor) -> float:
    """Root mean squared error."""
    return float((guess - truth).square().mean().sqrt())


def simulator(
    fed: Federation,
    net: Model,
    simulations: int,
    rounds: int,
    local: LocalSGD | None = None,
    seed: int = 0,
    *,
    metric: Metric = "accuracy",
    on: str = "validation",
    cache: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> Simulations:
    """FedCCEA's first phase: S runs with random data sizes, as one participation tensor.

    Each simulation draws from its own stream, so those of S = 50 are the first 50 of S = 100.
    """
    began = time.perf_counter()
    local = LocalSGD() if local is None else local
    shape = (rounds, fed.clients)
    streams = (stream(seed, "shares", simulation) for simulation in range(simulations))
    draws = [torch.rand(shape, generator=chance, dtype=torch.float64) for chance in streams]
    # A share of 0 would mean that a client is absent, but all participate in every round.
    shares = torch.stack(draws).clamp_(min=1e-12)
    accuracy = simulate(
        fed, net, shares, local=local, seed=seed, metric=metric, on=on, cache=cache, n_jobs=n_jobs
    )
    used = samples_used(fed, shares).double()
    client_epochs = 0.0
    for size, counts in zip(fed.sizes.tolist(), used.flatten(0, 1).T.tolist(), strict=True):
        for count in counts:
            # A pass over half of a client's data costs half a client epoch, and so on.
            client_epochs += local.passes(int(count)) * count / size if count else 0.0
    mean_size = fed.sizes.double().mean()
    cost = Cost(client_epochs, simulations * rounds, time.perf_counter() - began)
    return Simulations(used / mean_size, accuracy, fed.sizes.double() / mean_size, cost)
