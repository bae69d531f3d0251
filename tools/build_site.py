"""Make a website from executed notebooks and prose pages. It loads nothing from elsewhere.

The sources are copied into a new staging folder, Jupyter Book builds them there with warnings as
errors, and the finished site replaces the old one in a single rename.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
import yaml
from nbformat import NotebookNode

import cards
import chapters
import downloads
import labs
import last_changed
import reading

MATHJAX = (  # without its menu, which is a third of the usual bundle
    *("startup.js", "core.js", "input/tex.js", "output/chtml.js", "output/chtml/fonts/tex.js"),
    *("output/chtml/fonts/woff-v2", "a11y/assistive-mml.js"),
)
EXTENSIONS = ("docstrings", "glossary_terms", "last_changed", "page_scripts")
EXTENSIONS += ("search_texts",)
ADDRESS = re.compile(r"https://git(hub|lab)\.com/[\w.-]+/[\w.-]+")
USED = re.compile(r"\bfa-([a-z0-9-]+)")
PROGRAM = Path("_static", "scripts", "fontawesome.js")  # 1.5 MB with all its icons, such as
# name:[width,height,["other name"],"code","path" or ["path","path"]],
ICON = re.compile(
    r'("?[\w-]+"?:\[\d+,\d+,\[[^\]]*\],)"[0-9a-f]+",(?:"[^"]*"|\["[^"]*","[^"]*"\])\],?'
)

TABLE = '<table class="fedlab-table">'
WRITTEN_TABLE = re.compile(r"^:::\{table\} ", re.MULTILINE)
SEEN = ("text/html", "image/png", "image/svg+xml", "text/latex", "text/markdown", "text/plain")
CHECK = re.compile(r"\s*(assert\b|tell\()")


class SiteError(RuntimeError):
    """The site did not build; the message contains the builder's warnings."""


def repository() -> str | None:
    """The repository's public address: FEDLAB_REPOSITORY, or that of _config.yml, or None."""
    config = yaml.safe_load((chapters.ROOT / "_config.yml").read_text(encoding="utf-8"))
    recorded = (config.get("repository") or {}).get("url")
    found = os.environ.get("FEDLAB_REPOSITORY", recorded) or None
    if found and not ADDRESS.fullmatch(found):
        raise ValueError(f"repository: expected https://github.com/OWNER/NAME, got {found!r}")
    return found


def configure(config: str, repository: str | None) -> str:
    """The text of _config.yml; with an address, pages have buttons to it and to Binder."""
    if repository is None:
        return config
    settings = yaml.safe_load(config)
    settings["sphinx"]["config"].setdefault("html_theme_options", {}).update(
        repository_url=repository,
        repository_branch="main",
        path_to_docs="",
        use_repository_button=True,
        use_issues_button=True,
        launch_buttons={
            "binderhub_url": "https://mybinder.org",
            "notebook_interface": "jupyterlab",
        },
    )
    return yaml.safe_dump(settings, allow_unicode=True, sort_keys=False)


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


def trim_icons(site: Path) -> None:
    """Delete icons that no page or script uses, and source maps, which only authors need."""
    files = [*site.rglob("*.html"), *site.rglob("*.js"), *(site / "_static").glob("*.css")]
    texts = (path.read_text(encoding="utf-8") for path in files if path != site / PROGRAM)
    used = {name for text in texts for name in USED.findall(text)}

    def keep(icon: re.Match[str]) -> str:
        return icon[0] if used & set(re.findall(r"[\w-]+", icon[1])) else ""

    text = ICON.sub(keep, (site / PROGRAM).read_text(encoding="utf-8"))
    (site / PROGRAM).write_text(text, encoding="utf-8", newline="\n")
    for source_map in [*site.rglob("*.js.map"), *site.rglob("*.css.map")]:
        source_map.unlink()


def number_tables(notebook: NotebookNode, number: str) -> None:
    """Write "Table 4.1" before the caption of chapter 4's first table, and so on."""
    count = itertools.count(1)

    def numbered(caption: re.Match[str]) -> str:
        return f'{caption[0]}<span class="caption-number">Table {number}{next(count)} </span>'

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = WRITTEN_TABLE.sub(numbered, cell.source)
        for output in cell.get("outputs", []):
            text = output.get("data", {}).get("text/html", "")
            if text.startswith(TABLE):
                output["data"]["text/html"] = re.sub("<caption>", numbered, text, count=1)


def prompt(cell: NotebookNode) -> str:
    """The title of a folded cell. The cell has run, or the page would not have been built."""
    shows = any({*output.get("data", {})} & {*SEEN} for output in cell.outputs)
    checks = [line for line in cell.source.splitlines() if CHECK.match(line)]
    if checks and not shows:
        return "Check passed" if len(checks) == 1 else f"{len(checks)} checks passed"
    return "How this is made" if shows else "How this is computed"


