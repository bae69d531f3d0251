"""A chapter runs again exactly when something it depends on changed."""

import pytest

import book
import chapters


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A small repository in place of the real one."""
    for name in (
        "notebooks/01_x.md",
        "fedlab_mini/engine/model.py",
        "fedlab_mini/worlds/data/digits.py",
        "data/card.md",
        "requirements.txt",
        "tools/chapters.py",
        "book/index.md",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "notebooks/01_x.md",
        "fedlab_mini/engine/model.py",
        "fedlab_mini/worlds/data/digits.py",
        "data/card.md",
        "requirements.txt",
    ],
)
def test_key_follows_every_input(tree, name):
    source = tree / "notebooks" / "01_x.md"
    before = book.chapter_key(source)
    assert book.chapter_key(source) == before
    (tree / name).write_text("changed", encoding="utf-8")
    assert book.chapter_key(source) != before


def test_key_sees_new_and_renamed_files(tree):
    source = tree / "notebooks" / "01_x.md"
    before = book.chapter_key(source)
    (tree / "data" / "card.md").rename(tree / "data" / "other.md")
    assert book.chapter_key(source) != before


@pytest.mark.parametrize(
    "name", ["book/index.md", "fedlab_mini/__pycache__/model.pyc", "data/.part"]
)
def test_key_ignores_what_no_chapter_reads(tree, name):
    source = tree / "notebooks" / "01_x.md"
    before = book.chapter_key(source)
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text("changed", encoding="utf-8")
    assert book.chapter_key(source) == before


def test_a_run_without_its_key_is_not_current(tree):
    target = tree / "_build" / "01_x.ipynb"
    chapters.write_atomic(target, "{}")
    assert not book.is_current(target, "k")
    chapters.write_atomic(target.with_suffix(".key"), "k")
    assert book.is_current(target, "k")
    assert not book.is_current(target, "other")
    target.unlink()
    assert not book.is_current(target, "k")
