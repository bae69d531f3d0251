"""studies disagree: what two sources answer differently is found, and is said or mended."""

from __future__ import annotations

import pytest

from fedlab_mini.judge.evidence import Interval
from studies import disagree
from studies.study import Claim

DIGITS = "sfedavg-selection: 1 class"
BEFORE = (  # sentences of version 2.0, which other places contradicted
    {
        "page": "chapter 10, line 7",
        "says": "second order puts the only holder of a class first",
        "measure": "AUC",
        "of": ["second order", "rare class, digits"],
        "holds": {"above": 0.98},
    },
    {
        "page": "chapter 8, paper and we",
        "says": "not more accurate at the paper's temperature of 1",
        "measure": "accuracy",
        "of": ["S-FedAvg, T = 1", DIGITS],
        "minus": ["FedAvg", DIGITS],
        "holds": {"undecided": 0.0},
    },
    {
        "page": "FAQ, free riders",
        "says": "zeros are found by many scores where labels are alike",
        "measure": "AUC",
        "of": ["CGSV", "zeros, similar label mixes, digits"],
        "holds": {"above": 0.5},
    },
)


def test_every_disagreement_is_mended_or_said():
    text, unsaid = disagree.page()
    assert not unsaid, text


@pytest.mark.parametrize("sentence", BEFORE, ids=lambda one: one["page"])
def test_a_page_that_says_more_than_some_rows_is_found(sentence):
    assert any(clash.word for clash in disagree.sentences([sentence]))


def answer(mean, low, high, seeds, **bounds):
    claim = Claim.told("lowest", ("change without lowest @ 8", "FedCCEA", "strong"), **bounds)
    return disagree.Answer("letters", f"{seeds} seeds", claim, Interval(mean, low, high, seeds))


def test_the_same_rows_have_one_number():
    lesson = answer(-0.063, -0.127, 0.001, 6, undecided=0.0)
    ledger = answer(-0.050, -0.089, -0.012, 11, above=-0.02)
    words = [clash.word for clash in disagree.clashes([lesson, ledger])]
    assert words == ["the same rows, two numbers"]


def test_opposite_answers_to_one_question_are_found():
    holds = answer(0.3, 0.2, 0.4, 20, above=0.0)
    falls = answer(-0.3, -0.4, -0.2, 20, above=0.0)
    unknown = answer(0.01, -0.1, 0.12, 20, undecided=0.0)
    assert disagree.word(holds, falls)
    assert disagree.word(unknown, holds)
    assert not disagree.word(holds, unknown)  # too few seeds contradict nobody


def test_what_is_said_stands_on_the_page(monkeypatch):
    clash, *_ = disagree.sentences(BEFORE[:1])
    said = {"question": "AUC: second order in rare class, digits", "page": "book/faq.md"}
    monkeypatch.setitem(disagree.table(), "said", [{**said, "words": "no such words"}])
    with pytest.raises(ValueError, match="does not say"):
        disagree.said(clash)
    monkeypatch.setitem(disagree.table(), "said", [{**said, "words": "free rider"}])
    assert disagree.said(clash)


def test_places_of_the_table_are_scenarios_with_rows():
    known = {
        f"{name}: {scenario}"
        for name, parts in disagree.sources().items()
        for results in parts
        for scenario, _, _ in results.places
    }
    situations, _ = disagree.names()
    assert situations.keys() <= known
