"""What becomes of notebooks on their way to pages, and which chapters are run again."""

import json
import re

import nbformat

import book
import build_site
import chapters
import page_scripts

HOSTILE = "</SCRIPT ><img src=y onerror=alert(1)><!--\u2028&"
TABLE = '<table class="fedlab-table">\n<caption>Costs.</caption>\n<tbody></tbody></table>'


def test_a_state_stays_in_its_script_and_is_json():
    text = page_scripts.harmless(json.dumps({HOSTILE: [HOSTILE, 1.5, float("nan")]}))
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == {HOSTILE: [HOSTILE, 1.5, None]}


def test_tables_are_numbered_and_folded_cells_say_what_they_hold():
    def cell(source, shown):
        output = nbformat.v4.new_output("display_data", shown)
        tags = {"tags": ["hide-input"]}
        return nbformat.v4.new_code_cell(source, outputs=[output] * bool(shown), metadata=tags)

    written = nbformat.v4.new_markdown_cell("Costs:\n\n:::{table} Prices.\n\n| a |\n|---|\n:::")
    drawn, checks = cell("x()", {"text/html": TABLE}), cell("assert a\nif b:\n    tell(k)", {})
    widget = cell("w", {chapters.WIDGET_VIEW: {}, "text/html": "<p>"})
    cells = [written, drawn, checks, widget]
    build_site.staged(nbformat.v4.new_notebook(cells=cells), "4.")
    assert "Table 4.1 " in written.source
    assert "Table 4.2 " in drawn.outputs[0]["data"]["text/html"]
    assert "widget-table" in widget.outputs[1]["data"]["text/html"]  # for who has no scripts
    said = [each.metadata["mystnb"]["code_prompt_show"] for each in (drawn, checks)]
    assert said == ["How this is made", "2 checks passed"]


def test_a_chapter_is_run_again_where_something_it_hangs_on_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    files = ["01_x.md", "fedlab_mini/a/model.py", "studies/x.py", "data/x.csv", "requirements.txt"]
    seen = []
    for name in ["", *files, "fedlab_mini/__pycache__/x.pyc", "book/index.md"]:
        chapters.write_atomic(tmp_path / (name or "01_x.md"), f"new {name}")
        seen += book.chapter_keys([tmp_path / "01_x.md"]).values()
    assert len({*seen}) == 1 + len(files)
