"""Quizzes as data: every chapter has one, it can be marked, and it does not give itself away."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTERS = sorted(path.stem for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
MARKUP = re.compile(r"[$\\`]|</?[A-Za-z!][^>]*>")


def questions(stem: str) -> list[dict]:
    path = NOTEBOOKS / "quizzes" / f"{stem}.toml"
    assert path.exists(), f"chapter {stem} has no quiz: write {path.relative_to(NOTEBOOKS.parent)}"
    return tomllib.loads(path.read_text(encoding="utf-8"))["question"]


def clean(text: str) -> bool:
    """Plain text; whatever begins like a sentence ends like one."""
    whole = not text[:1].isupper() or text[-1] in ".?!:"
    return bool(text) and text == text.strip() and whole and not MARKUP.search(text)


def test_every_quiz_has_its_chapter():
    assert CHAPTERS
    assert {path.stem for path in (NOTEBOOKS / "quizzes").glob("*.toml")} <= set(CHAPTERS)


@pytest.mark.parametrize("stem", CHAPTERS)
def test_quiz_can_be_marked(stem):
    quiz = questions(stem)
    assert 4 <= len(quiz) <= 6
    for question in quiz:
        assert set(question) == {"text", "choice"}
        choices, place = question["choice"], question["text"]
        assert 3 <= len(choices) <= 5, place
        assert all(set(choice) == {"text", "right", "why"} for choice in choices), place
        assert [choice["right"] for choice in choices].count(True) == 1, place
        assert all(type(choice["right"]) is bool for choice in choices), place
        for key in ("text", "why"):  # no choice, and no explanation, stands there twice
            assert len({choice[key].casefold() for choice in choices}) == len(choices), place


@pytest.mark.parametrize("stem", CHAPTERS)
def test_texts_are_plain(stem):
    for question in questions(stem):
        choices = question["choice"]
        for sentence in (question["text"], *(choice["why"] for choice in choices)):
            assert clean(sentence), sentence
            assert sentence[-1] in ".?!", sentence
        for choice in choices:
            assert clean(choice["text"]), choice["text"]


def test_right_choice_does_not_give_itself_away():
    places, longest, count = Counter(), 0, 0
    for question in (q for stem in CHAPTERS for q in questions(stem)):
        right = [choice["right"] for choice in question["choice"]].index(True)
        lengths = [len(choice["text"]) for choice in question["choice"]]
        places[right] += 1
        longest += lengths[right] == max(lengths)
        count += 1
    assert max(places.values()) <= count / 2, f"right choices by position: {dict(places)}"
    assert longest <= count / 2, f"the right choice is the longest in {longest} of {count}"
