"""One client, one row: however a log writes an id, and what cannot be told apart is refused."""

from __future__ import annotations

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
SPELLINGS = {  # the ids, and other ways to write them
    (4, 0, 9): [
        np.array([4, 0, 9]),
        pandas.Series([4, 0, 9], index=[5, 3, 4]),
        pandas.array([4, 0, 9], dtype="Int64"),
        [4, np.int32(0), torch.tensor(9)],
    ],
    ("b", "a", "é"): [
        np.array([one.encode() for one in "baé"]),
        pandas.array(["b", "a", "é"], dtype="string"),
        ["b", b"a", np.str_("é")],
    ],
    tuple(LARGE): [np.array(LARGE, dtype=np.uint64), [np.uint64(one) for one in LARGE]],
}


def table(*ids, **given):
    rounds = [{"theta": THETA, "updates": UPDATES, "clients": one} for one in ids]
    return fm.score(rounds, net=NET, validation=SAMPLES, methods=[fm.exact], **given)["exact"]


@pytest.mark.parametrize("ids", SPELLINGS)
def test_every_spelling_of_an_id_is_one_client(ids):
    wanted = table(list(ids), list(ids))
    assert wanted.index.tolist() == (list(ids) if "a" in ids else sorted(ids))
    for spelling in SPELLINGS[ids]:
        for found in (table(list(ids), spelling), table(spelling, list(ids))):
            assert found.index.tolist() == wanted.index.tolist(), spelling
            assert found.tolist() == wanted.tolist()
        assert table(list(ids), clients=spelling).index.tolist() == list(ids)


def test_numbers_and_words_may_be_mixed_where_they_cannot_be_confused():
    mixed = table([0, 1, "x"], [0, 1, 2])
    assert mixed.index.tolist() == [0, 1, "x", 2]
    assert mixed[[0, 1]].tolist() == table([0, 1, 2], [0, 1, 2])[[0, 1]].tolist()


@pytest.mark.parametrize(
    ("ids", "others"), [([0, 1, 2], [b"0", b"1", b"2"]), ([5, 6, 7], [-1, 2, "-1"])]
)
def test_a_mix_that_cannot_be_told_apart_is_refused(ids, others):
    message = r"clients: ((-?\d) and '\2'|'(-?\d)' and \3) cannot be told apart; write one"
    with pytest.raises(ValueError, match=message):
        table(ids, others)
    with pytest.raises(ValueError, match=r"told apart|not among the clients named"):
        table(ids, clients=others)


LISTS = [{0, 1, 2}, {0: 1, 1: 2, 2: 3}, "abc", np.array([[0], [1], [2]]), {"a": 1}.keys()]
LISTS += [np.ma.masked_array([0, 1, 2], [True, False, False]), pandas.DataFrame({"id": [1, 2, 3]})]
EXPECTED = "(?:expected ids, numbers or words, )?"
FLOATS = r"got .*; write numpy\.array\(ids, dtype=numpy\.uint64\), or words"
NO_IDS = [
    *((one, "expected a list of ids, numbers or words, got ") for one in LISTS),
    (np.array([2**63, 7, 2**64 - 1]), FLOATS),  # NumPy has rounded them
    (pandas.Series([1, 0, None]), FLOATS),
    (torch.tensor([0.0, 1.0, 2.0]), FLOATS),
    (["a", None, "b"], "got None"),
    (pandas.array([0, None, 2], dtype="Int64"), "got <NA>"),
    ([True, False, 2], "got True"),
    ([b"\xff", b"a", b"b"], r"got b'\\xff'"),
    ([("a", 1), "b", "c"], r"got \('a', 1\)"),
    ([[0, 1], 2, 3], r"got \[0, 1\]"),
    (["a", "a", "b"], "the id 'a' appears twice"),
    (np.array(["b", "a", "a"]), "the id 'a' appears twice"),
    ([1, np.uint8(1), "b"], "the id 1 appears twice"),
    ([1, "1", "b"], "1 and '1' cannot be told apart"),
    (["b", "a", "a "], "'a' and 'a ' cannot be told apart"),
    (["b", "Bad Ems", "Bad\xa0Ems"], "'Bad Ems' and 'Bad.*Ems' cannot be told apart"),
    (["b", "\ufeffa", "a"], "'.*a' and 'a' cannot be told apart"),
    (["b", "Ober\xadursel", "Oberursel"], ".* cannot be told apart"),
    ([1, "1.0", "b"], "1 and '1.0' cannot be told apart"),
    ([7, "007", "b"], "7 and '007' cannot be told apart"),
    (["a", float("nan"), "b"], r"one id is missing \(NaN\)"),
    (
        ["\N{LATIN SMALL LETTER E WITH ACUTE}", "e\N{COMBINING ACUTE ACCENT}", "b"],
        r"'\\xe9' and 'e",
    ),
    (torch.empty(3, device="meta"), r"got Tensor \[\] of float32"),
]


def test_two_sources_of_ids_agree_or_are_refused():
    frame = pandas.DataFrame(UPDATES.numpy(), index=["Ulm", "Basel", "Graz"])
    rounds = [{"theta": THETA, "updates": frame, "clients": ["Basel", "Graz", "Ulm"]}]
    with pytest.raises(ValueError, match=r"clients: expected the index of updates, \[.*\], got"):
        fm.score(rounds, net=NET, validation=SAMPLES, methods=[fm.exact])


def test_large_numbers_in_words_stay_apart():
    ids = ["15264893016422851337", "15264893016422851338", "3"]
    assert table(ids).index.tolist() == ids


@pytest.mark.parametrize(("ids", "said"), NO_IDS, ids=repr)
def test_what_is_no_id_is_refused(ids, said):
    for asked in (lambda: table(ids), lambda: table([0, 1, 2], clients=ids)):
        with pytest.raises((TypeError, ValueError), match=rf"clients: {EXPECTED}{said}") as told:
            asked()
        assert len(str(told.value)) < 200
