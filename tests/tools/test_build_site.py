"""Buttons follow an address, unused icons go, widgets' states cannot leave their scripts."""

import json
import re

import nbformat
import pytest
import yaml

import build_site
import chapters
import page_scripts

HOME = "https://github.com/owner/name"
CONFIG = """title: Book
execute: {execute_notebooks: 'off'}
sphinx:
  config:
    html_theme_options:
      home_page_in_toc: true
"""
PROGRAM = (
    'x();var a={house:[576,512,[127968,"home"],"f015","M1"],"circle-half":[512,512,[],"f042","M2"],'
    'two:[1,2,[],"f1",["M3","M4"]],last:[3,3,[],"f2","M5"]};y({keep:[1,2]})'
)


def test_first_source_of_an_address_wins(monkeypatch, tmp_path):
    monkeypatch.setattr(chapters, "ROOT", tmp_path)
    monkeypatch.delenv("FEDLAB_REPOSITORY", raising=False)
    config = tmp_path / "_config.yml"
    config.write_text(CONFIG, encoding="utf-8")
    assert build_site.repository() is None
    config.write_text(f"{CONFIG}repository: {{url: {HOME}}}\n", encoding="utf-8")
    assert build_site.repository() == HOME
    monkeypatch.setenv("FEDLAB_REPOSITORY", "https://gitlab.com/owner/my.book")
    assert build_site.repository() == "https://gitlab.com/owner/my.book"
    monkeypatch.setenv("FEDLAB_REPOSITORY", "")
    assert build_site.repository() is None


@pytest.mark.parametrize(
    "address",
    [
        "owner/name",
        "/srv/git/name.git",
        "git@github.com:owner/name.git",
        "http://github.com/owner/name",
        "https://example.org/owner/name",
        "https://github.com.example.org/owner/name",
        "https://user:secret@github.com/owner/name",
        "https://github.com/owner",
        "https://github.com/owner/name/tree/main",
    ],
)
def test_only_public_addresses_count(monkeypatch, address):
    monkeypatch.setenv("FEDLAB_REPOSITORY", address)
    with pytest.raises(ValueError, match="repository: expected https://github"):
        build_site.repository()


def test_without_an_address_the_configuration_stays():
    assert build_site.configure(CONFIG, None) == CONFIG
    settings = yaml.safe_load(build_site.configure(CONFIG, HOME))
    options = settings["sphinx"]["config"]["html_theme_options"]
    assert options["home_page_in_toc"]
    assert options["repository_url"] == HOME


HOSTILE = "</SCRIPT ><img src=y onerror=alert(1)><!--\u2028&"


@pytest.mark.parametrize(
    "content",
    ['{"a": "</script>"}', json.dumps({HOSTILE: [HOSTILE, 1.5, None]}), '{"a": "\\u003c"}'],
)
def test_a_state_stays_in_its_script_and_says_the_same(content):
    text = page_scripts.harmless(content)
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == json.loads(content)


def test_numbers_that_are_none_become_null():
    assert json.loads(page_scripts.harmless("[NaN, Infinity, -Infinity, 1]")) == [None] * 3 + [1]


def test_a_page_has_buttons_and_hostile_states_stay_data(tmp_path, own_settings):
    state = {"a": {"model_module": "anywidget", "state": {"names": [HOSTILE], "x": float("nan")}}}
    widgets = {chapters.WIDGET_STATE: {"state": state, "version_major": 2, "version_minor": 0}}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# One\n\nText.")])
    notebook.metadata = chapters.METADATA | {"widgets": widgets}
    config = yaml.safe_load(build_site.configure(CONFIG, HOME))
    config["sphinx"]["local_extensions"] = {"page_scripts": "."}
    texts = {
        "_config.yml": yaml.safe_dump(config),
        "_toc.yml": "format: jb-book\nroot: book/index\nchapters: [file: notebooks/01_one]\n",
        "book/index.md": "# Book\n\nText.\n",
        "notebooks/01_one.ipynb": nbformat.writes(notebook),
        "page_scripts.py": (chapters.ROOT / "tools/page_scripts.py").read_text(encoding="utf-8"),
    }
    for name, text in texts.items():
        chapters.write_atomic(tmp_path / "staged" / name, text)
    build_site.jupyter_book(tmp_path / "staged", tmp_path / "out")
    built = tmp_path / "out" / "_build" / "html" / "notebooks" / "01_one.html"
    page = built.read_text(encoding="utf-8")
    links = re.findall(r'href="(https://(?:mybinder|github)[^"]*owner[^"]*)"', page)
    assert {link for link in links if "/issues/" not in link} == {
        "https://mybinder.org/v2/gh/owner/name/main?urlpath=lab/tree/notebooks/01_one.ipynb",
        HOME,
    }
    assert any(link.startswith(f"{HOME}/issues/new") for link in links)
    assert "onerror" in page
    assert "<img src=y" not in page
    (stored,) = re.findall(r'widget-state\+json">(.*?)</script>', page, re.DOTALL)
    assert json.loads(stored)["state"]["a"]["state"] == {"names": [HOSTILE], "x": None}


