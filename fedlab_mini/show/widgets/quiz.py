"""Quiz: questions with feedback; every chapter ends with a quiz from ``notebooks/quizzes``."""

from __future__ import annotations

import html
import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from ...parse import checks
from .base import Widget, program, style


class Quiz(Widget):
    """Questions with choices; a choice shows whether it is right, and why. Nothing is stored.

    questions  a list of {"text", "choices": [{"text", "right", "why"}, ...]}, one choice right
    raises     ValueError naming the question that is incomplete
    """

    _esm = program("quiz")
    _css = style("quiz")
    questions = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(self, questions: Sequence[Mapping[str, Any]]):
        # A text is also a sequence, but its items are characters.
        if isinstance(questions, str | bytes | Mapping) or not isinstance(questions, Sequence):
            raise TypeError(
                f"questions: expected a list of questions, got {checks.shown(questions)}"
            )
        if not questions:
            raise ValueError("questions: expected at least one")
        numbered = enumerate(questions, start=1)
        super().__init__(questions=[_checked(number, question) for number, question in numbered])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Quiz:
        """The quiz in a TOML file: tables ``question`` with tables ``choice``."""
        quiz_tables = tomllib.loads(checks.home(path).read_text(encoding="utf-8"))
        questions = quiz_tables.get("question", [])
        return cls([{**question, "choices": question.get("choice", [])} for question in questions])

    def fallback(self) -> str:
        list_items = []
        for question in self.questions:
            choice_items = "".join(map(_choice_html, question["choices"]))
            # Escaped, because a question such as "1 < 2?" is not HTML.
            list_items.append(f"<li>{html.escape(question['text'])}<ul>{choice_items}</ul></li>")
        return f"<ol>{''.join(list_items)}</ol>"


def _choice_html(choice: Mapping[str, Any]) -> str:
    verdict = "Right." if choice["right"] else "Not quite."
    return (
        f"<li>{html.escape(choice['text'])}<details><summary>and?</summary>"
        f"{verdict} {html.escape(choice['why'])}</details></li>"
    )


def _checked(number: int, question: Mapping[str, Any]) -> dict[str, Any]:
    """A question with only its known fields; ValueError if one is missing."""
    try:
        choices = [
            {"text": str(choice["text"]), "right": bool(choice["right"]), "why": str(choice["why"])}
            for choice in question["choices"]
        ]
        question_text = str(question["text"])
    except (KeyError, TypeError) as missing:
        raise ValueError(f"questions: question {number} lacks {missing}") from None
    # Exactly one choice is right, because the page says only "right" or "not quite".
    right_choices = [choice for choice in choices if choice["right"]]
    if len(choices) < 2 or len(right_choices) != 1:
        raise ValueError(f"questions: question {number} needs 2 or more choices, one of them right")
    return {"text": question_text, "choices": choices}
