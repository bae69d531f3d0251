"""Chapters run side by side; one that fails or cannot run here says so and stops no other."""

import pytest

import chapters

TEXT = """# A chapter

```{code-cell} ipython3
:tags: [parameters]

seed = 0
```
"""


def test_failures_name_chapter_and_cell_and_keep_the_other_chapters(tmp_path, own_settings):
    endings = {"bad": "missing", "dead": "__import__('os')._exit(1)", "good": "0"}
    for name, value in endings.items():
        text = TEXT.replace("seed = 0", f"seed = {value}")
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


def test_a_chapter_that_needs_what_is_not_here_is_left_out_and_says_what_to_install(
    monkeypatch, capsys
):
    monkeypatch.setattr(chapters, "find_spec", lambda name: None)
    needs = {source for source in chapters.sources() if chapters.needed(source)}
    assert {*chapters.runnable()} == {*chapters.sources()} - needs
    said = capsys.readouterr().out
    assert all(f"{source.stem} is not run: it needs" in said for source in needs)
    assert said.count("flwr; `make setup WITH=flower`") == len(needs) > 0
    monkeypatch.setattr(chapters, "find_spec", lambda name: name)
    assert chapters.runnable() == chapters.sources()
    monkeypatch.setattr("sys.prefix", "/home/ann/my book/.venv")
    assert all("/home/ann/my book" in chapters.left_out(source) for source in needs)
