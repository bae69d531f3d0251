"""Guard: the checks and warnings of a training run; so ``train.py`` shows only a round.

They concern the arguments, the clients that are left out, the history that a training run
continues, and what a strategy returns; the page "Bring your own" has a template of a strategy.
Below: history, files. Above: train, simulate, flower.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..parse.checks import instance, reals, shown, whole
from ..worlds.federation import Federation
from .files import described
from .fit import check_fits, check_objective
from .history import History
from .minibatches import LocalSGD
from .model import Model
from .objective import Objective
from .outputs import frozen
from .rounds import Round, State, Step


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
    taken = frozen(net)
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
    return taken, taken.init(seed, dtype=fed.x.dtype, device=fed.x.device)


def made_from(fed: Federation, net: Model, local: LocalSGD, seed: int) -> dict[str, str]:
    """All that the clients' training depends on, part by part, as text or as a hash."""
    from .. import __version__

    data = (fed.x, fed.y, fed.sizes, fed.validation, fed.test, sorted(fed.unusable))
    shapes = {name: list(shape) for name, shape in net.shapes.items()}
    own = net.objective != Objective()
    objective = f" {described(net.objective)}" if own else ""
    return {
        "version": __version__,
        "clients": str(fed.clients),
        "data": described(data),
        "attacks": described(dict(sorted(fed.attacks.items()))),
        "net": f"{shapes} {described(net.module)}{objective}",
        "local": described(local),
        "seed": str(whole("seed", seed, None)),
    }


def names(ids: Iterable[int]) -> str:
    """Client ids for a message: sorted, separated by commas."""
    return ", ".join(map(str, sorted(ids)))


def warn_unusable_data(fed: Federation) -> None:
    """Warn once in a training run about clients whose inputs are not finite."""
    if fed.unusable:
        warnings.warn(
            f"client {names(fed.unusable)} holds inputs that are not finite and is left out",
            stacklevel=3,
        )


def warn_left_out(t: int, clients: list[int], before: Counter[int], asked: int) -> None:
    """Count the clients that are left out of a round; warn the first time for each."""
    newly = [client for client in clients if not before[client]]
    before.update(clients)
    if newly:
        hint = (
            ""
            if len(clients) < asked
            else "; no client is left, so scale the inputs or reduce the step size"
        )
        warnings.warn(
            f"round {t}: client {names(newly)} sent an update that is not finite or far too "
            f"long; it is left out, now and whenever that happens again{hint}",
            stacklevel=5,
        )


def sum_up(left_out: Counter[int]) -> None:
    """Warn of clients that were left out more than once, with the number of rounds."""
    counts = sorted(left_out.items())
    repeated = [f"client {k} in {count} rounds" for k, count in counts if count > 1]
    if repeated:
        warnings.warn(f"left out: {', '.join(repeated)}", stacklevel=4)


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


def check_strategy(strategy: Any) -> None:
    """TypeError if this is no strategy."""
    if isinstance(strategy, type) or not hasattr(strategy, "step"):
        raise TypeError(f"strategy: expected one such as fm.FedAvg(), got {shown(strategy)}")


def checked_state(name: str, state: Any, like: State | None = None) -> State:
    """The state that a strategy returned, checked: tensors by name, the names of ``like``."""
    if not isinstance(state, dict):
        raise TypeError(f"{name}: expected a dict of tensors, got {shown(state)}")
    for part, value in state.items():
        if not torch.is_tensor(value):
            raise TypeError(
                f'{name}: expected a tensor as state["{part}"], got {shown(value)}; '
                f"torch.tensor({shown(value)}) is one"
            )
    if like is not None and state.keys() != like.keys():
        raise ValueError(
            f"{name}: expected the state that init begins with ({', '.join(like)}), "
            f"got {', '.join(state)}"
        )
    return {part: value.detach() for part, value in state.items()}


def checked_step(name: str, step: Any, round: Round, before: State) -> Step:
    """What a strategy's ``step`` returned, checked; TypeError or ValueError if it is wrong."""
    instance(name, step, Step, "Step(theta, weights, state)")
    theta = reals(f"{name}: theta", step.theta, [len(round.theta)])
    weights = reals(f"{name}: weights", step.weights, [len(round.clients)])
    state = checked_state(name, step.state, before)
    evaluated = whole(f"{name}: evaluated", step.evaluated, 0)
    like = round.theta
    return Step(theta.to(like), weights.to(like), state, evaluated)
