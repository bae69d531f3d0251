"""What chapter 10's studies rest on beside fb.compare: the truth's own row, splits, samples."""

import torch

from fedlab_bench.compare.cell import Truth
from fedlab_bench.compare.judge import removal
from fedlab_mini.streams import stream
from studies.head_to_head import equal_dirichlet, fewer


def test_the_truth_is_judged_by_the_other_training():
    generator = torch.Generator().manual_seed(0)
    first, second = torch.rand(2, 5, generator=generator).double()
    masks = torch.arange(32)[:, None] >> torch.arange(5) & 1
    worths = [masks.double() @ first, masks.double() @ second]
    found = dict(Truth([first, second], worths, None, seed=3).judged_by_itself())
    by_other = dict(removal(first, worths[1], 3))
    by_itself = dict(removal(first, worths[0], 3))
    assert by_itself["removal, best first"] > by_other["removal, best first"]
    assert {name: found[name] for name in by_other} == by_other


def test_equal_sizes_and_unequal_labels():
    generator = torch.Generator().manual_seed(1)
    y = torch.randint(10, (400,), generator=generator)
    for alpha, least in ((0.5, 0.3), (0.1, 0.5)):
        groups = equal_dirichlet(alpha)(y, 8, stream(0, "split"))
        assert [len(group) for group in groups] == [50] * 8
        assert torch.cat(groups).sort().values.equal(torch.arange(400))
        largest = [float(y[group].bincount().max()) / 50 for group in groups]
        assert sum(largest) / 8 > least  # alike clients: about a sixth
    again = equal_dirichlet(0.1)(y, 8, stream(0, "split"))
    assert all(a.equal(b) for a, b in zip(groups, again, strict=True))


def test_fewer_validation_samples_are_a_part_of_those_before():
    inputs, labels = torch.arange(360.0)[:, None], torch.arange(360)
    parts = fewer((inputs, labels), seed=2)
    assert [len(part[1]) for part in parts.values()] == [360, 100, 50, 20]
    assert set(parts["20"][1].tolist()) < set(parts["50"][1].tolist()) < set(range(360))
    for x, y in parts.values():
        assert x[:, 0].long().equal(y)
