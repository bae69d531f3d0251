"""Downloads of a site: PDFs, notebooks, a zip of the site, and the list of these.

The list in a built page is made from the existing files, so it contains no others.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import cards
import pdf

NAME = "who-contributed-what"
PAGE = "book/downloads.html"
PLACE = '<div class="downloads {}"></div>'
HEADS = {
    "PDF": "For paper",
    "PDF without solutions": "To hand out",
    "notebook": "For Jupyter",
    "PDF of one page": "For the wall",
    "lab": "For a class",
}
START = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip can hold
NO_ZIP = """<p>This copy works without a network. To pass it on, pass on the folder that it lies in;
it starts at <code>index.html</code>.</p>"""
ZIP = """<p>{}: this website. Unpack it anywhere, for instance on a USB stick, and open
<code>index.html</code> in it. It needs no network.</p>"""
NO_PDF = """<p>This copy was made without PDFs. <code>make site</code> prints them where Chromium or
Chrome is installed.</p>"""
BOOK = "<p>{}: the whole book to print, with its solutions and a list of contents.</p>"
CARDS = "<p>{}: the questions of all chapters, to import into Anki.</p>"
PDF = (
    "<p>In the PDFs for paper, solutions and answers are unfolded; those to hand out are without "
    "them. On one page, to hang up: a chapter's question, picture, method card and summary.</p>"
)


def link(site: Path, path: Path, text: str, of: str = "") -> str:
    """A link from the downloads page to a file of the site, with its size."""
    size = path.stat().st_size
    shown = f"{size / 1e6:.1f}&nbsp;MB" if size >= 1e5 else f"{max(size / 1e3, 1):.0f}&nbsp;kB"
    said = f' aria-label="{text} of {of}"' if of else ""
    address = path.relative_to(site).as_posix()
    return f'<a href="../{address}"{said} download>{text}</a>&nbsp;({shown})'


def notebooks(site: Path) -> dict[Path, Path]:
    """The pages made from notebooks, in order, with the notebooks."""
    stored = sorted((site / "_sources" / "notebooks").glob("*.ipynb"))
    return {site / "notebooks" / f"{path.stem}.html": path for path in stored}


def chapter_part(site: Path) -> str:
    """A table of the files of every chapter; kinds that no chapter has are left out."""
    found = {}
    for page, stored in notebooks(site).items():
        lab = site / "labs" / stored.name
        offers = {"PDF": pdf.place(site, page), "notebook": stored, "lab": lab}
        offers["PDF without solutions"] = pdf.place(site, page, pdf.HANDED_OUT)
        offers["PDF of one page"] = pdf.place(site, page, pdf.ON_A_WALL)
        found[pdf.title(page)[0]] = {kind: path for kind, path in offers.items() if path.exists()}
    kinds = [kind for kind in HEADS if any(kind in files for files in found.values())]
    rows = []
    for name, files in found.items():
        cells = (link(site, files[kind], kind, name) if kind in files else "" for kind in kinds)
        rows.append(f"<tr><td>{'</td><td>'.join([name, *cells])}</td></tr>")
    titles = "".join(f'<th scope="col">{x}</th>' for x in ["Chapter", *map(HEADS.get, kinds)])
    table = f"<thead><tr>{titles}</tr></thead><tbody>{''.join(rows)}</tbody>"
    box = f'<div class="pst-scrollable-table-container"><table class="table">{table}</table></div>'
    return box + (PDF if "PDF" in kinds else NO_PDF)


def list_files(site: Path, text: str) -> None:
    """Write the downloads page with its two lists of the existing files."""
    whole = site / f"{NAME}.zip"
    book = ZIP.format(link(site, whole, whole.name)) if whole.exists() else NO_ZIP
    if (printed := pdf.whole(site)).exists():
        book += BOOK.format(link(site, printed, printed.name))
    if (deck := site / cards.NAME).exists():
        book += CARDS.format(link(site, deck, deck.name))
    for part, html in (("book", book), ("chapters", chapter_part(site))):
        text = text.replace(PLACE.format(part), html)
    (site / PAGE).write_text(text, encoding="utf-8", newline="\n")


def write_zip(site: Path, target: Path) -> None:
    """A whole site under one folder; the same files give the same bytes."""
    found = {path.relative_to(site).as_posix(): path for path in site.rglob("*") if path.is_file()}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, path in sorted(found.items()):
            entry = zipfile.ZipInfo(f"{NAME}/{name}", START)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())


def finish(site: Path, browser: str | None, *, whole: bool) -> None:
    """Write PDFs if there is a browser, the lists of downloads, and (`whole`) a zip of it all."""
    blank = (site / PAGE).read_text(encoding="utf-8")
    if browser:
        pdf.print_pages(site, list(notebooks(site)), browser)
    list_files(site, blank)
    if whole:
        outside = site.with_suffix(".zip")
        write_zip(site, outside)
        outside.replace(site / f"{NAME}.zip")
        list_files(site, blank)  # now with the zip; the page inside the zip does not offer it
