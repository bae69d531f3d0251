"""S-FedAvg: contribution decides selection [Nagalapatti & Narayanam 2021]. Chapter 8 derives it.

Each round is a small game of the updates that arrived. Its Shapley values change the relevances,
which decide who is selected next. Compared with the paper, values are exact where that costs no
more than orderings, the empty coalition is worth the model before the round, and the softmax is
sharper, because at the paper's temperature relevances hardly matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from torch import Tensor

from ..engine.history import History
from ..engine.rounds import Round, Server, State, Step
from ..games.coalitions import RoundGame
from ..games.game import Game
from ..games.sampling import permutation
from ..games.shapley import exact as exact_values
from ..parse.checks import number
from ..parse.metric import Metric
from ..parse.settings import Count, NotNegative, Share, ours
from ..streams import stream
from .fedavg import FedAvg, Weighting
from .numerics import bounded, classes_of


def _temperature(name: str, value: object) -> float:
    infinite = isinstance(value, float) and value == math.inf  # NumPy's floats are floats
    return math.inf if infinite else number(name, value, low=0, ends="(]")


@dataclass(frozen=True, eq=False, kw_only=True)
class SFedAvg(FedAvg):
    """Select clients by a softmax of their relevance, which follows the rounds' Shapley values.

    m             clients selected per round, drawn without replacement; None: all
    alpha, beta   phi_k <- alpha phi_k + beta sv_k for the round's clients; phi starts at 1 / K
    permutations  number of orderings of the round's clients, if values are not exact
    temperature   selection ~ softmax(phi / temperature); the paper has 1; math.inf: uniform
    metric        "accuracy", "loss" or a function of (outputs, labels), on the validation samples,
                  of the model theta + the mean update of a coalition
    empty         value of the empty coalition: "theta", that of the model before the round, or
                  "zero"
    exact         True: Shapley values by all 2^m coalitions; False: by ``permutations`` orderings;
                  None: exact if that needs at most as many coalitions as the orderings may need
    by_class      also keep a relevance for every class (``class_scores``), from the same round
                  with the validation samples of that class
    weighting     of the aggregate and of every coalition: "uniform" (Eq. 3) or "size"
    absent        "left out", as in the paper: weights are renormalised in every coalition;
                  "silent": an absent client adds nothing, so a client that sends zeros earns 0
    literal       the paper's text: temperature 1, ten orderings, and Algorithm 2's sets, which
                  compare a place in the ordering with a place in the list of clients

    scores [K]    relevance phi
    state         FedAvg's, and phi; values [K] the last round's Shapley values, 0 for absent
                  clients; class_scores [K, classes] with ``by_class``
    A selected client that sent nothing usable earns the round's lowest value, at most 0.
    raises        ValueError or TypeError naming the argument
    source        [Nagalapatti & Narayanam 2021; chapter 8]

    Warning: with ``m=None`` everybody is selected, so the temperature decides nothing. With
    ``empty="zero"`` a client is paid for being selected, whatever it sends.
    """

    m: Count | None = field(default=5, kw_only=False)
    alpha: Share = field(default=0.75, kw_only=False)
    beta: NotNegative = field(default=0.25, kw_only=False)
    permutations: Count = 10
    temperature: Annotated[float, _temperature] = ours(0.02, printed=1.0)
    metric: Metric = "accuracy"
    empty: Literal["theta", "zero"] = "theta"
    exact: bool | None = None
    by_class: bool = False
    weighting: Weighting = "uniform"
    absent: Literal["left out", "silent"] = "left out"
    literal: bool = False
    per_round: Count | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.literal and (self.exact or self.by_class):
            raise ValueError("literal: True allows neither exact=True nor by_class=True")

    def init(self, server: Server) -> State:
        """The state before round 1."""
        if self.m is not None and self.m > server.clients:
            raise ValueError(f"m: {self.m} of {server.clients} clients")
        phi = torch.full((server.clients,), 1 / server.clients, dtype=torch.float64)
        classes = classes_of(server, "by_class") if self.by_class else 0
        ours = {"phi": phi, "class_scores": phi[:, None].repeat(1, classes)}
        return super().init(server) | ours | {"values": torch.zeros_like(phi)}

    def scores(self, server: Server, state: State) -> Tensor:
        """Relevance phi of every client, [K]."""
        return state["phi"]

    def probabilities(self, state: State) -> Tensor:
        """softmax(phi / temperature), [K]: the probability of being drawn first."""
        return (state["phi"] / self.temperature).softmax(0)

    def select(self, server: Server, state: State, t: int) -> Tensor:
        """Ids [m] drawn one after another by ``probabilities``, without replacement.

        The m largest of phi / temperature + Gumbel noise are such a sample [Efraimidis & Spirakis
        2006; Kool et al. 2019]. A client's noise depends on its id, and nothing can underflow.
        """
        clients, phi = server.clients, state["phi"]
        chance = stream(server.seed, "selection", t)
        uniform = torch.rand(clients, generator=chance, dtype=torch.float64)
        # Gumbel noise; at a uniform number of 0 it would not be finite.
        noise = -(-uniform.clamp(min=1e-300).log()).log()
        # Only differences count. Minus the maximum, they may overflow to -inf, but not to inf.
        perturbed = (phi - phi.max()) / self.temperature + noise
        drawn = perturbed.topk(clients if self.m is None else self.m).indices
        return drawn.sort().values

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The new global model [P], from the mean update; then the relevances are updated."""
        weights = self._checked_weights(server, state, round)
        samples, labels = server.validation
        if self.by_class:
            # The Shapley value is linear: its value on all samples is a mean over the classes.
            chosen = torch.arange(server.classes).to(labels)[:, None] == labels  # [classes, n]
            of_class = [(samples[some], labels[some]) for some in chosen]
            found = [self._values(server, round, weights, *some) for some in of_class]
            by_class = torch.stack([values for values, _ in found])
            class_share = chosen.double().mean(1).cpu()
            values, evaluated = class_share @ by_class, sum(count for _, count in found)
            self.learn(state["class_scores"], round, by_class.T)
        else:
            values, evaluated = self._values(server, round, weights, samples, labels)
        self.learn(state["phi"], round, values)
        state["values"].zero_()[round.clients] = values
        self.count(state, round, values)
        return Step(round.theta + weights @ round.updates, weights, state, evaluated)

    def learn(self, phi: Tensor, round: Round, values: Tensor) -> None:
        """phi <- alpha phi + beta value for the round's clients; phi [K] or [K, classes]."""
        asked = torch.cat([round.clients, round.missing])
        floor = values.amin(0, keepdim=True).clamp(max=0)
        # Sending nothing must not pay, so it earns at most as much as the worst update.
        values = torch.cat([values, floor.expand(len(round.missing), *values.shape[1:])])
        phi[asked] = self.alpha * phi[asked] + self.beta * values

    def _values(
        self, server: Server, round: Round, weights: Tensor, x: Tensor, y: Tensor
    ) -> tuple[Tensor, int]:
        """Shapley values [m] of the round's game on samples (x, y), and how many evaluations."""
        if len(y) == 0:
            return torch.zeros(len(round.clients), dtype=torch.float64), 0
        of_round = server.net, round.theta, round.updates, weights
        value = RoundGame(*of_round, x, y, metric=self.metric, absent=self.absent)

        def worth(coalitions: Tensor) -> Tensor:
            # Negated twice, because an infinite loss must become the worst number, not the best.
            gained = -bounded(-value(coalitions))
            if self.empty == "zero":
                # This raises every exact value by 1 / m of the value of theta (chapter 8, step 2).
                gained[~coalitions.any(1)] = 0.0
            return gained

        game = Game(len(round.clients), worth)
        seed = stream(server.seed, "orders", round.t).initial_seed()
        if self.literal:
            values = algorithm_2(game, self.permutations, seed)
        elif self._enumerate(game.n):
            values = exact_values(game).values
        else:
            values = permutation(game, self.permutations, seed).values
        return values, game.evaluations

    def _enumerate(self, m: int) -> bool:
        # True if exact values cost no more than the orderings may, which all share both ends.
        if self.exact is None:
            return m <= 20 and 2**m <= self.permutations * (m - 1) + 2
        return self.exact


