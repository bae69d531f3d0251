"""The front page, and the page for lost readers, say of the chapters what the chapters say."""

import itertools
import math
import re
from dataclasses import dataclass
from xml.etree import ElementTree

import pytest
import yaml

import chapters

INDEX = (chapters.ROOT / "book" / "index.md").read_text(encoding="utf-8")
TEACHING = (chapters.ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
NUMBERS = ["no", "one", "two", "three", "four", "five"]
LOST = (chapters.ROOT / "book" / "_extra" / "404.html").read_text(encoding="utf-8")
PICTURE = chapters.ROOT / "book" / "_static" / "figures" / "federation_moving.html"
NEEDS = re.compile(
    r"^\*\*You need\*\* (?P<needs>.*?)\.\s[^\n]*?"
    r"\*\*Time\*\* (?P<whole>\d+) minutes, (?P<short>\d+) without",
    re.MULTILINE | re.DOTALL,
)
NAMED = re.compile(r"\b(?:chapters?|needs) (\d+(?:(?:, | and | to )\d+)*)")
CARD = re.compile(r"^( *)- \[(\d+) ([^\]]+)\]\[(\d+)\] (\d+) min(.*)$", re.MULTILINE)
ROW = re.compile(r"^\| ([^|]+) \| ([^|]*\[\d+\][^|]*) \| (\d+) \((\d+)\) \|$", re.MULTILINE)
TARGET = re.compile(r"^\[(\d+)\]: \.\./(notebooks/\w+)\.ipynb$", re.MULTILINE)


def named(text: str) -> set[int]:
    """The chapters that a phrase such as `chapters 1 to 3` names."""
    found: set[int] = set()
    for phrase in NAMED.findall(text):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", phrase):
            found |= set(range(int(first), int(last or first) + 1))
    return found


@dataclass(frozen=True)
class Chapter:
    """What a chapter says of itself."""

    page: str
    title: str
    needs: set[int]
    whole: int
    short: int


def read() -> dict[int, Chapter]:
    """Every chapter by its number."""
    found = {}
    for source in chapters.numbered():
        text = source.read_text(encoding="utf-8")
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        line = NEEDS.search(text)
        assert line, f"{source.name}: no line with **You need** and **Time**"
        page, needs = f"notebooks/{source.stem}", named(line["needs"])
        whole, short = int(line["whole"]), int(line["short"])
        found[int(source.stem[:2])] = Chapter(page, title[1], needs, whole, short)
    return found


CHAPTERS = read()


def ancestors(cards: list[re.Match[str]], place: int) -> list[int]:
    """Numbers of the cards above one in the map, nearest first."""
    found, depth = [], len(cards[place][1])
    for card in reversed(cards[:place]):
        if len(card[1]) < depth:
            found.append(int(card[2]))
            depth = len(card[1])
    return found


def test_phrases_are_read():
    assert named("chapters 1 to 3, and that 2 is even") == {1, 2, 3}
    assert named("chapters 1, 2 and 5") == {1, 2, 5}
    assert named(", needs 1 and 8") == {1, 8}
    assert named("PyTorch tensors") == set()


def test_map_says_what_the_chapters_say():
    cards = list(CARD.finditer(INDEX))
    assert sorted(int(card[2]) for card in cards) == sorted(CHAPTERS)
    for place, card in enumerate(cards):
        chapter = CHAPTERS[int(card[2])]
        assert card[4] == card[2]
        assert chapter.title.startswith(card[3])
        assert int(card[5]) == chapter.whole, f"minutes of chapter {card[2]}"
        assert named(card[6]) == chapter.needs, f"needs of chapter {card[2]}"
        above = ancestors(cards, place)
        assert set(above[:1]) <= chapter.needs <= set(above), f"place of chapter {card[2]}"


def test_links_lead_to_the_chapters_of_the_contents():
    toc = yaml.safe_load((chapters.ROOT / "_toc.yml").read_text(encoding="utf-8"))
    listed = [entry["file"] for entry in toc["parts"][0]["chapters"]]
    assert [page for _, page in TARGET.findall(INDEX)] == listed
    assert [CHAPTERS[number].page for number in sorted(CHAPTERS)] == listed
    order = re.findall(r"^(\d+)\. \{doc\}`\.\./(notebooks/\w+)`", INDEX, re.MULTILINE)
    assert order == [(str(k), page) for k, page in enumerate(listed, 1)]


def test_there_are_rows():
    assert len(ROW.findall(INDEX)) >= 8


@pytest.mark.parametrize(("need", "cell", "whole", "short"), ROW.findall(INDEX))
def test_row_adds_up_and_keeps_the_order(need, cell, whole, short):
    numbers = [int(x) for x in re.findall(r"\[(\d+)\]", cell)]
    assert int(whole) == sum(CHAPTERS[k].whole for k in numbers)
    assert int(short) == sum(CHAPTERS[k].short for k in numbers)
    known = named(need)
    for k in numbers:
        assert CHAPTERS[k].needs <= known, f"chapter {k} comes before a chapter that it needs"
        known.add(k)


@pytest.mark.parametrize("row", ROW.findall(INDEX))
def test_what_is_taught_in_sessions_fits_into_them(row):
    """In class a chapter takes half as much again as its reading; teaching.md says so."""
    said = re.search(r"\bteach\b.* in (\w+) sessions? of two hours", row[0])
    assert said or "teach" not in row[0], row[0]
    if said:
        sessions = 1.5 * int(row[3]) / 120
        assert math.ceil(sessions) == NUMBERS.index(said[1]), f"{sessions:.1f} sessions"


def table(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading of the teachers' page."""
    below = iter(TEACHING.split(f"{heading}\n", 1)[1].splitlines())
    lines = itertools.dropwhile(lambda line: not line.startswith("|"), below)
    lines = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in [*lines][2:]]


def test_teachers_read_the_minutes_of_the_chapters():
    rows = [tuple(map(int, row)) for row in table("## How long a chapter takes")]
    assert rows == [(number, c.short, c.whole) for number, c in sorted(CHAPTERS.items())]


@pytest.mark.parametrize(("plan", "weeks"), [("Four", 8), ("Eight", 8), ("Fourteen", 14)])
def test_plans_name_chapters_and_labs_in_order(plan, weeks):
    heading = next(line for line in TEACHING.splitlines() if line.startswith(f"### {plan} weeks"))
    rows = table(heading)
    assert [row[0] for row in rows] == [str(week) for week in range(1, weeks + 1)]
    taught = [int(n) for row in rows for n in re.findall(r"\b\d+\b", row[1].split("summaries")[0])]
    assert set(taught) <= set(CHAPTERS), "a plan names what is no chapter"
    assert taught == sorted(taught), "chapters out of order"


def test_lost_readers_find_every_chapter():
    found = re.findall(r'<li><a href="(notebooks/\w+)\.html">([^<]+)</a></li>', LOST)
    assert found == [(c.page, c.title) for _, c in sorted(CHAPTERS.items())]


def test_moving_picture_is_light_and_has_a_text():
    text = PICTURE.read_text(encoding="utf-8")
    assert len(text.encode()) < 12_000
    svg = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + len("</svg>")])
    ids = {node.get("id"): node for node in svg.iter() if node.get("id")}
    assert svg.get("role") == "img"
    assert all(len(ids[name].text) > 20 for name in svg.get("aria-labelledby").split())
    assert re.search(r'<button type="button" hidden>', text)


def test_the_readme_leads_to_every_chapter():
    text = (chapters.ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\d) \| \[.+?\]\((.+?)\.ipynb\) \|", text, re.MULTILINE)
    wanted = [(f"{number:02}", chapter.page) for number, chapter in CHAPTERS.items()]
    assert rows == wanted
