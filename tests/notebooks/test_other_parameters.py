"""Every chapter's own checks hold away from the values it was written at."""

import tomllib
from pathlib import Path

import pytest
from helpers import unless_passed

import chapters
import glued

TABLES = tomllib.loads(
    Path(__file__).with_name("other_parameters.toml").read_text(encoding="utf-8")
)
SOURCES = chapters.longest_first(chapters.sources())


def test_every_chapter_has_a_table_and_every_table_a_chapter():
    assert sorted(TABLES) == sorted(source.stem for source in SOURCES)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_values_are_declared_and_differ_from_the_committed_ones(source):
    declared, other = glued.parameters(chapters.read_text(source)), TABLES[source.stem]
    assert set(other) <= set(declared), "papermill would add a name that no cell reads"
    assert "seed" in other, "another seed is the least"
    same = [name for name, value in other.items() if declared[name] == value]
    assert not same, f"{same} have the committed values"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_chapter_runs_with_other_parameters(source, tmp_path, own_settings):
    if why := chapters.left_out(source):
        pytest.skip(why)
    other = TABLES[source.stem]
    with unless_passed(f"parameters/{source.stem}", [source], repr(other)):
        notebook = chapters.run(source, tmp_path / f"{source.stem}.ipynb", other)
        assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
