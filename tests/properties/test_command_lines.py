"""Bad words on a command line end in one clear sentence and a status that is not 0."""

import re
import sys

import numpy as np
import pytest

import studies.__main__ as study_command
from fedlab_mini.__main__ import main

GOOD = "score good.npz --net 4,3 --validation good.npz"
LINES = (
    "",
    "score broken.npz --net 4,3 --validation broken.npz",
    "score good.npz --net 4,x --validation good.npz",
    "score good.npz --net no_module:NAME --validation good.npz",
    *(f"{GOOD} {more}" for more in ("--methods CGSV,nothing", "--csv no/folder/out.csv")),
    "compare --method os",
    "compare --seeds 0",
    "compare --figure out.xyz",
    "data fetch nothing",
)
STUDIES = ("nothing", "show nothing", "run nothing", "run cgsv-odd --seeds x")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a good file and a broken one, in which the command is called."""
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04" + b"\0" * 40)
    updates, clients = np.ones((2, 15), np.float32), np.arange(2)
    x, y = np.ones((3, 4), np.float32), np.arange(3)
    theta = np.zeros(15, np.float32)
    np.savez(tmp_path / "good.npz", updates=updates, clients=clients, theta=theta, x=x, y=y)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "line"),
    [*((main, line) for line in LINES), *((study_command.main, line) for line in STUDIES)],
)
def test_a_command_refuses_and_leaves_nothing(command, line, folder, capsys):
    with pytest.raises(SystemExit) as left:
        sys.exit(command(line.split()))
    out, said = capsys.readouterr()
    said = f"{out}{said}{left.value.code}"
    assert left.value.code not in (0, None), said
    assert re.search(r"[a-z]{4}", said), "it says nothing"
    assert "Traceback" not in said
    assert {path.name for path in folder.iterdir()} == {"broken.npz", "good.npz"}
