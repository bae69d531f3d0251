"""FedCCEA: what the simulator hands out and notes, what a fit may see, what the result says."""

from __future__ import annotations

import importlib
import itertools
import math

import joblib
import numpy as np
import pytest
import torch
from helpers import small_blocks
from scipy import stats
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine import simulate as simulation

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


@pytest.fixture
def broken_fed(make_fed):
    """Four clients of which client 2 holds an infinite input."""
    clean = make_fed((9, 5, 8, 14))
    pairs = [(x.clone(), y) for x, y in map(clean.client, range(4))]
    pairs[2][0][0, 0] = torch.inf
    server = {"validation": clean.validation, "test": clean.test}
    with pytest.warns(UserWarning, match="client 2"):
        return fm.Federation.from_datasets(pairs, **server, classes=3)


def bytes_of(runs: module.Simulations) -> bytes:
    """Everything a simulator computes, as bytes."""
    return b"".join(t.numpy().tobytes() for t in (runs.sizes, runs.accuracy, runs.full))


# --- simulator: sizes ----------------------------------------------------------------------------


def test_sizes_are_whole_samples_in_units_of_the_mean_size(make_fed, given):
    fed = make_fed(SIZES)
    runs = fm.simulator(fed, NET, 6, 5, LOCAL, 3)
    shares = given[0][0]
    assert shares.shape == runs.sizes.shape == (6, 5, 4)
    assert runs.sizes.dtype == runs.accuracy.dtype == torch.float64
    mean = sum(SIZES) / 4
    assert runs.full.tolist() == pytest.approx([n / mean for n in SIZES])
    for s in range(6):
        for r in range(5):
            for k, n in enumerate(SIZES):
                used = max(1, math.ceil(n * float(shares[s, r, k])))
                assert float(runs.sizes[s, r, k]) == pytest.approx(used / mean, abs=1e-12)
    assert (runs.sizes <= runs.full).all()
    assert (runs.sizes[..., 1] == runs.full[1]).all()  # one sample: always used


def test_shares_are_uniform_and_every_one_is_drawn_anew(make_fed, given):
    fm.simulator(make_fed((3, 3, 3)), NET, 40, 25, seed=1)
    shares = given[0][0]
    assert stats.kstest(shares.flatten().numpy(), "uniform").pvalue > 0.01
    assert len(shares.unique()) == shares.numel()
    for dim in range(3):  # simulations, rounds and clients are not copies of each other
        assert abs(np.corrcoef(shares.transpose(0, dim).flatten(1)[:2].numpy())[0, 1]) < 0.3


def test_no_share_is_zero(make_fed, given, monkeypatch):
    real = torch.rand

    def floor(*shape, **options):
        return real(*shape, **options) * 0

    monkeypatch.setattr(torch, "rand", floor)
    runs = fm.simulator(make_fed(SIZES), NET, 2, 3)
    assert (given[0][0] > 0).all()
    wanted = torch.full((2, 3, 4), 4 / sum(SIZES), dtype=torch.float64)
    torch.testing.assert_close(runs.sizes, wanted)


def test_fewer_simulations_are_the_first_of_more(make_fed):
    fed = make_fed(SIZES)
    few, many = (fm.simulator(fed, NET, s, 3, LOCAL, 2, metric="loss") for s in (5, 10))
    assert torch.equal(few.sizes, many.sizes[:5])
    torch.testing.assert_close(few.accuracy, many.accuracy[:5], rtol=0, atol=1e-12)
    assert many.cost.client_epochs > few.cost.client_epochs


def test_shares_belong_to_client_ids_whatever_the_clients_hold(make_fed, given):
    """Deal the data to other ids: id k keeps its shares, its size is that of its new data."""
    turned = (20, 12, 1, 7)
    for sizes in (SIZES, turned, (5, 5, 5, 5)):
        runs = fm.simulator(make_fed(sizes, seed=sum(sizes[:1])), NET, 3, 2, seed=4)
        assert torch.equal(given[-1][0], given[0][0])
        wanted = torch.ceil(given[0][0] * torch.tensor(sizes)) / (sum(sizes) / 4)
        torch.testing.assert_close(runs.sizes, wanted)
    other = fm.simulator(make_fed(SIZES), NET, 3, 2, seed=5)
    assert not torch.equal(given[-1][0], given[0][0])
    assert other.sizes.shape == (3, 2, 4)


