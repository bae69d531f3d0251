"""Model: a module as a function of theta, its initialisation, its evaluation, its errors."""

from __future__ import annotations

import copy

import pytest
import torch
from helpers import numbers
from sklearn.metrics import log_loss
from torch import nn

import fedlab_mini as fm
from fedlab_mini.engine.networks import Images
from fedlab_mini.engine.outputs import measure, parts
from fedlab_mini.gate.networks import cnn


class Own(nn.Module):
    """A user's module: names, shapes and a residual path that no stack recognises."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((), 0.1))
        self.norm = nn.LayerNorm(6)
        self.body = nn.Linear(6, 6, bias=False)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(x + self.gain * torch.tanh(self.body(self.norm(x))))


MODELS = {
    "logistic": lambda: fm.logistic(6, 3),
    "deep": lambda: fm.mlp(6, 300, 5, 3),  # evaluated in chunks
    "own": lambda: fm.Model(Own()),
}


@pytest.mark.parametrize(
    ("net", "layers", "P"),
    [
        (fm.mlp(784, 200, 200, 5), ((784, 200), (200, 200), (200, 5)), 157000 + 40200 + 1005),
        (fm.Model(nn.Linear(4, 2)), ((4, 2),), 10),
        (fm.Model(nn.Sequential(nn.Linear(4, 2, bias=False))), None, 8),
        (fm.Model(nn.Sequential(nn.Linear(4, 3), nn.ReLU())), None, 15),
        (fm.Model(nn.Sequential(nn.Flatten(), nn.Linear(4, 2))), ((4, 2),), 10),
        (fm.Model(nn.Sequential(nn.Flatten(2), nn.Linear(4, 2))), None, 10),
        (cnn((3, 32, 32), 10, channels=(4, 8), kernel=5, hidden=16), None, 9490),
    ],
)
def test_which_modules_are_stacked_and_how_many_parameters_they_have(net, layers, P):
    """The convolutional one: (3 25 + 1) 4 + (4 25 + 1) 8 + (8 64 + 1) 16 + 17 10."""
    assert (parts(net).layers, net.P) == (layers, P)
    assert net.theta().shape == net.init(0).shape == (P,)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_what_a_model_gives_is_what_the_module_gives(make, plain):
    net, x, y = make(), numbers(900, 6, seed=0), torch.arange(900) % 3
    thetas = numbers(3, net.P, seed=3)
    scores = plain.module(net, thetas[0])(x)
    assert torch.equal(net.forward(thetas[0], x), scores)
    assert torch.equal(net.predict(thetas[0].numpy(), x.numpy()), scores.argmax(1))
    wanted = [plain.judge(net, theta, (x, y)) for theta in thetas]
    given = thetas.numpy(), x.tolist(), y.numpy().astype("int32")
    assert net.evaluate(*given).tolist() == [accuracy for accuracy, _ in wanted]
    losses = net.evaluate(*given, "loss")
    assert losses.tolist() == pytest.approx([loss for _, loss in wanted], rel=1e-5)
    assert losses.dtype == torch.float64


def test_init_is_pytorchs_own_and_decided_by_the_seed():
    net = fm.mlp(64, 32, 10)
    one, same, other = net.init(0), net.init(0), net.init(1)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    weight, bias = net.split(one)[:2]
    bound = 1 / 8  # 1 / sqrt(64), as nn.Linear documents
    assert 0.95 * bound < float(weight.abs().max()) <= bound
    assert float(bias.abs().max()) <= bound
    own = fm.Model(Own().double())  # what has no initialiser keeps all digits that it was given
    own.module.gain.data.fill_(0.1)
    assert float(own.init(4, dtype=torch.float64)[0]) == 0.1
    assert torch.equal(own.init(4), fm.Model(Own()).init(4))  # whatever the module's type


def test_bytes_do_not_depend_on_the_number_of_threads(make_fed):
    """Wide products are summed in another order by two threads; so everything runs on one."""
    fed = make_fed([40] * 6, inputs=784, classes=10, dtype=torch.float32, server=500)
    net = fm.mlp(784, 300, 10)

    def results(threads):
        torch.set_num_threads(threads)
        theta = net.init(0)
        updates = fm.local_updates(fed, net, theta)
        loss = net.evaluate(theta + updates, *fed.test, "loss")
        runs = fm.simulate(fed, net, torch.ones(2, 2, 6), metric="loss")
        fm.exact(fm.round_game(net, theta, updates[:2], *fed.validation))
        assert torch.get_num_threads() == threads
        return updates, loss, runs, fm.train(fed, net, fm.FedAvg(), rounds=2).theta

    try:
        assert all(map(torch.equal, results(1), results(4)))
    finally:
        torch.set_num_threads(1)


def test_measure_against_argmax_and_scikit_learn():
    scores = numbers(4, 5, 60, seed=0).round()  # rounding makes ties
    y = torch.arange(60) % 5
    wanted = (scores.argmax(1) == y).double().mean(1)
    assert torch.equal(measure("accuracy", scores.transpose(1, 2), y), wanted)
    tied = torch.zeros(1, 3, 6)
    assert float(measure("accuracy", tied.transpose(1, 2), torch.tensor([0, 0, 0, 1, 2, 2]))) == 0.5
    loss = [log_loss(y, s.softmax(0).T.numpy(), labels=range(5)) for s in scores]
    assert measure("loss", scores.transpose(1, 2), y).tolist() == pytest.approx(loss)


def test_the_storage_of_images_changes_no_result():
    assert Images((2, 4, 4))(numbers(3, 32, seed=0)).is_contiguous(
        memory_format=torch.channels_last
    )
    odd, x = cnn((1, 6, 5), 3, channels=(2, 3), kernel=3, hidden=7), numbers(8, 30, seed=0)
    usual = copy.deepcopy(odd.module)
    usual[0] = nn.Unflatten(1, (1, 6, 5))
    theta, plainly = odd.init(2, dtype=torch.float64), fm.Model(usual)
    torch.testing.assert_close(odd.forward(theta, x), plainly.forward(theta, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("net", [fm.mlp(5, 3), fm.mlp(6, 4), fm.Model(nn.LSTM(6, 3))], ids=repr)
def test_a_model_that_does_not_fit_the_data_is_refused(make_fed, net):
    fed = make_fed([4, 3])
    for use in (
        lambda: fm.train(fed, net, fm.FedAvg(), rounds=1),
        lambda: fm.simulate(fed, net, torch.ones(1, 1, 2)),
        lambda: fm.local_updates(fed, net, net.theta()),
    ):
        with pytest.raises(ValueError, match=r"^net: "):
            use()
