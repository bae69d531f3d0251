"""CGSV: contribution by cosine alignment, and aggregation by contribution. Chapter 4 derives it.

The score of a client is the cosine of its update with the aggregated update [Xu et al. 2021]. The
running mean of this score is the client's weight in the next rounds. Compared with the rule as
published, the server's step has the median length of the updates, weights do not fall below a
floor, and a client's own rounds count in the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from ..engine.rounds import Round, Server, State, Step
from ..games.game import Game
from ..parse.checks import choice, flag, number, store
from ..parse.settings import Count, Share, between, ours
from ..streams import one_thread
from .fedavg import FedAvg, Weighting

REPUTATION_MEMORY = 0.95  # alpha in the code of [Xu et al. 2021]
REPUTATION_FLOOR = 1e-3
# A sum this much shorter than its parts has no direction: only rounding errors are left.
CANCELLED = 1e-12


def _server_lr(name: str, value: object) -> float | str:
    if isinstance(value, str):
        return choice(name, value, ("median", "mean"))
    return number(name, value, low=0, high=1e6, ends="(]")


@dataclass(frozen=True, eq=False, kw_only=True)
class CGSV(FedAvg):
    """Aggregation weights that follow each client's alignment with the aggregate.

    gamma0      in [0, 1]; gamma_t = 1 - (1 - gamma0) / t keeps that share of the old weight
    normalise   aggregate unit updates u_k = delta_k / |delta_k|, not the updates themselves
    server_lr   factor of the server's step U = sum_k r_k u_k: a number, or the weighted "median"
                or "mean" of the round's update norms (the median ignores norms of 0). The default
                with normalise=False is 1
    floor       smallest weight before normalising (a client with less keeps its weight);
                None: no floor, and weights may become negative
    literal     the paper's text: unit updates, no floor, and a factor of 1 unless server_lr is set
    original    the reputation of [Xu et al. 2021]: from 0, r <- .95 r + .05 psi, floor .001
    per_round   how many clients are drawn at random each round; None: all

    scores [K]  weights r for the next round, sum 1, 0 for clients never seen
    state       FedAvg's, and r; psi [K] the last cosines; sizes [K] samples, 0 for clients never
                seen; times [K] rounds in which a client was judged
    ``t`` in gamma_t counts a client's own rounds, so a client that joins late adapts as fast as the
    others did. Old weights sum to 1 over a round's clients, but cosines do not. If gammas differ,
    each mix is divided by the sum that it would have if all clients had that gamma. A selected
    client that sent nothing usable scores psi = 0.
    raises      ValueError or TypeError naming the argument    source [xu2021gradient; chapter 4]

    Warning: with ``gamma0=1`` weights never change, so scores say who holds how much data. With
    ``original=True``, gamma0 and floor decide nothing.
    """

    gamma0: Share = field(default=0.5, kw_only=False)
    normalise: bool = True
    server_lr: Annotated[float | str, _server_lr] = ours("median", printed=1.0)
    floor: Annotated[float, between(0, 1, "[)")] | None = ours(1e-3, printed=None)
    literal: bool = False
    original: bool = False
    per_round: Count | None = None
    weighting: Weighting = field(default="size", init=False, repr=False)

    def __post_init__(self) -> None:
        # Updates that keep their length need no factor for the step.
        if not flag("normalise", self.normalise) and not self.given("server_lr"):
            store(self, server_lr=1.0)
        super().__post_init__()
        if self.literal and (self.original or not self.normalise):
            raise ValueError("literal: True needs normalise=True and original=False")

    def init(self, server: Server) -> State:
        """The state before round 1."""
        zeros = torch.zeros(server.clients, dtype=torch.float64)
        counts = torch.zeros(server.clients, dtype=torch.long)
        ours = {"r": zeros, "psi": zeros.clone(), "sizes": counts, "times": counts.clone()}
        return super().init(server) | ours

    def scores(self, server: Server, state: State) -> Tensor:
        """Weights r for the next round, [K]: contribution so far."""
        return state["r"]

    def weights(self, server: Server, state: State, round: Round) -> Tensor:
        """Shares [m] of the participants in r; in its first round, a client's size decides."""
        reputation = admitted(state, round)["r"][round.clients]
        # If r never changes, the weights must equal FedAvg's to the last digit. If no client of the
        # round has any weight, only the sizes are left to decide.
        if (self.gamma0 == 1 and not self.original) or not reputation.sum() > 0:
            return super().weights(server, state, round)
        return (reputation / reputation.sum()).to(round.updates)

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The new global model [P]; then the round's cosines update the weights r."""
        state = state | admitted(state, round)
        weights = self._checked_weights(server, state, round)
        lengths = _norms(round.updates)  # [m]
        unit_updates = _units(round.updates, lengths)
        step = weights @ (unit_updates if self.normalise else round.updates)  # U [P]
        psi = _alignment(unit_updates, step)
        # A round's cosines change the weights of the next round, not of the same round.
        self.learn(state, round, psi.double().cpu())
        self.count(state, round, psi)
        theta = round.theta + self._step_size(lengths, weights) * step
        return Step(theta, weights, state)

    def rewards(self, state: State, step: Tensor, beta: float = 1.0) -> Tensor:
        """The reward that each client would get: ``step`` [P] without its smallest entries, [K, P].

        Client k gets the share tanh(beta r_k) / max_j tanh(beta r_j) of the entries, namely the
        largest ones, their number rounded down [Xu et al. 2021, Eqs. 5-6]. In the paper, each
        client then continues from its own, poorer model. ``train`` has one model for all, so nobody
        actually gets this reward.
        """
        shares = torch.tanh(beta * state["r"].clamp(min=0))
        shares = shares / shares.max() if shares.max() > 0 else shares
        return _largest(step, (shares * len(step)).floor())

    def learn(self, state: State, round: Round, psi: Tensor) -> None:
        """Mix the judged clients' weights with their cosines; absent clients keep theirs."""
        missing = round.missing[state["sizes"][round.missing] > 0]
        # A selected client that sent nothing usable has cosine 0, and so loses weight.
        judged = torch.cat([round.clients, missing])
        psi = torch.cat([psi, psi.new_zeros(len(missing))])
        state["times"][judged] += 1
        state["psi"][judged] = psi
        sum_of_shares = state["r"][judged].sum()
        if not sum_of_shares > 0:
            return
        shares, times = state["r"][judged] / sum_of_shares, state["times"][judged]
        mixed = (
            self._reputation(times, shares, psi) if self.original else self._mix(times, shares, psi)
        )
        # A sum of 0 (all cosines are 0, or weights cancel) cannot be scaled to another sum.
        if mixed.sum() != 0:
            state["r"][judged] = sum_of_shares * mixed / mixed.sum()

    def _mix(self, times: Tensor, shares: Tensor, psi: Tensor) -> Tensor:
        """gamma_t r + (1 - gamma_t) psi of the judged clients, [m], on one scale."""
        gamma = 1 - (1 - self.gamma0) / times
        mixed = gamma * shares + (1 - gamma) * psi
        # If all gammas are equal, the division by the new sum has the same effect.
        if gamma.min() < gamma.max():
            sums_alike = gamma + (1 - gamma) * psi.sum().clamp(min=0)
            mixed = mixed / torch.where(sums_alike > 0, sums_alike, 1)
        if self.floor is not None:
            mixed = torch.maximum(mixed, shares.clamp(max=self.floor))
        return mixed

    def _reputation(self, times: Tensor, shares: Tensor, psi: Tensor) -> Tensor:
        """The original paper's moving average, which starts at 0 and not at a share, [m]."""
        judged_before = (times > 1).double()
        moved = REPUTATION_MEMORY * judged_before * shares + (1 - REPUTATION_MEMORY) * psi
        return moved.clamp(min=REPUTATION_FLOOR)

    def _step_size(self, norms: Tensor, weights: Tensor) -> Tensor | float:
        if not isinstance(self.server_lr, str):
            return self.server_lr
        weights = weights.to(norms)
        if self.server_lr == "mean":
            return weights @ norms
        # An update of zeros has no length that could count.
        return _median(norms, weights * (norms > 0))


