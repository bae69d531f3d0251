"""Learned evaluators: a policy reads each update and says whom to trust; REINFORCE teaches it.

F-RCCE (chapter 5) selects clients; FLDVE and its removal variant (chapter 6) weigh them. Below:
fedavg, model. The policy is one network, shared by all clients, on each client's update.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.optim.adam import adam  # the function: the class takes seconds to import on first use

from ..checks import choice, number, shown, whole
from ..engine.model import mlp, one_thread
from ..engine.rounds import Round, Server
from ..streams import stream
from .fedavg import FedAvg, optional

FASTEST = 1e3  # a step size above it ends in numbers that are not finite
CLIP = 1.0  # an advantage counts at most as one nat: one absurd update must not end the learning
ADAM: dict[str, Any] = {
    "amsgrad": False,
    "beta1": 0.9,
    "beta2": 0.999,
    "weight_decay": 0.0,
    "eps": 1e-8,
}
ROOM = 8 << 30  # bytes that a policy's first layer, its gradient and Adam's moments may take
PULL = 10.0  # how strongly a mean selection probability outside the clamp is drawn back


class Policy:
    """Selection probabilities omega = g_phi(inputs) of a round's clients, and how they learn.

    inputs   [m, d] one row a client        phi [P] all parameters, trained by Adam
    outputs  1: the same small network reads every row; K: one network reads all rows at once
    clamp    the mean of omega is kept in [clamp, 1 - clamp], so that exploration never ends
    """

    def __init__(self, d: int, outputs: int, widths: tuple[int, ...], lr: float, clamp: float):
        with torch.random.fork_rng(devices=[]):  # a module draws its first weights globally
            self.net = mlp(d, *widths, outputs)
        self.lr, self.clamp = lr, clamp

    def start(self, seed: int, like: Tensor) -> None:
        """Fresh parameters, decided by the seed, of the type and device of ``like``."""
        seed = stream(seed, "policy").initial_seed()
        self.phi = self.net.init(seed, dtype=like.dtype, device=like.device).requires_grad_()
        self.first, self.second = (torch.zeros_like(self.phi.detach()) for _ in range(2))
        self.steps = torch.zeros((), dtype=torch.float32, device=like.device)

    def logits(self, inputs: Tensor) -> Tensor:
        """log(omega / (1 - omega)) of every row, [m]."""
        h, parts = inputs, self.net.split(self.phi)
        for weight, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
            h = torch.addmm(bias, h, weight.T).relu()
        return torch.addmm(parts[-1], h, parts[-2].T).flatten()

    def learn(self, logits: Tensor, selections: Tensor, advantages: Tensor) -> None:
        """One step up the sampled gradient of E[r]: the mean of A_q grad log p(s_q).

        logits [m], selections [Q, m] in {0, 1}, advantages [Q]     [Zhao et al. 2021, Eqs. 5-8]
        """
        omega = logits.detach().sigmoid()
        score = selections.to(omega) - omega  # derivative of log p(s_q), [Q, m]
        slope = -(advantages.to(omega)[:, None] * score).mean(0)  # of minus the gain
        mean = omega.mean()
        if self.clamp > 0 and not self.clamp <= mean <= 1 - self.clamp:
            slope += PULL * (mean - 0.5).sign() * omega * (1 - omega) / len(omega)
        (gradient,) = torch.autograd.grad(logits, self.phi, slope)
        parts = ([self.phi.detach()], [gradient], [self.first], [self.second])
        adam(*parts, [], [self.steps], fused=True, maximize=False, **ADAM, lr=self.lr)


def log_probability(logits: Tensor, selections: Tensor) -> Tensor:
    """log p(s) = sum_k s_k log omega_k + (1 - s_k) log(1 - omega_k), [Q], of selections [Q, m]."""
    s = selections.to(logits)
    return s @ logsigmoid(logits) + (1 - s) @ logsigmoid(-logits)


def _check_widths(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, tuple | list):
        raise TypeError(f"{name}: expected whole numbers such as (64, 32), got {shown(value)}")
    return tuple(whole(name, width) for width in value)


@dataclass(eq=False, kw_only=True)
class FRCCE(FedAvg):
    """F-RCCE: select clients by coin flips, reward selections that lower the validation loss.

    lr         Adam's step size; None: 1e-3, or 1e-5 (as printed) with literal=True
    probes     selections drawn and rewarded a round; the first is the one that is deployed
    baseline   what a selection's loss is compared with: "aggregate" (default), the loss of
               everybody's mean in the same round; "moving" (as printed), a moving average over
               ``window`` rounds; "probes", the mean of the round's other selections (needs 2
               probes or more); "previous", the loss before the round
    sign       "gain": reward = baseline - loss; "printed": loss - baseline, as in Eq. 2
    scaling    "client": every update has mean square 1; "round": every parameter has mean 0 and
               variance 1 over the round's clients; "none"
    layer      the policy reads the "last" layer of the update (all there is in a linear model), or
               "all" of it
    inputs     "client": one network reads each update; "all": one reads them all, and needs ids
    clamp      the mean probability is kept in [clamp, 1 - clamp]; 0 lets it go
    limit      updates longer than ``limit`` times the round's median length are shortened to that;
               None: they stay as they are
    empty      what happens if nobody is selected: "keep" the model, reward 0; or "redraw" with
               probability one half
    widths     hidden units of the policy; weighting, per_round: see `FedAvg`
    literal    the text as printed: sign "printed", moving baseline, all of the raw update is
               read, no clamp, no limit (whatever is given), lr 1e-5

    An advantage counts at most 1 nat (``CLIP``) unless literal.
    scores [K]  sum of omega over a client's rounds / all rounds; quality [K] is its mean over the
                client's own rounds, omega [K] its last value
    raises      ValueError or TypeError naming the argument  source [zhao2021efficient; chapter 5]
    """

    lr: float | None = field(default=None, kw_only=False)
    probes: int | None = 1
    baseline: str | None = None
    window: int = 20
    sign: str | None = None
    scaling: str | None = None
    layer: str | None = None
    inputs: str = "client"
    clamp: float | None = None
    limit: float | None = 5.0
    empty: str = "keep"
    widths: tuple[int, ...] = (64, 32, 16)
    weighting: str = "uniform"
    per_round: int | None = None
    literal: bool = False

    KEPT: ClassVar = (
        *(*FedAvg.KEPT, "omega", "times", "delta"),
        *("policy.phi", "policy.first", "policy.second", "policy.steps"),
    )
    OURS: ClassVar = {
        "lr": 1e-3,
        "sign": "gain",
        "baseline": "aggregate",
        "scaling": "client",
        "layer": "last",
        "clamp": 0.1,
        "limit": 5.0,
    }
    PRINTED: ClassVar = {
        "lr": 1e-5,
        "sign": "printed",
        "baseline": "moving",
        "scaling": "none",
        "layer": "all",
        "clamp": 0.0,
        "limit": None,
    }
    CHECKS: ClassVar = FedAvg.CHECKS | {
        "lr": partial(number, low=0, high=FASTEST, ends="(]"),
        "probes": whole,
        "baseline": partial(choice, accepted=("moving", "aggregate", "probes", "previous")),
        "window": whole,
        "sign": partial(choice, accepted=("gain", "printed")),
        "scaling": partial(choice, accepted=("client", "round", "none")),
        "layer": partial(choice, accepted=("last", "all")),
        "inputs": partial(choice, accepted=("client", "all")),
        "clamp": partial(number, low=0, high=0.5, ends="[)"),
        "limit": optional(partial(number, low=0, ends="(]")),
        "empty": partial(choice, accepted=("keep", "redraw")),
        "widths": _check_widths,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.baseline == "probes" and self.probes < 2:
            raise ValueError('probes: the baseline "probes" needs 2 or more, got 1')

    def start(self, server: Server) -> None:
        """Called once before the first round; forgets everything."""
        super().start(server)
        self.omega = torch.zeros(server.clients, dtype=torch.float64)
        self.times = torch.zeros(server.clients, dtype=torch.long)
        self.delta = torch.zeros((), dtype=torch.float64)  # the moving average
        sizes = {name: shape.numel() for name, shape in server.net.shapes.items()}
        layer = list(sizes)[-1].rpartition(".")[0]  # "2" of "2.weight" and "2.bias"
        last = sum(size for name, size in sizes.items() if name.rpartition(".")[0] == layer)
        # how many parameters, from the end, the policy reads
        self.read = last if self.layer == "last" else server.net.P
        together = self.inputs == "all"
        d, outputs = (self.read * server.clients, server.clients) if together else (self.read, 1)
        room = 4 * server.validation[0].element_size() * d * (self.widths or (outputs,))[0]
        if room > ROOM:
            raise ValueError(
                f"inputs: one network that reads {d:,} numbers takes {room / 2**30:.1f} GiB; "
                'try inputs="client", layer="last" or smaller widths'
            )
        self.policy = Policy(d, outputs, self.widths, self.lr, self.clamp)
        self.policy.start(server.seed, server.validation[0])

    @property
    def quality(self) -> Tensor:
        """Mean selection probability over a client's own rounds, [K]; 0 if it had none."""
        return self.total / self.times.clamp(min=1)

    def aggregate(self, round: Round) -> Tensor:
        """Select, reward, learn; returns the deployed model [P]."""
        with one_thread(), torch.enable_grad():
            if self.limit is not None:
                round = replace(round, updates=shortened(round.updates, self.limit))
            logits = self._logits(round)
            omega = logits.detach().sigmoid()
            selections = self._draw(omega, round.t, round.clients)
            weights = self.deployed(round, omega, selections)
            advantages = self._advantages(round, weights, selections)
            self.policy.learn(logits, selections, advantages)
        self.omega[round.clients] = omega.double().cpu()
        self.times[round.clients] += 1
        self.record(round, weights, omega)
        return round.theta + weights @ round.updates

    def deployed(self, round: Round, omega: Tensor, selections: Tensor) -> Tensor:
        """Aggregation weights [m] of the model that goes out: those of the first selection."""
        return self.selected(round, selections[:1])[0]

    def selected(self, round: Round, selections: Tensor) -> Tensor:
        """Weights [Q, m] of the selections [Q, m], renormalised; zeros for an empty one."""
        share = selections * self.weights(round)
        total = share.sum(1, keepdim=True)
        return share / torch.where(total > 0, total, 1)

    def _logits(self, round: Round) -> Tensor:
        rows = scaled(round.updates[:, -self.read :], self.scaling)
        if self.inputs == "client":
            return self.policy.logits(rows)
        table = rows.new_zeros(self.server.clients, self.read)
        table[round.clients] = rows
        return self.policy.logits(table.view(1, -1))[round.clients]

    def _draw(self, omega: Tensor, t: int, clients: Tensor | None = None) -> Tensor:
        """Selections [Q, m] in {0, 1}, by coin flips with probabilities omega [m].

        A client's coin depends on its id, not on its place in the round.
        """
        ids = torch.arange(len(omega)) if clients is None else clients.cpu()
        chance = stream(self.server.seed, "selections", t)

        def coins() -> Tensor:
            table = torch.rand(
                self.probes, self.server.clients, generator=chance, dtype=torch.float64
            )
            return table[:, ids].to(omega.device)

        selections = coins() < omega
        while self.empty == "redraw" and not selections.any(1).all():
            selections = torch.where(selections.any(1, True), selections, coins() < 0.5)
        return selections.to(omega)

    def _advantages(self, round: Round, weights: Tensor, selections: Tensor) -> Tensor:
        """Reward minus baseline [Q] of each selection; 0 for an empty one."""
        models = {"probes": self.selected(round, selections), "deployed": weights[None]}
        if self.baseline == "aggregate":
            models["everybody"] = self.weights(round)[None]
        if self.baseline == "previous" or (self.baseline == "moving" and self.rounds == 0):
            models["before"] = torch.zeros_like(weights)[None]
        if self.literal or type(self).deployed is FRCCE.deployed:
            del models["deployed"]  # the first probe goes out: one model, evaluated once
        found = self._losses(round, torch.cat(list(models.values())))
        parts = found.split([len(part) for part in models.values()])
        losses = dict(zip(models, parts, strict=True))
        mine, used = losses["probes"], selections.any(1).cpu()
        if self.baseline == "moving" and self.rounds == 0:
            self.delta = losses["before"][0]
        baseline = {
            "moving": self.delta,
            "aggregate": losses.get("everybody"),
            "previous": losses.get("before"),
            "probes": others(mine, used),
        }[self.baseline]
        now = losses.get("deployed", mine)[0]
        self.delta = self.delta + (now - self.delta) / self.window
        gain = baseline - mine if self.sign == "gain" else mine - baseline
        if not self.literal:
            gain = gain.clamp(-CLIP, CLIP)
        return torch.where(used, gain, 0.0)

    def _losses(self, round: Round, weights: Tensor) -> Tensor:
        """Validation loss [C] of the models with aggregation weights [C, m]."""
        self.evaluations += len(weights)
        x, y = self.server.validation
        found = self.server.net.evaluate(round.theta + weights @ round.updates, x, y, "loss")
        worst = torch.finfo(torch.float32).max  # a model that overflows is as bad as can be
        return torch.nan_to_num(found.cpu(), nan=worst, posinf=worst).clamp(max=worst)


