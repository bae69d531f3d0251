"""FedCCEA: contribution learned from simulated data sizes. Chapter 7 derives it.

A simulator trains many times on random shares of the clients' data; an accuracy approximation model
(AAM) is fitted to what came out; its first layer holds a quality for every client. Below:
simulation, metrics.
"""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim.adam import adam  # the function: the class takes seconds to import on first use

from .. import checks
from ..engine.local import LocalSGD
from ..engine.model import Model, one_thread
from ..engine.rounds import Cost, frame
from ..engine.simulate import samples_used, simulate
from ..streams import stream
from ..worlds.federation import Federation
from .fedavg import versus

if TYPE_CHECKING:
    import pandas

PRINTED = {"on": "test"} | dict.fromkeys(("steps", "lr", "start"), "not said")
NODES = 10  # of the AAM's hidden layer
ADAM: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0, "eps": 1e-8}
ADAM |= {"amsgrad": False, "maximize": False, "fused": True}


def contribution_index(v: Tensor | Sequence[float]) -> Tensor:
    """CCI: negative values become 0, the rest is scaled to sum 1; equal shares if nothing is left.

    v [K]; returns [K]                                                [Shyn et al. 2021; chapter 7]
    """
    positive = checks.reals("v", v, ["K"], dtype=torch.float64).cpu().clamp(min=0)
    total = positive.sum()
    return positive / total if total > 0 else torch.full_like(positive, 1 / len(positive))


@dataclass(frozen=True)
class Simulations:
    """What the simulator saw: S trainings of R rounds with K clients.

    sizes [S, R, K]     samples used, in units of the clients' mean size |D|
    accuracy [S, R]     of the global model after each round
    full [K]            the clients' whole sizes in the same unit; cost: see ``Cost``
    """

    sizes: Tensor
    accuracy: Tensor
    full: Tensor
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class AAM:
    """Accuracy approximation models, F of them at once: sizes [S, R, K] -> accuracy [F, S, R].

    omega [F, K]        quality, the weights that all rounds share: X_r = sum_k x_{r,k} omega_k
    w1 [F, H, R], b1 [F, H], w2 [F, H], b2 [F]  the layers above
    form      "linear" (as printed: the sigmoid sits on X_r, H linear nodes, one output) or "hidden"
              (the H nodes are sigmoids of the X_r)
    neutral   the sigmoid is 2 sigmoid(X) - 1, which is 0 for rounds that are still to come
    """

    omega: Tensor
    w1: Tensor
    b1: Tensor
    w2: Tensor
    b2: Tensor
    _: KW_ONLY
    form: str = "linear"
    neutral: bool = False

    def __call__(self, sizes: Tensor) -> Tensor:
        """Approximated accuracy [F, S, R] after every round; sizes [S, R, K] or [F, S, R, K].

        Round r is seen with the sizes of rounds 1..r and zeros for the rounds to come.
        """
        x = weighted(sizes, self.omega)  # X [F, S, R]
        if self.form == "hidden":
            h = (x[..., None] * self.w1.transpose(1, 2)[:, None]).cumsum(2)  # [F, S, R, H]
            h = self._squash(h + self.b1[:, None, None])
            return (h * self.w2[:, None, None]).sum(-1) + self.b2[:, None, None]
        a, c = self.collapsed()
        return ((self._squash(x) - self._rest) * a[:, None]).cumsum(2) + c[:, None, None]

    def collapsed(self) -> tuple[Tensor, Tensor]:
        """a [F, R] and c [F] with accuracy_r = c + sum_{r' <= r} a_r' (sigmoid(X_r') - 1/2).

        Linear nodes above the sigmoid are one linear map; a padded round adds sigmoid(0) = 1/2
        """
        if self.form != "linear":
            raise ValueError("form: only the linear nodes collapse, not sigmoid ones")
        a = (self.w2[:, :, None] * self.w1).sum(1)
        return a, (self.w2 * self.b1).sum(1) + self.b2 + self._rest * a.sum(1)

    def slope(self, sizes: Tensor) -> Tensor:
        """d accuracy_R / d x_{r,k} = omega_k times this, averaged over r and simulations: [F]."""
        with torch.enable_grad():
            sizes = sizes.expand(len(self.omega), *sizes.shape[-3:]).clone().requires_grad_()
            (gradient,) = torch.autograd.grad(self(sizes)[..., -1].sum(), sizes)  # [F, S, R, K]
        best = self.omega.argmax(1)  # any client with omega > 0 gives the same factor
        rows = torch.arange(len(best))
        quality = self.omega[rows, best]
        moved = gradient.mean((1, 2))[rows, best]
        return torch.where(quality > 0, moved / torch.where(quality > 0, quality, 1), 0)

    @property
    def _rest(self) -> float:
        return 0.0 if self.neutral else 0.5  # what a padded round puts out

    def _squash(self, x: Tensor) -> Tensor:
        return 2 * x.sigmoid() - 1 if self.neutral else x.sigmoid()


