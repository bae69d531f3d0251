"""Streams: a number stream depends on seed, purpose and index, and on nothing else."""

from __future__ import annotations

import itertools

import numpy as np
import torch

import fedlab_mini as fm
from fedlab_mini.streams import numbers, stream


def draw(*key: object) -> list[int]:
    """The first numbers of a stream."""
    return torch.randint(1 << 60, (4,), generator=stream(*key)).tolist()


def test_numbers_of_places_are_those_of_splitmix64():
    """The first five numbers of seed 1234567 as the reference implementation prints them."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    known += [4593380528125082431, 16408922859458223821]
    drawn = numbers(torch.Generator().manual_seed(1234567), np.array([4, 0, 1, 2, 3]))
    assert drawn.tolist() == [known[4], *known[:4]]


def test_every_part_of_the_key_counts():
    keys = [(0, "a"), (1, "a"), (0, "b"), (0, "a", 0), (0, "a", 1), (0, "a", 0, 0), (-1, "a")]
    keys += [(0, "a", 11), (0, "a", 1, 1), (10, "a"), (2**70, "a")]
    drawn = [draw(*key) for key in keys]
    assert drawn == [draw(*key) for key in keys]
    for one, other in itertools.combinations(drawn, 2):
        assert one != other


def test_the_global_generator_is_left_alone(make_fed):
    fed, net = make_fed([9, 5]), fm.mlp(6, 4, 3)
    dropout = fm.Model(torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.Dropout(0.5)))
    before, numpy_before = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
    net.init(1)
    for model in (net, dropout):
        fm.train(fed, model, fm.FedAvg(per_round=1), rounds=2, seed=3)
        fm.simulate(fed, model, torch.ones(2, 2, 2) / 2, seed=3)
    game = fm.retraining_game(fed, net, 1)
    for estimate in (fm.permutation(game, 2), fm.guided(game, 2), fm.banzhaf(game, 8)):
        assert estimate.evaluations
    fm.kernel(fm.additive(range(6)), 20)
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == numpy_before[1]).all()  # noqa: NPY002
