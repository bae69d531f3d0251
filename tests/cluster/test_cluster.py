"""Sweeps on Dask and Ray: run there, the same bytes, and nothing lost when a worker is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import joblib
import pytest
import torch
from helpers import with_all_cases

import fedlab_mini as fm
from fedlab_mini.engine.sweep import spread
from fedlab_mini.worlds.attacks import UpdateAttack
from studies import runs, store
from studies.study import Study

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the clusters' own start and end
    pytest.mark.xdist_group("one Dask and one Ray for all"),
]
RAY = pytest.param("ray", marks=with_all_cases("Ray starts processes for half a minute"))
NET, LOCAL = fm.mlp(64, 8, 10), fm.LocalSGD(batch=32)


def federation(**given) -> fm.Federation:
    """Nine clients: 512 coalitions, sixteen blocks."""
    return fm.federation(fm.load("digits"), clients=9, samples=450, seed=0, **given)


def simulated() -> bytes:
    shares = torch.rand(300, 2, 9, generator=torch.Generator().manual_seed(0))
    found = fm.simulate(federation(), NET, shares, local=LOCAL, metric="loss")
    return found.numpy().tobytes()


def rows(seed: int):
    history = fm.train(federation(), NET, fm.FedAvg(), rounds=1, seed=seed)
    yield "", "FedAvg", "loss", float(history.loss[1])


STUDY = Study(name="toy", item="", says="", protocol={}, rows=rows, claims=(), seeds=3)


def stored() -> bytes:
    runs.run(STUDY, again=True)
    return (store.folder() / "toy.csv").read_bytes()


@pytest.mark.parametrize("cluster", ["dask", RAY], indirect=True)
def test_a_cluster_gives_the_bytes_of_one_process(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLAB_RESULTS", str(tmp_path))
    for work in (simulated, stored):
        here = work()
        with joblib.parallel_config(cluster, n_jobs=-1):
            assert work() == here, work.__name__


class Deadly(UpdateAttack):
    """Honest, but kills its process once if a file lies at ``path``."""

    def __init__(self, path: Path):
        self.path = str(path)

    looks_around = False

    def sends(self, known):
        if os.path.exists(self.path):
            os.remove(self.path)
            os.kill(os.getpid(), signal.SIGKILL)
        return known.update


@pytest.mark.parametrize("cluster", ["dask", RAY], indirect=True)
def test_a_killed_worker_changes_no_byte(cluster, tmp_path):
    """Dask gives its block to another worker; Ray ends the call, and a second one goes on."""
    armed, kept = tmp_path / "armed", tmp_path / "blocks"
    fed = federation(corrupt={8: Deadly(armed)})
    shares = torch.ones(512, 1, 9)
    shares[torch.arange(512) < 384, :, 8] = 0  # the killer is in the last four blocks
    given = {"local": LOCAL, "metric": "loss"}
    here = fm.simulate(fed, NET, shares, **given)
    armed.touch()
    with joblib.parallel_config(cluster, n_jobs=-1):
        seen = set(spread(joblib.delayed(os.getpid)() for _ in range(20)))
        assert os.getpid() not in seen
        if cluster == "ray":
            with pytest.raises(Exception, match="actor died"):
                fm.simulate(fed, NET, shares, **given, cache=kept)
            assert [*kept.glob("*.npz")]
        away = fm.simulate(fed, NET, shares, **given, cache=kept)
    assert not armed.exists()
    assert torch.equal(away, here)
