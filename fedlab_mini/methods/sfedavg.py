"""S-FedAvg: contribution steers selection. Chapter 8 derives it, chapter 9 its label repair.

Each round is a small game of the updates that arrived; its Shapley values move the relevances that
decide who is asked next. Below: fedavg, coalitions, games, shapley.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..coalitions import coalition_metric
from ..federation import Federation
from ..game import Game
from ..local import LocalSGD
from ..model import Model, check_metric
from ..rounds import History, Round, Server
from ..shapley import exact as exact_values
from ..shapley import permutation
from ..streams import stream
from ..training import train
from .fedavg import FedAvg


class SFedAvg(FedAvg):
    """Select clients by a softmax of their relevance; the round's Shapley values are what moves it.

    m             clients asked a round, drawn without replacement; None: all
    alpha, beta   phi_k <- alpha phi_k + beta sv_k for the round's clients; phi starts at 1 / K
    permutations  orders of the round's clients that are averaged where values are not exact
    temperature   selection ~ softmax(phi / temperature); 1 as printed; math.inf: uniform
    metric        "accuracy" or "loss" of theta + the mean update of a coalition, on the validation
                  samples
    empty         worth of the empty coalition: "theta", that of the model before the round, or
                  "zero"
    exact         True: Shapley values by all 2^m coalitions; False: by ``permutations`` orders;
                  None: exact wherever that asks for no more coalitions than the orders could
    by_class      also keep a relevance for every class (``class_scores``), from the same round
                  with the validation samples of that class
    weighting     of the aggregate and of every coalition: "uniform" (Eq. 3) or "size"
    literal       the text as printed: temperature 1, ten orders, and Algorithm 2's sets, which
                  compare a place in the order with a place in the list of clients

    scores [K]    relevance phi; values [K] the last round's Shapley values, 0 for absent clients;
    class_scores [K, classes] with ``by_class``
    A client that was asked and sent nothing usable earns the round's lowest value, at most 0.
    raises        ValueError naming the argument    source [Nagalapatti & Narayanam 2021; chapter 8]
    """

    def __init__(
        self,
        m: int | None = 5,
        alpha: float = 0.75,
        beta: float = 0.25,
        *,
        permutations: int = 10,
        temperature: float | None = None,
        metric: str = "accuracy",
        empty: str = "theta",
        exact: bool | None = None,
        by_class: bool = False,
        weighting: str = "uniform",
        literal: bool = False,
    ):
        if m is not None and (isinstance(m, bool) or not isinstance(m, int) or m < 1):
            raise ValueError(f"m: expected a whole number of at least 1, or None, got {m!r}")
        super().__init__(m, weighting)
        if isinstance(permutations, bool) or not isinstance(permutations, int) or permutations < 1:
            raise ValueError(
                f"permutations: expected a whole number of at least 1, got {permutations!r}"
            )
        temperature = (1.0 if literal else 0.02) if temperature is None else temperature
        for name, value in (("alpha", alpha), ("beta", beta), ("temperature", temperature)):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name}: expected a number, got {value!r}")
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha: expected a number in [0, 1], got {alpha!r}")
        if not 0 <= beta < math.inf:
            raise ValueError(f"beta: expected a number of at least 0, got {beta!r}")
        if not temperature > 0:
            raise ValueError(f"temperature: expected a number above 0, got {temperature!r}")
        check_metric(metric)
        if empty not in ("theta", "zero"):
            raise ValueError(f'empty: expected "theta" or "zero", got {empty!r}')
        if literal and (exact or by_class):
            raise ValueError("literal: the printed sets know neither exact values nor classes")
        self.m, self.alpha, self.beta = m, float(alpha), float(beta)
        self.permutations, self.temperature = permutations, float(temperature)
        self.metric, self.empty, self.exact = metric, empty, exact
        self.by_class, self.literal = by_class, literal

    def start(self, server: Server) -> None:
        """Called once before the first round; forgets everything."""
        if self.m is not None and self.m > server.clients:
            raise ValueError(f"m: {self.m} of {server.clients} clients")
        super().start(server)
        self.phi = torch.full((server.clients,), 1 / server.clients, dtype=torch.float64)
        self.values = torch.zeros_like(self.phi)
        self.class_scores = self.phi[:, None].repeat(1, server.classes if self.by_class else 0)

    @property
    def scores(self) -> Tensor:
        """Relevance phi of every client, [K]."""
        return self.phi

    @property
    def probabilities(self) -> Tensor:
        """softmax(phi / temperature), [K]: who would be drawn first."""
        return (self.phi / self.temperature).softmax(0)

    def select(self, t: int) -> Tensor:
        """Ids [m] drawn one after another by ``probabilities``, without replacement.

        The m largest of phi / temperature + Gumbel noise are such a draw [Efraimidis & Spirakis
        2006; Kool et al. 2019]; a client's noise depends on its id, and nothing can underflow.
        """
        clients = self.server.clients
        chance = stream(self.server.seed, "selection", t)
        noise = torch.rand(clients, generator=chance, dtype=torch.float64)
        keys = (self.phi - self.phi.max()) / self.temperature - (
            -noise.clamp(min=1e-300).log()
        ).log()
        return keys.topk(clients if self.m is None else self.m).indices.sort().values

    def aggregate(self, round: Round) -> Tensor:
        """The new global model [P], the mean of the updates; then the relevances learn."""
        weights = self.weights(round)
        x, y = self.server.validation
        if self.by_class:
            own = torch.stack([self._values(round, weights, *part) for part in self._classes(x, y)])
            share = torch.bincount(y.cpu(), minlength=len(own)).double() / len(y)
            values = share @ own  # a mean over samples: the linearity of the Shapley value
            self._learn(self.class_scores, round, own.T)
        else:
            values = self._values(round, weights, x, y)
        self._learn(self.phi, round, values)
        self.values = torch.zeros_like(self.phi)
        self.values[round.clients] = values
        self.record(round, weights, values)
        return round.theta + weights @ round.updates

    def _learn(self, phi: Tensor, round: Round, values: Tensor) -> None:
        """phi <- alpha phi + beta value for the round's clients; phi [K] or [K, classes]."""
        ids = torch.cat([round.clients, round.missing])
        floor = values.amin(0, keepdim=True).clamp(max=0)
        values = torch.cat([values, floor.repeat(len(round.missing), *[1] * (values.ndim - 1))])
        phi[ids] = self.alpha * phi[ids] + self.beta * values

    def _values(self, round: Round, weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Shapley values [m] of the round's game on the samples (x, y); zeros without samples."""
        if len(y) == 0:
            return torch.zeros(len(round.clients), dtype=torch.float64)
        net, metric = self.server.net, self.metric
        sign = 1.0 if metric == "accuracy" else -1.0

        def worth(coalitions: Tensor) -> Tensor:
            found = coalition_metric(
                net, round.theta, round.updates, weights, coalitions, x, y, metric
            )
            worst = torch.finfo(torch.float32).max  # a model that overflows is as bad as can be
            found = sign * torch.nan_to_num(found, nan=worst, posinf=worst).clamp(max=worst)
            if self.empty == "zero":
                found[~coalitions.any(1)] = 0.0
            return found

        game = Game(len(round.clients), worth)
        seed = stream(self.server.seed, "orders", round.t).initial_seed()
        if self.literal:
            values = printed(game, self.permutations, seed)
        elif self._enumerate(game.n):
            values = exact_values(game).values
        else:
            values = permutation(game, self.permutations, seed).values
        self.evaluations += game.evaluations
        return values

    def _enumerate(self, m: int) -> bool:
        if self.exact is None:
            return m <= 20 and 2**m <= self.permutations * (m - 1) + 2
        return self.exact

    def _classes(self, x: Tensor, y: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [(x[y == c], y[y == c]) for c in range(self.server.classes)]

    def state_dict(self) -> dict[str, Tensor]:
        """See `FedAvg.state_dict`."""
        own = {name: getattr(self, name).clone() for name in ("phi", "values", "class_scores")}
        return super().state_dict() | own

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """See `FedAvg.load_state_dict`."""
        super().load_state_dict(state)
        for name in ("phi", "values", "class_scores"):
            setattr(self, name, state[name].clone())


def printed(game: Game, permutations: int, seed: int) -> Tensor:
    """Algorithm 2 to the letter: the mean of v(S + i) - v(S), S = {j : place of j <= i}.

    i is a client's place in the list 1..n, and is compared with places in the order; so S are the
    first i of the order, of whom i may be one, and the last client of the list always earns 0.
    """
    n, chance = game.n, stream(seed, "orders")
    orders = torch.stack([torch.randperm(n, generator=chance) for _ in range(permutations)])
    place = orders.argsort(1)  # [R, n], from 0
    before = place[:, None, :] <= torch.arange(n)[:, None]  # [R, i, j]
    joined = before | torch.eye(n, dtype=torch.bool)
    gain = game(joined.flatten(0, 1)) - game(before.flatten(0, 1))
    return gain.view(permutations, n).mean(0)


class LabelStandardisation(SFedAvg):
    """S-FedAvg whose server tells suspects that their labels may be permuted; clients answer.

    Once the validation accuracy has been stable, every round's message holds what share of each
    class the server's model gets right; a client (`Inspection`) renames the label groups that the
    model names otherwise. The server learns only who changed something, and forgives: its phi
    becomes the mean.

    margin        a group is renamed if at least ``P[L] - margin`` of it is predicted as L; None: as
                  printed, if more than P[L] of it is
    spread        lambda: stable means that the last ``window`` (zeta) validation accuracies differ
                  by no more than this; 0.02 as printed
    once          signal in the first stable round only, not in every round from then on
    accuracy      what P is: "recall", the share of the true class L that is predicted as L, or
                  "precision", the share of the predictions of L that are right
    groups        a client's label groups are those of its "original" labels, or of its "current"
                  ones (as printed), which merges what a half repair has mixed
    literal       margin None, spread .02, current groups, and all that it means for `SFedAvg`
    other arguments, scores: see `SFedAvg`

    Suspects are the clients with phi below the mean and, unless literal, whoever has renamed
    something before: a repair may be half done, and forgiven already.
    stable_at     the first stable round (0: none yet); corrections [K] how often a client renamed
    raises        ValueError naming the argument    source [Nagalapatti & Narayanam 2021; chapter 9]
    """

    def __init__(
        self,
        m: int | None = 5,
        alpha: float = 0.75,
        beta: float = 0.25,
        *,
        margin: float | None = 0.05,
        spread: float | None = None,
        window: int = 5,
        once: bool = False,
        accuracy: str = "recall",
        groups: str | None = None,
        permutations: int = 10,
        temperature: float | None = None,
        metric: str = "accuracy",
        empty: str = "theta",
        exact: bool | None = None,
        by_class: bool = False,
        weighting: str = "uniform",
        literal: bool = False,
    ):
        super().__init__(
            m,
            alpha,
            beta,
            permutations=permutations,
            temperature=temperature,
            metric=metric,
            empty=empty,
            exact=exact,
            by_class=by_class,
            weighting=weighting,
            literal=literal,
        )
        spread = (0.02 if literal else 0.05) if spread is None else spread
        groups = ("current" if literal else "original") if groups is None else groups
        for name, value in (("margin", margin), ("spread", spread)):
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ValueError(f"{name}: expected a number in [0, 1], got {value!r}")
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise ValueError(f"window: expected a whole number of at least 1, got {window!r}")
        if accuracy not in ("recall", "precision"):
            raise ValueError(f'accuracy: expected "recall" or "precision", got {accuracy!r}')
        if groups not in ("original", "current"):
            raise ValueError(f'groups: expected "original" or "current", got {groups!r}')
        self.margin, self.spread, self.window = None if literal else margin, spread, window
        self.once, self.accuracy, self.groups = once, accuracy, groups

    def start(self, server: Server) -> None:
        """Called once before the first round; forgets everything."""
        super().start(server)
        self.recent = torch.full((self.window,), math.nan, dtype=torch.float64)
        self.corrections = torch.zeros(server.clients, dtype=torch.long)
        self.stable_at, self.note = 0, None

    def aggregate(self, round: Round) -> Tensor:
        """The new global model [P]; then the server looks whether it is stable, and whom to ask."""
        theta = super().aggregate(round)
        x, y = self.server.validation
        predicted = self.server.net.predict(theta, x)
        self.evaluations += 1
        accuracy = (predicted == y).double().mean().cpu()
        self.recent = torch.cat([self.recent[1:], accuracy[None]])
        if not self.stable_at and self.recent.max() - self.recent.min() <= self.spread + 1e-12:
            self.stable_at = round.t
        if self.stable_at and (not self.once or self.stable_at == round.t):
            suspects = self.phi < self.phi.mean()
            if not self.literal:
                suspects |= self.corrections > 0
            right = self._right(predicted, y)
            self.note = Inspection(suspects.nonzero().flatten(), right, self.margin, self.groups)
        return theta

    def _right(self, predicted: Tensor, y: Tensor) -> Tensor:
        """P [classes]: recall or precision; infinite for a class that nothing is known of."""
        classes = self.server.classes
        of = y if self.accuracy == "recall" else predicted
        hits = torch.bincount(of[predicted == y].cpu(), minlength=classes).double()
        total = torch.bincount(of.cpu(), minlength=classes).double()
        return torch.where(total > 0, hits / total, math.inf)

    def message(self, t: int) -> Inspection | None:
        """What the suspects are asked after round ``t``; None: nothing."""
        note, self.note = self.note, None
        return note

    def hear(self, clients: Tensor) -> None:
        """The ids of the clients that say they have renamed labels: their penalty is lifted."""
        self.corrections[clients] += 1
        self.phi[clients] = self.phi.mean()

    def state_dict(self) -> dict[str, Tensor]:
        """See `FedAvg.state_dict`."""
        stable = torch.tensor(self.stable_at)
        own = {"recent": self.recent.clone(), "corrections": self.corrections.clone()}
        return super().state_dict() | own | {"stable_at": stable}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """See `FedAvg.load_state_dict`."""
        super().load_state_dict(state)
        self.recent, self.corrections = state["recent"].clone(), state["corrections"].clone()
        self.stable_at = int(state["stable_at"])


@dataclass(frozen=True)
class Inspection:
    """The message of label standardisation: what the server sends, and how a client answers it.

    clients [s]       who is asked
    right [classes]   P, what share of each class the server's model gets right
    margin, groups    see `LabelStandardisation`
    """

    clients: Tensor
    right: Tensor
    margin: float | None = 0.05
    groups: str = "original"

    def answer(self, net: Model, theta: Tensor, x: Tensor, original: Tensor, y: Tensor) -> Tensor:
        """A client's new labels [n], from its own samples and the model it was sent.

        theta [P]; x [n, ...]; original [n] labels as they were at first; y [n] as they are now
        All groups are decided on before any is renamed, so that an exchange is undone at once.
        """
        predicted = net.predict(theta, x)
        keys = original if self.groups == "original" else y
        renamed = y.clone()
        for key in keys.unique():
            group = keys == key
            votes = torch.bincount(predicted[group].cpu(), minlength=len(self.right))
            label = int(votes.argmax())
            share = int(votes[label]) / int(votes.sum())
            if label != int(y[group][0]) and self.accept(label, share):
                renamed[group] = label
        return renamed

    def accept(self, label: int, share: float) -> bool:
        """Is ``label`` the group's true name, if this share of it is predicted so?"""
        right = float(self.right[label])
        return share > right if self.margin is None else share >= right - self.margin - 1e-12


def class_relevance(
    source: History | Federation,
    net: Model | None = None,
    *,
    rounds: int = 50,
    local: LocalSGD | None = None,
    m: int | None = 5,
    temperature: float = math.inf,
    metric: str = "accuracy",
    seed: int = 0,
) -> Tensor:
    """S-FedAvg's class-specific relevance phi_c: whose updates help the model to see class c.

    source   the history of a training with ``SFedAvg(..., by_class=True)``; or a federation, which
             is then trained so for ``rounds`` rounds, with uniform selection unless ``temperature``
             says otherwise
    returns  [K, classes]; a large phi_c alone does not make a client good: who shouts class c at
             everything has one too (chapter 8), so read it beside phi
    raises   TypeError or ValueError naming the argument
    source   [Nagalapatti & Narayanam 2021, Class-Specific Best Client Selection]
    """
    if isinstance(source, Federation):
        if not isinstance(net, Model):
            raise TypeError(f"net: a federation needs a model to train, got {net!r}")
        strategy = SFedAvg(
            None if m is None else min(m, source.clients),
            temperature=temperature,
            metric=metric,
            by_class=True,
        )
        source = train(source, net, strategy, rounds=rounds, local=local, seed=seed)
    if not isinstance(source, History):
        raise TypeError(f"source: expected a History or a Federation, got {source!r}")
    found = getattr(source.strategy, "class_scores", None)
    if found is None or found.shape[1] == 0:
        raise ValueError("source: no class relevances; train with fm.SFedAvg(..., by_class=True)")
    return found.clone()
