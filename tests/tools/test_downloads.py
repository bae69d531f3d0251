"""What a site offers beside its pages is there, whole, and listed; nothing else is promised."""

import re
import zipfile

import pytest

import check_site
import downloads
import pdf

HEAD = '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{}</title></head>'


@pytest.mark.parametrize("printed", [False, True])
def test_everything_there_is_listed_and_in_the_zip(tmp_path, monkeypatch, printed):
    site = tmp_path / "site"
    places = "".join(downloads.PLACE.format(part) for part in ("book", "chapters"))
    files = {
        "_sources/notebooks/01_one.ipynb": "{}",
        "_sources/notebooks/02_two.ipynb": "{}",
        "labs/02_two.ipynb": "{}",
    }
    pages = {
        "notebooks/01_one.html": HEAD.format("1. One &amp; all &#8212; The book"),
        "notebooks/02_two.html": HEAD.format("2. Two &#8212; The book"),
        "notebooks/other.html": HEAD.format("Other"),
        downloads.PAGE: f"{HEAD.format('Downloads')}<body>{places}</body>",
    }
    if printed:
        kinds = ("01_one", "01_one_without_solutions", "02_two", pdf.WHOLE)
        files |= {f"pdf/{name}.pdf": "%PDF" * 100_000 for name in kinds}
    for name, text in (files | pages).items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    downloads.finish(site, None, whole=True)
    shown = (site / downloads.PAGE).read_text(encoding="utf-8")
    assert check_site.faults(site) == []
    listed = re.findall(r'href="\.\./([^"]+)"', shown)
    assert sorted(listed) == sorted([*files, f"{downloads.NAME}.zip"])
    said = 'aria-label="PDF of 1. One &amp; all" download>PDF</a>&nbsp;(0.4&nbsp;MB)'
    assert (said in shown, "without PDFs" in shown) == (printed, not printed)
    with zipfile.ZipFile(site / f"{downloads.NAME}.zip") as archive:
        archive.extractall(tmp_path / "stick")
    copy = tmp_path / "stick" / downloads.NAME
    inside = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert inside == {*files, *pages}
    assert check_site.faults(copy) == []
    downloads.write_zip(copy, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == (site / f"{downloads.NAME}.zip").read_bytes()
    monkeypatch.setattr(check_site, "SITE_LIMIT", 100_000)  # PDFs and the zip do not count there
    assert check_site.faults(site) == []
    monkeypatch.setattr(check_site, "DOWNLOADS_LIMIT", 1)
    assert [fault.partition(" of")[0] for fault in check_site.faults(site)] == ["downloads"]
