"""examples/flower as its page says: ``flwr run`` in a simulation, and labels renamed by processes.

Another strategy, or other samples, are edits of a copy of the app, as a user makes them.
"""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib import request

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import with_all_cases

import chapters
import fedlab_mini as fm

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")
pytest.importorskip("ray", reason="Ray is not installed: make setup WITH=flower")
pytestmark = [
    with_all_cases("a minute and more for each"),
    pytest.mark.skipif(" " in sys.prefix, reason="Flower cannot work below a folder with a space"),
]
NET = fm.mlp(64, 32, 10)
RENAMES = "fm.LabelStandardisation(3, window=2, spread=0.5, margin=0.3)"


@pytest.fixture
def app(tmp_path) -> Path:
    """A copy of the app, at the same place in a folder of its own."""
    return shutil.copytree(chapters.ROOT / "examples" / "flower", tmp_path / "examples" / "flower")


def assert_stored(folder: Path, wanted: fm.History) -> None:
    """Scores and model in the folder are those of a training in one process."""
    table = pd.read_csv(folder / "scores.csv").pivot(index="round", columns="client")
    for name in ("score", "weight"):
        stored = torch.tensor(table[name].to_numpy())
        torch.testing.assert_close(stored, getattr(wanted, f"{name}s").double(), rtol=0, atol=1e-6)
    theta = torch.from_numpy(np.load(folder / "theta.npy"))
    torch.testing.assert_close(theta, wanted.theta, rtol=0, atol=1e-6)


def answers(address: str, seconds: float = 120) -> None:
    """Wait until a server answers."""
    end, direct = time.monotonic() + seconds, request.build_opener(request.ProxyHandler({}))
    while time.monotonic() < end:
        with contextlib.suppress(OSError), direct.open(address, timeout=5):
            return
        time.sleep(0.5)
    raise TimeoutError(address)


def test_the_command_of_the_page_gives_the_notebooks_scores(app, tmp_path):
    """Without a network, and with nothing alarming in what a user reads."""
    (block,) = re.findall(r"```\n([^`]*flwr run [^`]*)```", (app / "README.md").read_text())
    run = runpy.run_path(str(app / "run.py"))
    port = str(run["free_port"]())
    env = os.environ | run["QUIET"] | {
        "HOME": str(tmp_path), "FLWR_HOME": str(tmp_path / "flwr"), "NO_PROXY": "127.0.0.1",
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": port, "PYTHONPATH": str(chapters.ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    } | dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")  # fmt: skip
    link = ["--insecure", "--simulation", "--isolation", "subprocess", "--port", port]
    command = [str(Path(sys.executable).parent / "flower-superlink"), "--host", "127.0.0.1", *link]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    # `flwr run` starts it where there is none, but gives it 15 s: too few on a busy machine
    with subprocess.Popen(command, env=env, start_new_session=True, **quiet) as superlink:
        try:
            answers(f"http://127.0.0.1:{port}/health")
            given = {"capture_output": True, "text": True, "timeout": 500}
            for _ in range(4):  # Ray gives itself 30 s to start
                done = subprocess.run(["sh", "-ec", block], cwd=tmp_path, env=env, **given)
                said = done.stdout + done.stderr
                if "timed out during startup" not in said:
                    break
        finally:
            os.killpg(superlink.pid, signal.SIGTERM)
    assert "round 5 of 5" in said, said
    alarms = [line for line in said.splitlines() if re.search("(?i)warn|error|traceback", line)]
    assert ["default simulated SuperNodes" in line for line in alarms] == [True], alarms
    fed = fm.federation(fm.load("digits"), clients=3, corrupt={2: fm.flip_labels(0.8)}, seed=0)
    wanted = fm.train(fed.to(dtype=torch.float64), NET, fm.CGSV(), rounds=5)
    assert_stored(tmp_path / "_build" / "simulated", wanted)


def test_processes_rename_labels_as_one_process_does(app, tmp_path):
    """Clients keep what they renamed in Flower's memory: every message is a new process."""
    text = (app / "contributions.py").read_text()
    edits = {"fm.flip_labels(0.8)": "fm.swap_labels((1, 2))",
             'getattr(fm, str(asked["strategy"]))()': RENAMES}  # fmt: skip
    for old, new in edits.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (app / "contributions.py").write_text(text)
    fed = fm.federation(fm.load("digits"), clients=3, corrupt={2: fm.swap_labels((1, 2))}, seed=0)
    fed, strategy = fed.to(dtype=torch.float64), eval(RENAMES)
    wanted = fm.train(fed, NET, strategy, rounds=5)
    assert strategy.corrections[2]
    assert not torch.equal(wanted.labels, fed.y)
    with runpy.run_path(str(app / "run.py"))["cluster"](tmp_path / "made", 3) as made:
        run = made.submit(clients=3, rounds=5, timeout=300.0)
        assert made.wait(run, 5) == "finished:completed"
    assert_stored(tmp_path / "made", wanted)
