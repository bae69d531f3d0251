"""train(): what its History says, who is left out, what attackers send, and its errors."""

from __future__ import annotations

import warnings

import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.corrupt import UpdateAttack
from fedlab_mini.local import LocalSGD, finite_rows

SIZES = (9, 4, 20, 13, 7)


class Spy(fm.FedAvg):
    """FedAvg that keeps what it was shown."""

    def __init__(self, selections: list[list[int]] | None = None):
        super().__init__()
        self.selections, self.seen = selections, []

    def select(self, t):
        return torch.arange(5) if self.selections is None else torch.tensor(self.selections[t - 1])

    def aggregate(self, round):
        ids, sizes = round.clients.tolist(), round.sizes.tolist()
        self.seen.append((round.t, ids, sizes, round.updates.clone()))
        return super().aggregate(round)


class Poison(UpdateAttack):
    """Sends one number that is not finite."""

    def __init__(self, number: float):
        self.number = number

    def __call__(self, updates, previous, generator):
        updates = updates.clone()
        updates[:, -1] = self.number
        return updates


def with_attacks(fed: fm.Federation, attacks: dict) -> fm.Federation:
    """The same federation, with attackers in it."""
    return fm.Federation(**{**vars(fed), "attacks": attacks})


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
    assert torch.equal(history.strategy.scores, history.scores[-1])
    assert float(history.loss[-1]) < float(history.loss[0])
    assert "3 rounds, 5 clients" in repr(history)


def test_cost_is_counted_in_client_epochs(make_fed):
    fed, net = make_fed(SIZES), fm.logistic(6, 3)
    history = fm.train(fed, net, fm.FedAvg(), rounds=3, local=LocalSGD(epochs=2))
    assert history.cost.client_epochs == 3 * 2 * 5
    assert history.cost.model_evaluations == 0
    assert history.cost.seconds > 0
    local = LocalSGD(batch=5, steps=2)
    history = fm.train(fed, net, Spy([[0, 1]]), rounds=1, local=local)
    assert history.cost.client_epochs == pytest.approx(1.0 + 2.0)


def test_a_strategy_sees_the_clients_it_named_in_the_order_it_named_them(make_fed):
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    strategy = Spy([[4, 0, 2], [1], [3, 2]])
    history = fm.train(fed, net, strategy, rounds=3, seed=2)
    assert [(t, ids, sizes) for t, ids, sizes, _ in strategy.seen] == [
        (1, [4, 0, 2], [7, 9, 20]),
        (2, [1], [4]),
        (3, [3, 2], [13, 20]),
    ]
    theta = net.init(2, dtype=torch.float64)
    wanted = fm.local_updates(fed, net, theta, seed=2, t=1)
    torch.testing.assert_close(strategy.seen[0][3], wanted[[4, 0, 2]], rtol=0, atol=1e-13)
    assert history.selected.tolist() == [
        [True, False, True, False, True],
        [False, True, False, False, False],
        [False, False, True, True, False],
    ]


def test_a_round_without_clients_leaves_the_model(make_fed):
    fed, net = make_fed(SIZES), fm.logistic(6, 3)
    history = fm.train(fed, net, Spy([[], [2]]), rounds=2)
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
    absent = fm.train(clean, net, Spy([[0, 1, 2, 4]] * 2), rounds=2)
    assert torch.equal(history.theta, absent.theta)
    assert not history.weights[:, 3].any()
    assert float(history.scores[-1, 3]) == 0
    assert history.cost.client_epochs == 8


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_client_whose_update_is_not_finite_is_left_out_by_name(make_fed, number):
    clean, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    fed = with_attacks(clean, {1: Poison(number)})
    with pytest.warns(UserWarning, match="client 1 sent an update that is not finite") as caught:
        history = fm.train(fed, net, fm.FedAvg(), rounds=2)
    assert [str(w.message)[:7] for w in caught] == ["round 1", "round 2"]
    absent = fm.train(clean, net, Spy([[0, 2, 3, 4]] * 2), rounds=2)
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
        history = fm.train(fed, fm.mlp(6, 4, 3), Spy([[0, 2]]), rounds=1, local=local)
    assert history.weights.tolist() == [[1, 0, 0]]
    assert torch.isfinite(history.theta).all()


