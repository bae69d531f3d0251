"""The site as a reader meets it: opened from disk in a browser, with no network."""

import re
from pathlib import Path

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe

ROOT = Path(__file__).resolve().parents[2]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
PAGES = [TOC["root"], *(c["file"] for part in TOC["parts"] for c in part["chapters"])]
CHAPTERS = [page for page in PAGES if page.startswith("notebooks/")]
RAW_MATHS = re.compile(r"\$\$|\\\(|\\\[|\\begin\{")
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
THEME_SEARCH = ".search-button-field"  # the theme's own: its label is not its visible text

pytestmark = pytest.mark.browser


def address(site: Path, page: str) -> str:
    return f"{site.as_uri()}/{page}.html"


def faults(page) -> list[str]:
    """What is wrong with an opened page: its errors, images, and formulas."""
    found = list(page.faults)
    found += page.eval_on_selector_all(
        "article img", "all => all.filter(i => !i.naturalWidth).map(i => `image missing: ${i.src}`)"
    )
    sources = page.locator("article .math").count()
    drawn = page.locator("article .math mjx-container").count()
    if drawn < sources:
        found.append(f"{sources} formulas, {drawn} of them drawn")
    found += [f"formula error: {text}" for text in page.locator("mjx-merror").all_inner_texts()]
    text = page.evaluate(
        """() => { const copy = document.querySelector("article").cloneNode(true);
        copy.querySelectorAll("pre, code, script, mjx-container").forEach((e) => e.remove());
        return copy.textContent; }"""
    )
    found += [f"raw formula: {hit}" for hit in RAW_MATHS.findall(text)]
    return found


@pytest.mark.parametrize("page", PAGES)
def test_page_is_clean(open_page, site, page):
    opened = open_page(address(site, page))
    assert opened.locator("article h1").first.is_visible()
    assert faults(opened) == []


@pytest.mark.parametrize("page", PAGES)
def test_phone_needs_no_sideways_scroll(open_page, site, page):
    opened = open_page(address(site, page), width=390)
    wide = opened.eval_on_selector_all(
        "article *",
        "all => all.filter(e => e.scrollWidth > 391).map(e => e.outerHTML.slice(0, 90))",
    )
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390, wide[:3]


def luminance(colour: str) -> float:
    """Relative luminance of a CSS rgb() colour, as WCAG defines it."""
    parts = [int(x) / 255 for x in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("page", [TOC["root"], *CHAPTERS])
def test_dark_mode_is_dark_and_readable(open_page, site, page):
    opened = open_page(address(site, page), scheme="dark")
    assert opened.locator("html").get_attribute("data-theme") == "dark"
    colours = opened.evaluate(
        """() => { const style = getComputedStyle(document.querySelector("article p"));
        return [getComputedStyle(document.body).backgroundColor, style.color]; }"""
    )
    paper, ink = map(luminance, colours)
    assert paper < 0.05
    assert (ink + 0.05) / (paper + 0.05) >= 7
    mats = opened.eval_on_selector_all(
        "article div.cell_output img", "all => all.map(i => getComputedStyle(i).backgroundColor)"
    )
    assert all(luminance(mat) > 0.9 for mat in mats), "figures are drawn for white paper"


def test_search_finds_a_word(open_page, site):
    opened = open_page(address(site, "search") + "?q=federated")
    hits = opened.locator("#search-results li a")
    hits.first.wait_for()
    assert hits.count() >= 3
    assert opened.faults == []


def test_front_door_leads_to_the_book(open_page, site):
    opened = open_page(f"{site.as_uri()}/index.html")
    opened.wait_for_url(f"**/{TOC['root']}.html")
    opened.locator("nav.bd-links a", has_text=re.compile("^1")).first.click()
    opened.wait_for_url(f"**/{CHAPTERS[0]}.html")
    assert opened.faults == []


@pytest.mark.parametrize("page", CHAPTERS)
def test_chapter_can_be_copied_downloaded_and_unfolded(open_page, site, page):
    opened = open_page(address(site, page))
    assert opened.locator("div.cell_input button.copybtn").count() > 0
    stored = opened.locator("a.btn-download-source-button").first.get_attribute("href")
    assert (site / page).parent.joinpath(stored).resolve().suffix == ".ipynb"
    assert (site / page).parent.joinpath(stored).resolve().exists()
    solutions = opened.locator("div.solution.dropdown")
    assert solutions.count() > 0
    first = solutions.first
    inside = first.locator("section, p:not(.admonition-title)").first
    assert not inside.is_visible()
    first.locator("button.toggle-button").click()
    assert inside.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", [TOC["root"], CHAPTERS[0], CHAPTERS[1], "book/methods"])
def test_accessible(open_page, site, page, scheme):
    opened = open_page(address(site, page), scheme=scheme)
    results = Axe().run(opened, context={"exclude": [[THEME_SEARCH]]}, options=RULES)
    found = [
        f"{rule['id']}: {node['html'][:120]}"
        for rule in results.response["violations"]
        for node in rule["nodes"]
    ]
    assert found == []


def test_the_checks_see_planted_faults(open_page, tmp_path):
    broken = tmp_path / "broken.html"
    broken.write_text(
        """<article><h1>x</h1><p>a $$ formula</p><span class="math">x</span>
        <img src="https://example.org/x.png" alt="x"><img src="none.png" alt="y">
        <script>nothing.here()</script></article>""",
        encoding="utf-8",
    )
    found = "\n".join(faults(open_page(broken.as_uri())))
    for fault in (
        "request to another machine: https://example.org/x.png",
        "script error",
        "image missing",
        "1 formulas, 0 of them drawn",
        "raw formula",
    ):
        assert fault in found
