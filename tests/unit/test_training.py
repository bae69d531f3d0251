"""train(): what its History says, who is left out, what attackers send, and its errors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from helpers import Sends, check_finite, of_module, with_attacks

import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD, finite_rows, limit_of, usable
from fedlab_mini.engine.rounds import Round, copied

SIZES = (9, 4, 20, 13, 7)


@dataclass(frozen=True, eq=False)
class Asks(fm.FedAvg):
    """FedAvg that asks the clients named for each round."""

    named: tuple[list[int], ...] = ()

    def select(self, server, state, t):
        return torch.tensor(self.named[t - 1])


def asks(*named: list[int]) -> Asks:
    return Asks(named=named)


def test_history_shapes_and_meaning(make_fed):
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    history = fm.train(fed, net, fm.FedAvg(per_round=2), rounds=3, seed=1)
    assert history.accuracy.shape == history.loss.shape == (4,)
    assert history.scores.shape == history.weights.shape == history.selected.shape == (3, 5)
    assert history.selected.dtype == torch.bool
    assert history.theta.shape == (net.P,)
    start = net.init(1, dtype=torch.float64)
    for at, theta in ((0, start), (-1, history.theta)):
        assert float(history.accuracy[at]) == float(net.evaluate(theta[None], *fed.test))
        assert float(history.loss[at]) == float(net.evaluate(theta[None], *fed.test, "loss"))
    assert torch.equal(history.weights > 0, history.selected)
    server = fm.Server(5, 3, net, fed.validation, 1)
    assert torch.equal(history.strategy.scores(server, history.state), history.scores[-1])
    assert float(history.loss[-1]) < float(history.loss[0])
    assert "3 rounds, 5 clients" in repr(history)


def test_cost_is_counted_in_client_epochs(make_fed):
    fed, net = make_fed(SIZES), fm.logistic(6, 3)
    history = fm.train(fed, net, fm.FedAvg(), rounds=3, local=LocalSGD(epochs=2))
    assert history.cost.client_epochs == 3 * 2 * 5
    assert history.cost.model_evaluations == 0
    assert history.cost.seconds > 0
    local = LocalSGD(batch=5, steps=2)
    history = fm.train(fed, net, asks([0, 1]), rounds=1, local=local)
    assert history.cost.client_epochs == pytest.approx(1.0 + 2.0)


def test_a_strategy_sees_the_clients_it_named_in_the_order_it_named_them(make_fed):
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    strategy, seen = asks([4, 0, 2], [1], [3, 2]), []
    history = fm.train(
        fed, net, strategy, rounds=3, seed=2, watch=lambda round, step: seen.append(round)
    )
    assert [(round.t, round.clients.tolist(), round.sizes.tolist()) for round in seen] == [
        (1, [4, 0, 2], [7, 9, 20]),
        (2, [1], [4]),
        (3, [3, 2], [13, 20]),
    ]
    theta = net.init(2, dtype=torch.float64)
    wanted = fm.local_updates(fed, net, theta, seed=2, t=1)
    torch.testing.assert_close(seen[0].updates, wanted[[4, 0, 2]], rtol=0, atol=1e-13)
    assert history.selected.tolist() == [
        [True, False, True, False, True],
        [False, True, False, False, False],
        [False, False, True, True, False],
    ]


def test_a_round_without_clients_leaves_the_model(make_fed):
    fed, net = make_fed(SIZES), fm.logistic(6, 3)
    history = fm.train(fed, net, asks([], [2]), rounds=2)
    assert float(history.loss[1]) == float(history.loss[0])
    assert not history.weights[0].any()
    assert float(history.weights[1, 2]) == 1


def test_training_can_go_on_from_a_model(make_fed):
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    theta = net.init(7, dtype=torch.float64)
    copy = theta.clone()
    history = fm.train(fed, net, fm.FedAvg(), rounds=1, theta=theta, seed=0)
    assert torch.equal(theta, copy)
    assert float(history.loss[0]) == float(net.evaluate(theta[None], *fed.test, "loss"))


def test_same_seed_same_bytes_and_another_seed_another_training(make_fed):
    fed, net = make_fed(SIZES, dtype=torch.float32), fm.mlp(6, 4, 3)
    one, same, other = (fm.train(fed, net, fm.FedAvg(), rounds=2, seed=s).theta for s in (0, 0, 1))
    assert one.numpy().tobytes() == same.numpy().tobytes()
    assert not torch.equal(one, other)


# --- who is left out -----------------------------------------------------------------------------


def test_a_client_with_nan_data_is_excluded_by_name_and_training_goes_on(make_fed):
    clean, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    pairs = [(x.clone(), y) for x, y in map(clean.client, range(5))]
    pairs[3][0][2, 1] = torch.nan
    server = {"validation": clean.validation, "test": clean.test}
    with pytest.warns(UserWarning, match="client 3 holds NaN"):
        fed = fm.Federation.from_datasets(pairs, **server, classes=3)
    with pytest.warns(UserWarning, match="client 3 .* takes no part"):
        history = fm.train(fed, net, fm.FedAvg(), rounds=2)
    absent = fm.train(clean, net, asks(*[[0, 1, 2, 4]] * 2), rounds=2)
    assert torch.equal(history.theta, absent.theta)
    assert not history.weights[:, 3].any()
    assert float(history.scores[-1, 3]) == 0
    assert history.cost.client_epochs == 8


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_client_whose_update_is_not_finite_is_left_out_by_name(make_fed, number):
    clean, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    fed = with_attacks(clean, {1: Sends(number)})
    with pytest.warns(UserWarning, match="client 1") as caught:
        history = fm.train(fed, net, fm.FedAvg(), rounds=2)
    first, last = (str(warning.message) for warning in caught)
    assert first.startswith("round 1: client 1 sent an update that is not finite")
    assert last == "left out: client 1 in 2 rounds"
    absent = fm.train(clean, net, asks(*[[0, 2, 3, 4]] * 2), rounds=2)
    torch.testing.assert_close(history.theta, absent.theta, rtol=0, atol=1e-13)
    assert history.weights[:, 1].tolist() == [0, 0]
    assert history.selected[:, 1].all()
    assert torch.allclose(history.weights.sum(1), torch.ones(2, dtype=torch.float64))


def test_divergence_of_one_client_is_its_own(make_fed):
    clean = make_fed((9, 6, 5))
    pairs = [(x.clone(), y) for x, y in map(clean.client, range(3))]
    pairs[2][0].mul_(1e200)  # finite data, but its gradient overflows
    fed = fm.Federation.from_datasets(
        pairs, validation=clean.validation, test=clean.test, classes=3
    )
    local = LocalSGD(epochs=5, batch=2)
    with pytest.warns(UserWarning, match="client 2 sent"):
        history = fm.train(fed, fm.mlp(6, 4, 3), asks([0, 2]), rounds=1, local=local)
    assert history.weights.tolist() == [[1, 0, 0]]
    assert torch.isfinite(history.theta).all()


def test_when_everybody_is_left_out_the_model_stays(make_fed):
    poison = {0: Sends(torch.nan), 1: Sends(torch.inf)}
    fed, net = with_attacks(make_fed((4, 5)), poison), fm.logistic(6, 3)
    with pytest.warns(UserWarning, match="client 0, 1 sent"):
        history = fm.train(fed, net, fm.FedAvg(), rounds=1)
    assert torch.equal(history.theta, net.init(0, dtype=torch.float64))


def test_many_rounds_without_a_client_are_one_warning_and_a_count(make_fed):
    fed = with_attacks(make_fed((4, 5, 6)), {2: Sends(torch.inf), 0: Sends(torch.nan)})
    with pytest.warns(UserWarning, match="client") as caught:
        fm.train(fed, fm.logistic(6, 3), asks([1, 2], [1, 2], [0, 1, 2], [1]), rounds=4)
    said = [str(warning.message) for warning in caught]
    assert [text[:23] for text in said[:2]] == [
        "round 1: client 2 sent ",
        "round 3: client 0 sent ",
    ]
    assert said[2:] == ["left out: client 2 in 3 rounds"]


@pytest.mark.parametrize("given", [{"local": LocalSGD(lr=1e30, batch=2)}, {"scale": 1e6}])
def test_where_all_are_left_out_the_model_stays_and_the_reason_is_guessed(make_fed, given):
    """A step size that is absurd, or inputs in small units: a million each, for everybody."""
    clean, scale = make_fed((9, 6, 5)), given.pop("scale", 1.0)
    pairs = [(scale * x, y) for x, y in map(clean.client, range(3))]
    fed = fm.Federation.from_datasets(
        pairs, validation=clean.validation, test=clean.test, classes=3
    )
    net = fm.logistic(6, 3) if scale > 1 else fm.mlp(6, 8, 8, 3)
    with pytest.warns(UserWarning, match="client 0, 1, 2 .* all are: are inputs scaled, and is"):
        history = fm.train(fed, net, fm.FedAvg(), rounds=1, **given)
    check_finite(history)
    assert torch.equal(history.theta, net.init(0, dtype=fed.x.dtype))


@pytest.mark.parametrize(
    ("others", "kept"),
    [([], [0]), ([0.0] * 9, range(10)), ([900.0] * 9, range(10)), ([1.1e3] * 9, [0])],
    ids=["a coalition of one", "a majority of zeros", "of loud ones", "of liars"],
)
def test_no_update_is_judged_by_those_of_other_clients(others, kept):
    """The limit: a thousand times the first model's length, or a thousand if that is shorter."""
    for first in (torch.full([4], 0.1), torch.full([4], 5.0)):
        limit = limit_of(first)
        assert limit == pytest.approx(1e3 * max(1.0, float(first.norm())))
        lengths = torch.tensor([0.1, *others]) * limit / 1e3
        updates = lengths[:, None] * torch.tensor([[1.0, 0, 0, 0]])
        good = usable(updates, limit)
        everybody = torch.ones(len(updates), dtype=torch.bool)
        counted = everybody if good is None else good
        assert counted.nonzero().flatten().tolist() == list(kept)
        strange = torch.cat([updates, torch.full([1, 4], torch.nan), torch.full([1, 4], torch.inf)])
        assert usable(strange, limit)[-2:].tolist() == [False, False]


