"""Training: what people call to train one model, many models, or some clients for a round.

Arguments are parsed here, once, and then the core's function does the work: ``engine.train`` and
``engine.simulate``, which chapters 1 and 3 derive. Below: engine. Beside: answers.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from ..engine import simulate as many
from ..engine import train as one
from ..engine.history import History
from ..engine.minibatches import LocalSGD
from ..engine.model import Model
from ..engine.outputs import quality, snapshot
from ..engine.rounds import Round, Step, Strategy
from ..parse.checks import (
    array,
    choice,
    distinct_ids,
    flag,
    instance,
    processes,
    reals,
    shown,
    whole,
)
from ..parse.metric import Metric, check_metric
from ..worlds.federation import Federation
from .answers import a_strategy, watching
from .fit import check_fits, check_objective
from .gated import documented_by


@documented_by(one.train)
def train(
    fed: Federation,
    net: Model,
    strategy: Strategy,
    *,
    rounds: int,
    local: LocalSGD | None = None,
    seed: int = 0,
    theta: Tensor | None = None,
    start: History | None = None,
    watch: Callable[[Round, Step], object] | None = None,
) -> History:
    local, seed = LocalSGD() if local is None else local, whole("seed", seed, None)
    net, theta = starting_model(fed, net, rounds, local, seed, theta, start)
    watch = None if watch is None else watching("watch", watch)
    own = a_strategy("strategy", strategy)
    if start is not None:
        of_clients = partial(one.of_clients, fed, net, local, seed, one.written_to(fed))
        check_start(start, partial(one.made_from, of_clients, strategy), rounds)
    given: Any = {"theta": theta, "start": start, "watch": watch}
    return one.train(fed, net, own, rounds=rounds, local=local, seed=seed, **given)


@documented_by(one.local_updates)
def local_updates(
    fed: Federation,
    net: Model,
    theta: Tensor | None,
    clients: Tensor | Sequence[int] | None = None,
    *,
    local: LocalSGD | None = None,
    seed: int = 0,
    t: int = 1,
) -> Tensor:
    local, seed = LocalSGD() if local is None else local, whole("seed", seed, None)
    t = whole("t", t)
    net, theta = starting_model(fed, net, 1, local, seed, theta)
    named = range(fed.clients) if clients is None else clients
    ids = distinct_ids("clients", named, fed.clients)
    return one.local_updates(fed, net, theta, ids, local=local, seed=seed, t=t)


@documented_by(many.simulate)
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
    rule: many.Rule | None = None,
    cache: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> Tensor:
    local, seed = LocalSGD() if local is None else local, whole("seed", seed, None)
    instance("fed", fed, Federation, "a Federation")
    check_metric("metric", metric)
    choice("on", on, ("validation", "test"))
    last, n_jobs = flag("last", last), processes("n_jobs", n_jobs)
    participation = shares("participation", participation, fed.clients)
    net, theta = starting_model(fed, net, participation.shape[1], local, seed, theta)
    # A metric that fails does so before training.
    quality(net, theta[None], *fed.server(on), metric)
    given: Any = {"rule": None if rule is None else Ruled(rule), "cache": cache, "n_jobs": n_jobs}
    given |= {"metric": metric, "on": on, "theta": theta, "last": last}
    return many.simulate(fed, net, participation, local=local, seed=seed, **given)


class Ruled:
    """A reader's rule of aggregation, which gets copies and whose answer is checked."""

    def __init__(self, given: many.Rule):
        instance("rule", given, Callable, "a function of (updates, sizes)")  # type: ignore[arg-type]
        self.given = given

    def __call__(self, updates: Tensor, sizes: Tensor) -> Tensor:
        try:
            step = self.given(updates.clone(), sizes.clone())
        except Exception as error:  # a function may fail in any way
            raise ValueError(f"rule: fails on updates {shown(updates)}: {error}") from error
        return reals("rule", step, [updates.shape[1]]).to(updates)


def shares(name: str, value: Any, clients: int) -> Tensor:
    """A participation tensor [B, T, K] of shares, checked; TypeError or ValueError if wrong."""
    found = array(name, value, ["B", "T", clients])
    if not ((found >= 0) & (found <= 1)).all():
        raise ValueError(f"{name}: shares must lie in [0, 1]")
    return found.cpu()


def starting_model(
    fed: Federation,
    net: Model,
    rounds: int,
    local: LocalSGD,
    seed: int,
    theta: Tensor | None = None,
    start: History | None = None,
) -> tuple[Model, Tensor]:
    """Check the arguments of any training; return a copy of the model and its first parameters."""
    instance("fed", fed, Federation, "a Federation")
    instance("net", net, Model, "fm.Model(module)")
    instance("local", local, LocalSGD, "fm.LocalSGD(...)")
    local.rate(whole("rounds", rounds))  # the last step size must be finite
    check_fits(net, fed.x, fed.classes)
    taken = snapshot(net)
    check_objective(taken, fed.x, fed.y)
    if start is not None:
        instance("start", start, History, "a History, as fm.train or History.load returns")
        if theta is not None:
            raise ValueError(
                "theta: start= already holds the model to continue; give only one of them"
            )
        return taken, start.theta.to(fed.x, copy=True)
    # The whole training run uses the type and the device of the data.
    if theta is not None:
        return taken, reals("theta", theta, [taken.P], dtype=fed.x.dtype).to(
            fed.x.device, copy=True
        )
    # A model that is a copy already comes from a training run that has warned.
    if not net._ours and taken is not net:
        warnings.warn(
            f"net: the training starts anew, from theta=net.init({seed}); theta=net.theta() "
            "starts from the module's own weights",
            stacklevel=3,
        )
    return taken, one.first_model(fed, taken, seed)


def check_start(start: History, made_from: Callable[[], Mapping[str, str]], rounds: int) -> None:
    """Refuse a history of another training run, and name the settings that differ."""
    try:
        before, now = start.made_from(), made_from()
    except ValueError as error:
        raise ValueError(f"start: {error}") from None
    if differing := [
        name
        if max(len(before.get(name, "")), len(now[name])) > 40
        else f"{name} ({before.get(name)}, now {now[name]})"
        for name in now
        if before.get(name) != now[name]
    ]:
        raise ValueError(f"start: its training differs in {', '.join(differing)}")
    if start.rounds > rounds:
        raise ValueError(f"start: holds {start.rounds} rounds, more than rounds={rounds}")
