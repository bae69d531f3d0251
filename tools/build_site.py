"""Executed notebooks and prose pages in, a website out. Everything it loads is inside it.

The sources are laid out afresh in a staging folder, Jupyter Book builds them there with warnings as
errors, and the finished site replaces the old one in a single rename.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

import chapters
import downloads
import icons
import labs
import launch

BANNER = (
    "Running Jupyter-Book",
    "Source Folder",
    "Config Path",
    "Output Path",
    "===",
    "Building your",
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
EXTENSIONS = ("docstrings.py", "glossary_terms.py")
MATHJAX = (  # without its menu, which is a third of the usual bundle
    "startup.js",
    "core.js",
    "input/tex.js",
    "output/chtml.js",
    "output/chtml/fonts/tex.js",
    "output/chtml/fonts/woff-v2",
    "a11y/assistive-mml.js",
)


class SiteError(RuntimeError):
    """The site did not build; the message holds the builder's warnings."""


def vendor_mathjax(target: Path) -> None:
    """Copy MathJax's program and fonts out of the wheel `sphinx-mathjax-offline`."""
    files = importlib.metadata.files("sphinx-mathjax-offline") or []
    program = next((f for f in files if f.name == "tex-chtml.js"), None)
    if program is None:
        raise SiteError("sphinx-mathjax-offline holds no tex-chtml.js; run: make setup")
    home = Path(program.locate()).parent
    for name in MATHJAX:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (home / name).is_dir() else shutil.copy
        copy(home / name, target / name)


def with_tables(notebook: NotebookNode) -> NotebookNode:
    """The same notebook, each widget followed by its table, for readers without scripts.

    A page shows one form of an output only, and prefers the widget; its host hides the table.
    """
    for cell in notebook.cells:
        for output in list(cell.get("outputs", [])):
            data = output.get("data", {})
            if chapters.WIDGET_VIEW in data and "text/html" in data:
                box = f'<div class="widget-table">{data["text/html"]}</div>'
                table = nbformat.v4.new_output("display_data", {"text/html": box})
                cell.outputs.insert(cell.outputs.index(output) + 1, table)
    return notebook


def stage(notebooks: Sequence[Path], folder: Path, repository: str | None) -> None:
    """Lay out the sources: configuration, prose pages, notebooks, MathJax.

    With the public address of the repository, pages get buttons that lead there.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    root = chapters.ROOT
    shutil.copy(root / "_toc.yml", folder / "_toc.yml")
    config = (root / "_config.yml").read_text(encoding="utf-8")
    with_buttons = launch.configure(config, notebooks, repository)
    (folder / "_config.yml").write_text(with_buttons, encoding="utf-8")
    shutil.copytree(root / "book", folder / "book")
    for name in EXTENSIONS:
        shutil.copy(root / "tools" / name, folder / name)
    (folder / "genindex.md").write_text("# Index\n", encoding="utf-8")  # Sphinx fills the page
    (folder / "notebooks").mkdir()
    for path in notebooks:
        notebook = with_tables(nbformat.read(path, as_version=4))
        chapters.write_atomic(folder / "notebooks" / path.name, chapters.serialise(notebook))
    vendor_mathjax(folder / "book" / "_static" / "vendor" / "mathjax")


def jupyter_book(folder: Path, out: Path) -> None:
    """Run Jupyter Book on a staged folder; SiteError with its warnings when there are any."""
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    command += ["build", str(folder), "--path-output", str(out), "-W", "--keep-going", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        said = complaint(done.stderr + done.stdout, folder)
        raise SiteError(f"The site has warnings, and warnings are errors:\n{said}")


def complaint(log: str, folder: Path) -> str:
    """What the builder said, without colours, staging paths and its own banner."""
    plain = COLOUR.sub("", log).replace(f"{folder}{os.sep}", "")
    return "\n".join(x for x in plain.splitlines() if x.strip() and not x.startswith(BANNER))


def build(
    notebooks: Sequence[Path],
    target: Path,
    *,
    repository: str | None = None,
    browser: str | None = None,
    whole: bool = False,
) -> None:
    """Build the site of these notebooks at `target`, replacing an older one only on success.

    repository  its public address: buttons that lead there and start the chapters online
    browser     path of a Chromium: PDFs of the chapters
    whole       a zip of the site, inside it
    """
    work = target.with_name(f"{target.name}.work")
    folder, out = work / "source", work / "out"
    stage(notebooks, folder, repository)
    shutil.rmtree(out, ignore_errors=True)
    jupyter_book(folder, out)
    site = out / "_build" / "html"
    for path in notebooks:  # to download: as they are, not as they were staged
        shutil.copy(path, site / "_sources" / "notebooks" / path.name)
    (site / "labs").mkdir()
    for path in labs.STUDENT.glob("*.ipynb"):
        shutil.copy(path, site / "labs" / path.name)
    icons.trim(site)
    downloads.finish(site, browser, whole=whole)
    target.with_suffix(".key").unlink(missing_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(site, target)
    shutil.rmtree(work)
