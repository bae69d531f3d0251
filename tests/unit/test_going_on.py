"""train(start=): a training stopped, saved and gone on with is the one that nobody stopped."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import random_federation
from helpers import ALL_CASES, same_bytes, with_attacks
from torch import Tensor

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.worlds.attacks import UpdateAttack

SIZES = (9, 14, 20, 13, 7, 11)
LOCAL = LocalSGD(batch=4, lr=0.3, decay=0.5, decay_every=2)


@dataclass(frozen=True, eq=False)
class Slow(fm.FedAvg):
    """A field and an entry of its own; in every second round nobody is asked."""

    speed: float = 0.5

    def init(self, server):
        return super().init(server) | {"moved": torch.zeros(())}

    def select(self, server, state, t):
        return torch.tensor([] if t % 2 else [0, 3], dtype=torch.long)

    def step(self, server, state, round):
        done = super().step(server, state, round)
        step = self.speed / (1 + state["moved"]) * (done.theta - round.theta)
        state["moved"] += step.norm()
        return done._replace(theta=(round.theta + step).to(round.theta))


class Fails(UpdateAttack):
    """Sends NaN in about every second round."""

    looks_around = False

    def sends(self, known):
        return known.update * (math.nan if torch.rand((), generator=known.generator) < 0.5 else 1)


REPAIR = {"m": None, "window": 2, "spread": 1, "margin": 0.5}
KINDS = {getattr(room.methods, name) for room in (fm, fb) for name in room.methods.__all__}
KINDS = {kind for kind in KINDS if isinstance(kind, type) and issubclass(kind, fm.FedAvg)}
STRATEGIES = {
    **{kind.__name__: kind() for kind in sorted(KINDS, key=lambda kind: kind.__name__)},
    "FedAvg of some": fm.FedAvg(per_round=3),
    "CGSV by the mean": fm.CGSV(gamma0=0.9, server_lr="mean"),
    "FRCCE of some": fm.FRCCE(per_round=3, layer="all", lr=0.01),
    "FRCCE previous": fm.FRCCE(baseline="previous"),
    "FRCCE moving": fm.FRCCE(baseline="moving"),
    "SFedAvg by class": fm.SFedAvg(by_class=True),
    "SFedAvg orders": fm.SFedAvg(exact=False),
    "repair": fm.LabelStandardisation(**REPAIR),
    "repair once": fm.LabelStandardisation(**REPAIR, once=True),
    "RoundValue partial": fm.methods.RoundValue(partial(fm.permutation, samples=4), memory=0.5),
    "Median": fm.defences.Median(),
    "behind a detector": fm.defences.Defended(fm.CGSV(), fm.defences.LastStep()),
    "Slow": Slow(speed=0.3),
}


@cache
def federation(name: str = "plain") -> fm.Federation:
    """Six clients, of whom 1 and 4 have swapped labels; in the hostile one three lie."""
    fed = random_federation(SIZES, dtype=torch.float32)
    y = fed.y.clone()
    for k in (1, 4):
        own = slice(*fed.offsets[k : k + 2].tolist())
        y[own] = torch.tensor([1, 2, 0])[y[own]]
    fed = replace(fed, y=y)
    liars = {0: Fails(), 2: fm.attacks.Replay(), 3: fm.attacks.FreeRide(0.1)}
    return with_attacks(fed, liars) if name == "hostile" else fed


CASES = [(name, fed) for name in STRATEGIES for fed in ("hostile", "plain")]
if not ALL_CASES:  # who renames labels needs them swapped by clients who count
    CASES = [(name, "plain" if "repair" in name else "hostile") for name in STRATEGIES]


def run(strategy, fed: fm.Federation | str = "plain", rounds: int = 7, **options) -> fm.History:
    """A short training of a small network."""
    fed = federation(fed) if isinstance(fed, str) else fed
    options = {"net": fm.mlp(6, 4, 3), "local": LOCAL, "seed": 3} | options
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="round|left out")  # who sends NaN is named
        return fm.train(fed, strategy=strategy, rounds=rounds, **options)


def parts(history: fm.History) -> dict[str, Tensor]:
    """All that a history holds but seconds."""
    tables = {name: getattr(history, name) for name in ("scores", "weights", "selected")}
    held = vars(replace(history.cost, seconds=0.0)) | vars(history) | tables
    state = {f"state {name}": part for name, part in history.state.items()}
    numbers = {name: part for name, part in held.items() if isinstance(part, Tensor | int | float)}
    return {name: torch.as_tensor(part).clone() for name, part in (numbers | state).items()}


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    """Two histories' parts are equal to the last bit."""
    assert one.keys() == other.keys()
    for name, part in one.items():
        assert part.shape == other[name].shape, name
        assert same_bytes(part, other[name]), name


