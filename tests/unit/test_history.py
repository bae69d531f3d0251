"""History: rows are kept as what changes in them, and come back byte for byte."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.history import NOTED, Rows

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
    kind=st.sampled_from(NOTED),
    seed=st.integers(0, 2**31),
    rounds=st.integers(1, 6),
    clients=st.integers(1, 12),
    changed=st.integers(0, 12),
)
def test_rows_come_back_as_they_were(kind, seed, rounds, clients, changed):
    table = changing(kind, seed, rounds, clients, changed)
    rows = Rows()
    for row in table:
        given_row = row.clone()
        rows.append(given_row)
        given_row.fill_(7)  # who appends may write to the row afterwards
    assert len(rows) == rounds
    assert in_bytes(rows.stacked()) == in_bytes(table)
    assert in_bytes(rows[-1]) == in_bytes(table[-1])
    stored = {name: torch.from_numpy(array) for name, array in rows.arrays("a").items()}
    again = Rows.from_arrays("a", stored)
    assert in_bytes(again.stacked()) == in_bytes(table)
    before = again.copy()
    again.append(table[0])
    assert in_bytes(again.stacked()) == in_bytes(torch.cat([table, table[:1]]))
    assert in_bytes(before.stacked()) == in_bytes(table)


def test_only_the_last_row_is_at_hand():
    rows = Rows()
    with pytest.raises(IndexError, match="only the last of 0"):
        rows[-1]
    rows.append(torch.ones(3))
    with pytest.raises(IndexError, match=r"only the last of 1 can be taken, \[-1\]"):
        rows[0]
    rows[-1].fill_(5)
    assert rows.stacked().tolist() == [[1, 1, 1]]


def stored_bytes(clients: int, rounds: int, folder) -> int:
    """Size of the checkpoint of a training with ten participants per round."""
    data = torch.zeros(2, 3), torch.tensor([0, 1])
    fed = fm.Federation.from_datasets([data] * clients, validation=data, test=data, classes=2)
    path = folder / f"{clients}-{rounds}.npz"
    strategy = fm.SFedAvg(10, exact=False, permutations=1)
    fm.train(fed, fm.mlp(3, 2), strategy, rounds=rounds, checkpoint=path)
    return path.stat().st_size


def test_a_checkpoint_grows_with_who_took_part(tmp_path):
    growth = {
        clients: stored_bytes(clients, 9, tmp_path) - stored_bytes(clients, 3, tmp_path)
        for clients in (100, 2000)
    }
    # Ten participants change at most twenty weights and marks, whatever the number of clients;
    # whole rows of 2,000 clients would add more than 100,000 bytes in six rounds.
    assert growth[2000] < growth[100] + 1000
