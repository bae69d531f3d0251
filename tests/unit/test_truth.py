"""Ground truth of somebody's own data: what ``from_datasets`` is told about it."""

import torch

import fedlab_mini as fm

PAIR = (torch.zeros(4, 3), torch.tensor([0, 1, 0, 1]))


def test_truth_is_kept_and_judged_by():
    def built(truth):
        return fm.Federation.from_datasets([PAIR] * 3, validation=PAIR, test=PAIR, truth=truth)

    assert built({2: "flipped labels"}).corrupted == {2}
    assert built(None).corrupted == set()