def test_when_everybody_is_left_out_the_model_stays(make_fed):
    poison = {0: Poison(torch.nan), 1: Poison(torch.inf)}
    fed, net = with_attacks(make_fed((4, 5)), poison), fm.logistic(6, 3)
    with pytest.warns(UserWarning, match="client 0, 1 sent"):
        history = fm.train(fed, net, fm.FedAvg(), rounds=1)
    assert torch.equal(history.theta, net.init(0, dtype=torch.float64))


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
    clean, net = make_fed(SIZES), fm.Model(fm.mlp(6, 4, 3).module, stacked=stacked)
    fed, spy = with_attacks(clean, {2: attack}), Spy([[3, 2, 0]] * 2)
    fm.train(fed, net, spy, rounds=2, seed=5)
    theta, step = net.init(5, dtype=torch.float64), torch.zeros(net.P, dtype=torch.float64)
    for t, ids, sizes, updates in spy.seen:
        honest = fm.local_updates(clean, net, theta, ids, seed=5, t=t)
        wanted = torch.stack([honest[0], sent(honest[1], step), honest[2]])
        torch.testing.assert_close(updates, wanted, rtol=0, atol=1e-12)
        step = torch.tensor(sizes).double() / sum(sizes) @ updates
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


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "name"),
    [
        ({"rounds": 0}, ValueError, "rounds"),
        ({"rounds": 2.0}, ValueError, "rounds"),
        ({"rounds": True}, ValueError, "rounds"),
        ({"seed": 1.5}, TypeError, "seed"),
        ({"theta": torch.zeros(3)}, ValueError, "theta"),
        ({"theta": torch.full((21,), torch.nan)}, ValueError, "theta"),
        ({"theta": [0.0] * 21}, TypeError, "theta"),
        ({"local": 0.1}, TypeError, "local"),
        ({"local": LocalSGD}, TypeError, "local"),
    ],
)
def test_bad_arguments_are_named(make_fed, changes, error, name):
    with pytest.raises(error, match=rf"^{name}: "):
        fm.train(make_fed((4, 5)), fm.logistic(6, 3), fm.FedAvg(), **({"rounds": 1} | changes))


def test_arguments_of_the_wrong_kind_are_named(make_fed):
    fed, net = make_fed((4, 5)), fm.logistic(6, 3)
    with pytest.raises(TypeError, match="fed: expected a Federation"):
        fm.train([fed], net, fm.FedAvg(), rounds=1)
    with pytest.raises(TypeError, match=r"net: expected fm.Model\(module\), got Sequential"):
        fm.train(fed, net.module, fm.FedAvg(), rounds=1)
    for strategy in (fm.FedAvg, None, "fedavg"):
        with pytest.raises(TypeError, match="strategy: "):
            fm.train(fed, net, strategy, rounds=1)


@pytest.mark.parametrize("ids", [[0, 0], [2], [-1], [[0, 1]]])
def test_unknown_and_repeated_clients_are_refused(make_fed, ids):
    fed, net = make_fed((4, 5)), fm.logistic(6, 3)
    with pytest.raises(ValueError, match=r"^clients: "):
        fm.local_updates(fed, net, net.init(0), ids)
    with pytest.raises(ValueError, match=r"^clients: "):
        fm.train(fed, net, Spy([ids]), rounds=1)


@pytest.mark.parametrize("ids", [torch.tensor([0.5, 1.2]), ["a"]], ids=["fractions", "text"])
def test_clients_that_are_no_ids_are_refused(make_fed, ids):
    fed, net = make_fed((4, 5)), fm.logistic(6, 3)
    with pytest.raises((TypeError, ValueError), match=r"^clients: "):
        fm.local_updates(fed, net, net.init(0), ids)
