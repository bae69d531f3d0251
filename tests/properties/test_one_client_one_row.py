"""One client, one row: however a log writes an id, and what cannot be told apart is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas
import pytest
import torch

import fedlab_mini as fm

NET = fm.mlp(4, 3)
CHANCE = torch.Generator().manual_seed(0)
UPDATES, THETA = torch.randn(3, NET.P, generator=CHANCE), NET.init(0)
SAMPLES = torch.randn(30, 4, generator=CHANCE), torch.randint(0, 3, (30,), generator=CHANCE)
LARGE = [2**63 + 5, 7, 2**64 - 1]


def numbered(ids):
    return {
        "list": list(ids),
        "NumPy": np.array(ids),
        "NumPy scalars": [np.int64(one) for one in ids],
        "torch": torch.tensor(ids),
        "torch scalars": [torch.tensor(one) for one in ids],
        "pandas": pandas.Series(ids, index=[5, 3, 4]),
        "pandas, nullable": pandas.array(ids, dtype="Int64"),
        "objects": np.array(ids, dtype=object),
        "mixed kinds": [ids[0], np.int32(ids[1]), torch.tensor(ids[2])],
    }


def worded(ids):
    return {
        "list": list(ids),
        "NumPy": np.array(ids),
        "NumPy scalars": [np.str_(one) for one in ids],
        "bytes": [one.encode() for one in ids],
        "NumPy's bytes": np.array([one.encode() for one in ids]),
        "pandas": pandas.Series(ids),
        "pandas, strings": pandas.array(ids, dtype="string"),
        "pandas, categories": pandas.Series(ids, dtype="category"),
        "mixed kinds": [ids[0], ids[1].encode(), np.str_(ids[2])],
    }


def table(*ids, **given):
    rounds = [{"theta": THETA, "updates": UPDATES, "clients": one} for one in ids]
    return fm.score(rounds, net=NET, validation=SAMPLES, methods=[fm.exact], **given)["exact"]


@pytest.mark.parametrize("spell", [numbered, worded])
def test_every_spelling_of_an_id_is_one_client(spell):
    ids = [4, 0, 9] if spell is numbered else ["b", "a", "é"]
    wanted, spellings = table(ids, ids), spell(ids)
    for (one, first), (other, second) in product(spellings.items(), repeat=2):
        found = table(first, second)
        assert found.index.tolist() == wanted.index.tolist(), (one, other)
        assert found.tolist() == wanted.tolist()
        assert table(first, clients=second).index.tolist() == ids


def test_large_numbers_and_mixes_stay_what_they_are():
    for large in (LARGE, np.array(LARGE, dtype=np.uint64), [np.uint64(one) for one in LARGE]):
        assert table(large, LARGE).index.tolist() == sorted(LARGE)
    mixed = table([0, 1, "x"], [0, 1, 2])
    assert mixed.index.tolist() == [0, 1, "x", 2]
    assert mixed[[0, 1]].tolist() == table([0, 1, 2], [0, 1, 2])[[0, 1]].tolist()


@pytest.mark.parametrize(
    ("ids", "others"),
    [
        ([0, 1, 2], ["0", "1", "2"]),
        ([0, 1, 2], [b"0", b"1", b"2"]),
        (["1", "2", "3"], np.array([3, 4, 5])),
        ([0, "0", 1], [5, 6, 7]),
        ([5, 6, 7], [-1, 2, "-1"]),
    ],
)
def test_a_mix_that_cannot_be_told_apart_is_refused(ids, others):
    message = r'clients: (-?\d) and "\1" cannot be told apart; write numbers or words'
    with pytest.raises(ValueError, match=message):
        table(ids, others)
    with pytest.raises(ValueError, match=r"told apart|not among the clients named"):
        table(ids, clients=others)


@pytest.mark.parametrize(
    "ids",
    [
        [0.0, 1.0, 2.0],
        [True, False, 2],
        [0, None, 2],
        [0, 1, np.nan],
        pandas.array([0, None, 2], dtype="Int64"),
        {0, 1, 2},
        {0: 1, 1: 2, 2: 3},
        "abc",
        b"abc",
        [b"\xff", b"a", b"b"],
        np.array([[0], [1], [2]]),
        np.ma.masked_array([0, 1, 2], [True, False, False]),
        [(0, 1), 2, 3],
    ],
    ids=repr,
)
def test_what_is_no_id_is_refused(ids):
    with pytest.raises((TypeError, ValueError), match=r"clients: expected (ids \[m\]|an array)"):
        table(ids)
