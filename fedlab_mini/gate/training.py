"""Training: what people call to train one model, many models, or some clients for a round.

Arguments are parsed here, once, and then the core's function does the work: ``engine.train`` and
``engine.simulate``, which chapters 1 and 3 derive. Below: engine. Beside: answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from ..engine import simulate as many
from ..engine import train as one
from ..engine.history import History
from ..engine.minibatches import LocalSGD
from ..engine.model import Model
from ..engine.outputs import quality, snapshot
from ..parse.checks import array, distinct_ids, flag, instance, number, reals, shown, whole
from ..worlds.federation import Federation
from .answers import a_strategy, watching
from .fit import check_fits, check_objective
from .gated import Parsed, gated


def _train_arguments(
    fed: Any, net: Any, strategy: Any, theta: Any, start: Any, **given: Any
) -> Parsed:
    rounds, local, seed = given["rounds"], given["local"], given["seed"]
    net, theta = starting_model(fed, net, rounds, local, seed, theta, start)
    own = a_strategy("strategy", strategy)
    if start is not None:
        of_clients = partial(one.of_clients, fed, net, local, seed, one.written_to(fed))
        check_start(start, partial(one.made_from, of_clients, strategy), rounds)
    return {"net": net, "theta": theta, "strategy": own}


def _update_arguments(
    fed: Any, net: Any, theta: Any, clients: Any, local: Any, seed: int, **_: Any
) -> Parsed:
    net, theta = starting_model(fed, net, 1, local, seed, theta)
    named = range(fed.clients) if clients is None else clients
    return {"net": net, "theta": theta, "clients": distinct_ids("clients", named, fed.clients)}


def _simulate_arguments(
    fed: Any, net: Any, participation: Any, local: Any, seed: int, theta: Any, **given: Any
) -> Parsed:
    found = shares("participation", participation, fed.clients)
    net, theta = starting_model(fed, net, found.shape[1], local, seed, theta)
    # A metric that fails does so before training.
    quality(net, theta[None], *fed.server(given["on"]), given["metric"])
    return {"net": net, "theta": theta, "participation": found}


class Ruled:
    """A reader's rule of aggregation, which gets copies and whose answer is checked."""

    def __init__(self, name: str, given: many.Rule):
        instance(name, given, Callable, "a function of (updates, sizes)")  # type: ignore[arg-type]
        self.given = given

    def __call__(self, updates: Tensor, sizes: Tensor) -> Tensor:
        try:
            step = self.given(updates.clone(), sizes.clone())
        except Exception as error:  # a function may fail in any way
            raise ValueError(f"rule: fails on updates {shown(updates)}: {error}") from error
        return reals("rule", step, [updates.shape[1]]).to(updates)


train = gated(one.train, _train_arguments, watch=watching)
local_updates = gated(one.local_updates, _update_arguments, t=whole)
simulate = gated(
    many.simulate,
    _simulate_arguments,
    last=flag,
    rule=Ruled,
    momentum=partial(number, low=0, high=1, ends="[)"),
)


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
        return taken, reals("theta", theta, [taken.P], dtype=fed.x.dtype).to(fed.x, copy=True)
    # A model that is a copy already comes from a training run that has warned.
    if not net._ours and taken is not net:
        warnings.warn(
            f"net: the training starts anew, from theta=net.init({seed}); theta=net.theta() "
            "starts from the module's own weights",
            stacklevel=4,
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
