"""No guess about a module: its last layer, the shape of images, what it was, whose weights."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

import fedlab_mini as fm

SIZES, INPUTS, CLASSES = (5, 8, 3), 6, 3
LAYERS = {"body": (INPUTS, 5), "middle": (5, 4), "head": (4, CLASSES)}


class Ordered(nn.Module):
    """Three layers, used one after another, declared in an order that is given."""

    def __init__(self, order) -> None:
        super().__init__()
        for name in order:
            setattr(self, name, nn.Linear(*LAYERS[name]))
        self.temper = nn.Parameter(torch.ones(CLASSES))

    def forward(self, x):
        return self.temper * self.head(torch.tanh(self.middle(torch.tanh(self.body(x)))))


@pytest.mark.parametrize("order", [*itertools.permutations(LAYERS)][1::2], ids="-".join)
def test_the_order_of_declaration_decides_no_score(make_fed, order):
    x, y = make_fed(SIZES, inputs=INPUTS, classes=CLASSES).validation
    noise, usual, net = torch.Generator().manual_seed(3), Ordered(LAYERS), fm.Model(Ordered(order))
    parts = [
        {name: torch.randn(p.shape, generator=noise) for name, p in usual.named_parameters()}
        for _ in range(5)
    ]
    scores = [
        fm.score(
            [{"theta": parts[0], "updates": parts[1:]}],
            net=model,
            validation=(x, y),
            methods=["class cosine", "F-RCCE", "CGSV", "second order"],
        )
        for model in (fm.Model(usual), net)
    ]
    torch.testing.assert_close(*(torch.tensor(table.values) for table in scores))
    heads = torch.stack([part["head.weight"] for part in parts[1:]])
    wanted = torch.cosine_similarity(heads, heads.mean(0)[None], dim=2).mean(1)
    assert scores[1]["class cosine"].tolist() == pytest.approx(wanted.tolist(), abs=1e-5)
    assert net.output_table(x) == "head.weight"


@pytest.mark.parametrize("sides", [(3, 6, 4), (1, 8, 6)], ids=str)
def test_images_of_another_order_are_refused_not_reshaped(sides):
    net = fm.cnn(sides, CLASSES, channels=(2, 3), kernel=3, hidden=4)
    images = torch.randn(5, *sides, generator=torch.Generator().manual_seed(0))
    theta = net.init(0)
    wanted = net.forward(theta, images.flatten(1))
    assert torch.equal(net.forward(theta, images), wanted)
    for order in itertools.permutations((1, 2, 3)):
        turned = images.permute(0, *order)
        if turned.shape[1:] == images.shape[1:]:  # it looks the same
            continue
        if sides[0] == 1 and [side for side in turned.shape[1:] if side > 1] == list(sides[1:]):
            assert torch.equal(net.forward(theta, turned), wanted)  # gray: only the 1 has moved
            continue
        for use in (net.outputs, lambda x: net.evaluate(theta[None], x, torch.zeros(5).long())):
            with pytest.raises(ValueError, match=r"expected images \[\d, \d, \d\] or rows, got"):
                use(turned)


def frozen(module: nn.Module) -> None:
    module.first.weight.requires_grad_(False)


def exchanged(module: nn.Module) -> None:
    module.act = nn.Softplus()


def hooked(module: nn.Module) -> None:
    module.first.register_forward_hook(lambda part, given, out: 3 * out)


def trained(module: nn.Module) -> None:
    with torch.no_grad():
        module.first.weight.add_(1)


def moved(module: nn.Module) -> None:
    module.centre.add_(1)


CHANGES = [frozen, exchanged, hooked, trained, moved]


class Named(nn.Module):
    """Two layers with an activation and a buffer before them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = nn.Linear(INPUTS, 5), nn.Tanh()
        self.last = nn.Linear(5, CLASSES)
        self.register_buffer("centre", torch.zeros(INPUTS))

    def forward(self, x):
        return self.last(self.act(self.first(x - self.centre)))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_module_counts_as_it_is_when_it_is_used(make_fed, change: Callable):
    fed = make_fed(SIZES, inputs=INPUTS, classes=CLASSES)
    module = Named()
    net = fm.Model(module)
    results(fed, net)  # it is looked at before
    change(module)
    wanted = said(lambda: results(fed, fm.Model(module)))
    assert len(wanted) > 1 or wanted[0].startswith(("module: ", "net: "))
    assert said(lambda: results(fed, net)) == wanted


def said(use: Callable) -> list:
    """What a use gives, or how it is refused."""
    try:
        return [result.tolist() for result in use()]
    except ValueError as refused:
        return [str(refused)]


def results(fed: fm.Federation, net: fm.Model) -> list[torch.Tensor]:
    """What a model says in every way of using it."""
    theta, (x, y) = net.theta().to(fed.x), fed.validation
    updates = fm.local_updates(fed, net, theta)
    history = fm.train(fed, net, fm.FedAvg(), rounds=2, theta=theta)
    runs = fm.simulate(fed, net, torch.ones(1, 2, fed.clients), theta=theta, metric="loss")
    game = fm.round_game(net, theta, updates, x, y, metric="loss")
    answers = [net.forward(theta, x), net.predict(theta, x), net.evaluate(theta[None], x, y)]
    return [theta, updates, history.theta, runs, fm.exact(game).values, *answers, net.init(1)]


def test_a_game_and_a_training_keep_the_module_they_began_with(make_fed):
    fed, module = make_fed(SIZES, inputs=INPUTS, classes=CLASSES), Named()
    net = fm.Model(module)
    theta, (x, y) = net.theta(), fed.validation
    updates = fm.local_updates(fed, net, theta)

    def games():
        rounds = fm.round_game(net, theta, updates, x, y, metric="loss")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return rounds, fm.retraining_game(fed, net, 2, metric="loss")

    wanted = [fm.exact(game).values for game in games()]
    begun = games()
    module.act = nn.ReLU()
    assert all(
        torch.equal(fm.exact(game).values, one) for game, one in zip(begun, wanted, strict=True)
    )


def test_a_training_that_drops_a_modules_weights_says_so_once(make_fed):
    fed, given = make_fed(SIZES, inputs=INPUTS, classes=CLASSES), fm.Model(Named())
    with pytest.warns(UserWarning, match=r"starts anew.*theta=net\.theta\(\)") as heard:
        fm.train(fed, given, fm.FedAvg(), rounds=2)
    assert [one.filename for one in heard] == [__file__]
    with pytest.warns(UserWarning, match="^net: the training starts anew") as heard:
        fm.exact(fm.retraining_game(fed, given, 1))
    assert len(heard) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fm.train(fed, given, fm.FedAvg(), rounds=2, theta=given.theta())
        fm.train(fed, fm.mlp(INPUTS, 4, CLASSES), fm.FedAvg(), rounds=2)
