"""The deck: cards enough, each whole; a file that Anki reads, and changes when it reads again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cards

ROOT = Path(__file__).parents[2]
DECK = cards.deck(ROOT / "notebooks" / "quizzes")
QUIZ = """[[question]]
text = "Is 1 < 2?"
choice = [{text = "yes", right = true, why = "It is."}, {text = "no", right = false, why = "-"}]
[[card]]
key = "sum"
front = 'What is $\\sum_i x_i$?'
back = "The *whole* sum."
"""


def test_each_chapter_has_cards_and_no_two_are_the_same():
    assert len(DECK) >= 150
    assert {card.chapter for card in DECK} == {f"{number:02}" for number in range(1, 15)}
    for field in ("key", "front"):
        assert len({getattr(card, field) for card in DECK}) == len(DECK), field
    short = [card for card in DECK if "-question-" not in card.key]
    assert len(short) >= 90
    for card in short:
        assert card.front.endswith("?") or card.front.endswith("."), card.front
        assert not re.search(r"figure|table|seed \d", card.front, re.IGNORECASE), card.front
        assert 0 < len(card.back) <= 330, card.back


def test_a_question_brings_its_choices_and_a_card_its_formula(tmp_path):
    (tmp_path / "03_x.toml").write_text(QUIZ, encoding="utf-8")
    asked, card = cards.deck(tmp_path)
    assert asked == ("03-question-1", "03", "Is 1 &lt; 2?<br>a) yes<br>b) no", "a) yes<br>It is.")
    assert card == ("03-sum", "03", r"What is \(\sum_i x_i\)?", "The <em>whole</em> sum.")
    page = cards.for_page([card])
    assert r'What is <span class="math notranslate">\(\sum_i x_i\)</span>?' in page


def test_the_file_has_four_fields_a_line_below_its_heads():
    head, lines = [], cards.for_anki(DECK).split("\n")
    while lines[0].startswith("#"):
        head.append(lines.pop(0))
    assert dict(line[1:].split(":", 1) for line in head)["guid column"] == "1"
    assert lines.pop() == ""
    assert {line.count("\t") for line in lines} == {3}
    assert len({line.split("\t")[0] for line in lines}) == len(lines) == len(DECK)


def test_anki_itself_imports_every_card_once(tmp_path):
    collection = pytest.importorskip(
        "anki.collection", reason="Anki is not installed: pip install anki"
    )
    file = tmp_path / "cards.txt"
    found = collection.Collection(str(tmp_path / "collection.anki2"))
    for text in (cards.for_anki(DECK), cards.for_anki(DECK).replace("federated", "fed")):
        file.write_text(text, encoding="utf-8")
        found.import_csv(
            collection.ImportCsvRequest(
                path=str(file), metadata=found.get_csv_metadata(str(file), None)
            )
        )
        assert found.note_count() == len(DECK)
    assert len(found.find_notes("federated")) < len(found.find_notes("fed"))
    own = found.decks.id("Who contributed what?")
    assert found.decks.card_count(own, include_subdecks=False) == len(DECK)
    found.close()
