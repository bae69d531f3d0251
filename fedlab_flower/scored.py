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

from fedlab_mini.checks import shown, texts
from fedlab_mini.judge.registry import looked_up

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
STEP_SCORES = ("class cosine", "step cosine")  # compared with the step that was taken
PATCHED_METHODS = ("configure_train", "aggregate_train")
# Up to 4,096 validations per round: only where it is asked for.
COSTLY_SCORE = "Shapley, silent"
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
    if not all(
        callable(getattr(strategy, method_name, None)) for method_name in PATCHED_METHODS
    ):
        given_text = f"{shown(strategy)}, without {' or '.join(PATCHED_METHODS)}"
        raise TypeError(f"strategy: expected one of Flower's, or alike, got {given_text}")
    if hasattr(strategy, "scored"):
        raise ValueError("strategy: is scored already")
    functions = {"validate": validate, "trusted": trusted}
    for argument, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(
                f"{argument}: expected a function of a model, got {shown(function)}"
            )
    # None is among them: scores that need no function can always be computed.
    given_functions = {
        None,
        *(argument for argument, function in functions.items() if function is not None),
    }
    if methods is None:
        chosen_scores = [
            score_name
            for score_name, needed_function in NEEDS.items()
            if needed_function in given_functions and score_name != COSTLY_SCORE
        ]
    else:
        chosen_scores = list(
            looked_up("methods", texts("methods", methods), NEEDS).values()
        )
    if not chosen_scores:
        raise ValueError(f"methods: expected at least one of {', '.join(NEEDS)}")
    for score_name in chosen_scores:
        if NEEDS[score_name] not in given_functions:
            raise ValueError(f"methods: {score_name} needs {NEEDS[score_name]}=")
    counted_arrays = None if arrays is None else texts("arrays", arrays)
    scorer = Scorer(
        strategy, Ledger(ledger, chosen_scores, key), validate, trusted, counted_arrays
    )
    for method_name in PATCHED_METHODS:
        # On this object, not on its class: other strategies of the class stay as they are.
        setattr(strategy, method_name, getattr(scorer, method_name))
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
        self.configure, self.aggregate = (
            strategy.configure_train,
            strategy.aggregate_train,
        )
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
        # An iterator can be read once, and Flower reads it after this.
        messages = messages if isinstance(messages, list) else list(messages)
        self.arrays, self.sent = arrays.copy(), {}
        for message in messages:
            records = iter(message.content.array_records.values())
            self.sent[message.metadata.dst_node_id] = next(records, ArrayRecord())
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """The strategy's own; then scores, after which random states are as it left them."""
        replies = replies if isinstance(replies, list) else list(replies)
        states_before, round_replies, aggregate_twin = (
            _random_states(),
            None,
            self.aggregate,
        )
        with self._unharmed(server_round):
            # Now, as strategies empty replies, or change them, and learn from them.
            round_replies = Replies.read(replies, self.sent, self.counted, self.size_name)
            if self.validate is not None:
                # A copy of a bound method copies its object, too: the strategy before this round.
                aggregate_twin = copy.deepcopy(self.aggregate)
        result = self.aggregate(server_round, replies)
        states_after = _random_states()

        def make(messages: list[Message]) -> ArrayRecord:
            """What the strategy would have made of these replies, with the same random numbers."""
            _restore(states_before)
            try:
                # Copied once more: a strategy with momentum would learn from every question.
                made_model = copy.deepcopy(aggregate_twin)(server_round, messages)[0]
            except Exception as error:
                reason = f"the strategy fails on some of the replies ({error!r})"
                advice = "name scores that do not need validate="
                raise ValueError(f"methods: {reason}; {advice}") from error
            return self.arrays.copy() if made_model is None else made_model

        try:
            with self._unharmed(server_round):
                if round_replies is not None:
                    self._record(
                        round_replies,
                        self.arrays if result[0] is None else result[0],
                        make,
                    )
        finally:
            _restore(states_after)
        return result

    def _record(
        self, round_replies: Replies, new_model: ArrayRecord, make_model: Make
    ) -> None:
        """The round's scores, to the ledger first."""
        # By node, the order of every column below, each [m].
        score_names, ordered = self.ledger.methods, round_replies.sorted
        node_ids, sizes = (
            [str(reply.node) for reply in ordered],
            [reply.size for reply in ordered],
        )
        scores: dict[str, list[float]] = {}
        if ordered:
            targets = dict.fromkeys(
                [score_name for score_name in STEP_SCORES if score_name in score_names],
                new_model,
            )
            if self.trusted is not None and "trust cosine" in score_names:
                targets["trust cosine"] = self.trusted(self.arrays.copy())
            weights = (
                self.standing.weights(node_ids, sizes) if "CGSV" in score_names else None
            )
            scores = cosines(round_replies, self.arrays, targets, weights)
            if self.validate is not None:
                with _quiet():
                    scores |= values(
                        round_replies, make_model, self.validate, score_names
                    )
        entry = Entry(
            self.standing.rounds + 1,
            node_ids,
            sizes,
            [round_replies.norms[reply.node] for reply in ordered],
            {score_name: scores.get(score_name, []) for score_name in score_names},
            [reply.digest for reply in ordered],
            round_replies.missing,
        )
        # The ledger first: a server that dies in between finds the round when it reads it again.
        self.ledger.append(entry)
        self.standing.add(entry)
        self.scored_any = True
        LOGGER.info(
            "scored %d nodes; ledger anchor %s", len(node_ids), self.ledger.anchor
        )

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
    # Asking CUDA would start it in a process that has no use for it.
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    numpy_state = np.random.get_state()  # noqa: NPY002 -- Flower's noise comes from there
    return random.getstate(), numpy_state, torch.get_rng_state(), cuda_states


def _restore(states: tuple) -> None:
    python_state, numpy_state, torch_state, cuda_states = states
    random.setstate(python_state)
    np.random.set_state(numpy_state)  # noqa: NPY002
    torch.set_rng_state(torch_state)
    if cuda_states is not None:
        torch.cuda.set_rng_state_all(cuda_states)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Flower tells of every aggregation; those that are only imagined are no news."""
    flower_logger = logging.getLogger("flwr")
    previous_level = flower_logger.level
    flower_logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        flower_logger.setLevel(previous_level)
