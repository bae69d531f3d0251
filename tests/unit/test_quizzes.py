"""Quizzes as data: every chapter has one, it can be marked, and it does not give itself away."""

import tomllib
from collections import Counter
from pathlib import Path

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTERS = sorted(path.stem for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def test_every_quiz_can_be_marked_and_does_not_give_itself_away():
    places = Counter()
    for stem in CHAPTERS:
        text = (NOTEBOOKS / "quizzes" / f"{stem}.toml").read_text(encoding="utf-8")
        for question in tomllib.loads(text)["question"]:
            choices, place = question["choice"], question["text"]
            assert 3 <= len(choices) <= 5, place
            right = [choice["right"] is True for choice in choices]
            assert right.count(True) == 1, place
            for key in ("text", "why"):  # no choice, and no explanation, stands there twice
                assert len({choice[key].casefold() for choice in choices}) == len(choices), place
            places[right.index(True)] += 1
    count = places.total()
    assert count >= 4 * len(CHAPTERS) > 0
    assert max(places.values()) <= count / 2, f"right choices by position: {dict(places)}"
