"""settle: the least error of the accuracy approximation model, wherever one starts."""

from __future__ import annotations

import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.methods import aam_fit, settle


def simulated(quality, noise=0.0, seed=0):
    """Sizes [S, R, K] and accuracies [S, R] that an AAM with these qualities makes."""
    g = torch.Generator().manual_seed(seed)
    omega = torch.tensor([quality]).double()
    sizes = torch.rand(60, 4, omega.shape[1], generator=g).double()
    one = torch.ones(1, 1).double()
    a = torch.tensor([[[0.4, 0.3, 0.2, 0.1]]]).double()
    accuracy = fm.methods.AAM(omega, a, 0.2 * one, one, 0 * one[0])(sizes)[0]
    return sizes, accuracy + noise * torch.randn(accuracy.shape, generator=g).double()


def test_known_qualities_are_found_from_every_start():
    quality = [2.0, 1.0, 0.5, 0.0]
    found = settle(*simulated(quality), starts=4, seed=1)
    wanted = torch.tensor(quality).double().expand(4, -1)
    torch.testing.assert_close(found.omega, wanted, atol=1e-3, rtol=0)
    assert found.agreement == 1
    assert found.loss.max() < 1e-10


def test_the_error_is_least_and_its_model_gives_it():
    """More of a client at 0 only raises the error; nothing else moves it; Adam stays above."""
    sizes, accuracy = simulated([1.5, 1.0, 0.2, -0.5], noise=0.02)
    found = settle(sizes, accuracy)
    omega = found.omega[:1].clone().requires_grad_()
    m = found.model
    error = (fm.methods.AAM(omega, m.w1, m.b1, m.w2, m.b2)(sizes)[0] - accuracy).square().mean()
    (slope,) = torch.autograd.grad(error, omega)
    assert found.omega[0, 3] == 0
    assert slope[0, 3] > 0
    assert slope[0, :3].abs().max() < 1e-6
    assert abs(error.item() - found.loss[0].item()) < 1e-9
    assert (found.loss.diff() >= 0).all()
    assert len(found.omega.unique(dim=0)) == 3  # from different starts
    adam = fm.methods.fit_aam(sizes, accuracy, steps=500).loss[-1, 0]
    assert found.loss[0] < adam


def test_a_client_that_never_took_part_has_no_quality():
    sizes, accuracy = simulated([1.5, 1.0, 0.2, 0.4])
    sizes[..., 1] = 0
    assert (settle(sizes, accuracy).omega[:, 1] == 0).all()


def test_rank_agreement_is_the_lowest_rank_correlation():
    for rows, wanted in (
        ([[1, 2, 3], [10, 20, 40]], 1.0),
        ([[1, 2, 3], [3, 2, 1], [1, 3, 2]], -1.0),
        ([[1, 1, 1], [1, 2, 3]], 0.0),
    ):
        assert aam_fit.rank_agreement(torch.tensor(rows).double()) == pytest.approx(wanted)
