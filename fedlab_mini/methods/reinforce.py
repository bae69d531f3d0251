"""Learned evaluators: a policy reads each update and gives a selection probability.

F-RCCE (chapter 5) selects clients by it; FLDVE and its removal variant (chapter 6) weight them.
Compared with the papers, the loss of the mean of all updates is the usual baseline, updates are
scaled before they are read, and long ones are shortened; ``literal=True`` runs the papers' text.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from ..engine.outputs import output_table
from ..engine.rounds import Round, Server, State, Step
from ..parse.checks import store, whole
from ..parse.settings import Count, Positive, between, ours
from ..streams import one_thread, stream
from .fedavg import FedAvg, Weighting
from .numerics import bounded, median_sent
from .policy import Policy, scaled

FASTEST = 1e3  # a larger step size leads to numbers that are not finite
# An advantage counts as one nat at most, so that one absurd update cannot end the learning.
CLIP = 1.0
WIDTHS = (64, 32, 16)  # hidden units of the policy
Baseline = Literal["moving", "aggregate", "probes", "previous"]
Sign = Literal["gain", "printed"]


@dataclass(frozen=True, eq=False, kw_only=True)
class FRCCE(FedAvg):
    """F-RCCE: select clients by coin flips, reward selections that lower the validation loss.

    lr         Adam's step size
    probes     selections drawn and rewarded per round; the first one is deployed
    baseline   what a selection's loss is compared with: "aggregate" (default), the loss of the
               mean of all updates in the same round; "moving" (as in the paper), a moving average
               over ``window`` rounds; "probes", the mean loss of the round's other selections
               (needs 2 probes or more); "previous", the loss before the round
    sign       "gain": reward = baseline - loss; "printed": loss - baseline, as in Eq. 2
    scaling    "client": every update is scaled to mean square 1; "none": it is not scaled
    layer      the policy reads the "last" layer of the update, which gives the model's outputs (in
               a linear model, that is the whole update), or "all" of it
    clamp      a penalty pulls the mean probability back if it leaves [clamp, 1 - clamp]; 0: none
    limit      updates longer than ``limit`` times the median length (without zeros) are shortened
               to this length; None: no update is shortened
    weighting, per_round: see `FedAvg`
    literal    the paper's text: sign "printed", moving baseline, all of the raw update is read, no
               clamp, no limit (even if one is given), lr 1e-5

    An advantage counts at most 1 nat (``CLIP``) unless literal. If nobody is selected, the model
    does not change, and the reward is 0.
    scores [K]  sum of omega over a client's rounds / all rounds; ``quality(state)`` is the mean
                of omega over the client's own rounds
    state       FedAvg's, and omega [K] the last values; times [K] a client's rounds; delta the
                moving average; read: the first parameter that the policy reads, and the end; phi,
                first, second, steps: the policy's parameters, Adam's moments and steps
    raises      ValueError or TypeError naming the argument  source [zhao2021efficient; chapter 5]

    Warning: ``sign="printed"`` rewards selections that raise the loss; it is there to run the
    paper's text. Without the baseline "moving", ``window`` decides nothing.
    """

    lr: Annotated[float, between(0, FASTEST, "(]")] = field(
        default=ours(1e-3, printed=1e-5), kw_only=False
    )
    probes: Count = 1
    baseline: Baseline = ours("aggregate", printed="moving")
    window: Count = 20
    sign: Sign = ours("gain", printed="printed")
    scaling: Literal["client", "none"] = ours("client", printed="none")
    layer: Literal["last", "all"] = ours("last", printed="all")
    clamp: Annotated[float, between(0, 0.5, "[)")] = ours(0.1, printed=0.0)
    limit: Positive | None = ours(5.0, printed=None)
    weighting: Weighting = "uniform"
    per_round: Count | None = None
    literal: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.baseline == "probes" and self.probes < 2:
            raise ValueError('probes: the baseline "probes" needs 2 or more, got 1')

    def init(self, server: Server) -> State:
        """The state before round 1."""
        read = self._numbers_read(server)
        state = super().init(server) | {
            "omega": torch.zeros(server.clients, dtype=torch.float64),
            "times": torch.zeros(server.clients, dtype=torch.long),
            "delta": torch.zeros((), dtype=torch.float64),
            "read": torch.tensor([read.start, read.stop]),
        }
        policy = Policy(read.stop - read.start, 1, WIDTHS, self.lr, self.clamp)
        policy.start(server.seed, server.validation[0])
        return state | policy.state

    def policy(self, state: State) -> Policy:
        """The policy with the state's parameters; learning changes them in place."""
        policy = Policy(int(state["read"].diff()), 1, WIDTHS, self.lr, self.clamp)
        policy.take(state)
        return policy

    def _numbers_read(self, server: Server) -> slice:
        """The parameters that the policy reads: all, or those of the output layer."""
        net = server.net
        if self.layer == "all":
            return slice(0, net.P)
        # "2" of "2.weight" and "2.bias"; the parameters of a layer are neighbours
        layer = output_table(net, server.validation[0]).rpartition(".")[0]
        names = [name.rpartition(".")[0] for name in net.shapes]
        ends = [0, *itertools.accumulate(shape.numel() for shape in net.shapes.values())]
        first = names.index(layer)
        return slice(ends[first], ends[first + names.count(layer)])

    def quality(self, state: State) -> Tensor:
        """Mean selection probability over a client's own rounds, [K]; 0 if it had none."""
        return state["total"] / state["times"].clamp(min=1)

    def step(self, server: Server, state: State, round: Round) -> Step:
        """Select, reward, learn; deploy the first selection."""
        # The policy also learns if the caller has switched gradients off.
        with one_thread(), torch.enable_grad():
            if self.limit is not None:
                round = replace(round, updates=shortened(round.updates, self.limit))
            policy = self.policy(state)
            logits = self.logits(state, round, policy)
            omega = logits.detach().sigmoid()
            selections = self.draw(server, omega, round.t, round.clients)
            weights = self.deployed(server, round, omega, selections)
            models = self._judged(server, state, round, weights, selections)
            advantages = self._advantages(server, state, round, models, selections)
            policy.learn(logits, selections, advantages)
        state["omega"][round.clients] = omega.double().cpu()
        state["times"][round.clients] += 1
        self.count(state, round, omega)
        theta = round.theta + weights @ round.updates
        evaluated = sum(map(len, models.values()))
        return Step(theta, weights, state | policy.state, evaluated)

    def deployed(self, server: Server, round: Round, omega: Tensor, selections: Tensor) -> Tensor:
        """Aggregation weights [m] of the next global model: those of the first selection."""
        return self.selected(server, round, selections[:1])[0]

    def selected(self, server: Server, round: Round, selections: Tensor) -> Tensor:
        """Weights [Q, m] of the selections [Q, m], renormalised; zeros for an empty one."""
        chosen = selections * self._checked_weights(server, {}, round)
        total = chosen.sum(1, keepdim=True)
        return chosen / torch.where(total > 0, total, 1)

    def logits(self, state: State, round: Round, policy: Policy | None = None) -> Tensor:
        """The policy's output for the round's clients, [m]: log(omega / (1 - omega))."""
        policy = policy or self.policy(state)
        read = slice(*state["read"].tolist())
        return policy.logits(scaled(round.updates[:, read], self.scaling))

    def draw(self, server: Server, omega: Tensor, t: int, clients: Tensor | None = None) -> Tensor:
        """Selections [Q, m] in {0, 1}, by coin flips with probabilities omega [m].

        A client's coin depends on its id, not on its place in the round.
        """
        client_ids = torch.arange(len(omega)) if clients is None else clients.cpu()
        chance = stream(server.seed, "selections", t)
        shape = (self.probes, server.clients)
        coins = torch.rand(shape, generator=chance, dtype=torch.float64)
        return (coins[:, client_ids].to(omega.device) < omega).to(omega)

    def losses(self, server: Server, round: Round, weights: Tensor) -> Tensor:
        """Validation loss [C] of the models with aggregation weights [C, m]."""
        samples, labels = server.validation
        # [C, m] @ [m, P] -> [C, P]: one model per selection
        models = round.theta + weights @ round.updates
        return bounded(server.net.evaluate(models, samples, labels, "loss").cpu())

    def _advantages(
        self,
        server: Server,
        state: State,
        round: Round,
        judged: dict[str, Tensor],
        selections: Tensor,
    ) -> Tensor:
        """Reward minus baseline [Q] of each selection; 0 for an empty one."""
        counts = [len(rows) for rows in judged.values()]
        losses = self.losses(server, round, torch.cat(list(judged.values()))).split(counts)
        loss_of = dict(zip(judged, losses, strict=True))
        probes, chose_any = loss_of["probes"], selections.any(1).cpu()
        if self.baseline == "moving" and not state["rounds"]:
            state["delta"] = loss_of["before"][0]
        baseline = {
            "moving": state["delta"],
            "aggregate": loss_of.get("everybody"),
            "previous": loss_of.get("before"),
            "probes": others(probes, chose_any),
        }[self.baseline]
        # The average is updated after its use, so that no loss is part of its own baseline.
        deployed = loss_of.get("deployed", probes)[0]
        state["delta"] = state["delta"] + (deployed - state["delta"]) / self.window
        gain = baseline - probes if self.sign == "gain" else probes - baseline
        # Otherwise, one absurd selection would dominate Adam's moments for many rounds.
        if not self.literal:
            gain = gain.clamp(-CLIP, CLIP)
        return torch.where(chose_any, gain, 0.0)

    def _judged(
        self, server: Server, state: State, round: Round, weights: Tensor, selections: Tensor
    ) -> dict[str, Tensor]:
        """Aggregation weights [C, m] of all models whose loss the rewards need."""
        judged = {"probes": self.selected(server, round, selections)}
        # If the first probe is the model that is deployed, it is not evaluated twice.
        if not self.literal and type(self).deployed is not FRCCE.deployed:
            judged["deployed"] = weights[None]
        if self.baseline == "aggregate":
            judged["everybody"] = self._checked_weights(server, state, round)[None]
        if self.baseline == "previous" or (self.baseline == "moving" and not state["rounds"]):
            judged["before"] = torch.zeros_like(weights)[None]
        return judged


