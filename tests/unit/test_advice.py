"""Advice: a record that its claims no longer support stops the build and names its places."""

import pytest

from studies import advice, pages

RECORDS, SENTENCES = advice.records(), advice.sentences()
FLIPPED = {"above": "below", "below": "above"}
CLAIMS = [(name, key) for name, one in RECORDS.items() for key in one.told]


def turned(record):
    """The same claim with bounds that its interval does not meet."""
    return {**record, "bounds": {"above": 1e9}, "study": ""}


@pytest.mark.parametrize(("name", "key"), CLAIMS, ids=[" rests on ".join(one) for one in CLAIMS])
def test_a_claim_of_a_lesson_that_turns_stops_the_build(monkeypatch, name, key):
    monkeypatch.setattr(advice, "sentences", lambda: SENTENCES | {key: turned(SENTENCES[key])})
    found = [fault for fault in advice.faults({name: RECORDS[name]}) if repr(key) in fault]
    assert len(found) == 1
    assert advice.places(name), f"no page prints {name}"
    assert all(place in found[0] for place in advice.places(name))


@pytest.mark.parametrize("name", [name for name, one in RECORDS.items() if one.bench])
def test_a_finding_of_the_bench_that_turns_stops_the_build(monkeypatch, name):
    for finding in RECORDS[name].bench:
        fault = f"bench-{finding}-1: no longer so"
        monkeypatch.setattr(advice, "_bench_faults", lambda fault=fault: [fault])
        (found,) = advice.faults({name: RECORDS[name]})
        assert fault in found


@pytest.mark.parametrize("name", [name for name, one in RECORDS.items() if one.rows])
def test_stored_rows_that_turn_stop_the_build(name):
    one = RECORDS[name]
    for row in one.rows:
        bounds = {FLIPPED[key]: row[key] for key in FLIPPED if key in row}
        kept = {key: value for key, value in row.items() if key not in FLIPPED}
        other = advice.Advice(name, one.says, rows=({**kept, **bounds},))
        assert any(row["study"] in fault for fault in advice.faults({name: other}))


def test_a_test_that_is_gone_and_a_verdict_that_has_changed_stop_the_build():
    gone = advice.Advice("cgsv right", "", tests=("tests/unit/test_advice.py::test_nothing",))
    assert "test_nothing" in advice.faults({gone.name: gone})[0]
    changed = advice.Advice("cgsv right", "", ledger={"FedCCEA-18-1": "holds"})
    assert "does not hold" in advice.faults({changed.name: changed})[0]
    with pytest.raises(ValueError, match="rests on nothing"):
        advice.Advice("cgsv right", "something")


def test_the_build_stops(monkeypatch):
    monkeypatch.setattr(advice, "faults", lambda: ["cgsv use: 'x' does not hold"])
    with pytest.raises(ValueError, match="cgsv use"):
        pages.write(check=True)


def test_every_record_is_printed_and_every_mark_names_one():
    assert not [name for name in RECORDS if not advice.places(name)]
    advice.pages()
    with pytest.raises(ValueError, match="no advice 'cgsv often'"):
        advice.filled("- x<!-- advice: cgsv often --> y<!-- end of advice -->", "page")


def test_words_between_marks_are_the_record_s():
    text = advice.filled("a<!-- advice: cgsv right --> before<!-- end of advice -->.", "page")
    assert RECORDS["cgsv right"].says in text
    assert "before" not in text
    assert "@" not in RECORDS["which similar"].words
