"""The engine against a plain loop: one client after another, module, autograd and optimiser."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedlab_mini as fm
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.gate.networks import cnn

pytestmark = pytest.mark.oracle
SIZES = (9, 1, 20, 33, 4, 16, 2, 40)


class Residual(nn.Module):
    """A user's own module: a convolution over the row, LayerNorm, a learned scalar, a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((), 0.5))
        self.convolution = nn.Conv1d(1, 3, 3, padding=1)
        self.norm = nn.LayerNorm([3, 6])
        self.head = nn.Linear(18, 3)

    def forward(self, x):
        h = torch.tanh(self.norm(self.convolution(x[:, None])))
        return self.head((x[:, None] + self.gain * h).flatten(1))


NETS = {
    "logistic": lambda: fm.logistic(6, 3),
    "three layers": lambda: fm.mlp(6, 8, 5, 3),
    "cnn": lambda: cnn((1, 2, 3), 3, channels=(2,), kernel=3, hidden=5),
    "own module": lambda: fm.Model(Residual()),
}
nets = pytest.mark.parametrize("make_net", NETS.values(), ids=NETS.keys())
LOCALS = {
    "one epoch": LocalSGD(batch=8, lr=0.2),
    "epochs": LocalSGD(epochs=3, batch=7, lr=0.1),
    "many steps": LocalSGD(batch=8, steps=7, lr=0.2),
}


def close(a: torch.Tensor, b: torch.Tensor, atol: float = 1e-9) -> None:
    """Equal up to ``atol``, which is far below any step."""
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


@nets
@pytest.mark.parametrize("local", LOCALS.values(), ids=LOCALS.keys())
def test_updates_of_every_client(make_fed, plain, make_net, local):
    fed, net = make_fed(SIZES), make_net()
    theta = net.init(1, dtype=torch.float64)
    updates = fm.local_updates(fed, net, theta, local=local, seed=4, t=2)
    for k in range(fed.clients):
        batches = plain.batches(fed, local, 4, 2, k)
        close(updates[k], plain.update(net, theta, fed.client(k), batches, local.rate(2)))
    assert float(updates.abs().amax(1).min()) > 1e-3
    for ids in ([7, 2, 5], [1]):  # some clients keep their rows
        some = fm.local_updates(fed, net, theta, ids, local=local, seed=4, t=2)
        close(some, updates[ids], atol=1e-13)


@nets
@pytest.mark.parametrize("sizes", [SIZES, (5,)], ids=str)
def test_whole_trainings(make_fed, plain, make_net, sizes):
    fed, net = make_fed(sizes), make_net()
    local = LocalSGD(epochs=2, batch=8, lr=0.2, decay=0.5, decay_every=2)
    history = fm.train(fed, net, fm.FedAvg(), rounds=3, local=local, seed=6)
    assert history.theta.dtype == torch.float64
    theta = plain.train(fed, net, 3, local, seed=6)
    close(history.theta, theta)
    accuracy, loss = plain.judge(net, theta, fed.test)
    assert float(history.accuracy[-1]) == accuracy
    assert float(history.loss[-1]) == pytest.approx(loss, abs=1e-9)


@nets
def test_float32_after_two_rounds(make_fed, plain, make_net):
    fed, net = make_fed(SIZES, dtype=torch.float32), make_net()
    history = fm.train(fed, net, fm.FedAvg(), rounds=2, seed=3)
    assert history.theta.dtype == torch.float32
    close(history.theta, plain.train(fed, net, 2, LocalSGD(), seed=3), atol=1e-5)


def test_images_of_any_shape_go_through_the_stack(make_fed):
    rows = make_fed((5, 8), inputs=8)
    pairs = [(rows.client(k)[0].view(-1, 2, 4), rows.client(k)[1]) for k in range(2)]
    shaped = fm.Federation.from_datasets(
        pairs,
        validation=(rows.validation[0].view(-1, 2, 4), rows.validation[1]),
        test=(rows.test[0].view(-1, 2, 4), rows.test[1]),
        classes=3,
    )
    net = fm.mlp(8, 5, 3)
    one, other = (fm.train(f, net, fm.FedAvg(), rounds=2) for f in (rows, shaped))
    assert torch.equal(one.theta, other.theta)
    assert torch.equal(one.loss, other.loss)
