"""S-FedAvg in rounds and trainings: who is asked, what is aggregated, who is missing, classes."""

from __future__ import annotations

import math

import helpers
import pytest
import torch
from helpers import Played, Sends, numbers, of_module, with_attacks
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.rounds import Round, Server

SIZES = (9, 4, 20, 13, 7, 6, 11)
LOCAL = LocalSGD(batch=4)
NET = fm.mlp(3, 4, 2)  # P = 26


def started(strategy: fm.SFedAvg, clients: int, seed: int = 0) -> Played:
    """The strategy before round 1: 3 inputs, 2 classes, 30 validation samples."""
    x = numbers(30, 3, seed=5)
    return Played(strategy, Server(clients, 2, NET, (x, (x[:, 0] > 0).long()), seed))


def a_round(ids, t: int = 1, missing=(), updates: Tensor | None = None) -> Round:
    """A round with random updates, sizes 10 + 3 k."""
    updates = numbers(len(ids), 26, seed=t) if updates is None else updates
    given = {"t": t, "missing": missing, "theta": numbers(26, seed=50 + t)}
    return helpers.a_round(updates, [10 + 3 * k for k in ids], ids, **given)


# --- before and in a round -----------------------------------------------------------------------


def test_everybody_starts_with_the_same_relevance():
    strategy = started(fm.SFedAvg(), 8)
    assert strategy.scores.tolist() == [1 / 8] * 8
    assert strategy.scores.dtype == torch.float64
    assert strategy.strategy.probabilities(strategy.state).tolist() == pytest.approx([1 / 8] * 8)
    assert strategy["values"].tolist() == [0] * 8
    assert strategy["class_scores"].shape == (8, 0)
    by_class = started(fm.SFedAvg(by_class=True), 8)
    assert by_class["class_scores"].tolist() == [[1 / 8] * 2] * 8


def test_defaults_are_those_of_the_paper_but_for_the_temperature():
    strategy = fm.SFedAvg()
    given = [strategy.m, strategy.alpha, strategy.beta, strategy.permutations]
    assert given == [5, 0.75, 0.25, 10]
    assert (strategy.temperature, strategy.metric, strategy.empty) == (0.02, "accuracy", "theta")
    assert strategy.weighting == "uniform"
    assert fm.SFedAvg(literal=True).temperature == 1
    assert fm.SFedAvg(literal=True, temperature=0.1).temperature == 0.1


@pytest.mark.parametrize("m", [1, 3, 7, None])
def test_m_distinct_clients_are_asked_in_order(m):
    strategy = started(fm.SFedAvg(m), 7)
    seen = set()
    for t in range(1, 20):
        ids = strategy.select(t)
        assert ids.dtype == torch.long
        assert len(ids) == (m or 7)
        assert ids.tolist() == sorted(set(ids.tolist()) & set(range(7)))
        assert torch.equal(ids, strategy.select(t))  # depends on nothing but seed, t and phi
        seen.add(tuple(ids.tolist()))
    assert len(seen) > 1 or m in (7, None)
    others = [started(fm.SFedAvg(3), 7, seed).select(1).tolist() for seed in range(12)]
    assert len({tuple(ids) for ids in others}) > 3


