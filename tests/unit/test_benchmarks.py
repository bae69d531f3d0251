"""The benchmarks' own machinery: turns, medians, verdicts, workers; not what they measure."""

from __future__ import annotations

import sys
from unittest import mock

import pytest
import torch

import fedlab_mini as fm
from tools.benchmarks import engine, fedccea, modules, strategies, timing
from tools.benchmarks.loop import PlainLoop, Vmapped
from tools.benchmarks.worker import Worker, WorkerError, python_with


def test_sides_take_turns_and_the_first_turn_is_not_counted():
    order: list[str] = []

    def side(name, *seconds):
        left = list(seconds)

        def run():
            order.append(name)
            return left.pop(0)

        return run

    found = timing.interleave({"a": side("a", 9.0, 1.0, 2.0), "b": side("b", 9.0, 2.0, 8.0)}, 2)
    assert order == ["a", "b"] * 3
    assert timing.ratios(found["b"], found["a"]) == (2.0, 4.0)


def test_the_median_decides_the_verdict():
    assert timing.Result("b", "w", (1.0, 3.0, 9.0), 3.0).verdict == "met"
    assert timing.Result("b", "w", (1.0, 2.0, 9.0), 3.0).verdict == "missed"
    assert timing.Result("b", "w", (1.0, 4.0, 9.0), 3.0, at_most=True).verdict == "missed"
    assert timing.Result("b", "w", (1.0,)).verdict == ""
    row = timing.table([timing.Result("b", "w", (1.0, 3.0, 9.0), 3.0)]).splitlines()[-1]
    assert row == "| b | w | at least 3 x | 3 (1-9) x | met |"


def test_cpu_does_the_work_as_often_as_asked():
    done: list[int] = []
    assert timing.cpu(lambda: done.append(1), 3)() >= 0
    assert len(done) == 3


def test_multiply_adds_of_a_small_model_by_hand():
    assert engine.multiply_adds((4, 3, 2)) == 2 * (12 + 6) + 6


@pytest.mark.parametrize("widths", [(6, 4, 10), (6, 5, 4, 10)])
def test_the_plain_loop_trains_the_engines_models(widths):
    assert engine.check_equal(widths) < 1e-12


def test_vmap_and_loop_agree_where_the_order_does_not_matter():
    fed = engine.random_federation(3, 6, torch.float64)
    loop = PlainLoop(fed, fm.mlp(6, 4, 10).module, batch=engine.SAMPLES, lr=0.1)
    stacked = Vmapped(loop, fed, samples=engine.SAMPLES, batch=engine.SAMPLES, lr=0.1)
    theta = fm.mlp(6, 4, 10).init(0, dtype=torch.float64)
    assert torch.allclose(stacked.train(theta, 2), loop.train(theta, 2), rtol=0, atol=1e-12)


def test_modules_of_ones_own_are_compared_with_the_same_modules():
    fed, module = engine.random_federation(3, 6, torch.float64), torch.nn.Linear(6, 10, bias=False)
    net = fm.Model(torch.nn.Sequential(module, torch.nn.Tanh()))
    assert modules.check_equal(fed, net) < 1e-12
    thetas = torch.stack([net.init(seed, dtype=torch.float64) for seed in range(3)])
    alone = net.module.double()
    found = modules.losses(alone, thetas, *fed.client(0))
    assert torch.allclose(found, net.evaluate(thetas, *fed.client(0), "loss"), rtol=0, atol=1e-12)
    wanted = {case.name: case.target for case in modules.cases()}
    assert wanted["Tanh 64-32-10"] == wanted["LayerNorm 64-32-10"] == 3
    assert wanted["cnn(), 28 x 28"] == 1


