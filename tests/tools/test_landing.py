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
