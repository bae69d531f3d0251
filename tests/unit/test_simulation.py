"""simulate(): many trainings at once, each as if it were alone; interruptions; errors."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import joblib
import numpy as np
import pytest
import torch
from helpers import of_module, small_blocks
from torch import nn

import fedlab_mini as fm
from fedlab_mini.engine import local as training
from fedlab_mini.engine import simulate as simulation
from fedlab_mini.engine.local import LocalSGD, samples_used
from fedlab_mini.worlds.attacks import UpdateAttack

SIZES = (10, 1, 7, 22, 33)
LOCAL = LocalSGD(epochs=2, batch=8, lr=0.2, decay=0.5)
NETS = {
    "logistic": lambda: fm.logistic(6, 3),
    "mlp": lambda: fm.mlp(6, 8, 3),
    "three layers": lambda: fm.mlp(6, 8, 5, 3),
    "general": lambda: of_module(fm.mlp(6, 8, 3)),
    "cnn": lambda: fm.cnn((1, 2, 3), 3, channels=(2,), kernel=3, hidden=5),
}
nets = pytest.mark.parametrize("make_net", NETS.values(), ids=NETS.keys())


class Poison(UpdateAttack):
    """Sends NaN."""

    def __call__(self, updates, previous, generator):
        return torch.full_like(updates, torch.nan)


def shares(*shape: int, seed: int = 0) -> torch.Tensor:
    """Random shares, about a third of them 0 and a third of them 1."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(*shape, generator=generator, dtype=torch.float64)
    return (3 * drawn - 1).clamp(0, 1)


# --- what it computes ----------------------------------------------------------------------------


@nets
def test_everybody_always_is_train(make_fed, make_net):
    fed, net = make_fed(SIZES), make_net()
    history = fm.train(fed, net, fm.FedAvg(), rounds=3, local=LOCAL, seed=4)
    ones = torch.ones(2, 3, 5)
    loss = fm.simulate(fed, net, ones, local=LOCAL, seed=4, metric="loss", on="test")
    assert loss.shape == (2, 3)
    torch.testing.assert_close(loss, history.loss[1:].expand(2, -1), rtol=0, atol=1e-9)
    accuracy = fm.simulate(fed, net, ones.bool(), local=LOCAL, seed=4, on="test")
    assert torch.equal(accuracy, history.accuracy[1:].expand(2, -1))


@nets
def test_masks_are_trainings_of_the_clients_that_take_part(make_fed, plain, make_net):
    fed, net = make_fed(SIZES), make_net()
    masks = torch.tensor([[1, 0, 1, 0, 1], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1], [1, 1, 1, 1, 0]])
    participation = masks[:, None].expand(-1, 2, -1).clone()
    participation[3, 1] = torch.tensor([0, 1, 0, 1, 1])  # another coalition in round two
    got = fm.simulate(fed, net, participation, local=LOCAL, seed=3, metric="loss")
    for run, mask in enumerate(participation):
        theta = plain.train(fed, net, 2, LOCAL, 3, shares=mask)
        _, loss = plain.judge(net, theta, fed.validation)
        assert float(got[run, 1]) == pytest.approx(loss, abs=1e-9)


