"""Numbers of the paper-scale runs: found from a chapter's folder or where the user says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedlab_mini import results

ROOT = Path(__file__).resolve().parents[2]
RUN = {"values": {"auc": 0.75}, "parameters": {"seed": 3}, "version": "1.2", "seconds": 60}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with the results of one chapter, named by the environment."""
    (tmp_path / "99_chapter.json").write_text(json.dumps(RUN))
    monkeypatch.setenv("FEDLAB_RESULTS", str(tmp_path))
    return tmp_path


def test_a_table_of_two_runs(folder):
    assert results.paper_run("99_chapter") == RUN
    told = results.beside("99_chapter", {"auc": 0.5}).splitlines()
    assert told[1].split() == ["auc", "0.50", "0.75"]
    assert told[2] == "(paper scale: fedlab_mini 1.2, seed 3, 60 seconds)"
    with pytest.raises(KeyError, match="loss"):
        results.beside("99_chapter", {"loss": 0.5})


def test_a_missing_run_says_how_to_get_it(folder):
    with pytest.raises(FileNotFoundError, match=r"98_chapter\.json; `make paper` .*FEDLAB_RESULTS"):
        results.paper_run("98_chapter")


def test_a_chapter_finds_its_run_from_its_own_folder(monkeypatch):
    monkeypatch.delenv("FEDLAB_RESULTS", raising=False)
    monkeypatch.chdir(ROOT / "notebooks")
    assert results.paper_run("02_shapley_theory")["chapter"] == "02_shapley_theory"
