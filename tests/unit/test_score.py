"""Score: recorded rounds in, a table out, the same as the training that was recorded."""

from __future__ import annotations

import functools
import pickle
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.__main__ import main

NET = fm.mlp(64, 8, 10)
LOCAL = fm.LocalSGD(epochs=1, batch=32, lr=0.3)


@pytest.fixture(scope="module")
def fed():
    split = fm.dirichlet_labels(0.5)
    return fm.federation(
        fm.load("digits"), clients=5, split=split, corrupt={3: fm.flip_labels(0.9)}
    )


@pytest.fixture(scope="module")
def rounds(fed):
    """Six recorded rounds of three clients each."""
    seen, parts = [], ("theta", "updates", "sizes", "clients")

    def keep(round, step):
        seen.append({part: getattr(round, part) for part in parts})

    fm.train(fed, NET, fm.FedAvg(per_round=3), rounds=6, local=LOCAL, watch=keep)
    return seen


def scored(rounds, fed, methods=(fm.leave_one_out,), **given):
    return fm.score(rounds, net=NET, validation=fed.validation, methods=methods, **given)


def test_a_watching_strategy_scores_as_in_its_own_training(fed, rounds):
    history = fm.train(fed, NET, fm.FedAvg(per_round=3), rounds=6, local=LOCAL)
    table = scored(rounds, fed, [fm.FedAvg()])
    np.testing.assert_allclose(table["FedAvg"], history.scores[-1])


def test_an_estimator_is_the_mean_over_all_rounds(fed, rounds):
    total = torch.zeros(5, dtype=torch.float64)
    for r in rounds:
        game = fm.round_game(
            NET, r["theta"], r["updates"], *fed.validation, metric="loss", weights=r["sizes"]
        )
        total[r["clients"]] += fm.exact(game).values
    table = scored(rounds, fed, [fm.exact], metric="loss")
    np.testing.assert_allclose(table["exact"], total / 6)
    assert table.index.name == "client"
    assert list(table.index) == list(range(5))


def test_the_recorded_model_wins_over_the_one_computed(fed, rounds):
    bare = [{k: v for k, v in r.items() if k != "theta"} for r in rounds]
    computed = scored(bare, fed, [fm.exact], theta=rounds[0]["theta"], metric="loss")
    recorded = scored(rounds, fed, [fm.exact], metric="loss")
    pd.testing.assert_frame_equal(computed, recorded)  # the recorder averaged as FedAvg does
    moved = [dict(r, theta=r["theta"] + 0.01) for r in rounds]
    other = scored(moved, fed, [fm.exact], metric="loss")
    assert float((other - recorded)["exact"].abs().max()) > 1e-6


def test_every_form_of_a_round_gives_the_same_scores(fed, rounds, tmp_path):
    expected = scored(rounds, fed, [fm.CGSV(), fm.exact])

    def by_name(vector):
        return dict(zip(NET.shapes, NET.split(vector), strict=True)) | {"extra": torch.ones(2)}

    def in_order(vector):
        return [part.numpy() for part in NET.split(vector)]

    paths = []
    for t, r in enumerate(rounds):
        paths.append(tmp_path / f"round_{t:03d}.npz")
        np.savez(paths[-1], t=t, **{k: v.numpy() for k, v in r.items()})
    forms = {
        "state dicts": [
            dict(r, theta=by_name(r["theta"]), updates=[*map(by_name, r["updates"])])
            for r in rounds
        ],
        "lists of arrays": [dict(r, updates=[*map(in_order, r["updates"])]) for r in rounds],
        "numpy": [{k: v.numpy() for k, v in r.items()} for r in rounds],
        "files": paths,
    }
    for form, records in forms.items():
        pd.testing.assert_frame_equal(scored(records, fed, [fm.CGSV(), fm.exact]), expected), form
    models = [
        {k: v for k, v in r.items() if k != "updates"} | {"models": r["theta"] + r["updates"]}
        for r in rounds
    ]
    close = scored(models, fed, [fm.CGSV(), fm.exact])
    np.testing.assert_allclose(close, expected, atol=1e-5)


def test_names_are_ids_and_order_is_no_matter(fed, rounds):
    words = np.array(["north", "east", "south", "west", "hill"])
    named = [dict(r, clients=words[r["clients"]]) for r in rounds]
    expected = scored(rounds, fed, [fm.CGSV(), fm.exact])
    found = scored(named, fed, [fm.CGSV(), fm.exact], clients=list(words))
    np.testing.assert_array_equal(found, expected)
    assert list(found.index) == list(words)
    turned = [
        dict(
            r, clients=r["clients"].flip(0), updates=r["updates"].flip(0), sizes=r["sizes"].flip(0)
        )
        for r in rounds
    ]
    np.testing.assert_allclose(scored(turned, fed, [fm.CGSV(), fm.exact]), expected, atol=1e-6)
    assert set(scored(named, fed).index) == set(words)


