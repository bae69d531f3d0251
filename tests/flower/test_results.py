"""The tables of a federation's folder: added to round by round, whole whatever happens."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fedlab_mini as fm

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from nodes import SIZES, Grid, identity, over_nodes

assert identity  # a fixture of every test here


def test_a_round_adds_its_rows_and_touches_no_other(make_fed, tmp_path):
    """The bytes of a table that is written at once; a new start repairs what was cut."""
    fed, path, seen = make_fed(SIZES), tmp_path / "scores.csv", []

    class Looks(Grid):
        def send_and_receive(self, messages, *, timeout=None):
            if self.t and path.exists():
                seen.append((path.stat().st_ino, path.read_bytes()))
            return super().send_and_receive(messages, timeout=timeout)

    given = {"results": tmp_path, "checkpoint": tmp_path / "c.npz"}
    history = over_nodes(fed, fm.mlp(6, 4, 3), fm.CGSV(), 4, grid=Looks, **given)
    wanted = history.to_frame().to_csv(index=False, lineterminator="\n").encode()
    assert path.read_bytes() == wanted
    assert len({inode for inode, _ in seen}) == 1
    assert all(wanted.startswith(found) for _, found in seen)
    path.write_bytes(wanted[:-9])
    history = over_nodes(fed, fm.mlp(6, 4, 3), fm.CGSV(), 6, **given)
    wanted = history.to_frame().to_csv(index=False, lineterminator="\n").encode()
    assert path.read_bytes() == wanted


def test_rows_that_find_no_room_leave_the_table_as_it_was(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("round\n1\n")
    code = (
        "import pathlib, resource, signal\n"
        "from fedlab_flower.results import add_rows\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        f"add_rows(pathlib.Path({str(path)!r}), bytes(200))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"OSError: cannot write {path}" in done.stderr
    assert path.read_text() == "round\n1\n"
