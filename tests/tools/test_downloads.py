"""What a site offers beside its pages is there, whole, and listed; nothing else is promised."""

import re
import zipfile

import pytest

import check_site
import chromium
import downloads
import pdf

HEAD = '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{}</title></head>'


@pytest.fixture
def site(tmp_path):
    """A site of two chapters and the downloads page."""
    folder = tmp_path / "site"
    for name, title in (("01_one", "1. One &amp; all"), ("02_two", "2. Two")):
        page = folder / "notebooks" / f"{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(HEAD.format(f"{title} &#8212; The book"), encoding="utf-8")
        stored = folder / "_sources" / "notebooks" / f"{name}.ipynb"
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_text("{}" * 100, encoding="utf-8")
    (folder / "notebooks" / "other.html").write_text(HEAD.format("Other"), encoding="utf-8")
    (folder / "index.html").write_text("<h1>front</h1>", encoding="utf-8")
    page = folder / downloads.PAGE
    page.parent.mkdir()
    places = "".join(downloads.PLACE.format(part) for part in ("book", "chapters"))
    page.write_text(f"{HEAD.format('Downloads')}<body>{places}</body>", encoding="utf-8")
    return folder


def broken(site):
    """Links of the downloads page that lead nowhere."""
    faults = check_site.faults(site)
    return [fault for fault in faults if fault.startswith(downloads.PAGE)]


def plant_pdfs(site):
    """Files in place of prints."""
    (site / "pdf").mkdir()
    for page in downloads.notebooks(site):
        pdf.place(site, page).write_bytes(b"%PDF" * 100_000)
        pdf.place(site, page, solutions=False).write_bytes(b"%PDF" * 50_000)
    pdf.whole(site).write_bytes(b"%PDF" * 200_000)


def test_without_a_browser_no_pdf_is_promised(site):
    downloads.finish(site, None, whole=False)
    page = (site / downloads.PAGE).read_text(encoding="utf-8")
    assert ".pdf" not in page
    assert "without PDFs" in page
    assert ".zip" not in page
    assert page.count(".ipynb") == 2
    assert broken(site) == []


def test_everything_there_is_listed_with_its_size(site):
    plant_pdfs(site)
    downloads.finish(site, None, whole=True)
    page = (site / downloads.PAGE).read_text(encoding="utf-8")
    assert broken(site) == []
    found = re.findall(r'href="\.\./([^"]+)"', page)
    assert sorted(found) == [
        "_sources/notebooks/01_one.ipynb",
        "_sources/notebooks/02_two.ipynb",
        "pdf/01_one.pdf",
        "pdf/01_one_without_solutions.pdf",
        "pdf/02_two.pdf",
        "pdf/02_two_without_solutions.pdf",
        "pdf/who-contributed-what.pdf",
        "who-contributed-what.zip",
    ]
    assert 'aria-label="PDF of 1. One &amp; all" download>PDF</a>&nbsp;(0.4&nbsp;MB)' in page
    assert "(1&nbsp;kB)" in page
    assert "without PDFs" not in page


def test_labs_are_listed_where_a_chapter_has_one(site):
    (site / "labs").mkdir()
    (site / "labs" / "02_two.ipynb").write_text("{}", encoding="utf-8")
    downloads.finish(site, None, whole=False)
    page = (site / downloads.PAGE).read_text(encoding="utf-8")
    assert re.findall(r'href="\.\./(labs[^"]*)"', page) == ["labs/02_two.ipynb"]
    assert page.count("<td></td>") == 1
    assert broken(site) == []


def test_a_listed_file_that_goes_missing_is_a_fault_of_the_site(site):
    plant_pdfs(site)
    downloads.finish(site, None, whole=False)
    (site / "pdf" / "02_two.pdf").unlink()
    assert broken(site) == [f"{downloads.PAGE}: leads to no file: ../pdf/02_two.pdf"]


def test_zip_is_the_site_without_itself_and_sound(site, tmp_path):
    plant_pdfs(site)
    before = {path.relative_to(site) for path in site.rglob("*") if path.is_file()}
    downloads.finish(site, None, whole=True)
    with zipfile.ZipFile(site / "who-contributed-what.zip") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == sorted(archive.namelist())
        archive.extractall(tmp_path / "stick")
    copy = tmp_path / "stick" / "who-contributed-what"
    assert [path.name for path in (tmp_path / "stick").iterdir()] == [copy.name]
    assert {path.relative_to(copy) for path in copy.rglob("*") if path.is_file()} == before
    assert (copy / "index.html").read_text(encoding="utf-8") == "<h1>front</h1>"
    assert broken(copy) == []
    assert ".zip" not in (copy / downloads.PAGE).read_text(encoding="utf-8")


def test_same_files_give_the_same_zip(site, tmp_path):
    downloads.write_zip(site, tmp_path / "a.zip")
    for path in site.rglob("*"):
        path.touch()
    downloads.write_zip(site, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    (site / "index.html").write_text("other", encoding="utf-8")
    downloads.write_zip(site, tmp_path / "c.zip")
    assert (tmp_path / "a.zip").read_bytes() != (tmp_path / "c.zip").read_bytes()


def test_page_without_its_places_is_refused(site):
    (site / downloads.PAGE).write_text("nothing here", encoding="utf-8")
    with pytest.raises(ValueError, match="once"):
        downloads.finish(site, None, whole=False)


def test_no_browser_is_said_in_one_line_or_is_a_fault(monkeypatch, capsys):
    monkeypatch.setattr(chromium, "find", lambda: None)
    monkeypatch.delenv("FEDLAB_REQUIRE_BROWSER", raising=False)
    assert chromium.wanted("PDFs") is None
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert said.startswith("PDFs left out: ")
    assert "FEDLAB_CHROMIUM" in said
    monkeypatch.setenv("FEDLAB_REQUIRE_BROWSER", "1")
    with pytest.raises(SystemExit, match=r"PDFs required .*FEDLAB_CHROMIUM"):
        chromium.wanted("PDFs")


def test_named_browser_comes_first(monkeypatch):
    monkeypatch.setenv("FEDLAB_CHROMIUM", "/some/where/chrome")
    assert chromium.find() == "/some/where/chrome"
    monkeypatch.delenv("FEDLAB_CHROMIUM")
    monkeypatch.setattr(chromium.shutil, "which", {"google-chrome": "/usr/bin/google-chrome"}.get)
    assert chromium.find() == "/usr/bin/google-chrome"


def test_downloads_have_a_limit_of_their_own(site, monkeypatch):
    plant_pdfs(site)
    monkeypatch.setattr(check_site, "SITE_LIMIT", 100_000)
    assert not any("limit" in fault for fault in check_site.faults(site))
    monkeypatch.setattr(check_site, "DOWNLOADS_LIMIT", 100_000)
    assert [f for f in check_site.faults(site) if "limit" in f] == [
        "downloads of 2,000,000 bytes, limit 100,000"
    ]


def test_titles_are_taken_from_the_page(site):
    assert pdf.title(site / "notebooks" / "01_one.html") == ("1. One &amp; all", "The book")
