"""Settled: the accuracy approximation model at its least squared error, found from several starts.

Adam's small steps stop on the way there (chapter 7). A quality is read at the minimum, and only if
all starts lead to the same ranking. Below: methods.fedccea. Above: the studies of FedCCEA.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from fedlab_mini.judge.metrics import spearman
from fedlab_mini.methods.fedccea import AAM
from fedlab_mini.streams import stream

STEPS, CALM = 300, 1e-9  # most steps; a relative gain so small, three times running, ends the fit


@dataclass(frozen=True)
class Settled:
    """The best of several fits.

    model      an AAM with one node [F = 1]            omega [starts, K]  qualities, best fit first
    loss       [starts] mean squared errors            agreement  lowest rank correlation of starts
    """

    model: AAM
    omega: Tensor
    loss: Tensor
    agreement: float


def settle(sizes: Tensor, accuracy: Tensor, starts: int = 3, seed: int = 0) -> Settled:
    """Fit eq. (7.2) of chapter 7 until nothing moves, from equal and from random qualities.

    sizes [S, R, K], accuracy [S, R]; a quality below a thousandth of the mean counts as 0
    """
    K = sizes.shape[2]
    chance = stream(seed, "settle")
    first = torch.rand(starts, K, generator=chance, dtype=torch.float64) * 2 / K
    first[0] = 1 / K
    found = [_descend(sizes, accuracy, omega) for omega in first]
    loss = torch.tensor([loss for _, loss in found])
    order = loss.argsort().tolist()
    rows = torch.stack([found[i][0] for i in order])
    omega, a, c = rows[:, :K], rows[0, K:-1], rows[0, -1]
    model = AAM(
        omega[:1],
        w1=a[None, None],
        b1=(c - a.sum() / 2).view(1, 1),
        w2=torch.ones(1, 1, dtype=torch.float64),
        b2=torch.zeros(1, dtype=torch.float64),
    )
    pairs = [spearman(x, y) for x, y in itertools.combinations(omega, 2)]
    return Settled(model, omega, loss[order], min(pairs, default=1.0))


def _descend(sizes: Tensor, accuracy: Tensor, omega: Tensor) -> tuple[Tensor, float]:
    """Levenberg-Marquardt on (omega, a, c) with omega >= 0; returns them and the loss."""
    S, R, K = sizes.shape
    ones = torch.ones(S, R, 1, dtype=torch.float64)
    later = torch.ones(R, R, dtype=torch.float64).tril()  # round r' moves all guesses from r' on
    p = torch.cat([omega, torch.full((R,), 0.1, dtype=torch.float64), accuracy.mean()[None]])
    damping, calm = 1e-2, 0

    def look(p: Tensor) -> tuple[Tensor, Tensor, float]:
        s = (sizes @ p[:K]).sigmoid()
        error = ((s - 0.5) * p[K:-1]).cumsum(1) + p[-1] - accuracy
        return s, error.flatten(), float(error.square().mean())

    s, error, loss = look(p)
    for _ in range(STEPS):
        by_omega = (sizes * (s * (1 - s) * p[K:-1])[:, :, None]).cumsum(1)
        J = torch.cat([by_omega, (s - 0.5)[:, None] * later, ones], 2).flatten(0, 1)
        g, H = J.T @ error, J.T @ J
        free = torch.ones(len(p), dtype=torch.bool)
        free[:K] = ~((p[:K] <= 0) & (g[:K] > 0))  # a client at 0 that wants to go below stays
        for _ in range(12):
            step = torch.zeros_like(p)
            A = H[free][:, free]
            A.diagonal().add_(damping * A.diagonal() + 1e-12)
            step[free] = torch.linalg.solve(A, g[free])
            q = p - step
            q[:K].clamp_(min=0)
            new = look(q)
            if new[2] < loss:
                break
            damping *= 4
        else:
            break
        calm = calm + 1 if loss - new[2] < CALM * loss else 0
        p, (s, error, loss), damping = q, new, max(damping / 5, 1e-10)
        if calm == 3:
            break
    omega = p[:K]
    omega[omega < 1e-3 * omega.mean()] = 0
    return p, loss
