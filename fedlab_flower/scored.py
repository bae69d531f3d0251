"""Scored: add scores to any training in Flower, without changing a byte of the training.

The page "Score a federation that you already have" shows it. Builds on ledger, standing, scores.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from torch import Tensor

from fedlab_mini.gate.scoring import masked
from fedlab_mini.parse.checks import choice, shown, texts

from .ledger import Ledger
from .messages import LOGGER
from .scores import Replies, Validate, alignment, losses
from .standing import Standing

NEEDS: dict[str, str] = {  # score: the argument that it needs, besides the updates
    "CGSV": "",
    "class cosine": "",
    "step cosine": "",
    "trust cosine": "trusted",
    "leave one out": "validate",
    "second order": "validate",
    "Shapley, silent": "validate",
}
TO_THE_STEP = ("class cosine", "step cosine")  # cosines with the training's step
FLOWER = logging.getLogger("flwr")
PATCHED = ("configure_train", "aggregate_train")
# Up to 4,096 validations per round, so only on request.
COSTLY = "Shapley, silent"
Trusted = Callable[[ArrayRecord], ArrayRecord]
Strategy = TypeVar("Strategy")


def Scored(
    strategy: Strategy,
    ledger: str | os.PathLike[str],
    *,
    methods: Sequence[str] | None = None,
    validate: Validate | None = None,
    trusted: Trusted | None = None,
) -> Strategy:
    """The same strategy, from Flower or your own, which now also scores each round's replies.

    ledger    file to which every round adds a line; an existing file is continued. A relative path
              starts at the folder where Flower runs the server
    methods   names of scores. From the updates: "CGSV", "class cosine", "step cosine" (with the
              step that the training took). With ``trusted``: "trust cosine". With ``validate``:
              "leave one out", `"second order"`, "Shapley, silent". None: all that can be computed,
              except "Shapley, silent", which costs the most
    validate  loss of a model on the server's samples. It judges the models that ``strategy`` makes
              from some replies: m + 1 per round for the first score, 2 m + 2 for the second
    trusted   the model after some training on samples that the server trusts [Cao et al. 2021]

    All arrays of floating numbers count, except the statistics of batch normalisation.
    ``strategy.scored.scores()`` is {score: {node: its running score}}.
    Flower's ids, as texts, name the nodes. An error in the first round is raised. In later rounds,
    an error leaves the round without scores, with a warning in the log, and training continues.
    A warning also names an update that is over a hundred times as long as the median one.

    raises    TypeError or ValueError naming the argument; ValueError if all replies of the first
              round are masked, for example by secure aggregation
    """
    lacking = [name for name in PATCHED if not callable(getattr(strategy, name, None))]
    if lacking:
        given = f"{shown(strategy)}, without {' or '.join(lacking)}"
        raise TypeError(f"strategy: expected one like Flower's, got {given}")
    if hasattr(strategy, "scored"):
        raise ValueError("strategy: expected one without scores, got one with Scored")
    functions = {"": True, "validate": validate, "trusted": trusted}
    there = {name for name, function in functions.items() if function is not None}
    if methods is None:
        chosen = [n for n, needed in NEEDS.items() if needed in there and n != COSTLY]
    else:
        chosen = [choice("methods", name, [*NEEDS]) for name in texts("methods", methods)]
    for name in chosen:
        if NEEDS[name] not in there:
            raise ValueError(f"methods: {name} needs {NEEDS[name]}=")
    if not chosen:
        raise ValueError(f"methods: expected at least one of {', '.join(NEEDS)}")
    scorer = Scorer(strategy, Ledger(ledger, chosen), functions)
    for name in PATCHED:
        # Set on this object, not on its class, so that other strategies do not change.
        setattr(strategy, name, getattr(scorer, name))
    strategy.scored = scorer  # type: ignore[attr-defined]
    return strategy


class Scorer:
    """A layer between Flower and a strategy that watches, and changes nothing."""

    def __init__(self, strategy: Any, ledger: Ledger, functions: dict[str, Any]):
        self.configure = strategy.configure_train
        self.aggregate = strategy.aggregate_train
        self.validate, self.trusted = functions["validate"], functions["trusted"]
        self.ledger = ledger
        self.size_name = _size_name(strategy)
        self.standing = Standing(ledger.methods)
        for entry in ledger.past:
            self.standing.add(entry)
        self.arrays, self.sent = ArrayRecord(), dict[int, ArrayRecord]()
        self.scored_any = False

    def __deepcopy__(self, memo: object) -> Scorer:
        return self  # a copy of the strategy shares the scorer

    def scores(self) -> dict[str, dict[str, float]]:
        """{score: {node: its running score}}, see `Standing`."""
        return self.standing.scores()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's messages, after a note of what each node is sent."""
        # A list, because an iterator can be read only once, and Flower reads it later.
        messages = list(self.configure(server_round, arrays, config, grid))
        self.arrays, self.sent = arrays.copy(), {}
        for message in messages:
            records = iter(message.content.array_records.values())
            self.sent[message.metadata.dst_node_id] = next(records, ArrayRecord())
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """The strategy's result, then the scores; random states are restored afterwards."""
        messages, read = list(replies), None
        states_before, twin = _random_states(), self.aggregate
        with self._unharmed(server_round):
            # Read first, because strategies may empty or change the replies.
            read = Replies.read(messages, self.sent, self.size_name)
            if self.validate is not None:
                # The copy of a bound method also copies the strategy as it is before this round.
                twin = copy.deepcopy(self.aggregate)
        result = self.aggregate(server_round, messages)
        states_after, level = _random_states(), FLOWER.level

        def make(some: list[Message]) -> ArrayRecord:
            """The strategy's model from these replies, with the same random numbers."""
            _restore(states_before)
            # Flower logs every aggregation, but these are only hypothetical.
            FLOWER.setLevel(logging.ERROR)
            try:
                # Copied again, because a strategy with momentum changes with every call.
                made = copy.deepcopy(twin)(server_round, some)[0]
            except Exception as error:
                why = f"the strategy fails on some of the replies ({error!r})"
                raise ValueError(f"methods: {why}; give methods= that need no validate=") from error
            return self.arrays.copy() if made is None else made

        try:
            with self._unharmed(server_round):
                if read is not None:
                    made = self.arrays if result[0] is None else result[0]
                    self._record(read, made, make)
        finally:
            FLOWER.setLevel(level)
            _restore(states_after)
        return result

    def _record(
        self, replies: Replies, made: ArrayRecord, make: Callable[..., ArrayRecord]
    ) -> None:
        """Compute the round's scores, and write them to the ledger first."""
        methods, ordered = self.ledger.methods, replies.ordered
        nodes, sizes = [str(r.node) for r in ordered], [r.size for r in ordered]
        found: dict[str, list[float]] = {}
        if ordered:
            step, weights = replies.step(self.arrays, made), None
            targets = {name: step for name in TO_THE_STEP if name in methods}
            if self.trusted is not None and "trust cosine" in methods:
                trusted = self.trusted(self.arrays.copy())
                targets["trust cosine"] = replies.step(self.arrays, trusted)
            if "CGSV" in methods:
                weights = self.standing.weights(nodes, sizes)
            found = alignment(replies, targets, weights)
            if self.validate is not None:
                found |= losses(replies, make, self.validate, methods)
        lengths = torch.linalg.vector_norm(replies.rows, dim=1)
        if said := masked(lengths, nodes):
            LOGGER.warning("round %d: %s", self.ledger.rounds + 1, said)
        # The ledger comes first, so that a server that fails here reads the round after a restart.
        entry = self.ledger.append(
            node=nodes,
            size=sizes,
            norm=lengths.tolist(),
            scores={name: found.get(name, []) for name in methods},
            reply=[r.digest for r in ordered],
            missing=replies.missing,
        )
        self.standing.add(entry)
        self.scored_any = True
        LOGGER.info("scored %d nodes; the ledger has %d lines", len(nodes), entry.round)

    @contextlib.contextmanager
    def _unharmed(self, server_round: int) -> Iterator[None]:
        """Raise errors until the first round is scored; later errors must not end a run."""
        level = FLOWER.level
        try:
            yield
        except Exception as error:
            FLOWER.setLevel(level)
            if not self.scored_any:
                raise
            LOGGER.warning("round %d is not scored: %s", server_round, error)


def _size_name(strategy: Any) -> str:
    """The name in replies for the number of samples; a strategy may contain another strategy."""
    while strategy is not None:
        if hasattr(strategy, "weighted_by_key"):
            return strategy.weighted_by_key
        strategy = getattr(strategy, "strategy", None)
    return "num-examples"


def _random_states() -> tuple[Any, Any, Tensor]:
    numpy_state = np.random.get_state()  # noqa: NPY002 -- Flower's noise comes from there
    return random.getstate(), numpy_state, torch.get_rng_state()


def _restore(states: tuple[Any, Any, Tensor]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    torch.set_rng_state(states[2])
