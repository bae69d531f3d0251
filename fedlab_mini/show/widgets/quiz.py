"""Quiz: questions that mark themselves; every chapter ends with one of ``notebooks/quizzes``."""

from __future__ import annotations

import html
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import traitlets

from ... import checks
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
        if isinstance(questions, str | bytes | Mapping) or not isinstance(questions, Sequence):
            raise TypeError(f"questions: expected a list of them, got {checks.shown(questions)}")
        if not questions:
            raise ValueError("questions: expected at least one")
        super().__init__(questions=[_checked(i, q) for i, q in enumerate(questions, 1)])

    @classmethod
    def load(cls, path: str | os.PathLike) -> Quiz:
        """The quiz that a TOML file holds: tables ``question`` with tables ``choice``."""
        found = tomllib.loads(Path(path).read_text(encoding="utf-8")).get("question", [])
        return cls([{**q, "choices": q.get("choice", [])} for q in found])

    def fallback(self) -> str:
        made = []
        for question in self.questions:
            lines = "".join(
                f"<li>{html.escape(choice['text'])}<details><summary>and?</summary>"
                f"{'Right.' if choice['right'] else 'Not quite.'} {html.escape(choice['why'])}"
                "</details></li>"
                for choice in question["choices"]
            )
            made.append(f"<li>{html.escape(question['text'])}<ul>{lines}</ul></li>")
        return f"<ol>{''.join(made)}</ol>"


def _checked(number: int, question: Mapping[str, Any]) -> dict[str, Any]:
    """A question with nothing but its known fields; ValueError if one is missing."""
    try:
        choices = [
            {"text": str(c["text"]), "right": bool(c["right"]), "why": str(c["why"])}
            for c in question["choices"]
        ]
        text = str(question["text"])
    except (KeyError, TypeError) as missing:
        raise ValueError(f"questions: question {number} lacks {missing}") from None
    if len(choices) < 2 or sum(c["right"] is True for c in choices) != 1:
        raise ValueError(f"questions: question {number} needs 2 or more choices, one of them right")
    return {"text": text, "choices": choices}
