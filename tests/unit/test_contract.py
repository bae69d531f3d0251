"""Contract: a strategy that breaks it gets an error that names it and says what to write."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

import fedlab_mini as fm


class NoConstructor(fm.CGSV):
    def __init__(self, pace):
        self.pace = pace


class NoStart(fm.FedAvg):
    def start(self, server):
        self.mine = torch.zeros(server.clients)


class Silent(fm.FedAvg):
    def aggregate(self, round):
        return round.theta + round.updates.mean(0)


class Nothing(fm.FedAvg):
    def aggregate(self, round):
        super().aggregate(round)


class NotFinite(fm.FedAvg):
    def aggregate(self, round):
        return super().aggregate(round) * torch.nan


class WrongLength(fm.FedAvg):
    def aggregate(self, round):
        return super().aggregate(round)[:-1]


class Forgetful(fm.FedAvg):
    """Its memory decides later rounds, and no state holds it."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def start(self, server):
        super().start(server)
        self.mood = torch.zeros(server.clients)

    def aggregate(self, round):
        self.mood[round.clients] += 1
        self.seen.append(round.t)
        self._cache = round.t
        return super().aggregate(round)


class Keeps(Forgetful):
    KEPT: ClassVar = (*fm.FedAvg.KEPT, "mood")

    def aggregate(self, round):
        self.seen = []
        return super().aggregate(round)


def run(make_fed, strategy, **given):
    net, local = fm.mlp(6, 5, 3), fm.LocalSGD(batch=8)
    return fm.train(make_fed((9, 8, 20)), net, strategy, rounds=2, local=local, **given)


BROKEN = {
    r"NoConstructor: its __init__ leaves .* write super\(\).__init__\(\)": lambda: NoConstructor(3),
    r"NoStart: rounds .* write super\(\).start\(server\)": NoStart,
    r"round 1: Silent.aggregate notes no weights .* write self.record": Silent,
    r"round 1: .*Nothing.aggregate returns": Nothing,
    r"round 1: .*NotFinite.aggregate returns.* NaN": NotFinite,
    r"round 1: .*WrongLength.aggregate returns": WrongLength,
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_strategy_is_told_what_to_write(make_fed, message):
    with pytest.raises((TypeError, ValueError), match=message):
        run(make_fed, BROKEN[message]())


def test_state_that_a_resume_would_lose_is_named_before_it_is_lost(make_fed, tmp_path):
    path = tmp_path / "forgetful.npz"
    with pytest.raises(ValueError, match=r'lost seen, mood; write KEPT = .*"mood"') as told:
        run(make_fed, Forgetful(), checkpoint=path)
    assert "_cache" not in str(told.value)
    run(make_fed, Forgetful())  # without a checkpoint nothing can be lost


@pytest.mark.parametrize(
    "make",
    [
        fm.FedAvg,
        fm.CGSV,
        fm.FRCCE,
        fm.FLDVE,
        fm.DVRLRemoval,
        lambda: fm.SFedAvg(2, by_class=True),
        lambda: fm.LabelStandardisation(2),
    ],
)
def test_the_books_own_strategies_keep_it(make_fed, tmp_path, make):
    run(make_fed, make(), checkpoint=tmp_path / "kept.npz")
