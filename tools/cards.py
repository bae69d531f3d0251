"""The deck: questions of quizzes and cards of chapters, as a file for Anki and as a page's list."""

from __future__ import annotations

import html
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

NAME = "who-contributed-what-cards.txt"
PLACE = '<div class="cards"></div>'
HEAD = """#separator:tab
#html:true
#guid column:1
#notetype:Basic
#deck:Who contributed what?
#tags column:4
"""
MATH = re.compile(r"\$([^$]+)\$")
EMPHASIS = re.compile(r"\*(\w[^*]*)\*")


class Card(NamedTuple):
    """One question: `key` stays the same when its words change; front and back are HTML."""

    key: str
    chapter: str
    front: str
    back: str


def deck(folder: Path) -> list[Card]:
    """The cards of a folder of quizzes, chapter by chapter."""
    return [card for path in sorted(folder.glob("*.toml")) for card in _of(path)]


def _of(path: Path) -> Iterator[Card]:
    tables, number = tomllib.loads(path.read_text(encoding="utf-8")), path.stem[:2]
    for place, question in enumerate(tables["question"], start=1):
        yield _asked(f"{number}-question-{place}", number, question)
    for card in tables["card"]:
        yield Card(f"{number}-{card['key']}", number, _html(card["front"]), _html(card["back"]))


def _asked(key: str, chapter: str, question: dict[str, Any]) -> Card:
    """A quiz question as a card, with its choices on the front."""
    front, back = _html(question["text"]), ""
    for letter, choice in zip("abcde", question["choice"], strict=False):
        front += f"<br>{letter}) {_html(choice['text'])}"
        if choice["right"]:
            back = f"{letter}) {_html(choice['text'])}<br>{_html(choice['why'])}"
    return Card(key, chapter, front, back)


def _html(text: str) -> str:
    return EMPHASIS.sub(r"<em>\1</em>", MATH.sub(r"\(\1\)", html.escape(text, quote=False)))


def for_anki(cards: list[Card]) -> str:
    """A text file for Anki; importing a newer one changes cards but duplicates none.

    https://docs.ankiweb.net/importing/text-files.html
    """
    lines = ("\t".join((f"fedlab-{c.key}", c.front, c.back, f"chapter-{c.chapter}")) for c in cards)
    return HEAD + "\n".join(lines) + "\n"


def for_page(cards: list[Card]) -> str:
    """All cards as a list that also works without scripts; `cards.js` asks them one by one."""
    found = ['<div class="cards">']
    for card in cards:
        front, back = (
            re.sub(r"\\\(.+?\\\)", r'<span class="math notranslate">\g<0></span>', side)
            for side in (card.front, card.back)
        )
        found.append(
            f'<details data-card="{card.key}"><summary><small>Chapter {int(card.chapter)}</small> '
            f"<span>{front}</span></summary><p>{back}</p></details>"
        )
    return "\n".join([*found, "</div>"])
