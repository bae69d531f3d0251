"""Compare: the long table, its cells on disk, strangers' methods, refusals."""

from __future__ import annotations

import re
import textwrap
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench import METHODS, SCENARIOS, WORLDS, Retrained, command, comparing, picture, summary
from fedlab_bench.measures import BESIDE_TRUTH, OF_METHODS
from fedlab_bench.registry import CEILING, watcher
from fedlab_bench.scenarios import CLIENTS, noisy_inputs
from fedlab_bench.worlds import DRAWN, WORSE, World
from fedlab_mini.judge.score import Watch

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
    assert list(found) == ["seed", "scenario", "method", "metric", "value"]
    assert set(found.method) == {*SMALL, CEILING}
    assert set(found.seed) == {0, 1}
    assert found.value.notna().all()
    tau = found[found.metric == "tau"]
    assert len(tau) == 8
    assert tau.value.between(-1, 1).all()
    table = repr(summary(found, "AUC"))
    assert CEILING in table
    assert "irrelevant" in table
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
    chosen = summary(frame, "AUC", methods=["b"], scenarios=["alike"])
    assert [row[0] for row in chosen.rows] == ["b"]
    with pytest.raises(ValueError, match="methods: expected"):
        summary(frame, "AUC", methods=["c"])


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
    fb.compare({"CGSV": fm.CGSV(gamma0=0.9)}, **{**given, "seeds": [0]})
    assert len(list(tmp_path.iterdir())) == 3  # another method, another file


def other_levels(data: str, seed: int):
    return SCENARIOS["sizes"](data, seed)


def test_a_scenario_that_keeps_its_name_and_changes_is_computed_again(tmp_path: Path) -> None:
    given = {"seeds": [0], "rounds": 1, "cache": tmp_path}
    first, second = (
        fb.compare({"size": fm.FedAvg()}, {"mine": make}, **given)
        for make in (SCENARIOS["alike"], other_levels)
    )
    assert len(list(tmp_path.iterdir())) == 2
    assert not first.equals(second)


