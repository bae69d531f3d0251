"""Scored: scores beside anybody's training in Flower, which stays as it is to the last byte.

The page "Score a federation that you already have" shows it. Below: ledger, standing, games.
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

from ..checks import shown, texts
from ..judge.registry import looked_up
from .ledger import Entry, Ledger
from .records import LOGGER
from .replies import Replies
from .standing import Standing
from .worth import Make, Validate, cosines, values

NEEDS: dict[str, Any] = {  # score: the argument that it needs, beside the updates
    "CGSV": None,
    "class cosine": None,
    "step cosine": None,
    "trust cosine": "trusted",
    "leave one out": "validate",
    "second order": "validate",
    "Shapley, silent": "validate",
}
TAKEN = ("class cosine", "step cosine")  # compared with the step that was taken
PATCHED = ("configure_train", "aggregate_train")
DEAR = "Shapley, silent"  # up to 4,096 validations per round: only where it is asked for
Strategy = TypeVar("Strategy")


def Scored(
    strategy: Strategy,
    ledger: str | os.PathLike,
    *,
    methods: Sequence[str] | None = None,
    validate: Callable[[ArrayRecord], float] | None = None,
    trusted: Callable[[ArrayRecord], ArrayRecord] | None = None,
    arrays: Sequence[str] | None = None,
    key: str | os.PathLike | None = None,
) -> Strategy:
    """The same strategy of Flower's, or of your own; each round's replies are scored, too.

    ledger    file to which every round adds a line; one that is there is gone on with. A relative
              path begins where Flower runs the server
    methods   names of scores. From the updates alone: "CGSV", "class cosine", "step cosine" (with
              the step that the training took). With ``trusted``: "trust cosine". With ``validate``:
              "leave one out", "second order", "Shapley, silent". None: all that can be computed,
              but for the last, which is dear
    validate  loss of a model on the server's samples: what ``strategy`` makes of some replies is
              judged; m + 1 models per round for the first, 2 m + 2 for the second
    trusted   the model after some training on samples that the server trusts [Cao et al. 2021]
    arrays    names of the arrays that count; None: all of floating numbers, but for the statistics
              of batch normalisation
    key       file with the server's private key, PEM or OpenSSH, EC or Ed25519, that signs the
              ledger; None: LEDGER.key, which is made if it is not there

    ``strategy.scored.scores()`` is {score: {node: where it stands}}.
    Nodes count by Flower's ids, as texts. What fails in the first round raises; later the round is
    left unscored, with a warning in the log, and training goes on.

    raises    TypeError or ValueError naming the argument; ValueError if all replies of the first
              round are masked, as by secure aggregation
    """
    if not all(callable(getattr(strategy, name, None)) for name in PATCHED):
        given = f"{shown(strategy)}, without {' or '.join(PATCHED)}"
        raise TypeError(f"strategy: expected one of Flower's, or alike, got {given}")
    if hasattr(strategy, "scored"):
        raise ValueError("strategy: is scored already")
    functions = {"validate": validate, "trusted": trusted}
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name}: expected a function of a model, got {shown(function)}")
    there = {None, *(name for name, function in functions.items() if function is not None)}
    if methods is None:
        chosen = [name for name, need in NEEDS.items() if need in there and name != DEAR]
    else:
        chosen = list(looked_up("methods", texts("methods", methods), NEEDS).values())
    if not chosen:
        raise ValueError(f"methods: expected at least one of {', '.join(NEEDS)}")
    for name in chosen:
        if NEEDS[name] not in there:
            raise ValueError(f"methods: {name} needs {NEEDS[name]}=")
    counted = None if arrays is None else texts("arrays", arrays)
    scorer = Scorer(strategy, Ledger(ledger, chosen, key), validate, trusted, counted)
    for name in PATCHED:
        setattr(strategy, name, getattr(scorer, name))
    strategy.scored = scorer  # type: ignore[attr-defined]
    return strategy


class Scorer:
    """What stands between Flower and a strategy: it watches, and hands everything on untouched."""

    def __init__(
        self,
        strategy: Any,
        ledger: Ledger,
        validate: Validate | None,
        trusted: Callable[[ArrayRecord], ArrayRecord] | None,
        counted: Sequence[str] | None,
    ):
        self.configure, self.aggregate = strategy.configure_train, strategy.aggregate_train
        self.ledger, self.validate, self.trusted = ledger, validate, trusted
        self.counted, self.size_name = counted, _size_name(strategy)
        self.standing = Standing(ledger.methods)
        for entry in ledger.replay():
            self.standing.add(entry)
        self.arrays, self.sent = ArrayRecord(), dict[int, ArrayRecord]()
        self.scored_any = False

    def __deepcopy__(self, memo: dict) -> Scorer:
        return self  # a copy of the strategy needs no second one

    def scores(self) -> dict[str, dict[str, float]]:
        """{score: {node: where it stands}}, see `Standing`."""
        return self.standing.scores()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's own; notes what is sent to whom."""
        messages = self.configure(server_round, arrays, config, grid)
        messages = messages if isinstance(messages, list) else list(messages)
        self.arrays, self.sent = arrays.copy(), {}
        for message in messages:
            records = iter(message.content.array_records.values())
            self.sent[message.metadata.dst_node_id] = next(records, ArrayRecord())
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """The strategy's own; then scores, after which random states are as it left them."""
        replies = replies if isinstance(replies, list) else list(replies)
        before, seen, twin = _random_states(), None, self.aggregate
        with self._unharmed(server_round):
            # Now, as strategies empty replies, or change them, and learn from them.
            seen = Replies.read(replies, self.sent, self.counted, self.size_name)
            if self.validate is not None:
                twin = copy.deepcopy(self.aggregate)
        result = self.aggregate(server_round, replies)
        after = _random_states()

        def make(messages: list[Message]) -> ArrayRecord:
            """What the strategy would have made of these replies, with the same random numbers."""
            _restore(before)
            try:
                made = copy.deepcopy(twin)(server_round, messages)[0]
            except Exception as error:
                reason = f"the strategy fails on some of the replies ({error!r})"
                advice = "name scores that do not need validate="
                raise ValueError(f"methods: {reason}; {advice}") from error
            return self.arrays.copy() if made is None else made

        try:
            with self._unharmed(server_round):
                if seen is not None:
                    self._record(seen, self.arrays if result[0] is None else result[0], make)
        finally:
            _restore(after)
        return result

    def _record(self, seen: Replies, made: ArrayRecord, make: Make) -> None:
        """The round's scores, to the ledger first."""
        names, replies = self.ledger.methods, seen.sorted
        nodes, sizes = [str(reply.node) for reply in replies], [reply.size for reply in replies]
        scores: dict[str, list[float]] = {}
        if replies:
            targets = dict.fromkeys([name for name in TAKEN if name in names], made)
            if self.trusted is not None and "trust cosine" in names:
                targets["trust cosine"] = self.trusted(self.arrays.copy())
            weights = self.standing.weights(nodes, sizes) if "CGSV" in names else None
            scores = cosines(seen, self.arrays, targets, weights)
            if self.validate is not None:
                with _quiet():
                    scores |= values(seen, make, self.validate, names)
        entry = Entry(
            self.standing.rounds + 1,
            nodes,
            sizes,
            [seen.norms[reply.node] for reply in replies],
            {name: scores.get(name, []) for name in names},
            [reply.digest for reply in replies],
            seen.missing,
        )
        self.ledger.append(entry)
        self.standing.add(entry)
        self.scored_any = True
        LOGGER.info("scored %d nodes; ledger anchor %s", len(nodes), self.ledger.anchor)

    @contextlib.contextmanager
    def _unharmed(self, server_round: int) -> Iterator[None]:
        """Before anything was scored an error raises; later it must not end a training."""
        try:
            yield
        except Exception as error:
            if not self.scored_any:
                raise
            LOGGER.warning("round %d is not scored: %s", server_round, error)


def _size_name(strategy: Any) -> str:
    """What replies call their number of samples; strategies may stand inside others."""
    while strategy is not None:
        if hasattr(strategy, "weighted_by_key"):
            return strategy.weighted_by_key
        strategy = getattr(strategy, "strategy", None)
    return "num-examples"


def _random_states() -> tuple:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    legacy = np.random.get_state()  # noqa: NPY002 -- Flower's noise comes from there
    return random.getstate(), legacy, torch.get_rng_state(), cuda


def _restore(states: tuple) -> None:
    python, numpy, cpu, cuda = states
    random.setstate(python)
    np.random.set_state(numpy)  # noqa: NPY002
    torch.set_rng_state(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state_all(cuda)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Flower tells of every aggregation; those that are only imagined are no news."""
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
