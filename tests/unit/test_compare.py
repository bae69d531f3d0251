"""Compare: the long table, its cells on disk, strangers' methods, refusals."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench import METHODS, SCENARIOS, WORLDS, command, comparing, picture, summary
from fedlab_bench.compared import CEILING
from fedlab_bench.dealing import CLIENTS
from fedlab_bench.measures import BESIDE_TRUTH, OF_METHODS
from fedlab_bench.worlds import DRAWN, WORSE, World
from fedlab_mini.engine import progress
from fedlab_mini.engine.rounds import Round, Server, Step
from fedlab_mini.judge.watch import Watch
from fedlab_mini.keep.files import Cache

SMALL = {
    "Shapley": METHODS["Shapley"],
    "CGSV": METHODS["CGSV"],
    "retrained: alone": METHODS["retrained: alone"],
}
RUN = {"scenarios": ["irrelevant"], "seeds": range(2), "rounds": 2}


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return fb.compare(SMALL, **RUN)


def test_a_long_table_with_the_ceiling_in_it(found: pd.DataFrame) -> None:
    assert set(found.method) == {*SMALL, CEILING}
    assert set(found.seed) == {0, 1}
    assert found.value.notna().all()
    assert set(found[found.method != CEILING].metric) == set(BESIDE_TRUTH | OF_METHODS)
    tau = found[found.metric == "tau"]
    assert len(tau) == 8
    assert tau.value.between(-1, 1).all()
    assert picture(found, "AUC", "irrelevant").axes


def test_a_comparison_is_judged_as_the_bench_judges() -> None:
    """The same federations, trainings and rules: what the bench has stored comes out here."""
    names = ["size", "alone", "leave one out", "class cosine", "second order"]
    frame = fb.compare({name: METHODS[name] for name in names}, ["wrong labels"], [3])
    keys = ["seed", "scenario", "method", "metric"]
    stored = fb.judged(fb.PUBLIC).set_index(keys).value
    mine = frame[frame.metric.isin(list(BESIDE_TRUTH))].set_index(keys).value
    assert len(mine) == 3 * (len(names) + 1)
    assert mine.to_numpy() == pytest.approx(stored[mine.index].to_numpy(), abs=2e-5)


def test_a_summary_has_intervals_inside_the_range() -> None:
    rows = [(s, "alike", name, "AUC", v - s * d) for s in range(3) for name, v, d in
            (("a", 1.0, 0.2), ("b", 0.9, 0.1))]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["seed", "scenario", "method", "metric", "value"])
    assert summary(frame, "AUC").rows[0][1].endswith(", 1.00]")
    assert summary(frame, "AUC", spread=False).rows[0][1] == "0.80"


AUCS = {  # scenario, method: one value a seed
    ("alike", "a"): [1.0, 0.8, 0.6],
    ("alike", "b"): [0.9, 0.8, 0.4],
    ("sizes", "a"): [0.5, 0.5, 0.9],
    ("sizes", CEILING): [1.0, 1.0, 1.0],
}
BY_HAND = pd.DataFrame(
    [(s, at, name, "AUC", v) for (at, name), vs in AUCS.items() for s, v in enumerate(vs)],
    columns=["seed", "scenario", "method", "metric", "value"],
)


def test_differences_are_taken_seed_by_seed() -> None:
    """Whatever the order of the rows, and only where both are measured."""
    gap = fm.evidence.paired(AUCS["alike", "a"], AUCS["alike", "b"], low=0, high=1)
    for frame in (BY_HAND, BY_HAND.iloc[::-1].sort_values("scenario", kind="stable")):
        table = summary(frame, "AUC", against="a", methods=["a", "b", CEILING])
        assert [row[0] for row in table.rows] == ["b", fb.shown(CEILING)]
        assert table.rows[0][1:] == [str(gap), ""]
        assert table.rows[1][1] == ""
        assert table.rows[1][2].startswith("-0.37 [-1.00, ")
        assert "a minus the method of the row" in table.caption
    alone = summary(BY_HAND[BY_HAND.seed == 0], "AUC", against="a")
    assert alone.rows[0][1] == "0.10"  # a seed alone has no interval
    with pytest.raises(ValueError, match=r"^against: "):
        summary(BY_HAND, "AUC", against="c")


def test_a_picture_names_metric_and_methods_in_a_panel_a_scenario() -> None:
    figure = picture(BY_HAND, "AUC", ["sizes", "alike"], ["b"])
    assert [axis.get_title() for axis in figure.axes] == ["sizes", "similar label mixes"]
    assert figure.get_supxlabel().startswith("AUC: chance that")
    named = {text.get_text(): text.get_fontweight() for text in figure.axes[0].get_yticklabels()}
    assert named == {"a": "normal", "b": "bold"}
    bands = [len(axis.patches) for axis in figure.axes]
    assert bands == [1, 1]  # behind the row of b, in each panel
    assert [len(axis.lines) for axis in figure.axes] == [4, 6]  # three a row, and the ceiling
    assert not any(axis.patches for axis in picture(BY_HAND, "AUC").axes)


def test_a_bar_shows_before_the_first_cell_and_in_a_terminal_without_a_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    os.set_blocking((ends := pytest.importorskip("pty").openpty())[0], False)
    with os.fdopen(ends[1], "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.delenv("TQDM_DISABLE", raising=False)
        with progress.bar(None, "cells", 3, delay=0):
            assert b"cells:   0%" in os.read(ends[0], 1000)
    os.close(ends[0])


def test_an_interrupted_comparison_goes_on_with_the_same_table(
    found: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(world, seed, methods):
        if seed == 1:
            raise KeyboardInterrupt
        return cell(world, seed, methods)

    cell = comparing.cell
    given = {**RUN, "cache": tmp_path}
    monkeypatch.setattr(comparing, "cell", killed)
    with pytest.raises(KeyboardInterrupt):
        fb.compare(SMALL, **given)
    monkeypatch.undo()
    (kept,) = tmp_path.iterdir()
    stamp = kept.stat().st_mtime_ns
    again = fb.compare(SMALL, **given)
    same = ~found.metric.str.startswith("seconds")
    pd.testing.assert_frame_equal(again[same], found[same])
    assert kept.stat().st_mtime_ns == stamp
    assert len(list(tmp_path.iterdir())) == 2


def other_levels(data: str, seed: int):
    return SCENARIOS["sizes"](data, seed)


def test_a_cell_is_kept_for_its_scenario(tmp_path: Path) -> None:
    given = {"methods": {"NA": fm.FedAvg()}, "seeds": [0], "rounds": 1, "cache": tmp_path}
    first = fb.compare(scenarios={"None": SCENARIOS["alike"]}, **given)
    assert set(first.method) == {"NA", CEILING}
    again = fb.compare(scenarios={"None": SCENARIOS["alike"]}, **given)
    pd.testing.assert_frame_equal(again, first, check_exact=True)  # names as they were
    assert not first.equals(fb.compare(scenarios={"None": other_levels}, **given))
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", [*SCENARIOS, *METHODS])
def test_what_is_compared_by_name_can_be_kept(name: str, tmp_path: Path) -> None:
    Cache(tmp_path, (SCENARIOS | METHODS)[name])


@pytest.mark.parametrize(
    ("name", "data"), [*((name, "digits") for name in SCENARIOS), ("irrelevant", "sms-synthetic")]
)
def test_scenarios_are_what_they_say(name: str, data: str) -> None:
    (fed, _), (again, _) = (SCENARIOS[name](data, 3) for _ in range(2))
    assert fed.clients == CLIENTS
    assert torch.equal(fed.x, again.x)
    assert not torch.equal(fed.y, SCENARIOS[name](data, 4)[0].y)
    if name not in ("sizes", "Dirichlet 0.5", "Dirichlet 0.1", "replicas"):
        assert fed.sizes.min() > 0.95 * fed.sizes.max()
    if name == "replicas":
        assert all(torch.equal(fed.client(0)[0], fed.client(k)[0]) for k in (6, 7))
    if name == "rare class":
        rare = fed.label_counts[:, -1]
        assert (rare[:-1] == 0).all()
        assert rare[-1] > 0
        assert WORLDS[name].worse(3) == list(range(CLIENTS - 1))
    if name == "irrelevant":
        world = World(SCENARIOS[name], name, source=data, bad=DRAWN)
        assert world.worse(3) == sorted(fed.corrupted)
        assert len(fed.corrupted) == 2
    if name == "noisy inputs":  # of thrice as many tenths as the client's id
        spread = [float(fed.client(k)[0].std() / fed.client(0)[0].std()) for k in range(CLIENTS)]
        assert spread == pytest.approx(
            [(1 + (0.3 * k) ** 2) ** 0.5 for k in range(CLIENTS)], rel=0.1
        )
    if name == "wrong labels":
        assert fed.noise.argsort().tolist() == list(range(CLIENTS))
        assert WORLDS[name].bad == WORSE


def test_scores_that_are_read_between_rounds_stay_as_they_were() -> None:
    fed, net = SCENARIOS["Dirichlet 0.5"]("digits", 0)
    watch = Watch({"CGSV": fm.CGSV()}, Server(8, 10, net, fed.validation, 0))
    kept: list[torch.Tensor] = []

    def look(round: Round, step: Step) -> None:
        watch(round, step)
        kept.append(watch.scores()["CGSV"])

    history = fm.train(fed, net, fm.CGSV(), rounds=4, watch=look)
    assert all(map(torch.equal, kept, history.scores.double()))


MINE = """
import fedlab_mini as fm

class MyScore(fm.RoundScore):
    def score(self, server, state, round):
        return round.updates.norm(dim=1)
"""


def test_a_strangers_method_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "my_module.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "compare", partial(fb.compare, rounds=1))
    words = ["compare", "--method", "my_module:MyScore", "--beside", "alone", "--seeds", "2"]
    words += ["--scenarios", "alike"]
    frame = command.main([*words, "--csv", "all.csv", "--figure", "one.svg"])
    told, beforehand = capsys.readouterr()
    assert beforehand.startswith("2 cells")
    assert "tau, MyScore minus the method of the row" in told
    assert "MyScore" in set(pd.read_csv("all.csv").method) & set(frame.method)
    assert "MyScore" in (tmp_path / "one.svg").read_text()
