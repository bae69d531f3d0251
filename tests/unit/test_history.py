"""History: rows are kept as what changes in them, and come back byte for byte."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from helpers import same_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import fedlab_mini as fm

KINDS = {"scores": torch.float64, "weights": torch.float32, "selected": torch.bool}


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 2**31),
    rounds=st.integers(1, 6),
    clients=st.integers(1, 12),
    changed=st.integers(0, 12),
)
def test_tables_come_back_as_they_were(make_fed, seed, rounds, clients, changed, tmp_path_factory):
    """Scores that change in some entries, zeros of both signs; saved, loaded, gone on from."""
    generator = torch.Generator().manual_seed(seed)
    choices = torch.tensor([0.0, -0.0, 1.0, 0.5], dtype=torch.float64)
    wanted = torch.zeros(rounds + 1, clients, dtype=torch.float64)
    for t in range(rounds + 1):
        wanted[t] = wanted[t - 1] if t else 0.0
        some = torch.randperm(clients, generator=generator)[:changed]
        wanted[t, some] = choices[torch.randint(4, some.shape, generator=generator)]

    class Says(fm.FedAvg):
        def scores(self, server, state):
            return wanted[int(state["rounds"]) - 1]

    strategy = Says(per_round=max(1, min(changed, clients)))
    fed, net = make_fed([2] * clients, dtype=torch.float32), fm.mlp(6, 3)
    first = fm.train(fed, net, strategy, rounds=rounds)
    assert same_bytes(first.scores, wanted[:rounds])
    path = tmp_path_factory.mktemp("history") / "h.npz"
    first.save(path)
    again = fm.History.load(path)
    more = fm.train(fed, net, strategy, rounds=rounds + 1, start=again)
    assert same_bytes(more.scores, wanted)
    for name, kind in KINDS.items():
        assert getattr(again, name).dtype == kind
        assert same_bytes(getattr(again, name), getattr(more, name)[:rounds])
    assert again.selected.sum() == again.weights.count_nonzero() == rounds * strategy.per_round


def iou(outputs, labels):
    """A metric of a reader's own: as good as it gets where every sample is met."""
    return (outputs.argmax(1) == labels).double().mean()


@pytest.mark.parametrize(
    ("metric", "name"),
    [(None, "accuracy"), (iou, "iou"), (partial(iou), "iou"), (lambda o, y: iou(o, y), "metric")],
)
def test_a_metric_is_printed_by_its_own_name(metric, name, make_fed, tmp_path) -> None:
    fed, net = make_fed([4, 4], dtype=torch.float32), fm.Model(nn.Linear(6, 3), metric=metric)
    hist = fm.train(fed, net, fm.FedAvg(), rounds=2, theta=net.theta())
    assert f", {name} {float(hist.accuracy[0]):.3f} -> " in repr(hist)
    assert hist.to_frame()[name].tolist() == hist.accuracy[1:].repeat_interleave(2).tolist()
    if name != "metric":  # a lambda cannot be saved
        hist.save(tmp_path / "h.npz")
        assert fm.History.load(tmp_path / "h.npz").to_frame().equals(hist.to_frame())
