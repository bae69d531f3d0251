"""FedAvg: the base of every strategy. Chapter 1 derives it.

A strategy is the server's side of a round: a frozen configuration, and functions of the server and
of a state. Override ``select``, ``weights`` or ``step``. Its fields are what it is asked, and their
defaults are ours; ``PRINTED`` is what the paper has instead; constructors and checks follow.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import torch
from torch import Tensor

from ..checks import choice, flag, store, whole
from ..engine.rounds import Message, Round, Server, State, Step
from ..streams import stream

# (name, value) -> the value to keep, or a ValueError, TypeError
Check = Callable[[str, Any], Any]
Kind = TypeVar("Kind", bound=type)


def optional(check: Check) -> Check:
    """A check that also accepts None."""
    return lambda name, value: None if value is None else check(name, value)


def versus(choices: Mapping[str, tuple[object, object]]) -> dict[str, dict[str, str]]:
    """Those of the choices {name: (printed, ours)} that differ, in words."""

    def word(value: object) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value or "none")

    return {
        setting: {"as printed": word(printed), "ours": word(ours)}
        for setting, (printed, ours) in choices.items()
        if printed != ours
    }


def bounded(losses: Tensor) -> Tensor:
    """Losses of models, in which one that overflows is as bad as a number can say."""
    worst = torch.finfo(torch.float32).max
    return torch.nan_to_num(losses, nan=worst, posinf=worst).clamp(max=worst)


def classes_of(server: Server, name: str) -> int:
    """The number of classes; ValueError, begun with ``name``, where labels are numbers."""
    if not server.classes:
        raise ValueError(f"{name}: needs classes, and the labels here are numbers")
    return server.classes


def of_usual_size(rows: Tensor) -> Tensor:
    """Rows [..., P], each over a power of two: entries up to 1, directions to the last bit.

    Squares of a tiny or huge row would leave the range of numbers, or sink below somebody's eps.
    """
    largest = rows.abs().amax(-1, keepdim=True)
    # largest = mantissa * 2^exponent; a row of zeros stays as it is.
    powers = largest / torch.frexp(largest).mantissa
    return rows / torch.where(largest > 0, powers, 1)


def median_sent(lengths: Tensor) -> Tensor:
    """The median of updates' lengths, the lower one of two, without zeros; 0 if all are."""
    sent = lengths[lengths > 0]
    return sent.median() if len(sent) else lengths.new_zeros(())


@dataclass_transform(
    frozen_default=True, eq_default=False, kw_only_default=True, field_specifiers=(field,)
)
def strategy(kind: Kind) -> Kind:
    """Make a strategy of a class: a dataclass whose arguments pass through ``completed``."""
    decorated: Any = dataclass(frozen=True, eq=False, kw_only=True)(kind)
    construct = decorated.__init__
    signature = inspect.signature(construct)

    # Only here is it known which arguments were asked for and which are defaults.
    @functools.wraps(construct)
    def __init__(self: FedAvg, *args: Any, **options: Any) -> None:
        asked = signature.bind(self, *args, **options).arguments
        del asked["self"]
        construct(self, **self.completed(asked))

    decorated.__init__ = __init__
    return decorated


