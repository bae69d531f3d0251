"""Canonical texts, stable notebooks, atomic writes: the properties that keep diffs empty."""

import copy

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import chapters

TEXT = """---
kernelspec:
  display_name: Something else
  language: python
  name: other
---

# A chapter

A sentence.

```{code-cell} ipython3
:tags: [parameters]

scale = "fast"
seed = 0
```
"""


def executed(stamp: str, model: str, leaf: str, unused: str) -> nbformat.NotebookNode:
    """A notebook as papermill leaves it; the arguments are what differs between two runs."""
    shown = new_output("display_data", {chapters.WIDGET_VIEW: {"model_id": model}})
    cells = [
        new_markdown_cell("# A chapter", metadata={"tags": [], "papermill": {"start": stamp}}),
        new_code_cell('scale = "fast"', execution_count=1, metadata={"tags": ["parameters"]}),
        new_code_cell(
            'scale = "fast"', execution_count=2, metadata={"tags": ["injected-parameters"]}
        ),
        new_code_cell(
            "widget",
            execution_count=3,
            metadata={"execution": {"iopub.execute_input": stamp}},
            outputs=[
                new_output("stream", name="stdout", text="one "),
                new_output("stream", name="stdout", text="two"),
                new_output("stream", name="stderr", text="three"),
                new_output("execute_result", {"text/plain": "4"}, execution_count=3),
                shown,
            ],
        ),
    ]
    state = {
        unused: {"state": {"value": 1}},
        leaf: {"state": {"width": "4em"}},
        model: {"state": {"layout": f"IPY_MODEL_{leaf}"}},
    }
    widgets = {chapters.WIDGET_STATE: {"state": state, "version_major": 2}}
    metadata = {
        "widgets": widgets,
        "papermill": {"start": stamp},
        "language_info": {"name": "python", "version": stamp},
    }
    return new_notebook(cells=cells, metadata=metadata)


@pytest.fixture
def runs():
    return executed("1", "a" * 32, "b" * 32, "c" * 32), executed("2", "f" * 32, "d" * 32, "e" * 32)


def test_two_runs_give_the_same_bytes(runs):
    first, second = (chapters.serialise(chapters.stable(run, "01_x")) for run in runs)
    assert first == second
    assert first.endswith("}\n")


def test_stable_is_a_fixed_point(runs):
    once = chapters.stable(runs[0], "01_x")
    again = chapters.stable(copy.deepcopy(once), "01_x")
    assert chapters.serialise(once) == chapters.serialise(again)


def test_stable_keeps_what_a_reader_needs(runs):
    notebook = chapters.stable(runs[0], "01_x")
    assert [cell.source for cell in notebook.cells] == ["# A chapter", 'scale = "fast"', "widget"]
    outputs = notebook.cells[2].outputs
    assert [o.get("text") for o in outputs[:2]] == ["one two", "three"]
    assert notebook.cells[2].execution_count == outputs[2].execution_count == 2
    nbformat.validate(notebook)


def test_stable_keeps_reached_widgets_only(runs):
    notebook = chapters.stable(runs[0], "01_x")
    state = notebook.metadata.widgets[chapters.WIDGET_STATE].state
    view = notebook.cells[2].outputs[3].data[chapters.WIDGET_VIEW]["model_id"]
    assert len(state) == 2
    assert state[view]["state"]["layout"].removeprefix("IPY_MODEL_") in state


def test_widget_names_differ_between_chapters(runs):
    names = [
        set(
            chapters.stable(copy.deepcopy(runs[0]), stem)
            .metadata.widgets[chapters.WIDGET_STATE]
            .state
        )
        for stem in ("01_x", "02_y")
    ]
    assert not names[0] & names[1]


def test_canonical_text_is_a_fixed_point(tmp_path):
    source = tmp_path / "01_x.md"
    source.write_text(TEXT, encoding="utf-8")
    text = chapters.canonical(chapters.read_text(source))
    assert text != TEXT
    assert "jupytext_version" not in text
    source.write_text(text, encoding="utf-8")
    assert chapters.canonical(chapters.read_text(source)) == text


def test_canonical_text_survives_execution(tmp_path):
    source = tmp_path / "01_x.md"
    source.write_text(TEXT, encoding="utf-8")
    notebook = chapters.read_text(source)
    text = chapters.canonical(notebook)
    stored = chapters.serialise(chapters.stable(chapters.with_ids(notebook), "01_x"))
    assert chapters.canonical(nbformat.reads(stored, as_version=4)) == text


