"""Score: recorded rounds in, a table out, the same as the training that was recorded."""

from __future__ import annotations

import functools
import pickle
import re
import weakref

import numpy as np
import pandas as pd
import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.__main__ import main

NET = fm.mlp(64, 8, 10)
LOCAL = fm.LocalSGD(epochs=1, batch=32, lr=0.3)
BOTH = [fm.CGSV(), fm.exact]


@pytest.fixture(scope="module")
def fed():
    digits, split = fm.load("digits"), fm.dirichlet_labels(0.5)
    return fm.federation(digits, clients=5, split=split, corrupt={3: fm.flip_labels(0.9)})


@pytest.fixture(scope="module")
def rounds(fed):
    """Four recorded rounds of three clients each."""
    seen, parts = [], ("theta", "updates", "sizes", "clients")

    def keep(round, step):
        seen.append({part: getattr(round, part) for part in parts})

    fm.train(fed, NET, fm.FedAvg(per_round=3), rounds=4, local=LOCAL, watch=keep)
    return seen


def scored(rounds, fed, methods=(fm.leave_one_out,), **given):
    return fm.score(rounds, net=NET, validation=fed.validation, methods=methods, **given)


def test_a_strategy_scores_as_in_its_own_training_and_an_estimator_has_its_mean(fed, rounds):
    history = fm.train(fed, NET, fm.FedAvg(per_round=3), rounds=4, local=LOCAL)
    total = torch.zeros(5, dtype=torch.float64)
    for r in rounds:
        game = fm.round_game(
            NET, r["theta"], r["updates"], *fed.validation, metric="loss", weights=r["sizes"]
        )
        total[r["clients"]] += fm.exact(game).values
    table = scored(rounds, fed, [fm.FedAvg(), fm.exact])
    np.testing.assert_allclose(table["FedAvg"], history.scores[-1])
    np.testing.assert_allclose(table["exact"], total / 4)
    assert table.index.name == "client"
    assert list(table.index) == list(range(5))
    accuracy = scored(rounds, fed, [fm.exact], metric="accuracy")
    assert not np.allclose(accuracy["exact"], table["exact"])


def test_every_form_of_a_round_gives_the_same_scores(fed, rounds, tmp_path):
    def by_name(vector):
        return dict(zip(NET.shapes, NET.split(vector), strict=True)) | {"extra": torch.ones(2)}

    def in_order(vector):
        return [part.numpy() for part in NET.split(vector)]

    def without(r, name):
        return {part: value for part, value in r.items() if part != name}

    paths = [tmp_path / f"round_{t}.npz" for t in range(4)]
    for t, r in enumerate(rounds):
        np.savez(paths[t], t=t, **{k: v.numpy() for k, v in r.items()})
    forms = [
        [dict(r, theta=by_name(r["theta"]), updates=[*map(by_name, r["updates"])]) for r in rounds],
        [dict(r, updates=[*map(in_order, r["updates"])]) for r in rounds],
        [{k: v.numpy() for k, v in r.items()} for r in rounds],
        paths,
        (r for r in rounds),  # is read once
        [rounds[0], *(without(r, "theta") for r in rounds[1:])],  # the recorder averaged as FedAvg
    ]
    expected = scored(rounds, fed, BOTH)
    for records in forms:
        pd.testing.assert_frame_equal(scored(records, fed, BOTH, clients=range(5)), expected)
    models = [without(r, "updates") | {"models": r["theta"] + r["updates"]} for r in rounds]
    np.testing.assert_allclose(scored(models, fed, BOTH), expected, atol=1e-5)
    rows = ("clients", "updates", "sizes")
    turned = [r | {part: r[part].flip(0) for part in rows} for r in rounds]
    np.testing.assert_allclose(scored(turned, fed, BOTH), expected, atol=1e-6)
    words = np.array(["north", "east", "south", "west", "hill"])
    named = [dict(r, clients=words[r["clients"]]) for r in rounds]
    found = scored(named, fed, BOTH, clients=list(words))
    np.testing.assert_array_equal(found, expected)
    assert list(found.index) == list(words)
    assert set(scored(named, fed).index) == set(words)
    moved = [dict(r, theta=r["theta"] + 0.01) for r in rounds]  # what is recorded wins
    assert not np.allclose(scored(moved, fed, BOTH), expected)
    with pytest.raises(TypeError, match="clients: this iterator is read only once"):
        scored((r for r in rounds), fed)