def test_a_generator_is_read_once_and_a_strategy_may_score_twice(fed, rounds):
    mine = fm.CGSV()
    table = scored((r for r in rounds), fed, [mine], clients=range(5))
    pd.testing.assert_frame_equal(table, scored(rounds, fed, [mine]))
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
    told |= {"net": NET, "validation": fed.validation}
    with pytest.warns(UserWarning, match="round 4: the update of"):
        table = fm.score(log, **told)
    assert table["rounds"].tolist() == [4, 4, 1, 0]
    with pytest.warns(UserWarning, match="round 4: the update of"):
        by_round = fm.score(log, per="round", **told)
    alone = fm.score([first], **told)
    np.testing.assert_allclose(by_round.loc[2, list("abce")], alone.loc[2, list("abce")])
    shares = table["rounds"].clip(lower=1) / 4
    for name in "abce":
        np.testing.assert_allclose(by_round[name] * shares, table[name], atol=1e-12)
    assert by_round["d"].equals(table["d"])  # CGSV's weights are no mean over rounds


def test_every_kind_of_method_has_its_column_and_name(fed, rounds):
    def loud(round, server):
        return round.updates.norm(dim=1)

    drawn = functools.partial(fm.permutation, samples=20)
    names = ["second order", "Shapley, silent", "CGSV", "permutation", "loud", "rounds"]
    table = scored(rounds, fed, [*names[:2], fm.CGSV(), drawn, loud])
    assert list(table) == names
    silent = fm.RoundValue(fm.exact, absent="silent")
    named = {"Second_order": fm.Taylor(), "Shapley, silent": silent, "other": fm.CGSV(gamma0=0.9)}
    wanted = scored(rounds, fed, named)
    np.testing.assert_array_equal(table[names[:2]], wanted[[*named][:2]])
    assert not np.allclose(table["CGSV"], wanted["other"])
    length = torch.zeros(5, dtype=torch.float64)
    for r in rounds:
        length[r["clients"]] += r["updates"].norm(dim=1)
    np.testing.assert_allclose(table["loud"], length / len(rounds), rtol=1e-6)
    for wrong in (["third order"], [fm.CGSV], [], [fm.CGSV(), fm.CGSV()], {"rounds": fm.exact}):
        with pytest.raises((ValueError, TypeError), match=r"^methods: "):
            scored(rounds, fed, wrong)


def test_worth_is_minus_the_loss_unless_asked_otherwise(fed, rounds):
    pd.testing.assert_frame_equal(scored(rounds, fed), scored(rounds, fed, metric="loss"))
    assert not np.allclose(scored(rounds, fed, metric="accuracy"), scored(rounds, fed))


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


def smashing(round, server):
    server.validation[0].zero_()
    return round.updates.zero_().sum(1)


@pytest.mark.parametrize("guest", [Vandal(), spoiling, fm.RoundValue(spoiling), smashing])
def test_no_member_spoils_a_rivals_round(fed, rounds, guest):
    rivals = {"value": fm.exact, "CGSV": fm.CGSV(), "second": fm.Taylor(), "GTG": fb.GTGShapley()}
    bare = [{k: v for k, v in r.items() if k != "theta"} for r in rounds]
    given = {"net": NET, "theta": rounds[0]["theta"], "clients": range(5)}
    before = [{k: v.clone() for k, v in r.items()} for r in bare]
    x, y = (part.clone() for part in fed.validation)
    wanted = fm.score(bare, validation=(x, y), methods=rivals, **given)
    beside = fm.score(bare, validation=(x, y), methods={"guest": guest} | rivals, **given)
    pd.testing.assert_frame_equal(beside.drop(columns="guest"), wanted)
    assert torch.equal(x, fed.validation[0])
    assert torch.equal(y, fed.validation[1])
    for r, kept in zip(bare, before, strict=True):
        assert all(torch.equal(r[key], kept[key]) for key in kept)