@pytest.mark.parametrize("weighting", ["uniform", "size"])
def test_the_new_model_is_the_mean_of_all_updates(weighting):
    """Equation 3 with everybody, whatever the values."""
    strategy, this = started(fm.SFedAvg(None, weighting=weighting), 7), a_round([6, 0, 3])
    share = torch.tensor([28.0, 10, 19]).double() if weighting == "size" else torch.ones(3).double()
    share /= share.sum()
    done = strategy.step(this)
    wanted = this.theta + share @ this.updates
    torch.testing.assert_close(done.theta, wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(done.weights, share, rtol=0, atol=1e-12)


def test_values_are_those_of_the_last_round_only():
    strategy = started(fm.SFedAvg(None, metric="loss"), 6)
    strategy.step(a_round([0, 1, 2], 1))
    assert (strategy["values"][:3] != 0).all()
    strategy.step(a_round([4, 2], 2))
    assert not strategy["values"][[0, 1, 3, 5]].any()
    assert (strategy["values"][[2, 4]] != 0).all()


def test_values_are_those_of_the_packages_round_game():
    strategy, this = started(fm.SFedAvg(None, metric="loss"), 6), a_round([5, 1, 3])
    strategy.step(this)
    game = fm.round_game(NET, this.theta, this.updates, *strategy.server.validation, metric="loss")
    wanted = fm.exact(game).values
    torch.testing.assert_close(strategy["values"][[5, 1, 3]], wanted, rtol=0, atol=1e-12)


def test_a_client_that_improves_the_model_rises_and_one_that_ruins_it_falls():
    strategy = started(fm.SFedAvg(None), 4)
    x, y = strategy.server.validation
    theta = fm.train(
        fm.Federation.from_datasets([(x, y)], validation=(x, y), test=(x, y)), NET, fm.FedAvg(),
        rounds=60, local=LocalSGD(batch=10, lr=0.5),
    ).theta  # fmt: skip
    start = 0.3 * numbers(26, seed=0)
    updates = torch.stack([theta - start, start - theta, torch.zeros(26).double()])
    strategy.step(Round(1, start, torch.tensor([3, 0, 1]), torch.ones(3).long(), updates))
    phi = strategy.scores
    assert float(phi[3]) > float(phi[1]) > float(phi[0])
    assert float(strategy["values"][0]) < 0 < float(strategy["values"][3])
    assert strategy.strategy.probabilities(strategy.state)[[0, 1, 3]].argmax() == 2


def test_a_model_that_overflows_is_as_bad_as_can_be():
    strategy, this = started(fm.SFedAvg(None, metric="loss"), 4), a_round([0, 1, 3])
    this.updates[1] = 1e300
    strategy.step(this)
    assert torch.isfinite(strategy.scores).all()
    assert float(strategy["values"][1]) < -1e30
    assert strategy.scores.argmin() == 1
    ids = started(fm.SFedAvg(2), 4)
    ids.state["phi"] = strategy.state["phi"]
    assert all(1 not in ids.select(t).tolist() for t in range(30))
    assert torch.isfinite(ids.strategy.probabilities(ids.state)).all()


# --- who is missing ------------------------------------------------------------------------------


def test_who_sent_nothing_usable_earns_the_lowest_value_at_most_zero():
    strategy = started(fm.SFedAvg(None, metric="loss"), 6)
    signs = set()
    for t in range(1, 20):
        before = strategy.scores.clone()
        strategy.step(a_round([0, 2, 3], t, missing=[5, 1]))
        lowest = min(float(strategy["values"][[0, 2, 3]].min()), 0.0)
        for k in (1, 5):
            wanted = 0.75 * float(before[k]) + 0.25 * lowest
            assert float(strategy.scores[k]) == pytest.approx(wanted, abs=1e-12)
        assert float(strategy.scores[4]) == 1 / 6
        assert not strategy["values"][[1, 4, 5]].any()
        signs.add(lowest == 0)
    assert signs == {True, False}


def test_who_is_missing_earns_the_lowest_value_of_every_class():
    strategy = started(fm.SFedAvg(None, 0, 1, by_class=True, metric="loss"), 6)
    strategy.step(a_round([0, 2, 3], missing=[5, 1]))
    of_class = strategy["class_scores"]
    lowest = of_class[[0, 2, 3]].amin(0).clamp(max=0)
    assert len(set(lowest.tolist())) == 2
    for k in (1, 5):
        torch.testing.assert_close(of_class[k], lowest, rtol=0, atol=1e-12)


def test_a_client_that_sends_nan_is_asked_less(make_fed):
    fed = with_attacks(make_fed(SIZES), {3: Sends(torch.nan)})
    with pytest.warns(UserWarning, match="client 3"):
        history = fm.train(
            fed, fm.mlp(6, 4, 3), fm.SFedAvg(3, temperature=0.005), rounds=30, local=LOCAL
        )
    asked = history.selected.double().mean(0)
    assert float(asked[3]) < float(asked.mean())
    assert history.selected[:, 3].any()
    assert float(history.scores[-1, 3]) < float(history.scores[-1].mean())
    assert torch.isfinite(history.theta).all()


@pytest.mark.parametrize("options", [{}, {"exact": False, "permutations": 3}, {"by_class": True}])
@pytest.mark.parametrize("metric", ["accuracy", "loss"])
def test_who_sends_zeros_earns_nothing_where_absentees_are_silent(metric, options):
    """To the last bit; where they are left out, being there changes everybody's weight."""
    for absent in ("silent", "left out"):
        strategy = started(fm.SFedAvg(None, absent=absent, metric=metric, **options), 5)
        earned = []
        for t in range(1, 6):
            updates = 0.3 * numbers(5, 26, seed=t)
            updates[[1, 3]] = 0
            strategy.step(a_round(range(5), t, updates=updates))
            earned += strategy["values"][[1, 3]].tolist()
        assert (earned == [0.0] * 10) == (absent == "silent")


# --- whole trainings -----------------------------------------------------------------------------


def test_a_training_by_hand_gives_the_same_relevances(make_fed):
    """Local updates, round game, recursion: every part from elsewhere in the package."""
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    history = fm.train(fed, net, fm.SFedAvg(3, metric="loss"), rounds=5, local=LOCAL, seed=2)
    theta, phi = net.init(2, dtype=torch.float64), torch.full((7,), 1 / 7, dtype=torch.float64)
    for t in range(1, 6):
        ids = history.selected[t - 1].nonzero().flatten()
        assert len(ids) == 3
        updates = fm.local_updates(fed, net, theta, ids, local=LOCAL, seed=2, t=t)
        values = fm.exact(fm.round_game(net, theta, updates, *fed.validation, metric="loss")).values
        phi[ids] = 0.75 * phi[ids] + 0.25 * values
        theta = theta + updates.mean(0)
        torch.testing.assert_close(history.scores[t - 1], phi, rtol=0, atol=1e-10)
    torch.testing.assert_close(history.theta, theta, rtol=0, atol=1e-10)


def test_relevant_clients_are_chosen_more_often():
    """IID even digits against odd ones under wrong names: relevance parts the two."""
    fed = fm.irrelevant_digits(split=fm.iid(), seed=1)
    bad = torch.zeros(10, dtype=torch.bool)
    bad[sorted(fed.corrupted)] = True
    history = fm.train(fed, fm.mlp(64, 16, 5), fm.SFedAvg(), rounds=25, seed=1)
    assert float(history.scores[-1][~bad].min()) > float(history.scores[-1][bad].max())
    assert float(history.selected[:, ~bad].double().sum() / (25 * 5)) > 0.7


@pytest.mark.parametrize("by_class", [False, True])
def test_evaluations_are_counted(make_fed, by_class):
    fed = make_fed(SIZES)
    strategy = fm.SFedAvg(4, by_class=by_class)
    history = fm.train(fed, fm.mlp(6, 4, 3), strategy, rounds=3, local=LOCAL)
    assert history.cost.model_evaluations == 3 * 16 * (3 if by_class else 1)


def test_sampled_values_never_need_more_than_their_orders(make_fed):
    fed = make_fed(SIZES)
    strategy = fm.SFedAvg(None, permutations=4)
    history = fm.train(fed, fm.mlp(6, 4, 3), strategy, rounds=2, local=LOCAL)
    assert history.cost.model_evaluations <= 2 * (4 * 6 + 2)


def test_a_model_of_any_module_will_do(make_fed):
    fed, net = make_fed(SIZES[:4]), fm.mlp(6, 4, 3)
    general = of_module(net)
    one, other = (
        fm.train(fed, n, fm.SFedAvg(3, by_class=True, metric="loss"), rounds=3, local=LOCAL)
        for n in (net, general)
    )
    torch.testing.assert_close(one.scores, other.scores, rtol=0, atol=1e-8)
    assert torch.equal(one.selected, other.selected)


def test_different_rounds_and_seeds_use_different_orders():
    this, found = a_round(list(range(6))), set()
    for seed in range(4):
        strategy = started(fm.SFedAvg(None, permutations=1, metric="loss", exact=False), 6, seed)
        for t in (1, 2, 3):
            strategy.step(Round(t, this.theta, this.clients, this.sizes, this.updates))
            found.add(tuple(strategy["values"].tolist()))
    assert len(found) > 9  # of 12 draws from 720 orders


# --- class relevance -----------------------------------------------------------------------------


def test_class_relevance_is_a_copy_of_what_the_strategy_learned(make_fed):
    strategy = fm.SFedAvg(3, temperature=math.inf, by_class=True)
    history = fm.train(make_fed(SIZES), fm.mlp(6, 4, 3), strategy, rounds=4, local=LOCAL, seed=5)
    found = fm.class_relevance(history)
    assert found.shape == (7, 3)
    assert torch.equal(found, history.state["class_scores"])
    found.zero_()
    assert history.state["class_scores"].any()


def test_class_relevance_finds_who_holds_a_class():
    """Two classes a client: holders of a class lead its column."""
    fed = fm.federation(
        fm.load("digits").only_classes(range(5)), clients=5, split=fm.by_class(2), seed=0
    )
    strategy = fm.SFedAvg(3, temperature=math.inf, by_class=True)
    found = fm.class_relevance(fm.train(fed, fm.mlp(64, 16, 5), strategy, rounds=20))
    holders = fed.label_counts > 0
    for c in range(5):
        assert float(found[holders[:, c], c].min()) > float(found[~holders[:, c], c].max())


def test_class_relevance_refuses_what_holds_none(make_fed):
    fed, net = make_fed(SIZES[:3]), fm.mlp(6, 4, 3)
    history = fm.train(fed, net, fm.SFedAvg(2), rounds=1, local=LOCAL)
    with pytest.raises(ValueError, match=r"^history: .*by_class=True"):
        fm.class_relevance(history)
    history = fm.train(fed, net, fm.FedAvg(), rounds=1, local=LOCAL)
    with pytest.raises(ValueError, match=r"^history: "):
        fm.class_relevance(history)
    for wrong in (history.scores, fed):
        with pytest.raises(TypeError, match=r"^history: "):
            fm.class_relevance(wrong)


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [fm.SFedAvg, fm.LabelStandardisation])
def test_more_clients_than_there_are_cannot_be_asked(make_fed, make):
    with pytest.raises(ValueError, match=r"^m: 5 of 3 clients"):
        fm.train(make_fed(SIZES[:3]), fm.mlp(6, 4, 3), make(), rounds=1)


def test_edges_that_are_allowed():
    for options in ({"alpha": 0}, {"alpha": 1}, {"beta": 0}, {"beta": 3}, {"temperature": 1}):
        fm.SFedAvg(**options)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"m": 4}),
        ({}, {"alpha": 0.7}),
        ({}, {"beta": 0.3}),
        ({}, {"permutations": 9}),
        ({}, {"temperature": 0.03}),
        ({}, {"metric": "loss"}),
        ({}, {"empty": "zero"}),
        ({}, {"exact": False}),
        ({"exact": True}, {"exact": False}),
        ({}, {"by_class": True}),
        ({}, {"weighting": "size"}),
        ({"temperature": 1.0}, {"literal": True}),
    ],
    ids=lambda options: "-".join(f"{k}={v}" for k, v in options.items()) or "default",
)
def test_a_repr_tells_settings_apart(one, other):
    assert repr(fm.SFedAvg(**one)) == repr(fm.SFedAvg(**one))
    assert repr(fm.SFedAvg(**one)) != repr(fm.SFedAvg(**other))
