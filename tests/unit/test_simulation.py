"""simulate(): many trainings at once, each as if it were alone; interruptions."""

from __future__ import annotations

import joblib
import pytest
import torch
from helpers import Sends, of_module, same_bytes, small_blocks, with_attacks
from torch import nn

import fedlab_mini as fm
from fedlab_mini.engine import simulate as simulation
from fedlab_mini.engine.local import samples_used
from fedlab_mini.engine.minibatches import LocalSGD

SIZES = (10, 1, 7, 22, 33)
LOCAL = LocalSGD(epochs=2, batch=8, lr=0.2, decay=0.5)
NETS = {
    "logistic": lambda: fm.logistic(6, 3),
    "three layers": lambda: fm.mlp(6, 8, 5, 3),
    "general": lambda: of_module(fm.mlp(6, 8, 3)),
}


def shares(*shape: int, seed: int = 0) -> torch.Tensor:
    """Random shares, about a third of them 0 and a third of them 1."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(*shape, generator=generator, dtype=torch.float64)
    return (3 * drawn - 1).clamp(0, 1)


def close(one: torch.Tensor, other: torch.Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


# --- what it computes ----------------------------------------------------------------------------


@pytest.mark.parametrize("make_net", NETS.values(), ids=NETS.keys())
def test_runs_are_trainings_of_those_that_take_part_on_their_share_of_the_data(
    make_fed, plain, make_net
):
    """Another coalition in round two, among others; then shares of the data."""
    fed, net = make_fed(SIZES), make_net()
    masks = torch.tensor([[[1, 0, 1, 0, 1]] * 2, [[0, 0, 0, 0, 1], [0, 1, 0, 1, 1]]])
    for participation in (masks, shares(2, 2, 5)):
        given = {"local": LOCAL, "seed": 3, "metric": "loss"}
        got = fm.simulate(fed, net, participation, **given)
        for run, part in enumerate(participation):
            theta = plain.train(fed, net, 2, LOCAL, 3, shares=part)
            _, loss = plain.judge(net, theta, fed.validation)
            assert float(got[run, 1]) == pytest.approx(loss, abs=1e-9)
        assert torch.equal(fm.simulate(fed, net, participation, **given, last=True), got[:, -1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_fraction_of_the_data_is_a_whole_number_of_samples_rounded_up(make_fed, dtype):
    for n in (1, 2, 3, 7, 10, 49, 100, 641):
        fed, wanted = make_fed([n]), torch.arange(n + 1)
        for more, share in ((0, wanted.double()), (1, wanted[:-1].double() + 0.5)):
            used = samples_used(fed, (share / n).to(dtype)[:, None])[:, 0]
            assert torch.equal(used, wanted[more:])
    fed = fm.Federation(**{**vars(make_fed((4, 1, 6))), "unusable": frozenset({1})})
    used = samples_used(fed, torch.tensor([1e-9, 0.5, 0.55], dtype=dtype).expand(2, 5, 3))
    assert used.tolist() == [[[1, 0, 4]] * 5] * 2


def test_where_it_starts_and_what_it_is_judged_on(make_fed):
    """Nobody ever is the untrained model."""
    fed, net = make_fed(SIZES), fm.mlp(6, 8, 3)
    theta = net.init(9, dtype=torch.float64)
    for given, on in (({"seed": 9}, "validation"), ({"theta": theta}, "test")):
        got = fm.simulate(fed, net, torch.zeros(2, 3, 5), on=on, **given)
        close(got, net.evaluate(theta[None], *fed.server(on)).expand(2, 3))


# --- a run does not depend on its neighbours -----------------------------------------------------


def test_a_run_does_not_depend_on_its_company_or_on_its_stack(make_fed, monkeypatch):
    fed, net, p = make_fed(SIZES), fm.mlp(6, 7, 5, 3), shares(140, 2, 5)  # more than one block
    together = fm.simulate(fed, net, p, metric="loss")
    for rows in (slice(0, 1), slice(7, 140, 9)):
        close(fm.simulate(fed, net, p[rows], metric="loss"), together[rows])
    for stack in (1, 3 * net.P * 8):
        monkeypatch.setattr("fedlab_mini.engine.fast.stacks.STACK", stack)
        close(fm.simulate(fed, net, p[:9], metric="loss"), together[:9])


@pytest.mark.parametrize(("backend", "jobs"), [("loky", 2), ("threading", 4)])
def test_jobs_side_by_side_give_the_same_bytes(make_fed, monkeypatch, backend, jobs):
    small_blocks(monkeypatch, 8)
    net = fm.Model(nn.Sequential(*fm.mlp(6, 8, 3).module, nn.Dropout(0.5)))
    fed, p = make_fed(SIZES), shares(24, 2, 5)
    one = fm.simulate(fed, net, p, metric="loss")
    with joblib.parallel_config(backend, n_jobs=jobs):
        assert torch.equal(fm.simulate(fed, net, p, metric="loss"), one)


@pytest.mark.parametrize("broken", ["data", "updates"])
def test_a_client_whose_data_or_updates_are_no_numbers_takes_no_part(make_fed, broken):
    clean, net, p = make_fed(SIZES), fm.mlp(6, 8, 3), shares(6, 2, 5)
    if broken == "data":
        x = clean.x.clone()
        x[int(clean.offsets[2])] = torch.inf
        fed = fm.Federation(**{**vars(clean), "x": x, "unusable": frozenset({2})})
        words = "client 2 .* not finite and is left out"
    else:
        fed = with_attacks(clean, {2: Sends(torch.nan)})
        words = "client 2 sent updates that are not finite"
    with pytest.warns(UserWarning, match=words):
        got = fm.simulate(fed, net, p, metric="loss")
    without = p.clone()
    without[:, :, 2] = 0
    close(got, fm.simulate(clean, net, without, metric="loss"))


def test_momentum_adds_a_share_of_each_runs_own_last_step(make_fed):
    """The models of three rounds, by hand: one round each, from the model before."""
    fed, net, p = make_fed(SIZES), fm.mlp(6, 8, 3), shares(4, 3, 5)
    got = fm.simulate(fed, net, p, metric="loss", momentum=0.9, seed=3)
    assert torch.equal(
        fm.simulate(fed, net, p, metric="loss", momentum=0.0),
        fm.simulate(fed, net, p, metric="loss"),
    )
    everybody = torch.ones(1, 3, 5)
    theta, last = net.init(3, dtype=fed.x.dtype), 0
    losses = []
    for t in (1, 2, 3):
        updates = fm.local_updates(fed, net, theta, seed=3, t=t)
        last = 0.9 * last + (fed.sizes.double() / fed.sizes.sum()).to(updates) @ updates
        theta = theta + last
        losses.append(net.evaluate(theta[None], *fed.validation, "loss")[0])
    many = fm.simulate(fed, net, torch.cat([p, everybody]), metric="loss", momentum=0.9, seed=3)
    close(many[-1], torch.stack(losses))
    close(many[:-1], got)
    with pytest.raises(ValueError, match=r"momentum: expected a number in \[0, 1\), got 1"):
        fm.simulate(fed, net, p, momentum=1)


# --- blocks and interruptions --------------------------------------------------------------------


@pytest.fixture
def blocks(monkeypatch):
    """How many runs each block that was computed had."""
    real, done = simulation.Simulation.run_block, []

    def count(self, participation):
        result = real(self, participation)
        done.append(len(participation))
        return result

    monkeypatch.setattr(simulation.Simulation, "run_block", count)
    return done


def test_an_interrupted_simulation_goes_on_without_redoing_blocks(
    make_fed, tmp_path, monkeypatch, blocks
):
    small_blocks(monkeypatch, 4)
    fed, net, p, folder = make_fed(SIZES), fm.mlp(6, 8, 3), shares(18, 2, 5), tmp_path / "c"
    options = {"metric": "loss", "seed": 1}
    wanted = fm.simulate(fed, net, p, **options)
    assert blocks == [4, 4, 4, 4, 2]
    blocks.clear()
    counting = simulation.Simulation.run_block

    def stop(*arguments):
        if len(blocks) == 3:
            raise KeyboardInterrupt
        return counting(*arguments)

    monkeypatch.setattr(simulation.Simulation, "run_block", stop)
    with pytest.raises(KeyboardInterrupt):
        fm.simulate(fed, net, p, **options, cache=folder)
    assert len([*folder.glob("*")]) == 3
    monkeypatch.setattr(simulation.Simulation, "run_block", counting)
    for _ in range(2):
        assert same_bytes(fm.simulate(fed, net, p, **options, cache=folder), wanted)
        assert blocks == [4, 4, 4, 4, 2]  # every block once, over all attempts


def test_other_work_in_the_same_folder_is_not_taken_for_this_one(make_fed, tmp_path, blocks):
    fed, net, p = make_fed(SIZES), fm.mlp(6, 8, 3), shares(3, 2, 5)
    wanted = fm.simulate(fed, net, p, cache=tmp_path)
    changed = {"seed": 1, "metric": "loss", "on": "test", "last": True}
    changed |= {"local": LOCAL, "theta": net.init(7)}
    other = [
        *(((fed, net, p), {name: value}) for name, value in changed.items()),
        ((fed, net, p * 0.5), {}),
        ((make_fed(SIZES, seed=1), net, p), {}),
        ((with_attacks(fed, {1: fm.attacks.SignFlip()}), net, p), {}),
        ((fed, fm.Model(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))), p), {}),
    ]
    for done, (arguments, changes) in enumerate(other, start=2):
        fm.simulate(*arguments, cache=tmp_path, **changes)
        assert len(blocks) == done, changes
    again = fm.simulate(make_fed(SIZES), net, p.clone(), cache=tmp_path)
    assert torch.equal(again, wanted)
    assert len(blocks) == done
