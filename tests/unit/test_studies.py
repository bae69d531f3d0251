"""Studies: stored, resumed, found stale or edited; verdicts follow the rows."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import studies
from fedlab_mini.worlds.data import DataUnavailable
from studies import __main__ as command
from studies import code, protocols, store
from studies.claims import (
    alike,
    beyond,
    covers,
    every_seed,
    higher,
    lower,
    minus,
    ratio,
    sentences,
    state,
    within,
)
from studies.study import Claim, Study

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
    assert told["verified"]["fingerprint"] == code.fingerprint(STUDY)
    assert told["verified"]["seeds"] == [0, 1, 2]
    assert set(told["computed"]) == {"version", "machine", "date"}
    assert {"protocol", "verdict", "verdicts", "item"} <= set(told)
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


def test_a_claim_that_a_chapter_states_must_come_out_as_stated() -> None:
    lost = replace(STUDY.claims[1], key="lost", stated="does not hold")
    store.run([replace(STUDY, claims=(lost,))])
    assert list(store.read(replace(STUDY, claims=(lost,))).told()) == ["lost"]
    with pytest.raises(AssertionError, match=r"toy, 'bad is above \.6': does not hold"):
        store.read(replace(STUDY, claims=(replace(lost, stated="holds"),))).told()


def test_claims_from_a_table_and_measures_of_two_metrics() -> None:
    store.run([STUDY])
    found = store.read(STUDY)
    first, last = ("AUC @ 1", "good"), ("AUC @ 10", "good")
    assert minus(last, first)(found).mean == pytest.approx(0.009)
    assert ratio(first, first)(found).mean == 1
    each = every_seed(lambda results: results.values(*last), 0.9, 0.93, shown=len)
    assert each(found) == ("holds", "3")
    table = sentences({"in each": (each, "key"), "not": each}, "good: ", stated="holds")
    assert [(claim.sentence, claim.key) for claim in table] == [
        ("good: in each", "key"),
        ("good: not", ""),
    ]
    (marked,) = state(table[1:], {"good: not": ("not shown", "none")})
    assert (marked.stated, marked.key) == ("not shown", "none")
    with pytest.raises(AssertionError, match="no such sentence"):
        list(state(table, {"bad": ("holds", "")}))


def test_every_entry_of_the_protocols_is_a_study() -> None:
    assert set(protocols.ENTRIES) == {study.name for study in studies.every()}
    twin = studies.named("cgsv-odd-mnist5k").protocol
    assert twin["data"] == ("not given", "MNIST, 1,800 images; 3,000 where one attacks")
    assert twin["noise"] == studies.named("cgsv-odd").protocol["noise"]
    assert twin["noise"] == ("different shares of wrong labels", "none")


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
    frame["value"] += 0.01
    frame.to_csv(place / "toy.csv", index=False)
    known = store.about(STUDY)
    store._note(STUDY, known["computed"], known["verified"], known["seconds"])
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


def test_a_renewal_keeps_what_was_computed_and_says_what_was_verified(place: Path) -> None:
    store.run([STUDY])
    rows_then, known = (place / "toy.csv").read_bytes(), store.about(STUDY)
    known["computed"] = {"version": "0.0", "machine": "another", "date": "2001-01-01"}
    known["seconds"] = {"0": 9.0, "1": 3.0, "2": 9.0}
    known["verified"]["fingerprint"] = "of older code"
    (place / "toy.json").write_text(json.dumps(known))
    assert store.state(STUDY) == "stale"
    for choose, seed in (("cheapest", 1), ("rotate", store._chosen(STUDY, "rotate"))):
        calls.clear()
        assert store.renew([STUDY], choose) == {"toy": "renewed"}
        assert calls == [seed]
        now = store.about(STUDY)
        assert now["computed"] == known["computed"]
        assert now["verified"]["fingerprint"] == code.fingerprint(STUDY)
        assert now["verified"]["seeds"] == [seed]
        assert now["verified"]["chosen"] == choose
        assert now["seconds"][str(seed)] < 1
    assert (place / "toy.csv").read_bytes() == rows_then
    assert store.state(STUDY) == "current"


def test_the_seed_that_is_run_again_rotates_with_the_code() -> None:
    store.run([STUDY])
    versions = [replace(STUDY, protocol={"version": ("none", str(n))}) for n in range(30)]
    assert {store._chosen(study, "rotate") for study in versions} == {0, 1, 2}


def test_what_cannot_be_renewed_is_said_and_left(place: Path) -> None:
    assert store.renew([STUDY]) == {"toy": "missing"}
    store.run([STUDY])
    before = {path.name: path.read_bytes() for path in place.glob("toy.*")}

    def elsewhere(seed: int):
        raise DataUnavailable("not here")

    assert store.renew([replace(STUDY, rows=elsewhere)]) == {"toy": "no data"}
    other = replace(STUDY, rows=lambda seed: [("good", "AUC @ 1", 0.0)])
    assert store.renew([other]) == {"toy": "other rows"}
    assert before == {path.name: path.read_bytes() for path in place.glob("toy.*")}
    (place / "toy.csv").write_text("seed,variant,metric,value\n")
    assert store.renew([STUDY]) == {"toy": "edited"}


def test_sentences_are_stored_anew_without_computing() -> None:
    store.run([STUDY])
    calls.clear()
    claim = Claim("bad is above .4", beyond("AUC @ 10", "bad", 0.4))
    reworded = replace(STUDY, claims=(claim,))
    assert "stored verdicts" in store.check([reworded])[0]
    calls.clear()
    assert store.run([reworded]) == ["toy"]
    assert calls == []
    assert store.check([reworded]) == []


def test_two_runs_of_the_same_seeds_at_once_do_not_meet(place: Path) -> None:
    def meanwhile(seed: int):
        store.run([STUDY], again=True)  # takes the parts of the run around it
        return rows(seed)

    meanwhile.__name__ = "rows"
    store.run([replace(STUDY, rows=meanwhile)])
    assert store.state(STUDY) == "current"
    assert store.check([STUDY]) == []
    assert list(place.glob("parts/*.csv")) == []


# --- what a fingerprint depends on ----------------------------------------------------------------

SHARED = '''
"""A module of the project."""
from __future__ import annotations

import math
import warnings

from fedlab_mini import checks
from torch.nn.functional import relu

RATE = 0.1
OTHER: float = 4
TABLE = {}


def helper(seed: int, rate: float = RATE) -> float:
    """A docstring."""
    # a remark
    checks.whole("seed", seed, 0)
    if seed < 0:
        raise ValueError(f"seed: expected 0 or more, got {seed}")
    warnings.warn("slowly", stacklevel=2)
    assert rate > 0, "a rate"
    return relu(seed) * rate + math.pi


def unused(): return OTHER
'''
TOY = """
from dataclasses import dataclass
from typing import ClassVar