# --- stopped and gone on with --------------------------------------------------------------------


def go_on(folder: Path) -> None:
    """What another process does: it loads all histories, and saves them four rounds later."""
    for place, (name, fed) in enumerate(CASES):
        start = fm.History.load(folder / f"{place}.npz")
        run(STRATEGIES[name], fed, start=start).save(folder / f"{place}.longer.npz")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Histories of three rounds, and of seven by another process with another hash seed."""
    folder = tmp_path_factory.mktemp("histories")
    for place, (name, fed) in enumerate(CASES):
        run(STRATEGIES[name], fed, 3).save(folder / f"{place}.npz")
    same = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    env = os.environ | {"PYTHONHASHSEED": "77"} | same
    program = f"import pathlib, {__name__} as t; t.go_on(pathlib.Path({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(("name", "fed"), CASES)
def test_another_process_goes_on_to_the_same_bytes(folder, name, fed):
    place = CASES.index((name, fed))
    whole, longer = run(STRATEGIES[name], fed), fm.History.load(folder / f"{place}.longer.npz")
    assert_same(parts(longer), parts(whole))


def test_the_seconds_of_both_calls_are_added_up(monkeypatch):
    """By a clock that stands at 2 and 7 in the first call, at 20 and 31 in the second."""
    clock = SimpleNamespace(perf_counter=iter([2.0, 7.0, 20.0, 31.0]).__next__)
    monkeypatch.setattr("fedlab_mini.engine.train.time", clock)
    start = run(fm.FedAvg(), rounds=3)
    assert (start.cost.seconds, run(fm.FedAvg(), start=start).cost.seconds) == (5.0, 16.0)


@pytest.mark.parametrize("name", ["CGSV", "SFedAvg by class", "repair", "Slow"])
def test_a_live_history_goes_on_and_is_left_as_it_was(name):
    strategy, theta = STRATEGIES[name], fm.mlp(6, 4, 3).init(9)
    start = run(strategy, rounds=3, theta=theta)
    before = parts(start)
    assert_same(parts(run(strategy, start=start)), parts(run(strategy, theta=theta)))
    assert_same(parts(start), before)
    assert_same(parts(run(strategy, rounds=3, start=start)), before)


# --- what is refused -----------------------------------------------------------------------------

SIGNS = with_attacks(federation(), {2: fm.attacks.SignFlip()})
OTHER = {  # the words of the refusal, and what is changed
    r"seed \(3, now 4\)$": {"seed": 4},
    "data$": {"fed": replace(federation(), y=federation().y.flip(0))},
    r"attacks( \(.*\))?$": {"fed": SIGNS},
    "local$": {"local": replace(LOCAL, lr=0.2)},
    "net$": {"net": fm.mlp(6, 5, 3)},
    "strategy$": {"strategy": fm.CGSV(floor=None)},
}


def test_a_start_that_does_not_fit_is_refused_by_what_differs(monkeypatch, tmp_path):
    live = run(fm.CGSV(), rounds=2)
    live.save(tmp_path / "h.npz")
    loaded = fm.History.load(tmp_path / "h.npz")
    for words, changed in OTHER.items():
        given = {"strategy": fm.CGSV(), "fed": "plain"} | changed
        for start in (live, loaded):
            with pytest.raises(ValueError, match=f"^start: its training differs in {words}"):
                run(**given, start=start)
    with pytest.raises(ValueError, match=r"^start: holds 2 rounds, more than rounds=1$"):
        run(fm.CGSV(), rounds=1, start=live)
    monkeypatch.setattr("fedlab_mini.engine.train.__version__", "0.0.0")
    with pytest.raises(ValueError, match=r"^start: .* in version \(\d.*, now 0\.0\.0\)$"):
        run(fm.CGSV(), start=loaded)


def test_samples_that_were_written_to_meanwhile_are_noticed(tmp_path):
    fed = random_federation(SIZES)
    history = run(fm.FedAvg(), fed, rounds=2)
    fed.x.mul_(2)
    with pytest.raises(ValueError, match=r"^start: fed: its samples were written to"):
        run(fm.FedAvg(), fed, rounds=2, start=history)
    with pytest.raises(ValueError, match=r"^save: fed: its samples were written to"):
        history.save(tmp_path / "history.npz")
