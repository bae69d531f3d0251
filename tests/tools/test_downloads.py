"""What a site offers beside its pages is there, whole, and listed; nothing else is promised."""

import re
import zipfile

import pytest

import check_site
import downloads
import pdf

HEAD = '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{}</title></head>'


@pytest.mark.parametrize("printed", [False, True])
def test_everything_there_is_listed_and_in_the_zip(tmp_path, printed):
    site, copy = tmp_path / "site", tmp_path / "stick" / downloads.NAME
    places = "".join(downloads.PLACE.format(part) for part in ("book", "chapters"))
    pdfs = [f"pdf/{name}.pdf" for name in ("01_one", "01_one_without_solutions", pdf.WHOLE)]
    files = ["_sources/notebooks/01_one.ipynb", "labs/01_one.ipynb", *(pdfs if printed else [])]
    pages = {
        "notebooks/01_one.html": HEAD.format("1. One &#8212; The book"),
        downloads.PAGE: f"{HEAD.format('Downloads')}<body>{places}</body>",
    }
    for name, text in (dict.fromkeys(files, "{}") | pages).items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    downloads.finish(site, None, whole=True)
    listed = re.findall(r'href="\.\./([^"]+)"', (site / downloads.PAGE).read_text("utf-8"))
    assert sorted(listed) == sorted([*files, f"{downloads.NAME}.zip"])
    with zipfile.ZipFile(site / f"{downloads.NAME}.zip") as archive:
        archive.extractall(tmp_path / "stick")
    inside = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert inside == {*files, *pages}
    assert check_site.faults(site) == check_site.faults(copy) == []
    downloads.write_zip(copy, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == (site / f"{downloads.NAME}.zip").read_bytes()
