"""Sweeps on Dask and Ray: run there, the same bytes, and nothing lost when a worker is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import joblib
import pandas as pd
import pytest
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench import METHODS
from fedlab_mini.engine.sweep import spread
from fedlab_mini.worlds.attacks import UpdateAttack
from studies import runs, store
from studies.study import Study

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the clusters' own start and end
    pytest.mark.xdist_group("one Dask and one Ray for all"),
]
NET, LOCAL = fm.mlp(64, 8, 10), fm.LocalSGD(batch=32)


def federation(**given) -> fm.Federation:
    """Nine clients: 512 coalitions, sixteen blocks."""
    return fm.federation(fm.load("digits"), clients=9, samples=450, seed=0, **given)


def simulated() -> torch.Tensor:
    shares = torch.rand(300, 2, 9, generator=torch.Generator().manual_seed(0))
    return fm.simulate(federation(), NET, shares, local=LOCAL, metric="loss")


def played() -> torch.Tensor:
    game = fm.retraining_game(federation(), NET, 1, LOCAL, "loss")
    return torch.cat([fm.exact(game).values, fm.truncated(game, 200, seed=0).values])


def fitted() -> torch.Tensor:
    return fm.fedccea(federation(), NET, simulations=150, rounds=2, local=LOCAL, seed=0).quality


def compared() -> pd.DataFrame:
    methods = {"CGSV": METHODS["CGSV"]}
    found = fb.compare(methods, ["irrelevant"], range(2), rounds=1)
    return found[found.metric != "seconds"].reset_index(drop=True)


def rows(seed: int):
    history = fm.train(federation(), NET, fm.FedAvg(), rounds=1, seed=seed)
    yield "", "FedAvg", "loss", float(history.loss[1])


STUDY = Study(name="toy", item="", says="", protocol={}, rows=rows, claims=(), seeds=3)


def stored() -> bytes:
    runs.run(STUDY, again=True)
    return (store.folder() / "toy.csv").read_bytes()


def whose(_: int) -> int:
    return os.getpid()


def test_tasks_leave_this_process(there):
    seen = set(spread(map(joblib.delayed(whose), range(20))))
    assert os.getpid() not in seen
    assert len(seen) <= 2


WORKS = [simulated, played, fitted, compared, stored]
ON = [("dask", work) for work in WORKS]  # Ray starts its processes anew for each
ON += [("ray", work) for work in (WORKS if os.environ.get("FEDLAB_ALL_CASES") else [stored])]


@pytest.mark.parametrize(("cluster", "work"), ON, indirect=["cluster"])
def test_a_cluster_gives_the_bytes_of_one_process(cluster, work, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLAB_RESULTS", str(tmp_path))
    here = work()
    with joblib.parallel_config(cluster, n_jobs=-1):
        away = work()
    if isinstance(here, pd.DataFrame):
        pd.testing.assert_frame_equal(away, here, check_exact=True)
    else:
        assert torch.equal(away, here) if isinstance(here, torch.Tensor) else away == here


class Deadly(UpdateAttack):
    """Honest, but kills its process once if a file lies at ``path``."""

    def __init__(self, path: Path):
        self.path = str(path)

    def __call__(self, update, previous, generator):
        if os.path.exists(self.path):
            os.remove(self.path)
            os.kill(os.getpid(), signal.SIGKILL)
        return update


def test_a_killed_worker_changes_no_byte(there, tmp_path):
    """Dask gives its block to another worker; Ray ends the call, and a second one goes on."""
    armed, kept = tmp_path / "armed", tmp_path / "blocks"
    fed = federation(corrupt={8: Deadly(armed)})
    shares = torch.ones(512, 1, 9)
    shares[torch.arange(512) < 384, :, 8] = 0  # the killer is in the last four blocks
    given = {"local": LOCAL, "metric": "loss"}
    with joblib.parallel_config("sequential"):
        here = fm.simulate(fed, NET, shares, **given)
    armed.touch()
    if there == "ray":
        with pytest.raises(Exception, match="actor died"):
            fm.simulate(fed, NET, shares, **given, cache=kept)
        assert [*kept.glob("*.npz")]
    away = fm.simulate(fed, NET, shares, **given, cache=kept)
    assert not armed.exists()
    assert torch.equal(away, here)
