"""Checkpoints: whole or not at all, never of other work, never pickled."""

from __future__ import annotations

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
from fedlab_mini.engine import checkpoint


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
    kept = ["c.npz", f"c.npz.{os.getpid()}.abc.part", "c.npz.part", f"d.npz.{dead.pid}.abc.part"]
    checkpoint.save(tmp_path / "c.npz", "mark", a=np.zeros(1))
    for name in [*kept[1:], f"c.npz.{dead.pid}.abc.part"]:
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