def admitted(state: State, round: Round) -> State:
    """r and sizes with newcomers, who enter with their share n_k / n of all known samples."""
    r, sizes = state["r"], state["sizes"]
    newcomers = round.clients[sizes[round.clients] == 0]
    if len(newcomers) == 0:
        return {"r": r, "sizes": sizes}
    sizes = sizes.index_copy(0, round.clients, round.sizes)
    entering = sizes[newcomers].double() / sizes.sum()
    # The other weights shrink in proportion, so that all weights still sum to 1.
    r = (r * (1 - entering.sum())).index_copy(0, newcomers, entering)
    return {"r": r, "sizes": sizes}


def cosines(updates: Tensor, step: Tensor) -> Tensor:
    """Alignment psi of every update with the aggregated update.

    updates [m, P], step [P]; returns cos(delta_k, step) in [-1, 1], [m]; a row of zeros scores 0,
    and so does every row if the step is zero                [Xu et al. 2021, Eq. 3; chapter 4]
    raises  ValueError or TypeError naming the argument
    """
    with one_thread():
        return _alignment(_units(updates, _norms(updates)), step)


def cosine_game(updates: Tensor, weights: Tensor | None = None) -> Game:
    """The game that CGSV approximates: v(S) = cos(sum of S, sum of all), of unit updates.

    updates [n, P], scaled to length 1 (zero rows stay zero); weights [n], default equal.
    v(empty) = 0 and v(N) = 1; the game measures alignment, not accuracy
    raises    ValueError or TypeError naming the argument, also for a sum of length 0
    """
    weights = updates.new_ones(len(updates)) if weights is None else weights
    vectors = weights[:, None] * _units(updates, _norms(updates))
    total = vectors.sum(0)
    if _norms(total[None]) <= CANCELLED * weights.sum():
        raise ValueError(
            "updates: expected a sum that is not zero, got one of length 0, which has no direction"
        )
    # One small table gives the lengths and inner products of all sums.
    with one_thread():
        products = vectors @ vectors.T  # [n, n]
    return Game(len(updates), partial(_cosines_of_sums, products), name="cosine")


