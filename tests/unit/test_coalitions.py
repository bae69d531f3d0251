"""Coalitions of a round: the fast tables against averaging, loading and forwarding each model."""

from __future__ import annotations

import pytest
import torch
from helpers import of_module

import fedlab_mini as fm
from fedlab_mini.games import coalitions as module
from fedlab_mini.games.coalitions import RoundGame

NETS = {
    "logistic": lambda: fm.logistic(6, 3),
    "mlp": lambda: fm.mlp(6, 8, 3),
    "three layers": lambda: fm.mlp(6, 8, 5, 3),
    "four layers": lambda: fm.mlp(6, 8, 5, 4, 3),
    "general": lambda: of_module(fm.mlp(6, 8, 3)),
    "cnn": lambda: fm.cnn((1, 2, 3), 3, channels=(2,), kernel=3, hidden=5),
}
nets = pytest.mark.parametrize("make_net", NETS.values(), ids=NETS.keys())


def a_round(net: fm.Model, m: int, samples: int = 150, dtype=torch.float64, seed: int = 0):
    """theta, updates, weights, x, y of a round with m participants."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    inputs = 6
    weights = torch.rand(m, generator=generator, dtype=torch.float64).to(dtype) + 0.1
    y = torch.arange(samples) % 3
    theta = net.init(seed, dtype=dtype)
    return theta, draw(m, net.P) / 2, weights, draw(samples, inputs), y


ABSENT = ("left out", "silent")


def quality(*parts):
    """What a coalition's model achieves: its accuracy, or its loss."""
    game = RoundGame(*parts)
    return game if game.metric == "accuracy" else lambda coalitions: -game(coalitions)


def one_by_one(
    plain, net, theta, updates, weights, coalitions, x, y, absent
) -> list[tuple[float, float]]:
    """(accuracy, loss) of every coalition: add the members' updates, load, forward."""
    results = []
    for row in coalitions:
        ids = row.nonzero().flatten().tolist()
        model, total = theta.clone(), weights[ids if absent == "left out" else slice(None)].sum()
        for k in ids:
            model += weights[k] / total * updates[k]
        results.append(plain.judge(net, model, (x, y)))
    return results


def check(plain, net, coalitions, m, **options) -> None:
    """Equal accuracies and losses within 1e-9."""
    theta, updates, weights, x, y = a_round(net, m, **options)
    for absent in ABSENT:
        wanted = one_by_one(plain, net, theta, updates, weights, coalitions, x, y, absent)
        for metric, column in (("accuracy", 0), ("loss", 1)):
            got = quality(net, theta, updates, weights, x, y, metric, absent)(coalitions)
            assert got.dtype == torch.float64
            expected = torch.tensor([row[column] for row in wanted], dtype=torch.float64)
            close = 0 if metric == "accuracy" else 1e-9
            torch.testing.assert_close(got, expected, rtol=0, atol=close)


@nets
@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_all_coalitions(plain, make_net, m):
    check(plain, make_net(), fm.all_coalitions(m), m)


@nets
def test_some_coalitions_in_any_order_and_repeated(plain, make_net):
    everyone = fm.all_coalitions(6)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(1))
    check(plain, make_net(), everyone[order[:23]], 6)
    check(plain, make_net(), everyone[torch.tensor([5, 63, 5, 0, 17, 0])], 6)
    check(plain, make_net(), everyone[:1], 6)


def test_many_players_few_coalitions(plain):
    few = torch.rand(40, 20, generator=torch.Generator().manual_seed(2)) < 0.5
    check(plain, fm.mlp(6, 8, 3), few, 20)


@pytest.mark.parametrize("samples", [1, 127, 128, 300])
def test_any_number_of_samples(plain, samples):
    check(plain, fm.mlp(6, 8, 5, 3), fm.all_coalitions(4), 4, samples=samples)


@pytest.mark.parametrize("room", [1, 3000, 20000])
def test_any_chunk(plain, monkeypatch, room):
    monkeypatch.setattr(module, "LATER_BYTES", room)
    monkeypatch.setattr(module, "CACHE", room)
    check(plain, fm.mlp(6, 8, 3), fm.all_coalitions(7), 7)
    check(plain, fm.logistic(6, 3), fm.all_coalitions(4), 4)


@pytest.mark.parametrize("table", [1, 4, 64])
def test_with_and_without_half_tables(plain, monkeypatch, table):
    monkeypatch.setattr(module, "HALF_SUMS", table)
    check(plain, fm.mlp(6, 8, 3), fm.all_coalitions(7), 7)


@nets
def test_the_silent_are_as_good_as_zeros_to_the_last_bit(make_net):
    net = make_net()
    theta, updates, weights, x, y = a_round(net, 7)
    updates[[0, 4]] = 0
    sets = fm.all_coalitions(7)
    found = RoundGame(net, theta, updates, weights, x, y, "loss", "silent")(sets)
    without = sets.clone()
    without[:, [0, 4]] = False
    assert torch.equal(found, found[(without * (1 << torch.arange(7))).sum(1)])
    assert len(found.unique()) == 2**5


@pytest.mark.parametrize("absent", ABSENT)
def test_float32_gives_equal_accuracies(plain, absent):
    net = fm.mlp(6, 8, 3)
    theta, updates, weights, x, y = a_round(net, 8, dtype=torch.float32)
    sets = fm.all_coalitions(8)
    wanted = one_by_one(plain, net, theta, updates, weights, sets, x, y, absent)
    got = quality(net, theta, updates, weights, x, y, "accuracy", absent)(sets)
    differ = (got - torch.tensor([a for a, _ in wanted], dtype=torch.float64)).abs()
    assert float(differ.max()) <= 1 / len(y)  # a sample on the boundary of two classes at most
    assert float((differ > 0).double().mean()) < 0.02
    loss = quality(net, theta, updates, weights, x, y, "loss", absent)(sets)
    torch.testing.assert_close(
        loss, torch.tensor([b for _, b in wanted], dtype=torch.float64), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("absent", ABSENT)
def test_the_arguments_are_left_as_they_were(absent):
    net = fm.mlp(6, 8, 3)
    arguments = a_round(net, 4)
    copies = [a.clone() for a in arguments]
    theta, updates, weights, x, y = arguments
    RoundGame(net, theta, updates, weights, x, y, "loss", absent)(fm.all_coalitions(4))
    assert all(torch.equal(a, b) for a, b in zip(arguments, copies, strict=True))
