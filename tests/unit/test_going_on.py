"""train(start=): a training stopped, saved and gone on with is the one that nobody stopped."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import random_federation
from helpers import Sends, same_bytes, with_attacks
from torch import Tensor

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.rounds import Round, Server, State, Step
from fedlab_mini.worlds.attacks import UpdateAttack

SIZES = (9, 14, 20, 13, 7, 11)
LOCAL = LocalSGD(batch=4, lr=0.3, decay=0.5, decay_every=2)


class OwnStrategy:
    """The least that ``train`` asks of a strategy; nothing is inherited."""

    def init(self, server: Server) -> State:
        return {"sum": torch.zeros(server.clients, dtype=torch.float64)}

    def select(self, server, state, t):
        return torch.arange(server.clients)

    def step(self, server, state, round):
        state["sum"][round.clients] += round.updates.norm(dim=1).double()
        shares = torch.full_like(round.updates[:, 0], 1 / len(round.clients))
        return Step(round.theta + round.updates.mean(0), shares, state)

    def scores(self, server, state):
        return state["sum"]

    def message(self, server, state, t):
        return None

    def heard(self, server, state, changed):
        return state


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


class Cautious(fm.CGSV):
    """A constructor of its own, whose argument goes by another name."""

    def __init__(self, caution: float = 0.5, **options):
        super().__init__(server_lr=caution, **options)


class Fails(UpdateAttack):
    """Sends NaN in about every second round."""

    def __call__(self, updates, previous, generator):
        return updates * (math.nan if torch.rand((), generator=generator) < 0.5 else 1)


def each(kind: type, *options: dict) -> dict[str, fm.FedAvg]:
    """A strategy with each of these options."""
    words = (", ".join(f"{k}={v}" for k, v in given.items()) for given in options)
    made = (kind(**given) for given in options)
    return dict(zip((f"{kind.__name__}({word})" for word in words), made, strict=True))


REPAIR = {"m": None, "window": 2, "spread": 1, "margin": 0.5}
STRATEGIES = {
    **each(fm.FedAvg, {}, {"per_round": 3}, {"weighting": "uniform"}),
    **each(fm.CGSV, {}, {"literal": True}, {"original": True}, {"per_round": 3}),
    **each(fm.CGSV, {"floor": None}, {"normalise": False}, {"gamma0": 1}),
    **each(fm.CGSV, {"gamma0": 0.9, "server_lr": "mean"}),
    **each(fm.FRCCE, {}, {"literal": True}, {"probes": 4, "baseline": "probes"}),
    **each(fm.FRCCE, {"baseline": "previous"}, {"baseline": "moving"}),
    **each(fm.FRCCE, {"per_round": 3}, {"layer": "all", "lr": 0.01}),
    **each(fm.FRCCE, {"clamp": 0, "limit": None}),
    **each(fm.FLDVE, {}, {"literal": True}, {"probes": 1}, {"baseline": "moving"}),
    **each(fm.FLDVE, {"per_round": 3}),
    **each(fm.DVRLRemoval, {"lr": 0.02}),
    **each(fm.SFedAvg, {}, {"literal": True}, {"by_class": True}, {"exact": False}),
    **each(fm.SFedAvg, {"absent": "silent", "metric": "loss"}, {"empty": "zero", "m": 3}),
    **each(fm.SFedAvg, {"m": None, "temperature": math.inf}),
    **each(fm.LabelStandardisation, REPAIR, {"literal": True}, REPAIR | {"once": True}),
    **each(fm.LabelStandardisation, REPAIR | {"accuracy": "precision", "groups": "current"}),
    **each(fm.RoundValue, {}, {"discount": 0.9, "metric": "accuracy", "absent": "silent"}),
    "RoundValue(banzhaf)": fm.RoundValue(fm.banzhaf, memory=0.5, per_round=4),
    "RoundValue(partial)": fm.RoundValue(partial(fm.permutation, samples=4)),
    **each(fm.Taylor, {"order": 1}, {"per_round": 3}),
    **each(fm.RoundScore, {}),
    **each(fb.FedCE, {}, {"mix": "times", "metric": "loss", "per_round": 4}),
    **{
        name: strategy
        for kind in map(vars(fb).get, fb.methods.__all__)
        if isinstance(kind, type) and kind is not fb.FedCE
        for name, strategy in each(kind, {}, {"per_round": 4}).items()
    },
    "OwnStrategy": OwnStrategy(),
    "Slow": Slow(speed=0.3),
    "Cautious": Cautious(0.2, floor=None),
}


def test_every_strategy_is_among_them():
    public = (getattr(room, name) for room in (fm, fb) for name in room.methods.__all__)
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, fm.FedAvg)}
    assert kinds <= {type(strategy) for strategy in STRATEGIES.values()}


@cache
def federation(name: str = "plain") -> fm.Federation:
    """Six clients, of whom 1 and 4 have swapped labels; in the hostile one three lie."""
    fed = random_federation(SIZES, dtype=torch.float32)
    y = fed.y.clone()
    for k in (1, 4):
        own = slice(*fed.offsets[k : k + 2].tolist())
        y[own] = torch.tensor([1, 2, 0])[y[own]]
    fed = replace(fed, y=y)
    liars = {0: Fails(), 2: fm.replay(), 3: fm.free_ride(0.1)}
    return with_attacks(fed, liars) if name == "hostile" else fed


CASES = [(name, fed) for fed in ("plain", "hostile") for name in STRATEGIES]


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
    return {name: torch.as_tensor(part) for name, part in (numbers | state).items()}


def assert_same(one: fm.History, other: fm.History) -> None:
    """Two histories are equal to the last bit, seconds aside."""
    one_parts, other_parts = parts(one), parts(other)
    assert one_parts.keys() == other_parts.keys()
    for name, part in one_parts.items():
        assert part.shape == other_parts[name].shape, name
        assert same_bytes(part, other_parts[name]), name


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
    assert_same(longer, whole)
    assert longer.cost.seconds > fm.History.load(folder / f"{place}.npz").cost.seconds > 0


@pytest.mark.parametrize(("name", "fed"), CASES)
def test_a_live_history_goes_on_and_is_left_as_it_was(name, fed):
    strategy = STRATEGIES[name]
    start = run(strategy, fed, 3)
    before = {part: values.clone() for part, values in parts(start).items()}
    assert_same(run(strategy, fed, start=start), run(strategy, fed))
    assert all(same_bytes(before[part], values) for part, values in parts(start).items())
    assert_same(run(strategy, fed, 3, start=start), start)


def test_these_trainings_have_what_is_hard_to_go_on_with():
    """Labels renamed before and after the stop; a liar left out before and after it."""
    repairing = fm.LabelStandardisation(**REPAIR)
    labels = [run(repairing, rounds=rounds).labels for rounds in (3, 7)]
    assert not torch.equal(labels[0], federation().y)
    assert not torch.equal(labels[1], labels[0])
    weights = run(fm.FedAvg(), "hostile").weights[:, 0]
    for some in (weights[:3], weights[3:]):
        assert 0 < (some == 0).sum() < len(some)


def test_a_training_of_one_s_own_first_model_goes_on_without_it():
    theta = fm.mlp(6, 4, 3).init(9)
    start = run(fm.CGSV(), rounds=3, theta=theta)
    assert_same(run(fm.CGSV(), start=start), run(fm.CGSV(), theta=theta))
    with pytest.raises(ValueError, match=r"^theta: start= brings the model"):
        run(fm.CGSV(), start=start, theta=theta)


def test_a_loaded_history_is_saved_again_as_it_was(tmp_path):
    run(fm.SFedAvg(), rounds=2).save(tmp_path / "one.npz")
    fm.History.load(tmp_path / "one.npz").save(tmp_path / "two.npz")
    one, two = (np.load(tmp_path / f"{name}.npz") for name in ("one", "two"))
    with one, two:
        assert one.files == two.files
        assert all(one[part].tobytes() == two[part].tobytes() for part in one.files)


# --- what is refused -----------------------------------------------------------------------------

SIGNS = with_attacks(federation(), {2: fm.sign_flip()})
OTHER = {  # what is changed: the training, and the words of the refusal
    "seed": (partial(run, fm.CGSV(), seed=4), r"seed \(3, now 4\)$"),
    "data": (partial(run, fm.CGSV(), random_federation(SIZES, dtype=torch.float32)), "data$"),
    "clients": (
        partial(run, fm.CGSV(), random_federation(SIZES[:5], dtype=torch.float32)),
        r"clients \(6, now 5\), data$",
    ),
    "attack": (partial(run, fm.CGSV(), SIGNS), r"attacks( \(.*\))?$"),
    "local": (partial(run, fm.CGSV(), local=replace(LOCAL, lr=0.2)), "local$"),
    "model": (partial(run, fm.CGSV(), net=fm.mlp(6, 5, 3)), "net$"),
    "strategy": (partial(run, fm.FedAvg()), "strategy$"),
}


@pytest.mark.parametrize("change", OTHER)
def test_the_history_of_another_training_is_refused_by_what_differs(tmp_path, change):
    live = run(fm.CGSV(), rounds=1)
    live.save(tmp_path / "h.npz")
    train, words = OTHER[change]
    for start in (live, fm.History.load(tmp_path / "h.npz")):
        with pytest.raises(ValueError, match=f"^start: belongs to another training, by {words}"):
            train(start=start)


def test_the_history_of_another_version_is_refused(monkeypatch, tmp_path):
    run(fm.CGSV(), rounds=1).save(tmp_path / "h.npz")
    monkeypatch.setattr(fm, "__version__", "0.0.0")
    with pytest.raises(ValueError, match=r"^start: .* by version \(\d.*, now 0\.0\.0\)$"):
        run(fm.CGSV(), start=fm.History.load(tmp_path / "h.npz"))


def by_one(make, **values: object) -> Iterable[tuple[fm.FedAvg, fm.FedAvg]]:
    """A strategy, and the same with one value changed, for each of the values."""
    return [(make(), make(**{name: value})) for name, value in values.items()]


RATINGS = {"alpha": 0.5, "beta": 0.5, "permutations": 9, "temperature": 1.0, "metric": "loss"}
RATINGS |= {"empty": "zero", "exact": True, "by_class": True, "absent": "silent", "m": 2}
RATINGS |= {"weighting": "size", "literal": True, "margin": 0.1, "spread": 0.1, "window": 4}
RATINGS |= {"once": True, "accuracy": "precision", "groups": "current"}
CHOICES = {"lr": 2e-3, "baseline": "moving", "sign": "printed", "clamp": 0.0, "limit": None}
OTHERS = [
    *by_one(fm.CGSV, gamma0=0.4, floor=None, per_round=4),
    *by_one(fm.FRCCE, **CHOICES, layer="all", weighting="size"),
    *by_one(partial(fm.FRCCE, baseline="moving"), window=5),
    *by_one(fm.FLDVE, probes=4),
    *by_one(partial(fm.FLDVE, probes=1), literal=True),
    *by_one(fm.LabelStandardisation, **RATINGS),
    *by_one(fm.RoundValue, value=fm.banzhaf, discount=0.9, memory=0.5),
    *by_one(Slow, speed=0.4),
    *by_one(Cautious, caution=0.4),
    (fm.FLDVE(), fm.DVRLRemoval()),
]


@pytest.mark.parametrize(("one", "other"), OTHERS, ids=lambda strategy: "")
def test_the_history_of_other_settings_is_refused(one, other):
    start = run(one, rounds=1)
    with pytest.raises(ValueError, match=r"^start: .* another training, by strategy$"):
        run(other, start=start)


def test_repaired_labels_are_other_data():
    start = run(fm.LabelStandardisation(**REPAIR), rounds=3)
    assert not torch.equal(start.labels, federation().y)
    with pytest.raises(ValueError, match=r"^start: .* by data$"):
        run(fm.LabelStandardisation(**REPAIR), replace(federation(), y=start.labels), start=start)


def test_a_history_from_another_process_goes_on_and_brings_no_data():
    fed = fm.federation(fm.load("digits"), clients=4, seed=0)
    net, given = fm.mlp(64, 4, 10), {"local": LocalSGD(batch=64)}
    written = pickle.dumps(fm.train(fed, net, fm.CGSV(), rounds=1, **given))
    assert len(written) < fed.x.nbytes / 4
    more = fm.train(fed, net, fm.CGSV(), rounds=2, **given, start=pickle.loads(written))
    assert torch.equal(more.theta, fm.train(fed, net, fm.CGSV(), rounds=2, **given).theta)


def test_samples_that_were_written_to_meanwhile_are_noticed(tmp_path):
    fed = random_federation(SIZES)
    given = {"rounds": 2, "local": LOCAL}
    history = fm.train(fed, fm.mlp(6, 4, 3), fm.FedAvg(), **given)
    fed.x.mul_(2)
    with pytest.raises(ValueError, match=r"^start: fed: its samples were written to"):
        fm.train(fed, fm.mlp(6, 4, 3), fm.FedAvg(), **given, start=history)
    with pytest.raises(ValueError, match=r"^save: fed: its samples were written to"):
        history.save(tmp_path / "history.npz")


def test_fewer_rounds_than_it_holds_are_refused():
    start = run(fm.CGSV(), rounds=5)
    with pytest.raises(ValueError, match=r"^start: holds 5 rounds, 4 asked$"):
        run(fm.CGSV(), rounds=4, start=start)
    with pytest.raises(TypeError, match=r"^start: expected a History"):
        run(fm.CGSV(), start="history.npz")


def test_who_gives_a_lambda_trains_but_does_not_go_on(tmp_path):
    strategy = fm.RoundValue(lambda game: fm.exact(game))
    start = run(strategy, rounds=2)
    assert same_bytes(start.scores, run(fm.RoundValue(fm.exact), rounds=2).scores)
    with pytest.raises(ValueError, match=r"^save: a lambda \(.*\) has no name"):
        start.save(tmp_path / "h.npz")
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(ValueError, match=r"a lambda \(.*\) has no name"):
        run(strategy, start=start)


@pytest.mark.parametrize("kind", ["text", "other arrays", "damaged", "half a history"])
def test_a_file_that_holds_no_history_is_refused_by_name(tmp_path, kind):
    path = tmp_path / "h.npz"
    run(fm.CGSV(), rounds=2).save(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    if kind == "damaged":
        content = path.read_bytes()
        place = content.index(arrays["theta"].tobytes())
        path.write_bytes(content[:place] + b"theta" + content[place + 5 :])
    elif kind == "text":
        path.write_text("not a history")
    elif kind == "other arrays":
        np.savez(path, updates=np.ones((2, 3)), theta=np.ones(3))
    else:
        del arrays["scores.values"]
        np.savez(path, **arrays)
    with pytest.raises(ValueError, match=r"^path: .*h\.npz (is damaged|holds no history)"):
        fm.History.load(path)


# --- what a round says ---------------------------------------------------------------------------


class Listed(fm.FedAvg):
    """Asks by a list."""

    def select(self, server, state, t):
        return torch.tensor([4, 0, 2, 1] if t == 2 else [3, 1])


def who(fed: fm.Federation, rounds: int) -> list[tuple[int, list[int], list[int]]]:
    """Of each round its number, who took part and who is missing."""
    seen = []

    def watch(round: Round, step: Step) -> None:
        seen.append((round.t, round.clients.tolist(), sorted(round.missing.tolist())))

    run(Listed(), fed, rounds, watch=watch)
    return seen


def test_who_was_asked_and_sent_nothing_usable_is_missing():
    """Client 1 sends NaN; client 4 holds NaN and cannot take part."""
    clean = federation()
    pairs = [(x.clone(), y) for x, y in map(clean.client, range(5))]
    pairs[4][0][0, 0] = torch.nan
    server = {"validation": clean.validation, "test": clean.test}
    with pytest.warns(UserWarning, match="client 4 holds"):
        fed = fm.Federation.from_datasets(pairs, **server, classes=3)
    fed = with_attacks(fed, {1: Sends(torch.nan)})
    with pytest.warns(UserWarning, match="client 4 holds"):
        assert who(fed, 3) == [(1, [3], [1]), (2, [0, 2], [1, 4]), (3, [3], [1])]


def test_nobody_is_missing_by_default():
    assert [missing for *_, missing in who(federation(), 2)] == [[], []]
    one = Round(1, torch.zeros(2), torch.tensor([0]), torch.tensor([3]), torch.zeros(1, 2))
    assert one.missing.tolist() == []
    assert one.missing.dtype == torch.long
