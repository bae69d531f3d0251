"""The accuracy approximation model (AAM): data sizes in, accuracy out. Chapter 7 derives it.

Its first layer holds one quality per client, the same in all rounds. Above: aam_fit, fedccea.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class AAM:
    """Accuracy approximation models, F of them at once: sizes [S, R, K] -> accuracy [F, S, R].

    omega [F, K]        quality, the weights that all rounds share: X_r = sum_k x_{r,k} omega_k
    w1 [F, H, R], b1 [F, H], w2 [F, H], b2 [F]  the layers above
    form      "linear" (as printed: the sigmoid sits on X_r, H linear nodes, one output) or "hidden"
              (the H nodes are sigmoids of the X_r)
    neutral   the sigmoid is 2 sigmoid(X) - 1, which is 0 for rounds that are still to come
    """

    omega: Tensor
    w1: Tensor
    b1: Tensor
    w2: Tensor
    b2: Tensor
    _: KW_ONLY
    form: str = "linear"
    neutral: bool = False

    def __call__(self, sizes: Tensor) -> Tensor:
        """Approximated accuracy [F, S, R] after every round; sizes [S, R, K] or [F, S, R, K].

        Round r is seen with the sizes of rounds 1..r and zeros for the rounds to come.
        """
        x = weighted(sizes, self.omega)  # X [F, S, R]
        if self.form == "linear":
            steps, start = self.collapsed()
            added = (self._squash(x) - self._resting) * steps[:, None]
            return added.cumsum(2) + start[:, None, None]
        first_weights = self.w1.transpose(1, 2)[:, None]
        nodes = (x[..., None] * first_weights).cumsum(2)  # [F, S, R, H]
        nodes = self._squash(nodes + self.b1[:, None, None])
        return (nodes * self.w2[:, None, None]).sum(-1) + self.b2[:, None, None]

    def collapsed(self) -> tuple[Tensor, Tensor]:
        """a [F, R] and c [F] with accuracy_r = c + sum_{r' <= r} a_r' (sigmoid(X_r') - 1/2).

        Linear nodes above the sigmoid are one linear map; a padded round adds sigmoid(0) = 1/2
        """
        if self.form != "linear":
            raise ValueError("form: only the linear nodes collapse, not sigmoid ones")
        steps = (self.w2[:, :, None] * self.w1).sum(1)
        padding = self._resting * steps.sum(1)
        return steps, (self.w2 * self.b1).sum(1) + self.b2 + padding

    def slope(self, sizes: Tensor) -> Tensor:
        """d accuracy_R / d x_{r,k} = omega_k times this, averaged over r and simulations: [F]."""
        fits = len(self.omega)
        with torch.enable_grad():
            inputs = sizes.expand(fits, *sizes.shape[-3:]).clone().requires_grad_()
            last = self(inputs)[..., -1]
            (gradient,) = torch.autograd.grad(last.sum(), inputs)  # [F, S, R, K]
        # Any client with omega > 0 gives the same factor; the largest one gives it most precisely.
        best = self.omega.argmax(1)
        every_fit = torch.arange(fits)
        quality = self.omega[every_fit, best]
        moved = gradient.mean((1, 2))[every_fit, best]
        return torch.where(quality > 0, moved / torch.where(quality > 0, quality, 1), 0)

    @property
    def _resting(self) -> float:
        return 0.0 if self.neutral else 0.5  # what a padded round puts out

    def _squash(self, x: Tensor) -> Tensor:
        return 2 * x.sigmoid() - 1 if self.neutral else x.sigmoid()


def weighted(sizes: Tensor, omega: Tensor) -> Tensor:
    """X [F, S, R] = sum_k x_k omega_k; sizes [S, R, K], the same for all F, or [F, S, R, K]."""
    if sizes.ndim == 4:
        columns = torch.bmm(sizes.flatten(1, 2), omega[:, :, None])
        return columns.view(sizes.shape[:3])
    # One product for all fits is several times faster than a stack of small ones.
    table = sizes.flatten(0, 1) @ omega.T
    return table.T.reshape(len(omega), *sizes.shape[:2])
