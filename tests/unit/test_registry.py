"""Registry: one row a method, and what it says of each is true."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fedlab_mini as fm
from fedlab_bench import METHODS
from fedlab_bench.compared import BOTH, COMPARED, SIZES, Retrained, Row, watcher
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.judge.registry import SCORES, looked_up

NET, CLIENTS = fm.mlp(4, 6, 3), 4
CHANCE = torch.Generator().manual_seed(0)
X = torch.rand(60, 4, generator=CHANCE, dtype=torch.float64)
SERVER = Server(CLIENTS, 3, NET, (X, torch.arange(60) % 3), 0)
UPDATES = 0.3 * torch.randn(CLIENTS, NET.P, generator=CHANCE, dtype=torch.float64)
ROUND = Round(
    1,
    NET.init(0, dtype=torch.float64),
    torch.arange(CLIENTS),
    torch.tensor([4, 4, 6, 8]),
    UPDATES,
)
WATCHING = [row for row in COMPARED if not isinstance(row.method, Retrained)]
WATCHING += [Row("FedAvg", SIZES), Row("permutation", BOTH), Row("FLDVE", BOTH)]
WATCHING += [Row("S-FedAvg", BOTH), Row("quality inference", {"validation samples"})]


def scores(row, round: Round, server: Server) -> torch.Tensor:
    torch.manual_seed(0)
    strategy = watcher(row.method)
    state = strategy.init(server)
    for t in (1, 2, 3):  # a learner's first scores are older than its rewards
        state = strategy.step(server, state, replace(round, t=t)).state
    return strategy.scores(server, state)


@pytest.mark.parametrize("row", WATCHING, ids=lambda row: row.name)
def test_a_row_says_what_its_method_must_see(row) -> None:
    swapped = replace(ROUND, updates=UPDATES[[1, 0, 2, 3]])  # of two clients with one size
    elsewhere = replace(SERVER, validation=(X.flip(0), torch.arange(60) % 3))
    changed = {"single updates": (swapped, SERVER), "validation samples": (ROUND, elsewhere)}
    plain = scores(row, ROUND, SERVER)
    read = {
        what
        for what, place in changed.items()
        if not plain.allclose(scores(row, *place), rtol=0, atol=1e-12)
    }
    assert read == set(row.sees)


def test_names_are_one_each_and_make_the_comparison() -> None:
    names = [row.name for row in COMPARED]
    assert len(set(names)) == len(names)
    assert list(METHODS) == names
    assert not {name for name in SCORES if name.startswith("retrained")}
    assert set(METHODS) - set(SCORES) == {n for n in METHODS if n.startswith("retrained")}


SPELLINGS = {
    "leave-one-out": "leave one out",
    "leave_one_out": "leave one out",
    "exact": "Shapley",
    "FRCCE": "F-RCCE",
    "shapley_silent": "Shapley, silent",
}


def test_every_spelling_of_the_command_lines_is_read() -> None:
    assert looked_up("--methods", list(SPELLINGS), SCORES) == SPELLINGS
