"""Modules of one's own: trained and evaluated as a plain loop would, in stacks or alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD, Shuffles, rows_at_once
from fedlab_mini.streams import stream

SIZES = (9, 1, 20, 33, 4, 16, 2, 40)  # last minibatches of many widths


def between(*layers: nn.Module) -> nn.Module:
    """6-8-3 with these layers between the two Linear ones."""
    return nn.Sequential(nn.Linear(6, 8), *layers, nn.Linear(8, 3))


class Words(nn.Module):
    """An embedding of whole numbers, which come as real ones."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, x):
        words = (x * 3).round().clamp(0, 8).long()
        return self.head(self.embedding(words).mean(1))


class Centred(nn.Module):
    """A buffer that is given and stays as it is: what is subtracted from every input."""

    def __init__(self) -> None:
        super().__init__()
        self.head = between(nn.Tanh())
        self.register_buffer("centre", torch.linspace(-1, 1, 6))
        self.register_buffer("order", torch.tensor([5, 4, 3, 2, 1, 0]))

    def forward(self, x):
        return self.head((x - self.centre)[:, self.order])


class Branch(nn.Module):
    """What it does depends on values: ``vmap`` refuses that."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(x) if float(x.sum()) > 0 else self.head(-x)


class Mixing(nn.Module):
    """Every answer depends on the whole minibatch, which no layer tells."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(x - x.mean(0))


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
    "Tanh": lambda: between(nn.Tanh()),
    "GELU": lambda: between(nn.GELU()),
    "LayerNorm": lambda: between(nn.LayerNorm(8), nn.ReLU()),
    "GroupNorm": lambda: between(nn.GroupNorm(2, 8), nn.ReLU()),
    "embedding": Words,
    "buffers": Centred,
    "spare and shared parameters": Spare,
    "small images": lambda: fm.cnn((1, 2, 3), 3, channels=(2,), kernel=3, hidden=5).module,
    "no bias": lambda: nn.Sequential(nn.Linear(6, 3, bias=False)),
}
ALONE = {
    "large images": lambda: Functional(3000),
    "two channels": lambda: fm.cnn((2, 1, 3), 3, channels=(2,), kernel=2, hidden=5).module,
    "refused by vmap": Branch,
    "mixing": Mixing,
}
MODULES = STACKED | ALONE
every = pytest.mark.parametrize("make", MODULES.values(), ids=MODULES.keys())
LOCALS = {
    "epochs": LocalSGD(epochs=2, batch=7, lr=0.1),
    "steps": LocalSGD(batch=8, steps=5, lr=0.2),
}
locals_ = pytest.mark.parametrize("local", LOCALS.values(), ids=LOCALS.keys())


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Equal up to rounding in float64."""
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_does_decides_how_it_is_trained(make_fed, name):
    net = fm.Model(MODULES[name]())
    numbers = net.numbers_per_sample(make_fed(SIZES).x, training=True)
    assert (numbers is None) == (name in ALONE)
    again = fm.Model(MODULES[name]()).numbers_per_sample(make_fed((3, 5)).x, training=True)
    assert again == numbers


@every
@locals_
def test_updates_are_those_of_a_loop(make_fed, plain, make, local):
    fed, net = make_fed(SIZES), fm.Model(make())
    theta = net.init(1, dtype=torch.float64)
    updates = fm.local_updates(fed, net, theta, local=local, seed=4, t=2)
    for k in range(fed.clients):
        batches = plain.batches(fed, local, 4, 2, k)
        close(updates[k], plain.update(net, theta, fed.client(k), batches, local.rate(2)))
    assert torch.equal(updates, fm.local_updates(fed, net, theta, local=local, seed=4, t=2))


@every
def test_a_client_trains_alone_as_among_others(make_fed, make):
    fed, net, local = make_fed(SIZES), fm.Model(make()), LocalSGD(epochs=2, batch=8)
    theta = net.init(1, dtype=torch.float64)
    everybody = fm.local_updates(fed, net, theta, local=local, seed=4)
    for ids in ([3], [7, 2, 5]):
        close(fm.local_updates(fed, net, theta, ids, local=local, seed=4), everybody[ids])


@every
def test_simulations_with_shares_of_the_data(make_fed, plain, make):
    fed, net, local = make_fed(SIZES), fm.Model(make()), LocalSGD(batch=8, lr=0.1)
    shares = torch.ones(3, 2, fed.clients)
    shares[1] = 0.5
    shares[2, :, ::2] = 0
    losses = fm.simulate(fed, net, shares, local=local, seed=2, metric="loss")
    for run, loss in zip(shares, losses, strict=True):
        theta = plain.train(fed, net, 2, local, seed=2, shares=run)
        assert float(loss[-1]) == pytest.approx(
            plain.judge(net, theta, fed.validation)[1], abs=1e-9
        )


@every
def test_models_of_every_size_of_a_stack_are_evaluated_alike(make_fed, plain, make, monkeypatch):
    fed, net = make_fed((30,), server=700), fm.Model(make())
    noise = torch.Generator().manual_seed(0)
    thetas = net.init(0, dtype=torch.float64) + torch.randn(5, net.P, generator=noise) / 9
    wanted = [plain.judge(net, theta, fed.test) for theta in thetas]
    for cache in (1 << 22, 1 << 10):
        monkeypatch.setattr("fedlab_mini.engine.model.CACHE", cache)
        if make is Mixing:  # its answers depend on how many samples are asked about at once
            monkeypatch.setattr("fedlab_mini.engine.model.BLOCK", 1 << 20)
        assert net.evaluate(thetas, *fed.test).tolist() == [accuracy for accuracy, _ in wanted]
        losses = net.evaluate(thetas, *fed.test, "loss")
        assert losses.tolist() == pytest.approx([loss for _, loss in wanted], abs=1e-9)


def test_a_stack_holds_what_fits_the_cache(make_fed, monkeypatch):
    fed, net, local = make_fed(SIZES), fm.Model(between(nn.Tanh())), LocalSGD(batch=8)
    theta = net.init(1, dtype=torch.float64)
    whole = fm.local_updates(fed, net, theta, local=local)
    sizes = fed.sizes.numpy()
    plan = Shuffles(fed, local, 0).plan(1, torch.arange(8).numpy(), sizes)
    kept = net.numbers_per_sample(fed.x, training=True)
    assert 6 + 8 < kept < 60  # inputs, and what Tanh put out; not the parameters
    monkeypatch.setattr("fedlab_mini.engine.local.CACHE", 3 * 8 * kept * 8)
    assert rows_at_once(fed, net, plan, 8) == 3
    close(fm.local_updates(fed, net, theta, local=local), whole)


def test_dropout_is_each_clients_own_noise(make_fed, plain):
    fed, net, local = make_fed(SIZES), fm.Model(between(nn.Dropout(0.5))), LocalSGD(batch=8)
    assert net.numbers_per_sample(fed.x, training=True) is None
    assert net.numbers_per_sample(fed.x, training=False) is not None  # none is drawn then
    theta = net.init(0, dtype=torch.float64)
    before = torch.get_rng_state()
    updates = fm.local_updates(fed, net, theta, local=local, seed=4, t=2)
    assert torch.equal(torch.get_rng_state(), before)
    for k in (2, 7):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream(4, "dropout", 2, k).initial_seed())
            batches = plain.batches(fed, local, 4, 2, k)
            close(updates[k], plain.update(net, theta, fed.client(k), batches, local.lr))


class Counting(nn.Module):
    """A buffer that training changes, in place or by another tensor."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.head, self.in_place = nn.Linear(6, 3), in_place
        self.register_buffer("batches", torch.zeros(()))

    def forward(self, x):
        if self.training and self.in_place:
            self.batches += 1
        elif self.training:
            self.batches = self.batches + 1
        return self.head(x)


@pytest.mark.parametrize("in_place", [True, False])
def test_buffers_that_training_changes_are_refused(make_fed, in_place):
    net = fm.Model(Counting(in_place))
    with pytest.raises(ValueError, match=r"^net: changes its buffer 'batches' when it is trained"):
        fm.local_updates(make_fed(SIZES), net, net.init(0))
    assert float(net.module.batches) == 0


def test_a_model_that_was_trained_leaves_its_module_as_it_was(make_fed):
    for make in (STACKED["Tanh"], ALONE["refused by vmap"]):
        net = fm.Model(make())
        before = net.theta()
        fm.train(make_fed(SIZES), net, fm.FedAvg(), rounds=1)
        assert torch.equal(net.theta(), before)
        assert all(parameter.grad is None for parameter in net.module.parameters())
