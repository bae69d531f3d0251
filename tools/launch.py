"""Where the repository stands in public, and what follows from it: launch buttons, Colab, README.

    python tools/launch.py https://github.com/OWNER/NAME

An owner runs this once the repository has an address, and again when that or the list of chapters
changes. It writes the address into _config.yml and README.md and, for GitHub, a cell into every
chapter that fetches the book where the chapter is opened on Colab, which gets only the notebook.
Nothing is run; outputs stay as they are.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode

import chapters

ADDRESS = re.compile(r"https://(?:[^/@]+@)?(github|gitlab)\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
FORM = "https://github.com/OWNER/NAME or https://gitlab.com/OWNER/NAME"
BRANCH = "main"
BINDER = "https://mybinder.org"
COLAB = "https://colab.research.google.com"
RECORD = re.compile(r"^repository:.*\n(?:[ \t]+.*\n)*", re.MULTILINE)
BLOCK = "<!-- launch -->\n{}\n<!-- /launch -->\n\n"
LINKS = re.compile(BLOCK.format(".*?"), re.DOTALL)
RUN = "\n## Run\n\n"
TAG = "colab"
BEFORE_SETUP = "On Google Colab the next cell fetches the book. Anywhere else it does nothing."
SETUP = """import os
import subprocess
import sys

if "google.colab" in sys.modules:
    book = "{address}"
    fetch = f"(test -d book || git clone --quiet --depth 1 {{book}} book)"
    needs = "python -m pip install --quiet anywidget myst-nb pooch"
    subprocess.run(f"{{fetch}} && {{needs}}", shell=True, check=True, cwd="/content")
    os.chdir("/content/book/notebooks")
    sys.path.insert(0, "/content/book")"""


def normal(address: str) -> str | None:
    """`https://github.com/OWNER/NAME`, or the same on gitlab.com; None for anything else."""
    found = ADDRESS.fullmatch(address.strip())
    return "https://{}.com/{}/{}".format(*found.groups()) if found else None


def on_github(address: str) -> bool:
    """Colab opens notebooks from GitHub only."""
    return address.startswith("https://github.com/")


def recorded(root: Path) -> str | None:
    """The address that stands in _config.yml."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    return normal((config.get("repository") or {}).get("url") or "")