def test_shares_train_on_that_part_of_the_data(make_fed, plain):
    fed, net = make_fed((10, 4, 8)), fm.mlp(6, 8, 3)
    participation = torch.tensor([[[0.5, 0.25, 0.0], [1.0, 0.5, 0.125]]], dtype=torch.float64)
    got = fm.simulate(fed, net, participation, local=LOCAL, seed=3, metric="loss")
    theta = plain.train(fed, net, 2, LOCAL, 3, shares=participation[0])
    assert float(got[0, 1]) == pytest.approx(plain.judge(net, theta, fed.validation)[1], abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_are_rounded_up_to_whole_samples(make_fed, monkeypatch, dtype):
    fed, seen = make_fed((10, 100, 7, 1)), []
    real = training.train_rows

    def look(fed, net, thetas, run, entry, plan, lr, **memory):
        used = {k: sum(map(len, plan.batches(e))) for e, k in enumerate(plan.clients.tolist())}
        seen.append(used)
        return real(fed, net, thetas, run, entry, plan, lr, **memory)

    monkeypatch.setattr(training, "train_rows", look)
    for row, wanted in [
        ([0.1, 0.1, 0.1, 0.1], {0: 1, 1: 10, 2: 1, 3: 1}),
        ([0.7, 0.07, 0.5, 1.0], {0: 7, 1: 7, 2: 4, 3: 1}),
        ([0.3, 0.301, 3 / 7, 1e-6], {0: 3, 1: 31, 2: 3, 3: 1}),
        ([1.0, 0.999, 0.0, 0.999], {0: 10, 1: 100, 3: 1}),
        ([1e-9, 0.55, 0.9, 0.0], {0: 1, 1: 55, 2: 7}),
    ]:
        fm.simulate(fed, fm.logistic(6, 3), torch.tensor(row, dtype=dtype)[None, None])
        assert seen.pop() == wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_fraction_of_the_data_is_a_whole_number_of_samples(make_fed, dtype):
    sizes = torch.tensor([1, 2, 3, 7, 10, 49, 100, 641])
    fed = make_fed(sizes.tolist())
    for n in sizes.tolist():
        wanted = torch.arange(n + 1)
        shares = (wanted.double() / n).to(dtype)
        used = samples_used(fed, shares[:, None].expand(-1, len(sizes)))
        assert torch.equal(used[:, sizes == n][:, 0], wanted)
        assert ((used > 0) == (shares > 0)[:, None]).all()
        assert (used <= sizes).all()
        assert (used[1:] >= used[:-1]).all()
        between = (wanted[:-1].double() + 0.5) / n
        used = samples_used(fed, between.to(dtype)[:, None].expand(-1, len(sizes)))
        assert torch.equal(used[:, sizes == n][:, 0], wanted[1:])


def test_samples_used_keep_the_shape_of_the_shares(make_fed):
    fed = make_fed((4, 1, 6))
    assert samples_used(fed, torch.tensor([True, False, True])).tolist() == [4, 0, 6]
    assert samples_used(fed, torch.tensor([0, 1, 1])).tolist() == [0, 1, 6]
    used = samples_used(fed, torch.full((2, 5, 3), 0.5))
    assert used.shape == (2, 5, 3)
    assert used.dtype == torch.long
    assert used[1, 4].tolist() == [2, 1, 3]
    bad = fm.Federation(**{**vars(fed), "unusable": frozenset({1, 2})})
    assert samples_used(bad, torch.full((2, 3), 0.5)).tolist() == [[2, 0, 0]] * 2


def test_weights_are_the_samples_used(make_fed):
    """Half of a client's data weighs half: by the algebra of one round."""
    fed, net = make_fed((10, 30)), fm.logistic(6, 3)
    theta, local = net.init(0, dtype=torch.float64), LocalSGD(batch=64)

    def final(row: list[float]) -> float:
        """Loss after a round with the given shares."""
        return float(fm.simulate(fed, net, torch.tensor([[row]]), local=local, metric="loss"))

    both = fm.local_updates(fed, net, theta, local=local)
    mixed = theta + (10 * both[0] + 30 * both[1]) / 40
    assert final([1, 1]) == pytest.approx(float(net.evaluate(mixed[None], *fed.validation, "loss")))
    alone = theta + both[0]
    assert final([1, 0]) == pytest.approx(float(net.evaluate(alone[None], *fed.validation, "loss")))


def test_nobody_ever_is_the_untrained_model(make_fed):
    fed, net = make_fed(SIZES), fm.mlp(6, 8, 3)
    theta = net.init(5, dtype=torch.float64)
    wanted = net.evaluate(theta[None], *fed.validation, "loss").expand(2, 3)
    got = fm.simulate(fed, net, torch.zeros(2, 3, 5), seed=5, metric="loss")
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


def test_where_it_starts_and_what_it_is_judged_on(make_fed):
    fed, net = make_fed(SIZES), fm.mlp(6, 8, 3)
    theta, nobody = net.init(9, dtype=torch.float64), torch.zeros(1, 1, 5)
    for on in ("validation", "test"):
        for metric in ("accuracy", "loss"):
            got = fm.simulate(fed, net, nobody, theta=theta, on=on, metric=metric)
            wanted = net.evaluate(theta[None], *fed.server(on), metric)
            assert float(got) == pytest.approx(float(wanted))


def test_last_gives_the_last_column(make_fed):
    fed, net, p = make_fed(SIZES), fm.mlp(6, 8, 3), shares(4, 3, 5)
    whole = fm.simulate(fed, net, p, metric="loss")
    assert torch.equal(fm.simulate(fed, net, p, metric="loss", last=True), whole[:, -1:])


# --- a run does not depend on its neighbours -----------------------------------------------------


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize(
    "widths", [(64, 32, 10), (16, 8, 4), (6, 8, 3), (6, 3), (6, 7, 5, 3)], ids=str
)
def test_a_run_does_not_depend_on_its_company(make_fed, widths, dtype, atol):
    fed = make_fed(SIZES, inputs=widths[0], classes=widths[-1], dtype=dtype)
    net, p = fm.mlp(*widths), shares(140, 2, 5)  # more than one block
    together = fm.simulate(fed, net, p, metric="loss")
    for rows in (slice(0, 1), slice(3, 5), slice(40, 140), slice(139, 140), slice(7, 140, 9)):
        apart = fm.simulate(fed, net, p[rows], metric="loss")
        torch.testing.assert_close(apart, together[rows], rtol=0, atol=atol)
    turned = fm.simulate(fed, net, p.flip(0), metric="loss").flip(0)
    torch.testing.assert_close(turned, together, rtol=0, atol=atol)
    assert torch.equal(fm.simulate(fed, net, p, metric="loss"), together)


@pytest.mark.parametrize("backend", ["loky", "threading"])
@pytest.mark.parametrize("stacked", [True, False])
def test_jobs_side_by_side_give_the_same_bytes(make_fed, monkeypatch, backend, stacked):
    small_blocks(monkeypatch, 8)
    layers = fm.mlp(16, 8, 3).module
    net = fm.Model(layers if stacked else nn.Sequential(*layers, nn.Dropout(0.5)))
    fed, p = make_fed(SIZES, inputs=16), shares(40 if stacked else 24, 2, 5)
    one = fm.simulate(fed, net, p, metric="loss")
    with joblib.parallel_config(backend, n_jobs=4 if backend == "threading" else 2):
        assert torch.equal(fm.simulate(fed, net, p, metric="loss"), one)


def test_a_stack_of_any_size_gives_the_same(make_fed, monkeypatch):
    fed, net, p = make_fed(SIZES, inputs=16), fm.mlp(16, 8, 3), shares(9, 2, 5)
    wanted = fm.simulate(fed, net, p, metric="loss")
    for stack in (1, 3 * net.P * 8, 17 * net.P * 8):
        monkeypatch.setattr("fedlab_mini.engine.local.STACK", stack)
        torch.testing.assert_close(
            fm.simulate(fed, net, p, metric="loss"), wanted, rtol=0, atol=1e-12
        )


# --- who is left out -----------------------------------------------------------------------------


def test_a_client_with_nan_data_takes_no_part(make_fed):
    clean, net, p = make_fed(SIZES), fm.mlp(6, 8, 3), shares(6, 2, 5)
    pairs = [(x.clone(), y) for x, y in map(clean.client, range(5))]
    pairs[2][0][0, 0] = torch.inf
    server = {"validation": clean.validation, "test": clean.test}
    with pytest.warns(UserWarning, match="client 2"):
        fed = fm.Federation.from_datasets(pairs, **server, classes=3)
    with pytest.warns(UserWarning, match="client 2 .* takes no part"):
        got = fm.simulate(fed, net, p, metric="loss")
    without = p.clone()
    without[:, :, 2] = 0
    wanted = fm.simulate(clean, net, without, metric="loss")
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


def test_a_broken_update_is_left_out_of_its_round(make_fed):
    clean, net, p = make_fed(SIZES), fm.mlp(6, 8, 3), shares(6, 2, 5)
    fed = fm.Federation(**{**vars(clean), "attacks": {3: Poison()}})
    with pytest.warns(UserWarning, match="client 3 sent updates that are not finite"):
        got = fm.simulate(fed, net, p, metric="loss")
    without = p.clone()
    without[:, :, 3] = 0
    wanted = fm.simulate(clean, net, without, metric="loss")
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "attack", [fm.sign_flip(), fm.scale(3.0), fm.free_ride(0.1), fm.replay()], ids=repr
)
def test_attackers_attack_as_in_train(make_fed, attack):
    fed = fm.Federation(**{**vars(make_fed(SIZES)), "attacks": {3: attack, 0: fm.scale(0.5)}})
    net = fm.mlp(6, 8, 3)
    history = fm.train(fed, net, fm.FedAvg(), rounds=3, seed=2)
    got = fm.simulate(fed, net, torch.ones(2, 3, 5), seed=2, metric="loss", on="test")
    torch.testing.assert_close(got, history.loss[1:].expand(2, -1), rtol=0, atol=1e-9)


