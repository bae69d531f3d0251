"""No guess about a module: its last layer, the shape of images, what it was, whose weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.gate.networks import cnn

SIZES, INPUTS, CLASSES = (5, 8, 3), 6, 3


class Turned(nn.Module):
    """A last layer that has a column, not a row, for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(INPUTS, CLASSES))

    def forward(self, x):
        return x @ self.table


def test_a_layer_without_a_row_for_each_class_is_refused(make_fed):
    fed = make_fed(SIZES, inputs=INPUTS, classes=CLASSES, dtype=torch.float32)
    net = fm.Model(Turned())
    with pytest.raises(ValueError, match=r"^class cosine: .* got table \[6, 3\]$"):
        fm.train(fed, net, fb.ClassCosine(), rounds=1, theta=net.theta())
    module = Turned()
    module.forward = lambda x: x @ module.table  # it would be the first one's in every copy
    with pytest.raises(ValueError, match=r"^net: the outputs of Turned .* a replaced forward"):
        fm.train(fed, fm.Model(module), fm.FedAvg(), rounds=1)


def test_images_of_another_order_are_refused_not_reshaped():
    sides = 3, 6, 4
    net = cnn(sides, CLASSES, channels=(2, 3), kernel=3, hidden=4)
    images = torch.randn(5, *sides, generator=torch.Generator().manual_seed(0))
    theta = net.init(0)
    assert torch.equal(net.forward(theta, images), net.forward(theta, images.flatten(1)))
    for order in ((1, 3, 2), (2, 3, 1)):
        with pytest.raises(ValueError, match=r"expected images \[\d, \d, \d\] or rows, got"):
            net.evaluate(theta[None], images.permute(0, *order), torch.zeros(5).long())


CHANGES: dict[str, Callable[[nn.Module], object]] = {
    "exchanged": lambda module: setattr(module, "act", nn.Softplus()),
    "hooked": lambda module: module.first.register_forward_hook(lambda part, given, out: 3 * out),
    "trained": lambda module: module.first.weight.data.add_(1),
}


class Named(nn.Module):
    """Two layers with an activation between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = nn.Linear(INPUTS, 5), nn.Tanh()
        self.last = nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.last(self.act(self.first(x)))


@pytest.mark.filterwarnings("ignore:net. the training starts anew")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_module_counts_as_it_is_when_it_is_used(make_fed, change: Callable):
    fed = make_fed(SIZES, inputs=INPUTS, classes=CLASSES)
    module = Named()
    net = fm.Model(module)
    results(fed, net)  # it is looked at before
    theta, local = net.theta().to(fed.x), fm.LocalSGD()
    updates, given = fm.local_updates(fed, net, theta), {"metric": "loss"}
    rounds, again = (fm.round_game(net, theta, updates, *fed.validation, **given) for _ in range(2))
    retrained, twice = (fm.retraining_game(fed, net, 2, local, **given) for _ in range(2))
    before = [fm.exact(game).values for game in (rounds, retrained)]
    change(module)
    for game, values in zip((again, twice), before, strict=True):
        assert torch.equal(fm.exact(game).values, values)  # what has begun goes on as it was
    assert all(map(torch.equal, results(fed, net), results(fed, fm.Model(module))))


def results(fed: fm.Federation, net: fm.Model) -> list[torch.Tensor]:
    """What a model says in every way of using it."""
    theta, (x, y) = net.theta().to(fed.x), fed.validation
    updates = fm.local_updates(fed, net, theta)
    history = fm.train(fed, net, fm.FedAvg(), rounds=2, theta=theta)
    runs = fm.simulate(fed, net, torch.ones(1, 2, fed.clients), theta=theta, metric="loss")
    game = fm.round_game(net, theta, updates, x, y, metric="loss")
    answers = [net.forward(theta, x), net.predict(theta, x), net.evaluate(theta[None], x, y)]
    return [theta, updates, history.theta, runs, fm.exact(game).values, *answers, net.init(1)]


def test_a_training_that_drops_a_modules_weights_says_so_once(make_fed):
    fed, given = make_fed(SIZES, inputs=INPUTS, classes=CLASSES), fm.Model(Named())
    with pytest.warns(UserWarning, match=r"starts anew.*theta=net\.theta\(\)") as heard:
        fm.train(fed, given, fm.FedAvg(), rounds=2)
    assert [one.filename for one in heard] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fm.train(fed, given, fm.FedAvg(), rounds=2, theta=given.theta())
        fm.train(fed, fm.mlp(INPUTS, 4, CLASSES), fm.FedAvg(), rounds=2)
