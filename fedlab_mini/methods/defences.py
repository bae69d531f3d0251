"""Defences: detectors, which name clients, and strategies that do something about them.

Chapter 13 derives them. A detector looks at a round and names clients; it decides nothing. What
follows is the strategy's choice: ``Defended`` leaves the named clients out of the round, or only
reports them. ``Median`` accuses nobody, and bounds what a single row can do. Builds on fedavg.

A detector of your own inherits from ``Detector`` and writes ``suspects``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..engine.rounds import Message, Round, Server, State, Step, Strategy
from ..games.round_tables import gradient
from ..parse.settings import Settings, between
from .fedavg import Configuration, FedAvg
from .numerics import median_sent, of_usual_size

__all__ = ["Defended", "Detector", "Duplicates", "FoolsGold", "LastStep", "Median", "Norms"]
__all__ += ["ServersGradient"]

Cosine = Annotated[float, between(-1, 1)]
STORED = "detector."  # the beginning of the names of a detector's entries in the state


class Detector(Settings):
    """Names the clients of a round that look like attackers; ``Defended`` decides what follows."""

    def init(self, server: Server) -> State:
        """What the detector remembers before round 1."""
        return {}

    def suspects(self, server: Server, state: State, round: Round) -> Tensor:
        """Which of the round's clients are named, [m] bool; it may write into ``state``."""
        raise NotImplementedError(f"{type(self).__name__} does not say whom it names")


@dataclass(frozen=True)
class LastStep(Detector):
    """Names whose update has a cosine above ``limit`` with the server's own last step.

    The last step is all that a free rider knows of the training, so replays lie close to it. Honest
    updates do not: a client starts from the model *after* this step, and sees its own data.
    """

    limit: Cosine = 0.95

    def init(self, server: Server) -> State:
        """No model yet."""
        return {"theta": torch.empty(0)}

    def suspects(self, server: Server, state: State, round: Round) -> Tensor:
        """Which cosines with the last step exceed the limit; nobody is named in the first round."""
        before, state["theta"] = state["theta"], round.theta.clone()
        if not len(before):
            return torch.zeros(len(round.clients), dtype=torch.bool)
        return (_units(round.updates) @ _units(round.theta - before)).cpu() > self.limit


@dataclass(frozen=True)
class Duplicates(Detector):
    """Names both clients of each pair whose updates have a cosine above ``limit``.

    It cannot tell who trained and who copied.
    """

    limit: Cosine = 0.99

    def suspects(self, server: Server, state: State, round: Round) -> Tensor:
        """Which updates resemble another one of the round too closely."""
        return (_cosines(round.updates) > self.limit).any(1).cpu()


@dataclass(frozen=True)
class Norms(Detector):
    """Names whose update is more than ``factor`` times as long, or as short, as the median."""

    factor: Annotated[float, between(1, ends="(]")] = 3.0

    def suspects(self, server: Server, state: State, round: Round) -> Tensor:
        """Which lengths lie outside the band; zeros do, wherever anybody sent more."""
        lengths = torch.linalg.vector_norm(round.updates, dim=1, dtype=torch.float64).cpu()
        usual = median_sent(lengths)
        return (lengths > self.factor * usual) | (lengths * self.factor < usual)


@dataclass(frozen=True)
class ServersGradient(Detector):
    """Names whose update has a cosine of at most ``limit`` with the server's own descent direction.

    The direction is minus the gradient of the validation loss. FLTrust trains on the server's
    samples as a client does, and weighs rows by these cosines instead of naming
    source  [Cao et al. 2021]
    """

    limit: Cosine = 0.0

    def suspects(self, server: Server, state: State, round: Round) -> Tensor:
        """Which updates do not point down the server's own loss."""
        down = _units(-gradient(round, server).to(round.updates))
        return (_units(round.updates) @ down).cpu() <= self.limit


