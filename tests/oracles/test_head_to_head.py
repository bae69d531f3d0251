"""What chapter 10's studies rest on beside fb.compare: the truth's own row, splits, samples."""

import pytest
import torch

import fedlab_mini as fm
from fedlab_bench.judging import ceiling
from fedlab_bench.measures import relative_error
from fedlab_mini.streams import stream
from studies.head_to_head import equal_dirichlet, fewer


def test_the_ceiling_is_one_training_judged_by_the_other_both_ways():
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(2, 5, generator=generator).double()
    found = dict(ceiling(values, [0, 3]))
    first, second = values
    assert found["tau"] == pytest.approx(fm.kendall(first, second))
    errors = [relative_error(*pair) for pair in ((first, second), (second, first))]
    assert found["relative error"] == pytest.approx(sum(errors) / 2)
    aucs = [fm.detection_auc(own, [0, 3]) for own in values]
    assert found["AUC"] == pytest.approx(sum(aucs) / 2)


def test_equal_sizes_and_unequal_labels():
    generator = torch.Generator().manual_seed(1)
    y = torch.randint(10, (400,), generator=generator)
    for alpha, least in ((0.5, 0.3), (0.1, 0.5)):
        groups = equal_dirichlet(alpha)(y, 8, stream(0, "split"))
        assert [len(group) for group in groups] == [50] * 8
        assert torch.cat(groups).sort().values.equal(torch.arange(400))
        largest = [float(y[group].bincount().max()) / 50 for group in groups]
        assert sum(largest) / 8 > least  # alike clients: about a sixth


def test_fewer_validation_samples_are_a_part_of_those_before():
    inputs, labels = torch.arange(360.0)[:, None], torch.arange(360)
    parts = fewer((inputs, labels), seed=2)
    assert [len(part[1]) for part in parts.values()] == [360, 100, 50, 20]
    assert set(parts["20"][1].tolist()) < set(parts["50"][1].tolist()) < set(range(360))
    for x, y in parts.values():
        assert x[:, 0].long().equal(y)
