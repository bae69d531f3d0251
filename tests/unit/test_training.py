"""train(): what its History says, who is left out, what attackers send, and its errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from helpers import Sends, of_module, with_attacks

import fedlab_mini as fm
from fedlab_mini.engine.local import limit_of, usable
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.engine.rounds import Server

SIZES = (9, 4, 20, 13, 7)


@dataclass(frozen=True, eq=False)
class Asks(fm.FedAvg):
    """FedAvg that asks the clients named for each round."""

    named: tuple[list[int], ...] = ()

    def select(self, server, state, t):
        return torch.tensor(self.named[t - 1])


def asks(*named: list[int]) -> Asks:
    return Asks(named=named)


def test_history_shapes_meaning_and_table(make_fed):
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    history = fm.train(fed, net, fm.FedAvg(per_round=2), rounds=3, seed=1)
    start = net.init(1, dtype=torch.float64)
    for at, theta in ((0, start), (-1, history.theta)):
        assert float(history.accuracy[at]) == float(net.evaluate(theta[None], *fed.test))
        assert float(history.loss[at]) == float(net.evaluate(theta[None], *fed.test, "loss"))
    assert torch.equal(history.weights > 0, history.selected)
    server = Server(5, 3, net, fed.validation, 1)
    assert torch.equal(history.strategy.scores(server, history.state), history.scores[-1])
    frame = history.to_frame()
    assert list(frame) == ["round", "client", "score", "weight", "selected", "accuracy", "loss"]
    assert len(frame) == 3 * 5
    (row,) = frame[(frame["round"] == 2) & (frame["client"] == 4)].itertuples()
    assert (row.score, row.weight) == (history.scores[1, 4], history.weights[1, 4])
    assert row.selected == bool(history.selected[1, 4])
    assert (row.accuracy, row.loss) == (history.accuracy[2], history.loss[2])
    assert (history.cost.client_epochs, history.cost.model_evaluations) == (3 * 2, 0)
    theta, local = net.init(7, dtype=torch.float64), LocalSGD(batch=5, steps=2)
    history = fm.train(fed, net, asks([0, 1]), rounds=1, local=local, theta=theta)
    assert float(history.loss[0]) == float(net.evaluate(theta[None], *fed.test, "loss"))
    assert history.cost.client_epochs == pytest.approx(1.0 + 2.0)


def test_a_strategy_sees_the_clients_it_named_in_the_order_it_named_them(make_fed):
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    strategy, seen = asks([4, 0, 2], [1], [], [3, 2]), []
    history = fm.train(
        fed, net, strategy, rounds=4, seed=2, watch=lambda round, step: seen.append(round)
    )
    assert [(round.t, round.clients.tolist(), round.sizes.tolist()) for round in seen] == [
        (1, [4, 0, 2], [7, 9, 20]),
        (2, [1], [4]),
        (4, [3, 2], [13, 20]),
    ]
    theta = net.init(2, dtype=torch.float64)
    wanted = fm.local_updates(fed, net, theta, seed=2, t=1)
    torch.testing.assert_close(seen[0].updates, wanted[[4, 0, 2]], rtol=0, atol=1e-13)
    asked = [row.nonzero().flatten().tolist() for row in history.selected]
    assert asked == [[0, 2, 4], [1], [], [2, 3]]
    assert float(history.loss[3]) == float(history.loss[2])  # nobody came: nothing moved
    assert not history.weights[2].any()
    assert float(history.weights[1, 1]) == 1


# --- who is left out -----------------------------------------------------------------------------


def test_a_client_with_nan_data_is_excluded_by_name_and_training_goes_on(make_fed):
    clean, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    x = clean.x.clone()
    x[int(clean.offsets[3]) + 2, 1] = torch.nan
    fed = replace(clean, x=x, unusable={3})
    with pytest.warns(UserWarning, match="client 3 .* not finite and is left out"):
        history = fm.train(fed, net, fm.FedAvg(), rounds=2)
    absent = fm.train(clean, net, asks(*[[0, 1, 2, 4]] * 2), rounds=2)
    assert torch.equal(history.theta, absent.theta)
    assert not history.weights[:, 3].any()
    assert float(history.scores[-1, 3]) == 0
    assert history.cost.client_epochs == 8


LONG = fm.attacks.Scale(1e8)


@pytest.mark.parametrize(
    "attacks",
    [{1: Sends(torch.nan)}, {1: Sends(-torch.inf)}, {1: LONG}, dict.fromkeys(range(4), LONG)],
    ids=["NaN", "infinite", "far too long", "most of them"],
)
def test_an_update_that_does_not_count_is_left_out_and_its_sender_named_once(make_fed, attacks):
    clean, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    bad = sorted(attacks)
    honest, named = [k for k in range(5) if k not in bad], ", ".join(map(str, bad))
    seen = []
    with pytest.warns(UserWarning, match="client") as caught:
        history = fm.train(
            with_attacks(clean, attacks),
            net,
            asks([4, 3, 2, 1, 0], [0, 1, 2, 3, 4]),
            rounds=2,
            watch=lambda round, step: seen.append((round.clients.tolist(), round.missing.tolist())),
        )
    assert seen == [(honest[::-1], bad[::-1]), (honest, bad)]
    first, last = (str(warning.message) for warning in caught)
    assert first.startswith(f"round 1: client {named} sent an update that is not finite")
    assert last == "left out: " + ", ".join(f"client {k} in 2 rounds" for k in bad)
    absent = fm.train(clean, net, asks(honest, honest), rounds=2)
    torch.testing.assert_close(history.theta, absent.theta, rtol=0, atol=1e-13)
    assert not history.weights[:, bad].any()
    assert history.selected.all()
    assert history.cost.client_epochs == 10  # who is left out has trained all the same


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
        counted = torch.ones(len(updates), dtype=torch.bool) if good is None else good
        assert counted.nonzero().flatten().tolist() == list(kept)
        strange = torch.cat([updates, torch.full([1, 4], torch.nan), torch.full([1, 4], torch.inf)])
        assert usable(strange, limit)[-2:].tolist() == [False, False]


# --- attacks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize(
    ("attack", "sent"),
    [
        (fm.attacks.SignFlip(2.0), lambda honest, step: -2 * honest),
        (fm.attacks.Replay(), lambda honest, step: step),
    ],
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
    riders = dict.fromkeys((1, 4), fm.attacks.FreeRide(0.5))
    fed, net = with_attacks(make_fed(SIZES), riders), fm.logistic(6, 3)
    asked = ([0, 1, 2, 3, 4], 1), ([4, 1], 1), ([4, 1], 2)
    sent, fewer, later = (
        fm.local_updates(fed, net, net.init(0), ids, t=t, seed=3) for ids, t in asked
    )
    assert torch.equal(fewer, sent[[4, 1]])
    assert not torch.equal(sent[1], sent[4])
    assert not torch.equal(later, fewer)