def test_a_client_with_bad_data_uses_nothing(broken_fed):
    with pytest.warns(UserWarning, match="client 2 .* takes no part"):
        runs = fm.simulator(broken_fed, NET, 3, 2, LOCAL)
    assert (runs.sizes[..., 2] == 0).all()
    assert (runs.sizes[..., [0, 1, 3]] > 0).all()
    assert runs.full.tolist() == pytest.approx([1, 5 / 9, 8 / 9, 14 / 9])
    used = runs.sizes * 9 / torch.tensor([9, 5, 8, 14])
    assert runs.cost.client_epochs == pytest.approx(2 * float(used.sum()))


# --- simulator: accuracies -----------------------------------------------------------------------


def test_accuracies_are_those_of_trainings_with_these_sizes(make_fed, plain):
    fed = make_fed(SIZES)
    for metric, on in (("accuracy", "validation"), ("loss", "test")):
        runs = fm.simulator(fed, NET, 3, 2, LOCAL, 6, metric=metric, on=on)
        shares = (runs.sizes / runs.full).clamp(max=1)
        again = fm.simulate(fed, NET, shares, local=LOCAL, seed=6, metric=metric, on=on)
        assert torch.equal(runs.accuracy, again)
        for s in range(3):
            theta = plain.train(fed, NET, 2, LOCAL, 6, shares=shares[s] - 1e-9)
            judged = plain.judge(NET, theta, fed.server(on))[metric == "loss"]
            assert float(runs.accuracy[s, 1]) == pytest.approx(judged, abs=1e-9)


def test_a_smaller_share_is_part_of_a_larger_one(make_fed, plain):
    fed, local = make_fed((11, 30, 1)), fm.LocalSGD(epochs=2, batch=4)

    def samples(k: int, count: int, t: int) -> set[int]:
        batches = plain.batches(fed, local, 3, t, k, count)
        return set(torch.cat(batches).tolist())

    for k, n in enumerate(fed.sizes.tolist()):
        chain = [samples(k, count, 1) for count in range(1, n + 1)]
        assert [len(part) for part in chain] == list(range(1, n + 1))
        assert all(less < more for less, more in itertools.pairwise(chain))
        assert chain == [samples(k, count, 2) for count in range(1, n + 1)]  # in every round
    assert samples(1, 7, 1) != set(range(7))  # of a shuffle, not of the order they lie in


def test_the_same_seed_gives_the_same_bytes(make_fed):
    fed = make_fed(SIZES)
    first = fm.simulator(fed, NET, 4, 3, LOCAL, 1)
    assert bytes_of(fm.simulator(fed, NET, 4, 3, LOCAL, 1)) == bytes_of(first)
    assert bytes_of(fm.simulator(fed, NET, 4, 3, LOCAL, 2)) != bytes_of(first)


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_an_interrupted_simulator_ends_with_the_same_bytes(
    make_fed, tmp_path, monkeypatch, finished
):
    fed = make_fed(SIZES)
    small_blocks(monkeypatch, 2)
    wanted = bytes_of(fm.simulator(fed, NET, 5, 3, LOCAL, 1, metric="loss"))
    real, calls = simulation.Simulation.run_block, []

    def stop(*arguments):
        if len(calls) == finished:
            raise KeyboardInterrupt
        calls.append(1)
        return real(*arguments)

    monkeypatch.setattr(simulation.Simulation, "run_block", stop)
    with pytest.raises(KeyboardInterrupt):
        fm.simulator(fed, NET, 5, 3, LOCAL, 1, metric="loss", cache=tmp_path)
    finished = 3  # blocks are all of it, over both attempts
    done = fm.simulator(fed, NET, 5, 3, LOCAL, 1, metric="loss", cache=tmp_path)
    assert bytes_of(done) == wanted
    with pytest.raises(KeyboardInterrupt):  # of another seed nothing is known
        fm.simulator(fed, NET, 5, 3, LOCAL, 2, metric="loss", cache=tmp_path)


def test_options_reach_simulate(make_fed, given, tmp_path):
    fed, more = make_fed(SIZES), {"cache": tmp_path, "n_jobs": 2}
    fm.simulator(fed, NET, 2, 3, LOCAL, 7, metric="loss", on="test", **more)
    options = {"local": LOCAL, "seed": 7, "metric": "loss", "on": "test"}
    assert given[0][1] == options | more


