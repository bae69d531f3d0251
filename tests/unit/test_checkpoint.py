"""Checkpoints: whole or not at all, never of other work, never pickled."""

from __future__ import annotations

import copy
import functools
import importlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
import torch
from helpers import away, here
from torch import nn

import fedlab_mini as fm
from fedlab_bench.compare.methods import Retrained, watcher
from fedlab_mini.engine import checkpoint

compare = importlib.import_module("fedlab_bench.compare")


def test_what_is_saved_comes_back(tmp_path):
    path, values = tmp_path / "new folder" / "c.npz", np.array([1.5, np.nan])
    checkpoint.save(path, "mark", values=values, members=np.eye(2, dtype=bool))
    found = checkpoint.load(path, "mark")
    assert sorted(found) == ["members", "values"]
    np.testing.assert_array_equal(found["values"], values)
    assert found["members"].dtype == bool


def test_no_file_yet_is_nothing_saved(tmp_path):
    assert checkpoint.load(tmp_path / "none", "mark") is None


def test_other_work_is_refused(tmp_path):
    checkpoint.save(tmp_path / "c", "mark", a=np.zeros(1))
    with pytest.raises(ValueError, match=r"checkpoint: .* other work"):
        checkpoint.load(tmp_path / "c", "another mark")
    np.savez(tmp_path / "foreign.npz", a=np.zeros(1))
    with pytest.raises(ValueError, match=r"checkpoint: .* is not a checkpoint"):
        checkpoint.load(tmp_path / "foreign.npz", "mark")


def test_a_refusal_names_what_differs(tmp_path):
    def marked(strategy, net=NET, **setting):
        work = checkpoint.mark("training", seed=setting.pop("seed", 0), net=net)
        return checkpoint.mark("train", work, strategy=strategy, theta=net.init(0), **setting)

    checkpoint.save(tmp_path / "c", marked(fm.CGSV(), data=LONG), a=np.zeros(1))
    for other, words in (
        (marked(fm.CGSV(), data=LONG, seed=1), r"seed \(0, now 1\);"),
        (marked(fm.CGSV(), data=BENT), "data;"),
        (marked(fm.CGSV(per_round=3), data=LONG), r"strategy\.per_round \(None, now 3\);"),
        (marked(fm.CGSV(), net=fm.mlp(6, 4), data=LONG), "net, theta;"),
        (marked(fm.FedAvg(), data=LONG), "strategy, strategy.*"),
        (checkpoint.mark("simulate", data=LONG), r"work \(train, now simulate\);"),
        ("labels", r"work \(train, now labels\)"),
    ):
        with pytest.raises(ValueError, match=rf"^checkpoint: .* other work: {words}"):
            checkpoint.load(tmp_path / "c", other)


def test_a_refusal_names_the_data_that_a_function_refers_to(tmp_path, monkeypatch):
    checkpoint.save(tmp_path / "c", checkpoint.mark("game", value=helper), a=np.zeros(1))
    monkeypatch.setitem(globals(), "FACTOR", torch.tensor(3.0))
    with pytest.raises(ValueError, match=rf"other work: global {__name__}\.FACTOR;"):
        checkpoint.load(tmp_path / "c", checkpoint.mark("game", value=helper))


def test_a_file_of_an_older_version_is_refused(tmp_path):
    np.savez(tmp_path / "old.npz", fingerprint=np.array(["8a2f" * 16, "a"]), a=np.zeros(1))
    with pytest.raises(ValueError, match=r"checkpoint: .*old\.npz is .*one of an older version"):
        checkpoint.load(tmp_path / "old.npz", "mark")


def test_nothing_is_pickled(tmp_path):
    checkpoint.save(tmp_path / "c", "mark", a=np.zeros(2), b=np.array(3))
    with np.load(tmp_path / "c", allow_pickle=False) as file:
        assert {name: file[name].dtype.kind for name in file.files} == {
            "fingerprint": "U",
            "a": "f",
            "b": "i",
        }


