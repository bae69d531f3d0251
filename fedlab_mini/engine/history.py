"""History: the record of a training run, while it runs and at its end, and its file on disk.

Chapter 1 introduces it. Unlike a record of curves, it holds all that later rounds depend on, so a
run that is continued gives the same bytes. Tables [T, K] are kept as what changes from round to
round.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..keep.files import read_arrays, whole_file
from ..parse.checks import home
from .rounds import State, Strategy, copied

if TYPE_CHECKING:
    import pandas


def frame(index: str | None = None, **columns: Tensor) -> pandas.DataFrame:
    """A pandas table of columns [N] from any device; ``index`` is the name of the ids 0..N-1."""
    import pandas  # here, because the import takes a second

    # Pandas cannot read tensors on other devices.
    table = pandas.DataFrame({name: column.cpu().numpy() for name, column in columns.items()})
    return table if index is None else table.rename_axis(index)


@dataclass(frozen=True)
class Cost:
    """The cost of a result: trained client epochs, evaluated models and seconds."""

    client_epochs: float = 0.0
    model_evaluations: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*map(operator.add, vars(self).values(), vars(other).values()))


Changes = list[tuple[Tensor, Tensor]]  # for each round: client ids and their entries
NOTED = ("scores", "weights", "selected", "named")  # noted for each round and client


def table(changes: Changes, clients: int, *, kept: bool) -> Tensor:
    """A table [T, K] from the entries that each round has for some of the clients.

    kept  the other clients keep their entry of the round before; otherwise theirs is 0
    """
    like = changes[0][1] if changes else torch.empty(0)
    rows = like.new_zeros(len(changes), clients)
    for t, (ids, values) in enumerate(changes):
        if kept and t:
            rows[t] = rows[t - 1]
        rows[t, ids] = values
    return rows


@dataclass(eq=False, kw_only=True)
class History:
    """The record of T rounds with K clients, and all that is needed to continue the training.

    While a training runs, it adds to its own record; what it returns are copies.

    accuracy, loss [T + 1]  on the test set; index 0 is before training. If the model has a metric,
                            accuracy is that metric; it is NaN if there are no classes
    scores, weights [T, K]  contribution after each round; aggregation weight in each round
    selected, named [T, K]  which clients were selected; which ones a defence accused
    changes                 source of the last four: each round's entries, for some clients only
    theta [P]               the final model; cost: see ``Cost``
    state                   the strategy's state at the end
    strategy                the strategy that was used; None if the history was loaded
    labels [n]              all clients' labels at the end; they differ from the federation's only
                            if a message of the strategy made clients change them
    last_step [P], memory, limit  for the next round: what the last round added to the model, what
                            the clients remember, and the greatest length of a usable update
    made_from               a function that says what decided the training: {part: text or hash}
    metric                  the name of the values in ``accuracy``, such as that of a model's metric
    """

    accuracy: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64))
    loss: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64))
    changes: dict[str, Changes] = field(default_factory=lambda: {name: [] for name in NOTED})
    clients: int
    theta: Tensor
    strategy: Strategy | None
    cost: Cost = Cost()
    state: State
    labels: Tensor
    last_step: Tensor
    memory: State
    limit: float
    made_from: Callable[[], Mapping[str, str]]
    metric: str = "accuracy"

    @cached_property
    def scores(self) -> Tensor:
        """Contribution after each round, [T, K]."""
        return table(self.changes["scores"], self.clients, kept=True)

    @cached_property
    def weights(self) -> Tensor:
        """Aggregation weight in each round, [T, K]; 0 for clients that did not participate."""
        return table(self.changes["weights"], self.clients, kept=False)

    @cached_property
    def selected(self) -> Tensor:
        """Which clients were selected in each round, [T, K]."""
        return table(self.changes["selected"], self.clients, kept=False)

    @cached_property
    def named(self) -> Tensor:
        """Which clients a defence accused in each round, [T, K]."""
        return table(self.changes["named"], self.clients, kept=False)

    @property
    def rounds(self) -> int:
        """The number of rounds, T."""
        return len(self.changes["scores"])

    def __repr__(self) -> str:
        known = not self.accuracy.isnan().any()
        name, values = (self.metric, self.accuracy) if known else ("loss", self.loss)
        return (
            f"History({self.rounds} rounds, {self.clients} clients, "
            f"{name} {values[0]:.3f} -> {values[-1]:.3f}, "
            f"{self.cost.client_epochs:.0f} client epochs)"
        )

    def to_frame(self) -> pandas.DataFrame:
        """A tidy pandas table: one row for each round 1..T and client 0..K-1.

        columns  round, client, score, weight, selected; accuracy, or the model's metric by its own
                 name, and loss of the model after the round, the same for all its clients (before
                 round 1: ``accuracy[0]``, ``loss[0]``)
        """
        rounds, clients = self.scores.shape
        judged: Any = {self.metric: self.accuracy[1:].repeat_interleave(clients)}
        return frame(
            round=torch.arange(1, rounds + 1).repeat_interleave(clients),
            client=torch.arange(clients).repeat(rounds),
            score=self.scores.flatten(),
            weight=self.weights.flatten(),
            selected=self.selected.flatten(),
            **judged,
            loss=self.loss[1:].repeat_interleave(clients),
        )

    def continued(self, fresh: History) -> History:
        """This history as the record of a run that goes on, with devices and types of ``fresh``."""
        device = fresh.theta.device
        return replace(
            fresh,
            accuracy=self.accuracy,
            loss=self.loss,
            changes={name: list(changes) for name, changes in self.changes.items()},
            theta=self.theta.to(fresh.theta, copy=True),
            cost=self.cost,
            state={n: self.state[n].to(part.device, copy=True) for n, part in fresh.state.items()},
            last_step=self.last_step.to(fresh.theta, copy=True),
            memory={n: part.to(device, copy=True) for n, part in self.memory.items()},
            limit=self.limit,
        )

    def so_far(self, seconds: float, labels: Tensor) -> History:
        """A copy of a running record; ``seconds`` are those since it was begun or continued."""
        return replace(
            self,
            changes={name: list(changes) for name, changes in self.changes.items()},
            cost=self.cost + Cost(seconds=seconds),
            state=copied(self.state),
            memory=copied(self.memory),
            labels=labels.clone(),
        )

    def __getstate__(self) -> dict[str, object]:
        """For copies and other processes: ``made_from`` becomes text, without the data."""
        state = dict(vars(self))
        with contextlib.suppress(ValueError):  # for a lambda: this stays a function
            state["made_from"] = partial(dict, self.made_from())
        return state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the history to ``path`` (npz), completely or not at all; ``load`` reads it.

        raises  ValueError if a setting is a lambda; OSError that names the file
        """
        try:
            words = json.dumps(dict(self.made_from()))
        except ValueError as error:
            raise ValueError(f"save: {error}") from None
        arrays = {name: to_numpy(getattr(self, name)) for name in TENSORS}
        for whose in ("state", "memory"):
            held: State = getattr(self, whose)
            arrays |= {f"{whose}.{name}": to_numpy(part) for name, part in held.items()}
        numbers = [self.clients, self.limit, *vars(self.cost).values()]
        arrays |= {"made_from": np.array(words), "numbers": np.array(numbers)}
        arrays |= {"metric": np.array(self.metric)}
        for name, changes in self.changes.items():
            ids, values = zip(*changes, strict=True) if changes else ((), ())
            none = torch.empty(0)
            arrays |= {
                f"{name}.counts": np.array(list(map(len, ids)), dtype=np.int64),
                f"{name}.clients": to_numpy(torch.cat([none.int(), *ids])),
                f"{name}.values": to_numpy(torch.cat([none.bool(), *values])),
            }
        with whole_file(home(path)) as part, open(part, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    @staticmethod
    def load(path: str | os.PathLike[str]) -> History:
        """Read a history that ``save`` has written; ValueError if the file holds none."""
        arrays = read_arrays("path", home(path))
        try:
            words, numbers = (json.loads(str(arrays.pop("made_from"))), arrays.pop("numbers"))
            metric = str(arrays.pop("metric", "accuracy"))  # files of version 2 have no name
            parts = {name: torch.from_numpy(array) for name, array in arrays.items()}
            changes = {name: _changes(name, parts) for name in NOTED}
            tensors = {name: parts[name] for name in TENSORS}
        except (KeyError, ValueError) as error:
            raise ValueError(f"path: {path} holds no history ({error})") from error
        clients, limit, client_epochs, model_evaluations, seconds = numbers.tolist()

        def held(whose: str) -> State:
            return {n.removeprefix(whose): p for n, p in parts.items() if n.startswith(whose)}

        return History(
            **tensors,
            changes=changes,
            clients=int(clients),
            strategy=None,
            cost=Cost(client_epochs, int(model_evaluations), seconds),
            state=held("state."),
            memory=held("memory."),
            limit=limit,
            made_from=partial(dict, words),
            metric=metric,
        )


TENSORS = ("accuracy", "loss", "theta", "labels", "last_step")


def _changes(name: str, arrays: Mapping[str, Tensor]) -> Changes:
    parts = [arrays[f"{name}.{part}"] for part in ("clients", "values")]
    counts = arrays[f"{name}.counts"].tolist()
    return list(zip(*(part.split(counts) for part in parts), strict=True))


def to_numpy(array: Tensor) -> np.ndarray:
    """A tensor on any device as a NumPy array."""
    return array.detach().cpu().numpy()
