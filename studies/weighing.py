"""Weighing: the rules that FLDVE is compared with, from what knows all to what learns nothing.

Chapter 6 derives the direct gradient. Below: methods.reinforce. Above: the studies of FLDVE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import Model, one_thread
from fedlab_mini.engine.rounds import History, Round
from fedlab_mini.judge.metrics import spearman
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.methods.reinforce import FLDVE, DVRLRemoval, shortened
from fedlab_mini.worlds.federation import Federation

SETS = (1, 2, 3)
ROUNDS = 30  # of the paper
LOCAL = LocalSGD(epochs=1, batch=32, lr=0.25)


class Oracle(FedAvg):
    """It knows: the one noisy client is left out; where all are noisy, the clean share weighs."""

    def __init__(self, fed: Federation):
        super().__init__()
        self.clean = 1 - fed.noise
        if (fed.noise > 0).sum() == 1:
            self.clean = (fed.noise == 0).double()

    def weights(self, round: Round) -> Tensor:
        """Aggregation weights [m]."""
        share = super().weights(round) * self.clean[round.clients].to(round.updates)
        return share / share.sum()


class OwnLoss(FedAvg):
    """Nothing learned: each client's model alone on the validation set, softmax of minus its loss.

    Losses count in units of their spread, so that the weights are as uneven in every round.
    """

    def weights(self, round: Round) -> Tensor:
        """Aggregation weights [m]."""
        alone = round.theta + round.updates  # one model a client
        loss = self.server.net.evaluate(alone, *self.server.validation, "loss")
        self.evaluations += len(alone)
        return torch.softmax(-loss / loss.std(), 0).to(round.updates)


class Direct(FLDVE):
    """FLDVE's policy, taught by the exact gradient of the deployed model's loss; no probes."""

    def aggregate(self, round: Round) -> Tensor:
        """Weigh, differentiate, learn; returns the deployed model [P]."""
        x, y = self.server.validation
        with one_thread(), torch.enable_grad():
            round = replace(round, updates=shortened(round.updates, self.limit or 5.0))
            logits = self._logits(round)
            z = logits.detach().requires_grad_()
            weights = z.sigmoid() / z.sigmoid().sum()
            model = round.theta + weights @ round.updates
            loss = cross_entropy(self.server.net.forward(model, x), y)
            (slope,) = torch.autograd.grad(loss, z)
            omega = z.detach().sigmoid()  # `learn` follows selections - omega, here -slope
            self.policy.learn(logits, (omega - slope)[None], torch.ones(1))
        self.evaluations += 1
        self.omega[round.clients] = omega.double()
        self.record(round, weights.detach(), omega)
        return model.detach()


class Best(FedAvg):
    """No policy at all: in each round the weights that make the deployed model's loss least."""

    def weights(self, round: Round) -> Tensor:
        """Aggregation weights [m]."""
        return best(self.server.net, round.theta, round.updates, *self.server.validation)


class ByAccuracy(FLDVE):
    """FLDVE, rewarded by validation accuracy in place of the loss."""

    def _losses(self, round: Round, weights: Tensor) -> Tensor:
        self.evaluations += len(weights)
        models = round.theta + weights @ round.updates
        return 1 - self.server.net.evaluate(models, *self.server.validation, "accuracy")


def best(
    net: Model, theta: Tensor, updates: Tensor, x: Tensor, y: Tensor, steps: int = 12
) -> Tensor:
    """Weights [m], none negative and sum 1, of the least loss: exponentiated gradient steps."""
    w = torch.full((len(updates),), 1 / len(updates)).to(updates)
    for i in range(steps):
        w.requires_grad_()
        with torch.enable_grad():
            loss = cross_entropy(net.forward(theta + w @ updates, x), y)
            (g,) = torch.autograd.grad(loss, w)
        size = 2 / (1 + i / 10) / (g.max() - g.min()).clamp(min=1e-9)
        w = torch.softmax(w.detach().log() - size * g, 0)
    return w


Rule = Callable[[Federation], FedAvg]
RULES: dict[str, Rule] = {
    "FedAvg": lambda fed: FedAvg(),
    "FLDVE": lambda fed: FLDVE(),
    "removal": lambda fed: DVRLRemoval(),
    "oracle": Oracle,
    "own loss": lambda fed: OwnLoss(),
}
LEARNERS: dict[str, Rule] = {
    "direct gradient": lambda fed: Direct(),
    "best of each round": lambda fed: Best(),
    "rewarded by accuracy": lambda fed: ByAccuracy(),
}


def ends(history: History, t: int) -> float:
    """Test accuracy, mean of the last five rounds up to t."""
    return float(history.accuracy[t - 4 : t + 1].mean())


def effective(weights: Tensor) -> Tensor:
    """Effective number of clients 1 / sum w^2 of weights [..., m]: m if equal, 1 if one has all."""
    return 1 / weights.square().sum(-1)


def found(fed: Federation, history: History, t: int) -> Iterator[tuple[str, float]]:
    """What the mean weights of ten rounds up to t say of the noise."""
    w = history.weights[t - 10 : t].mean(0)
    if (fed.noise > 0).sum() == 1:
        yield f"noisy one lowest @ {t}", float(w.argmin() == fed.noise.argmax())
    else:
        yield f"ranks cleanness @ {t}", spearman(w, -fed.noise)
