"""Every chapter's own checks hold away from the values it was written at."""

import re
import tomllib
from pathlib import Path

import pytest
from helpers import ALL_CASES

import chapters
import glued

TABLES = tomllib.loads(
    Path(__file__).with_name("other_parameters.toml").read_text(encoding="utf-8")
)
SOURCES = chapters.longest_first(chapters.lessons())


def tables(source):
    """A chapter's tables: one, or several where it promises a range."""
    found = TABLES[source.stem]
    return found if isinstance(found, list) else [found]


# the first of each chapter's tables; all of them with FEDLAB_ALL_CASES=1
CASES = [
    (source, other) for source in SOURCES for other in tables(source)[: None if ALL_CASES else 1]
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_values_are_declared_and_differ_from_the_committed_ones(source):
    declared = glued.parameters(chapters.read_text(source))
    assert sorted(TABLES) == sorted(source.stem for source in SOURCES)
    for other in tables(source):
        assert set(other) <= set(declared), "papermill would add a name that no cell reads"
        assert "seed" in other, "another seed is the least"
        same = [name for name, value in other.items() if declared[name] == value]
        assert not same, f"{same} have the committed values"


@pytest.mark.parametrize(("source", "other"), CASES, ids=lambda value: getattr(value, "stem", None))
def test_chapter_runs_with_other_parameters(source, other, tmp_path, own_settings):
    if why := chapters.left_out(source):
        pytest.skip(why)
    notebook = chapters.run(source, tmp_path / f"{source.stem}.ipynb", other)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")


def test_a_seed_that_shows_otherwise_is_told_in_words(tmp_path, own_settings):
    """README invites to any seed; with 42 chapter 2 once stopped at a bare assertion."""
    (source,) = chapters.sources(["02_shapley_theory"])
    said = ""
    try:
        chapters.run(source, tmp_path / "02.ipynb", {"seed": 42})
    except chapters.ChapterError as stopped:
        said = str(stopped)
    assert not re.search(r"AssertionError: *\n", said), said
