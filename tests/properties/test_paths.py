"""Whatever takes a path: `~` is the home, and a file that is read is not written over."""

import os
from pathlib import Path

import pytest
import torch
from helpers import each_value

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench.__main__ import main
from fedlab_bench.recording import Recorded
from fedlab_mini.engine.rounds import Server


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of one's own, and another folder to work in."""
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


def federation():
    x, y = torch.rand(10, 4), torch.arange(10) % 3
    return fm.Federation.from_datasets([(x, y)] * 2, validation=(x, y), test=(x, y))


NET = fm.mlp(4, 3)


def trained(path):
    history = fm.train(federation(), NET, fm.FedAvg(), rounds=1)
    history.save(path)
    assert torch.equal(fm.History.load(path).theta, history.theta)


def submitted(path):
    scores = {("alike", seed): torch.rand(8).double() for seed in fb.PUBLIC}
    fb.Submission(scores, {"name": "mine"}).write(path)
    assert fb.read_submission(path).name == "mine"


SERVER = Server(2, 3, NET, (torch.rand(3, 4), torch.arange(3)), 0)
WRITES = {
    "History.save": trained,
    "simulate": lambda path: fm.simulate(federation(), NET, torch.ones(1, 1, 2), cache=path),
    "Submission.write": lambda path: submitted(f"{path}.csv"),
    "rounds": lambda path: Recorded([], SERVER).write(path),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_tilde_is_the_home(name, home):
    WRITES[name](f"~{os.sep}a.npz")
    assert list(home.iterdir())
    assert list(Path().iterdir()) == []


LINES = [  # a command, an output of it, what it reads
    ("judge mine.csv --seeds 2 --scenarios alike", "--scores-to", "mine.csv"),
    ("compare --method mine:S", "--csv", "mine.py"),
]


def linked(path):
    other = f"another{Path(path).suffix}"
    os.symlink(path, other)
    return other


NAMES = {  # the same file, called in another way
    "dots": lambda path: str(Path("x/..").absolute() / path),
    "link": linked,
}


@pytest.mark.parametrize(("line", "name"), each_value(LINES, [*NAMES]))
def test_an_input_is_not_written_over(line, name, home, capsys):
    """Each command would take long, or fail, if it began."""
    command, output, read = line
    for path in ("x/a", "mine.py", "mine.csv"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("what somebody has made")
    with pytest.raises(SystemExit):
        main([*command.split(), output, NAMES[name](read)])
    assert "expected a file of its own" in capsys.readouterr().err
    assert Path(read).read_text() == "what somebody has made"


def test_a_ledger_lies_where_the_path_says(home):
    pytest.importorskip("flwr")
    from fedlab_flower.ledger import Ledger, entries

    Ledger("~/l.jsonl", ["CGSV"]).append(
        node=[], size=[], norm=[], scores={"CGSV": []}, reply=[], missing={}
    )
    assert (home / "l.jsonl").exists()
    assert len(list(entries("~/l.jsonl"))) == 1
