"""Quizzes as data: every chapter has one, its keys are right, and it does not give itself away."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import torch

import fedlab_mini as fm

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHAPTERS = sorted(path.stem for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def questions():
    for stem in CHAPTERS:
        text = (NOTEBOOKS / "quizzes" / f"{stem}.toml").read_text(encoding="utf-8")
        yield from tomllib.loads(text)["question"]


def key(question):
    """The place of the right choice; there is one."""
    right = [choice["right"] is True for choice in question["choice"]]
    assert right.count(True) == 1, question["text"]
    return right.index(True)


def test_every_quiz_can_be_marked_and_does_not_give_itself_away():
    places = Counter()
    for question in questions():
        choices, place = question["choice"], question["text"]
        assert 3 <= len(choices) <= 5, place
        for part in ("text", "why"):  # no choice, and no explanation, stands there twice
            assert len({choice[part].casefold() for choice in choices}) == len(choices), place
        places[key(question)] += 1
    count = places.total()
    assert count >= 4 * len(CHAPTERS) > 0
    assert max(places.values()) <= count / 2, f"right choices by position: {dict(places)}"


@pytest.mark.parametrize("question", [*questions()], ids=lambda question: question["text"][:40])
def test_the_key_is_what_is_computed_or_what_a_second_statement_says(question):
    """`computed`: the numbers of the right choice, and nearer to them than to any other's.
    `because`: the fact once more; of the words that only one choice has, it has most of the right
    one's."""
    choices = question["choice"]
    if "computed" in question:
        found = eval(question["computed"], {"fm": fm, "torch": torch})
        found = torch.as_tensor(found, dtype=torch.float64).flatten()
        off = [distance(choice["text"], found) for choice in choices]
        assert off.index(min(off)) == key(question), found
        assert min(off) < 0.02, found
    else:
        words = [stems(f"{choice['text']} {choice['why']}") for choice in choices]
        seen = Counter(stem for each in words for stem in each)
        said = {stem for stem in stems(question["because"]) if seen[stem] == 1}
        shared = [len(said & each) for each in words]
        right = shared.pop(key(question))
        assert right > max(shared), (right, shared)


def distance(text, found):
    """How far the numbers in a text are from these, as a share of them."""
    plain = re.findall(r"-?\d+(?:\.\d+)?", text.replace(",", "").replace("−", "-"))
    numbers = torch.tensor([float(number) for number in plain], dtype=torch.float64)
    return float((numbers / found - 1).abs().max()) if len(numbers) == len(found) else torch.inf


def stems(text):
    return {word[:6] for word in re.findall(r"[^\W_]{3,}|\d", text.casefold())}
