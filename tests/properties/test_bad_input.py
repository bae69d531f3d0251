"""Bad input is refused in one clear sentence, whatever it is and wherever it is given.

A sample of the cases runs in every test run; all of them with FEDLAB_ALL_CASES=1.
"""

import functools
import itertools

import bad_input
import pytest
from bad_calls import GIVEN, RECORDS
from helpers import ALL_CASES
from out_of_range import OUT_OF_RANGE

import fedlab_bench as fb
import fedlab_mini as fm

EVERY = 1 if ALL_CASES else 7  # with 7, each value meets each kind of name

# Tried with wrong files, names and seeds in tests/unit/test_bench.py.
OF_THE_BENCH = {"Retrained", "Submission", "entered", "judge", "judged", "read_submission"}
OF_THE_BENCH |= {"recorded", "standings", "board", "picture", "summary"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Some bad values are good names of a folder: what is written there goes with it."""
    monkeypatch.chdir(tmp_path)


@functools.cache
def cases() -> dict[str, list[bad_input.Case]]:
    """All cases by the name that they try."""
    return {name: [*mine] for name, mine in itertools.groupby(bad_input.cases(), lambda c: c.name)}


def test_every_public_name_is_tried():
    tried = {name.partition(".")[0] for name in bad_input.CALLS}
    public = {*fm.__all__, *fm.methods.__all__, *fb.__all__} - RECORDS - GIVEN - OF_THE_BENCH
    assert public <= tried


@pytest.mark.parametrize("name", bad_input.CALLS)
def test_a_call_works_and_bad_input_is_refused_clearly(name):
    call, _, given = bad_input.CALLS[name]
    assert bad_input.sound(call(**given))
    start = sum(map(ord, name)) % EVERY
    faults = {}
    for case in cases().get(name, [])[start::EVERY]:
        verdict = bad_input.judge(case)
        if verdict not in ("refused", "sound") and case not in bad_input.HARMLESS:
            faults[case] = verdict
    assert not faults, "\n".join(f"{case}: {verdict}" for case, verdict in faults.items())


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_what_is_out_of_range_is_refused_by_name(name):
    call, _, given = bad_input.CALLS[name]
    for key, values in OUT_OF_RANGE[name].items():
        replaced, named = (key, key) if isinstance(key, str) else key
        for value in values:
            said = rf"^{named}(\[.+?\])*( \[.*?\])?: "
            with pytest.raises((TypeError, ValueError), match=said):
                call(**(given | {replaced: value}))
