"""Guard: the ceremony around a training, so that ``train.py`` reads as a round does.

What every training checks before it begins, whom it warns of, what it may go on from, and what a
strategy of one's own owes it; the page "Bring your own" has a template. Below: history, files.
Above: train, simulate, flower.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from ..checks import instance, reals, shown, whole
from ..worlds.federation import Federation
from .files import described
from .history import History
from .minibatches import LocalSGD
from .model import Model
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
    """Check what every training needs; return the module as it now is, and where it starts."""
    instance("fed", fed, Federation, "a Federation")
    instance("net", net, Model, "fm.Model(module)")
    instance("local", local, LocalSGD, "fm.LocalSGD(...)")
    local.rate(whole("rounds", rounds))  # that of the last round must be finite
    net.check(fed.x, fed.classes)
    taken = net.now()
    if start is not None:
        instance(
            "start", start, History, "a History, as fm.train or History.load returns"
        )
        if theta is not None:
            raise ValueError(
                "theta: start= brings the model to go on from; give one of them"
            )
        return taken, start.theta.to(fed.x, copy=True)
    # The data's type and device decide those of the whole training.
    if theta is not None:
        return taken, reals("theta", theta, [taken.P], dtype=fed.x.dtype).to(
            fed.x.device, copy=True
        )
    # A copy was made by a training that has said so.
    if not net.ours and taken is not net:
        warnings.warn(
            f"net: the training starts anew, from theta=net.init({seed}); theta=net.theta() "
            "starts from the module's own weights",
            stacklevel=3,
        )
    return taken, taken.init(seed, dtype=fed.x.dtype, device=fed.x.device)


def made_from(fed: Federation, net: Model, local: LocalSGD, seed: int) -> dict[str, str]:
    """All that the clients' training depends on, part by part, in words or as a hash."""
    from .. import __version__

    data = (fed.x, fed.y, fed.sizes, fed.validation, fed.test, sorted(fed.unusable))
    shapes = {name: list(shape) for name, shape in net.shapes.items()}
    return {
        "version": __version__,
        "clients": str(fed.clients),
        "data": described(data),
        "attacks": described(dict(sorted(fed.attacks.items()))),
        "net": f"{bool(net.layers)} {shapes} {described(net.module)}",
        "local": described(local),
        "seed": str(whole("seed", seed, None)),
    }


def names(ids: Iterable[int]) -> str:
    """Client ids for a message: sorted, separated by commas."""
    return ", ".join(map(str, sorted(ids)))


def warn_unusable_data(fed: Federation) -> None:
    """Name the clients whose data are not finite, once a training."""
    if fed.unusable:
        warnings.warn(
            f"client {names(fed.unusable)} holds inputs that are not finite and takes no part",
            stacklevel=3,
        )


class Blame:
    """Who sent updates that do not count: each client is named in one warning, and counted."""

    def __init__(self) -> None:
        self.rounds_left_out: Counter[int] = Counter()
        self.divergence_warned = False

    def note(self, t: int, culprits: list[int], unblamed: int) -> None:
        """After a round: ids of those who are to blame, and how many others were left out."""
        # A client that lies every round is worth one line, not one a round.
        newly_left_out = [k for k in culprits if not self.rounds_left_out[k]]
        self.rounds_left_out.update(culprits)
        if newly_left_out:
            warnings.warn(
                f"round {t}: client {names(newly_left_out)} sent an update that is not finite or "
                "far too long; it is left out, now and whenever that happens again",
                stacklevel=6,
            )
        if unblamed and not self.divergence_warned:
            self.divergence_warned = True
            warnings.warn(
                f"round {t}: training diverges from this model; {unblamed} updates that are not "
                "finite or far too long are left out, and nobody is named",
                stacklevel=6,
            )

    def sum_up(self) -> None:
        """How often clients were left out, where once is not all."""
        counts = sorted(self.rounds_left_out.items())
        repeated = [
            f"client {k} in {count_of_rounds} rounds"
            for k, count_of_rounds in counts
            if count_of_rounds > 1
        ]
        if repeated:
            warnings.warn(f"left out: {', '.join(repeated)}", stacklevel=4)


def check_start(start: History, now: dict[str, str], rounds: int) -> None:
    """Refuse a history that another training has left, naming what differs."""
    before = start.made_from()
    if differing := [
        name
        if max(len(before.get(name, "")), len(now[name])) > 40
        else f"{name} ({before.get(name)}, now {now[name]})"
        for name in now
        if before.get(name) != now[name]
    ]:
        raise ValueError(f"start: belongs to another training, by {', '.join(differing)}")
    if (done := len(start.rows["scores"])) > rounds:
        raise ValueError(f"start: holds {done} rounds, {rounds} asked")


def check_strategy(strategy: Any) -> None:
    """TypeError for what is no strategy."""
    if isinstance(strategy, type) or not hasattr(strategy, "step"):
        raise TypeError(
            f"strategy: expected one such as fm.FedAvg(), got {shown(strategy)}"
        )


def checked_state(name: str, state: Any, like: State | None = None) -> State:
    """A state as a strategy returns it: tensors by name, the same names as at first."""
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
    """What a strategy's ``step`` returns, checked, in memory of its own."""
    instance(name, step, Step, "fm.Step(theta, weights, state)")
    theta = reals(f"{name}: theta", step.theta, [len(round.theta)])
    weights = reals(f"{name}: weights", step.weights, [len(round.clients)])
    state = checked_state(name, step.state, before)
    # Where rounds are counted, this one has to be: else the scores would stand still.
    if "rounds" in state and torch.equal(state["rounds"], before["rounds"]):
        raise ValueError(
            f"{name}: counts no round and no scores; write "
            "self.count(state, round, scores) before it returns"
        )
    evaluated = whole(f"{name}: evaluated", step.evaluated, 0)
    like = round.theta
    return Step(theta.to(like, copy=True), weights.to(like, copy=True), state, evaluated)


@contextlib.contextmanager
def unwritten(who: str, label: str, parts: dict[str, Any]) -> Iterator[None]:
    """Refuse a call that writes into what others read: ValueError naming the tensor."""
    before = _versions(parts)
    yield
    if (after := _versions(parts)) == before:
        return
    name = next(n for n in before | after if before.get(n) != after.get(n))
    raise ValueError(
        f"{who} writes into {label.format(name)}, which others read; write into a copy, or into "
        "the state that step is given"
    )


def _versions(parts: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Which object stands under each name, and how often it was written to, as PyTorch counts."""
    counted = {n: torch.is_tensor(p) and not p.is_inference() for n, p in parts.items()}
    return {n: (id(p), p._version if counted[n] else 0) for n, p in parts.items()}