def test_warnings_of_the_builder_are_errors_without_its_banner(tmp_path, own_settings):
    texts = {
        "_config.yml": CONFIG,
        "_toc.yml": "format: jb-book\nroot: index\n",
        "index.md": "# Book\n\n[nowhere](nowhere.md)\n",
    }
    for name, text in texts.items():
        chapters.write_atomic(tmp_path / "staged" / name, text)
    with pytest.raises(build_site.SiteError, match=r"errors:\nindex\.md:3") as caught:
        build_site.jupyter_book(tmp_path / "staged", tmp_path / "out")
    assert "Source Folder" not in str(caught.value)


def test_a_site_keeps_the_icons_that_it_names(tmp_path):
    program = tmp_path / build_site.PROGRAM
    chapters.write_atomic(program, PROGRAM)
    program.with_suffix(".js.map").write_text("{}", encoding="utf-8")
    page = '<i class="fa-solid fa-home"></i><i class="fa fa-two"></i>'
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    build_site.trim_icons(tmp_path)
    made = program.read_text(encoding="utf-8")
    assert "house:[576" in made  # by its other name
    assert '["M3","M4"]' in made
    assert made.startswith("x();var a={")
    assert made.endswith("};y({keep:[1,2]})")
    assert "M2" not in made
    assert "M5" not in made
    assert not program.with_suffix(".js.map").exists()


def test_binder_installs_the_package_in_pinned_versions():
    lines = (chapters.ROOT / ".binder" / "requirements.txt").read_text(encoding="utf-8").split("\n")
    assert {"-c ../requirements.txt", "-e ."} <= set(lines)
    pinned = (chapters.ROOT / "requirements.txt").read_text(encoding="utf-8")
    for name in (line for line in lines if re.match(r"\w", line)):
        assert re.search(rf"^{name}==", pinned, re.MULTILINE)


TABLE = '<table class="fedlab-table">\n<caption>Costs.</caption>\n<tbody></tbody></table>'


def cell(source: str, *tags: str, **shown: str) -> nbformat.NotebookNode:
    outputs = [nbformat.v4.new_output("display_data", shown)] if shown else []
    return nbformat.v4.new_code_cell(source, outputs=outputs, metadata={"tags": [*tags]})


def test_tables_are_numbered_as_figures_are():
    shown = [cell("a", **{"text/html": text}) for text in (TABLE, "<p>no table</p>", TABLE)]
    written = nbformat.v4.new_markdown_cell("Costs:\n\n:::{table} Prices.\n\n| a |\n|---|\n:::")
    cells = [shown[0], written, *shown[1:]]
    build_site.staged(nbformat.v4.new_notebook(cells=cells), "4.")
    texts = [written.source, *(cell.outputs[0]["data"]["text/html"] for cell in shown)]
    found = [re.findall(r'<span class="caption-number">(.*?) </span>', text) for text in texts]
    assert found == [["Table 4.2"], ["Table 4.1"], [], ["Table 4.3"]]
    assert ":::{table} <span" in written.source


@pytest.mark.parametrize(
    ("source", "shown", "said"),
    [
        ("x = 1\nassert x", {}, "Check passed"),
        ("assert a\nfor k in b:\n    tell(k, c, above=0)", {}, "2 checks passed"),
        ("assert a\nplot(a)", {"image/svg+xml": "<svg/>"}, "How this is made"),
        ("x = load()", {}, "How this is computed"),
        ("tell(a)", {"application/papermill.record/text/plain": "1"}, "Check passed"),
    ],
)
def test_a_folded_cell_says_what_it_holds(source, shown, said):
    folded, open_cell = cell(source, "hide-input", **shown), cell(source, **shown)
    build_site.staged(nbformat.v4.new_notebook(cells=[folded, open_cell]))
    assert folded.metadata["mystnb"]["code_prompt_show"] == said
    assert "mystnb" not in open_cell.metadata


def test_pictures_of_pixels_are_told_from_drawings(tmp_path):
    (tmp_path / "_images").mkdir()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "_images" / "a.svg").write_text("<svg><path/></svg>", encoding="utf-8")
    (tmp_path / "_images" / "b.svg").write_text("<svg><image /></svg>", encoding="utf-8")
    page = tmp_path / "notebooks" / "x.html"
    text = '<img alt="{0}" src="../_images/{0}.svg">'
    page.write_text(text.format("a") + text.format("b"), encoding="utf-8")
    build_site.mark_pictures(tmp_path)
    found = page.read_text(encoding="utf-8")
    assert re.findall(r'<img data-pixels="" alt="(.)"', found) == ["b"]