@dataclass(frozen=True, eq=False, kw_only=True)
class FLDVE(FRCCE):
    """FLDVE: like F-RCCE, but the next global model weights client k by omega_k / sum omega.

    probes, baseline  8 selections per round, each compared with the mean of the others; with one
                      probe, the baseline is the loss before the round
    reads             the policy reads each client's "update", or its "model" theta + update, as
                      in the paper
    literal           the paper's text: omega itself is the action, and its model is rewarded;
                      the baseline is the loss before the round; raw models are read, lr 1e-5
    other arguments, scores, quality, omega: see `FRCCE`     source [fldve2022data; chapter 6]
    """

    probes: Count = ours(8, printed=1)
    baseline: Baseline = ours("probes", printed="previous")
    sign: Sign = ours("gain", printed="gain")
    reads: Literal["update", "model"] = ours("update", printed="model")

    def __post_init__(self) -> None:
        # A single probe cannot be compared with others.
        one_probe = self.given("probes") and whole("probes", self.probes) == 1
        if one_probe and not self.given("baseline"):
            store(self, baseline="previous")
        super().__post_init__()
        if self.literal and self.probes != 1:
            raise ValueError(
                f"probes: expected 1, as the paper's text samples nothing, got {self.probes}"
            )

    def logits(self, state: State, round: Round, policy: Policy | None = None) -> Tensor:
        """The policy's output, see `FRCCE.logits`; it reads updates or models."""
        if self.reads == "model":
            round = replace(round, updates=round.theta + round.updates)
        return super().logits(state, round, policy)

    def draw(self, server: Server, omega: Tensor, t: int, clients: Tensor | None = None) -> Tensor:
        """Selections [Q, m], see `FRCCE.draw`; literal: omega itself, [1, m]."""
        # With s = omega, s - omega is 0, so the paper's text never learns (chapter 6, step 1).
        return omega[None] if self.literal else super().draw(server, omega, t, clients)

    def deployed(self, server: Server, round: Round, omega: Tensor, selections: Tensor) -> Tensor:
        """Aggregation weights [m] in proportion to omega."""
        trusted = omega * self._checked_weights(server, {}, round)
        return trusted / trusted.sum() if trusted.sum() > 0 else trusted


