"""Modules of one's own: how many a stack holds, and what is refused.

That they are trained and judged as a plain loop would: tests/properties/test_own_forward.py.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedlab_mini as fm
from fedlab_mini.engine.fast.stacks import rows_at_once
from fedlab_mini.engine.minibatches import LocalSGD, Shuffles
from fedlab_mini.engine.outputs import look

SIZES = (9, 1, 20, 33, 4, 16, 2, 40)  # last minibatches of many widths


def test_stacks_that_hold_what_fits_the_cache_train_and_judge_as_a_loop(
    make_fed, plain, monkeypatch
):
    layers = nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3)
    fed, local = make_fed(SIZES, server=700), LocalSGD(batch=8, steps=5)
    net = fm.Model(nn.Sequential(*layers))
    plan = Shuffles(fed, local, 0).plan(1, torch.arange(8).numpy(), fed.sizes.numpy())
    kept = look(net, fed.x, training=True).numbers
    assert 6 + 6 < kept < 60  # inputs, and what Tanh put out; not the parameters
    noise = torch.Generator().manual_seed(0)
    thetas = net.init(1) + torch.randn(5, net.P, generator=noise, dtype=torch.float64) / 9
    judged = [plain.judge(net, theta, fed.test) for theta in thetas]
    for rows in (8, 3):
        monkeypatch.setattr("fedlab_mini.engine.fast.stacks.CACHE", rows * 8 * kept * 8)
        assert rows_at_once(fed, net, plan, 8) == rows
        updates = fm.local_updates(fed, net, thetas[0], local=local, seed=4)
        for k in range(fed.clients):
            batches = plain.batches(fed, local, 4, 1, k)
            wanted = plain.update(net, thetas[0], fed.client(k), batches, local.lr)
            torch.testing.assert_close(updates[k], wanted, rtol=0, atol=1e-9)
        monkeypatch.setattr("fedlab_mini.engine.outputs.CACHE", 1 << 10 if rows == 3 else 1 << 22)
        losses = net.evaluate(thetas, *fed.test, "loss")
        assert losses.tolist() == pytest.approx([loss for _, loss in judged], abs=1e-9)


class Counting(nn.Linear):
    """A buffer that training changes."""

    batches: torch.Tensor

    def forward(self, x):
        if self.training:
            self.batches += 1
        return super().forward(x)


def test_buffers_that_training_changes_are_refused(make_fed):
    module = Counting(6, 3)
    module.register_buffer("batches", torch.zeros(()))
    says = r"^net: the outputs of Counting depend on what it keeps .* \(it changes batches\); only"
    with pytest.raises(ValueError, match=says):
        fm.local_updates(make_fed(SIZES), fm.Model(module), fm.Model(module).init(0))
    assert float(module.batches) == 0