@dataclass(eq=False, kw_only=True)
class FLDVE(FRCCE):
    """FLDVE: as F-RCCE, but the model that goes out weighs client k by omega_k / sum omega.

    probes, baseline  8 selections a round, each compared with the mean of the others; with one
                      probe the baseline is the loss before the round
    deploy            "weighted": as above; "probe": only the first selection is weighed
    literal           the text as printed: omega itself stands for the action, its model is the one
                      rewarded, baseline is the loss before, raw updates, lr 1e-5
    other arguments, scores, quality, omega: see `FRCCE`     source [fldve2022data; chapter 6]
    """

    probes: int | None = None
    deploy: str = "weighted"

    OURS: ClassVar = FRCCE.OURS | {"probes": 8, "baseline": "probes"}
    PRINTED: ClassVar = FRCCE.PRINTED | {"probes": 1, "baseline": "previous", "sign": "gain"}
    CHECKS: ClassVar = FRCCE.CHECKS | {"deploy": partial(choice, accepted=("weighted", "probe"))}

    def __post_init__(self) -> None:
        if self.baseline is None and isinstance(self.probes, int) and self.probes == 1:
            self.baseline = "previous"
        super().__post_init__()
        if self.literal and self.probes != 1:
            raise ValueError(f"probes: the printed text samples nothing, so 1, got {self.probes}")

    def _draw(self, omega: Tensor, t: int, clients: Tensor | None = None) -> Tensor:
        return omega[None] if self.literal else super()._draw(omega, t, clients)

    def deployed(self, round: Round, omega: Tensor, selections: Tensor) -> Tensor:
        """Aggregation weights [m] in proportion to omega."""
        share = omega * self.weights(round)
        if self.deploy == "probe":
            share = share * selections[0]
        return share / share.sum() if share.sum() > 0 else share