def _cosines_of_sums(products: Tensor, coalitions: Tensor) -> Tensor:
    """cos(x_S, U) of coalitions [C, n], from the inner products [n, n] of the vectors, [C]."""
    members = coalitions.double()  # [C, n]
    inner = members @ products.sum(1)  # <x_S, U>
    squared = ((members @ products) * members).sum(1).clamp(min=0)  # |x_S|^2
    lengths = (squared * products.sum()).sqrt()
    cancelled = squared <= CANCELLED**2 * (members @ products.diagonal())
    return torch.where(cancelled, 0.0, inner / torch.where(cancelled, 1.0, lengths))


def _norms(rows: Tensor) -> Tensor:
    """Lengths [m] of rows [m, P]; float64 where the squares of a float32 over- or underflow."""
    norms = torch.linalg.vector_norm(rows, dim=1)
    if torch.isfinite(norms).all() and (norms > 1e-15).all():
        return norms
    return torch.linalg.vector_norm(rows.double(), dim=1)


def _largest(entries: Tensor, counts: Tensor) -> Tensor:
    """Copies [K, P] of entries [P]; each keeps its count of the largest, zeros elsewhere."""
    # Sorting twice turns entries into ranks, 0 for the largest.
    size_rank = entries.abs().argsort(descending=True).argsort().cpu()
    kept = (size_rank < counts[:, None]).to(entries.device)
    return torch.where(kept, entries, 0)


def _units(rows: Tensor, norms: Tensor) -> Tensor:
    """Rows [m, P] scaled to length 1; zero rows stay zero."""
    return (rows / torch.where(norms > 0, norms, 1)[:, None]).to(rows)


def _alignment(units: Tensor, step: Tensor) -> Tensor:
    """Cosines [m] of rows [m, P] of length 1 (or 0) with ``step`` [P]."""
    # Rounding may put a cosine beyond 1 in its last digit.
    return (units @ _units(step[None], _norms(step[None]))[0]).clamp(-1, 1)


def _median(values: Tensor, weights: Tensor) -> Tensor:
    """The value where half of the (absolute) weight lies on either side."""
    order = values.argsort()
    reached = weights.abs()[order].cumsum(0)
    return values[order[torch.searchsorted(reached, reached[-1] / 2)]]
