"""Whatever takes a path: `~` is the home, and a file that is read is not written over.

Drawn are the name under which an input is given again as an output, links and dots among them,
and where home is.
"""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench import submission, truth
from fedlab_bench.__main__ import main
from fedlab_bench.rounds import Recorded
from fedlab_mini import checks
from fedlab_mini.__main__ import main as mini
from fedlab_mini.show.widgets import Quiz
from studies import store


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


def trained(path):
    history = fm.train(federation(), fm.mlp(4, 3), fm.FedAvg(), rounds=1)
    history.save(path)
    assert torch.equal(fm.History.load(path).theta, history.theta)


def simulated(path):
    fm.simulate(federation(), fm.mlp(4, 3), torch.ones(1, 1, 2), cache=path)


def retrained(path):
    local = fm.LocalSGD(batch=3)
    game = fm.retraining_game(federation(), fm.mlp(4, 3), 1, local, "loss", cache=path)
    fm.exact(game)


def valued(path):
    fm.fedccea(federation(), fm.mlp(4, 3), 2, 1, steps=1, cache=path)


def submitted(path):
    scores = {("alike", seed): torch.rand(8).double() for seed in fb.PUBLIC}
    fb.Submission(scores, {"name": "mine"}).write(path)
    assert fb.read_submission(path).scores.keys() == scores.keys()
    assert submission.notes_of(path)["name"] == "mine"


def scored(path):
    rounds, samples = f"{path}.npz", f"{path}.samples.npz"
    updates, theta = np.ones((2, 15), np.float32), np.zeros(15, np.float32)
    np.savez(Path(rounds).expanduser(), updates=updates, theta=theta)
    np.savez(Path(samples).expanduser(), x=np.ones((3, 4), np.float32), y=np.arange(3))
    words = ["score", rounds, "--net", "4,3", "--validation", samples]
    mini([*words, "--methods", "CGSV", f"--csv={path}.csv"])


SERVER = fm.Server(2, 3, fm.mlp(4, 3), (torch.rand(3, 4), torch.arange(3)), 0)
WRITES = {
    "History.save": trained,
    "simulate": simulated,
    "retraining_game": retrained,
    "fedccea": valued,
    "Submission.write": lambda path: submitted(f"{path}.csv"),
    "score": scored,
    "rounds": lambda path: Recorded([], SERVER).write(path),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_tilde_is_the_home(name, home):
    for path in ("~/a.npz", f"~{os.sep}b"):
        WRITES[name](path)
    assert list(home.iterdir())
    assert list(Path().iterdir()) == []


def test_what_is_read_is_looked_for_at_home(home, monkeypatch):
    for folder in (truth.FOLDER, "truth", "data"):
        (home / folder).mkdir()
    (home / "quiz.toml").write_text('[[question]]\ntext = "?"\n')
    for variable in ("FEDLAB_BENCH", "FEDLAB_RESULTS"):
        monkeypatch.setenv(variable, "~")
    monkeypatch.setenv("FEDLAB_DATA", "~/data")
    assert truth.folder() == home / truth.FOLDER
    assert store.folder() == home
    assert fm.worlds.data.folder() == home / "data"
    assert fb.Frozen("~/truth").tables == {}
    with pytest.raises(ValueError, match="question"):
        Quiz.load("~/quiz.toml")
    assert checks.home("~no one/x") == Path("~no one/x")  # a user whom nobody knows


def another_name(path, draw):
    """The same file, called in another way."""
    way = draw.choice(["same", "dots", "absolute", "link", "hard link", "linked folder", "slashes"])
    if way == "dots":
        return f"./x/..//{path}" if Path("x").is_dir() else f"./{path}"
    if way == "absolute":
        return str(Path(path).absolute())
    if way == "slashes":
        return f".//{path}"
    if way == "linked folder":
        Path("folder").symlink_to(Path.cwd(), target_is_directory=True)
        return f"folder/{path}"
    if "link" in way:
        other = f"another{Path(path).suffix}"
        (os.link if way == "hard link" else os.symlink)(path, other)
        return other
    return path


SCORE = "score r1.npz r2.npz --net {} --validation v.npz --methods {}"
JUDGE = "judge {} --seeds 2 --scenarios alike"
LINES = [  # a command, its outputs, what it reads
    (SCORE.format("4,3", "CGSV"), ["--csv"], ["r1.npz", "r2.npz", "v.npz"]),
    (SCORE.format("mine:NET", "CGSV"), ["--csv"], ["mine.py", "v.npz"]),
    (SCORE.format("4,3", "mine:S,CGSV"), ["--csv"], ["mine.py"]),
    (JUDGE.format("mine.csv"), ["--csv", "--scores-to"], ["mine.csv"]),
    (JUDGE.format("mine.csv --alone"), ["--csv", "--scores-to"], ["mine.csv"]),
    (JUDGE.format("mine:S other.csv"), ["--csv"], ["mine.py", "other.csv"]),
    (JUDGE.format("mine.csv --truth t/truth"), ["--csv"], ["t/truth/alike.npz", "t/manifest.json"]),
    ("compare --method mine:S", ["--csv"], ["mine.py"]),
]


@pytest.fixture
def inputs(home):
    """Files of every kind; each command of LINES would take long, or fail, if it began."""
    for folder in ("x", "t/truth", "cells"):
        Path(folder).mkdir(parents=True)
    for name in {name for _, _, read in LINES for name in read}:
        Path(name).write_text("what somebody has made")
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize("seed", range(60))
def test_an_input_is_not_written_over(seed, inputs, capsys, monkeypatch):
    draw = random.Random(seed)
    line, outputs, read = LINES[seed % len(LINES)]
    path = another_name(draw.choice(read), draw)
    with pytest.raises(SystemExit) as left:
        main([*line.split(), draw.choice(outputs), path])
    said = capsys.readouterr().err
    assert left.value.code == 1
    assert "expected a file of its own" in said, said
    assert Path(path).name in said
    assert all(place.read_bytes() == content for place, content in inputs.items())


@pytest.mark.parametrize(("one", "two"), [("--csv", "--scores-to"), ("--scores-to", "--csv")])
def test_two_outputs_are_two_files(one, two, inputs, capsys):
    with pytest.raises(SystemExit):
        main([*JUDGE.format("mine:S").split(), one, "out.csv", two, "./x/../out.csv"])
    assert "expected a file of its own" in capsys.readouterr().err
    assert not Path("out.csv").exists()


def test_the_bench_s_own_files_are_no_output(inputs, capsys):
    for path in (truth.folder() / "judged.csv", next(truth.folder().glob("submissions/*.csv"))):
        before = path.read_bytes()
        with pytest.raises(SystemExit):
            main([*JUDGE.format("mine.csv").split(), "--csv", str(path)])
        assert "expected a file of its own" in capsys.readouterr().err
        assert path.read_bytes() == before


def test_a_ledger_lies_where_the_path_says(home):
    pytest.importorskip("flwr")
    from fedlab_flower.ledger import Ledger, entries

    Ledger("~/l.jsonl", ["CGSV"]).append(
        node=[], size=[], norm=[], scores={"CGSV": []}, reply=[], missing={}
    )
    assert (home / "l.jsonl").exists()
    assert len(list(entries("~/l.jsonl"))) == 1
