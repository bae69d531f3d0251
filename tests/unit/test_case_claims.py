"""The scoreboard of the lessons: its rows are the stored ones, and its verdicts rest on claims."""

import pytest
import torch

import studies
from studies.adversaries_claims import broken
from studies.case_claims import BOARD, CLINICS, OF_CLINICS, OF_HOSPITALS, board, failing

CASES = {"clinics": OF_CLINICS, "hospitals": OF_HOSPITALS}


@pytest.fixture(scope="module")
def clinics():
    return studies.results("clinics")


@pytest.mark.parametrize("name", BOARD)
def test_a_verdict_rests_on_claims_that_hold(clinics, name):
    assert BOARD[name].claims
    assert not failing(clinics, *BOARD[name].claims)
    assert not broken(studies.results("adversaries-clinics"), *BOARD[name].attacked)
    assert bool(BOARD[name].attacked) == ("replay" in BOARD[name].verdict)


def test_a_claim_that_turns_is_named():
    few = studies.results("clinics").only([100, 101])
    assert failing(few, "Cedar first")[0].startswith("Cedar first: ")


def test_rows_are_the_stored_ones_and_come_lesson_by_lesson(clinics):
    for lesson in range(1, 11):
        means = board(clinics, lesson).means()
        assert next(iter(means)) == "retrained Shapley value"
        assert {name for name in BOARD if BOARD[name].lesson <= lesson} <= means.keys()
        for name, row in means.items():
            line = BOARD[name]
            each = [clinics.values(line.metric, line.method, clinic) for clinic in CLINICS]
            assert torch.allclose(torch.tensor(row).double(), torch.stack(each).mean(1))


def test_shares_of_the_reference_add_up_to_one(clinics):
    assert sum(board(clinics, 1).means()["retrained Shapley value"]) == pytest.approx(1)


@pytest.mark.parametrize("case", CASES)
def test_every_claim_has_a_sentence_of_its_own(case):
    sentences = [claim.sentence for claim in CASES[case].values()]
    assert len(set(sentences)) == len(sentences)
