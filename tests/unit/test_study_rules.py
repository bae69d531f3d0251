"""Rules that live in studies alone: an oracle, a bandit, a log, and a server that guesses names."""

from __future__ import annotations

from dataclasses import replace

import helpers
import pytest
import torch
from helpers import numbers

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Server
from studies.labels import AskAll, Messages, Renaming, ServerSide, mostly, repaired, who
from studies.sfedavg import Bandit, Oracle, OwnScale, in_company, sound, ways

NET = fm.mlp(4, 5, 3)
VALIDATION = numbers(30, 4, seed=1), torch.arange(30) % 3


class Played(helpers.Played):
    """A rule of six clients that is shown rounds by hand; the state it has come to."""

    def __init__(self, rule: fm.SFedAvg):
        super().__init__(rule, Server(6, 3, NET, VALIDATION, 0))

    def set(self, **state: list[float] | float) -> None:
        """From now on this is the state, but for what is not named."""
        self.state |= {name: torch.tensor(part).double() for name, part in state.items()}


def test_an_oracle_asks_relevant_clients_alone_by_chance_or_by_relevance() -> None:
    for steered in (False, True):
        rule, asked = Played(Oracle(2, pool=(1, 3, 5), steered=steered)), torch.zeros(6)
        rule.set(phi=[9.0, 0.1, 9.0, 0.0, 9.0, 0.1])
        for t in range(300):
            asked[rule.select(t)] += 1
        assert asked[[0, 2, 4]].sum() == 0
        if steered:
            assert asked[3] < 30  # five temperatures below the others
        else:
            assert (asked[[1, 3, 5]] - 200).abs().max() < 45


def test_a_bandit_asks_everybody_once_and_then_the_largest_bounds() -> None:
    rule = Played(Bandit(2))
    for t in (1, 2, 3):
        updates, ids = 0.3 * numbers(2, NET.P, seed=t), rule.select(t).tolist()
        rule.step(helpers.a_round(updates, [5, 5], ids, t=t))
    assert rule.state["asked"].tolist() == [1] * 6
    rule.set(phi=[0.5, 0.1, 0.4, 0.05, 0.0, 0.0], spread=0.0)
    assert rule.select(4).tolist() == [0, 2]
    rule.set(asked=[50.0, 1, 50, 1, 1, 1], spread=1.0)  # 1 wins its place by its doubt
    assert rule.select(100).tolist() == [1, 3]


def test_a_doubtful_bandit_asks_all_clients_in_turn() -> None:
    rule = Played(Bandit(2, doubt=1e6))
    for t in range(1, 13):
        updates, ids = 0.3 * numbers(2, NET.P, seed=t), rule.select(t).tolist()
        rule.step(helpers.a_round(updates, [5, 5], ids, t=t))
    assert rule.state["asked"].tolist() == [4] * 6


def test_the_spread_of_a_bandit_is_that_of_recent_values() -> None:
    rule, wanted = Played(Bandit(3)), 0.0
    for t in (1, 2, 3, 4):
        rule.step(helpers.a_round(numbers(3, NET.P, seed=t), [5] * 3, [0, 2, 4], t=t))
        own = float(rule.state["values"][[0, 2, 4]].std())
        wanted = own if t == 1 else 0.75 * wanted + 0.25 * own
    assert float(rule.state["spread"]) == pytest.approx(wanted)


def test_a_server_finds_any_one_to_one_names_in_a_confusion_matrix() -> None:
    """Of true class c the client's model says called[c]; its label called[c] should be c."""
    for names in ([0, 1, 2], [1, 0, 2], [1, 2, 0]):
        table = torch.eye(3)
        for true, called in enumerate(names):
            table[true, called] = 9.0 + (true == called)
        found = ServerSide(2).names(table)
        assert torch.equal(found[torch.tensor(names)], torch.arange(3))
        y = torch.tensor(names)[VALIDATION[1]]
        message = Renaming(torch.tensor([4]), found)
        assert torch.equal(message.answer(NET, NET.init(0), VALIDATION[0], y, y), VALIDATION[1])
    close = torch.tensor([[5.0, 5.5, 0], [5.5, 5.0, 0], [0, 0, 10]])  # gains less than a tenth
    assert torch.equal(ServerSide(2).names(close), torch.arange(3))


