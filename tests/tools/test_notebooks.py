"""`make notebooks` replaces what it has written itself, and nothing that somebody else wrote."""

import shutil

import nbformat
import pytest

import chapters
import notebooks
import reading

(SOURCE,) = chapters.sources(["02"])


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A chapter's notebooks in a folder of their own; whoever runs a chapter fails."""
    stored = reading.places(SOURCE)
    monkeypatch.setattr(chapters, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(chapters, "run_all", lambda jobs: pytest.fail("a chapter was run"))
    made = reading.places(SOURCE)
    for old, new in zip(stored, made, strict=True):
        new.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(old, new)
    return made


def edit(path, change):
    held = nbformat.read(path, as_version=4)
    change(held)
    nbformat.write(held, path)


def note(held):
    held.cells[1].source += "\n\nA note of an afternoon"


EDITS = {
    "a note": note,
    "a text": lambda held: held.cells.append(nbformat.v4.new_markdown_cell("mine")),
    "a cell": lambda held: held.cells.insert(3, nbformat.v4.new_code_cell("mine = 1")),
    "a seed": lambda held: held.cells[2].update(source=held.cells[2].source + "\nseed = 7"),
    "a cell less": lambda held: held.cells.pop(),
    "no digest": lambda held: held.metadata.pop(reading.WRITTEN),
}


@pytest.mark.parametrize("words", [["02"], ["--prose", "02"]])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("what", [*EDITS, "cut off"])
def test_what_somebody_wrote_is_kept_and_nothing_is_run(places, what, which, words):
    path = places[which]
    if what == "cut off":
        path.write_bytes(path.read_bytes()[:999])
    else:
        edit(path, EDITS[what])
    before = [place.read_bytes() for place in places]
    with pytest.raises(SystemExit) as refused:
        notebooks.main(words)
    assert str(path.relative_to(chapters.NOTEBOOKS.parent)) in str(refused.value)
    assert f"{path.stem} (mine).ipynb" in str(refused.value)
    assert [place.read_bytes() for place in places] == before


def test_what_was_written_while_chapters_ran_is_kept_too(places, monkeypatch):
    whole = reading.compose(SOURCE)

    def meanwhile(jobs):
        edit(places[0], note)
        yield SOURCE, whole, 1.0

    monkeypatch.setattr(chapters, "run_all", meanwhile)
    with pytest.raises(SystemExit, match="notes or cells"):
        notebooks.main(["02"])
    assert "A note of an afternoon" in places[0].read_text("utf-8")


def test_what_was_only_run_is_replaced(places):
    stored = places[0].read_text("utf-8")

    def run(held):
        for cell in held.cells:
            cell.metadata["trusted"] = True
            if cell.cell_type == "code":
                cell.execution_count = 77

    edit(places[0], run)
    notebooks.main(["--prose", "02"])
    assert places[0].read_text("utf-8") == stored