def mark_pictures(site: Path) -> None:
    """Figures with pixels keep their colours in dark mode; line drawings are inverted."""
    drawn = (site / "_images").glob("*.svg")
    held = [path.name for path in drawn if "<image" in path.read_text(encoding="utf-8")]
    held += [path.name for path in (site / "_images").glob("*") if path.suffix in (".png", ".jpg")]
    if not held:
        return
    image = re.compile(rf'<img (?=[^>]*_images/(?:{"|".join(map(re.escape, held))})")')
    for page in site.rglob("*.html"):
        marked = image.sub('<img data-pixels="" ', page.read_text(encoding="utf-8"))
        page.write_text(marked, encoding="utf-8", newline="\n")


def staged(notebook: NotebookNode, number: str = "") -> NotebookNode:
    """The notebook as pages are made from it: tables numbered as figures are, folded cells saying
    what they hold, the cells of solutions folded, and each widget followed by its table, for
    readers without scripts.

    A page shows one form of an output only, and prefers the widget; its host hides the table.
    """
    number_tables(notebook, number)
    for cell in notebook.cells:
        about, folded = cell.metadata.get("mystnb", {}), cell.metadata.get("tags", [])
        if "hide-input" in folded and about.get("code_prompt_show") != "Set up":
            cell.metadata["mystnb"] = about | {"code_prompt_show": prompt(cell)}
    for index in reading.solution_cells(notebook.cells):
        metadata = notebook.cells[index].metadata
        metadata["tags"] = [*metadata.get("tags", []), "hide-cell"]
    for cell in notebook.cells:
        for output in list(cell.get("outputs", [])):
            data = output.get("data", {})
            if chapters.WIDGET_VIEW in data and "text/html" in data:
                box = f'<div class="widget-table">{data["text/html"]}</div>'
                table = nbformat.v4.new_output("display_data", {"text/html": box})
                cell.outputs.insert(cell.outputs.index(output) + 1, table)
    return notebook


def stage(notebooks: Sequence[Path], folder: Path, repository: str | None) -> None:
    """Copy the sources: configuration, prose pages, notebooks, extensions, MathJax."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    root = chapters.ROOT
    config = (root / "_config.yml").read_text(encoding="utf-8")
    (folder / "_config.yml").write_text(configure(config, repository), encoding="utf-8")
    (folder / "genindex.md").write_text("# Index\n", encoding="utf-8")  # Sphinx fills the page
    for name in ("_toc.yml", *(f"tools/{extension}.py" for extension in EXTENSIONS)):
        shutil.copy(root / name, folder)
    shutil.copytree(root / "book", folder / "book")
    page = folder / "book" / "cards.md"
    written = page.read_text(encoding="utf-8")
    listed = cards.for_page(cards.deck(root / "notebooks" / "quizzes"))
    page.write_text(written.replace(cards.PLACE, listed), encoding="utf-8", newline="\n")
    days = json.dumps(last_changed.dates(root))
    (folder / last_changed.DATES).write_text(days, encoding="utf-8")
    for path in notebooks:
        whole = nbformat.read(path, as_version=4)
        name = chapters.key(path)
        text = chapters.serialise(staged(whole, reading.number(name)))
        chapters.write_atomic(folder / "notebooks" / f"{name}.ipynb", text)
    vendor_mathjax(folder / "book" / "_static" / "vendor" / "mathjax")


def jupyter_book(folder: Path, out: Path) -> None:
    """Run Jupyter Book on a staged folder; SiteError if there are warnings."""
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    command += ["build", str(folder), "--path-output", str(out), "-W", "--keep-going", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        said = re.sub(r"\x1b\[[0-9;]*m|\n(?=\n)", "", done.stdout + done.stderr)
        raise SiteError(f"{said}\nThe site has warnings, and warnings are errors.")


def build(
    notebooks: Sequence[Path],
    target: Path,
    repository: str | None,
    browser: str | None,
    whole: bool,
) -> None:
    """Build the site of these notebooks at `target`, replacing an older one only on success.

    repository  its public address, for buttons that lead there and start the chapters online
    browser     path of a Chromium that prints PDFs of the chapters
    whole       also put a zip of the site into it
    """
    work = target.with_name(f"{target.name}.work")
    folder, out = work / "source", work / "out"
    stage(notebooks, folder, repository)
    shutil.rmtree(out, ignore_errors=True)
    jupyter_book(folder, out)
    site = out / "_build" / "html"
    for path in notebooks:  # for downloads: as readers get them, not as they were staged
        name = chapters.key(path)
        chapter, _ = reading.split(nbformat.read(path, as_version=4), name)
        text = chapters.serialise(reading.portable(chapter))
        chapters.write_atomic(site / "_sources" / "notebooks" / f"{name}.ipynb", text)
    shutil.copytree(labs.STUDENT, site / "labs", ignore=shutil.ignore_patterns(".*"))
    asked = cards.for_anki(cards.deck(chapters.ROOT / "notebooks" / "quizzes"))
    (site / cards.NAME).write_text(asked, encoding="utf-8", newline="\n")
    trim_icons(site)
    mark_pictures(site)
    downloads.finish(site, browser, whole=whole)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(site, target)
    shutil.rmtree(work)
