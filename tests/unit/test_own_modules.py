"""Modules of one's own: in stacks or alone by what they do, and as a plain loop would.

Forty modules more are drawn in tests/properties/test_own_forward.py.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD, Shuffles, rows_at_once

SIZES = (9, 1, 20, 33, 4, 16, 2, 40)  # last minibatches of many widths


class Centred(nn.Module):
    """A buffer that is given and stays as it is: what is subtracted from every input."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Linear(6, 8), nn.GroupNorm(2, 8), nn.Tanh(), nn.Linear(8, 3))
        self.register_buffer("centre", torch.linspace(-1, 1, 6))
        self.register_buffer("order", torch.tensor([5, 4, 3, 2, 1, 0]))

    def forward(self, x):
        return self.head((x - self.centre)[:, self.order])


class Spare(nn.Module):
    """A parameter that nothing depends on, and two that are one."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.ones(2))
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Branch(nn.Linear):
    """What it does depends on values: ``vmap`` refuses that."""

    def forward(self, x):
        return super().forward(x if float(x.sum()) > 0 else -x)


class Mixing(nn.Linear):
    """Every answer depends on the whole minibatch, which no layer tells."""

    def forward(self, x):
        return super().forward(x - x.mean(0))


class Functional(nn.Module):
    """A convolution that no layer tells, over ``side`` x ``side`` copies of the input."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.linspace(-1, 1, 12).view(2, 1, 6, 1))
        self.head, self.side = nn.Linear(2, 3), side

    def forward(self, x):
        images = x[:, None, :, None].expand(-1, -1, -1, self.side)
        return self.head(nn.functional.conv2d(images, self.kernel).mean((2, 3)))


STACKED = {
    "buffers": Centred,
    "spare and shared parameters": Spare,
    "small images": lambda: fm.cnn((1, 2, 3), 3, channels=(2,), kernel=3, hidden=5).module,
    "no bias": lambda: nn.Sequential(nn.Linear(6, 3, bias=False)),
}
ALONE = {
    "large images": lambda: Functional(3000),
    "two channels": lambda: fm.cnn((2, 1, 3), 3, channels=(2,), kernel=2, hidden=5).module,
    "refused by vmap": lambda: Branch(6, 3),
    "mixing": lambda: Mixing(6, 3),
    "dropout": lambda: nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5)),
}
LOCAL = LocalSGD(batch=8, steps=5, lr=0.2)


@pytest.mark.parametrize("name", STACKED | ALONE)
def test_stacked_or_alone_updates_and_answers_are_those_of_a_loop(
    make_fed, plain, name, monkeypatch
):
    fed, net = make_fed(SIZES, server=700), fm.Model((STACKED | ALONE)[name]())
    kept = net.numbers_per_sample(fed.x, training=True)
    assert (kept is None) == (name in ALONE)
    theta = net.init(1, dtype=torch.float64)
    updates = fm.local_updates(fed, net, theta, local=LOCAL, seed=4, t=2)
    if name != "dropout":  # whose noise is each client's own: tests/oracles/test_plain_loop.py
        for k in range(fed.clients):
            batches = plain.batches(fed, LOCAL, 4, 2, k)
            wanted = plain.update(net, theta, fed.client(k), batches, LOCAL.lr)
            torch.testing.assert_close(updates[k], wanted, rtol=0, atol=1e-9)
    assert torch.equal(net.theta(), fm.Model(net.module).theta())
    assert all(parameter.grad is None for parameter in net.module.parameters())
    noise = torch.Generator().manual_seed(0)
    thetas = theta + torch.randn(5, net.P, generator=noise) / 9
    wanted = [plain.judge(net, one, fed.test) for one in thetas]
    for cache in (1 << 22, 1 << 10):
        monkeypatch.setattr("fedlab_mini.engine.model.CACHE", cache)
        if name == "mixing":  # its answers depend on how many samples are asked about at once
            monkeypatch.setattr("fedlab_mini.engine.model.BLOCK", 1 << 20)
        assert net.evaluate(thetas, *fed.test).tolist() == [accuracy for accuracy, _ in wanted]
        losses = net.evaluate(thetas, *fed.test, "loss")
        assert losses.tolist() == pytest.approx([loss for _, loss in wanted], abs=1e-9)


def test_a_stack_holds_what_fits_the_cache(make_fed, monkeypatch):
    fed, local = make_fed(SIZES), LocalSGD(batch=8)
    net = fm.Model(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)))
    whole = fm.local_updates(fed, net, net.init(1), local=local)
    plan = Shuffles(fed, local, 0).plan(1, torch.arange(8).numpy(), fed.sizes.numpy())
    kept = net.numbers_per_sample(fed.x, training=True)
    assert 6 + 8 < kept < 60  # inputs, and what Tanh put out; not the parameters
    monkeypatch.setattr("fedlab_mini.engine.local.CACHE", 3 * 8 * kept * 8)
    assert rows_at_once(fed, net, plan, 8) == 3
    few = fm.local_updates(fed, net, net.init(1), local=local)
    torch.testing.assert_close(few, whole, rtol=0, atol=1e-9)


class Counting(nn.Linear):
    """A buffer that training changes, in place or by another tensor."""

    def __init__(self, in_place: bool) -> None:
        super().__init__(6, 3)
        self.in_place = in_place
        self.register_buffer("batches", torch.zeros(()))

    def forward(self, x):
        if self.training and self.in_place:
            self.batches += 1
        elif self.training:
            self.batches = self.batches + 1
        return super().forward(x)


@pytest.mark.parametrize("in_place", [True, False])
def test_buffers_that_training_changes_are_refused(make_fed, in_place):
    net = fm.Model(Counting(in_place))
    with pytest.raises(ValueError, match=r"^net: changes its buffer 'batches' when it is trained"):
        fm.local_updates(make_fed(SIZES), net, net.init(0))
    assert float(net.module.batches) == 0
