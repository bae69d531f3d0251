"""The page of labs names every lab by its own question and goal, and links to its notebook."""

import re

import chapters
import labs


def test_page_agrees_with_the_sheets():
    page = (chapters.ROOT / "book" / "labs.md").read_text(encoding="utf-8")
    for source in labs.sources():
        text = source.read_text(encoding="utf-8")
        question = re.search(r"^# Lab \d+\. (.*)", text, re.MULTILINE)[1]
        goal = re.search(r"^\*\*Goal\.\*\* You can (.*)", text, re.MULTILINE)[1]
        row = next(line for line in page.splitlines() if f"{source.stem}.ipynb" in line)
        assert f'<li value="{int(source.stem[:2])}"' in row
        assert f">{question}</a>" in row
        assert goal[1:] in row


def test_every_lab_has_answers_for_the_teacher():
    guide = (chapters.ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    for source in labs.sources():
        text = source.read_text(encoding="utf-8")
        title = re.search(r"^# (Lab \d+)\.", text, re.MULTILINE)[1]
        part = guide.partition(f"### {title}")[2].partition("\n### ")[0]
        for question in re.findall(r"^name: q(\d+)", text, re.MULTILINE):
            assert re.search(rf"\b{question}\.", part), f"{title}, question {question}"
