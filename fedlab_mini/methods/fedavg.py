"""FedAvg: the base of every strategy. Chapter 1 derives it.

A strategy is the server's side of a round: override ``select``, ``weights`` or ``aggregate``. It
says what it is asked (its fields, whose defaults are ours), what it remembers (``KEPT``), and what
the paper has instead (``PRINTED``); constructors, checks and states follow from that.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import torch
from torch import Tensor

from ..checks import choice, flag, whole
from ..engine.rounds import Message, Round, Server
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


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def strategy(kind: Kind) -> Kind:
    """Make a strategy of a class: a dataclass whose arguments pass through ``completed``."""
    decorated: Any = dataclass(eq=False, kw_only=True)(kind)
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


@dataclass(eq=False)
class FedAvg:
    """Federated averaging: theta + sum_k (n_k / n) delta_k over the participants.

    per_round  how many clients are drawn at random each round; None: all
    weighting  "size" (n_k / n) or "uniform" (1 / m)

    scores [K]   mean aggregation weight of every client so far: contribution by size
    applied [K]  the weights of the last round, 0 for absent clients
    evaluations  models the server has evaluated
    raises       ValueError or TypeError naming the argument
    source       [McMahan et al. 2017, Algorithm 1]
    """

    per_round: int | None = None
    weighting: str = "size"

    # attributes (or attributes of attributes) that the coming rounds depend on, set by ``start``
    KEPT: ClassVar[tuple[str, ...]] = ("rounds", "evaluations", "total", "applied")
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
                setattr(self, setting, check(setting, getattr(self, setting)))

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

    def start(self, server: Server) -> None:
        """Called once before the first round; forgets everything."""
        if self.per_round is not None and self.per_round > server.clients:
            raise ValueError(f"per_round: {self.per_round} of {server.clients} clients")
        self.server = server
        self.evaluations = 0
        self.rounds = 0
        self.total = torch.zeros(server.clients, dtype=torch.float64)
        self.applied = torch.zeros(server.clients)

    @property
    def scores(self) -> Tensor:
        """Contribution of every client so far, [K]."""
        return self.total / max(self.rounds, 1)

    def select(self, t: int) -> Tensor:
        """Ids of the clients asked to take part in round ``t``."""
        if self.per_round is None:
            return torch.arange(self.server.clients)
        chance = stream(self.server.seed, "selection", t)
        order = torch.randperm(self.server.clients, generator=chance)
        # Sorted, so that the same clients add up in the same order however they were drawn.
        return order[: self.per_round].sort().values

    def weights(self, round: Round) -> Tensor:
        """Aggregation weights [m] of the round's participants."""
        amounts = round.sizes.double()
        if self.weighting == "uniform":
            amounts = torch.ones_like(amounts)
        return (amounts / amounts.sum()).to(round.updates)

    def aggregate(self, round: Round) -> Tensor:
        """The new global model [P]; records the weights that made it."""
        weights = self.weights(round)
        self.record(round, weights, weights)
        # Chapter 1, step 4: [m] @ [m, P] -> [P], and a mean of models is theta + the mean update.
        return round.theta + weights @ round.updates

    def message(self, t: int) -> Message | None:
        """What clients are asked beside training, after round ``t``; None: nothing."""
        return None

    def hear(self, clients: Tensor) -> None:
        """Ids of the clients that changed something on a message; nothing else comes back."""

    def record(self, round: Round, weights: Tensor, scores: Tensor) -> None:
        """Note the weights [m] applied in a round, and what it adds to its clients' scores [m]."""
        # A new tensor, as histories keep the old one.
        self.applied = torch.zeros(
            self.server.clients, dtype=weights.dtype, device=weights.device
        )
        self.applied[round.clients] = weights
        self.rounds += 1
        self.total[round.clients] += scores.detach().double().cpu()

    def state_dict(self) -> dict[str, Tensor]:
        """All that the coming rounds depend on, as tensors; ``load_state_dict`` restores it."""
        # The name of the class in bytes, since a state holds tensors only.
        state = {"kind": torch.tensor(list(type(self).__name__.encode()))}
        for attribute in self.KEPT:
            value = attrgetter(attribute)(self)
            # A number of Python's is one in double precision, and comes back as it was.
            dtype = torch.float64 if isinstance(value, float) else None
            state[attribute] = torch.as_tensor(value, dtype=dtype).detach().clone()
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on where ``state_dict`` was taken; call ``start`` before.

        ValueError if the state belongs to another strategy or number of clients
        """
        current = self.state_dict()
        shapes = {name: list(tensor.shape) for name, tensor in state.items()}
        fits = shapes == {name: list(tensor.shape) for name, tensor in current.items()}
        if not fits or not torch.equal(state["kind"], current["kind"]):
            raise ValueError(
                f"state: {type(self).__name__} of these clients cannot hold {shapes}"
            )
        for kept in self.KEPT:
            path, _, attribute = kept.rpartition(".")
            owner: Any = attrgetter(path)(self) if path else self
            previous = getattr(owner, attribute)
            restored: Any = state[kept].clone()
            if torch.is_tensor(previous):
                # A saved tensor takes no gradient; the parameters of a policy have to.
                restored.requires_grad_(previous.requires_grad)
            else:
                restored = restored.item()
            setattr(owner, attribute, restored)