def test_a_log_names_whom_was_asked_and_who_renamed() -> None:
    fed = fm.irrelevant_digits(split=fm.IID(), corrupt=fm.SwapLabels((1, 2)), seed=0)
    swapped, healthy, irrelevant = who(fed)
    assert sorted([swapped, *healthy, *irrelevant]) == list(range(10))
    assert sound(fed) == healthy
    for make in (fm.LabelStandardisation, AskAll):
        rule = make(5, spread=0.1)
        log = Messages(rule)
        history = fm.train(fed, fm.mlp(64, 32, 5), rule, rounds=30, seed=0, watch=log)
        assert min(log.sent) == history.state["stable_at"]
        everybody = make is AskAll
        assert all((ids == list(range(10))) == everybody for ids in log.sent.values())
        heard = log.heard(history)
        assert all(set(ids) <= set(log.sent[t]) for t, ids in heard.items())
        renamed = torch.tensor([k for ids in heard.values() for k in ids])
        assert torch.equal(renamed.bincount(minlength=10), history.state["corrections"])
        owner = torch.arange(10).repeat_interleave(fed.sizes)
        assert set(owner[history.labels != fed.y].tolist()) <= set(renamed.tolist())


def test_most_twos_and_fours_lie_with_the_first_client() -> None:
    y, share = torch.arange(5).repeat(60), 0.9
    parts = mostly(share)(y, 6, torch.Generator().manual_seed(0))
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(300))
    counts = torch.stack([torch.bincount(y[part], minlength=5) for part in parts])
    assert counts[0].tolist() == [10, round(60 * share), round(60 * share), 10, 10]
    assert counts[1:].amax(0).sub(counts[1:].amin(0)).max() <= 1


def test_at_its_own_scale_a_softmax_draws_alike_whatever_the_unit_of_the_values() -> None:
    rule, drawn = Played(OwnScale(2, temperature=0.25)), []
    relevances = (0.3, 0.2, 0.1, 0.0, -0.1, -0.2)
    for unit in (1.0, 0.01):
        rule.set(phi=[unit * phi for phi in relevances], spread=unit * 0.5)
        drawn.append([rule.select(t).tolist() for t in range(50)])
    assert drawn[0] == drawn[1]
    assert sum(0 in ids for ids in drawn[0]) > 2 * sum(5 in ids for ids in drawn[0])


def test_ways_to_value_a_round_differ_by_the_bonus_alone() -> None:
    game = fm.Game(3, lambda mask: 0.5 + mask.double() @ torch.tensor([0.1, 0.0, -0.1]).double())
    found = ways(game, 0)
    exact = fm.exact(game).values
    assert torch.allclose(
        found["exact values, v(empty) = 0"] - exact, torch.full((3,), 0.5 / 3).double()
    )
    gained = found["ten orders, v(empty) = 0"] - exact
    assert gained.sum() == pytest.approx(0.5)
    assert gained.std() > 0.01


def test_a_client_in_company_is_compared_with_itself() -> None:
    fed = fm.irrelevant_digits(split=fm.IID(), seed=0)  # all hold all classes
    one, *others = sound(fed)
    alone, together = (torch.full((10,), float("nan")).double() for _ in range(2))
    alone[one], together[one], together[others[0]] = 0.5, 0.1, 0.3
    found = in_company(fed, torch.stack([alone, together]))
    # The other client knows no round without company, and is left out.
    assert found["its class is missing"] == pytest.approx(0.5)
    assert found["its classes are there"] == pytest.approx(0.1)


def test_repairs_and_harm_are_counted_by_kind_of_client() -> None:
    fed = fm.irrelevant_digits(split=fm.IID(), corrupt=fm.SwapLabels((1, 2)), seed=0)
    swapped, healthy, irrelevant = who(fed)
    history = fm.train(fed, fm.mlp(64, 32, 5), fm.SFedAvg(), rounds=1, seed=0)

    def counted(labels: torch.Tensor) -> dict[str, float]:
        return dict(repaired(fed, replace(history, labels=labels)))

    def own(k: int) -> slice:
        return slice(*fed.offsets[k : k + 2].tolist())

    right = fed.y.clone()
    right[own(swapped)] = torch.tensor([0, 2, 1, 3, 4])[fed.y[own(swapped)]]
    assert (counted(fed.y)["repaired"], counted(right)["repaired"]) == (0, 1)
    wrong = right.clone()
    wrong[own(healthy[1])] = 0
    assert counted(wrong)["healthy harmed"] == counted(wrong)["a healthy client harmed"] == 1
    wrong[own(irrelevant[0])] = wrong[own(irrelevant[1])] = 0
    assert (counted(wrong)["irrelevant renamed"], counted(wrong)["healthy harmed"]) == (2, 1)