def weighted(sizes: Tensor, omega: Tensor) -> Tensor:
    """X [F, S, R] = sum_k x_k omega_k; sizes [S, R, K], the same for all F, or [F, S, R, K]."""
    if sizes.ndim == 3:
        table = sizes.flatten(0, 1) @ omega.T  # one product for all fits
        return table.T.reshape(len(omega), *sizes.shape[:2])
    return torch.bmm(sizes.flatten(1, 2), omega[:, :, None]).view(sizes.shape[:3])


@dataclass(frozen=True)
class Fit:
    """F fitted AAMs.

    model            the AAMs
    loss [steps // every, F]      mean squared error on the samples fitted, before every
                                  ``every``-th step
    omega [steps // every, F, K]  the qualities after it
    """

    model: AAM
    loss: Tensor
    omega: Tensor
    every: int


@dataclass(frozen=True)
class FedCCEAResult:
    """What FedCCEA says of K clients.

    quality [K]       omega, the AAM's shared weights; their scale means nothing by itself
    contribution [K]  v_k = x_k omega_k, with client k's whole data (`for_sizes`: with any sizes)
    index [K]         CCI: ``contribution`` without negative values, sum 1
    slope             accuracy after the last round gained by one |D| more samples, in one round, of
                      a client with omega = 1: slope * quality is in units of accuracy
    fit_error         root mean squared error of an AAM on a fifth of the simulations that it was
                      not fitted to (NaN with fewer than five)
    mean_error        the same of the mean learning curve, which knows no client
    trace             omega [steps // every, K] on the way;  simulations, fit, cost
    """

    quality: Tensor
    contribution: Tensor
    index: Tensor
    slope: float
    fit_error: float
    mean_error: float
    trace: Tensor
    simulations: Simulations
    fit: Fit
    cost: Cost

    @staticmethod
    def departures() -> dict[str, dict[str, str]]:
        """Paper versus code, see ``FedAvg.departures``; ours is what the functions default to."""
        ours = inspect.signature(fit_aam).parameters | inspect.signature(fedccea).parameters
        return versus({name: (printed, ours[name].default) for name, printed in PRINTED.items()})

    def for_sizes(self, sizes: Tensor) -> Tensor:
        """Contribution [..., K] of clients that used ``sizes`` [..., K] (in units of |D|)."""
        return sizes.to(self.quality) * self.quality

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table: a row for every client, columns quality, contribution and cci (index)."""
        return frame("client", quality=self.quality, contribution=self.contribution, cci=self.index)


def fedccea(
    fed: Federation,
    net: Model,
    simulations: int = 100,
    rounds: int = 10,
    local: LocalSGD | None = None,
    seed: int = 0,
    *,
    form: str = "linear",
    neutral: bool = False,
    nonnegative: bool = False,
    steps: int = 3000,
    lr: float = 0.01,
    metric: str = "accuracy",
    on: str = "validation",
    checkpoint: str | os.PathLike | None = None,
    n_jobs: int | None = None,
) -> FedCCEAResult:
    """Contribution by data quality, learned from what random data sizes did to the accuracy.

    simulations, rounds  S trainings of R rounds; in each round every client uses a random share
                         of its data, uniform in (0, 1)
    form, neutral        the AAM, see `AAM`;  nonnegative, steps, lr: how it is fitted, `fit_aam`
    metric, on           what is approximated (of a loss, minus it), and the server's samples it is
                         measured on
    checkpoint, n_jobs   of the simulator, see `simulate`; the fit takes a second
    cost                 about simulations x rounds x K / 2 x epochs client epochs
    raises               ValueError or TypeError naming the argument
    source               [Shyn et al. 2021, Algorithms 1 and 2; chapter 7]
    """
    began = time.perf_counter()
    shape: dict[str, Any] = {"form": form, "neutral": neutral, "nonnegative": nonnegative}
    _check_options(**shape, steps=steps, lr=lr)
    asked: dict[str, Any] = {"metric": metric, "on": on, "checkpoint": checkpoint, "n_jobs": n_jobs}
    runs = simulator(fed, net, simulations, rounds, local, seed, **asked)
    held = simulations // 5
    used = torch.ones(2, simulations)
    used[1, simulations - held :] = 0  # the second AAM never sees the last fifth
    found = runs.accuracy if metric == "accuracy" else -runs.accuracy  # more is better
    used = used if held else used[:1]
    fit = fit_aam(runs.sizes, found, used=used, steps=steps, lr=lr, seed=seed, **shape)
    fit_error = mean_error = math.nan
    if held:
        truth, curve = found[-held:], found[:-held].mean(0)
        fit_error = float((fit.model(runs.sizes[-held:])[1] - truth).square().mean().sqrt())
        mean_error = float((curve - truth).square().mean().sqrt())
    quality = fit.model.omega[0]
    contribution = runs.full * quality
    spent = time.perf_counter() - began
    return FedCCEAResult(
        quality=quality,
        contribution=contribution,
        index=contribution_index(contribution),
        slope=float(fit.model.slope(runs.sizes)[0]),
        fit_error=fit_error,
        mean_error=mean_error,
        trace=fit.omega[:, 0],
        simulations=runs,
        fit=fit,
        cost=Cost(runs.cost.client_epochs, runs.cost.model_evaluations, spent),
    )


def simulator(
    fed: Federation,
    net: Model,
    simulations: int,
    rounds: int,
    local: LocalSGD | None = None,
    seed: int = 0,
    *,
    metric: str = "accuracy",
    on: str = "validation",
    checkpoint: str | os.PathLike | None = None,
    n_jobs: int | None = None,
) -> Simulations:
    """FedCCEA's first phase: S trainings with random data sizes, as one participation tensor.

    Simulation s draws its shares from a stream of its own: S = 50 are the first 50 of S = 100.
    """
    began = time.perf_counter()
    simulations = checks.whole("simulations", simulations)
    rounds = checks.whole("rounds", rounds)
    checks.instance("fed", fed, Federation, "a Federation")
    local = LocalSGD() if local is None else local
    size, streams = (rounds, fed.clients), (stream(seed, "shares", s) for s in range(simulations))
    shares = torch.stack([torch.rand(size, generator=g, dtype=torch.float64) for g in streams])
    shares.clamp_(min=1e-12)
    asked: dict[str, Any] = {"metric": metric, "on": on, "checkpoint": checkpoint, "n_jobs": n_jobs}
    accuracy = simulate(fed, net, shares, local=local, seed=seed, **asked)
    used = samples_used(fed, shares).double()
    epochs = sum(
        local.passes(int(n)) * float(n) / float(size) if n else 0.0
        for size, column in zip(fed.sizes, used.flatten(0, 1).T, strict=True)
        for n in column
    )
    mean = fed.sizes.double().mean()
    cost = Cost(epochs, simulations * rounds, time.perf_counter() - began)
    return Simulations(used / mean, accuracy, fed.sizes.double() / mean, cost)


def fit_aam(
    sizes: Tensor,
    accuracy: Tensor,
    *,
    used: Tensor | None = None,
    starts: int = 1,
    start: str = "equal",
    form: str = "linear",
    neutral: bool = False,
    nonnegative: bool = False,
    steps: int = 3000,
    lr: float = 0.01,
    every: int = 50,
    seed: int = 0,
) -> Fit:
    """Fit AAMs by Adam on the mean squared error of all rounds, all fits in one stack.

    sizes [S, R, K] or [F, S, R, K], accuracy [S, R] or [F, S, R]: one data set, or one each
    used [F, S]   which simulations each of F fits sees, 0 or a weight; default all
    starts        how many fits of one data set, from different starts
    start         omega begins "equal" (1 / K) or "random" (uniform in [0, 2 / K))
    nonnegative   the weights above omega stay >= 0 too: more data never lowers the guess
    steps, lr     of Adam;  every: how often loss and omega are noted
    omega stays >= 0: (omega, a) and (-omega, -a) are the same model, and this picks one of them
    raises        ValueError or TypeError naming the argument
    """
    _check_options(form, neutral, nonnegative, steps, lr, start, every)
    sizes, accuracy, used = _check_fit(sizes, accuracy, used, starts)
    weight = used / (used.sum(1, keepdim=True) * sizes.shape[-2])  # of a squared error: [F, S]
    level = (accuracy * weight[:, :, None]).sum((1, 2))
    parts = _first_weights(sizes, level, start, seed)
    first, second = ([torch.zeros_like(part) for part in parts] for _ in range(2))
    counts = [torch.zeros(()) for _ in parts]
    slopes = _linear_slopes if form == "linear" else _hidden_slopes
    losses, omegas = [], []
    with one_thread():
        for step in range(1, steps + 1):
            loss, gradients = slopes(parts, sizes, accuracy, weight, neutral)
            adam(parts, gradients, first, second, [], counts, lr=lr, **ADAM)
            for part in (parts[0], parts[1], parts[3]) if nonnegative else parts[:1]:
                part.clamp_(min=0)
            if step % every == 0:
                losses.append(loss)
                omegas.append(parts[0].clone())
    fits, clients = parts[0].shape
    loss, omega = (
        torch.stack(found) if found else accuracy.new_empty(empty)
        for found, empty in ((losses, (0, fits)), (omegas, (0, fits, clients)))
    )
    return Fit(AAM(*parts, form=form, neutral=neutral), loss, omega, every)


def _linear_slopes(
    parts: list[Tensor], sizes: Tensor, accuracy: Tensor, weight: Tensor, neutral: bool
) -> tuple[Tensor, list[Tensor]]:
    """Loss [F] of the linear form and its derivatives, from the collapsed line (chapter 7)."""
    omega, w1, b1, w2, _ = parts
    model = AAM(*parts, form="linear", neutral=neutral)
    (a, c), scale, rest = model.collapsed(), 2.0 if neutral else 1.0, model._rest
    s = weighted(sizes, omega).sigmoid_()
    z = (s - 0.5).mul_(scale)  # what a round adds, in units of a
    error = (z * a[:, None]).cumsum(2).add_(c[:, None, None]).sub_(accuracy)
    d = error * (2 * weight[:, :, None])  # by the guess after round r
    loss, by_c = (error * d).sum((1, 2)) / 2, d.sum((1, 2))
    later = d.flip(2).cumsum(2).flip(2)  # round r' moves all guesses from r' on
    by_a = (later * z).sum(1) + rest * by_c[:, None]
    by_x = later.mul_(a[:, None]).mul_(s).mul_(1 - s).mul_(scale)
    if sizes.ndim == 3:
        by_omega = by_x.flatten(1) @ sizes.flatten(0, 1)
    else:
        by_omega = torch.bmm(by_x.flatten(1)[:, None], sizes.flatten(1, 2))[:, 0]
    by_w2 = (w1 * by_a[:, None]).sum(2) + b1 * by_c[:, None]
    return loss, [by_omega, w2[:, :, None] * by_a[:, None], w2 * by_c[:, None], by_w2, by_c]


def _hidden_slopes(
    parts: list[Tensor], sizes: Tensor, accuracy: Tensor, weight: Tensor, neutral: bool
) -> tuple[Tensor, list[Tensor]]:
    """Loss [F] of the hidden form and its derivatives, by autograd."""
    given = [part.detach().requires_grad_() for part in parts]
    error = (AAM(*given, form="hidden", neutral=neutral)(sizes) - accuracy).square()
    loss = (error * weight[:, :, None]).sum((1, 2))
    found = torch.autograd.grad(loss.sum(), given)
    return loss.detach(), [part.contiguous() for part in found]  # fused Adam goes by memory order


def _first_weights(sizes: Tensor, level: Tensor, start: str, seed: int) -> list[Tensor]:
    """omega [F, K], w1 [F, H, R], b1 [F, H], w2 [F, H], b2 [F] to begin with.

    The layers above begin as PyTorch begins linear layers, in absolute value: where more data seems
    to lower the accuracy at first, the clamp drives every omega to 0, and X = 0 learns nothing. The
    last bias begins at ``level`` [F], the mean accuracy; a client that never took part has omega 0.
    Fit f draws from a stream of its own.
    """
    fits, (rounds, clients) = len(level), sizes.shape[-2:]

    def draw(name: str, *shape: int) -> Tensor:
        streams = (stream(seed, name, f) for f in range(fits))
        rows = [torch.rand(shape, generator=g, dtype=torch.float64) for g in streams]
        return torch.stack(rows).to(level)

    w1, b1, w2 = (
        (2 * draw(name, *shape) - 1).abs()
        for name, shape in (("w1", (NODES, rounds)), ("b1", (NODES,)), ("w2", (NODES,)))
    )
    omega = level.new_full((fits, clients), 1 / clients)
    if start == "random":
        omega = draw("omega", clients) * 2 / clients
    omega = omega * (sizes > 0).flatten(-3, -2).any(-2)
    return [omega, w1 / math.sqrt(rounds), b1 / math.sqrt(rounds), w2 / math.sqrt(NODES), level]


def _check_options(
    form: str,
    neutral: bool,
    nonnegative: bool,
    steps: int,
    lr: float,
    start: str = "equal",
    every: int = 1,
) -> None:
    checks.choice("form", form, ("linear", "hidden"))
    checks.choice("start", start, ("equal", "random"))
    checks.flag("neutral", neutral)
    checks.flag("nonnegative", nonnegative)
    checks.whole("steps", steps)
    checks.whole("every", every)
    checks.number("lr", lr, 0, 1e3, ends="(]")


def _check_fit(
    sizes: Tensor, accuracy: Tensor, used: Tensor | None, starts: int
) -> tuple[Tensor, Tensor, Tensor]:
    several, kind = getattr(sizes, "ndim", 3) == 4, torch.float64
    dims = ["F", "S", "R", "K"] if several else ["S", "R", "K"]
    sizes = checks.reals("sizes", sizes, dims, dtype=kind)
    accuracy = checks.reals("accuracy", accuracy, sizes.shape[:-1], dtype=kind)
    starts = checks.whole("starts", starts)
    if starts > 1 and (several or used is not None):
        raise ValueError("starts: many starts are for one data set, without `used`")
    if used is None:
        used = torch.ones(len(sizes) if several else starts, accuracy.shape[-2])
    fits = len(sizes) if several else "F"
    used = checks.array("used", used, [fits, accuracy.shape[-2]]).to(kind)
    if not ((used >= 0).all() and torch.isfinite(used).all() and (used.sum(1) > 0).all()):
        raise ValueError("used: expected rows of finite weights >= 0, none of them all zero")
    return sizes, accuracy, used
