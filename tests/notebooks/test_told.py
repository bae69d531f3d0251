"""No sentence is lost between a lesson and its evidence, and none is told twice."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from studies import telling

HELD = tomllib.loads(Path(__file__).with_name("told.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("chapter", HELD)
def test_every_sentence_stands_once_or_was_dropped_for_a_reason(chapter):
    told = [record["key"] for record in telling.told() if record["chapter"] == chapter]
    twice = [key for key, count in Counter(told).items() if count > 1]
    dropped = HELD[chapter]["dropped"]
    assert not twice
    assert {*HELD[chapter]["told"]} - {*told} == {*dropped}
    assert all(len(reason.split()) > 3 for reason in dropped.values())
