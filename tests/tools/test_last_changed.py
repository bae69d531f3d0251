"""A page says when its source last changed: the day of a commit, or nothing where none is known."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import build_site
import chapters
import last_changed

FIRST, SECOND, THIRD = "2026-01-02", "2026-03-04", "2026-05-06"
CONFIG = """title: Book
only_build_toc_files: true
execute: {execute_notebooks: 'off'}
sphinx: {local_extensions: {last_changed: .}}
"""
TEXTS = {
    "book/index.md": "# Book\n\nText.\n",
    "book/board.md": "# Board\n\n```{include} board.txt\n```\n",
    "book/board.txt": "Old.\n",
    "book/chapters/01_one.md": "# One\n",
    "README.md": "# Read\n",
}


def commit(folder, day, **texts):
    """Write files and commit them on a day."""
    for name, text in texts.items():
        chapters.write_atomic(folder / name, text)
    who = {
        f"GIT_{role}_{what}": "a@b"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    when = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"{day}T12:00:00+00:00")
    env = os.environ | who | when
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", day]):
        subprocess.run(["git", *words], cwd=folder, env=env, check=True)


@pytest.fixture
def book(tmp_path):
    """A repository in which the board's included text and the chapter changed later than others."""
    if shutil.which("git") is None:
        pytest.skip("no git here")
    commit(tmp_path / "book", FIRST, **TEXTS)
    commit(tmp_path / "book", SECOND, **{"book/board.txt": "New.\n"})
    commit(tmp_path / "book", THIRD, **{"book/chapters/01_one.md": "# One\n\nMore.\n"})
    return tmp_path / "book"


def test_a_file_has_the_day_of_its_last_commit(book):
    chapters.write_atomic(book / "book" / "index.md", "changed, not committed")
    found = last_changed.dates(book)
    assert found == dict.fromkeys(TEXTS, FIRST) | {
        "book/board.txt": SECOND,
        "book/chapters/01_one.md": THIRD,
    }
    log = ["git", "log", "-1", "--format=%cs", "--"]
    for name, day in found.items():
        said = subprocess.run([*log, name], cwd=book, capture_output=True, text=True, check=True)
        assert said.stdout.strip() == day


def test_without_a_whole_history_nothing_is_said(book, tmp_path, monkeypatch):
    clone = ["git", "clone", "-q", "--depth", "1", book.as_uri(), str(tmp_path / "shallow")]
    subprocess.run(clone, check=True)
    assert last_changed.dates(tmp_path / "shallow") == {}
    inner = book / "unpacked"  # no repository of its own, inside another
    chapters.write_atomic(inner / "README.md", "# Read\n")
    assert last_changed.dates(inner) == {}
    shutil.rmtree(book / ".git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert last_changed.dates(book) == {}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert last_changed.dates(book) == {}


def test_pages_carry_the_day_of_what_they_are_made_of(tmp_path, own_settings, monkeypatch):
    days = {"book/board.md": FIRST, "book/board.txt": SECOND, "book/chapters/01_one.md": THIRD}
    staged = {
        "_config.yml": CONFIG,
        "_toc.yml": "format: jb-book\nroot: book/index\nchapters:\n"
        "- file: book/board\n- file: notebooks/01_one\n",
        "last_changed.py": Path(last_changed.__file__).read_text(encoding="utf-8"),
        "notebooks/01_one.md": "# One\n",
        last_changed.DATES: str(days).replace("'", '"'),
        **{name: TEXTS[name] for name in ("book/index.md", "book/board.md", "book/board.txt")},
    }
    for name, text in staged.items():
        chapters.write_atomic(tmp_path / "staged" / name, text)
    build_site.jupyter_book(tmp_path / "staged", tmp_path / "out")

    def said(page):
        text = (tmp_path / "out" / "_build" / "html" / f"{page}.html").read_text(encoding="utf-8")
        return re.findall(r'<p class="last-updated">\s*Last updated on (\S+)\.', text)

    assert said("book/index") == []
    assert said("book/board") == [SECOND]
    assert said("notebooks/01_one") == [THIRD]


def test_every_page_of_the_contents_has_a_source():
    contents = (chapters.ROOT / "_toc.yml").read_text(encoding="utf-8")
    pages = re.findall(r"(?:file|root): *(\S+)", contents)
    missing = {p for p in pages if not (chapters.ROOT / last_changed.source(p)).is_file()}
    assert missing <= {"genindex", "book/genindex"}  # Sphinx fills it
    assert len(pages) > 25
