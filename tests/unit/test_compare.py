"""Compare: the long table, its cells on disk, strangers' methods, refusals."""

from __future__ import annotations

import textwrap
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.command import compare as command
from fedlab_mini.judge.compare import METHODS, SCENARIOS, Retrained
from fedlab_mini.judge.compare.methods import watcher
from fedlab_mini.judge.compare.scenarios import CLIENTS, lesser, noisy_inputs
from fedlab_mini.show.comparison import figure, summary

SMALL = {
    "Shapley": METHODS["Shapley"],
    "CGSV": METHODS["CGSV"],
    "retrained: alone": METHODS["retrained: alone"],
}
RUN = {"scenarios": ["irrelevant"], "seeds": range(2), "rounds": 2}


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return fm.compare(SMALL, **RUN)


def test_a_long_table_with_the_ceiling_in_it(found: pd.DataFrame) -> None:
    assert list(found) == ["seed", "scenario", "method", "metric", "value"]
    assert set(found.method) == {*SMALL, "(the truth itself)"}
    assert set(found.seed) == {0, 1}
    assert found.value.notna().all()
    tau = found[found.metric == "tau with retraining"]
    assert len(tau) == 8
    assert tau.value.between(-1, 1).all()
    own = found[(found.metric == "tau with the rounds' value") & (found.method == "Shapley")]
    assert own.value.tolist() == pytest.approx([1, 1])
    table = repr(summary(found, "detection AUC"))
    assert "(the truth itself)" in table
    assert "irrelevant" in table
    assert figure(found, "irrelevant").axes


def test_an_interrupted_comparison_goes_on_with_the_same_table(
    found: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(data: str, seed: int):
        if seed == 1:
            raise KeyboardInterrupt
        return SCENARIOS["irrelevant"](data, seed)

    given = {**RUN, "folder": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        fm.compare(SMALL, **{**given, "scenarios": {"irrelevant": killed}})
    (kept,) = tmp_path.iterdir()
    stamp = kept.stat().st_mtime_ns
    again = fm.compare(SMALL, **given)
    same = ~found.metric.str.startswith("seconds")
    pd.testing.assert_frame_equal(again[same], found[same])
    assert kept.stat().st_mtime_ns == stamp
    assert len(list(tmp_path.iterdir())) == 2
    fm.compare({"CGSV": fm.CGSV(gamma0=0.9)}, **{**given, "seeds": [0]})
    assert len(list(tmp_path.iterdir())) == 3  # another method, another file


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
        assert lesser(name, fed) == list(range(CLIENTS - 1))
    if name == "irrelevant":
        assert lesser(name, fed) == sorted(fed.corrupted)
        assert len(fed.corrupted) == 2
    if name == "wrong labels":
        assert fed.noise.argsort().tolist() == list(range(CLIENTS))


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
        assert hasattr(watcher(method), "aggregate")
    assert watcher(methods["strategy"]) is not methods["strategy"]
    frame = fm.compare([mine, fm.banzhaf, Retrained(fm.alone)], **{**RUN, "seeds": [0]})
    assert {"mine", "banzhaf", "Retrained"} < set(frame.method)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"methods": {"a": fm.CGSV}}, "methods: a is a class; write CGSV"),
        ({"methods": {}}, "methods: expected at least one"),
        ({"methods": {"a": 3}}, "methods: a: expected a strategy"),
        ({"methods": 3}, "methods: expected"),
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
        fm.compare(**{"methods": SMALL, **RUN, **given})


def test_a_metric_or_scenario_that_is_not_there(found: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="metric: expected"):
        summary(found, "beauty")
    with pytest.raises(ValueError, match="scenario: expected"):
        figure(found, "alike")


MINE = """
    import torch
    import fedlab_mini as fm

    class MyScore(fm.RoundScore):
        def score(self, round):
            return round.updates.norm(dim=1)
"""


def test_a_strangers_method_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "my_module.py").write_text(textwrap.dedent(MINE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "compare", partial(fm.compare, rounds=2))
    words = ["--method", "my_module:MyScore", "--beside", "alone", "--scenarios", "irrelevant"]
    files = ["--seeds", "2", "--csv", "all.csv", "--figure", "one.svg"]
    frame = command.main([*words, *files])
    told = capsys.readouterr().out
    assert "MyScore" in told
    assert "(the truth itself)" in told
    assert "MyScore" in set(pd.read_csv("all.csv").method) & set(frame.method)
    assert "MyScore" in (tmp_path / "one.svg").read_text()
    for wrong in (["--method", "nowhere:X"], ["--beside", "X"]):
        with pytest.raises(SystemExit):
            command.main(wrong)
        assert wrong[0] in capsys.readouterr().err
