"""Rules that live in studies alone: an oracle, a bandit, a log, and a server that guesses names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import helpers
import pytest
import torch
from helpers import numbers

import fedlab_mini as fm
from studies import flower_bill
from studies.labels import Logged, Renaming, ServerSide, mostly, who
from studies.sfedavg import Bandit, Oracle, sound

NET = fm.mlp(4, 5, 3)
VALIDATION = numbers(30, 4, seed=1), torch.arange(30) % 3


def started(rule: fm.SFedAvg, clients: int = 6, seed: int = 0) -> fm.SFedAvg:
    return helpers.started(rule, clients, NET, VALIDATION, classes=3, seed=seed)


def test_an_oracle_asks_relevant_clients_alone_and_all_of_them_alike() -> None:
    rule, asked = started(Oracle(2, pool=(1, 3, 5))), torch.zeros(6)
    for t in range(600):
        asked[rule.select(t)] += 1
    assert asked[[0, 2, 4]].sum() == 0
    assert (asked[[1, 3, 5]] - 400).abs().max() < 60


def test_a_bandit_asks_everybody_once_and_then_the_largest_bounds() -> None:
    rule = started(Bandit(2))
    for t in (1, 2, 3):
        ids = rule.select(t)
        rule.aggregate(helpers.a_round(0.3 * numbers(2, NET.P, seed=t), [5, 5], ids.tolist(), t=t))
    assert rule.asked.tolist() == [1] * 6
    rule.phi, rule.spread = torch.tensor([0.5, 0.1, 0.4, 0.05, 0.0, 0.0]).double(), 0.0
    assert rule.select(4).tolist() == [0, 2]
    rule.asked[[0, 2]], rule.spread = 50.0, 1.0  # 1 wins its place by its doubt
    assert rule.select(100).tolist() == [1, 3]


def test_the_spread_of_a_bandit_is_that_of_recent_values() -> None:
    rule, wanted = started(Bandit(3)), 0.0
    for t in (1, 2, 3, 4):
        rule.aggregate(helpers.a_round(numbers(3, NET.P, seed=t), [5] * 3, [0, 2, 4], t=t))
        own = float(rule.values[[0, 2, 4]].std())
        wanted = own if t == 1 else 0.75 * wanted + 0.25 * own
    assert rule.spread == pytest.approx(wanted)


@pytest.mark.parametrize("names", [[0, 1, 2], [1, 0, 2], [1, 2, 0]], ids=str)
def test_a_server_finds_any_one_to_one_names_in_a_confusion_matrix(names: list[int]) -> None:
    """Of true class c the client's model says called[c]; its label called[c] should be c."""
    rule = started(ServerSide(2))
    for true, called in enumerate(names):
        rule.tables[4, true, called] = 9.0
        rule.tables[4, true, true] += 1.0
    found = rule.names(4)
    assert torch.equal(found[torch.tensor(names)], torch.arange(3))
    y = torch.tensor(names)[VALIDATION[1]]
    message = Renaming(torch.tensor([4]), found)
    assert torch.equal(message.answer(NET, NET.init(0), VALIDATION[0], y, y), VALIDATION[1])


def test_a_server_that_gains_less_than_a_tenth_leaves_names_alone() -> None:
    rule = started(ServerSide(2))
    rule.tables[1] = torch.tensor([[5.0, 5.5, 0], [5.5, 5.0, 0], [0, 0, 10]])
    assert torch.equal(rule.names(1), torch.arange(3))


def test_a_log_names_whom_was_asked_and_who_renamed() -> None:
    fed = fm.irrelevant_digits(split=fm.iid(), corrupt=fm.swap_labels((1, 2)), seed=0)
    swapped, healthy, irrelevant = who(fed)
    assert sorted([swapped, *healthy, *irrelevant]) == list(range(10))
    assert sound(fed) == healthy
    for everybody in (False, True):
        rule = Logged(5, spread=0.1, everybody=everybody)
        log = fm.train(fed, fm.mlp(64, 32, 5), rule, rounds=30, seed=0).strategy
        assert min(log.sent) == log.stable_at
        assert all((ids == list(range(10))) == everybody for ids in log.sent.values())
        renamed = [k for ids in log.heard.values() for k in ids]
        assert (
            torch.bincount(torch.tensor(renamed), minlength=10).tolist() == log.corrections.tolist()
        )


@pytest.mark.parametrize("share", [1 / 6, 0.9, 1.0])
def test_most_twos_and_fours_lie_with_the_first_client(share: float) -> None:
    y = torch.arange(5).repeat(60)
    parts = mostly(share)(y, 6, torch.Generator().manual_seed(0))
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(300))
    counts = torch.stack([torch.bincount(y[part], minlength=5) for part in parts])
    assert counts[0].tolist() == [10, round(60 * share), round(60 * share), 10, 10]
    assert counts[1:].amax(0).sub(counts[1:].amin(0)).max() <= 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the bill reads Linux' /proc")
def test_the_bill_counts_processes_that_are_there_and_that_have_ended() -> None:
    code = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True); input()"
    before = flower_bill.cpu()
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout
        child.stdout.readline()
        there = flower_bill.cpu() - before
        child.communicate("\n")
    assert there > 0.4
    assert flower_bill.cpu() - before >= there


def test_without_flower_the_bill_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower_bill, "find_spec", lambda name: None)
    with pytest.raises(fm.DataUnavailable, match="make setup WITH=flower"):
        next(flower_bill.bill_rows(0))