@pytest.mark.parametrize("attackers", [1, 4])
def test_a_long_update_is_left_out_and_its_sender_named(make_fed, attackers):
    clean, net = make_fed((9, 6, 5, 7, 8)), fm.mlp(6, 4, 3)
    fed = with_attacks(clean, dict.fromkeys(range(attackers), fm.scale(1e8)))
    with pytest.warns(UserWarning, match="client 0"):
        history = fm.train(fed, net, fm.FedAvg(), rounds=2)
    alone = fm.train(clean, net, asks(*[list(range(attackers, 5))] * 2), rounds=2)
    torch.testing.assert_close(history.theta, alone.theta, rtol=0, atol=1e-13)
    boosted = with_attacks(clean, {0: fm.scale(100.0)})  # an experiment, not an accident
    assert fm.train(boosted, net, fm.FedAvg(), rounds=1).weights[0].all()


def test_finite_rows():
    rows = torch.tensor([[0.0, 1], [torch.nan, 0], [0, torch.inf], [-torch.inf, 0], [3e38, 0]])
    assert finite_rows(rows).tolist() == [True, False, False, False, True]
    assert finite_rows(torch.zeros(0, 3)).tolist() == []


def test_a_sound_training_warns_of_nothing(make_fed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fm.train(make_fed(SIZES), fm.mlp(6, 4, 3), fm.FedAvg(), rounds=1)


# --- attacks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize(
    ("attack", "sent"),
    [
        (fm.sign_flip(2.0), lambda honest, step: -2 * honest),
        (fm.scale(10.0), lambda honest, step: 10 * honest),
        (fm.free_ride(0.0), lambda honest, step: 0 * honest),
        (fm.replay(), lambda honest, step: step),
    ],
    ids=["sign flip", "scale", "free ride", "replay"],
)
def test_an_attack_changes_the_attackers_row_and_no_other(make_fed, attack, sent, stacked):
    clean, net = make_fed(SIZES), of_module(fm.mlp(6, 4, 3), stacked)
    fed, seen = with_attacks(clean, {2: attack}), []
    strategy, given = asks(*[[3, 2, 0]] * 2), {"rounds": 2, "seed": 5}
    fm.train(fed, net, strategy, **given, watch=lambda round, step: seen.append(round))
    theta, step = net.init(5, dtype=torch.float64), torch.zeros(net.P, dtype=torch.float64)
    for round in seen:
        honest = fm.local_updates(clean, net, theta, round.clients, seed=5, t=round.t)
        wanted = torch.stack([honest[0], sent(honest[1], step), honest[2]])
        torch.testing.assert_close(round.updates, wanted, rtol=0, atol=1e-12)
        step = round.sizes.double() / round.sizes.sum() @ round.updates
        theta = theta + step


