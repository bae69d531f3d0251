"""The front page, and the pages beside it, say of the chapters what the chapters say."""

import re

import pytest
import yaml

import chapters

ROOT = chapters.ROOT
INDEX = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
NEEDS = re.compile(r"^\*\*You need\*\* (.*?)\.\s[^\n]*?\*\*Time\*\* (\d+) minutes, (\d+) without",
                   re.MULTILINE | re.DOTALL)  # fmt: skip
NAMED = re.compile(r"\b(?:chapters?|needs) (\d+(?:(?:, | and | to )\d+)*)")
CARD = re.compile(r"^( *)- \[(\d+) ([^\]]+)\]\[(\d+)\] (\d+) min(.*)$", re.MULTILINE)
ROW = re.compile(r"^\| ([^|]+) \| ([^|]*\[\d+\][^|]*) \| (\d+) \((\d+)\) \|$", re.MULTILINE)


def named(text):
    """The chapters that a phrase such as `chapters 1 to 3` names."""
    found = set()
    for phrase in NAMED.findall(text):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", phrase):
            found |= set(range(int(first), int(last or first) + 1))
    return found


def read(source):
    """Page, title, needs and minutes of a chapter."""
    text = source.read_text(encoding="utf-8")
    needs, whole, short = NEEDS.search(text).groups()
    title = re.search(r"^# (.+)$", text, re.MULTILINE)[1]
    return f"notebooks/{source.stem}", title, named(needs), int(whole), int(short)


CHAPTERS = {int(source.stem[:2]): read(source) for source in chapters.numbered()}
PAGES = [page for page, *_ in CHAPTERS.values()]


def test_the_map_says_what_the_chapters_say():
    cards, path = CARD.findall(INDEX), []
    assert sorted(int(card[1]) for card in cards) == sorted(CHAPTERS)
    for indent, number, title, link, minutes, needs in cards:
        path = [(i, n) for i, n in path if i < len(indent)]  # the cards above it
        _, full, wanted, whole, _ = CHAPTERS[int(number)]
        assert (link, int(minutes), named(needs)) == (number, whole, wanted)
        assert full.startswith(title)
        above = {n for _, n in path}
        assert {n for _, n in path[-1:]} <= wanted <= above, f"place of chapter {number}"
        path.append((len(indent), int(number)))


@pytest.mark.parametrize(("need", "cell", "whole", "short"), ROW.findall(INDEX))
def test_a_path_adds_up_and_keeps_the_order(need, cell, whole, short):
    known, numbers = named(need), [int(x) for x in re.findall(r"\[(\d+)\]", cell)]
    sums = [sum(CHAPTERS[k][i] for k in numbers) for i in (3, 4)]
    assert sums == [int(whole), int(short)]
    for k in numbers:
        assert CHAPTERS[k][2] <= known, f"chapter {k} comes before a chapter that it needs"
        known.add(k)


def test_every_list_of_chapters_has_them_all_in_order():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    assert [entry["file"] for entry in toc["parts"][0]["chapters"]] == PAGES
    for name, line in (
        ("book/index.md", r"^\[\d+\]: \.\./(notebooks/\w+)\.ipynb$"),
        ("book/index.md", r"^\d+\. \{doc\}`\.\./(notebooks/\w+)`"),
        ("book/_extra/404.html", r'<li><a href="(notebooks/\w+)\.html">'),
        ("README.md", r"^\| \d\d \| \[.+?\]\((.+?)\.ipynb\) \|"),
    ):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert re.findall(line, text, re.MULTILINE) == PAGES, name
    teaching = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \|$", teaching, re.MULTILINE)[: len(PAGES)]
    minutes = [(k, short, whole) for k, (*_, whole, short) in CHAPTERS.items()]
    assert [tuple(map(int, row)) for row in rows] == minutes