@dataclass(eq=False, kw_only=True)
class DVRLRemoval(FLDVE):
    """Removal, after data valuation by reinforcement learning: who has omega < 1/2 is left out.

    The others weigh equally. If nobody reaches one half, nobody is left out.
    Arguments, scores, quality, omega: see `FLDVE`           source [yoon2020data; chapter 6]
    """

    def deployed(self, round: Round, omega: Tensor, selections: Tensor) -> Tensor:
        """Equal weights [m] of those with omega of at least 1/2."""
        kept = (omega >= 0.5).to(omega)
        return self.selected(round, kept[None])[0] if kept.any() else self.weights(round)


def scaled(rows: Tensor, scaling: str) -> Tensor:
    """What the policy reads: rows [m, d] scaled per "client", per "round", or not ("none")."""
    if scaling == "client":
        size = torch.linalg.vector_norm(rows, dim=1, keepdim=True) / rows.shape[1] ** 0.5
        return rows / torch.where(size > 0, size, 1)
    if scaling == "round":
        spread = rows.std(0, correction=0)
        return (rows - rows.mean(0)) / torch.where(spread > 0, spread, 1)
    return rows


def shortened(updates: Tensor, limit: float) -> Tensor:
    """Updates [m, P], those longer than ``limit`` times the median length cut to that length."""
    norms = torch.linalg.vector_norm(updates, dim=1)
    bound = limit * norms.median()
    if (norms <= bound).all():
        return updates
    unit = updates / updates.abs().amax(1, keepdim=True).clamp(min=1)  # no square may overflow
    cut = unit * (bound / torch.linalg.vector_norm(unit, dim=1))[:, None]
    return torch.where((norms > bound)[:, None] & (bound > 0), cut, updates)


def others(losses: Tensor, used: Tensor) -> Tensor:
    """For each selection the mean loss of the round's other ones that selected anybody, [Q]."""
    mine = torch.where(used, losses, 0.0)
    rest = used.sum() - used.long()
    return torch.where(rest > 0, (mine.sum() - mine) / rest.clamp(min=1), losses)