@dataclass(frozen=True, eq=False, kw_only=True)
class DVRLRemoval(FLDVE):
    """Removal, after data valuation by reinforcement learning, of clients with omega < 1/2.

    The others have equal weights. If no client reaches one half, none is removed.
    Arguments, scores, quality, omega: see `FLDVE`           source [yoon2020data; chapter 6]
    """

    def deployed(self, server: Server, round: Round, omega: Tensor, selections: Tensor) -> Tensor:
        """Equal weights [m] of the clients with omega of at least 1/2."""
        staying = (omega >= 0.5).to(omega)
        if not staying.any():
            return self._checked_weights(server, {}, round)
        return self.selected(server, round, staying[None])[0]


def shortened(updates: Tensor, limit: float) -> Tensor:
    """Updates [m, P], shortened to ``limit`` times the median length where they are longer.

    Only updates that are not zero count for the median.
    """
    lengths = torch.linalg.vector_norm(updates, dim=1)
    longest = limit * median_sent(lengths)
    if (lengths <= longest).all():
        return updates
    # Updates are divided by their largest entry first, so that no square overflows.
    bounded_updates = updates / updates.abs().amax(1, keepdim=True).clamp(min=1)
    factors = longest / torch.linalg.vector_norm(bounded_updates, dim=1)
    too_long = (lengths > longest)[:, None]
    return torch.where(too_long, bounded_updates * factors[:, None], updates)


def others(losses: Tensor, used: Tensor) -> Tensor:
    """For each selection, the mean loss of the round's other selections that are not empty, [Q]."""
    counted = torch.where(used, losses, 0.0)
    # Chapter 6, step 3: the mean over the others, from the sum minus the selection's own loss.
    rivals = used.sum() - used.long()
    return torch.where(rivals > 0, (counted.sum() - counted) / rivals.clamp(min=1), losses)
