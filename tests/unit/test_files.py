"""Files: whole or not at all, under names that tell one work from another."""

from __future__ import annotations

import importlib
import os
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fedlab_mini as fm
from fedlab_mini.keep import files
from fedlab_mini.keep.files import described, read_arrays, whole_file

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


def test_what_cannot_be_written_leaves_the_former_file(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    write(path, "before")

    def full(*_):
        raise OSError(28, "No space left")

    with pytest.raises(KeyError), whole_file(path) as part:  # noqa: PT012
        part.write_text("half")
        raise KeyError
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match=r"^cannot write .*t\.csv \(.*No space left"):
        write(path, "half")
    assert path.read_text() == "before"
    assert [*tmp_path.iterdir()] == [path]


# --- what is read --------------------------------------------------------------------------------


class Bomb:
    """Unpickling it would leave a trace."""

    def __init__(self, path: str):
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (self.path,)


def test_a_file_that_holds_no_arrays_is_refused_by_name_and_runs_nothing(tmp_path):
    path, trace = tmp_path / "c.npz", tmp_path / "trace"
    np.savez(path, a=np.arange(100))
    whole = path.read_bytes()
    assert read_arrays("here", path)["a"].tolist() == [*range(100)]
    damaged = whole[:400] + b"damage" + whole[406:]
    for content in (pickle.dumps(Bomb(str(trace))), b"", b"hello", whole[:-59], damaged):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^here: .*c\.npz is damaged or not a file of this"):
            read_arrays("here", path)
    assert not trace.exists()


# --- settings in words ---------------------------------------------------------------------------


class Option:
    """An attack, or a strategy, without a repr of its own."""

    def __init__(self, value):
        self.value = value


def scaled(scale):
    def value(s):
        return s.sum(1) * scale

    return value


def doubled(s, by=2):
    return s.sum(1) * by


def tripled(s, by=3):
    return s.sum(1) * by


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
    "long array": (Option(LONG), Option(LONG.clone()), Option(BENT)),
    "kind of number": (LONG, LONG.clone(), LONG.double()),
    "layout": (BENT.view(50, 100).T, BENT.view(50, 100).T.clone(), BENT.view(100, 50)),
    "set": ({0, 8}, {8, 0}, {0, 16}),  # these sets have other orders
    "map of lists": ({"a": [[1], [2]]}, {"a": [[1], [2]]}, {"a": [[1, 2]]}),
    "strategy": (
        fm.methods.RoundValue(doubled),
        fm.methods.RoundValue(doubled),
        fm.methods.RoundValue(tripled),
    ),
    "attack": (fm.attacks.SignFlip(), fm.attacks.SignFlip(), fm.attacks.FreeRide()),
    "module": (nn.Dropout(0.5), nn.Dropout(0.5), nn.Dropout(0.25)),
    "buffer": (shifted(1.0), shifted(1.0), shifted(2.0)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_words_tell_apart_what_decides_a_result(name):
    one, same, other = map(described, PAIRS[name])
    assert one == same != other


OWN_CODE = """
import dataclasses

def helper(x):
    return 2 * x

def metric(outputs, y):
    return helper(outputs)

@dataclasses.dataclass(frozen=True)
class Attack:
    strength: float = 1.0

    def __call__(self, updates):
        return helper(updates) * self.strength

class Later(Attack):
    pass

print("an unrelated line")
"""


@pytest.mark.parametrize("edit", ["2 * x", "* self.strength", "an unrelated line"])
def test_own_code_is_told_apart_by_what_it_runs(edit, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def words(version, text):
        (tmp_path / f"own_{version}.py").write_text(text)
        own = importlib.import_module(f"own_{version}")
        parts = own.metric, own.Attack(), own.Later()
        return [described(part).replace(f"own_{version}", "own") for part in parts]

    name = abs(hash(edit))
    before, again = words(f"{name}_a", OWN_CODE), words(f"{name}_b", OWN_CODE)
    after = words(f"{name}_c", OWN_CODE.replace(edit, f"{edit} + 1" if "*" in edit else "other"))
    assert before == again
    changed = [one != other for one, other in zip(before, after, strict=True)]
    assert (
        changed
        == {
            "2 * x": [True, True, True],
            "* self.strength": [False, True, True],
            "an unrelated line": [False, False, False],
        }[edit]
    )


def test_a_lambda_has_no_name():
    for hide in (lambda f: f, partial, Option, lambda f: {"a": [f]}):
        with pytest.raises(ValueError, match=r"^a lambda \(.*\) has no name .* write a def"):
            described(hide(lambda s: s.sum(1)))
