"""Our values against pyDVL's and shapiq's, which run in an environment of their own.

To make it once and name it (the packages pin other versions than the book, hence apart from it)::

    python -m venv .venv-oracles
    .venv-oracles/bin/pip install pydvl shapiq
    FEDLAB_ORACLES_PYTHON=.venv-oracles/bin/python python -m pytest tests/oracles/test_foreign.py
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from helpers import majority

import fedlab_mini as fm

INTERPRETER = os.environ.get("FEDLAB_ORACLES_PYTHON")
SCRIPT = Path(__file__).parent / "foreign" / "answer.py"

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(
        not INTERPRETER,
        reason="FEDLAB_ORACLES_PYTHON names no interpreter that has pyDVL and shapiq",
    ),
]


GAMES = {
    "noise 6": lambda make_game: make_game(6, 1),
    "glove 3+4": lambda make_game: fm.glove(3, 4),
    "majority 7": lambda make_game: majority([0, 3, 1, 1, 5, 2, 2], 8),
}
OURS = {
    ("pydvl", "shapley"): fm.exact,
    ("pydvl", "banzhaf"): fm.banzhaf,
    ("pydvl", "leave_one_out"): fm.leave_one_out,
    ("shapiq", "shapley"): fm.exact,
    ("shapiq", "banzhaf"): fm.banzhaf,
    ("shapiq", "kernel"): fm.exact,  # with the budget of all coalitions
}


@pytest.fixture(scope="module")
def answers(make_game) -> dict[str, dict[str, dict[str, list[float]]]]:
    """What the two libraries say about every game: {game: {library: {value: [n]}}}."""
    tables = [make(make_game).all().tolist() for make in GAMES.values()]
    done = subprocess.run(
        [INTERPRETER, str(SCRIPT)],
        input=json.dumps(tables),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(GAMES, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("which", GAMES)
@pytest.mark.parametrize(("library", "name"), OURS)
def test_they_find_the_same_values(make_game, answers, library, name, which):
    game = GAMES[which](make_game)
    theirs = torch.tensor(answers[which][library][name], dtype=torch.float64)
    # shapiq's regression meets its two constraints by large weights, not exactly
    close = (1e-6 if name == "kernel" else 1e-11) * max(1.0, float(game.all().abs().max()))
    torch.testing.assert_close(theirs, OURS[library, name](game).values, rtol=0, atol=close)