class Configuration:
    """What is fixed once it is made: a strategy remembers in its state, or not at all."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{type(self).__name__}.{name}: a strategy keeps nothing to itself; give init an entry "
            f'"{name}", and write to state["{name}"] in step'
        )


@dataclass(frozen=True, eq=False)
class FedAvg(Configuration):
    """Federated averaging: theta + sum_k (n_k / n) delta_k over the participants.

    per_round  how many clients are drawn at random each round; None: all
    weighting  "size" (n_k / n) or "uniform" (1 / m)

    scores [K]  mean aggregation weight of every client so far: contribution by size
    state       rounds: how many there were; total [K]: the sum of a client's scores over them
    raises      ValueError or TypeError naming the argument
    source      [McMahan et al. 2017, Algorithm 1]
    """

    per_round: int | None = None
    weighting: str = "size"

    # fields that the printed text decides otherwise, with its values; None: it has no such thing
    PRINTED: ClassVar[Mapping[str, object]] = {}
    CHECKS: ClassVar[dict[str, Check]] = {
        "per_round": optional(whole),
        "weighting": partial(choice, accepted=("size", "uniform")),
        "literal": flag,
    }

    def __post_init__(self) -> None:
        kind = type(self)
        # ``@strategy`` wraps the constructor, and ``functools.wraps`` leaves this attribute behind.
        if getattr(self, "literal", False) and not hasattr(kind.__init__, "__wrapped__"):
            raise TypeError(
                f"literal: {kind.__name__} wants @strategy above it, not @dataclass"
            )
        for setting, check in self.CHECKS.items():
            if hasattr(self, setting):
                store(self, **{setting: check(setting, getattr(self, setting))})

    @classmethod
    def completed(cls, asked: dict[str, Any]) -> dict[str, Any]:
        """The arguments asked for and those that follow from them; ``literal``: from the text."""
        if not flag("literal", asked.get("literal", False)):
            return asked
        # What the text does not have goes, even where it was asked for.
        unknown = [setting for setting, printed in cls.PRINTED.items() if printed is None]
        return {**cls.PRINTED, **asked, **dict.fromkeys(unknown)}

    @classmethod
    def printed(cls, **asked: Any) -> Self:
        """The paper's text, but for what is asked for; ``literal=True`` is another spelling."""
        options: dict[str, Any] = {"literal": True} if cls.PRINTED else {}
        return cls(**options | asked)

    @classmethod
    def departures(cls) -> dict[str, dict[str, str]]:
        """Paper versus code, for ``plots.table``: choices that differ, as printed and ours."""
        defaults = {option.name: option.default for option in fields(cls)}
        return versus(
            {name: (printed, defaults[name]) for name, printed in cls.PRINTED.items()}
        )

    def init(self, server: Server) -> State:
        """The state before round 1."""
        if self.per_round is not None and self.per_round > server.clients:
            raise ValueError(f"per_round: {self.per_round} of {server.clients} clients")
        total = torch.zeros(server.clients, dtype=torch.float64)
        return {"rounds": torch.tensor(0), "total": total}

    def select(self, server: Server, state: State, t: int) -> Tensor:
        """Ids of the clients asked to take part in round ``t``."""
        if self.per_round is None:
            return torch.arange(server.clients)
        order = torch.randperm(
            server.clients, generator=stream(server.seed, "selection", t)
        )
        # Sorted, so that the same clients add up in the same order however they were drawn.
        return order[: self.per_round].sort().values

    def weights(self, server: Server, state: State, round: Round) -> Tensor:
        """Aggregation weights [m] of the round's participants."""
        amounts = round.sizes.double()
        if self.weighting == "uniform":
            amounts = torch.ones_like(amounts)
        return (amounts / amounts.sum()).to(round.updates)

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The new global model [P], the weights that made it, and what is remembered."""
        weights = self.weights(server, state, round)
        self.count(state, round, weights)
        # Chapter 1, step 4: [m] @ [m, P] -> [P], and a mean of models is theta + the mean update.
        return Step(round.theta + weights @ round.updates, weights, state)

    def scores(self, server: Server, state: State) -> Tensor:
        """Contribution of every client so far, [K]."""
        return state["total"] / state["rounds"].clamp(min=1)

    def message(self, server: Server, state: State, t: int) -> Message | None:
        """What clients are asked beside training, after round ``t``; None: nothing."""
        return None

    def heard(self, server: Server, state: State, changed: Tensor) -> State:
        """The state after the clients ``changed`` said that they changed something."""
        return state

    @staticmethod
    def count(state: State, round: Round, scores: Tensor) -> None:
        """Count the round in the state, and what it adds to its clients' scores [m]."""
        if "rounds" not in state:
            raise ValueError(
                "init: write super().init(server) | {...}: count needs its entries"
            )
        state["rounds"] += 1
        state["total"][round.clients] += scores.detach().double().cpu()
