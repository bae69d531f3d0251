"""Answers: a reader's own strategy, wrapped so that it gets copies and its answers are checked.

The book's own strategies are used as they are. A reader's gets copies of the server and the state,
and must not write into the round, so that nothing it writes is lost or read by others; the page
"Bring your own" has a template. Below: engine, judge.own. Above: training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from ..engine.model import Model
from ..engine.rounds import Message, Round, Server, State, Step, Strategy, copied
from ..judge.own import is_guest
from ..parse.checks import distinct_ids, instance, reals, refusal, shown, whole

# The tensors of a round that others read, too.
PARTS = ("theta", "clients", "sizes", "updates", "missing")


def a_strategy(name: str, value: Any) -> Strategy:
    """A strategy: the book's own as it is, a reader's within ``Answers``."""
    if isinstance(value, type) or not hasattr(value, "step"):
        raise refusal(name, "one such as fm.FedAvg()", value, TypeError)
    return Answers(value) if is_guest(value) and not isinstance(value, Answers) else value


class Answers:
    """A reader's strategy: it gets copies, and its answers are copied and checked.

    inside  the strategy itself
    raises  TypeError or ValueError naming the method and what is wrong with its answer
    """

    def __init__(self, inside: Strategy):
        self.inside, self.name = inside, type(inside).__name__
        self.server: tuple[Server, Server] | None = None  # the real one, and the copy that is shown

    def _shown(self, server: Server) -> Server:
        """A copy of the server, the same one throughout a training run."""
        if self.server is None or self.server[0] is not server:
            self.server = server, server.copy()
        return self.server[1]

    def _read(self, state: State, method: Callable[[State], Any]) -> Any:
        """The answer of a method that may only read the state."""
        before = written(state.values())
        answer = method(ReadOnly(state))
        if (part := changed(list(state), before, written(state.values()))) is not None:
            raise ValueError(
                f'{self.name}: select, message or scores writes into state["{part}"]; only step '
                "and heard may; elsewhere write into a copy, .clone()"
            )
        return answer

    def init(self, server: Server) -> State:
        """The state before round 1, checked."""
        self.server = None
        state = self.inside.init(self._shown(server))
        return copied(checked_state(f"{self.name}.init", state))

    def select(self, server: Server, state: State, t: int) -> Tensor:
        """The selected ids, checked and copied."""
        own = self._shown(server)
        asked = self._read(state, lambda state: self.inside.select(own, state, t))
        return distinct_ids("clients", asked, server.clients).clone()

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The step, checked; the strategy must not write into the round, which others read."""
        name, before = f"round {round.t}: {self.name}.step", dict(state)
        unwritten = written(getattr(round, part) for part in PARTS)
        counted = before["rounds"].clone() if "rounds" in before else None
        step = self.inside.step(self._shown(server), state, round)
        step = checked_step(name, step, round, before, server.clients)
        # If the state counts rounds, it must count this one, or the scores would not change; a
        # round whose clients are all named is none.
        rests = len(step.named) == len(round.clients)
        if not rests and counted is not None and torch.equal(step.state["rounds"], counted):
            raise ValueError(
                f"{name}: counts no round and no scores; write "
                "self.count(state, round, scores) before it returns"
            )
        refuse_written(name, round, unwritten)
        return step

    def scores(self, server: Server, state: State) -> Tensor:
        """The scores [K], checked."""
        own = self._shown(server)
        scores = self._read(state, lambda state: self.inside.scores(own, state))
        return reals(f"{self.name}.scores", scores, [server.clients]).detach()

    def message(self, server: Server, state: State, t: int) -> Message | None:
        """The message to clients whose ids are checked; None if there is none."""
        own = self._shown(server)
        message = self._read(state, lambda state: self.inside.message(own, state, t))
        if message is None:
            return None
        return Sent(message, distinct_ids("clients", message.clients, server.clients))

    def heard(self, server: Server, state: State, changed: Tensor) -> State:
        """The state after clients changed labels, checked."""
        names = dict(state)
        told = self.inside.heard(self._shown(server), state, changed.clone())
        return checked_state(f"{self.name}.heard", told, names)


@dataclass(frozen=True)
class Sent:
    """A reader's message with its clients checked."""

    inside: Message
    clients: Tensor

    def answer(self, net: Model, theta: Tensor, x: Tensor, original: Tensor, y: Tensor) -> Tensor:
        """The client's new labels [n]."""
        return self.inside.answer(net, theta, x, original, y)


class ReadOnly(dict[str, Tensor]):
    """A state for methods that may only read it."""

    def __setitem__(self, name: str, value: Tensor) -> None:
        raise ValueError(
            f'state["{name}"]: can be changed only in the state that step or heard returns'
        )


def watching(name: str, value: Any) -> Callable[[Round, Step], object]:
    """A reader's ``watch``: it gets a copy of the step, and must not write into the round."""
    instance(name, value, Callable, "a function of (round, step)")  # type: ignore[arg-type]

    def watch(round: Round, step: Step) -> None:
        before = written(getattr(round, part) for part in PARTS)
        theta, weights = step.theta.clone(), step.weights.clone()
        value(round, step._replace(theta=theta, weights=weights, state=copied(step.state)))
        refuse_written("watch", round, before)

    return watch


def refuse_written(name: str, round: Round, before: tuple[int, ...]) -> None:
    """Refuse what wrote into a round's tensors."""
    now = written(getattr(round, part) for part in PARTS)
    if (part := changed(PARTS, before, now)) is not None:
        raise ValueError(
            f"{name} writes into round.{part}, which others read; write into a copy, "
            f"round.{part}.clone()"
        )


def written(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """How often each tensor has been written to, by PyTorch's counter."""
    return tuple(map(attrgetter("_version"), tensors))


def changed(names: Sequence[str], before: tuple[int, ...], now: tuple[int, ...]) -> str | None:
    """The first name whose tensor was written to in between; None if there is none."""
    counts = zip(names, before, now, strict=True)
    return next((name for name, one, other in counts if one != other), None)


def checked_state(name: str, state: Any, like: State | None = None) -> State:
    """The state that a strategy returned, checked: tensors by name, the names of ``like``."""
    for part, value in instance(name, state, dict, "a dict of tensors").items():
        if not torch.is_tensor(value):
            raise TypeError(
                f'{name}: expected a tensor as state["{part}"], got {shown(value)}; '
                f"torch.tensor({shown(value)}) is one"
            )
    if like is not None and state.keys() != like.keys():
        raise refusal(name, f"the state that init begins with, {list(like)}", list(state))
    return {part: value.detach() for part, value in state.items()}


def checked_step(name: str, step: Any, round: Round, before: State, clients: int) -> Step:
    """What a strategy's ``step`` returned, checked and copied; TypeError or ValueError if wrong."""
    instance(name, step, Step, "Step(theta, weights, state)")
    theta = reals(f"{name}: theta", step.theta, [len(round.theta)])
    weights = reals(f"{name}: weights", step.weights, [len(round.clients)])
    state = checked_state(name, step.state, before)
    evaluated = whole(f"{name}: evaluated", step.evaluated, 0)
    named = distinct_ids(f"{name}: named", step.named, clients)
    theta, weights = (part.to(round.theta, copy=True) for part in (theta, weights))
    return Step(theta, weights, state, evaluated, tuple(named.tolist()))