@pytest.fixture
def messages():
    """Random samples, as many as 400 and those that the server of fm.spam keeps."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400 + 2 * 572, 4, generator=generator)
    return fm.Dataset(x, torch.randint(0, 2, (len(x),), generator=generator), classes=2)


def test_strategies_are_given_the_rounds_of_train(monkeypatch):
    fed, net = strategies.random_federation(3), fm.mlp(*strategies.WIDTHS)
    rounds = strategies.real_rounds(fed, net, 3)
    strategies.Training(fed, net, rounds).check_equal()
    for kind in strategies.STRATEGIES:
        strategy, server = kind(), strategies.server(fed, net)
        with monkeypatch.context() as watched:
            step = mock.Mock(wraps=strategy.step)
            watched.setattr(kind, "step", step)
            assert strategies.aggregation(strategy, server, rounds)() >= 0
            assert [call.args[2].t for call in step.mock_calls] == [1, 2, 3]
        done = strategy.step(server, strategy.init(server), rounds[0])
        hist = fm.train(fed, net, kind(), rounds=1, local=strategies.LOCAL, seed=strategies.SEED)
        assert torch.equal(done.theta, hist.theta)


def test_more_clients_share_the_same_messages(messages):
    unequal = strategies.federations(messages, (20, 40))
    equal = strategies.federations(messages, (20, 40), equal=True)
    for number in (20, 40):
        assert equal[number].sizes.sum() == unequal[number].sizes.sum() == 400
        assert equal[number].sizes.max() - equal[number].sizes.min() <= 1
        assert equal[number].corrupted == unequal[number].corrupted


def test_minibatches_of_a_round_by_hand():
    samples = [(torch.zeros(n, 2), torch.zeros(n, dtype=torch.long)) for n in (8, 70)]
    fed = fm.Federation.from_datasets(samples, validation=samples[0], test=samples[0], classes=2)
    said = strategies.describe(fed)  # of 32: 8, and 32 + 32 + 6
    assert said == "2 clients x 8-70 messages: 4 minibatches, 3 of the largest client, 61% full"


def test_a_strategys_cost_is_an_upper_limit(messages):
    found = strategies.overhead(1, clients=3, count=1)
    assert [r.what.split(": ")[1] for r in found] == [
        f"{kind.__name__} / local training" for kind in strategies.STRATEGIES
    ]
    grown = strategies.growth(messages, 1, clients=(10, 20, 30), rounds=1, retrained=1)
    assert {r.what: r.target for r in grown} == {
        "FRCCE, 1 rounds: 20 / 10 clients": None,
        "FRCCE, 1 rounds: 30 / 10 clients": strategies.GROWTH,
        "FRCCE, 1 rounds, equal sizes: 30 / 10 clients": None,
        "FedAvg, 1 rounds: 30 / 10 clients": None,
        "FedAvg, 1 rounds, equal sizes: 30 / 10 clients": None,
        "leave one out, 1 rounds: 30 / 10 clients": None,
    }
    assert all(r.at_most and min(r.values) > 0 for r in (*found, *grown))


@pytest.mark.parametrize("widths", [(6, 4, 10), (6, 5, 4, 10)])
def test_the_plain_loop_simulates_what_the_simulator_does(widths):
    assert fedccea.check_equal(widths, 40, 100, simulations=4) == 8


def test_the_loop_uses_the_first_samples_of_every_client(monkeypatch):
    fed = fedccea.random_federation((6, 10), 9, 5)
    loop, seen = fedccea.SimulatorLoop(fed, (6, 10)), []
    real = loop.client

    def client(t, k):
        seen.append((t, k, sorted(loop.order(t, k).tolist())))
        return real(t, k)

    monkeypatch.setattr(loop, "client", client)
    chance = torch.Generator().manual_seed(0)
    counts = torch.randint(1, 10, (2, 3, fedccea.CLIENTS), generator=chance)
    curves = loop.simulate(fm.logistic(6, 10).init(0), counts)
    assert curves.shape == (2, 3)
    wanted = [
        (t + 1, k, list(range(int(counts[s, t, k]))))
        for s in range(2)
        for t in range(3)
        for k in range(fedccea.CLIENTS)
    ]
    assert seen == wanted


def test_the_simulator_and_its_fits_have_targets():
    found = fedccea.simulations(1, (6, 10), 9, 5, count=2, rounds=1, target=3.0)
    assert found.what == "6-10, 20 clients x 9 samples: loop / simulator"
    assert found.target == 3.0
    fits = fedccea.fits(1, simulations=4, rounds=3, starts=2, steps=2)
    assert [(r.what, r.target) for r in fits] == [
        ("AAM, linear, 2 starts: torch.optim one by one / in one stack", fedccea.FITS),
        ("AAM, linear, 2 starts: fit_aam one by one / in one stack", None),
        ("AAM, hidden, 2 starts: fit_aam one by one / in one stack", None),
    ]
    assert min(*found.values, *(value for r in fits for value in r.values)) > 0


def test_a_worker_answers_every_turn_with_its_own_cpu_seconds():
    settings = {"widths": [4, 3, 2], "runs": 2, "clients": 2}
    with Worker(sys.executable, "tools.benchmarks.memory:simulation", **settings) as worker:
        first, second = worker.run(), worker.run()
    assert first["seconds"] > 0
    assert first["added"] >= 0
    assert second["stack"] == first["stack"] > 0


def test_a_worker_that_fails_hands_over_its_last_words():
    with (
        Worker(sys.executable, "tools.benchmarks.timing:nothing") as worker,
        pytest.raises(WorkerError, match="has no attribute 'nothing'"),
    ):
        worker.run()


def test_a_missing_package_is_named_with_the_way_to_install_it(capsys, monkeypatch):
    monkeypatch.delenv("FEDLAB_NOWHERE", raising=False)
    assert python_with("no_such_module", "no-such[extra]", "FEDLAB_NOWHERE") is None
    said = capsys.readouterr().out
    assert "not installed" in said
    assert "pip install 'no-such[extra]'" in said
    assert "FEDLAB_NOWHERE" in said
    assert python_with("json", "json", "FEDLAB_NOWHERE") == sys.executable
