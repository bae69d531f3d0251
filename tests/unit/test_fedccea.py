"""FedCCEA: what the simulator hands out and notes, how a fit begins, what the result says."""

from __future__ import annotations

import importlib
import itertools
import math

import pytest
import torch
from scipy import stats
from torch import Tensor

import fedlab_mini as fm

module = importlib.import_module("fedlab_mini.methods.fedccea")  # beside the function
SIZES = (12, 1, 7, 20)
LOCAL = fm.LocalSGD(epochs=2, batch=8, lr=0.2)
NET = fm.logistic(6, 3)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Uniform numbers in (0, 1), float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


@pytest.fixture
def given(monkeypatch):
    """No training: the participation tensors and options that ``simulate`` was called with."""
    calls: list[tuple[Tensor, dict]] = []

    def instead(fed, net, participation, **options):
        calls.append((participation, options))
        return torch.zeros(participation.shape[:2], dtype=torch.float64)

    monkeypatch.setattr(module, "simulate", instead)
    return calls


# --- simulator -----------------------------------------------------------------------------------


@pytest.mark.parametrize("local", [LOCAL, fm.LocalSGD(steps=7, batch=4)])
def test_sizes_are_whole_samples_and_cost_is_samples_trained_over_samples_held(
    make_fed, given, local
):
    runs = fm.methods.simulator(make_fed(SIZES), NET, 6, 5, local, 3)
    shares, mean, epochs = given[0][0], sum(SIZES) / 4, 0.0
    assert runs.full.tolist() == pytest.approx([n / mean for n in SIZES])
    for s, r, (k, n) in itertools.product(range(6), range(5), enumerate(SIZES)):
        used = max(1, math.ceil(n * float(shares[s, r, k])))
        assert float(runs.sizes[s, r, k]) == pytest.approx(used / mean, abs=1e-12)
        passed, left = 0, used
        for _ in range(local.steps or local.epochs * math.ceil(used / local.batch)):
            step = min(local.batch, left)
            passed, left = passed + step, left - step or used
        epochs += passed / n
    assert runs.cost.client_epochs == pytest.approx(epochs)
    assert runs.cost.model_evaluations == 30
    assert (runs.sizes[..., 1] == runs.full[1]).all()  # one sample: always used


def test_shares_are_uniform_and_every_one_is_drawn_anew(make_fed, given):
    """And of fewer simulations they are the first of more."""
    for simulations, seed in ((40, 1), (9, 1), (40, 2)):
        fm.methods.simulator(make_fed((3, 3, 3)), NET, simulations, 25, seed=seed)
    shares, few, other = (participation for participation, _ in given)
    assert stats.kstest(shares.flatten().numpy(), "uniform").pvalue > 0.01
    assert len(torch.cat([shares, other]).unique()) == 2 * shares.numel()
    assert torch.equal(few, shares[:9])


def test_accuracies_are_those_of_trainings_with_these_sizes(make_fed, plain):
    fed = make_fed(SIZES)
    runs = fm.methods.simulator(fed, NET, 3, 2, LOCAL, 6, metric="loss", on="test")
    shares = (runs.sizes / runs.full).clamp(max=1) - 1e-9
    for s in range(3):
        theta = plain.train(fed, NET, 2, LOCAL, 6, shares=shares[s])
        assert float(runs.accuracy[s, 1]) == pytest.approx(plain.judge(NET, theta, fed.test)[1])


def test_options_reach_simulate(make_fed, given, tmp_path):
    options = {"metric": "loss", "on": "test", "cache": tmp_path, "n_jobs": 2}
    fm.methods.simulator(make_fed(SIZES), NET, 2, 3, LOCAL, 7, **options)
    fm.fedccea(make_fed(SIZES), NET, 2, 3, LOCAL, 7, **options)
    assert [more for _, more in given] == [options | {"local": LOCAL, "seed": 7}] * 2


