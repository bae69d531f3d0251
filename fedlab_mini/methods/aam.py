"""The accuracy approximation model (AAM) predicts accuracy from data sizes. Chapter 7 derives it.

It is the network of FedCCEA [Shyn et al. 2021]: its first layer holds one quality per client, the
same in all rounds. Here many models are computed at once, and the form "hidden", which is not the
paper's, has its sigmoids in the second layer.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

RESTING = 0.5  # the sigmoid's output in a round that is still to come


@dataclass(frozen=True)
class AAM:
    """Accuracy approximation models, F of them at once: sizes [S, R, K] -> accuracy [F, S, R].

    omega [F, K]        quality, the weights that all rounds share: X_r = sum_k x_{r,k} omega_k
    w1 [F, H, R], b1 [F, H], w2 [F, H], b2 [F]  the layers after it
    form      "linear": as in the paper, sigmoids of the X_r, then H linear nodes and one output;
              "hidden": the H nodes are sigmoids of weighted sums of the X_r
    """

    omega: Tensor
    w1: Tensor
    b1: Tensor
    w2: Tensor
    b2: Tensor
    _: KW_ONLY
    form: str = "linear"

    def __call__(self, sizes: Tensor) -> Tensor:
        """Approximated accuracy [F, S, R] after every round; sizes [S, R, K].

        For round r, the model reads the sizes of rounds 1..r and zeros for all later rounds.
        """
        return self._accuracy(self.weighted(sizes))

    def weighted(self, sizes: Tensor) -> Tensor:
        """X [F, S, R] = sum_k x_k omega_k."""
        # One product for all fits is several times faster than a stack of small ones.
        # [S * R, K] @ [K, F] -> [S * R, F]
        table = sizes.flatten(0, 1) @ self.omega.T
        return table.T.reshape(len(self.omega), *sizes.shape[:2])

    def _accuracy(self, weighted: Tensor) -> Tensor:
        if self.form == "linear":
            increments, intercept = self.collapsed()
            # Chapter 7, step 2: a round adds a_r (sigmoid(X_r) - 1/2), and later rounds add 0.
            added = (weighted.sigmoid() - RESTING) * increments[:, None]
            return added.cumsum(2) + intercept[:, None, None]
        first_weights = self.w1.transpose(1, 2)[:, None]
        # Later rounds have X = 0 and add nothing to a node, so padded inputs are running sums.
        nodes = (weighted[..., None] * first_weights).cumsum(2)  # [F, S, R, H]
        nodes = (nodes + self.b1[:, None, None]).sigmoid()
        return (nodes * self.w2[:, None, None]).sum(-1) + self.b2[:, None, None]

    def collapsed(self) -> tuple[Tensor, Tensor]:
        """a [F, R] and c [F] with accuracy_r = c + sum_{r' <= r} a_r' (sigmoid(X_r') - 1/2).

        The linear nodes after the sigmoid form one linear map; a padded round adds sigmoid(0) = 1/2
        """
        if self.form != "linear":
            raise ValueError("form: only linear nodes collapse, got sigmoid nodes")
        # a = W2 W1 of chapter 7: [F, H] and [F, H, R] -> [F, R]
        increments = (self.w2[:, :, None] * self.w1).sum(1)
        padding = RESTING * increments.sum(1)
        return increments, (self.w2 * self.b1).sum(1) + self.b2 + padding

    def slope(self, sizes: Tensor) -> Tensor:
        """d accuracy_R / d x_{r,k} = omega_k times this, averaged over r and simulations: [F]."""
        with torch.enable_grad():
            weighted = self.weighted(sizes).detach().requires_grad_()
            last_round = self._accuracy(weighted)[..., -1]
            (gradient,) = torch.autograd.grad(last_round.sum(), weighted)  # [F, S, R]
        # If every quality is 0, data does not change the predicted accuracy.
        return torch.where(self.omega.any(1), gradient.mean((1, 2)), 0)
