"""examples/flower as real processes: TLS, registered keys, kill -9 of a client and the server."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers import with_all_cases

import chapters
import fedlab_mini as fm

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")
pytestmark = [
    with_all_cases("dead nodes count as online for a minute: four minutes in all"),
    pytest.mark.skipif(" " in sys.prefix, reason="Flower cannot work below a folder with a space"),
]


def example(name: str):
    """A file of examples/flower as a module."""
    path = chapters.ROOT / "examples" / "flower" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"flower_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def until(true: Callable[[], bool], seconds: float = 400) -> None:
    """Wait for something, not for ever."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "nothing has come of it"
        time.sleep(0.2)


def test_a_federation_of_processes(tmp_path):
    """Who is no member stays out; who dies is missing; the server goes on where it was."""
    run, app = example("run"), example("contributions")
    settings = {"clients": 3, "rounds": 6, "strategy": "FedAvg", "timeout": 45.0}
    with run.cluster(tmp_path, 3) as made:
        online = lambda: [n["status"] for n in made.flwr("supernode", "list", "here")["nodes"]]  # noqa: E731
        until(lambda: online().count("online") == 3)
        outside = {
            "unregistered": made.supernode(
                0, key=run.node_key(tmp_path / "other" / "key"), name="a"
            ),
            "a copied key that is in use": made.supernode(0, name="b"),
        }
        run.certificates(tmp_path / "other" / "tls", ["localhost", "127.0.0.1"])
        ca = tmp_path / "other" / "tls" / "ca.pem"
        outside["another authority"] = made.supernode(1, ca=ca, name="c")
        first = made.submit(**settings)
        until(lambda: made.rounds() >= 1)
        made.kill("client-2")
        until(lambda: made.rounds() >= 3)
        made.kill("superlink")
        before, done = (tmp_path / "scores.csv").read_text(), made.rounds()
        until(lambda: all(p.poll() is not None for p in outside.values()))
        assert {name: p.returncode for name, p in outside.items()} == dict.fromkeys(outside, 1)
        made.superlink()
        made.supernode(2)
        assert len(online()) == 3
        second = made.submit(**settings)
        assert second != first
        assert made.wait(second, 6) == "finished:completed"
    assert (tmp_path / "scores.csv").read_text().startswith(before)
    missed = np.loadtxt(tmp_path / "clients.csv", delimiter=",", skiprows=1, usecols=3)
    assert missed[2] >= done - 2 >= 1  # one less where its last update was on its way
    table = np.loadtxt(tmp_path / "scores.csv", delimiter=",", skiprows=1, usecols=(0, 1, 3))

    class Present(fm.FedAvg):
        """FedAvg of those whose updates came."""

        def select(self, t):
            return torch.tensor([int(k) for r, k, w in table if r == t and w > 0])

    fed = app.federation(3)
    wanted = fm.train(fed, app.NET, Present(), rounds=6)
    found = torch.from_numpy(np.load(tmp_path / "theta.npy"))
    torch.testing.assert_close(found, wanted.theta, rtol=0, atol=1e-6)