def algorithm_2(game: Game, permutations: int, seed: int) -> Tensor:
    """Algorithm 2 as the paper prints it: the mean of v(S + i) - v(S), S = {j : place of j <= i}.

    It compares i, a client's place in the list 1..n, with places in the ordering. So S has the
    first i clients of the ordering, perhaps i itself. The last client of the list always earns 0.
    """
    n, chance = game.n, stream(seed, "orders")
    orders = torch.stack([torch.randperm(n, generator=chance) for _ in range(permutations)])
    place = orders.argsort(1)  # [R, n], from 0
    before = place[:, None, :] <= torch.arange(n)[:, None]  # [R, i, j]
    joined = before | torch.eye(n, dtype=torch.bool)
    marginal_gains = game(joined.flatten(0, 1)) - game(before.flatten(0, 1))
    return marginal_gains.view(permutations, n).mean(0)


def class_relevance(history: History) -> Tensor:
    """S-FedAvg's class-specific relevance phi_c: which updates help the model to see class c.

    history  of a training run with ``SFedAvg(..., by_class=True)``
    returns  [K, classes]; a large phi_c alone does not show a clean client, because a client that
             labels everything c has one, too (chapter 8); so compare it with phi
    raises   TypeError or ValueError naming the argument
    source   [Nagalapatti & Narayanam 2021, Class-Specific Best Client Selection]
    """
    return history.state["class_scores"].clone()
