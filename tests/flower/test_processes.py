"""examples/flower as real processes: TLS, registered keys, kill -9 of a client and the server."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import torch
from helpers import with_all_cases

import chapters
import fedlab_mini as fm

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")
pytestmark = pytest.mark.skipif(
    " " in sys.prefix, reason="Flower cannot work below a folder with a space"
)
EXAMPLE = chapters.ROOT / "examples" / "flower"


def example(name: str):
    """A file of examples/flower as a module."""
    spec = importlib.util.spec_from_file_location(f"flower_{name}", EXAMPLE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def until(true: Callable[[], bool], seconds: float = 600) -> None:
    """Wait for something, not for ever; see tools/deadlines.py."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("nothing has come of it")
        time.sleep(0.2)


@with_all_cases("a minute of processes")
def test_a_script_of_its_own_prints_the_scores_and_leaves_nothing_behind(tmp_path):
    words = [sys.executable, EXAMPLE / "run.py", "--folder", tmp_path, "--insecure"]
    words += ["--clients", "2", "--rounds", "1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    app = example("contributions")
    wanted = fm.train(app.federation(2), app.NET, fm.CGSV(), rounds=1)
    scores = [float(line.split()[1]) for line in done.stdout.splitlines()[1:]]
    scores = torch.tensor(scores).double()
    torch.testing.assert_close(scores, wanted.scores[-1].double(), rtol=0, atol=1e-5)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True)
    assert str(tmp_path) not in listed.stdout


@with_all_cases("dead nodes count as online for a minute: four minutes in all")
def test_a_federation_of_processes(tmp_path):
    """Who is no member stays out; who dies is missing; the server goes on where it was."""
    run, app = example("run"), example("contributions")
    settings = {"clients": 3, "rounds": 6, "strategy": "FedAvg", "timeout": 45.0}
    with run.cluster(tmp_path, 3) as made:
        online = lambda: [n["status"] for n in made.flwr("supernode", "list", "here")["nodes"]]  # noqa: E731
        until(lambda: online().count("online") == 3)
        unknown = run.node_key(tmp_path / "other" / "key")
        outside = [made.supernode(0, key=unknown, name="a"), made.supernode(0, name="b")]
        first = made.submit(**settings)
        until(lambda: made.rounds() >= 1)
        made.kill("client-2")
        until(lambda: made.rounds() >= 3)
        made.kill("superlink")
        before = fm.History.load(made.history)
        until(lambda: all(process.poll() is not None for process in outside))
        assert [process.returncode for process in outside] == [1, 1]
        made.superlink()
        made.supernode(2)
        second = made.submit(**settings)
        assert second != first
        assert made.wait(second, 6) == "finished:completed"
        after = fm.History.load(made.history)
    assert torch.equal(after.loss[: len(before.loss)], before.loss)
    assert not before.weights[-1, 2]

    class Present(fm.FedAvg):
        """FedAvg of those whose updates came."""

        def select(self, server, state, t):
            return after.weights[t - 1].nonzero().flatten()

    wanted = fm.train(app.federation(3), app.NET, Present(), rounds=6)
    torch.testing.assert_close(after.theta, wanted.theta, rtol=0, atol=1e-6)