# --- interruptions -------------------------------------------------------------------------------


@pytest.fixture
def blocks(monkeypatch):
    """Small blocks of runs, and a list of how many runs each block that was computed had."""
    small_blocks(monkeypatch, 4)
    real, done = simulation.Simulation.run_block, []

    def count(self, participation):
        result = real(self, participation)
        done.append(len(participation))
        return result

    monkeypatch.setattr(simulation.Simulation, "run_block", count)
    return done


def test_256_coalitions_are_tasks_for_eight_workers(make_fed, monkeypatch):
    fed, net = make_fed((5, 3, 2, 4, 6, 1, 3, 2), inputs=16), fm.mlp(16, 8, 3)
    real, sizes = simulation.Simulation.run_block, []

    def count(self, participation):
        sizes.append(len(participation))
        return real(self, participation)

    monkeypatch.setattr(simulation.Simulation, "run_block", count)
    worth = fm.retraining_game(fed, net, 2, metric="loss").all()
    assert sizes == [32] * 8
    small_blocks(monkeypatch, 128)
    larger = fm.retraining_game(fed, net, 2, metric="loss").all()
    torch.testing.assert_close(larger, worth, rtol=0, atol=1e-12)  # make_fed gives float64


@pytest.mark.parametrize("finished", [0, 1, 3])
def test_an_interrupted_simulation_goes_on_without_redoing_blocks(
    make_fed, tmp_path, monkeypatch, blocks, finished
):
    fed, net, p, folder = make_fed(SIZES), fm.mlp(6, 8, 3), shares(18, 2, 5), tmp_path / "c"
    options = {"metric": "loss", "seed": 1}
    wanted = fm.simulate(fed, net, p, **options)
    assert blocks == [4, 4, 4, 4, 2]
    blocks.clear()
    counting, calls = simulation.Simulation.run_block, []

    def stop(*arguments):
        if len(calls) == finished:
            raise KeyboardInterrupt
        calls.append(1)
        return counting(*arguments)

    monkeypatch.setattr(simulation.Simulation, "run_block", stop)
    with pytest.raises(KeyboardInterrupt):
        fm.simulate(fed, net, p, **options, cache=folder)
    assert len([*folder.glob("*")]) == finished
    monkeypatch.setattr(simulation.Simulation, "run_block", counting)
    got = fm.simulate(fed, net, p, **options, cache=folder)
    assert got.numpy().tobytes() == wanted.numpy().tobytes()
    assert blocks == [4, 4, 4, 4, 2]  # every block once, over both attempts
    blocks.clear()
    again = fm.simulate(fed, net, p, **options, cache=folder)
    assert again.numpy().tobytes() == wanted.numpy().tobytes()
    assert blocks == []


