"""The site checker finds each kind of fault, and nothing in a sound page."""

import pytest

import check_site

SOUND = """<html><body><h1 id="top">x</h1><a href="#top">up</a><a href="other.html#there">on</a>
<a href="https://example.org/">elsewhere</a><img src="dot.png" alt="a dot"></body></html>"""
PLANTED = [
    ("", ""),
    ('<a href="nowhere.html">x</a>', "leads to no file: nowhere.html"),
    ('<a href="other.html#gone">x</a>', "leads to no anchor: other.html#gone"),
    ('<img src="dot.png" alt=" ">', "image without alternative text: dot.png"),
    ('<p id="top">again</p>', "an id stands twice: top"),
    ('<script src="//cdn.example.org/x.js"></script>', "loads from outside"),
    ('<link rel="stylesheet" href="https://example.org/x.css">', "loads from outside"),
]


@pytest.mark.parametrize(("planted", "fault"), PLANTED)
def test_a_planted_fault_is_found_and_no_other(tmp_path, planted, fault):
    (tmp_path / "other.html").write_text('<p id="there">y</p>', encoding="utf-8")
    (tmp_path / "dot.png").write_bytes(b"dot")
    (tmp_path / "index.html").write_text(SOUND.replace("</body>", planted), encoding="utf-8")
    found = check_site.faults(tmp_path)
    assert len(found) == bool(fault)
    assert all(one.startswith(f"index.html: {fault}") for one in found)
    (tmp_path / "x.css").write_text("src: url(//e.org/f.woff2)", encoding="utf-8")
    assert len(check_site.faults(tmp_path)) == 1 + len(found)
