"""Studies: stored, resumed, confirmed, probed, verified; verdicts follow the rows."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import studies
from fedlab_mini.judge import evidence
from studies import __main__ as command
from studies import audit, metrics, probes, runs, store, telling
from studies.results import ALIKE, FAILS, HOLDS, NOT_SHOWN, reachable
from studies.study import Claim, Study

calls: list[int] = []


def rows(seed: int, shift: float = 0.0):
    if not shift:  # of whole rows, not of a probe
        calls.append(seed)
    spread = 0.01 * (seed % 7) ** 2 / 49
    for place in (1, 10):
        yield "here", "good", f"AUC @ {place}", 0.9 + spread + 0.001 * place + shift
    yield "here", "bad", "AUC @ 10", 0.5 + 2 * spread
    yield "here", "bad", "repaired", float(seed % 5 > 0)


def derived(results):
    ratio = results.values("AUC @ 1", "good", "here") / results.values("AUC @ 10", "bad", "here")
    yield "here", "both", "ratio", ratio


GOOD = Claim("good is better than bad", "AUC @ 10", "good", "bad", at="here", low=0, printed=0.5)
BAD = Claim("bad is above .6", "AUC @ 10", "bad", at="here", low=0.6)
NEAR = Claim("good is about .92", "AUC @ 10", "good", at="here", low=0.8, high=1, source="book")
STUDY = Study(
    name="toy",
    item="A toy",
    says="Good is better.",
    protocol={"seeds": ("none", "3")},
    rows=rows,
    claims=(GOOD, BAD, NEAR),
    derived=derived,
    seeds=3,
    confirm=4,
    probe={"shift": 0.002},
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDLAB_RESULTS", str(tmp_path))
    monkeypatch.setitem(metrics.declared(), "ratio", [0, 2])
    monkeypatch.setattr(store, "told", lambda: iter(()))
    monkeypatch.setattr(telling, "told", lambda: iter(()))
    calls.clear()
    return tmp_path


def stored(study: Study = STUDY) -> Study:
    """A study with its seeds to look at and its first block."""
    runs.run(study)
    runs.confirm(study)
    calls.clear()
    return study


def edited(place: Path, change) -> None:
    """Change what is known of the toy, and seal it again, as a forger would who knows how."""
    known, text = store.about(STUDY), (place / "toy.csv").read_text()
    change(known)
    known["sha256"] = store.seal(STUDY, text, known)
    (place / "toy.json").write_text(json.dumps(known))


def test_rows_are_stored_in_long_format_with_all_that_is_known(place: Path) -> None:
    assert store.state(STUDY) == "missing"
    assert runs.run(STUDY)
    frame, known = pd.read_csv(place / "toy.csv"), json.loads((place / "toy.json").read_text())
    assert len(frame) == 12
    assert (known["look"], known["blocks"]) == ([0, 1, 2], [])
    assert set(known["verified"]) == set(known["seconds"]) == {"0", "1", "2"}
    assert store.state(STUDY) == "unconfirmed"
    assert runs.confirm(STUDY)
    assert store.state(STUDY) == "current"
    assert [e["seeds"] for e in store.about(STUDY)["computed"]] == [[0, 1, 2], [100, 101, 102, 103]]
    calls.clear()
    assert not runs.run(STUDY)
    assert not runs.confirm(STUDY)
    assert calls == []


def test_verdicts_are_read_on_the_seeds_that_confirm() -> None:
    stored()
    found = store.read(STUDY)
    assert (found.confirmed, found.seeds) == (True, [100, 101, 102, 103])
    assert found.look.seeds == [0, 1, 2]
    assert [entry.verdict for entry in found.verdicts().values()] == [HOLDS, FAILS, HOLDS]
    assert found.verdict() == "holds 1, does not hold 1"
    values = found.values("AUC @ 10", "good", "here")
    expected = [0.91 + 0.01 * (seed % 7) ** 2 / 49 for seed in found.seeds]
    assert values.tolist() == pytest.approx(expected, abs=1e-6)
    at, lines = found.curve("AUC", "good", "here")
    assert (at, lines.shape) == ([1, 10], (4, 2))
    assert found.interval("ratio", "both", "here").mean == pytest.approx(1.8, abs=0.05)
    assert str(found.count("repaired", "bad", "here")) == "3 of 4 seeds"


def test_a_claim_is_judged_by_where_its_whole_interval_lies() -> None:
    found = store.read(stored())
    wide = replace(BAD, sentence="s", low=found.interval("AUC @ 10", "bad", "here").mean)
    same = replace(GOOD, equal=True, low=-float("inf"), b="good")
    words = [
        (replace(GOOD, low=0.2), HOLDS),
        (replace(GOOD, low=0.5), FAILS),
        (wide, NOT_SHOWN),
        (same, ALIKE),
        (replace(same, b="bad"), FAILS),
        (replace(GOOD, low=-0.1, high=0.1), FAILS),
    ]
    for claim, word in words:
        assert found.judge(claim).verdict == word, claim
    half = Claim("most are repaired", "repaired", "bad", at="here", low=0.5)
    assert [reachable(half, 5), reachable(half, 6)] == [False, True]  # of seeds that all agree
    assert [reachable(replace(half, low=-math.inf, high=0.5), n) for n in (5, 6)] == [False, True]
    assert reachable(replace(half, metric="AUC @ 10"), 2)  # no count: it may come close to 1


def test_rows_of_two_studies_are_paired_by_seed_and_half() -> None:
    def rival(seed: int):
        yield "here", "rival", "AUC @ 10", 0.4 + 0.001 * seed

    other = stored(
        replace(STUDY, name="rival", rows=rival, claims=(), derived=None, seeds=2, probe={})
    )
    alone, whole = store.read(other), store.read(stored())
    both = alone.with_rows_of(whole)
    assert (both.study.name, both.confirmed, both.seeds) == ("rival", True, [100, 101, 102, 103])
    theirs = whole.values("AUC @ 10", "good", "here") - alone.values("AUC @ 10", "rival", "here")
    assert both.paired("AUC @ 10", "good", "rival", "here").mean == pytest.approx(theirs.mean())
    assert both.has("ratio", "both", "here")  # derived from the other study's rows
    looked = alone.look.with_rows_of(whole)
    assert (looked.confirmed, looked.seeds) == (False, [0, 1])
    with pytest.raises(ValueError, match=r"missing: \[2\]"):
        whole.look.with_rows_of(alone).values("AUC @ 10", "rival", "here")


def test_a_killed_run_goes_on_with_the_missing_seeds() -> None:
    def killed(seed: int, **settings: float):
        if seed in (2, 102) and not settings:
            raise KeyboardInterrupt
        return rows(seed, **settings)

    for fill, last in ((runs.run, [2]), (runs.confirm, [102, 103])):
        with pytest.raises(KeyboardInterrupt):
            fill(replace(STUDY, rows=killed))
        calls.clear()
        fill(STUDY)
        assert calls == last
    assert store.read(STUDY).n == 4


def test_a_block_notes_which_questions_are_asked_when_it_is_drawn() -> None:
    stored()
    known = store.about(STUDY)
    (block,) = known["blocks"]
    assert known["asked"] == dict.fromkeys(sorted(claim.question for claim in STUDY.claims), 1)
    assert (block["number"], block["seeds"]) == (1, [100, 101, 102, 103])
    later = replace(STUDY, claims=(*STUDY.claims, replace(BAD, sentence="new", low=0.4)))
    runs.run(later)
    assert store.about(later)["blocks"] == [block]  # it was seen first, and is not confirmed
    runs.confirm(later, block=2)
    known = store.about(later)
    assert [b["number"] for b in known["blocks"]] == [1, 2]
    assert {known["asked"][claim.question] for claim in later.claims[:3]} == {1}
    assert known["asked"][later.claims[3].question] == 2
    found = store.read(later)
    assert found.seeds == [100, 101, 102, 103, 200, 201, 202, 203]
    values = found.values("AUC @ 10", "bad", "here")
    # asked before both blocks: all seeds, at half the error; asked before the second: its seeds
    first, second = (
        found.interval("AUC @ 10", "bad", "here").against(claim.question)
        for claim in (BAD, later.claims[3])
    )
    assert first == evidence.interval(values, 0.975, low=0, high=1)
    assert second == evidence.interval(values[4:], low=0, high=1)
    assert (first.blocks, second.blocks) == (2, 1)
    assert found.judge(BAD).each == (FAILS, FAILS)
    assert found.judge(later.claims[3]).each == ()


def test_what_is_stored_and_edited_is_named(place: Path) -> None:
    stored()
    table, about = place / "toy.csv", place / "toy.json"
    whole, known = table.read_text(), about.read_text()
    for forged in (whole.replace("0.911", "0.991", 1), whole.replace("\n103,", "\n117,")):
        table.write_text(forged)
        assert "toy: edited" in audit.check([STUDY])[0]
        with pytest.raises(ValueError, match="toy: edited"):
            runs.run(STUDY)
    table.write_text(whole)
    for field in ("protocol", "verdicts", "look", "blocks", "verified", "sha256"):
        about.write_text(json.dumps(json.loads(known) | {field: "another"}))
        assert audit.check([STUDY]) == ["toy: edited; run it --again"], field
    about.write_text(known)


def shifted(by: float, metric: str = "AUC @ 10") -> Study:
    """The toy as code with an error would make it."""

    def wrong(seed: int, shift: float = 0.0):
        for scenario, method, name, value in rows(seed, shift):
            yield scenario, method, name, value + by * (name == metric)

    return replace(STUDY, rows=wrong)


def test_a_probe_names_a_change_of_the_code_on_any_day(monkeypatch) -> None:
    stored()
    for number in range(5):
        day = SimpleNamespace(toordinal=lambda number=number: number)
        monkeypatch.setattr(audit, "date", SimpleNamespace(today=lambda day=day: day))
        assert audit.check([STUDY]) == []
        found = audit.check([shifted(0.001, "AUC @ 1")])
        assert len(found) == 1, found
        assert found[0].startswith("toy: its probe gives 0.9"), found
        assert found[0].endswith(f"AUC @ 1 of good, here, seed {number}")


def test_a_probe_of_another_processor_may_be_infinite_where_it_was_no_number(place: Path) -> None:
    def making(value: float) -> Study:
        def made(seed: int, shift: float = 0.0):
            yield from rows(seed, shift)
            if shift:
                yield "here", "both", "ratio", value

        return replace(STUDY, rows=made)

    runs.run(making(math.nan))
    assert probes.fault(making(math.nan), 1) == ""
    assert probes.fault(making(-math.inf), 1).startswith("its probe gives -inf and not nan")
    edited(place, lambda known: known["probe"].update(machine="another"))
    assert probes.fault(making(-math.inf), 1) == ""
    assert probes.fault(making(1.0), 1).startswith("its probe gives 1 and not nan")


def test_no_seed_is_added_by_other_code() -> None:
    stored()
    with pytest.raises(ValueError, match="its probe gives"):
        runs.confirm(shifted(0.001), block=2)
    assert runs.run(shifted(0.001), again=True)
    known = store.about(STUDY)
    assert (known["blocks"], [block["number"] for block in known["past"]]) == ([], [1])
    runs.confirm(shifted(0.001))
    assert store.read(STUDY).seeds == [200, 201, 202, 203]


def test_whole_rows_are_run_again_in_turn_and_the_date_is_noted(place: Path, monkeypatch) -> None:
    stored()
    before = (place / "toy.csv").read_bytes()
    dates = {"0": "2026-01-02", "1": "2026-01-01", "2": "2026-01-03"}
    edited(place, lambda known: known["verified"].update(dates))
    monkeypatch.setattr(store, "today", lambda: "2027-01-01")
    assert audit.verify([STUDY]) == {"toy": "verified"}
    assert calls[0] == 1
    assert store.about(STUDY)["verified"]["1"] == "2027-01-01"
    assert (place / "toy.csv").read_bytes() == before
    assert audit.verify([shifted(0.01)]) == {"toy": "other rows"}
    edited(place, lambda known: [e.update(machine="another") for e in known["computed"]])
    assert audit.verify([shifted(0.01)]) == {"toy": "verified"}  # as far as seeds differ
    assert audit.verify([shifted(0.1)]) == {"toy": "other rows"}


def test_the_command_line(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "every", lambda: [STUDY])
    monkeypatch.setattr(command, "every", lambda: [STUDY])
    for line, said in (
        ("run --seeds 0-2", "toy: stored"),
        ("confirm", "toy: confirmed"),
        ("show toy", "holds 1, does not hold 1"),
        ("check", "1 studies: rows, verdicts and code agree"),
    ):
        command.main(line.split())
        assert said in capsys.readouterr().out


def test_a_table_counts_all_seeds_and_a_sentence_those_of_its_question() -> None:
    """The question came before the second block, so the first one does not judge it."""
    told = {"repetitions": ("none", "3 seeds to look at, 4 that confirm; each trains twice")}
    blocks = {k: STUDY.block(k) for k in (1, 2)}
    asked = {"repaired | bad | here | 0.5": 2}
    drawn = [(seed, *row) for own in blocks.values() for seed in own for row in rows(seed)]
    frame = pd.DataFrame(drawn, columns=["seed", "scenario", "method", "metric", "value"])
    found = studies.Results(replace(STUDY, protocol=told), frame, True, blocks, asked)
    assert found.count("repaired", "bad", "here").n == 4
    everything = found.over_all("repaired", "bad", "here")
    assert (everything.n, found.over_all("AUC @ 10", "bad", "here").n) == (8, 8)
    assert str(everything) in str(found.table("repaired", scenario="here"))
    protocol = str(found.settings())
    assert "8 that confirm in 2 blocks; each trains twice" in protocol
