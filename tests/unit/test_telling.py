"""Telling: a false sentence stops the chapter; a true one leaves its number and its record."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

import studies
from fedlab_mini.judge import evidence
from fedlab_mini.judge.evidence import interval
from studies import telling
from studies.results import Stored
from studies.telling import tell


@pytest.fixture
def glued(monkeypatch: pytest.MonkeyPatch) -> dict:
    """What is glued, by its key."""
    found: dict = {}
    monkeypatch.setattr("myst_nb.glue", lambda key, value, display: found.update({key: value}))
    return found


def stored(mean: float, low: float, high: float, confirmed: bool = True) -> Stored:
    found = Stored(mean, low, high, 10)
    found.study, found.asked = "toy", ("AUC", "good", "here")
    found.power, found.confirmed, found.blocks = 0.07, confirmed, 1
    found.against = lambda asks: found
    return found


SENTENCES = {
    "above": ({"above": 0.5}, (0.6, 0.51, 0.7), (0.6, 0.49, 0.7)),
    "below": ({"below": 0.5}, (0.4, 0.3, 0.49), (0.4, 0.3, 0.51)),
    "within": ({"within": (0.1, 0.5)}, (0.3, 0.2, 0.4), (0.3, 0.09, 0.4)),
    "undecided": ({"undecided": 0}, (0.1, -0.1, 0.3), (0.2, 0.1, 0.3)),
    "two": ({"above": 0, "below": 1}, (0.5, 0.1, 0.9), (0.5, 0.1, 1.1)),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_is_asserted_and_its_number_glued(name: str, glued: dict) -> None:
    bounds, true, false = SENTENCES[name]
    assert tell("key", stored(*true), **bounds) is None  # a cell may end with it
    assert repr(glued["key"]) == str(stored(*true))
    (record,) = [
        value for kind, value in glued["key"]._repr_mimebundle_().items() if "sentence" in kind
    ]
    assert record["asked"] == ["toy", "AUC", "good", "here"]
    assert record["half"] == "confirmed"
    assert json.loads(json.dumps(record)) == record
    with pytest.raises(AssertionError, match=r"key: .* is not"):
        tell("key", stored(*false), **bounds)
    if "undecided" in bounds:  # what is not shown says what could have been
        assert repr(glued["key_power"]) == "0.07"


def test_a_told_count_is_a_sentence_of_its_study(glued: dict) -> None:
    rates = studies.results("label-rates")
    place = rates.frame.query("metric == 'repaired'")[["method", "scenario"]].to_numpy()[0]
    counted = rates.count("repaired", *place)
    tell("count", counted, above=-1)
    assert repr(glued["count"]) == str(evidence.count(rates.values("repaired", *place)))
    assert telling.sentence(counted, {"above": -1})["study"] == "label-rates"
    live = telling.sentence(interval([0.1, 0.2, 0.3]), {"above": 0})
    assert (live["half"], "study" in live) == ("live", False)


def test_a_sentence_is_read_since_its_own_question_was_asked(glued: dict) -> None:
    wide, narrow = stored(0.6, 0.45, 0.75), stored(0.6, 0.55, 0.65)
    asks = [f"AUC | good | here | {ends}" for ends in ("0.5", "0.2 to 0.9")]
    wide.against = dict.fromkeys(asks, narrow).__getitem__
    tell("gain", wide, above=0.5)
    assert repr(glued["gain"]) == "0.60 [0.55, 0.65]"
    tell("gain", wide, within=(0.2, 0.9))
    with pytest.raises(TypeError, match="gain: expected above, below, within or undecided"):
        tell("gain", wide)
    with pytest.raises(KeyError):
        tell("gain", wide, above=0.4)


def test_the_sentences_of_the_book_are_read_from_its_notebooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, glued: dict
) -> None:
    tell("gain", stored(0.6, 0.5, 0.7), above=0)
    glued["text"] = telling.Told("0.07", {})
    outputs = [
        nbformat.v4.new_output(
            "display_data",
            data={f"application/papermill.record/{k}": v for k, v in bundle.items()},
            metadata={"scrapbook": {"name": key}},
        )
        for key, bundle in ((key, value._repr_mimebundle_()) for key, value in glued.items())
    ]
    cell = nbformat.v4.new_code_cell("tell(...)", outputs=outputs)
    (tmp_path / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "notebooks" / "01_toy.ipynb")
    monkeypatch.setattr(telling, "ROOT", tmp_path)
    (record,) = telling.told()
    assert (record["chapter"], record["key"], record["study"]) == ("01_toy", "gain", "toy")
    assert record["mean, low, high"] == [0.6, 0.5, 0.7]
