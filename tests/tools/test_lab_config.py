"""`make lab` signs the book's own notebooks, and starts whatever else lies beside them."""

import runpy
import shutil

import nbformat
import pytest
from nbformat.sign import NotebookNotary
from traitlets.config import Config

import chapters


@pytest.fixture
def started(tmp_path, monkeypatch):
    """The configuration run in a folder with a chapter, a stranger's notebook and broken ones."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    config = tmp_path / "tools" / "jupyter" / "jupyter_lab_config.py"
    for folder in (config.parent, tmp_path / "book" / "chapters", tmp_path / "notebooks"):
        folder.mkdir(parents=True)
    shutil.copy(chapters.ROOT / "tools" / "jupyter" / config.name, config)
    for name in ("01_chapter", "02_broken", "03_missing"):
        (tmp_path / "book" / "chapters" / f"{name}.md").touch()
    output = nbformat.v4.new_output("display_data", data={"text/html": "<script>1</script>"})
    for name in ("01_chapter", "stranger"):
        cell = nbformat.v4.new_code_cell(f"'{name}'", outputs=[output])
        notebook = nbformat.v4.new_notebook(cells=[cell])
        nbformat.write(notebook, tmp_path / "notebooks" / f"{name}.ipynb")
    for name in ("02_broken", "Untitled"):
        (tmp_path / "notebooks" / f"{name}.ipynb").touch()
    made = Config()
    runpy.run_path(str(config), {"get_config": lambda: made})
    return tmp_path / "notebooks", made


def test_only_notebooks_of_the_book_are_signed(started):
    folder, made = started
    signed = {
        name: NotebookNotary().check_signature(nbformat.read(folder / f"{name}.ipynb", 4))
        for name in ("01_chapter", "stranger")
    }
    assert signed == {"01_chapter": True, "stranger": False}
    assert made.ServerApp.root_dir == str(folder.parent)


def test_a_notebook_that_cannot_be_read_is_named_and_stops_nothing(request, capfd):
    _, made = request.getfixturevalue("started")
    assert made.LabApp.news_url is None
    said = capfd.readouterr().err
    assert "02_broken.ipynb is shown without" in said
    assert "03_missing.ipynb" in said