def test_two_jobs_give_the_same_bytes(make_fed, monkeypatch):
    small_blocks(monkeypatch, 2)
    fed = make_fed(SIZES)
    one = fm.simulator(fed, NET, 5, 2, LOCAL)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert bytes_of(fm.simulator(fed, NET, 5, 2, LOCAL)) == bytes_of(one)


# --- simulator: cost -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "local",
    [
        fm.LocalSGD(),
        fm.LocalSGD(epochs=3, batch=5),
        fm.LocalSGD(steps=1, batch=4),
        fm.LocalSGD(steps=7, batch=4, epochs=2),
    ],
    ids=["one epoch", "three", "one step", "seven steps"],
)
def test_cost_counts_samples_trained_over_samples_held(make_fed, given, local):
    runs = fm.simulator(make_fed(SIZES), NET, 3, 4, local, 2)
    epochs = 0.0
    for s in range(3):
        for r in range(4):
            for k, n in enumerate(SIZES):
                used = round(float(runs.sizes[s, r, k]) * sum(SIZES) / 4)
                passed, left, steps = 0, used, local.steps
                for _ in range(steps or local.epochs * math.ceil(used / local.batch)):
                    step = min(local.batch, left)
                    passed, left = passed + step, left - step or used
                epochs += passed / n
    assert runs.cost.client_epochs == pytest.approx(epochs)
    assert runs.cost.model_evaluations == 12
    assert runs.cost.seconds > 0


def test_cost_is_about_half_an_epoch_a_client(make_fed, given):
    runs = fm.simulator(make_fed((200, 300, 400)), NET, 20, 10, fm.LocalSGD(epochs=2))
    assert runs.cost.client_epochs == pytest.approx(20 * 10 * 3 / 2 * 2, rel=0.1)


# --- what a fit may see --------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["equal", "random"])
@pytest.mark.parametrize("form", ["linear", "hidden"])
def test_a_hidden_simulation_changes_nothing(form, start):
    sizes, accuracy = drawn(8, 4, 3), drawn(8, 4, 3)[..., 0]
    used = torch.ones(2, 8)
    used[1, 6:] = 0
    changed, moved = accuracy.clone(), sizes.clone()
    changed[7, 1], moved[6] = 0.987, drawn(4, 3, seed=9)
    first, other = (
        fm.fit_aam(x, y, used=used, form=form, start=start, steps=25, every=5)
        for x, y in ((sizes, accuracy), (moved, changed))
    )
    for name in ("omega", "w1", "b1", "w2", "b2"):
        mine, twin = getattr(first.model, name), getattr(other.model, name)
        assert torch.equal(mine[1], twin[1]), name
        assert not torch.equal(mine[0], twin[0]), name
    assert torch.equal(first.loss[:, 1], other.loss[:, 1])


def test_used_may_be_whole_numbers_or_bool():
    sizes, accuracy = drawn(6, 3, 2), drawn(6, 3, seed=1)
    used = torch.tensor([[1, 1, 0, 1, 0, 1]])
    found = fm.fit_aam(sizes, accuracy, used=used, steps=10).model.omega
    same = fm.fit_aam(sizes, accuracy, used=used.bool(), steps=10).model.omega
    assert torch.equal(found, same)
    numpy = fm.fit_aam(sizes.numpy(), accuracy.tolist(), used=used.numpy(), steps=np.int64(10))
    assert torch.equal(found, numpy.model.omega)


def test_paper_versus_code_names_every_choice_with_what_the_function_does(make_fed, given):
    rows = fm.FedCCEAResult.departures()
    assert rows["on"] == {"as printed": "test", "ours": "validation"}
    assert rows["steps"] == {"as printed": "not said", "ours": "until settled"}
    assert rows["starts"] == {"as printed": "not said", "ours": "3"}
    found = fm.fedccea(make_fed(SIZES), NET, 5, 2)
    assert given[0][1]["on"] == rows["on"]["ours"]
    assert found.fit.omega.shape == (3, 4)
    assert all(row["as printed"] != row["ours"] for row in rows.values())


# --- fitting -------------------------------------------------------------------------------------


