"""The site checker finds each kind of fault, and nothing in a sound page."""

import pytest

import check_site

SOUND = """<html><body><h1 id="top">x</h1><a href="#top">up</a><a href="other.html#there">on</a>
<a href="https://example.org/">elsewhere</a><img src="dot.png" alt="a dot"></body></html>"""

FAULTS = {
    '<a href="nowhere.html">x</a>': "leads to no file: nowhere.html",
    '<a href="other.html#gone">x</a>': "leads to no anchor: other.html#gone",
    '<a href="#gone">x</a>': "leads to no anchor: #gone",
    '<img src="dot.png">': "image without alternative text: dot.png",
    '<img src="dot.png" alt=" ">': "image without alternative text: dot.png",
    '<img src="gone.png" alt="x">': "leads to no file: gone.png",
    '<script src="https://cdn.example.org/x.js"></script>': "loads from outside",
    '<script src="//cdn.example.org/x.js"></script>': "loads from outside",
    '<link rel="stylesheet" href="https://example.org/x.css">': "loads from outside",
    '<iframe src="https://example.org/"></iframe>': "loads from outside",
}


@pytest.fixture
def sound(tmp_path):
    (tmp_path / "index.html").write_text(SOUND, encoding="utf-8")
    (tmp_path / "other.html").write_text('<p id="there">y</p>', encoding="utf-8")
    (tmp_path / "dot.png").write_bytes(b"dot")
    return tmp_path


def test_sound_site_has_no_faults(sound):
    assert check_site.faults(sound) == []


@pytest.mark.parametrize(("planted", "fault"), FAULTS.items())
def test_planted_fault_is_found(sound, planted, fault):
    page = sound / "index.html"
    page.write_text(SOUND.replace("</body>", f"{planted}</body>"), encoding="utf-8")
    found = check_site.faults(sound)
    assert len(found) == 1
    assert found[0].startswith("index.html: ")
    assert fault in found[0]


@pytest.mark.parametrize("rule", ['@import "https://e.org/x.css"', "src: url(//e.org/f.woff2)"])
def test_outside_load_in_a_style_sheet_is_found(sound, rule):
    (sound / "x.css").write_text(rule, encoding="utf-8")
    assert ["loads from outside" in fault for fault in check_site.faults(sound)] == [True]


def test_size_limits(sound, monkeypatch):
    monkeypatch.setattr(check_site, "PAGE_LIMIT", 10)
    monkeypatch.setattr(check_site, "SITE_LIMIT", 10)
    assert sum("limit" in fault for fault in check_site.faults(sound)) == 3


def test_empty_folder_is_a_fault(tmp_path):
    assert "no pages" in check_site.faults(tmp_path)[0]
