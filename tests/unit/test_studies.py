"""Studies: stored, resumed, found stale or edited; verdicts follow the rows."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import studies
from studies import __main__ as command
from studies import code, store
from studies.study import Claim, Study, alike, beyond, covers, higher, lower, within

calls: list[int] = []


def rows(seed: int):
    calls.append(seed)
    for t in (1, 10):
        yield "good", f"AUC @ {t}", 0.9 + 0.01 * seed + 0.001 * t
    yield "bad", "AUC @ 10", 0.5 + 0.01 * seed


STUDY = Study(
    name="toy",
    item="A toy",
    says="Good is better.",
    protocol={"seeds": ("none", "3")},
    rows=rows,
    claims=(
        Claim("good is better than bad", higher("AUC @ 10", "good", "bad")),
        Claim("bad is above .6", beyond("AUC @ 10", "bad", 0.6)),
        Claim("good is about .92", within("AUC @ 10", 0.8, 1.0, "good"), paper=False),
    ),
    seeds=3,
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDLAB_RESULTS", str(tmp_path))
    calls.clear()
    return tmp_path


def test_rows_are_stored_in_long_format_with_all_that_is_known(place: Path) -> None:
    assert store.state(STUDY) == "missing"
    assert store.run([STUDY]) == ["toy"]
    frame, told = pd.read_csv(place / "toy.csv"), json.loads((place / "toy.json").read_text())
    assert list(frame) == ["seed", "variant", "metric", "value"]
    assert len(frame) == 9
    assert set(told["seconds"]) == {"0", "1", "2"}
    assert told["fingerprint"] == code.fingerprint(STUDY)
    assert {"protocol", "version", "machine", "verdict", "verdicts", "item"} <= set(told)
    assert store.state(STUDY) == "current"
    assert store.check([STUDY]) == []
    calls.clear()
    assert store.run([STUDY]) == []
    assert calls == []


def test_verdicts_follow_the_rows() -> None:
    store.run([STUDY])
    found = store.read(STUDY)
    assert [word for word, _ in found.verdicts().values()] == ["holds", "does not hold", "holds"]
    assert found.verdict() == "holds in part"
    assert found.values("AUC @ 10", "good").tolist() == pytest.approx([0.91, 0.92, 0.93])
    at, lines = found.curve("AUC", "good")
    assert at == [1, 10]
    assert lines.shape == (3, 2)
    assert found.paired("AUC @ 10", "good", "bad").mean == pytest.approx(0.41)
    assert "0.92 [" in repr(found.table("AUC @ 1", "AUC @ 10"))
    assert "holds" in repr(found.judged())
    with pytest.raises(KeyError, match="no metric 'AUC @ 2' of variant 'good'"):
        found.values("AUC @ 2", "good")


def test_sentences_of_a_chapter_are_told_while_they_hold_and_named_when_not() -> None:
    def reads(*tests):
        return tuple(Claim(f"sentence {k}", test, key=f"k{k}") for k, test in enumerate(tests))

    down = lower("AUC @ 10", "bad", "good")
    open_ = (alike("AUC @ 10", "good", "good"), covers("AUC @ 10", "bad", 0.51))
    sound = replace(STUDY, reads=reads(down, *open_, higher("AUC @ 10", "good", "bad", by=0.4)))
    store.run([sound])
    told = store.read(sound).told()
    assert list(told) == ["k0", "k1", "k2", "k3"]
    assert told["k0"].startswith("-0.41")
    assert store.check([sound]) == []
    for test in (
        higher("AUC @ 10", "good", "bad", by=0.42),
        alike("AUC @ 10", "good", "bad"),
        covers("AUC @ 10", "bad", 0.6),
        lower("AUC @ 10", "good", "bad"),
    ):
        false = replace(STUDY, reads=reads(down, test))
        with pytest.raises(AssertionError, match="toy, 'sentence 1': does not hold"):
            store.read(false).told()
        (fault,) = store.check([false])
        assert "sentence 1" in fault


def test_a_killed_run_goes_on_with_the_missing_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(seed: int):
        if seed == 2:
            raise KeyboardInterrupt
        return rows(seed)

    killed.__name__ = "rows"  # the same code as far as the fingerprint sees
    with pytest.raises(KeyboardInterrupt):
        store.run([replace(STUDY, rows=killed)])
    calls.clear()
    store.run([STUDY])
    assert calls == [2]
    assert store.read(STUDY).seeds == 3


def test_runs_of_different_seeds_at_once_keep_both() -> None:
    def meanwhile(seed: int):
        store.run([STUDY], seeds=[0, 1])
        return rows(seed)

    assert store.run([STUDY], seeds=[3]) == []  # one has no interval; it waits
    meanwhile.__name__ = "rows"
    store.run([replace(STUDY, rows=meanwhile)], seeds=[2])
    assert store.read(STUDY).seeds == 4


def test_more_seeds_are_added_to_those_that_are_there() -> None:
    store.run([STUDY])
    calls.clear()
    store.run([STUDY], seeds=range(5))
    assert calls == [3, 4]
    assert store.read(STUDY).seeds == 5
    assert store.run([replace(STUDY, seeds=5)]) == []


def test_an_edited_file_is_named(place: Path) -> None:
    store.run([STUDY])
    path = place / "toy.csv"
    path.write_text(path.read_text().replace("0.911", "0.991", 1))
    assert store.check([STUDY])
    assert "toy: edited" in store.check([STUDY])[0]


def test_rows_that_the_code_does_not_give_are_named(place: Path) -> None:
    store.run([STUDY])
    frame = store.read(STUDY).frame
    frame.loc[0, "value"] = 0.5
    store._store(STUDY, frame, {"0": 0.0, "1": 1.0, "2": 1.0}, code.fingerprint(STUDY))
    assert "other rows" in store.check([STUDY])[0]


def test_times_may_differ_from_the_stored_ones(place: Path) -> None:
    def timed(seed: int):
        yield "good", "AUC @ 10", 1.0
        yield "good", "seconds, training", float(len(calls))
        calls.append(seed)

    study = replace(STUDY, rows=timed, claims=(Claim("is 1", beyond("AUC @ 10", "good", 0.9)),))
    store.run([study])
    assert store.check([study]) == []
    assert len(calls) == 4


def test_a_stored_seed_of_a_short_result_is_not_computed_again(place: Path) -> None:
    store.run([STUDY], seeds=[0, 1])
    calls.clear()
    assert store.run([STUDY], seeds=[0, 1]) == []
    assert store.run([STUDY]) == ["toy"]
    assert calls == [2]
    assert store.read(STUDY).seeds == 3


def test_a_stale_result_is_named_and_renewed_only_as_far_as_it_changed(place: Path) -> None:
    store.run([STUDY])
    other = replace(STUDY, protocol={"seeds": ("none", "three")})
    assert "toy: stale" in store.check([other])[0]
    calls.clear()
    assert store.run([other]) == ["toy"]
    assert len(calls) == 1
    assert store.state(other) == "current"

    def rows(seed: int):
        yield "good", "AUC @ 10", 1.0
        yield "bad", "AUC @ 10", 0.0 + seed

    changed = replace(STUDY, rows=rows, protocol={"seeds": ("none", "changed")})
    store.run([changed])
    assert store.read(changed).interval("AUC @ 10", "good").mean == 1.0
    assert store.read(changed).seeds == 3


def test_the_fingerprint_sees_code_and_not_words() -> None:
    source = textwrap.dedent(
        '''
        SIZE = 3
        OTHER = 4

        def rows(seed):
            """Doc."""
            return helper(seed) * SIZE  # why

        def helper(seed):
            # a remark
            return seed

        def figure():
            return OTHER

        STUDIES = tuple(seed for seed in (1, OTHER))
        '''
    )

    def mark(text: str) -> str:
        return "\n".join(code._bare(text, [node]) for node in code.reached(text, "rows"))

    same = source.replace("# a remark", "# another").replace("Doc.", "Other.")
    same = same.replace("OTHER = 4", "OTHER = 5").replace("return OTHER", "return 1")
    assert mark(same) == mark(source)
    for old, new in (("SIZE = 3", "SIZE = 4"), ("return seed", "return 2 * seed")):
        assert mark(source.replace(old, new)) != mark(source)
    shared = {path.name for path in code.closure(code.HERE / "sfedavg.py")}
    assert "training.py" in shared
    assert "study.py" not in shared  # claims make no row stale, wherever rows are taken from
    modules = {path.name for path in code.closure(code.PACKAGE / "training.py")}
    assert {"training.py", "local.py", "model.py", "streams.py"} <= modules
    assert not {"plots.py", "evidence.py"} & modules


def test_the_command_line(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "every", lambda: [STUDY])
    monkeypatch.setattr(command, "every", lambda: [STUDY])
    for words in (["run", "--seeds", "0-2"], ["list"], ["show", "toy"], ["check"]):
        command.main(words)
    said = capsys.readouterr().out
    assert "stored: toy" in said
    assert "3 of  3 seeds" in said
    assert "holds in part" in said
    assert "1 studies: rows, verdicts and code agree" in said
    with pytest.raises(SystemExit, match="expected one of toy; got 'other'"):
        command.main(["show", "other"])


def test_every_study_of_the_book_says_what_it_is() -> None:
    found = studies.every()
    assert len({study.name for study in found}) == len(found)
    for study in found:
        assert study.item
        assert study.says
        assert study.protocol
        assert study.claims
        assert study.seeds >= 3
        assert all(len(pair) == 2 and all(pair) for pair in study.protocol.values())


def test_without_a_folder_the_error_says_what_to_do(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FEDLAB_RESULTS")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="FEDLAB_RESULTS"):
        store.folder()
