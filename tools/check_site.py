"""Check a built site without a browser: links, anchors, unique ids, alternative texts, loads.

    python tools/check_site.py _build/site

Print one line per fault, and exit 1 if there is any. Links to other sites are not followed.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
PASSIVE_LINKS = {"canonical", "author", "index", "search", "next", "prev", "help", "copyright"}
CSS_LOAD = re.compile(r"""(?:url\(|@import)\s*["']?\s*((?:https?:)?//[^"')\s]+)""")


class Page(HTMLParser):
    """The definitions and references of one HTML file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.ids: set[str] = set()
        self.twice: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.without_alt: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.twice |= {found["id"]} & self.ids if "id" in found else set()
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "img" and not found.get("alt", "").strip():
            self.without_alt.append(found.get("src", "?"))
        passive = tag == "link" and found.get("rel", "") in PASSIVE_LINKS
        if tag in LOADS and LOADS[tag] in found and not passive:
            self.loads.append(found[LOADS[tag]])


def is_outside(address: str) -> bool:
    """Whether an address is on another host."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https")


def broken(page: Page, address: str, pages: dict[Path, Page]) -> str | None:
    """Why an address inside the site is broken, or None."""
    parts = urlsplit(address)
    if is_outside(address) or parts.scheme in ("mailto", "data", "javascript", "blob"):
        return None
    target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return f"leads to no file: {address}"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        return f"leads to no anchor: {address}"
    return None


def faults(site: Path) -> list[str]:
    """Every fault of a built site, one line each."""
    site = site.resolve()
    files = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: Page(path) for path in files}
    if not pages:
        return [f"{site}: no pages; build the site first: make site"]
    found: list[str] = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        found += [f"{name}: loads from outside: {x}" for x in page.loads if is_outside(x)]
        found += [f"{name}: an id stands twice: {x}" for x in sorted(page.twice)]
        found += [f"{name}: image without alternative text: {x}" for x in page.without_alt]
        reasons = (broken(page, x, pages) for x in [*page.links, *page.loads])
        found += [f"{name}: {reason}" for reason in reasons if reason]
    for style in sorted(site.rglob("*.css")):
        outside = CSS_LOAD.findall(style.read_text(encoding="utf-8"))
        found += [f"{style.relative_to(site).as_posix()}: loads from outside: {x}" for x in outside]
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/check_site.py SITE")
    found = faults(Path(sys.argv[1]).expanduser())
    print("\n".join(found))
    sys.exit(bool(found))
