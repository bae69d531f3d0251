"""What becomes of notebooks on their way to pages, and of an address; warnings are errors."""

import json
import re

import nbformat
import pytest
import yaml

import book
import build_site
import chapters
import page_scripts

CONFIG = "title: Book\nexecute: {execute_notebooks: 'off'}\nsphinx: {config: {}}\n"
HOSTILE = "</SCRIPT ><img src=y onerror=alert(1)><!--\u2028&"
TABLE = '<table class="fedlab-table">\n<caption>Costs.</caption>\n<tbody></tbody></table>'
HOME = "https://github.com/owner/name"


def test_only_a_public_address_gives_buttons(monkeypatch):
    monkeypatch.setenv("FEDLAB_REPOSITORY", HOME)
    found = yaml.safe_load(build_site.configure(CONFIG, build_site.repository()))
    assert found["sphinx"]["config"]["html_theme_options"]["repository_url"] == HOME
    for address in ("git@github.com:owner/name.git", "https://user:secret@github.com/owner/name"):
        monkeypatch.setenv("FEDLAB_REPOSITORY", address)
        with pytest.raises(ValueError, match="repository: expected"):
            build_site.repository()


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
    shown = [cell("x()", {"text/html": TABLE}), cell("assert a\nif b:\n    tell(k)", {})]
    shown += [cell("x = 1", {}), cell("x()", {"text/html": TABLE})]
    widget = cell("w", {chapters.WIDGET_VIEW: {}, "text/html": "<p>"})
    cells = [shown[0], written, *shown[1:], widget]
    build_site.staged(nbformat.v4.new_notebook(cells=cells), "4.")
    assert "widget-table" in widget.outputs[1]["data"]["text/html"]  # for who has no scripts
    texts = [shown[0].outputs[0]["data"]["text/html"], written.source]
    texts.append(shown[3].outputs[0]["data"]["text/html"])
    found = [re.findall(r'<span class="caption-number">(.*?) </span>', text) for text in texts]
    assert found == [["Table 4.1"], ["Table 4.2"], ["Table 4.3"]]
    said = [each.metadata["mystnb"]["code_prompt_show"] for each in shown]
    made = "How this is made"
    assert said == [made, "2 checks passed", "How this is computed", made]


def test_pictures_of_pixels_keep_their_colours_and_used_icons_stay(tmp_path):
    program = 'var a={house:[576,512,[1,"home"],"f015","M1"],two:[1,2,[],"f1",["M3","M4"]]};y()'
    page = '<i class="fa fa-home"></i><img src="../_images/a.svg"><img src="../_images/b.svg">'
    files = {build_site.PROGRAM: program, "notebooks/x.html": page}
    files |= {"_images/a.svg": "<svg><path/></svg>", "_images/b.svg": "<svg><image /></svg>"}
    for name, text in files.items():
        chapters.write_atomic(tmp_path / name, text)
    build_site.mark_pictures(tmp_path)
    build_site.trim_icons(tmp_path)
    left = (tmp_path / build_site.PROGRAM).read_text(encoding="utf-8")
    assert left == 'var a={house:[576,512,[1,"home"],"f015","M1"],};y()'
    shown = (tmp_path / "notebooks" / "x.html").read_text(encoding="utf-8")
    assert shown == page.replace('<img src="../_images/b', '<img data-pixels="" src="../_images/b')


def test_a_warning_of_the_builder_is_an_error(tmp_path, own_settings):
    texts = {"_config.yml": CONFIG, "_toc.yml": "format: jb-book\nroot: index\n"}
    for name, text in (texts | {"index.md": "# Book\n\n[nowhere](nowhere.md)\n"}).items():
        chapters.write_atomic(tmp_path / "staged" / name, text)
    with pytest.raises(build_site.SiteError, match=r"errors:\nindex\.md:3"):
        build_site.jupyter_book(tmp_path / "staged", tmp_path / "out")


def test_a_chapter_is_run_again_where_something_it_hangs_on_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    files = ["01_x.md", "fedlab_mini/a/model.py", "studies/x.py", "data/x.csv", "requirements.txt"]
    for name in (*files, "book/index.md", "fedlab_mini/__pycache__/x.pyc"):
        chapters.write_atomic(tmp_path / name, name)

    def key():
        book.shared.cache_clear()
        return book.chapter_key(tmp_path / "01_x.md")

    seen = [key()]
    for name in files:
        chapters.write_atomic(tmp_path / name, "changed")
        seen.append(key())
    assert len({*seen}) == len(seen)
    for name in ("book/index.md", "fedlab_mini/__pycache__/x.pyc", "data/.part"):
        chapters.write_atomic(tmp_path / name, "changed")
    assert key() == seen[-1]
