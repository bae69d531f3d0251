"""The search page answers what newcomers type: what they want is its first or second hit."""

import re
import tomllib
from pathlib import Path
from urllib.parse import quote

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
GLOSSARY, FAQ, RUN = "book/glossary.html#term-", "book/faq.html#", "book/run.html#"
REFRESHER = "notebooks/refresher.html#"
CHAPTER = {path.stem[:2]: f"notebooks/{path.stem}.html" for path in
           sorted(Path(__file__).parents[2].glob("book/chapters/[01]*.md"))}  # fmt: skip

# what is typed, and where one of the first two hits leads
SOUGHT = {
    # what stands in the book under other words
    "which method is best": CHAPTER["10"],
    "gradient inversion": "notebooks/privacy.html#a-picture-from-an-update",
    "what is shapley": CHAPTER["02"],
    "colab": f"{RUN}can-i-use-it-on-binder",
    "CUDA": f"{RUN}do-i-need-a-gpu-does-cuda-work",
    "malicious client": f"{FAQ}a-score-is-negative-is-the-client-malicious",
    "can a client cheat": f"{FAQ}what-is-a-free-rider-and-is-it-found",
    "monte carlo shapley": f"{GLOSSARY}permutation-sampling",
    "confidence interval": "book/how_we_know.html#what-an-interval-says",
    # questions as people ask them
    "how do I use my own model": f"{FAQ}my-own-model",
    "how to install": f"{RUN}two-commands",
    "is it private": f"{FAQ}is-federated-learning-private-by-itself",
    "cost of shapley value": f"{CHAPTER['02']}#what-it-costs",
    "does more data mean more contribution": "notebooks/evidence/05_reinforce_frcce.html"
    "#does-more-data-count-for-more",
    "where are the solutions": f"{FAQ}where-are-the-solutions",
    # words of the field
    "free rider": f"{GLOSSARY}free-rider",
    "leave one out": "book/methods.html#leave-one-out",
    "rank correlation": f"{REFRESHER}rank-correlation-do-two-rankings-agree",
    "temperature": f"{GLOSSARY}temperature",
    "fairness": "notebooks/evidence/10_head_to_head.html#is-it-fair-four-properties",
    "what is auc": f"{REFRESHER}auc-does-a-score-find-the-corrupted-clients",
    # what a newcomer asks
    "how much did each hospital contribute": "book/index.html",
    "what is federated learning": f"{GLOSSARY}federated-learning",
    "who should be paid": f"{CHAPTER['14']}#the-clinics-are-paid",
    "my data is in a csv file": "notebooks/own.html#a-csv-file-per-hospital",
    "is our data safe": f"{FAQ}is-federated-learning-private-by-itself",
    "remove a bad client": "book/which.html"
    "#do-you-look-for-corrupted-clients-and-are-the-label-mixes-similar",
    "how many clients can I have": f"{FAQ}how-many-clients",
    "does it work with flower": f"{FAQ}inside-flower-in-real-processes",
    "weekly report": "book/scored.html#a-report-for-each-week",
    "can I use it without internet": "book/teaching.html"
    "#a-room-of-thirty-machines-without-a-network",
    "what does a negative shapley value mean": f"{CHAPTER['02']}#try-it-can-a-share-be-negative",
    "duplicate data": f"{GLOSSARY}copy",
    "homomorphic encryption": f"{FAQ}does-contribution-evaluation-work-with-secure-aggregation",
    "segmentation": f"{FAQ}regression-segmentation-several-labels-language-models",
    "install on windows": f"{RUN}two-commands",
    "how to cite": f"{FAQ}how-do-i-cite-it",
    "how is a lab graded": "book/teaching.html#how-the-labs-work",
    "what is a coalition": f"{GLOSSARY}coalition",
    "compare my score with others": "notebooks/own.html#beside-the-others",
    "lazy client": "notebooks/13_adversaries.html#fir-learns-to-look-busy",
    # what stands beside the text
    "download pdf": "book/downloads.html",
    "symbols": "book/notation.html",
    "round_game": "book/fedlab_mini.html#fedlab_mini.games.training_games.round_game",
}


def hits(opened, site, sought: str) -> list[str]:
    """Where the first two hits lead."""
    opened.goto(f"{site.as_uri()}/search.html?q={quote(sought)}")
    opened.locator("#search-results [role=status]").wait_for()
    links = opened.locator("#search-results li a")
    return links.evaluate_all("all => all.map(a => a.getAttribute('href')).slice(0, 2)")


def test_search_finds_what_readers_type(open_page, site):
    opened = open_page(f"{site.as_uri()}/search.html")
    found = {sought: hits(opened, site, sought) for sought in SOUGHT}
    assert {sought: found[sought] for sought in SOUGHT if SOUGHT[sought] not in found[sought]} == {}
    for place in SOUGHT.values():
        page, _, anchor = place.partition("#")
        assert f'id="{anchor}"' in (site / page).read_text(encoding="utf-8") + 'id=""'
    assert hits(opened, site, "zzyzx") == []
    assert "No page has these words" in opened.locator("#search-results").inner_text()
    assert opened.faults == []


def test_both_columns_of_the_terms_find_the_term(open_page, site):
    """A reader who types the word that the book does not use finds the one that it does."""
    opened = open_page(f"{site.as_uri()}/search.html")
    table = tomllib.loads((ROOT / "book" / "terms.toml").read_text(encoding="utf-8"))["term"]
    missed = {}
    for term in table:
        anchor = f"{GLOSSARY}{re.sub('[^a-z0-9]+', '-', term['stands'].lower()).strip('-')}"
        for word in (term["stands"], *term["goes"]):
            found = hits(opened, site, word)
            if anchor not in [to.lower() for to in found]:
                missed[word] = found
    assert missed == {}


def test_search_finds_symbols_of_formulas(open_page, site):
    """The row of the table; of letters that are drawn in two ways, both ways are typed."""
    opened = open_page(f"{site.as_uri()}/search.html")
    firsts = {symbol: hits(opened, site, symbol)[0] for symbol in "θγψεϵφϕωδλμΔ"}
    assert {s: to for s, to in firsts.items() if "book/notation.html#symbol-" not in to} == {}
    page = (site / "book/notation.html").read_text(encoding="utf-8")
    assert all(f'id="{to.partition("#")[2]}"' in page for to in firsts.values())