def test_a_figure_drawn_again_has_the_same_bytes(tmp_path, own_settings):
    source = tmp_path / "01_x.md"
    draw = (
        "figure = plt.figure()\nfigure.subplots().set(xlabel='x', ylabel='y')\nplt.close()\nfigure"
    )
    draw = f"\nThen:\n\n```{{code-cell}}\n{draw}\n```\n"
    source.write_text(TEXT.replace("seed = 0", "import matplotlib.pyplot as plt") + draw)
    runs = [chapters.run(source, tmp_path / f"{name}.ipynb", {}) for name in "ab"]
    (first,), (again,) = (run.cells[-1].outputs for run in runs)
    assert first.data == again.data
    assert {*first.data} == {"image/svg+xml", "text/plain"}


def test_failed_cell_names_chapter_and_error(tmp_path, own_settings):
    source = tmp_path / "01_x.md"
    source.write_text(
        TEXT + "\nThen:\n\n```{code-cell}\nweights = [1]\nweights[3]\n```\n", encoding="utf-8"
    )
    with pytest.raises(chapters.ChapterError) as caught:
        chapters.run(source, tmp_path / "out.ipynb", {})
    for part in ("book/chapters/01_x.md", "code cell 2", "IndexError", "weights[3]"):
        assert part in str(caught.value)


def test_failure_of_one_chapter_keeps_the_others(tmp_path, own_settings):
    bad, good = tmp_path / "01_bad.md", tmp_path / "02_good.md"
    bad.write_text(TEXT.replace("seed = 0", "seed = missing"), encoding="utf-8")
    good.write_text(TEXT, encoding="utf-8")
    jobs = [(source, tmp_path / f"{source.stem}.ipynb", {}) for source in (bad, good)]
    ended = chapters.run_all(jobs)
    source, notebook, seconds = next(ended)
    assert (source, notebook.cells[-1].execution_count) == (good, 1)
    assert seconds > 0
    with pytest.raises(chapters.ChapterError, match=r"01_bad\.md, code cell 1: NameError"):
        next(ended)


def test_dead_kernel_is_named(tmp_path, own_settings):
    source = tmp_path / "01_x.md"
    source.write_text(TEXT.replace("seed = 0", "__import__('os')._exit(1)"), encoding="utf-8")
    with pytest.raises(chapters.ChapterError, match=r"01_x\.md: the kernel died"):
        chapters.run(source, tmp_path / "out.ipynb", {})


def test_write_atomic_leaves_the_old_file_when_it_fails(tmp_path):
    target = tmp_path / "deep" / "x.json"
    chapters.write_atomic(target, "old")
    with pytest.raises(UnicodeEncodeError):
        chapters.write_atomic(target, "\udc80")
    assert target.read_text(encoding="utf-8") == "old"


def test_unknown_chapter_is_named():
    with pytest.raises(ValueError, match="no chapter '77'"):
        chapters.sources(["77"])


def test_a_kernel_that_dies_at_once_is_started_once_more():
    calls = []

    def start(word, fails):
        calls.append(word)
        if len(calls) <= fails:
            raise RuntimeError("Kernel died before replying to kernel_info")
        return word

    assert chapters.patiently(start, "a", fails=1) == "a"
    assert calls == ["a", "a"]
    calls.clear()
    with pytest.raises(RuntimeError, match="Kernel died"):
        chapters.patiently(start, "a", fails=2)
    with pytest.raises(ZeroDivisionError):
        chapters.patiently(lambda: 1 / 0)


def test_a_chapter_that_needs_what_is_not_here_is_left_out_and_says_why(
    tmp_path, monkeypatch, capsys
):
    for name, tags in (("01_x", "parameters"), ("02_y", "parameters, needs-torch, needs-nosuch")):
        text = TEXT.replace("[parameters]", f"[{tags}]")
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(chapters, "TEXTS", tmp_path)
    assert [source.stem for source in chapters.runnable()] == ["01_x"]
    said = capsys.readouterr().out
    assert "02_y" in said
    assert "needs nosuch;" in said
    assert "WITH=flower" in said


def test_flower_is_not_asked_where_its_path_holds_a_space(monkeypatch):
    needs = next(filter(chapters.needed, chapters.sources()))
    monkeypatch.setattr(chapters, "find_spec", lambda name: name)
    assert chapters.left_out(needs) == ""
    monkeypatch.setattr("sys.prefix", "/home/ann/my book/.venv")
    assert "/home/ann/my book" in chapters.left_out(needs)