def test_a_client_that_sends_nonsense_is_named_and_left_out(fed, rounds):
    broken = [dict(r, updates=r["updates"].clone()) for r in rounds]
    broken[0]["updates"][1] = torch.nan
    bad = int(rounds[0]["clients"][1])
    with pytest.warns(UserWarning, match=rf"round 1: the update of \[{bad}\] is not finite"):
        table = scored(broken, fed, [fm.SFedAvg(None), fm.exact])
    assert np.isfinite(table).all(axis=None)
    alone = [dict(r, updates=torch.full_like(r["updates"], torch.inf)) for r in rounds[:1]]
    with pytest.warns(UserWarning, match="not finite"):
        assert (scored(alone, fed, [fm.exact]) == 0).all(axis=None)


def test_rounds_are_counted_and_means_are_over_them(fed, rounds):
    """One update in four rounds or in one: a missed round counts 0, or does not count."""
    first = {**rounds[0], "clients": [0, 1, 2]}
    two = {name: first[name][:2] for name in ("updates", "sizes")} | {"clients": [0, 1]}
    broken = {**first, "updates": first["updates"].clone()}
    broken["updates"][2] = torch.nan
    log = [first, first | two, {"theta": first["theta"], **two}, broken]
    methods = [fm.exact, "second order", fm.FedAvg(), fm.CGSV(), lambda round, server: round.sizes]
    told = {"methods": dict(zip("abcde", methods, strict=True)), "clients": range(4)}
    with pytest.warns(UserWarning, match="round 4: the update of"):
        table, by_round = (scored(log, fed, per=per, **told) for per in ("record", "round"))
    assert table["rounds"].tolist() == [4, 4, 1, 0]
    alone = scored([first], fed, **told)
    np.testing.assert_allclose(by_round.loc[2, list("abce")], alone.loc[2, list("abce")])
    shares = table["rounds"].clip(lower=1) / 4
    for name in "abce":
        np.testing.assert_allclose(by_round[name] * shares, table[name], atol=1e-12)
    assert by_round["d"].equals(table["d"])  # CGSV's weights are no mean over rounds


def test_every_kind_of_method_has_its_column_and_name(fed, rounds):
    def loud(round, server):
        return round.updates.norm(dim=1)

    drawn = functools.partial(fm.permutation, samples=20)
    names = ["second order", "Shapley, silent", "permutation", "loud", "rounds"]
    table = scored(rounds, fed, [*names[:2], drawn, loud])
    assert list(table) == names
    silent = fm.RoundValue(fm.exact, absent="silent")
    wanted = scored(rounds, fed, {"Second_order": fm.Taylor(), "Shapley, silent": silent})
    np.testing.assert_array_equal(table[names[:2]], wanted.iloc[:, :2])
    length = torch.zeros(5, dtype=torch.float64)
    for r in rounds:
        length[r["clients"]] += r["updates"].norm(dim=1)
    np.testing.assert_allclose(table["loud"], length / len(rounds), rtol=1e-6)
    for wrong in (["third order"], [fm.CGSV], [], [fm.CGSV(), fm.CGSV()], {"rounds": fm.exact}):
        with pytest.raises((ValueError, TypeError), match=r"^methods: "):
            scored(rounds, fed, wrong)


class Vandal(fm.RoundScore):
    """Writes into all that it is shown, in every way that torch and NumPy know."""

    def init(self, server):
        server.validation[0].zero_()
        server.validation[1].data.zero_()
        return super().init(server)

    def score(self, server, state, round):
        self.table(server, round)(torch.ones(1, len(round.clients), dtype=torch.bool))
        round.updates.zero_()
        round.theta.data.fill_(7)
        round.sizes.numpy()[:] = 1
        return torch.zeros(len(round.clients))


def spoiling(game):
    """A value that writes into the game it is asked about."""
    game.value.updates.zero_()
    game.value.theta.data.zero_()
    game.value.x.zero_()
    return fm.exact(game)


@pytest.mark.parametrize("guest", [Vandal(), spoiling])
def test_no_member_spoils_a_rivals_round(fed, rounds, guest):
    rivals = {"value": fm.exact, "CGSV": fm.CGSV(), "second": fm.Taylor()}
    before = [{k: v.clone() for k, v in r.items()} for r in rounds]
    validation = tuple(part.clone() for part in fed.validation)
    wanted = scored(rounds, fed, rivals)
    beside = scored(rounds, fed, {"guest": guest} | rivals)
    pd.testing.assert_frame_equal(beside.drop(columns="guest"), wanted)
    assert all(map(torch.equal, fed.validation, validation))
    for r, kept in zip(rounds, before, strict=True):
        assert all(torch.equal(r[key], kept[key]) for key in kept)


