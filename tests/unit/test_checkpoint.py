"""Checkpoints: whole or not at all, never of other work, never pickled."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
import torch

from fedlab_mini import checkpoint


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
    with pytest.raises(ValueError, match=r"checkpoint: .* other work"):
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
