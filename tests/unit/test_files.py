"""Files: whole or not at all, under names that tell one work from another; no kill costs much."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import away, here
from torch import nn

import fedlab_mini as fm
from fedlab_mini.engine import files
from fedlab_mini.engine.files import Cache, described, read_arrays, whole_file

# --- whole or not at all -------------------------------------------------------------------------


def write(path: Path, text: str) -> None:
    with whole_file(path) as part:
        part.write_text(text)


def test_nothing_appears_under_the_name_before_it_is_whole(tmp_path, monkeypatch):
    path, seen, real = tmp_path / "new" / "folder" / "t.csv", [], os.replace

    def look(source, target):
        seen.append((target.exists(), Path(source).read_text()))
        real(source, target)

    monkeypatch.setattr(files.os, "replace", look)
    write(path, "all of it")
    assert seen == [(False, "all of it")]
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("error", [OSError(28, "No space left"), KeyError("a")])
@pytest.mark.parametrize("moment", ["while it is written", "at its end"])
def test_what_cannot_be_written_leaves_the_former_file(tmp_path, monkeypatch, moment, error):
    path = tmp_path / "t.csv"
    write(path, "before")

    def full(*_):
        raise error

    if moment == "at its end":
        monkeypatch.setattr(files.os, "fsync", full)
    said = r"^cannot write .*t\.csv \(.*No space left" if isinstance(error, OSError) else "a"
    with pytest.raises(type(error), match=said), whole_file(path) as part:  # noqa: PT012
        part.write_text("half")
        if moment == "while it is written":
            full()
    assert path.read_text() == "before"
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_clear_error(tmp_path):
    with pytest.raises(OSError, match=r"^cannot write .*t\.csv"):  # noqa: PT012, SIM117
        with whole_file(tmp_path / "t.csv") as part:
            part.symlink_to("/dev/full")
            part.write_text("x" * 100_000)
    assert [*tmp_path.iterdir()] == []


WRITING = """
import pathlib, sys, time
from fedlab_mini.engine.files import whole_file
with whole_file(pathlib.Path(sys.argv[1])) as part, open(part, "w") as file:
    file.write("half")
    file.flush()
    print("begun", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_leaves_the_former_file(tmp_path):
    path = tmp_path / "t.csv"
    write(path, "before")
    command = [sys.executable, "-c", WRITING, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writing:
        assert writing.stdout.readline() == "begun\n"
        writing.kill()
    assert path.read_text() == "before"
    write(path, "after")
    assert path.read_text() == "after"


def test_files_have_the_usual_permissions(tmp_path):
    before = os.umask(0o022)
    try:
        write(tmp_path / "c", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o644


# --- what is read --------------------------------------------------------------------------------


class Bomb:
    """Unpickling it would leave a trace."""

    def __init__(self, path: str):
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (self.path,)


def good(tmp_path: Path) -> bytes:
    """The bytes of a sound file of arrays."""
    np.savez(tmp_path / "good.npz", a=np.arange(100))
    return (tmp_path / "good.npz").read_bytes()


@pytest.mark.parametrize("kind", ["empty", "cut", "text", "pickle", "one array"])
def test_a_file_that_holds_no_arrays_is_refused_by_name(tmp_path, kind):
    path, trace, whole = tmp_path / "c.npz", tmp_path / "trace", good(tmp_path)
    with open(path, "wb") as file:
        if kind == "pickle":
            pickle.dump(Bomb(str(trace)), file)
        elif kind == "one array":
            np.save(file, np.zeros(3))
        else:
            file.write({"empty": b"", "cut": whole[: len(whole) // 2], "text": b"hello"}[kind])
    with pytest.raises(ValueError, match=r"^here: .*c\.npz is damaged, or no file of this kind"):
        read_arrays("here", path)
    assert not trace.exists()
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        read_arrays("here", tmp_path / "none.npz")


def test_any_damage_is_one_clear_refusal_or_none(tmp_path):
    path, whole = tmp_path / "c.npz", good(tmp_path)
    damaged = [whole[:at] for at in range(0, len(whole), 59)]
    for at in range(0, len(whole), 3):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        damaged.append(bytes(flipped))
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            found = read_arrays("here", path)
        except ValueError as error:
            assert str(error).startswith("here: "), content  # noqa: PT017
            refused += 1
        else:  # the damage hit a byte that nobody reads
            assert all(a.tolist() == [*range(100)] for a in found.values())
    assert refused > 0.75 * len(damaged)


# --- settings in words ---------------------------------------------------------------------------


class Option:
    """An attack, or a strategy, without a repr of its own."""

    def __init__(self, value):
        self.value = value


def scaled(scale):
    def value(s):
        return s.sum(1) * scale

    return value


def doubled(s):
    return s.sum(1) * 2


def tripled(s):
    return s.sum(1) * 3


def shifted(by: float) -> nn.Module:
    module = nn.Linear(2, 2)
    module.register_buffer("shift", torch.full((2,), by))
    return module


LONG = torch.zeros(5000)
BENT = LONG.index_fill(0, torch.tensor(2500), 1)
PAIRS = {  # name: (one, its equal made again, another that looks much the same)
    "function": (doubled, doubled, tripled),
    "closure": (scaled(1.5), scaled(1.5), scaled(2.5)),
    "partial": (partial(doubled, 1), partial(doubled, 1), partial(doubled, 2)),
    "class": (fm.FLDVE, fm.FLDVE, fm.DVRLRemoval),
    "long array": (Option(LONG), Option(LONG.clone()), Option(BENT)),
    "kind of number": (LONG, LONG.clone(), LONG.double()),
    "shape": (LONG, LONG.clone(), LONG[None]),
    "layout": (BENT.view(50, 100).T, BENT.view(50, 100).T.clone(), BENT.view(100, 50)),
    "numpy": (np.zeros(5000), np.zeros(5000), np.eye(1, 5000, 2500)[0]),
    "set": ({"a", "b"}, {"b", "a"}, {"a", "c"}),
    "map": ({"a": {1: 2}}, {"a": {1: 2}}, {"a": {1: 3}}),
    "list of lists": ([[1], [2]], [[1], [2]], [[1, 2]]),
    "word": (1, 1, "1"),
    "strategy": (fm.CGSV(), fm.CGSV(), fm.CGSV(per_round=3)),
    "value of a strategy": (
        fm.RoundValue(doubled),
        fm.RoundValue(doubled),
        fm.RoundValue(tripled),
    ),
    "attack": (fm.sign_flip(), fm.sign_flip(), fm.free_ride()),
    "module": (nn.Dropout(0.5), nn.Dropout(0.5), nn.Dropout(0.25)),
    "weights": (nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 3)),
    "buffer": (shifted(1.0), shifted(1.0), shifted(2.0)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_words_tell_apart_what_decides_a_result(name):
    one, same, other = map(described, PAIRS[name])
    assert one == same != other


def test_words_are_the_same_in_every_process():
    program = """
from functools import partial
import torch, fedlab_mini as fm
from fedlab_mini.engine.files import described
class Attack:
    def __init__(self): self.noise = torch.arange(9.0)
made = [Attack(), {"x", "y", "zz", "q"}, {"b": 1, "a": fm.FRCCE}, fm.mlp(4, 3).module]
made += [partial(fm.permutation, samples=3), fm.SFedAvg(by_class=True), fm.RoundValue(fm.banzhaf)]
found = described(made)
"""
    assert away(program) == here(program)


@pytest.mark.parametrize("hide", [lambda f: f, partial, Option, lambda f: {"a": [f]}])
def test_a_lambda_has_no_name(hide):
    with pytest.raises(ValueError, match=r"^a lambda \(.*\) has no name .* write a def"):
        described(hide(lambda s: s.sum(1)))


# --- finished blocks -----------------------------------------------------------------------------

FED = fm.federation(fm.load("digits"), clients=4, samples=80, seed=0)
NET = fm.mlp(64, 3, 10)


def test_what_is_saved_is_found_by_the_same_work_and_the_same_arrays(tmp_path):
    block = torch.eye(3, dtype=torch.bool)
    known, same = Cache(tmp_path / "new" / "folder", ("work", 1)), ("work", 1)
    assert known.load(block) is None
    known.save({"a": np.array([1.5, np.nan])}, block)
    again = Cache(str(tmp_path / "new" / "folder"), same)
    np.testing.assert_array_equal(again.load(block.clone())["a"], [1.5, np.nan])
    assert again.load(block.long()) is None
    assert again.load(block, block) is None
    assert Cache(known.folder, ("work", 2)).load(block) is None
    assert len([*known.folder.iterdir()]) == 1


def test_a_cache_says_what_it_cannot_use(tmp_path):
    (tmp_path / "file").touch()
    for folder, error in ((3.5, TypeError), (None, TypeError), (tmp_path / "file", ValueError)):
        with pytest.raises(error, match=r"^cache: expected a folder, got "):
            Cache(folder, "work")
    with pytest.raises(ValueError, match=r"^cache: a lambda"):
        Cache(tmp_path, lambda: None)
    shares, block = torch.ones(1, 1, 4), torch.ones(2)
    cache = Cache(tmp_path / "c", "work")
    cache.folder.mkdir()
    cache.path(block).write_bytes(b"a letter")
    with pytest.raises(ValueError, match=rf"^cache: .*{cache.path(block).name} is damaged"):
        cache.load(block)
    with pytest.raises(OSError, match=r"^cache: cannot write .*\.npz"):
        fm.simulate(FED, NET, shares, cache=tmp_path / "file" / "c")


@pytest.mark.parametrize(
    "options", [{"seed": 1}, {"metric": "loss"}, {"on": "test"}, {"last": True}], ids=str
)
def test_another_setting_is_not_taken_for_this_one(tmp_path, options):
    shares = torch.ones(2, 2, 4)
    fm.simulate(FED, NET, shares, cache=tmp_path)
    found = fm.simulate(FED, NET, shares, cache=tmp_path, **options)
    assert torch.equal(found, fm.simulate(FED, NET, shares, **options))
    assert len([*tmp_path.iterdir()]) == 2


KILLED = """
import hashlib, os, signal, sys
import torch, fedlab_mini as fm
from fedlab_mini.engine.simulate import Simulation

work, folder, log, last = sys.argv[1:]
real = Simulation.run_block

def counted(self, block):
    with open(log, "a") as file:
        file.write("block\\n")
    found = real(self, block)
    if len(open(log).readlines()) == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
    return found

Simulation.run_block = counted
options = {"clients": 8, "samples": 80, "corrupt": {1: fm.sign_flip()}}
fed = fm.federation(fm.load("digits"), **options, seed=1)
net, local = fm.mlp(64, 4, 10), fm.LocalSGD(steps=1)
draw = torch.Generator().manual_seed(0)
shares = torch.rand(250, 2, 8, generator=draw) < 0.5
for cache in (folder, None):
    if work == "simulate":
        found = fm.simulate(fed, net, shares, local=local, metric="loss", cache=cache)
    else:
        found = fm.retraining_game(fed, net, 2, local, "loss", cache=cache).all()
    print(hashlib.sha256(found.numpy().tobytes()).hexdigest())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such kill there")
@pytest.mark.parametrize("work", ["simulate", "game"])
def test_a_kill_costs_a_block_of_32_runs_at_most(tmp_path, work):
    """Killed at the end of its third block of eight, and ended by another process."""
    folder, log = tmp_path / "blocks", tmp_path / "log"

    def run(last: int) -> subprocess.CompletedProcess:
        command = [sys.executable, "-c", KILLED, work, str(folder), str(log), str(last)]
        env = os.environ | {"PYTHONHASHSEED": str(last)}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert run(3).returncode == -signal.SIGKILL
    assert len(log.read_text().split()) == 3
    ended = run(0)
    assert ended.returncode == 0, ended.stderr
    assert len(log.read_text().split()) == 3 + 6 + 8  # the last eight without the folder
    assert len([*folder.iterdir()]) == 8
    with_folder, without = ended.stdout.split()
    assert with_folder == without