def test_starts_begin_equal_or_random():
    sizes, accuracy = drawn(5, 3, 4), drawn(5, 3, seed=1)
    models = {
        start: fm.fit_aam(sizes, accuracy, starts=50, start=start, steps=1, lr=1e-300).model
        for start in ("equal", "random")
    }
    assert torch.equal(models["equal"].omega, torch.full((50, 4), 1 / 4, dtype=torch.float64))
    omega = models["random"].omega
    assert omega.unique().numel() == 200
    assert stats.kstest(omega.flatten().numpy() * 2, "uniform").pvalue > 0.01  # of [0, 2 / K)
    for name in ("w1", "b1", "w2", "b2"):  # the layers above do not depend on it
        assert torch.equal(*(getattr(model, name) for model in models.values()))
        assert (getattr(models["equal"], name) >= 0).all()
    assert len(models["equal"].w1.flatten(1).unique(dim=0)) == 50
    torch.testing.assert_close(models["equal"].b2, accuracy.mean().expand(50))


def test_fits_are_one_for_every_start_or_row_of_used():
    sizes, accuracy = drawn(5, 3, 4), drawn(5, 3, seed=1)
    for fits, fit in (
        (1, fm.fit_aam(sizes, accuracy, steps=120, every=50)),
        (4, fm.fit_aam(sizes, accuracy, starts=4, steps=120, every=50)),
        (2, fm.fit_aam(sizes, accuracy, used=torch.ones(2, 5), steps=120, every=50)),
    ):
        assert fit.model.omega.shape == (fits, 4)
        assert fit.model.w1.shape == (fits, 10, 3)
        assert fit.loss.shape == (2, fits)
        assert fit.omega.shape == (2, fits, 4)
        assert fit.every == 50
        assert fit.model(sizes).shape == (fits, 5, 3)


def test_fewer_steps_than_are_noted_leave_empty_traces():
    fit = fm.fit_aam(drawn(5, 3, 4), drawn(5, 3), starts=2, steps=3)
    assert fit.loss.shape == (0, 2)
    assert fit.omega.shape == (0, 2, 4)


