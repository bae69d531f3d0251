"""The policy of the learned evaluators: it reads updates and gives selection probabilities.

REINFORCE [Williams 1992] trains it; the reward is the change that a selection makes to the
validation loss (chapter 5). Compared with a policy of a game, it takes one step per round, and a
penalty pulls the mean probability back if it comes too near to 0 or 1.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ..engine.model import Model
from ..engine.networks import mlp
from ..streams import stream
from .adam import adam_step

PULL = 10.0  # how strongly a mean selection probability outside the clamp is pulled back


class Policy:
    """Selection probabilities omega = g_phi(inputs) of a round's clients, and how they learn.

    inputs   [m, d] one row per client      phi [P] all parameters, trained by Adam
    outputs  1: the same small network reads every row; K: one network reads all rows at once
    clamp    a penalty pulls the mean of omega back if it leaves [clamp, 1 - clamp]; 0: no penalty
    """

    def __init__(self, d: int, outputs: int, widths: tuple[int, ...], lr: float, clamp: float):
        self.net = _network(d, widths, outputs)
        self.lr, self.clamp = lr, clamp

    def start(self, seed: int, like: Tensor) -> None:
        """New parameters that the seed determines, with the type and device of ``like``."""
        policy_seed = stream(seed, "policy").initial_seed()
        phi = self.net.init(policy_seed, dtype=like.dtype, device=like.device)
        steps = torch.zeros((), dtype=torch.float32, device=like.device)
        moments = {"first": torch.zeros_like(phi), "second": torch.zeros_like(phi)}
        self.take({"phi": phi, "steps": steps, **moments})

    def take(self, state: dict[str, Tensor]) -> None:
        """Continue with a ``state``; ``learn`` changes its parameters, moments, steps in place."""
        self.phi = state["phi"].detach().requires_grad_()
        self.first, self.second, self.steps = state["first"], state["second"], state["steps"]

    @property
    def state(self) -> dict[str, Tensor]:
        """The parameters, Adam's moments and how many steps it has made, for ``take``."""
        parts = {"first": self.first, "second": self.second, "steps": self.steps}
        return {"phi": self.phi.detach(), **parts}

    def logits(self, inputs: Tensor) -> Tensor:
        """log(omega / (1 - omega)) of every row, [m]."""
        layers = self.net.split(self.phi)  # weight, bias, weight, bias, ...
        hidden = inputs
        for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
            hidden = torch.addmm(bias, hidden, weight.T).relu()
        return torch.addmm(layers[-1], hidden, layers[-2].T).flatten()

    def learn(self, logits: Tensor, selections: Tensor, advantages: Tensor) -> None:
        """One step up the sampled gradient of E[r]: the mean of A_q grad log p(s_q).

        logits [m], selections [Q, m] in {0, 1}, advantages [Q]     [Zhao et al. 2021, Eqs. 5-8]
        """
        omega = logits.detach().sigmoid()
        score = selections.to(omega) - omega  # derivative of log p(s_q), [Q, m]
        descent = -(advantages.to(omega)[:, None] * score).mean(0)  # of minus the gain
        mean = omega.mean()
        # At a mean of 0 or 1, nobody or everybody is selected, and learning stops.
        if self.clamp > 0 and not self.clamp <= mean <= 1 - self.clamp:
            # d mean / d logit_k = omega_k (1 - omega_k) / m
            descent += PULL * (mean - 0.5).sign() * omega * (1 - omega) / len(omega)
        # Back through the network: [m] slopes at the logits -> [P], one at each parameter
        (gradient,) = torch.autograd.grad(logits, self.phi, descent)
        # A detached tensor shares phi's memory, so the step changes phi, which stays a leaf.
        parameters, moments = [self.phi.detach()], ([self.first], [self.second])
        adam_step(parameters, [gradient], *moments, state_steps=[self.steps], lr=self.lr)


@functools.cache
def _network(d: int, widths: tuple[int, ...], outputs: int) -> Model:
    # A module draws its initial weights from the global generator, which belongs to the caller.
    with torch.random.fork_rng(devices=[]):
        return mlp(d, *widths, outputs)


def log_probability(logits: Tensor, selections: Tensor) -> Tensor:
    """log p(s) = sum_k s_k log omega_k + (1 - s_k) log(1 - omega_k), [Q], of selections [Q, m]."""
    chosen = selections.to(logits)
    # log omega is logsigmoid(logit), and log(1 - omega) is logsigmoid(-logit), without a log of 0.
    return chosen @ logsigmoid(logits) + (1 - chosen) @ logsigmoid(-logits)


def scaled(rows: Tensor, scaling: str) -> Tensor:
    """The policy's inputs: rows [m, d] scaled to mean square 1 ("client"), or unscaled."""
    if scaling == "none":
        return rows
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    root_mean_square = lengths / rows.shape[1] ** 0.5
    return rows / torch.where(root_mean_square > 0, root_mean_square, 1)