@dataclass(frozen=True)
class FoolsGold(Detector):
    """Names whose updates so far resemble those of another client: several names of one attacker.

    The published rule turns the largest cosine of two clients' summed updates into a weight, from 1
    for clients like no other to 0; whoever has less than ``limit`` is named
    source  [Fung et al. 2020, Algorithm 1], on all parameters and with kappa = 1
    """

    limit: Annotated[float, between(0, 1)] = 0.5

    def init(self, server: Server) -> State:
        """No sum of updates yet."""
        return {"sums": torch.zeros(server.clients, 0)}

    def suspects(self, server: Server, state: State, round: Round) -> Tensor:
        """Whose weight lies below the limit."""
        if not state["sums"].shape[1]:
            state["sums"] = round.updates.new_zeros(server.clients, round.updates.shape[1])
        state["sums"][round.clients] += round.updates
        cosines = _cosines(state["sums"][round.clients]).double().cpu()
        largest = cosines.amax(1)
        # Pardon: who resembles somebody with a larger cosine is the less suspicious of the two.
        ratio = largest[:, None] / largest[None, :]
        cosines = torch.where((ratio < 1) & (largest > 0), cosines * ratio, cosines)
        weights = (1 - cosines.amax(1)).clamp(0, 1)
        weights = (weights / weights.max().clamp(min=1e-12)).clamp(1e-6, 1 - 1e-6)
        return (torch.logit(weights) + 0.5).clamp(0, 1) < self.limit


@dataclass(frozen=True, eq=False)
class Defended(Configuration):
    """Any strategy behind a detector, which looks at each round first.

    strategy   steps and scores as ever
    detector   names clients; ``History.named`` has them, round by round
    leave_out  True: the strategy sees the round without the named clients, which get the weight 0
               and no score in it; if all are named, the model stays. False: naming has no effect

    scores and state are those of the strategy; the names of what the detector adds to the state
    begin "detector."
    """

    strategy: Strategy
    detector: Detector
    leave_out: bool = True

    def init(self, server: Server) -> State:
        """The strategy's state, and the detector's."""
        stored = self.detector.init(server)
        return self.strategy.init(server) | {STORED + name: part for name, part in stored.items()}

    def select(self, server: Server, state: State, t: int) -> Tensor:
        """Ids of the clients that the strategy selects."""
        return self.strategy.select(server, state, t)

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The strategy's step on the round, or on what the detector leaves of it."""
        stored = {name.removeprefix(STORED): part for name, part in state.items()
                  if name.startswith(STORED)}  # fmt: skip
        named = self.detector.suspects(server, stored, round)
        kept = ~named if self.leave_out else torch.ones_like(named)
        step = Step(round.theta, round.updates.new_zeros(0), state)
        if kept.any():
            left = round if kept.all() else _only(round, kept)
            step = self.strategy.step(server, state, left)
        weights = round.updates.new_zeros(len(kept))
        weights[kept] = step.weights
        state = step.state | {STORED + name: part for name, part in stored.items()}
        ids = round.clients[named].tolist()
        return step._replace(weights=weights, state=state, named=tuple(ids))

    def scores(self, server: Server, state: State) -> Tensor:
        """The strategy's scores, [K]."""
        return self.strategy.scores(server, state)

    def message(self, server: Server, state: State, t: int) -> Message | None:
        """The strategy's message."""
        return self.strategy.message(server, state, t)

    def heard(self, server: Server, state: State, changed: Tensor) -> State:
        """The strategy's state after clients changed labels, and the detector's as it was."""
        return state | self.strategy.heard(server, state, changed)


@dataclass(frozen=True, eq=False)
class Median(FedAvg):
    """The coordinate-wise median of the updates in place of their mean; it accuses nobody.

    scores [K]  mean share of the parameters in which the client's value was the middle one; of an
                even number of clients, two are, and each counts half; equal clients share
    source      [Yin et al. 2018]
    """

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The model moved by the median of every parameter [P], without weights by size."""
        m = len(round.clients)
        middle = round.updates.sort(0).values[[(m - 1) // 2, m // 2]]  # [2, P]
        # Clients with the same middle value share it.
        shares = [(round.updates == value).to(middle) for value in middle]
        weights = torch.stack([(share / share.sum(0)).mean(1) for share in shares]).mean(0)
        self.count(state, round, weights)
        return Step(round.theta + middle.mean(0), weights, state)


def _units(rows: Tensor) -> Tensor:
    """Rows [..., P] of length 1; a row of zeros stays one."""
    return normalize(of_usual_size(rows), dim=-1, eps=1e-30)


def _cosines(rows: Tensor) -> Tensor:
    """The cosine of each row [m, P] with each other row, [m, m]; -1 with itself."""
    units = _units(rows)
    return (units @ units.T).fill_diagonal_(-1)


def _only(round: Round, kept: Tensor) -> Round:
    """The round of some of its clients; the others count as clients that sent nothing usable."""
    missing = torch.cat([round.missing, round.clients[~kept]])
    rows = round.updates[kept.to(round.updates.device)]
    clients, sizes = round.clients[kept], round.sizes[kept]
    return replace(round, clients=clients, sizes=sizes, updates=rows, missing=missing)
