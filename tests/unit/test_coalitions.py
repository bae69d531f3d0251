"""Coalitions of a round: the fast tables against averaging, loading and forwarding each model."""

from __future__ import annotations

import pytest
import torch
from helpers import numbers, of_module

import fedlab_mini as fm
from fedlab_mini.games import coalitions as module
from fedlab_mini.games.coalitions import RoundGame
from fedlab_mini.gate.networks import cnn

NETS = {
    "logistic": lambda: fm.logistic(6, 3),
    "mlp": lambda: fm.mlp(6, 8, 3),
    "four layers": lambda: fm.mlp(6, 8, 5, 4, 3),
    "general": lambda: of_module(fm.mlp(6, 8, 3)),
    "cnn": lambda: cnn((1, 2, 3), 3, channels=(2,), kernel=3, hidden=5),
}
nets = pytest.mark.parametrize("make_net", NETS.values(), ids=NETS.keys())


def a_round(net: fm.Model, m: int, samples: int = 150):
    """theta, updates, weights, x, y of a round with m participants."""
    theta, updates = net.init(0, dtype=torch.float64), numbers(m, net.P, seed=0) / 2
    weights = numbers(m, seed=1).abs() + 0.1
    return theta, updates, weights, numbers(samples, 6, seed=2), torch.arange(samples) % 3


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
    for absent in ("left out", "silent"):
        wanted = one_by_one(plain, net, theta, updates, weights, coalitions, x, y, absent)
        accuracy, loss = torch.tensor(wanted, dtype=torch.float64).T
        for metric, expected, close in (("accuracy", accuracy, 0), ("loss", -loss, 1e-9)):
            got = RoundGame(net, theta, updates, weights, x, y, metric, absent)(coalitions)
            torch.testing.assert_close(got, expected, rtol=0, atol=close)


@nets
def test_all_and_some_coalitions_in_any_order_and_repeated(plain, make_net):
    for m in (1, 3):
        check(plain, make_net(), fm.all_coalitions(m), m)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(1))[:40]
    check(plain, make_net(), fm.all_coalitions(6)[order], 6)
    check(plain, make_net(), fm.all_coalitions(6)[[5, 63, 5, 0, 17, 0]], 6)


@pytest.mark.parametrize("samples", [1, 127, 128, 300])
def test_any_number_of_samples_and_many_players(plain, samples):
    few = torch.rand(40, 20, generator=torch.Generator().manual_seed(2)) < 0.5
    check(plain, fm.mlp(6, 8, 5, 3), few, 20, samples=samples)


@pytest.mark.parametrize(("bytes_", "halves"), [(1, 1), (3000, 4)])
def test_any_chunk_with_and_without_half_tables(plain, monkeypatch, bytes_, halves):
    for name, size in {"LATER_BYTES": bytes_, "CACHE": bytes_, "HALF_SUMS": halves}.items():
        monkeypatch.setattr(module, name, size)
    check(plain, fm.mlp(6, 8, 3), fm.all_coalitions(7), 7)
    check(plain, fm.logistic(6, 3), fm.all_coalitions(4), 4)


@pytest.mark.parametrize("widths", [(6, 5, 3), (6, 3)])
@pytest.mark.parametrize("third", [2.0, 3.0])
def test_who_sent_the_same_in_silence_is_worth_the_same(widths, third):
    """Equal updates and weights are one model in whatever pairs, to the last bit."""
    net, x, y = fm.mlp(*widths), numbers(40, 6, seed=1), torch.arange(40) % 3
    theta, updates = net.init(0, dtype=torch.float64), 0.3 * numbers(5, net.P, seed=2)
    updates[3] = updates[4] = updates[1]
    weights = torch.tensor([1.0, 2.0, 1.0, third, 2.0]).double()
    given = {"metric": "loss", "weights": weights, "absent": "silent"}
    game = fm.round_game(net, theta, updates, x, y, **given)
    members = fm.all_coalitions(5)
    models = theta + (members.double() * weights / weights.sum()) @ updates
    assert torch.allclose(game(members), -net.evaluate(models, x, y, "loss"), atol=1e-12)
    one, other = (game(torch.tensor([[True, k == 1, False, False, k == 4]])) for k in (1, 4))
    assert torch.equal(one, other)
