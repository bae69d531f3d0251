"""The benchmarks' own machinery: turns, medians, verdicts, workers; not what they measure."""

from __future__ import annotations

import sys

import pytest
import torch

import fedlab_mini as fm
from tools.benchmarks import engine, timing
from tools.benchmarks.loop import PlainLoop, Vmapped
from tools.benchmarks.worker import Worker, WorkerError, python_with


def test_sides_take_turns_and_the_first_turn_is_not_counted():
    order: list[str] = []
    left = {"a": [9.0, 1.0, 2.0], "b": [9.0, 2.0, 8.0]}
    sides = {name: lambda name=name: (order.append(name), left[name].pop(0))[1] for name in left}
    found = timing.interleave(sides, 2)
    assert order == ["a", "b"] * 3
    assert timing.ratios(found["b"], found["a"]) == (2.0, 4.0)


def test_the_median_decides_the_verdict():
    one = timing.Result("b", "w", (1.0, 3.0, 9.0), 3.0)
    assert timing.table([one]).splitlines()[-1] == "| b | w | at least 3 x | 3 (1-9) x | met |"
    assert timing.Result("b", "w", (1.0, 2.0, 9.0), 3.0).verdict == "missed"
    assert timing.Result("b", "w", (1.0, 4.0, 9.0), 3.0, at_most=True).verdict == "missed"


def test_the_sides_of_the_engine_train_the_same_models():
    assert engine.check_equal((6, 5, 4, 10)) < 1e-12
    fed, net = engine.random_federation(3, 6, torch.float64), fm.mlp(6, 4, 10)
    theta = net.init(0, dtype=torch.float64)
    # in one batch, where the order does not matter
    loop = PlainLoop(fed, net.module, batch=engine.SAMPLES, lr=0.1)
    stacked = Vmapped(loop, fed, samples=engine.SAMPLES, batch=engine.SAMPLES, lr=0.1)
    assert torch.allclose(stacked.train(theta, 2), loop.train(theta, 2), rtol=0, atol=1e-12)
    assert engine.multiply_adds((4, 3, 2)) == 2 * (12 + 6) + 6


def test_a_worker_answers_with_its_own_seconds_or_its_last_words(capsys):
    with Worker(sys.executable, "random:Random") as worker, pytest.raises(WorkerError) as failed:
        worker.run()
    assert "object is not callable" in str(failed.value)
    with Worker(sys.executable, "unittest.mock:Mock", return_value={"held": 3}) as worker:
        first, second = worker.run(), worker.run()
    assert first["held"] == second["held"] == 3
    assert first["seconds"] >= 0
    assert python_with("no_such_module", "no-such[extra]", "FEDLAB_NOWHERE") is None
    assert "pip install 'no-such[extra]'" in capsys.readouterr().out
    assert python_with("json", "json", "FEDLAB_NOWHERE") == sys.executable