def test_the_same_seed_gives_the_same_fit():
    sizes, accuracy = drawn(5, 3, 4), drawn(5, 3, seed=1)
    one, two, other = (
        fm.fit_aam(sizes, accuracy, start="random", steps=20, seed=seed).model.omega
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_a_fit_leaves_its_data_and_the_global_generator_alone():
    sizes, accuracy = drawn(5, 3, 4).float(), drawn(5, 3, seed=1).float()
    copies, state = (sizes.clone(), accuracy.clone()), torch.get_rng_state()
    fit = fm.fit_aam(sizes, accuracy, steps=5)
    assert torch.equal(sizes, copies[0])
    assert torch.equal(accuracy, copies[1])
    assert torch.equal(torch.get_rng_state(), state)
    assert fit.model.omega.dtype == torch.float64
    assert not fit.model.omega.requires_grad


@pytest.mark.parametrize("form", ["linear", "hidden"])
def test_clients_may_come_in_any_order(form):
    sizes, order = 2 * drawn(12, 3, 4), [2, 0, 3, 1]
    quality = torch.tensor([0.5, 0.3, 0.1, 0.2], dtype=torch.float64)
    accuracy = 0.3 + 0.1 * (sizes @ quality).cumsum(1)
    plain = fm.fit_aam(sizes, accuracy, form=form, steps=100).model
    turned = fm.fit_aam(sizes[..., order], accuracy, form=form, steps=100).model
    torch.testing.assert_close(turned.omega, plain.omega[:, order], rtol=0, atol=1e-9)
    torch.testing.assert_close(turned.w1, plain.w1, rtol=0, atol=1e-9)


# --- the result ----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"steps": 120}], ids=["settled", "stopped"])
def test_quality_contribution_and_index_belong_together(make_fed, options):
    fed = make_fed(SIZES)
    found = fm.fedccea(fed, NET, 10, 3, LOCAL, 2, **options)
    runs = found.simulations
    assert bytes_of(runs) == bytes_of(fm.simulator(fed, NET, 10, 3, LOCAL, 2))
    assert torch.equal(found.quality, found.fit.model.omega[0])
    assert (found.quality >= 0).all()
    by_hand = [n / 10 * q for n, q in zip(SIZES, found.quality.tolist(), strict=True)]
    assert found.contribution.tolist() == pytest.approx(by_hand)
    assert found.index.tolist() == pytest.approx([v / sum(by_hand) for v in by_hand])
    assert float(found.index.sum()) == pytest.approx(1)
    assert found.slope == float(found.fit.model.slope(runs.sizes)[0])
    assert found.cost.client_epochs == runs.cost.client_epochs
    assert found.cost.model_evaluations == 30
    assert found.cost.seconds >= runs.cost.seconds
    assert list(found.to_frame()) == ["quality", "contribution", "cci", "spread"]


def test_the_fit_is_the_settled_one_and_says_how_far_its_starts_agree(make_fed):
    found = fm.fedccea(make_fed(SIZES), NET, 20, 3, LOCAL, 2, starts=4)
    runs = found.simulations
    wanted = fm.settle(runs.sizes, runs.accuracy, 4, 2)
    assert torch.equal(found.fit.omega, wanted.omega)
    indices = torch.stack([fm.contribution_index(runs.full * omega) for omega in wanted.omega])
    assert torch.equal(found.index, indices[0])
    torch.testing.assert_close(found.spread, indices.max(0).values - indices.min(0).values)
    pairs = itertools.combinations(indices, 2)
    assert found.agreement == pytest.approx(min(fm.spearman(a, b) for a, b in pairs))


@pytest.mark.parametrize("options", [{"starts": 1}, {"steps": 5}], ids=str)
def test_one_start_knows_no_other(make_fed, options):
    found = fm.fedccea(make_fed(SIZES), NET, 6, 2, LOCAL, **options)
    assert math.isnan(found.agreement)
    assert found.spread.isnan().all()


def test_only_the_linear_form_is_settled(make_fed, given):
    with pytest.raises(ValueError, match=r"^form: .*steps"):
        fm.fedccea(make_fed(SIZES), NET, 5, 2, form="hidden")
    assert given == []


@pytest.mark.parametrize(
    "options", [{}, {"neutral": True}, {"steps": 30}, {"steps": 30, "form": "hidden"}], ids=str
)
@pytest.mark.parametrize(("simulations", "held"), [(5, 1), (9, 1), (10, 2), (14, 2)])
def test_errors_are_those_on_the_last_fifth(make_fed, options, simulations, held):
    found = fm.fedccea(make_fed(SIZES), NET, simulations, 3, LOCAL, **options)
    sizes, accuracy = found.simulations.sizes, found.simulations.accuracy
    seen = simulations - held
    fitted = fm.fit_aam if "steps" in options else fm.settle
    first = {} if "steps" in options else {"starts": 1}
    guess = fitted(sizes[:seen], accuracy[:seen], **first, **options).model(sizes)[0]
    fit, mean, cells = 0.0, 0.0, [(s, r) for s in range(seen, simulations) for r in range(3)]
    for s, r in cells:
        average = sum(float(accuracy[i, r]) for i in range(seen)) / seen
        fit += (float(guess[s, r]) - float(accuracy[s, r])) ** 2
        mean += (average - float(accuracy[s, r])) ** 2
    assert found.fit_error == pytest.approx(math.sqrt(fit / len(cells)))
    assert found.mean_error == pytest.approx(math.sqrt(mean / len(cells)))


def test_too_few_simulations_give_no_errors(make_fed):
    for simulations in (1, 4):
        found = fm.fedccea(make_fed(SIZES), NET, simulations, 2)
        assert math.isnan(found.fit_error)
        assert math.isnan(found.mean_error)
        assert found.quality.shape == (4,)
        assert float(found.index.sum()) == pytest.approx(1)


def test_options_reach_simulator_and_fit(make_fed, tmp_path):
    fed = make_fed(SIZES)
    options = {"form": "hidden", "neutral": True, "steps": 60, "lr": 0.03}
    found = fm.fedccea(fed, NET, 6, 2, LOCAL, 4, **options, on="test", cache=tmp_path)
    runs = fm.simulator(fed, NET, 6, 2, LOCAL, 4, on="test")
    assert len([*tmp_path.glob("*.npz")]) == 1
    assert bytes_of(found.simulations) == bytes_of(runs)
    fit = fm.fit_aam(runs.sizes, runs.accuracy, seed=4, **options)
    assert torch.equal(found.quality, fit.model.omega[0])
    other = fm.simulator(fed, NET, 6, 2, LOCAL, 4)
    assert not torch.equal(runs.accuracy, other.accuracy)


def test_the_same_seed_gives_the_same_result(make_fed):
    fed = make_fed(SIZES)
    one, two, other = (fm.fedccea(fed, NET, 5, 2, LOCAL, s).quality for s in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("options", [{}, {"steps": 20}], ids=["settled", "stopped"])
def test_one_client_and_one_round(make_fed, options):
    found = fm.fedccea(make_fed((9,)), NET, 6, 3, **options)
    assert found.quality.shape == (1,)
    assert found.index.tolist() == [1]
    assert found.simulations.full.tolist() == [1]
    assert math.isfinite(found.fit_error)
    assert fm.fedccea(make_fed(SIZES), NET, 6, 1, **options).quality.shape == (4,)


@pytest.mark.parametrize("options", [{"starts": 1}, {"steps": 50}], ids=["settled", "stopped"])
def test_clients_of_one_sample_cannot_be_told_apart(make_fed, options):
    found = fm.fedccea(make_fed((1, 1, 1)), NET, 6, 2, **options)
    assert (found.simulations.sizes == 1).all()
    torch.testing.assert_close(found.index, torch.full((3,), 1 / 3, dtype=torch.float64))


def test_starts_disagree_where_clients_cannot_be_told_apart(make_fed):
    found = fm.fedccea(make_fed((1, 1, 1)), NET, 6, 2)
    assert found.agreement < 0.95
    assert float(found.spread.max()) > 0.1


def noisy_federation(noisy: int) -> fm.Federation:
    """Four clients with 60 samples, of which one has random labels."""
    generator = torch.Generator().manual_seed(0)
    rule = torch.randn(6, 3, generator=generator)
    x = torch.randn(5, 60, 6, generator=generator)
    y = (x @ rule).argmax(2)
    y[3] = torch.randint(3, (60,), generator=generator)
    order = [0, 1, 2]
    order.insert(noisy, 3)
    server = {"validation": (x[4], y[4]), "test": (x[4], y[4])}
    return fm.Federation.from_datasets([(x[k], y[k]) for k in order], **server)


@pytest.mark.parametrize("noisy", [0, 2])
@pytest.mark.parametrize("metric", ["accuracy", "loss"])
@pytest.mark.parametrize("options", [{}, {"steps": 600, "lr": 0.02}], ids=["settled", "stopped"])
def test_quality_stays_with_the_client_that_has_it(noisy, metric, options):
    fed = noisy_federation(noisy)
    local = fm.LocalSGD(batch=16, lr=0.1)
    found = fm.fedccea(fed, NET, 60, 3, local, metric=metric, **options)
    assert float(found.quality.max()) > 0
    assert int(found.quality.argmin()) == int(found.index.argmin()) == noisy
    assert float(found.index[noisy]) < 0.2


@pytest.mark.parametrize("options", [{}, {"steps": 40}], ids=["settled", "stopped"])
def test_a_client_with_bad_data_contributes_nothing(broken_fed, options):
    with pytest.warns(UserWarning, match="client 2 .* takes no part"):
        found = fm.fedccea(broken_fed, NET, 6, 2, LOCAL, **options)
    assert float(found.contribution[2]) == float(found.index[2]) == 0
    assert float(found.index.sum()) == pytest.approx(1)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"form": "cubic"}, "form"),
        ({"neutral": None}, "neutral"),
        ({"starts": 0}, "starts"),
        ({"steps": 0}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"lr": -1.0}, "lr"),
        ({"lr": math.nan}, "lr"),
        ({"lr": "fast"}, "lr"),
    ],
    ids=str,
)
def test_bad_options_of_the_fit_are_named_before_anything_is_simulated(
    make_fed, given, changes, name
):
    with pytest.raises((ValueError, TypeError), match=rf"^{name}: "):
        fm.fedccea(make_fed((4, 5)), NET, 5, 2, **changes)
    assert given == []


def test_one_group_of_runs_is_not_a_start_for_several():
    with pytest.raises(ValueError, match=r"^starts: "):
        fm.fit_aam(drawn(5, 3, 2), drawn(5, 3), steps=2, starts=2, used=torch.ones(2, 5))