def test_free_riders_noise_is_seeded_by_client_and_round(make_fed):
    riders = {1: fm.free_ride(0.5), 4: fm.free_ride(0.5)}
    fed, net = with_attacks(make_fed(SIZES), riders), fm.logistic(6, 3)
    theta = net.init(0, dtype=torch.float64)
    one, again = (fm.local_updates(fed, net, theta, t=1, seed=3) for _ in range(2))
    assert torch.equal(one, again)
    later = fm.local_updates(fed, net, theta, t=2, seed=3)
    assert not torch.equal(one[1], one[4])
    assert not torch.equal(one[1], later[1])
    fewer = fm.local_updates(fed, net, theta, [4, 1], t=1, seed=3)
    assert torch.equal(fewer, one[[4, 1]])


# --- what a history and a strategy own -----------------------------------------------------------


def test_a_second_training_changes_no_earlier_history(make_fed):
    fed, net, strategy = make_fed(SIZES), fm.mlp(6, 4, 3), fm.SFedAvg(3, by_class=True)
    first = fm.train(fed, net, strategy, rounds=3)
    state, relevance = copied(first.state), fm.class_relevance(first)
    second = fm.train(fed, net, strategy, rounds=5, seed=1)
    third = fm.train(fed, net, strategy, rounds=4, start=first)
    third.state["phi"] += 1
    for name, part in state.items():
        assert torch.equal(part, first.state[name]), name
    assert torch.equal(relevance, fm.class_relevance(first))
    assert not torch.equal(relevance, fm.class_relevance(second))


