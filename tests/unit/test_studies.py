"""Studies: stored, resumed, confirmed, found stale or edited; verdicts follow the rows."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

import studies
from fedlab_mini.worlds.data import DataUnavailable
from studies import __main__ as command
from studies import audit, code, metrics, protocols, sentences, store
from studies.results import ALIKE, FAILS, HOLDS, NOT_SHOWN
from studies.study import Claim, Study

calls: list[int] = []


def rows(seed: int):
    calls.append(seed)
    spread = 0.01 * (seed % 7) ** 2 / 49
    for place in (1, 10):
        yield "here", "good", f"AUC @ {place}", 0.9 + spread + 0.001 * place
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
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDLAB_RESULTS", str(tmp_path))
    monkeypatch.setitem(metrics.declared(), "ratio", [0, 2])
    monkeypatch.setattr(sentences, "told", lambda: iter(()))
    calls.clear()
    return tmp_path


def stored(study: Study = STUDY) -> Study:
    """A study with its seeds to look at and its first block."""
    store.run([study])
    store.confirm([study])
    calls.clear()
    return study


def edited(place: Path, change) -> None:
    """Change what is known of the toy, and seal it again, as a forger would who knows how."""
    known, text = store.about(STUDY), (place / "toy.csv").read_text()
    change(known)
    known["sha256"] = store.seal(text, known)
    (place / "toy.json").write_text(json.dumps(known))


def test_rows_are_stored_in_long_format_with_all_that_is_known(place: Path) -> None:
    assert store.state(STUDY) == "missing"
    assert store.run([STUDY]) == ["toy"]
    frame, known = pd.read_csv(place / "toy.csv"), json.loads((place / "toy.json").read_text())
    assert list(frame) == ["seed", "scenario", "method", "metric", "value"]
    assert len(frame) == 12
    assert set(known["seconds"]) == {"0", "1", "2"}
    assert (known["look"], known["blocks"]) == ([0, 1, 2], [])
    assert known["verified"]["fingerprint"] == code.fingerprint(STUDY)
    assert set(known["computed"][0]) == {"seeds", "version", "machine", "date"}
    assert store.state(STUDY) == "unconfirmed"
    assert store.confirm([STUDY]) == ["toy"]
    assert store.state(STUDY) == "current"
    assert [e["seeds"] for e in store.about(STUDY)["computed"]] == [[0, 1, 2], [100, 101, 102, 103]]
    calls.clear()
    assert store.run([STUDY]) == store.confirm([STUDY]) == []
    assert calls == []


def test_verdicts_are_read_on_the_seeds_that_confirm() -> None:
    store.run([STUDY])
    look = store.read(STUDY)
    assert (look.confirmed, look.seeds, look.look is look) == (False, [0, 1, 2], True)
    stored()
    found = store.read(STUDY)
    assert (found.confirmed, found.seeds) == (True, [100, 101, 102, 103])
    assert found.look.seeds == store.read(STUDY, "look").seeds == [0, 1, 2]
    assert [verdict.word for verdict in found.verdicts().values()] == [HOLDS, FAILS, HOLDS]
    assert found.verdict() == "holds 1, does not hold 1"
    assert found.verdict("book") == "holds 1"
    values = found.values("AUC @ 10", "good", "here")
    expected = [0.91 + 0.01 * (seed % 7) ** 2 / 49 for seed in found.seeds]
    assert values.tolist() == pytest.approx(expected, abs=1e-6)
    assert found.values("AUC @ 10", ("good", "here")).equal(values)
    at, lines = found.curve("AUC", "good", "here")
    assert (at, lines.shape) == ([1, 10], (4, 2))
    assert found.interval("ratio", "both", "here").mean == pytest.approx(1.8, abs=0.05)
    assert found.measure("twice", lambda r: 2 * r.values("AUC @ 1", "good", "here")).mean > 1.8
    assert str(found.count("repaired", "bad", "here")) == "3 of 4 seeds"
    assert "3 of 4 seeds" in repr(found.table("AUC @ 10", "repaired"))
    assert "0.5" in repr(found.judged())
    assert "this book" in repr(found.judged())
    with pytest.raises(KeyError, match="no 'AUC @ 2' of 'good' in 'here'"):
        found.values("AUC @ 2", "good", "here")


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
        assert found.judge(claim).word == word, claim
    verdict = found.judge(wide)
    assert 0 < verdict.power < 0.1
    with pytest.raises(ValueError, match="expected low or high, or equal=True"):
        Claim("alike", "AUC", "a", "b")
    with pytest.raises(ValueError, match="source: expected 'paper' or 'book'"):
        Claim("alike", "AUC", "a", "b", low=0, source="nobody")


def test_seeds_are_aligned_by_number_and_missing_ones_are_named(place: Path) -> None:
    def holes(seed: int):
        for row in rows(seed):
            if (seed, row[1]) not in ((1, "good"), (2, "bad")):
                yield row

    study = replace(STUDY, rows=holes, claims=(), derived=None)
    store.run([study])
    found = store.read(study)
    with pytest.raises(ValueError, match=r"'good', 'AUC @ 10'.*missing: \[1\]"):
        found.paired("AUC @ 10", "good", "bad", "here")
    with pytest.raises(ValueError, match=r"missing: \[2\]"):
        found.interval("AUC @ 10", "bad", "here")


def test_rows_of_two_studies_are_paired_by_seed_and_half() -> None:
    def rival(seed: int):
        yield "here", "rival", "AUC @ 10", 0.4 + 0.001 * seed

    other = stored(replace(STUDY, name="rival", rows=rival, claims=(), derived=None, seeds=2))
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


def test_every_metric_has_a_range_and_no_interval_leaves_it() -> None:
    assert metrics.span("AUC @ 100") == (0, 1)
    assert metrics.span("repaired") == (0, 1)
    assert metrics.is_count("repaired")
    with pytest.raises(KeyError, match="'beauty' has no range"):
        metrics.span("beauty @ 3")
    unknown = replace(STUDY, rows=lambda seed: [("", "good", "beauty", 1.0)])
    with pytest.raises(KeyError, match="beauty"):
        store.run([unknown])
    perfect = replace(STUDY, rows=lambda seed: [("", "a", "AUC", 1.0)], claims=(), derived=None)
    store.run([perfect])
    sure = store.read(perfect).interval("AUC", "a")
    assert sure.mean == sure.high == 1
    assert sure.low < 0.5


@pytest.mark.parametrize("study", studies.every(), ids=lambda study: study.name)
def test_every_metric_of_the_book_keeps_its_range(study, monkeypatch) -> None:
    monkeypatch.delenv("FEDLAB_RESULTS")
    results = store.read(study)
    for metric, part in results.frame.groupby("metric"):
        low, high = metrics.span(metric)
        assert part.value.between(low - 1e-6, high + 1e-6).all(), metric
    stored = set(results.frame.metric)
    for scenario, method, metric in results.places:
        low, high = metrics.span(metric)
        if metric not in stored:  # derived
            values = results.values(metric, method, scenario)
            assert ((low - 1e-6 <= values) & (values <= high + 1e-6)).all(), (scenario, metric)


def test_every_declared_metric_is_used(monkeypatch) -> None:
    monkeypatch.delenv("FEDLAB_RESULTS")
    stored = [place for study in studies.every() for place in store.read(study).places]
    unused = metrics.declared().keys() - {metrics.base(metric) for *_, metric in stored} - {"ratio"}
    assert not unused, f"declared, and in no study: {unused}"


def test_every_entry_of_the_protocols_is_a_study() -> None:
    assert set(protocols.ENTRIES) == {study.name for study in studies.every()}


def test_a_killed_run_goes_on_with_the_missing_seeds() -> None:
    def killed(seed: int):
        if seed in (2, 102):
            raise KeyboardInterrupt
        return rows(seed)

    killed.__name__ = "rows"  # the same code as far as the fingerprint sees
    for fill, last in ((store.run, [2]), (store.confirm, [102, 103])):
        with pytest.raises(KeyboardInterrupt):
            fill([replace(STUDY, rows=killed)])
        calls.clear()
        fill([STUDY])
        assert calls == last
    assert store.read(STUDY).n == 4


def test_runs_at_once_keep_the_seeds_of_both(place: Path) -> None:
    def meanwhile(seed: int):
        store.run([STUDY], seeds=[0, 1])
        return rows(seed)

    assert store.run([STUDY], seeds=[3]) == []  # one has no interval; it waits
    meanwhile.__name__ = "rows"
    store.run([replace(STUDY, rows=meanwhile)], seeds=[2])
    store.run([STUDY], seeds=[0, 1, 2, 3])
    assert store.read(STUDY).seeds == [0, 1, 2, 3]

    def again(seed: int):
        store.run([STUDY], again=True)  # takes the parts of the run around it
        return rows(seed)

    again.__name__ = "rows"
    store.run([replace(STUDY, rows=again, seeds=5)])
    store.run([replace(STUDY, seeds=5)])
    assert audit.check([STUDY])[0] == []
    assert list(place.glob("parts/*.csv")) == []


def test_a_block_notes_which_sentences_stood_when_it_was_drawn() -> None:
    stored()
    (block,) = store.about(STUDY)["blocks"]
    assert block["sentences"] == sorted(claim.mark for claim in STUDY.claims)
    assert (block["number"], block["seeds"]) == (1, [100, 101, 102, 103])
    later = replace(STUDY, claims=(*STUDY.claims, replace(BAD, sentence="new", low=0.4)))
    store.run([later])
    assert store.about(later)["blocks"] == [block]  # it was seen first, and is not confirmed
    assert "3/ 4" in command.line(later)
    store.confirm([later], block=2)
    assert [b["number"] for b in store.about(later)["blocks"]] == [1, 2]
    assert store.read(later).seeds == [200, 201, 202, 203]
    assert "4/ 4" in command.line(later)


FORGERIES = {
    "a row": lambda p: p.write_text(p.read_text().replace("0.911", "0.991", 1)),
    "half of the rows": lambda p: p.write_text("\n".join(p.read_text().splitlines()[:9]) + "\n"),
    "a seed renamed": lambda p: p.write_text(p.read_text().replace("\n103,", "\n117,")),
    "a variant dropped": lambda p: p.write_text(
        "\n".join(line for line in p.read_text().splitlines() if ",bad," not in line) + "\n"
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_rows_that_were_edited_are_named(place: Path, forgery: str) -> None:
    stored()
    FORGERIES[forgery](place / "toy.csv")
    assert "toy: edited" in audit.check([STUDY])[0][0]
    with pytest.raises(ValueError, match="toy: edited"):
        store.run([STUDY])


FIELDS = ("item", "protocol", "verdict", "verdicts", "look", "blocks", "computed", "verified")


@pytest.mark.parametrize("field", [*FIELDS, "seconds", "sha256"])
def test_no_stored_field_can_be_edited(place: Path, field: str) -> None:
    stored()
    path = place / "toy.json"
    known = json.loads(path.read_text())
    value = known[field]
    known[field] = f"{value}!" if isinstance(value, str) else type(value)()
    path.write_text(json.dumps(known))
    assert audit.check([STUDY])[0] == ["toy: edited; run it --again"]


def test_what_is_sealed_anew_is_still_compared_with_the_rows(place: Path) -> None:
    stored()
    edited(place, lambda known: known.update(verdict="holds 3"))
    assert "stored verdicts are not those" in audit.check([STUDY])[0][0]
    stored(replace(STUDY, claims=()))
    edited(place, lambda known: known["blocks"][0].update(seeds=[100, 101, 102, 104]))
    assert any("seeds are not those noted" in fault for fault in audit.check([STUDY])[0])


def test_a_wrong_row_is_found_whichever_seed_has_it(place: Path, monkeypatch) -> None:
    stored()

    class Today:
        @staticmethod
        def today():
            return Today()

        def toordinal(self):
            return day

        def __format__(self, _):
            return "2026-01-01"

    monkeypatch.setattr(audit, "date", Today)
    for wrong in (0, 2, 101, 103):
        frame = store.rows(STUDY)
        frame.loc[(frame.seed == wrong) & (frame.metric == "AUC @ 1"), "value"] += 0.01
        store.note(STUDY, frame, store.about(STUDY))
        faults = []
        for day in range(7):  # Today.today() sees it
            assert Today().toordinal() == day
            faults += audit.check([STUDY])[0]
        assert faults == [f"toy: seed {wrong} gives other rows; run it --again"]
        frame.loc[(frame.seed == wrong) & (frame.metric == "AUC @ 1"), "value"] -= 0.01
        store.note(STUDY, frame, store.about(STUDY))


def test_a_seed_without_some_rows_is_found(place: Path) -> None:
    stored()
    frame = store.rows(STUDY)
    bare = replace(STUDY, claims=(), derived=None)
    store.note(bare, frame.drop(index=2), store.about(STUDY))
    faults = audit.check([bare])[0]
    assert any("different numbers of rows" in fault for fault in faults)


def test_times_may_differ_from_the_stored_ones() -> None:
    def timed(seed: int):
        yield "", "good", "AUC", 0.9
        yield "", "good", "seconds", float(len(calls))
        calls.append(seed)

    study = replace(STUDY, rows=timed, claims=(), derived=None)
    store.run([study])
    assert audit.check([study]) == ([], ["toy (seed 0)"]) or audit.check([study])[0] == []
    assert len(calls) > 3


def test_rows_of_another_machine_may_differ_as_seeds_do(place: Path) -> None:
    stored()

    def elsewhere(seed: int):
        for scenario, method, metric, value in rows(seed):
            yield scenario, method, metric, value + 0.002 * (metric == "AUC @ 1")

    elsewhere.__name__ = "rows"
    other = replace(STUDY, rows=elsewhere)
    assert "other rows" in audit.check([other])[0][0]
    edited(place, lambda known: [e.update(machine="another") for e in known["computed"]])
    assert audit.check([other])[0] == []

    def wrong(seed: int):
        return ((s, v, m, value / 2) for s, v, m, value in rows(seed))

    wrong.__name__ = "rows"
    assert "other rows" in audit.check([replace(STUDY, rows=wrong)])[0][0]


def test_a_stale_result_is_renewed_by_two_seeds_that_rotate(place: Path) -> None:
    stored()
    before = (place / "toy.csv").read_bytes()
    edited(place, lambda known: known["verified"].update(fingerprint="of older code"))
    computed = store.about(STUDY)["computed"]
    assert store.state(STUDY) == "stale"
    assert "toy: stale" in audit.check([STUDY])[0][0]
    calls.clear()
    assert audit.renew([STUDY]) == {"toy": "renewed"}
    assert len(set(calls)) == 2
    known = store.about(STUDY)
    assert known["computed"] == computed
    assert known["verified"]["seeds"] == calls
    assert known["verified"]["fingerprint"] == code.fingerprint(STUDY)
    assert (place / "toy.csv").read_bytes() == before
    assert store.state(STUDY) == "current"
    turns = {tuple(audit.chosen(STUDY, turn, 2)) for turn in range(20)}
    assert {seed for pair in turns for seed in pair} == {0, 1, 2, 100, 101, 102, 103}
    assert all(len(set(pair)) == 2 for pair in turns)


def test_what_cannot_be_renewed_is_said_and_left(place: Path) -> None:
    assert audit.renew([STUDY]) == {"toy": "missing"}
    stored()
    before = {path.name: path.read_bytes() for path in place.glob("toy.*")}

    def elsewhere(seed: int):
        raise DataUnavailable("not here")
        yield

    assert audit.renew([replace(STUDY, rows=elsewhere)]) == {"toy": "no data"}
    assert "no data" in audit.check([_same_code(elsewhere)])[1][0]
    other = replace(STUDY, rows=lambda seed: [("here", "good", "AUC @ 1", 0.0)])
    assert audit.renew([other]) == {"toy": "other rows"}
    assert before == {path.name: path.read_bytes() for path in place.glob("toy.*")}


def _same_code(function) -> Study:
    function.__name__ = "rows"
    return replace(STUDY, rows=function)


def test_rows_of_older_code_confirm_nothing_and_their_seeds_count_as_seen() -> None:
    stored()

    def other_rows(seed: int):
        yield "here", "good", "AUC @ 10", 0.9 + 0.01 * (seed % 3)

    changed = replace(STUDY, rows=other_rows, claims=(), derived=None)
    with pytest.raises(ValueError, match="toy: stale; python -m studies renew toy"):
        store.run([changed])
    store.run([changed], again=True)
    known = store.about(changed)
    assert (known["blocks"], [block["number"] for block in known["past"]]) == ([], [1])
    store.confirm([changed])
    assert store.read(changed).seeds == [200, 201, 202, 203]


def test_verdicts_and_protocols_are_stored_anew_without_computing() -> None:
    stored()
    reworded = replace(STUDY, claims=(GOOD,), protocol={"seeds": ("none", "three")})
    assert "stored verdicts" in audit.check([reworded])[0][0]
    calls.clear()
    assert store.run([reworded]) == ["toy"]
    assert calls == []
    assert audit.check([reworded])[0] == []


def test_the_command_line(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "every", lambda: [STUDY])
    monkeypatch.setattr(command, "every", lambda: [STUDY])
    lines = [
        "run --seeds 0-2",
        "list",
        "confirm",
        "list",
        "renew toy",
        "renew",
        "show toy",
        "check",
    ]
    for line in lines:
        command.main(line.split())
    said = capsys.readouterr().out
    assert "toy: stored" in said
    assert "toy: confirmed" in said
    assert " 3/ 3     0/ 4" in said
    assert " 3/ 3     4/ 4" in said
    assert "1 unconfirmed" in said
    assert "renewed\nno study\n" in said
    assert "holds 1, does not hold 1" in said
    assert "1 studies: rows, verdicts and code agree" in said
    assert "Sentences of the book that rest on it: none." in said
    with pytest.raises(SystemExit, match="expected one of toy; got 'other'"):
        command.main(["show", "other"])
    with pytest.raises(SystemExit):
        command.main(["run", "--seeds", "99-100"])
    assert "confirm has others" in capsys.readouterr().err


def test_a_page_without_claims_names_the_chapter(monkeypatch, capsys) -> None:
    monkeypatch.delenv("FEDLAB_RESULTS")
    record = {"chapter": "06_reinforce_fldve", "study": "fldve-long"}
    monkeypatch.setattr(sentences, "told", lambda: iter([record, record]))
    command.main(["show", "fldve-long"])
    said = capsys.readouterr().out
    assert "06_reinforce_fldve: 2." in said
    assert "claims" not in said


def test_every_study_of_the_book_says_what_it_is() -> None:
    found = studies.every()
    assert len({study.name for study in found}) == len(found)
    for study in found:
        assert study.item
        assert study.says
        assert study.protocol
        assert study.seeds >= 2
        assert study.confirm in (5, 10, 20)
        assert all(len(pair) == 2 and all(pair) for pair in study.protocol.values())


def test_results_are_found_from_any_folder(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FEDLAB_RESULTS")
    monkeypatch.chdir(tmp_path)
    assert store.folder() == Path(studies.__file__).parents[1] / "data" / "results"
    monkeypatch.setenv("FEDLAB_RESULTS", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="FEDLAB_RESULTS"):
        store.folder()


def test_values_are_tensors_of_float64() -> None:
    assert store.read(stored()).values("AUC @ 1", "good", "here").dtype == torch.float64


RANGES = {
    "cgsv-steps": (-1, 1),
    "fedccea-fit": (-math.inf, 1),
    "head-to-head": (-1, 1),
    "retraining-ranking": (-1, 1),
    "sfedavg-selection": (0, 1),
    "sfedavg-values": (0, 1),
}


@pytest.mark.parametrize("name", RANGES)
def test_no_figure_draws_an_interval_beyond_what_its_metric_can_be(name, monkeypatch):
    monkeypatch.delenv("FEDLAB_RESULTS")
    low, high = RANGES[name]
    (axis,) = studies.results(name).figure().axes
    drawn = [value for line in axis.lines for value in line.get_xdata()]
    assert len(drawn) > 20
    assert low <= min(drawn) < max(drawn) <= high