from {home} import helper, unused

@dataclass
class Setting:
    seed: int
    many: ClassVar[int] = 3
    known: list[int] | None = None

def rows(seed):
    return helper(Setting(seed).seed)

def others(seed):
    return unused()

def figure():
    return "blue"

STUDIES = tuple(seed for seed in (1, 2))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The hash of a study of a small project, given its two files."""
    monkeypatch.setattr(code, "ROOT", tmp_path)
    numbers = itertools.count()

    def digest(shared: str = SHARED, toy: str = TOY, name: str = "rows", home: str = "shared"):
        place = f"project{next(numbers)}"  # files are read once, so each version has its own
        module = tmp_path.joinpath(place, *home.split(".")).with_suffix(".py")
        module.parent.mkdir(parents=True)
        module.write_text(shared)
        study = tmp_path / place / "toy.py"
        study.write_text(toy.format(home=f"{place}.{home}"))
        return code.digest(study, name)

    return digest


def test_a_fingerprint_sees_no_words_and_no_annotations(project) -> None:
    same = {
        "a docstring": ('"""A docstring."""', '"""Another."""'),
        "a comment": ("    # a remark\n", ""),
        "layout": ("return relu(seed) * rate + math.pi", "return (\n relu(seed) * rate + math.pi)"),
        "an annotation": ("seed: int, rate: float = RATE", "seed, rate: object = RATE"),
        "an error": ("expected 0 or more, got {seed}", "expected at least 0, got {seed!r}"),
        "a refusal": ('checks.whole("seed", seed, 0)', 'checks.whole("a seed", seed, 0)'),
        "a warning": ('"slowly"', '"very slowly"'),
        "an assertion": ('"a rate"', '"a positive rate"'),
        "what is not reached": ("OTHER: float = 4", "OTHER: float = 5"),
        "an import that is not used": ("import math\n", "import cmath\nimport math\n"),
    }
    for what, edit in same.items():
        assert SHARED.replace(*edit) != SHARED
        assert project(SHARED.replace(*edit)) == project(), what
    for edit in (('"blue"', '"red"'), ("(1, 2)", "(1, 3)"), ("seed: int\n", "seed: float\n")):
        assert project(toy=TOY.replace(*edit)) == project(), edit
    assert project(home="deeper.down") == project()


def test_a_fingerprint_sees_what_makes_numbers(project) -> None:
    shared = {
        "a constant": ("RATE = 0.1", "RATE = 0.2"),
        "a default": ("rate: float = RATE", "rate: float = 0.1"),
        "a statement of the module": ("TABLE = {}", "RATE += 0.2"),
        "what an import does": ("TABLE = {}", "TABLE = {}\nTABLE[RATE] = 1"),
        "another function of torch": ("import relu", "import gelu as relu"),
        "a condition": ("if seed < 0", "if seed < 1"),
        "which error": ("raise ValueError", "raise KeyError"),
        "a number in a check": ('"seed", seed, 0', '"seed", seed, 1'),
    }
    for what, edit in shared.items():
        assert SHARED.replace(*edit) != SHARED
        assert project(SHARED.replace(*edit)) != project(), what
    toy = {
        "a field's kind": ("many: ClassVar[int]", "many: int"),
        "another helper": ("import helper, unused", "import unused as helper, unused"),
        "a field": ("    seed: int\n", "    seed: int\n    more: int = 0\n"),
    }
    for what, edit in toy.items():
        assert project(toy=TOY.replace(*edit)) != project(), what
    changed = SHARED.replace("OTHER: float = 4", "OTHER: float = 5")
    assert project(changed, name="others") != project(name="others")
    rate = SHARED.replace("RATE = 0.1", "RATE = 0.2")
    assert project(rate, name="others") == project(name="others")


def test_what_is_used_as_a_whole_counts_as_a_whole(project) -> None:
    changed = SHARED.replace("OTHER: float = 4", "OTHER: float = 5")
    starred = TOY.replace("import helper, unused", "import *")
    passed = TOY.replace("from {home} import helper, unused", "import {home} as helper")
    for toy in (starred, passed):
        assert project(changed, toy) != project(toy=toy)
    through = TOY.replace("from {home} import helper, unused", "import {home} as tools")
    through = through.replace("helper(", "tools.helper(")
    assert project(changed, through) == project(toy=through)


def test_stored_studies_are_stale_for_numbers_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "ROOT", tmp_path)
    some = ("cgsv-steps", "fedccea-letters", "fedccea-fit", "growth", "head-to-head", "label-rates")
    repository, files = Path(studies.__file__).parents[1], ("fedlab_mini", "studies")
    where = {
        s.name: (Path(inspect.getsourcefile(s.rows)), s.rows.__name__)
        for s in map(studies.named, some)
    }
    numbers = itertools.count()

    def stale(*edits: tuple[str, str, str]) -> set[str]:
        """The studies that edits (of which files, old, new) make stale."""
        code.ROOT = tmp_path / str(next(numbers))
        for path in (path for name in files for path in (repository / name).rglob("*.py")):
            text, relative = path.read_text(), path.relative_to(repository)
            for pattern, old, new in edits:
                text = re.sub(old, new, text) if re.search(pattern, str(relative)) else text
            target = code.ROOT / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        for name, (file, rows) in where.items():
            marks[name].append(code.digest(code.ROOT / file.relative_to(repository), rows))
        return {name for name, found in marks.items() if found[0] != found[-1]}

    marks: dict[str, list[str]] = {name: [] for name in where}
    returned = r"(?m)^( +)return ", r"\1return 0 or "
    stale()  # as they are
    words = (
        ("checks.py", "expected", "it should have been"),
        ("show/", '"#[0-9a-f]{6}"', '"#123456"'),
    )
    ceremony = ("engine/(progress|checkpoint)", *returned), ("engine/guard", "remembered", "known")
    assert stale(*words, *ceremony) == set()
    assert stale(("engine/minibatches", r"lr: float = [0-9.]+", "lr: float = 0.123")) == set(where)
    fedccea = stale(("methods/(fedccea|aam)", *returned))
    assert fedccea == {"fedccea-letters", "fedccea-fit", "head-to-head"}


def test_what_is_left_out_of_fingerprints_exists() -> None:
    for name in (*code.WITHOUT_NUMBERS, *code.STILL_NUMBERS):
        module, _, part = name.rpartition(".")
        assert importlib.util.find_spec(module or name) is not None
        if module and not hasattr(importlib.import_module(module), part):
            assert importlib.util.find_spec(name) is not None


def test_the_command_line(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "every", lambda: [STUDY])
    monkeypatch.setattr(command, "every", lambda: [STUDY])
    for words in (
        ["run", "--seeds", "0-2"],
        ["list"],
        ["renew", "toy"],
        ["renew"],
        ["show", "toy"],
        ["check"],
    ):
        command.main(words)
    said = capsys.readouterr().out
    assert "stored: toy" in said
    assert "3 of  3 seeds" in said
    assert "renewed\nno study\n" in said
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


def test_results_are_found_from_any_folder(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FEDLAB_RESULTS")
    monkeypatch.chdir(tmp_path)
    assert store.folder() == Path(studies.__file__).parents[1] / "data" / "results"
    monkeypatch.setenv("FEDLAB_RESULTS", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="FEDLAB_RESULTS"):
        store.folder()