def test_the_model_that_a_strategy_is_shown_is_its_own(make_fed):
    fed, net, servers = make_fed(SIZES), fm.mlp(6, 4, 3), []

    class Mine(fm.FedAvg):
        def init(self, server):
            servers.append(server)
            return super().init(server)

    fm.train(fed, net, Mine(), rounds=1)
    (server,) = servers
    assert server.net.module is not net.module
    assert server.validation[0].data_ptr() != fed.validation[0].data_ptr()


def keeping(make_fed, net, part):
    """Four rounds of which a part is kept: parts, copies of the updates, where these stood."""
    kept, copies, at = [], [], []

    class Keeper(fm.FedAvg):
        def step(self, server, state, round):
            at.append(round.updates.data_ptr())
            kept.append(part(round))
            copies.append(round.updates.clone())
            return super().step(server, state, round)

    fm.train(make_fed(SIZES), net, Keeper(per_round=3), rounds=4)
    return kept, copies, at


PARTS = {
    "round": lambda this: this,
    "updates": lambda this: this.updates,
    "view": lambda this: this.updates[:, :3],
    "detached": lambda this: this.updates.detach()[1:],
    "numpy": lambda this: this.updates.numpy(),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_what_a_strategy_keeps_of_a_round_stays(make_fed, part):
    kept, copies, at = keeping(make_fed, fm.mlp(6, 4, 3), part)
    for one, copy in zip(kept, copies, strict=True):
        this = Round(1, copy[0], torch.arange(3), torch.ones(3), copy)
        one, wanted = (getattr(a, "updates", a) for a in (one, part(this)))
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(wanted))
    assert len(set(at)) == 4


def test_what_nobody_keeps_is_used_again(make_fed):
    _, _, at = keeping(make_fed, fm.mlp(6, 40, 3), lambda this: None)
    assert len(set(at)) == 1