class Bomb:
    """Unpickling it would leave a trace."""

    def __init__(self, path: str):
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (self.path,)


def whole_file(tmp_path) -> bytes:
    """The bytes of a good checkpoint."""
    checkpoint.save(tmp_path / "good", "mark", a=np.arange(100))
    return (tmp_path / "good").read_bytes()


@pytest.mark.parametrize("kind", ["empty", "cut", "text", "pickle", "one array"])
def test_a_file_that_is_no_checkpoint_is_refused_by_name(tmp_path, kind):
    path, trace = tmp_path / "c.npz", tmp_path / "trace"
    whole = whole_file(tmp_path)
    with open(path, "wb") as file:
        if kind == "pickle":
            pickle.dump(Bomb(str(trace)), file)
        elif kind == "one array":
            np.save(file, np.zeros(3))
        else:
            file.write({"empty": b"", "cut": whole[: len(whole) // 2], "text": b"hello"}[kind])
    with pytest.raises(ValueError, match=r"c\.npz"):
        checkpoint.load(path, "mark")
    assert not trace.exists()


def test_a_write_that_fails_leaves_the_former_file(tmp_path, monkeypatch):
    path = tmp_path / "c"
    checkpoint.save(path, "mark", a=np.zeros(2))

    def broken(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint.np, "savez", broken)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(path, "mark", a=np.ones(2))
    monkeypatch.undo()
    np.testing.assert_array_equal(checkpoint.load(path, "mark")["a"], np.zeros(2))
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_a_file_that_cannot_be_finished_leaves_nothing(tmp_path):
    for error, raised in ((OSError(28, "No space left"), OSError), (KeyError("a"), KeyError)):
        with pytest.raises(raised), checkpoint.whole_file(tmp_path / "t.csv") as part:  # noqa: PT012
            part.write_text("half")
            raise error
    with pytest.raises(OSError, match=r"^cannot write .*t\.csv .*No space left"):  # noqa: SIM117
        with checkpoint.whole_file(tmp_path / "t.csv"):
            raise OSError(28, "No space left")
    assert list(tmp_path.iterdir()) == []


def test_files_have_the_usual_permissions(tmp_path):
    before = os.umask(0o022)
    try:
        checkpoint.save(tmp_path / "c", "mark", a=np.zeros(1))
    finally:
        os.umask(before)
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o644


def test_nothing_appears_under_the_name_before_it_is_whole(tmp_path, monkeypatch):
    path, seen, real = tmp_path / "c", [], os.replace

    def look(source, target):
        with np.load(source) as file:
            seen.append((path.exists(), file["a"].tolist()))
        real(source, target)

    monkeypatch.setattr(checkpoint.os, "replace", look)
    checkpoint.save(path, "mark", a=np.ones(2))
    assert seen == [(False, [1.0, 1.0])]


def test_any_damage_is_one_clear_refusal_or_none(tmp_path):
    path, whole = tmp_path / "c.npz", whole_file(tmp_path)
    damaged = [whole[:at] for at in range(0, len(whole), 59)]
    for at in range(0, len(whole), 3):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        damaged.append(bytes(flipped))
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        for use in (checkpoint.load, checkpoint.begin):
            try:
                found = use(path, "mark")
            except ValueError as error:
                assert str(error).startswith("checkpoint: "), content  # noqa: PT017
                refused += 1
            else:  # the damage hit a byte that nobody reads
                np.testing.assert_array_equal(found["a"], np.arange(100))
    assert refused > 1.5 * len(damaged)


# --- where a checkpoint may lie ------------------------------------------------------------------


def test_other_work_is_not_overwritten(tmp_path):
    path = tmp_path / "c"
    for content in (whole_file(tmp_path), b"a letter"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^checkpoint: .* delete the file"):
            checkpoint.save(path, "another mark", a=np.zeros(1))
        assert path.read_bytes() == content


def test_a_link_is_followed(tmp_path):
    link, target = tmp_path / "link", tmp_path / "elsewhere" / "c.npz"
    link.symlink_to(target)
    for value in (1, 2):
        checkpoint.save(link, "mark", a=np.full(1, value))
        assert link.is_symlink()
        assert checkpoint.load(target, "mark")["a"].tolist() == [value]
    assert [file.name for file in target.parent.iterdir()] == ["c.npz"]


@pytest.mark.parametrize("use", [checkpoint.load, checkpoint.begin, checkpoint.save])
def test_only_files_are_checkpoints(tmp_path, use):
    os.mkfifo(tmp_path / "pipe")
    for path, error in (
        (tmp_path, ValueError),
        (tmp_path / "pipe", ValueError),
        (3.5, TypeError),
        (None, TypeError),
        ("a\0b", TypeError),
    ):
        with pytest.raises(error, match=r"^checkpoint: expected the path of a file, got "):
            use(path, "mark")


def test_what_cannot_be_written_shows_before_work_begins(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"^checkpoint: cannot write .*c\.npz"):
        checkpoint.begin(tmp_path / "file" / "c.npz", "mark")
    value = []
    with pytest.raises(OSError, match=r"^checkpoint: cannot write"):
        fm.Game(2, value.append, checkpoint=tmp_path / "file" / "c.npz").all()
    assert value == []
    assert checkpoint.begin(tmp_path / "c", "mark") is None
    assert not (tmp_path / "c").exists()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", full)
    for use in (checkpoint.begin, checkpoint.save):
        with pytest.raises(OSError, match=r"^checkpoint: cannot write .* No space left"):
            use(tmp_path / "c", "mark")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_what_killed_runs_left_is_removed_and_nothing_else(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = ["c.npz", f".{os.getpid()}.0.c.npz", ".c.npz", f".{dead.pid}.0.d.npz"]
    checkpoint.save(tmp_path / "c.npz", "mark", a=np.zeros(1))
    for name in [*kept[1:], f".{dead.pid}.0.c.npz"]:
        (tmp_path / name).touch()
    assert checkpoint.begin(tmp_path / "c.npz", "mark")["a"].tolist() == [0]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(kept)


KILLED = """
import os, signal, sys
import fedlab_mini as fm
from fedlab_mini.games import training_games as games

fed = fm.federation(fm.load("digits"), clients=9, corrupt={1: fm.sign_flip()}, seed=1)
real, calls = games.simulate, []

def counted(*arguments, **options):
    calls.append(1)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **options)

def worths(path):
    net = fm.Model(fm.mlp(64, 4, 10).module)  # its weights are random, unlike in any other process
    game = fm.retraining_game(fed, net, 1, fm.LocalSGD(steps=1), "loss", checkpoint=path)
    return game.evaluations, game.all().numpy().tobytes().hex()

games.simulate = counted
known, resumed = worths(sys.argv[1])
print(known, resumed == worths(None)[1])
"""


@pytest.mark.parametrize("die", [3])
def test_a_killed_retraining_game_goes_on_in_another_process(tmp_path, die):
    def run(die):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "c.npz"), str(die)]
        return subprocess.run(command, capture_output=True, text=True)

    assert run(die).returncode == -signal.SIGKILL
    assert run(0).stdout == f"{128 * (die - 1)} True\n"
    assert [file.name for file in tmp_path.iterdir()] == ["c.npz"]


# --- what a fingerprint tells apart ---------------------------------------------------------------


class Attack:
    """An attack, or a strategy, that holds an array."""

    def __init__(self, noise):
        self.hidden = noise


class Slots:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


def net_of(forward, option=1):
    """A model of a class that has always the same name and repr."""

    def start(self):
        nn.Module.__init__(self)
        self.layer, self.option = nn.Linear(6, 3), option

    return fm.Model(type("Net", (nn.Module,), {"__init__": start, "forward": forward})())


def counts(scale):
    def value(s):
        return helper(s.sum(1)) * scale

    return value


def helper(x):
    return x * FACTOR


FACTOR = torch.tensor(2.0)
NET = fm.mlp(6, 3)
LONG = torch.zeros(5000)
BENT = LONG.index_fill(0, torch.tensor(2500), 1)
PAIRS = {  # name: (one, its equal made again, another that looks the same)
    "forward": (
        net_of(lambda self, x: self.layer(x)),
        net_of(lambda self, x: self.layer(x)),
        net_of(lambda self, x: self.layer(x.abs())),
    ),
    "weights unused": (fm.mlp(6, 3), fm.mlp(6, 3), fm.Model(fm.mlp(6, 3).module, stacked=False)),
    "option that no repr shows": (
        net_of(nn.Module.forward, "same"),
        net_of(nn.Module.forward, "same"),
        net_of(nn.Module.forward, "valid"),
    ),
    "lambda": (lambda s: s.sum(1), lambda s: s.sum(1), lambda s: s.sum(0)),
    "closure": (counts(1.5), counts(1.5), counts(2.5)),
    "default": (lambda s, a=1: s + a, lambda s, a=1: s + a, lambda s, a=2: s + a),
    "long array": (
        Attack(LONG),
        Attack(LONG.clone()),
        Attack(BENT),
    ),
    "numpy": (np.zeros(5000), np.zeros(5000), np.eye(1, 5000, 2500)[0]),
    "slots": (Slots(1), Slots(1), Slots(2)),
    "partial": (partial(max, 1), partial(max, 1), partial(max, 2)),
    "bound": (Attack(1).__init__, Attack(1).__init__, Attack(2).__init__),
    "set": ({"a", "b"}, {"b", "a"}, {"a", "c"}),
    "map": ({"a": {1: 2}}, {"a": {1: 2}}, {"a": {1: 3}}),
    "list of lists": ([[1], [2]], [[1], [2]], [[1, 2]]),
    "own list": (torch.Size([1]), torch.Size([1]), [1]),
    "strategy": (fm.CGSV(), fm.CGSV(), fm.CGSV(per_round=3)),
    "generator": tuple(torch.Generator().manual_seed(n) for n in (1, 1, 2)),
    "attack": (fm.sign_flip(), fm.sign_flip(), fm.free_ride()),
}


@pytest.mark.parametrize("name", PAIRS)
def test_fingerprints_know_what_decides_a_result(name):
    one, same, other = (checkpoint.fingerprint(part) for part in PAIRS[name])
    assert one == same != other


def test_fingerprints_follow_what_a_function_refers_to(monkeypatch):
    found = [checkpoint.fingerprint(counts(1.0))]
    monkeypatch.setitem(globals(), "FACTOR", torch.tensor(3.0))
    found.append(checkpoint.fingerprint(counts(1.0)))
    monkeypatch.setitem(globals(), "helper", lambda x: x * FACTOR + 1)
    found.append(checkpoint.fingerprint(counts(1.0)))
    monkeypatch.setattr(fm, "__version__", "0.0.0")
    found.append(checkpoint.fingerprint(counts(1.0)))
    assert len(set(found)) == 4


def test_fingerprints_end_where_an_object_holds_itself():
    rings = [Attack([]), Attack([]), Attack([1])]
    for ring in rings:
        ring.hidden += [ring, threading.Lock()]
    one, same, other = map(checkpoint.fingerprint, rings)
    assert one == same != other


def test_fingerprints_are_the_same_in_every_process():
    code = (
        "import torch, fedlab_mini as fm; from fedlab_mini.engine.checkpoint import fingerprint\n"
        "class A(torch.nn.LSTM):\n"
        "    def forward(self, x): return fm.cosines(x) if 'q' in {'a', 'b', 'q'} else {1: print}\n"
        "made = (fm.Model(A(3, 2)), fm.FRCCE, {'x', 'y', 'z'}, fm.LocalSGD(), object())\n"
        "found = fingerprint(*made)"
    )
    assert away(code) == here(code)


def test_fingerprints_tell_everything_apart():
    one = torch.arange(4)
    works = [
        (one,),
        (one.float(),),
        (one.view(2, 2),),
        (one + 1,),
        (one, 1),
        (1, one),
        ("1", one),
        (1, 2),
        (12,),
        (),
    ]
    marks = {checkpoint.fingerprint(*work) for work in works}
    assert len(marks) == len(works)
    assert checkpoint.fingerprint(one.view(2, 2).T.contiguous().T) == checkpoint.fingerprint(
        one.view(2, 2)
    )


def test_fingerprints_read_any_layout_of_a_tensor():
    one = torch.arange(8)[::4][:1]
    assert checkpoint.fingerprint(one) == checkpoint.fingerprint(torch.zeros(1, dtype=torch.int64))
    wave = torch.tensor([1 + 2j, 3])
    assert checkpoint.fingerprint(wave.conj()) == checkpoint.fingerprint(wave.conj().resolve_conj())
    assert checkpoint.fingerprint(wave.conj()) != checkpoint.fingerprint(wave)
    checkpoint.fingerprint(torch.zeros(()), torch.zeros(0, 3), torch.zeros(2, dtype=torch.bfloat16))


def test_a_memo_is_no_part_of_a_fingerprint_nor_of_a_copy():
    full, empty = checkpoint.Memo(a=1), checkpoint.Memo()
    assert checkpoint.fingerprint(full) == checkpoint.fingerprint(empty)
    assert copy.deepcopy(full) == pickle.loads(pickle.dumps(full)) == {}


# --- a training changes no fingerprint ------------------------------------------------------------

METHODS = {name: m for name, m in compare.METHODS.items() if not isinstance(m, Retrained)}
STRATEGIES = {
    "FedAvg": fm.FedAvg(per_round=3),
    "CGSV": fm.CGSV(),
    "FRCCE": fm.FRCCE(),
    "FLDVE": fm.FLDVE(),
    "DVRLRemoval": fm.DVRLRemoval(),
    "SFedAvg": fm.SFedAvg(3),
    "LabelStandardisation": fm.LabelStandardisation(3),
}


@pytest.fixture(scope="module")
def fed():
    return fm.federation(fm.load("digits"), clients=4, samples=80, seed=0)


@pytest.mark.parametrize("name", [*STRATEGIES, *METHODS])
def test_a_training_changes_no_fingerprint_and_is_prolonged(fed, tmp_path, name):
    maker = STRATEGIES.get(name) or METHODS[name]
    net, watch = fm.mlp(64, 10), functools.partial(watcher, maker)
    run = functools.partial(fm.train, fed, net, seed=0, local=fm.LocalSGD(batch=20))
    before = checkpoint.fingerprint(maker, watch())
    run(watch(), rounds=1, checkpoint=tmp_path / "c.npz")
    assert checkpoint.fingerprint(maker, watch()) == before
    longer, whole = run(watch(), rounds=2, checkpoint=tmp_path / "c.npz"), run(watch(), rounds=2)
    torch.testing.assert_close(longer.scores, whole.scores, rtol=0, atol=0)


def test_an_interrupted_comparison_goes_on_in_the_same_process(tmp_path, monkeypatch):
    computed, real = [], compare.cell

    def counted(methods, name, make, data, seed, **setting):
        computed.append(seed)
        if seed == 1 and len(computed) == 2:
            raise KeyboardInterrupt
        return real(methods, name, make, data, seed, **setting)

    monkeypatch.setattr(compare, "cell", counted)
    some = {name: compare.METHODS[name] for name in ("Shapley", "second order")}
    run = functools.partial(
        compare.compare, some, ["wrong labels"], range(2), rounds=1, folder=tmp_path
    )
    with pytest.raises(KeyboardInterrupt):
        run()
    run()
    assert computed == [0, 1, 1]
