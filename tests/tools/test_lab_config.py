"""`make lab` signs the book's own notebooks, and starts whatever else lies beside them."""

import runpy
import shutil

import nbformat
from nbformat.sign import NotebookNotary
from traitlets.config import Config

import chapters


def test_only_notebooks_of_the_book_are_signed_and_a_broken_one_stops_nothing(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    for folder in ("tools/jupyter", "book/chapters", "notebooks"):
        (tmp_path / folder).mkdir(parents=True)
    config = "tools/jupyter/jupyter_lab_config.py"
    shutil.copy(chapters.ROOT / config, tmp_path / config)
    for name in ("01_chapter", "02_broken", "03_missing"):
        (tmp_path / "book" / "chapters" / f"{name}.md").touch()
    output = nbformat.v4.new_output("display_data", data={"text/html": "<script>1</script>"})
    for name in ("01_chapter", "stranger"):
        cell = nbformat.v4.new_code_cell(f"'{name}'", outputs=[output])
        notebook = nbformat.v4.new_notebook(cells=[cell])
        nbformat.write(notebook, tmp_path / "notebooks" / f"{name}.ipynb")
    (tmp_path / "notebooks" / "02_broken.ipynb").touch()
    made = Config()
    runpy.run_path(str(tmp_path / config), {"get_config": lambda: made})
    for name, signed in {"01_chapter": True, "stranger": False}.items():
        notebook = nbformat.read(tmp_path / "notebooks" / f"{name}.ipynb", 4)
        assert NotebookNotary().check_signature(notebook) == signed
    assert made.ServerApp.root_dir == str(tmp_path)
    assert "02_broken.ipynb is shown without" in capfd.readouterr().err