REFUSED = {
    "theta: the first round holds none": lambda r: [{"updates": r["updates"]}],
    "unknown keys": lambda r: [dict(r, size=[1, 2, 3])],
    "either updates or models": lambda r: [{"theta": r["theta"]}],
    "clients: expected 1 ids, one a row, got 3": lambda r: [dict(r, updates=[r["theta"]])],
    "updates: expected a row a client, got none": lambda r: [r, {"updates": []}],
    "lacks the parameters": lambda r: [dict(r, theta={"0.weight": r["theta"]})],
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


IN_FILES = {
    r"updates: cannot be read \(ValueError: Object": {"updates": np.array([None], dtype=object)},
    "updates: expected an array": {"updates": np.zeros((2, 7))},
    "unknown keys": {"updates": np.zeros((2, NET.P)), "k" * 50_000: np.zeros(1)},
}


@pytest.mark.parametrize("told", IN_FILES)
def test_a_file_that_cannot_be_used_is_refused_by_its_name_and_key(fed, tmp_path, told):
    path = tmp_path / "round_7.npz"
    np.savez(path, **IN_FILES[told])
    with pytest.raises(ValueError, match=rf"^updates\[0\]: .*round_7\.npz: {told}") as refused:
        scored([path], fed, theta=NET.init(0))
    assert len(str(refused.value)) < len(str(tmp_path)) + 250


def test_no_pickle_is_opened(fed, tmp_path):
    (tmp_path / "a.npz").write_bytes(pickle.dumps({"updates": np.zeros((3, NET.P))}))
    with pytest.raises(ValueError, match=r"^updates\[0\]: cannot read .*a\.npz .*pickle"):
        scored([tmp_path / "a.npz"], fed)


MINE = """import fedlab_mini as fm
class Loud(fm.RoundScore):
    def score(self, server, state, round):
        return round.updates.norm(dim=1)
def loud(round, server):
    return round.updates.norm(dim=1)
def half(game):
    both = fm.exact(game)
    return type(both)(both.values / 2, both.stderr, both.evaluations)
"""


def test_the_command_line_prints_and_writes_the_same_table(
    fed, rounds, tmp_path, capsys, monkeypatch
):
    names = []
    for t, r in enumerate(rounds):
        names.append(str(tmp_path / f"round_{t:03d}.npz"))
        np.savez(names[-1], **{k: v.numpy() for k, v in r.items()})
    np.savez(tmp_path / "validation.npz", x=fed.validation[0], y=fed.validation[1])
    words = ["--net", "64,8,10", "--validation", str(tmp_path / "validation.npz")]
    out = tmp_path / "scores.csv"
    main(["score", *names, *words, "--methods", "CGSV,exact", "--csv", str(out)])
    assert "CGSV" in capsys.readouterr().out
    expected = scored(rounds, fed, [fm.CGSV(), fm.exact])
    pd.testing.assert_frame_equal(pd.read_csv(out, index_col="client"), expected)
    (tmp_path / "breaks.py").write_text("def net():\n    return [][1]\n")
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    own = "second_order,Shapley_silent,mine:Loud,mine:loud,mine:half"
    main(["score", *names, *words, "--methods", own, "--csv", str(out)])
    read = pd.read_csv(out, index_col="client")
    assert list(read) == ["second_order", "Shapley_silent", "Loud", "loud", "half", "rounds"]
    paying = scored(rounds, fed, ["second order", "Shapley, silent", fm.exact])
    np.testing.assert_allclose(read[["second_order", "Shapley_silent"]], paying.iloc[:, :2])
    np.testing.assert_allclose(read.half, paying.exact / 2)  # for the loss
    np.testing.assert_allclose(read.Loud, read.loud)
    assert (read.loud > 0).all()
    np.savez("no_y.npz", x=fed.validation[0])
    np.savez("short.npz", x=fed.validation[0], y=[0])
    for wrong, told in {
        ("--methods", "CGVS"): "--methods: unknown CGVS; known are size",
        ("--validation", "no_y.npz"): r"--validation: no_y\.npz: y: cannot be read",
        ("--validation", "short.npz"): r"--validation: short\.npz: y: expected an array",
        ("--methods", "mine:Loud,mine:Loud"): "--methods: two of one name",
    }.items():
        with pytest.raises(SystemExit) as left:
            main(["score", *names, *words, *wrong])
        assert left.value.code
        assert re.search(told, capsys.readouterr().err)
    with pytest.raises(IndexError, match="list index out of range"):  # with its traceback
        main(["score", *names, *words, "--net", "breaks:net"])


MEMORY = """
import sys
import numpy as np, torch
import fedlab_mini as fm
path, net = sys.argv[1], fm.mlp(64, 5_333, 10)
np.savez(path, updates=np.broadcast_to(np.float32(1e-3), (32, net.P)), clients=np.arange(32))
given = {"net": net, "validation": (torch.ones(9, 64), torch.arange(9)), "theta": net.init(0)}

def peak(rounds):
    if rounds:
        fm.score([path] * rounds, methods=[fm.FedAvg()], **given)
    return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) >> 10

print(*map(peak, (0, 1, 8)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_one_round_is_in_memory_at_a_time(tmp_path):
    """A round of 32 clients with 400,000 parameters has 49 MiB; eight of them would have 390."""
    words = [sys.executable, "-c", MEMORY, str(tmp_path / "round.npz")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    before, one, many = map(int, done.stdout.split())
    assert many - one < 45
    assert many - before < 110
