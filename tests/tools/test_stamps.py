"""What has passed is done again exactly when something it depends on changed."""

import pytest

import book
import chapters
import stamps

HANGS_ON = [
    "notebooks/01_x.md",
    "fedlab_mini/engine/model.py",
    "fedlab_mini/worlds/data/digits.py",
    "studies/x.py",
    "data/results/x.csv",
    "requirements.txt",
]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A small repository in place of the real one."""
    others = ["tools/chapters.py", "tools/figures.py", "book/index.md", "data/card.md"]
    for name in [*HANGS_ON, *others]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    monkeypatch.setattr(stamps, "PASSED", tmp_path / "_build" / "passed")
    return tmp_path


def key(tree):
    stamps.shared.cache_clear()
    return book.chapter_key(tree / "notebooks" / "01_x.md")


def test_a_key_follows_every_input(tree, monkeypatch):
    seen = [key(tree)]
    assert key(tree) == seen[0]
    for name in HANGS_ON:
        (tree / name).write_text("changed", encoding="utf-8")
        seen.append(key(tree))
    (tree / "data" / "card.md").rename(tree / "data" / "other.md")
    seen.append(key(tree))
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "none")
    seen.append(key(tree))
    monkeypatch.setattr(stamps, "machine", lambda: ("another",))
    seen.append(key(tree))
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    "name", ["book/index.md", "fedlab_mini/__pycache__/model.pyc", "data/.part"]
)
def test_a_key_ignores_what_no_chapter_reads(tree, name):
    before = key(tree)
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text("changed", encoding="utf-8")
    assert key(tree) == before


def test_a_run_without_its_key_is_not_current(tree):
    target = tree / "_build" / "01_x.ipynb"
    chapters.write_atomic(target, "{}")
    assert not stamps.is_current(target, "k")
    stamps.set_current(target, "k")
    assert stamps.is_current(target, "k")
    assert not stamps.is_current(target, "other")
    target.unlink()
    assert not stamps.is_current(target, "k")


def test_what_has_passed_is_known_until_its_files_change(tree):
    text = tree / "notebooks" / "01_x.md"
    stamps.Passed("outputs/01_x", [text], "seed 3").note()
    assert stamps.Passed("outputs/01_x", [text], "seed 3")
    assert not stamps.Passed("outputs/01_x", [text], "seed 4")
    assert not stamps.Passed("outputs/02_y", [text], "seed 3")
    text.write_text("changed", encoding="utf-8")
    assert not stamps.Passed("outputs/01_x", [text], "seed 3")
