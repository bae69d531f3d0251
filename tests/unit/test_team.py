"""examples/team: its README's lines work on rounds that a server has written as it says."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedlab_mini as fm

TEAM = Path(__file__).parents[2] / "examples" / "team"
README = (TEAM / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the folder with three rounds; client "c" sends its update the wrong way round."""
    shutil.copytree(TEAM, tmp_path, dirs_exist_ok=True)
    (tmp_path / "rounds").mkdir()
    fed, net = fm.federation(fm.load("digits"), clients=3, seed=0), fm.mlp(64, 32, 10)
    (save,) = re.findall(r"```python\n(.*?)\n```", README, re.S)
    x, y = fed.validation
    np.savez(tmp_path / "validation.npz", x=x.numpy(), y=y.numpy())
    before = net.init(0)
    for t in (1, 2, 3):
        updates = fm.local_updates(fed, net, before, local=fm.LocalSGD(batch=20), t=t)
        updates[2] *= -0.3
        names = {"t": t, "before": before.numpy(), "sent": (before + updates).numpy(), "np": np}
        names |= {"ids": ["a", "b", "c"], "samples": fed.sizes.numpy()}
        exec(save.replace("rounds/", f"{tmp_path}/rounds/"), names)
        before = before + updates.mean(0)
    return tmp_path


def ran(folder: Path) -> subprocess.CompletedProcess:
    (line,) = re.findall(r"```sh\npython (.*?)\n```", README)
    words = [sys.executable, *shlex.split(line)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


def test_a_folder_of_rounds_becomes_a_table_and_names_who_harms(folder: Path) -> None:
    done = ran(folder)
    table = pd.read_csv(folder / "scores.csv", index_col="client")
    assert list(table) == ["CGSV", "leave_one_out", "rounds"]
    assert table.index[table.leave_one_out < 0].tolist() == ["c"]
    assert done.returncode == 1
    assert done.stderr.strip().endswith("better without: c")
    shutil.rmtree(folder / "rounds")
    done = ran(folder)  # it says what to do
    assert done.returncode == 1
    assert "README.md" in done.stderr