def test_other_work_in_the_same_folder_is_not_taken_for_this_one(make_fed, tmp_path, blocks):
    fed, net, p = make_fed(SIZES), fm.mlp(6, 8, 3), shares(3, 2, 5)
    wanted = fm.simulate(fed, net, p, cache=tmp_path)
    attacked = fm.Federation(**{**vars(fed), "attacks": {1: fm.sign_flip()}})
    other = [
        ((fed, net, p), {"seed": 1}),
        ((fed, net, p), {"metric": "loss"}),
        ((fed, net, p), {"on": "test"}),
        ((fed, net, p), {"last": True}),
        ((fed, net, p), {"local": LOCAL}),
        ((fed, net, p), {"theta": net.init(7)}),
        ((fed, net, p * 0.5), {}),
        ((fed, net, p[:2]), {}),
        ((make_fed(SIZES, seed=1), net, p), {}),
        ((make_fed(SIZES, dtype=torch.float32), net, p), {}),
        ((attacked, net, p), {}),
        ((fed, fm.mlp(6, 7, 3), p), {}),
        ((fed, fm.Model(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))), p), {}),
    ]
    for done, (arguments, changes) in enumerate(other, start=2):
        fm.simulate(*arguments, cache=tmp_path, **changes)
        assert len(blocks) == done, changes
        assert torch.equal(fm.simulate(fed, net, p, cache=tmp_path), wanted)
        assert len(blocks) == done