def test_a_history_as_a_table(make_fed):
    pandas = pytest.importorskip("pandas")
    history = fm.train(make_fed(SIZES), fm.logistic(6, 3), fm.FedAvg(per_round=2), rounds=3)
    frame = history.to_frame()
    assert list(frame) == ["round", "client", "score", "weight", "selected", "accuracy", "loss"]
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 3 * 5
    for t, k in ((1, 0), (2, 4), (3, 2)):
        (row,) = frame[(frame["round"] == t) & (frame["client"] == k)].itertuples()
        assert (row.score, row.weight) == (history.scores[t - 1, k], history.weights[t - 1, k])
        assert row.selected == bool(history.selected[t - 1, k])
        assert (row.accuracy, row.loss) == (history.accuracy[t], history.loss[t])


def test_other_results_as_tables(make_fed):
    estimate = fm.permutation(fm.glove(1, 2), samples=4)
    fed, net, once = make_fed(SIZES), fm.logistic(6, 3), fm.LocalSGD(steps=1)
    result = fm.fedccea(fed, net, simulations=2, rounds=1, local=once, steps=5)
    curves = fm.removal_curves(fed, net, range(5), (0, 0.4), rounds=1, local=once)
    for found, name, columns in (
        (estimate, "player", {"value": estimate.values, "stderr": estimate.stderr}),
        (
            result,
            "client",
            {
                "quality": result.quality,
                "contribution": result.contribution,
                "cci": result.index,
                "spread": result.spread,
            },
        ),
        (
            curves,
            None,
            {"removed": curves.removed, "highest": curves.highest, "lowest": curves.lowest},
        ),
    ):
        frame = found.to_frame()
        assert (frame.index.name, list(frame)) == (name, list(columns))
        assert frame.index.tolist() == [*range(len(frame))]
        for column, values in columns.items():
            assert frame[column].dtype == values.numpy().dtype
            np.testing.assert_array_equal(frame[column], values)  # a spread may be NaN


ANSWERS = {
    "nothing": (lambda theta: None, TypeError),
    "a number": (lambda theta: 0.5, ValueError),
    "another shape": (lambda theta: theta[:-1], ValueError),
    "a row": (lambda theta: theta[None], ValueError),
    "NaN": (lambda theta: theta * torch.nan, ValueError),
    "one infinite": (lambda theta: theta.index_fill(0, torch.tensor([3]), torch.inf), ValueError),
    "complex": (lambda theta: theta.to(torch.complex128), TypeError),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_is_no_model_is_refused_with_the_strategys_name(make_fed, answer):
    change, error = ANSWERS[answer]

    class Mine(fm.FedAvg):
        def step(self, server, state, round):
            done = super().step(server, state, round)
            return done if round.t == 1 else done._replace(theta=change(done.theta))

    with pytest.raises(error, match=r"^round 2: Mine.step: theta: "):
        fm.train(make_fed(SIZES), fm.logistic(6, 3), Mine(), rounds=3)


@pytest.mark.parametrize("wrong", [[0.0, torch.nan, 0, 0, 0], [0.0, 1.0], None], ids=str)
def test_scores_and_weights_of_ones_own_are_looked_at(make_fed, wrong):
    class OwnScores(fm.FedAvg):
        def scores(self, server, state):
            return wrong

    class OwnWeights(fm.FedAvg):
        def step(self, server, state, round):
            return super().step(server, state, round)._replace(weights=wrong)

    for mine, name in ((OwnScores(), "^OwnScores.scores: "), (OwnWeights(), "step: weights: ")):
        with pytest.raises((TypeError, ValueError), match=name):
            fm.train(make_fed(SIZES), fm.logistic(6, 3), mine, rounds=1)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [[0, 0], [2], [-1], [[0, 1]]])
def test_unknown_and_repeated_clients_are_refused(make_fed, ids):
    fed, net = make_fed((4, 5)), fm.logistic(6, 3)
    with pytest.raises(ValueError, match=r"^clients: "):
        fm.local_updates(fed, net, net.init(0), ids)
    with pytest.raises(ValueError, match=r"^clients: "):
        fm.train(fed, net, asks(ids), rounds=1)


@pytest.mark.parametrize("ids", [torch.tensor([0.5, 1.2]), ["a"]], ids=["fractions", "text"])
def test_clients_that_are_no_ids_are_refused(make_fed, ids):
    fed, net = make_fed((4, 5)), fm.logistic(6, 3)
    with pytest.raises((TypeError, ValueError), match=r"^clients: "):
        fm.local_updates(fed, net, net.init(0), ids)
