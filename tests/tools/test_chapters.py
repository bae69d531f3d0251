"""Chapters run side by side; one that fails says so, stops no other, and leaves files whole."""

import pytest

import chapters


def test_failures_name_chapter_and_cell_and_keep_the_other_chapters(tmp_path, own_settings):
    endings = {"bad": "missing", "dead": "__import__('os')._exit(1)", "good": "0"}
    for name, value in endings.items():
        text = f"# A chapter\n\n```{{code-cell}} ipython3\nseed = {value}\n```\n"
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    jobs = [(tmp_path / f"{name}.md", tmp_path / f"{name}.ipynb", {}) for name in endings]
    ended = chapters.run_all(jobs)
    source, notebook, _ = next(ended)
    assert (source.stem, notebook.cells[-1].execution_count) == ("good", 1)
    with pytest.raises(chapters.ChapterError) as caught:
        next(ended)
    assert "bad.md, code cell 1: NameError" in str(caught.value)
    assert "dead.md: the kernel died" in str(caught.value)


def test_what_fails_to_be_written_leaves_the_old_file(tmp_path):
    target = tmp_path / "deep" / "x.json"
    chapters.write_atomic(target, "old")
    with pytest.raises(UnicodeEncodeError):
        chapters.write_atomic(target, "\udc80")
    assert target.read_text(encoding="utf-8") == "old"