def origin(root: Path) -> str | None:
    """Where a git checkout was cloned from, if that is a public address."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return normal(done.stdout) if done.returncode == 0 else None


def address(root: Path = chapters.ROOT) -> str | None:
    """The repository's public address, or None while it has none.

    The first of: FEDLAB_REPOSITORY; what GitHub Actions says; _config.yml; git's origin. An empty
    FEDLAB_REPOSITORY means none, and any other text that is no address is a ValueError.
    """
    named = os.environ.get("FEDLAB_REPOSITORY")
    if named is not None:
        if named and not normal(named):
            raise ValueError(f"FEDLAB_REPOSITORY is {named!r}; it must look like {FORM}")
        return normal(named)
    host, name = (os.environ.get(f"GITHUB_{key}", "") for key in ("SERVER_URL", "REPOSITORY"))
    return normal(f"{host}/{name}") or recorded(root) or origin(root)


def is_setup(cell: NotebookNode) -> bool:
    """True for the cell that fetches the book on Colab, and for the sentence before it."""
    return TAG in cell.metadata.get("tags", [])


def starts_on_colab(notebooks: Iterable[Path]) -> bool:
    """True if every one of these notebooks fetches the book when it is opened on Colab."""
    read = [nbformat.read(path, as_version=4) for path in notebooks]
    return bool(read) and all(any(map(is_setup, notebook.cells)) for notebook in read)


def theme_options(address: str, *, colab: bool) -> dict[str, Any]:
    """What the theme needs for its buttons."""
    launchers = {"binderhub_url": BINDER, "notebook_interface": "jupyterlab"}
    return {
        "repository_url": address,
        "repository_branch": BRANCH,
        "path_to_docs": "",
        "use_repository_button": True,
        "use_issues_button": True,
        "launch_buttons": launchers | ({"colab_url": COLAB} if colab else {}),
    }


def configure(config: str, notebooks: Iterable[Path], address: str | None) -> str:
    """The text of _config.yml with the buttons of a repository at `address`.

    There is a Colab button only if the chapters can start there.
    """
    if address is None:
        return config
    settings = yaml.safe_load(config)
    colab = on_github(address) and starts_on_colab(notebooks)
    options = settings["sphinx"]["config"].setdefault("html_theme_options", {})
    options |= theme_options(address, colab=colab)
    return yaml.safe_dump(settings, allow_unicode=True, sort_keys=False)


def with_setup(notebook: NotebookNode, address: str) -> NotebookNode:
    """The same chapter with the cell for Colab after its parameters; without it off GitHub."""
    cells = [cell for cell in notebook.cells if not is_setup(cell)]
    if on_github(address):
        tagged = ["parameters" in cell.metadata.get("tags", []) for cell in cells]
        at = tagged.index(True) + 1
        about = {"tags": [TAG, "remove-cell"]}  # removed from the site, not from the notebook
        cells[at:at] = [
            nbformat.v4.new_markdown_cell(BEFORE_SETUP, metadata=about),
            nbformat.v4.new_code_cell(SETUP.format(address=address), metadata=about),
        ]
    return nbformat.v4.new_notebook(cells=cells, metadata=notebook.metadata)


def chapter_texts(source: Path, address: str) -> dict[Path, str]:
    """Both files of a chapter as they should be."""
    text = with_setup(chapters.read_text(source), address)
    texts = {source: chapters.canonical(chapters.with_ids(text))}
    stored = source.with_suffix(".ipynb")
    if stored.exists():
        notebook = with_setup(nbformat.read(stored, as_version=4), address)
        texts[stored] = chapters.serialise(chapters.stable(notebook, source.stem))
    return texts


def record(config: str, address: str) -> str:
    """The text of _config.yml with the address in it."""
    bare = RECORD.sub("", config).rstrip("\n")
    return f"{bare}\n\nrepository:\n  url: {address}\n"


def introduce(readme: str, stems: Iterable[str], address: str) -> str:
    """README with links that open the chapters in a browser, at the head of its section Run."""
    owner, name = address.split("/")[-2:]
    place = f"gh/{owner}/{name}" if on_github(address) else f"gl/{owner}%2F{name}"
    binder = f"{BINDER}/v2/{place}/{BRANCH}?urlpath=lab/tree/notebooks"
    lines = [f"Without installing anything: [Binder]({binder}) opens the chapters in JupyterLab"]
    if on_github(address):
        blob = f"{COLAB}/github/{owner}/{name}/blob/{BRANCH}/notebooks"
        lines += [f"[{stem[:2]}]({blob}/{stem}.ipynb)" for stem in stems]
        lines[0] += ", Colab one of them:"
    if readme.count(RUN) != 1:
        raise ValueError("README.md must have one section `## Run`")
    block = BLOCK.format("\n".join(lines) + ".")
    return LINKS.sub("", readme).replace(RUN, f"{RUN}{block}")


def texts(root: Path, address: str) -> dict[Path, str]:
    """Every file that depends on the address, as it should be."""
    sources = chapters.sources()
    config, readme = root / "_config.yml", root / "README.md"
    found = {
        config: record(config.read_text(encoding="utf-8"), address),
        readme: introduce(
            readme.read_text(encoding="utf-8"), (source.stem for source in sources), address
        ),
    }
    for source in sources:
        found |= chapter_texts(source, address)
    return found


def stale(root: Path, address: str) -> dict[Path, str]:
    """Those of them that are not yet so."""
    wanted = texts(root, address)
    return {p: text for p, text in wanted.items() if p.read_text(encoding="utf-8") != text}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the repository's address where it is used.")
    parser.add_argument("address", help=FORM)
    given = parser.parse_args().address
    found = normal(given)
    if found is None:
        sys.exit(f"{given!r} does not look like {FORM}")
    for path, text in stale(chapters.ROOT, found).items():
        chapters.write_atomic(path, text)
        print(f"wrote {path.relative_to(chapters.ROOT).as_posix()}")
    print(f"The book's repository is {found}. Look at the changes, commit and push them.")


if __name__ == "__main__":
    main()
