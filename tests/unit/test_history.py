"""History: rows are kept as what changes in them, and come back byte for byte."""

from __future__ import annotations

import torch
from helpers import same_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

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