REFUSED = {
    "theta: the first round holds none": lambda r: [{"updates": r["updates"]}],
    "either updates or models": lambda r: [{"theta": r["theta"]}],
    "clients: expected 1 ids, one a row, got 3": lambda r: [dict(r, updates=[r["theta"]])],
    "expected 4 arrays": lambda r: [dict(r, theta=[r["theta"][:4], r["theta"][4:]])],
    "theta: holds NaN": lambda r: [dict(r, theta=r["theta"] * torch.nan)],
    "sizes: .*whole numbers in 1": lambda r: [dict(r, sizes=[2**62] * 3)],
    "t: 3 after 3": lambda r: [dict(r, t=3), dict(r, t=3)],
    "distinct client ids": lambda r: [dict(r, clients=[1, 1, 2])],
    "at least one round": lambda r: [],
    "not among the clients named": lambda r: [dict(r, clients=[0, 1, 9])],
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_bad_record_is_refused_by_name(fed, rounds, message):
    with pytest.raises((ValueError, TypeError), match=message):
        scored(REFUSED[message](rounds[0]), fed, clients=range(5))


def test_a_file_that_cannot_be_used_is_refused_by_its_name_and_key(fed, tmp_path):
    path, whole = tmp_path / "round_7.npz", np.zeros((2, NET.P))
    for told, arrays in {
        r"updates: cannot be read \(Value": {"updates": np.array([None], dtype=object)},
        "updates: expected an array": {"updates": np.zeros((2, 7))},
        "unknown keys": {"updates": whole, "k" * 50_000: np.zeros(1)},
    }.items():
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=rf"^updates\[0\]: .*round_7\.npz: {told}") as refused:
            scored([path], fed, theta=NET.init(0))
        assert len(str(refused.value)) < len(str(tmp_path)) + 250
    path.write_bytes(pickle.dumps({"updates": whole}))
    with pytest.raises(ValueError, match=r"^updates\[0\]: cannot read .*_7\.npz .*pickle"):
        scored([path], fed)


def test_one_round_is_in_memory_at_a_time(fed, rounds):
    shown = []

    def stream():
        for r in rounds:
            assert not [ref for ref in shown if ref() is not None], "a round before is held"
            updates = r["updates"].clone()
            shown.append(weakref.ref(updates))
            record = {"updates": updates, "theta": r["theta"]}
            del updates
            yield record
            del record

    scored(stream(), fed, [fm.FedAvg(), fm.exact], clients=range(3))


MINE = """import fedlab_mini as fm
class Loud(fm.RoundScore):
    def score(self, server, state, round):
        return round.updates.norm(dim=1)
def half(game):
    both = fm.exact(game)
    return type(both)(both.values / 2, both.stderr, both.evaluations)
def net():
    return [][1]
"""


def test_the_command_line_prints_and_writes_the_same_table(
    fed, rounds, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    names = [f"round_{t}.npz" for t in range(len(rounds))]
    for name, r in zip(names, rounds, strict=True):
        np.savez(name, **{k: v.numpy() for k, v in r.items()})
    x, y = fed.validation
    for name, arrays in {"validation": {"x": x, "y": y}, "no_y": {"x": x}}.items():
        np.savez(f"{name}.npz", **arrays)
    words = ["score", *names, "--net", "64,8,10", "--validation", "validation.npz"]
    own = "CGSV,Shapley_silent,exact,mine:Loud,mine:half"
    main([*words, "--methods", own, "--csv", "scores.csv"])
    assert "CGSV" in capsys.readouterr().out
    read = pd.read_csv("scores.csv", index_col="client")
    assert list(read) == ["CGSV", "Shapley_silent", "exact", "Loud", "half", "rounds"]
    expected = scored(rounds, fed, [fm.CGSV(), "Shapley, silent", fm.exact])
    np.testing.assert_array_equal(read.iloc[:, :3], expected.iloc[:, :3])
    np.testing.assert_allclose(read.half, read.exact / 2)  # for the loss
    assert (read.Loud > 0).all()
    for wrong, told in {
        ("--methods", "CGVS"): "--methods: unknown CGVS; known are size",
        ("--validation", "no_y.npz"): r"--validation: no_y\.npz: y: cannot be read",
        ("--methods", "mine:Loud,mine:Loud"): "--methods: two of one name",
    }.items():
        with pytest.raises(SystemExit) as left:
            main([*words, *wrong])
        assert left.value.code
        assert re.search(told, capsys.readouterr().err)
    with pytest.raises(IndexError, match="list index out of range"):  # with its traceback
        main([*words, "--net", "mine:net"])
