"""Ledger: JSON lines of which each holds the hash of the one before, read by pandas."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

import fedlab_flower.ledger
from fedlab_flower.ledger import Ledger, table

ROUND = {"node": ["5", "77"], "size": [9, 4], "norm": [0.1, 1 / 3], "reply": ["a", "b"]}


def written(path, rounds: int = 5) -> list[bytes]:
    """A ledger of some rounds, and its lines."""
    ledger = Ledger(path, ["CGSV", "step cosine"])
    for t in range(ledger.rounds, rounds):
        scores = {"CGSV": [0.7, 0.3], "step cosine": [t / 7, -1e-9]}
        ledger.append(**ROUND, scores=scores, missing={"8": "no reply"} if t == 2 else {})
    return path.read_bytes().splitlines(keepends=True)


def test_pandas_reads_it(tmp_path):
    written(tmp_path / "l")
    assert len(pd.read_json(tmp_path / "l", lines=True)) == 5
    tidy = table(tmp_path / "l")
    names = ("node", "size", "norm", "CGSV", "step cosine", "reply", "round", "time", "missing")
    assert tidy.columns.tolist() == [*names]
    assert len(tidy) == 11
    assert tidy.query("node == '77'")["norm"].tolist() == [1 / 3] * 5  # to the last bit
    assert tidy.query("node == '5'")["step cosine"].tolist() == [t / 7 for t in range(5)]
    assert tidy.query("node == '8'")[["round", "missing"]].to_numpy().tolist() == [[3, "no reply"]]


def test_a_line_says_when_it_was_written_and_older_lines_are_read(tmp_path):
    line = json.loads(written(tmp_path / "l", 1)[0])
    told = datetime.fromisoformat(said := line.pop("time"))
    assert told.utcoffset() == timedelta(0)
    assert said == told.isoformat(timespec="seconds")
    assert abs(told.date() - datetime.now(UTC).date()) <= timedelta(days=1)
    (tmp_path / "old").write_text(json.dumps(line) + "\n", encoding="utf-8")  # before 3.0
    written(tmp_path / "old", 2)
    tidy = table(tmp_path / "old")
    assert str(tidy["time"].dtype).endswith(", UTC]")
    assert tidy["time"].isna().tolist() == [True, True, False, False]


def changed(line: bytes, old: str, new: str) -> bytes:
    assert line.count(old.encode()) == 1
    return line.replace(old.encode(), new.encode())


WRONG = {  # what is done to the lines, and which line is named
    "a score": (lambda ls: [*ls[:2], changed(ls[2], "0.7", "0.8"), *ls[3:]], 3),
    "a blank": (lambda ls: [changed(ls[0], '"size": ', '"size":'), *ls[1:]], 1),
    "a line less": (lambda ls: ls[:2] + ls[3:], 3),
    "two lines moved": (lambda ls: [ls[0], ls[2], ls[1], *ls[3:]], 2),
    "another number on a moved line": (
        lambda ls: [*ls[:2], changed(ls[3], '"round": 4', '"round": 3'), *ls[4:]], 2
    ),
    "no JSON": (lambda ls: [*ls[:3], b"words\n", *ls[4:]], 4),
    "half a line": (lambda ls: [*ls[:4], ls[4][:-9]], 5),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_changed_lost_or_moved_line_is_named(name, tmp_path):
    path, (change, line) = tmp_path / "l", WRONG[name]
    path.write_bytes(b"".join(change(written(path))))
    with pytest.raises(ValueError, match=rf"^{path}, line {line}: "):
        table(path)
    if name != "half a line":  # which is cut off, below
        with pytest.raises(ValueError, match=rf"^{path}, line {line}: "):
            Ledger(path, ["CGSV", "step cosine"])


def test_a_server_that_was_started_again_goes_on(tmp_path, caplog, monkeypatch):
    """Also behind half a line, which is cut off; not with other scores."""
    monkeypatch.setattr(fedlab_flower.ledger, "now", lambda: "2026-05-04T09:30:00+00:00")
    whole, path = written(tmp_path / "whole", 5), tmp_path / "l"
    written(path, 2)
    path.write_bytes(path.read_bytes() + whole[2][:50])
    assert written(path, 5) == whole
    assert "half a line is cut off" in caplog.text
    ledger = Ledger(path, ["CGSV", "step cosine"])
    scores = {"CGSV": [0.7, float("nan")], "step cosine": [0, 0]}
    with pytest.raises(ValueError, match="JSON"):  # what is not finite is not written
        ledger.append(**ROUND, scores=scores, missing={})
    assert written(path) == whole
    with pytest.raises(ValueError, match=r"^ledger: .* holds CGSV, step cosine; give these"):
        Ledger(path, ["CGSV"])


def test_a_full_disk_leaves_the_ledger_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "l"
    before, ledger = written(path), Ledger(path, ["CGSV", "step cosine"])

    def full(number: int) -> None:
        os.truncate(path, path.stat().st_size - 40)  # half a line is there
        raise OSError("No space left on device")

    scores = {"CGSV": [1, 1], "step cosine": [1, 1]}
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"^ledger: .*{path}"):
        ledger.append(**ROUND, scores=scores, missing={})
    assert path.read_bytes().splitlines(keepends=True) == before
