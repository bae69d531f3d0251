"""The front page, and the pages beside it, lead to every chapter."""

import re

import yaml

import chapters

ROOT = chapters.ROOT
PAGES = [f"notebooks/{source.stem}" for source in chapters.numbered()]


def test_every_list_of_chapters_has_them_all_in_order():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    assert [entry["file"] for entry in toc["parts"][0]["chapters"]] == PAGES
    for name, line in (
        ("book/about.md", r"^\[\d+\]: \.\./(notebooks/\w+)\.ipynb$"),
        ("book/index.md", r"^\d+\. \{doc\}`\.\./(notebooks/\w+)`"),
        ("book/_extra/404.html", r'<li><a href="(notebooks/\w+)\.html">'),
        ("README.md", r"^\| \d\d \| \[.+?\]\((.+?)\.ipynb\) \|"),
    ):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert re.findall(line, text, re.MULTILINE) == PAGES, name


def test_minutes_are_the_same_wherever_they_stand():
    teaching = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \|$", teaching, re.MULTILINE)[: len(PAGES)]
    minutes = {int(chapter): (int(whole), int(short)) for chapter, short, whole in rows}
    for source in chapters.numbered():
        found = re.search(r"\*\*Time\*\* (\d+) minutes, (\d+) without", source.read_text("utf-8"))
        assert minutes[int(source.stem[:2])] == tuple(map(int, found.groups())), source.stem
    about = (ROOT / "book" / "about.md").read_text(encoding="utf-8")
    hung = re.findall(r"\[(\d+) [^\]]+\]\[\d+\] (\d+) min", about)
    assert {int(k): int(whole) for k, whole in hung} == {k: m[0] for k, m in minutes.items()}
    ways = re.findall(r"^\|.*?\|(.*)\| (\d+) \((\d+)\) \|$", about, re.MULTILINE)
    assert len(ways) > 10
    for names, *told in ways:
        read = [minutes[int(chapter)] for chapter in re.findall(r"\[(\d+)\]", names)]
        assert [sum(part) for part in zip(*read, strict=True)] == [*map(int, told)], names
