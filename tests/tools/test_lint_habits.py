"""Habits of speech that the lint names, and what it lets pass."""

import pytest
from nbformat.v4 import new_markdown_cell

import lint_habits


def complaints(text: str) -> list[str]:
    return [*lint_habits.complaints([new_markdown_cell(text)])]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("It gives one number a client, and a curve.", "'one number a client'; write per"),
        ("A table with one row a seed.", "'one row a seed'; write per"),
        ("That costs 300 evaluations a round.", "'evaluations a round'; write per"),
        ("| what | twenty epochs a client |\n|---|---|\n| a | b |", "'epochs a client'; write per"),
        ("Whoever looks finds it.", "'Whoever'; name who it is"),
    ],
)
def test_a_habit_is_named(text, said):
    (found,) = complaints(f"# Title\n\n{text}\n")
    assert found.startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        "One number per client.",
        "A pass costs four times a training.",
        "In five of ten rows a method has no value.",
        "In code, `one number a client` and $evaluations a round$.",
    ],
)
def test_other_sentences_pass(text):
    assert complaints(f"# Title\n\n{text}\n") == []


def test_a_third_guess_is_one_too_many():
    text = "Guess before you look: why?\n\nWords.\n\n"
    assert complaints(2 * text) == []
    assert complaints(3 * text) == ["3 guesses, at most 2: keep those whose answer surprises"]