def test_an_attack_without_a_repr_does_not_stop_a_resumption(make_fed, tmp_path, blocks):
    """Its default repr holds an address, which is another in every process."""
    p = shares(3, 1, 5)
    feds = [fm.Federation(**{**vars(make_fed(SIZES)), "attacks": {1: Poison()}}) for _ in range(2)]
    with pytest.warns(UserWarning, match="client 1"):
        first = fm.simulate(feds[0], fm.logistic(6, 3), p, cache=tmp_path)
    with pytest.warns(UserWarning, match="client 1"):  # from finished blocks, too
        assert torch.equal(fm.simulate(feds[1], fm.logistic(6, 3), p, cache=tmp_path), first)
    assert len(blocks) == 1


# --- memory --------------------------------------------------------------------------------------

MEMORY = textwrap.dedent("""
    import pathlib, resource
    import torch, fedlab_mini as fm

    def peak():  # MiB; on Linux not ru_maxrss: a child begins with its parent's
        status = pathlib.Path("/proc/self/status")
        if status.exists():
            lines = status.read_text().splitlines()
            return next(int(x.split()[1]) >> 10 for x in lines if x.startswith("VmHWM"))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20

    g = torch.Generator().manual_seed(0)
    draw = lambda n: (torch.randn(n, 64, generator=g), torch.randint(10, (n,), generator=g))
    fed = fm.Federation.from_datasets([draw(20)] * 30, validation=draw(100), test=draw(50))
    peaks = []
    for runs in (128, 2048):
        fm.simulate(fed, fm.mlp(64, 32, 10), torch.rand(runs, 1, 30, generator=g).round())
        peaks.append(peak())
    print(*peaks)
""")


@pytest.mark.skipif(sys.platform == "win32", reason="the resource module is not on Windows")
def test_memory_is_bounded_by_a_block_of_runs():
    """2,048 runs x 30 clients x 2,410 parameters in float32 would be 565 MiB."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    few, many = map(int, done.stdout.split())
    assert many - few < 40
    assert many < 1024


# --- errors --------------------------------------------------------------------------------------


def test_participation_may_be_of_numpy_or_lists(make_fed):
    fed, net, p = make_fed((4, 5)), fm.logistic(6, 3), shares(3, 2, 2)
    wanted = fm.simulate(fed, net, p)
    assert torch.equal(fm.simulate(fed, net, p.numpy()), wanted)
    assert torch.equal(fm.simulate(fed, net, p.tolist()), wanted)
    theta = np.zeros(21, dtype=np.int64)  # whole numbers are numbers
    assert torch.equal(
        fm.simulate(fed, net, p, theta=theta), fm.simulate(fed, net, p, theta=torch.zeros(21))
    )
