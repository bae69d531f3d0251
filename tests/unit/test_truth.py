"""Ground truth of somebody's own data: what ``from_datasets`` is told about it."""

import pytest
import torch

import fedlab_mini as fm

PAIR = (torch.zeros(4, 3), torch.tensor([0, 1, 0, 1]))


def built(truth):
    return fm.Federation.from_datasets([PAIR] * 3, validation=PAIR, test=PAIR, truth=truth)


def test_truth_is_kept_and_judged_by():
    fed = built({2: "flipped labels"})
    assert fed.truth == {2: "flipped labels"}
    assert fed.corrupted == {2}
    assert fm.detection_auc([1, 1, 0], fed.corrupted) == 1
    assert built(None).corrupted == set()


@pytest.mark.parametrize("truth", [{3: "no such client"}, {-1: "x"}, {0.5: "x"}, {True: "x"}, [2]])
def test_truth_about_nobody_is_refused(truth):
    with pytest.raises((ValueError, TypeError), match="truth"):
        built(truth)
