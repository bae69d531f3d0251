"""Bad words on a command line end in one clear sentence and a status that is not 0.

In this process for the package and the studies; the tools, whose start is dear, as a reader starts
them, a few words each.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import studies.__main__ as study_command
from fedlab_mini.__main__ import main

ROOT = Path(__file__).parents[2]
WRONG_FILES = {
    "text.npz": b"no archive",
    "cut.npz": b"PK\x03\x04" + b"\0" * 40,
    "empty.npz": b"",
}
LINES = (
    "",
    "nothing",
    "--nothing",
    "score",
    "score no.npz",
    *(f"score {name} --net 4,3 --validation {name}" for name in WRONG_FILES),
    "score good.npz --net 4,3 --validation no.npz",
    "score good.npz --net 4,x --validation good.npz",
    "score good.npz --net no_module:NAME --validation good.npz",
    "score good.npz --net os:nothing --validation good.npz",
    "score good.npz --net 4,3 --validation good.npz --methods CGSV,nothing",
    "score good.npz --net 4,3 --validation good.npz --metric nothing",
    "score good.npz --net 4,3 --validation good.npz --csv no/folder/out.csv",
    "score . --net 4,3 --validation good.npz",
    "compare --method os",
    "compare --method no_module:NAME",
    "compare --beside nothing",
    "compare --scenarios nothing",
    "compare --seeds 0",
    "compare --seeds -3",
    "compare --seeds x",
    "compare --data nothing",
    "compare --metric nothing",
    "compare --figure out.xyz",
    "compare --figure no/folder/out.svg",
    "compare --csv no/folder/out.csv",
    "compare --jobs 0",
    "data",
    "data nothing",
    "data fetch",
    "data fetch nothing",
    "data verify nothing",
    "data fetch digits",
)
STUDIES = ("", "nothing", "show", "show nothing", "run nothing", "run cgsv-odd --seeds x")
TOOLS = (
    "check.py nothing",
    "notebooks.py nothing",
    "mutants.py nothing",
    "mutants.py --some x",
    "classroom.py",
    "marking.py no/folder",
    "outputs.py no/notebook",
    "check_site.py no/folder",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a few files, some of them broken, in which the command is called."""
    for name, content in WRONG_FILES.items():
        (tmp_path / name).write_bytes(content)
    updates, clients = np.ones((2, 15), np.float32), np.arange(2)
    x, y = np.ones((3, 4), np.float32), np.arange(3)
    theta = np.zeros(15, np.float32)
    np.savez(tmp_path / "good.npz", updates=updates, clients=clients, theta=theta, x=x, y=y)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(call, words, capsys):
    with pytest.raises(SystemExit) as left:
        sys.exit(call(words))
    out, said = capsys.readouterr()
    said = f"{out}{said}{left.value.code}"
    assert left.value.code not in (0, None), said
    assert re.search(r"[a-z]{4}", said), "it says nothing"
    assert "Traceback" not in said


@pytest.mark.parametrize("line", LINES)
def test_the_package_refuses(line, folder, capsys):
    refused(main, line.split(), capsys)
    assert {path.name for path in folder.iterdir()} == {*WRONG_FILES, "good.npz"}


@pytest.mark.parametrize("line", STUDIES)
def test_the_studies_refuse(line, capsys):
    refused(study_command.main, line.split(), capsys)


@pytest.mark.parametrize("line", TOOLS)
def test_the_tools_refuse(line):
    tool, *words = line.split()
    command = [sys.executable, str(ROOT / "tools" / tool), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert said.strip()
    assert "Traceback" not in said, said
