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
from collections.abc import Iterable
from pathlib import Path

import chapters

BANNER = (
    "Running Jupyter-Book",
    "Source Folder",
    "Config Path",
    "Output Path",
    "===",
    "Building your",
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MATHJAX = ("tex-chtml.js", "output/chtml/fonts/woff-v2")


class SiteError(RuntimeError):
    """The site did not build; the message holds the builder's warnings."""


def vendor_mathjax(target: Path) -> None:
    """Copy MathJax's program and fonts out of the wheel `sphinx-mathjax-offline`."""
    files = importlib.metadata.files("sphinx-mathjax-offline") or []
    program = next((f for f in files if f.name == MATHJAX[0]), None)
    if program is None:
        raise SiteError("sphinx-mathjax-offline holds no tex-chtml.js; run: make setup")
    home = Path(program.locate()).parent
    target.mkdir(parents=True)
    shutil.copy(home / MATHJAX[0], target / MATHJAX[0])
    shutil.copytree(home / MATHJAX[1], target / MATHJAX[1])


def stage(notebooks: Iterable[Path], folder: Path) -> None:
    """Lay out the sources: configuration, prose pages, notebooks, MathJax."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    root = chapters.ROOT
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(root / name, folder / name)
    shutil.copytree(root / "book", folder / "book")
    for name in ("docstrings.py",):
        shutil.copy(root / "tools" / name, folder / name)
    (folder / "notebooks").mkdir()
    for path in notebooks:
        shutil.copy(path, folder / "notebooks" / path.name)
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


def build(notebooks: Iterable[Path], target: Path) -> None:
    """Build the site of these notebooks at `target`, replacing an older one only on success."""
    work = target.with_name(f"{target.name}.work")
    folder, out = work / "source", work / "out"
    stage(notebooks, folder)
    shutil.rmtree(out, ignore_errors=True)
    jupyter_book(folder, out)
    target.with_suffix(".key").unlink(missing_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(out / "_build" / "html", target)
    shutil.rmtree(work)
