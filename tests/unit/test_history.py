"""History: rows are kept as what changes in them, and come back byte for byte."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import fedlab_mini as fm

KINDS = {"scores": torch.float64, "weights": torch.float32, "selected": torch.bool}


def changing(kind: str, seed: int, rounds: int, clients: int, changed: int) -> Tensor:
    """Rows [T, K] of which each differs from the one before in some entries, zeros of both signs
    among them.
    """
    generator = torch.Generator().manual_seed(seed)
    choices = torch.tensor([0.0, -0.0, 1.0, 0.5], dtype=torch.float64)
    table = torch.zeros(rounds, clients, dtype=torch.float64)
    for t in range(rounds):
        table[t] = table[t - 1] if t else 0.0
        some = torch.randperm(clients, generator=generator)[:changed]
        table[t, some] = choices[torch.randint(4, some.shape, generator=generator)]
    return table.to(KINDS[kind])


def in_bytes(table: Tensor) -> bytes:
    return table.numpy().tobytes()


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**31),
    rounds=st.integers(1, 6),
    clients=st.integers(1, 12),
    changed=st.integers(0, 12),
)
def test_tables_come_back_as_they_were(seed, rounds, clients, changed, tmp_path_factory):
    """Scores that change in some entries, whoever takes part; saved, loaded, gone on from."""
    wanted = changing("scores", seed, rounds + 1, clients, changed)

    class Says(fm.FedAvg):
        def scores(self, server, state):
            return wanted[int(state["rounds"]) - 1]

    data = torch.zeros(2, 3), torch.tensor([0, 1])
    fed = fm.Federation.from_datasets([data] * clients, validation=data, test=data, classes=2)
    strategy, net = Says(per_round=max(1, min(changed, clients))), fm.mlp(3, 2)
    first = fm.train(fed, net, strategy, rounds=rounds)
    assert in_bytes(first.scores) == in_bytes(wanted[:rounds])
    path = tmp_path_factory.mktemp("history") / "h.npz"
    first.save(path)
    again = fm.History.load(path)
    more = fm.train(fed, net, strategy, rounds=rounds + 1, start=again)
    assert in_bytes(more.scores) == in_bytes(wanted)
    for name in ("scores", "weights", "selected"):
        table = getattr(again, name)
        assert table.dtype == KINDS[name]
        assert in_bytes(table) == in_bytes(getattr(more, name)[:rounds])
    assert again.selected.sum() == again.weights.count_nonzero() == rounds * strategy.per_round


def stored_bytes(clients: int, rounds: int, folder) -> int:
    """Size of the history of a training with ten participants per round."""
    data = torch.zeros(2, 3), torch.tensor([0, 1])
    fed = fm.Federation.from_datasets([data] * clients, validation=data, test=data, classes=2)
    path = folder / f"{clients}-{rounds}.npz"
    strategy = fm.SFedAvg(10, exact=False, permutations=1)
    fm.train(fed, fm.mlp(3, 2), strategy, rounds=rounds).save(path)
    return path.stat().st_size


def test_a_saved_history_grows_with_who_took_part(tmp_path):
    growth = {
        clients: stored_bytes(clients, 9, tmp_path) - stored_bytes(clients, 3, tmp_path)
        for clients in (100, 2000)
    }
    # Ten participants change at most twenty weights and marks, whatever the number of clients;
    # whole rows of 2,000 clients would add more than 100,000 bytes in six rounds.
    assert growth[2000] < growth[100] + 1000