def test_a_client_with_bad_data_uses_and_contributes_nothing(make_fed):
    clean = make_fed((9, 5, 8, 14))
    pairs = [(x.clone(), y) for x, y in map(clean.client, range(4))]
    pairs[2][0][0, 0] = torch.inf
    server = {"validation": clean.validation, "test": clean.test}
    with pytest.warns(UserWarning, match="client 2"):
        fed = fm.Federation.from_datasets(pairs, **server, classes=3)
    with pytest.warns(UserWarning, match="client 2 .* not finite and is left out"):
        found = fm.fedccea(fed, NET, 6, 2, LOCAL)
    runs = found.simulations
    assert (runs.sizes > 0).all((0, 1)).tolist() == [True, True, False, True]
    used = runs.sizes * 9 / torch.tensor([9, 5, 8, 14])
    assert runs.cost.client_epochs == pytest.approx(2 * float(used.sum()))
    assert float(found.contribution[2]) == float(found.index[2]) == 0
    assert float(found.index.sum()) == pytest.approx(1)


# --- fitting -------------------------------------------------------------------------------------


def test_starts_begin_equal_or_random():
    sizes, accuracy = drawn(5, 3, 4), drawn(5, 3, seed=1)
    equal, random, other = (
        fm.methods.fit_aam(sizes, accuracy, starts=50, start=start, steps=3, lr=1e-300, seed=seed)
        for start, seed in (("equal", 0), ("random", 0), ("random", 1))
    )
    assert torch.equal(equal.model.omega, torch.full((50, 4), 1 / 4, dtype=torch.float64))
    assert torch.cat([random.model.omega, other.model.omega]).unique().numel() == 400
    assert 0.4 < float(random.model.omega.max()) < 0.5  # uniform up to 2 / K
    torch.testing.assert_close(equal.model.b2, accuracy.mean().expand(50))


# --- the result ----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"starts": 4}, {"starts": 1, "metric": "loss"}], ids=str)
@pytest.mark.parametrize(("simulations", "held"), [(4, 0), (14, 2)])
def test_the_result_is_what_the_fit_says_and_errors_are_those_on_the_last_fifth(
    make_fed, options, simulations, held
):
    found = fm.fedccea(make_fed(SIZES), NET, simulations, 3, LOCAL, 2, **options)
    runs = found.simulations
    worth = -runs.accuracy if "metric" in options else runs.accuracy
    wanted = fm.methods.settle(runs.sizes, worth, options["starts"], seed=2)
    assert torch.equal(found.fit.model.omega, wanted.model.omega)
    assert torch.equal(found.quality, wanted.model.omega[0])
    by_hand = [n / 10 * q for n, q in zip(SIZES, found.quality.tolist(), strict=True)]
    assert found.contribution.tolist() == pytest.approx(by_hand)
    assert found.index.tolist() == pytest.approx([v / sum(by_hand) for v in by_hand])
    assert found.slope == float(found.fit.model.slope(runs.sizes)[0])
    if options["starts"] == 1:
        assert math.isnan(found.agreement)
        assert found.spread.isnan().all()
    else:
        indices = torch.stack([fm.contribution_index(runs.full * omega) for omega in wanted.omega])
        torch.testing.assert_close(found.spread, indices.max(0).values - indices.min(0).values)
        pairs = itertools.combinations(indices, 2)
        assert found.agreement == pytest.approx(min(fm.spearman(a, b) for a, b in pairs))
    if not held:
        assert math.isnan(found.fit_error)
        return
    unseen, seen = worth[-held:], worth[:-held]
    guess = fm.methods.settle(runs.sizes[:-held], seen, 1, 2).model(runs.sizes[-held:])[0]
    assert found.fit_error == pytest.approx(float((guess - unseen).square().mean().sqrt()))
    mean_error = float((seen.mean(0) - unseen).square().mean().sqrt())
    assert found.mean_error == pytest.approx(mean_error)


@pytest.mark.parametrize("options", [{}, {"steps": 20}], ids=["settled", "stopped"])
def test_one_client_and_one_round(make_fed, options):
    found = fm.fedccea(make_fed((9,)), NET, 6, 3, **options)
    assert found.index.tolist() == found.simulations.full.tolist() == [1]
    assert math.isfinite(found.fit_error)
    assert fm.fedccea(make_fed(SIZES), NET, 6, 1, **options).quality.shape == (4,)