def halved(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def another_digit(path: Path) -> None:
    content = path.read_bytes()
    at = len(content) // 2
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def test_a_damaged_cell_is_refused_by_its_name(tmp_path: Path) -> None:
    given = {"methods": {"NA": fm.FedAvg()}, "scenarios": {"None": SCENARIOS["alike"]}}
    given |= {"rounds": 1, "cache": tmp_path}
    written = fb.compare(**given, seeds=[0])
    assert set(written.method) == {"NA", CEILING}
    again = fb.compare(**given, seeds=[0])
    pd.testing.assert_frame_equal(again, written, check_exact=True)  # names as they were
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    for damage in (halved, another_digit, emptied):
        damage(path)
        with pytest.raises(ValueError, match=rf"^cache: .*{path.name} is damaged"):
            fb.compare(**given, seeds=[0])
        path.write_bytes(content)


def test_the_measures_are_those_of_a_comparison(found: pd.DataFrame) -> None:
    own = set(found[found.method != CEILING].metric)
    assert own == set(BESIDE_TRUTH | OF_METHODS)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("data", ["digits", "sms-synthetic"])
def test_scenarios_are_what_they_say(name: str, data: str) -> None:
    fed, net = SCENARIOS[name](data, 3)
    again, _ = SCENARIOS[name](data, 3)
    other, _ = SCENARIOS[name](data, 4)
    assert fed.clients == CLIENTS
    assert torch.equal(fed.x, again.x)
    assert torch.equal(fed.y, again.y)
    assert not torch.equal(fed.y, other.y)
    net.check(fed.x, fed.classes)
    if name not in ("sizes", "Dirichlet 0.5", "Dirichlet 0.1", "replicas"):
        assert fed.sizes.min() > 0.95 * fed.sizes.max()
    if name == "replicas":
        assert torch.equal(fed.client(0)[0], fed.client(7)[0])
    if name == "rare class":
        rare = fed.label_counts[:, -1]
        assert (rare[:-1] == 0).all()
        assert rare[-1] > 0
        assert WORLDS[name].worse(3) == list(range(CLIENTS - 1))
    if name == "irrelevant":
        world = World(SCENARIOS[name], name, source=data, bad=DRAWN)
        assert world.worse(3) == sorted(fed.corrupted)
        assert len(fed.corrupted) == 2
    if name == "wrong labels":
        assert fed.noise.argsort().tolist() == list(range(CLIENTS))
        assert WORLDS[name].bad == WORSE


@pytest.mark.parametrize(("wrong", "told"), [((), None), ((1,), [1]), ((0, 1, 2), None)])
def test_a_scenario_of_ones_own_knows_who_was_corrupted(wrong, told) -> None:
    def make(data: str, seed: int):
        corrupt = dict.fromkeys(wrong, fm.flip_labels(0.5))
        fed = fm.federation(fm.load(data), clients=3, corrupt=corrupt, seed=seed)
        return fed, fm.mlp(64, 8, 10)

    assert World(make, "mine", bad=DRAWN).worse(0) == told


def test_noise_on_inputs_has_the_size_that_is_asked_for() -> None:
    x, y = torch.randn(2000, 10, dtype=torch.float64), torch.zeros(2000).long()
    new, labels, changed = noisy_inputs(0.5)(x, y, 2, torch.Generator().manual_seed(0))
    assert float((new - x).std() / x.std()) == pytest.approx(0.5, abs=0.02)
    assert torch.equal(labels, y)
    assert changed.all()


def test_every_kind_of_method_becomes_a_strategy() -> None:
    def mine(round: fm.Round, server: fm.Server) -> torch.Tensor:
        return round.updates.norm(dim=1) * server.clients

    methods = {"mine": mine, "game": fm.banzhaf, "strategy": fm.CGSV()}
    for method in methods.values():
        assert hasattr(watcher(method), "step")
    frame = fb.compare([mine, fm.banzhaf, Retrained(fm.alone)], **{**RUN, "seeds": [0]})
    assert {"mine", "banzhaf", "Retrained"} < set(frame.method)


@pytest.mark.parametrize("part", ["updates", "theta", "sizes", "clients", "validation"])
def test_a_method_cannot_touch_what_its_rivals_see(part: str) -> None:
    def rude(round: fm.Round, server: fm.Server) -> torch.Tensor:
        seen = server.validation[0] if part == "validation" else getattr(round, part)
        seen.copy_(seen.flip(0))
        return round.updates.norm(dim=1)

    fed = fm.federation(fm.load("digits"), clients=4, split=fm.dirichlet_sizes(1.0), samples=200)
    rivals = {"size": fm.FedAvg(), "second order": fm.Taylor(2), "CGSV": fm.CGSV()}

    def shown(methods: dict) -> dict[str, torch.Tensor]:
        net = fm.mlp(64, 8, 10)
        server = fm.Server(fed.clients, fed.classes, net, fed.validation, 0)
        watch = Watch(methods, server)
        history = fm.train(fed, net, fm.FedAvg(), rounds=2, watch=watch)
        return watch.scores() | {"model": history.theta}

    alone, beside = shown(rivals), shown({"rude": rude, **rivals})
    assert all(torch.equal(alone[name], beside[name]) for name in alone)


def test_scores_that_are_read_between_rounds_stay_as_they_were() -> None:
    fed, net = SCENARIOS["Dirichlet 0.5"]("digits", 0)
    watch = Watch({"CGSV": fm.CGSV()}, fm.Server(8, 10, net, fed.validation, 0))
    kept: list[torch.Tensor] = []

    def look(round: fm.Round, step: fm.Step) -> None:
        watch(round, step)
        kept.append(watch.scores()["CGSV"])

    history = fm.train(fed, net, fm.CGSV(), rounds=4, watch=look)
    assert all(map(torch.equal, kept, history.scores.double()))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"methods": {"a": fm.CGSV}}, "methods: a is a class; write CGSV"),
        ({"methods": {}}, "methods: expected at least one"),
        ({"methods": {"a": 3}}, "methods: a: expected a strategy"),
        ({"methods": 3}, "methods: expected"),
        ({"methods": {CEILING: fm.CGSV()}}, "methods: .* is the row of the ceiling"),
        ({"methods": {1: fm.CGSV()}}, "methods: expected a text, got 1"),
        ({"methods": [fm.CGSV(), fm.CGSV()]}, "methods: two of one name"),
        ({"scenarios": ["IID"]}, "scenarios: expected"),
        ({"scenarios": []}, "scenarios: expected at least one"),
        ({"seeds": []}, "seeds: expected"),
        ({"seeds": [1, 1]}, "seeds: expected"),
        ({"data": "cifar"}, "data: expected"),
        ({"metric": "auc"}, "metric: expected"),
        ({"rounds": 0}, "rounds: expected"),
    ],
)
def test_refusals_name_the_argument(given: dict, told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        fb.compare(**{"methods": SMALL, **RUN, **given})


def test_a_metric_or_scenario_that_is_not_there(found: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="metric: expected"):
        summary(found, "beauty")
    with pytest.raises(ValueError, match="place: expected"):
        picture(found, "tau", "alike")
    for strange in (None, {}, found.value):
        for show in (summary, picture):
            with pytest.raises(TypeError, match="frame: expected the table"):
                show(strange)
    with pytest.raises(ValueError, match=r"frame: .* lacks \['metric'\]"):
        summary(found.drop(columns="metric"))


MINE = """
    import torch
    import fedlab_mini as fm

    class MyScore(fm.RoundScore):
        def score(self, server, state, round):
            return round.updates.norm(dim=1)
"""


def test_a_strangers_method_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "my_module.py").write_text(textwrap.dedent(MINE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "compare", partial(fb.compare, rounds=2))
    words = ["--method", "my_module:MyScore", "--beside", "alone", "--scenarios", "irrelevant"]
    files = ["--seeds", "2", "--csv", "all.csv", "--figure", "one.svg"]
    frame = command.main(["compare", *words, *files])
    told = capsys.readouterr().out
    assert "MyScore" in told
    assert CEILING in told
    assert "MyScore" in set(pd.read_csv("all.csv").method) & set(frame.method)
    assert "MyScore" in (tmp_path / "one.svg").read_text()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--method", "nowhere:X"], "--method: expected module:NAME, got nowhere:X"),
        (["--method", "raises:X"], r"--method: .*ZeroDivisionError: division by zero\)"),
        (["--beside", "X"], "--beside: unknown X; known are size, alone"),
        (["--data", "sms"], "sms: .*not"),
        (["--scenarios", "IID"], 'scenarios: expected "alike"'),
        (["--metric", "beauty"], "argument --metric: invalid choice"),
        (["--csv", "nowhere/all.csv"], "--csv: expected a file in a folder that is there"),
        (["--figure", "nowhere/one.svg"], "--figure: expected a file in a folder that is there"),
        (["--figure", "one.xyz"], r"--figure: expected a file \.svg, \.png, \.pdf, got one\.xyz"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_on_the_command_line_is_one_line_before_anything_is_computed(
    wrong, told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "raises.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDLAB_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(command, "compare", partial(fb.compare, rounds=1))
    if wrong[1] != "sms":

        def trained(*given, **more):
            raise AssertionError("computed before it was refused")

        monkeypatch.setattr(comparing, "_cell", trained)
    few = ["--beside", "alone", "--seeds", "1"]
    few += [] if "--scenarios" in wrong else ["--scenarios", "alike"]
    with pytest.raises(SystemExit) as left:
        command.main(["compare", *few, *wrong])
    assert left.value.code
    error = capsys.readouterr().err
    assert re.search(told, error)
    assert "Traceback" not in error
