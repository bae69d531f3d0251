"""Flower: every strategy over nodes that answer late, wrongly or never; nothing is simulated but
the network, except in one test."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from helpers import each_value, with_all_cases, with_attacks

import chapters
import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from flwr.app import Error, Message, RecordDict
from nodes import LOCAL, NODE, SIZES, Grid, Spy, changed, identity, over_nodes

import fedlab_flower as flower

assert identity  # a fixture of every test here


def assert_alike(one: fm.History, other: fm.History) -> None:
    """The same training up to rounding."""
    for name in ("theta", "scores", "weights", "accuracy", "loss"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=1e-6)
    assert torch.equal(one.selected, other.selected)
    assert one.cost.client_epochs == other.cost.client_epochs
    assert one.cost.model_evaluations == other.cost.model_evaluations


def strategies() -> dict[str, Callable[..., fm.FedAvg]]:
    """Every strategy of the book; some clients a round where it lets one say so."""
    kinds = [getattr(fm, name) for name in fm.methods.__all__]
    kinds += [getattr(fb, name) for name in fb.methods.__all__]
    kinds = [k for k in kinds if isinstance(k, type) and issubclass(k, fm.FedAvg)]
    few = lambda k: k(3) if issubclass(k, fm.SFedAvg) else k(per_round=3)  # noqa: E731
    return {k.__name__: lambda k=k: few(k) for k in kinds}


@pytest.mark.parametrize(
    ("name", "attack"), each_value(list(strategies()), [None, fm.replay(), fm.free_ride(0.1)])
)
def test_every_strategy_gives_what_it_gives_in_one_process(make_fed, name, attack):
    make = strategies()[name]
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    fed = fed if attack is None else with_attacks(fed, {2: attack})
    wanted = fm.train(fed, net, make(), rounds=4, local=LOCAL, seed=3)
    assert_alike(over_nodes(fed, net, make()), wanted)


@pytest.mark.parametrize("local", [LocalSGD(steps=7, batch=5), LocalSGD(batch=64, decay=0.5)])
def test_any_module_and_any_local_training(make_fed, local):
    """Dropout, too, is drawn for the client, not for its place."""
    fed = make_fed(SIZES)
    module = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.Dropout(0.4), torch.nn.Linear(5, 3)
    )
    net = fm.Model(module.double())
    wanted = fm.train(fed, net, fm.FedAvg(3), rounds=3, local=local, seed=5)
    assert_alike(over_nodes(fed, net, fm.FedAvg(3), 3, local=local, seed=5), wanted)


def swapped() -> tuple[fm.Federation, fm.Model, Callable[[], fm.LabelStandardisation]]:
    """A federation in which two labels are exchanged, and the strategy that undoes it."""
    given = {"split": fm.iid(), "relevant": 4, "irrelevant": 0, "seed": 1}
    fed = fm.irrelevant_digits(corrupt=fm.swap_labels((1, 2)), **given).to(dtype=torch.float64)
    return fed, fm.mlp(64, 16, 5), lambda: fm.LabelStandardisation(3)


def test_in_a_crowd_minibatches_are_dealt_otherwise_and_alike(make_fed, monkeypatch):
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    few = fm.train(fed, net, fm.FedAvg(3), rounds=3, local=LOCAL, seed=3)
    monkeypatch.setattr("fedlab_mini.engine.minibatches.CROWD", 2)
    many = fm.train(fed, net, fm.FedAvg(3), rounds=3, local=LOCAL, seed=3)
    assert not torch.equal(few.theta, many.theta)
    assert_alike(over_nodes(fed, net, fm.FedAvg(3), 3), many)


def test_clients_rename_labels_at_home(tmp_path):
    fed, net, make = swapped()
    options = {"local": LocalSGD(), "seed": 1}
    wanted = fm.train(fed, net, make(), rounds=20, **options)
    assert wanted.strategy.corrections.sum() >= 1
    for folder in (None, tmp_path):
        found = over_nodes(fed, net, make(), 20, folder=folder, **options)
        assert_alike(found, wanted)
        assert torch.equal(found.strategy.corrections, wanted.strategy.corrections)
        assert not len(found.labels)
    assert len(list(tmp_path.iterdir())) == int((wanted.strategy.corrections > 0).sum())


class Killed(Exception):
    """Stands for kill -9: nothing of the server's process is left but its files."""


@pytest.mark.parametrize("last", [3, 11, 14])
def test_a_server_that_is_killed_goes_on_to_the_same_bytes(tmp_path, last):
    """Clients have renamed labels by then, and one round more than the server remembers."""
    fed, net, make = swapped()
    options = {"local": LocalSGD(), "seed": 1}

    class Kills(Grid):
        def send_and_receive(self, messages, *, timeout=None):
            replies = super().send_and_receive(messages, timeout=timeout)
            if self.t == last and self.asked[-1][2] == "query.answer":
                raise Killed
            if self.t == last + 1:
                raise Killed
            return replies

    whole = over_nodes(fed, net, make(), 20, folder=tmp_path / "a", **options)
    given = {"folder": tmp_path / "b", "checkpoint": tmp_path / "c.npz"} | options
    with pytest.raises(Killed):
        over_nodes(fed, net, make(), 20, grid=Kills, **given)
    again = over_nodes(fed, net, make(), 20, **given)
    for name in ("theta", "scores", "weights", "loss"):
        assert torch.equal(getattr(whole, name), getattr(again, name)), name


def test_labels_that_a_node_has_lost_are_an_error_of_its_own(tmp_path, caplog):
    """Without a folder, a node that is asked again knows nothing of what it renamed."""
    fed, net, make = swapped()
    options = {"local": LocalSGD(), "seed": 1, "checkpoint": tmp_path / "c.npz"}
    first = over_nodes(fed, net, make(), 20, **options)
    k = int(first.strategy.corrections.argmax())
    again = over_nodes(fed, net, make(), 22, **options)
    assert "are lost; give client_app a folder" in caplog.text
    assert not again.weights[20:, k].any()


def nothing(reply: Message) -> Message:
    """A reply without content."""
    reply.content = RecordDict()
    return reply


WRONG = {
    "an error": lambda r: Message(Error(code=2, reason="the disk is full"), reply_to=r),
    "nothing": nothing,
    "no update": lambda r: changed(r, update=None),
    "a wrong shape": lambda r: changed(r, update=torch.zeros(3)),
    "words": lambda r: changed(r, update="an update"),
    "an older round": lambda r: changed(r, t=1),
    "not finite": lambda r: changed(r, update=torch.full((43,), torch.nan, dtype=torch.float64)),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.filterwarnings("ignore:round 2. client 3 sent an update that is not finite")
def test_a_client_that_fails_is_missing_in_that_round_only(make_fed, wrong):
    fed, net, strategy = make_fed(SIZES), fm.mlp(6, 4, 3), Spy()

    def grid(app, clients):
        return Grid(app, meddle=lambda k, t, r: wrong(r) if (k, t) == (3, 2) else r)

    over_nodes(fed, net, strategy, 3, grid=grid)
    everybody = ([0, 1, 2, 3, 4], [], list(SIZES))
    assert strategy._seen == [everybody, ([0, 1, 2, 4], [3], [9, 4, 20, 7]), everybody]


def test_late_clients_are_missing_and_others_are_not_delayed(make_fed, caplog):
    fed, net, strategy = make_fed(SIZES), fm.mlp(6, 4, 3), Spy()
    over_nodes(fed, net, strategy, 3, grid=lambda a, n: Grid(a, late={(1, 2), (4, 2), (0, 3)}))
    assert [seen[1] for seen in strategy._seen] == [[], [1, 4], [0]]
    assert f"round 2: nothing from node {NODE[1]}, {NODE[4]}" in caplog.text


def test_whose_a_reply_is_the_node_decides(make_fed, caplog):
    """Client 3 says it is 0: the score stays its own, the server's log names it."""
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    honest, liar = (
        over_nodes(
            fed, net, fm.CGSV(), grid=lambda a, n, w=who: Grid(a, meddle=w),
            clients={node: k for k, node in enumerate(NODE)},
        )
        for who in (None, lambda k, t, r: changed(r, client=0) if k == 3 else r)
    )  # fmt: skip
    assert torch.equal(honest.scores, liar.scores)
    assert "round 1: client 3 says it is 0" in caplog.text


def test_a_node_that_nobody_named_takes_no_part(make_fed):
    fed, net, strategy = make_fed(SIZES), fm.mlp(6, 4, 3), Spy()
    grids = []

    def grid(app, clients):
        grids.append(Grid(app))
        return grids[0]

    known = {NODE[k]: k for k in range(4)}
    over_nodes(fed, net, strategy, 2, grid=grid, clients=known)
    assert {k for _, k, _ in grids[0].asked} == {0, 1, 2, 3}
    assert strategy._seen[0][0] == [0, 1, 2, 3]


def test_a_client_that_joins_late_leaves_the_others_minibatches_alone(make_fed, tmp_path):
    fed, net, strategy = make_fed(SIZES), fm.mlp(6, 4, 3), Spy()

    class Joins(Grid):
        def get_node_ids(self):
            self.absent = () if self.t >= 2 else (4,)
            return super().get_node_ids()

    found = over_nodes(fed, net, strategy, 4, grid=Joins, results=tmp_path)
    assert [seen[1] for seen in strategy._seen] == [[4], [4], [], []]
    four = fm.Federation.from_datasets(
        [fed.client(k) for k in range(4)], validation=fed.validation, test=fed.test, classes=3
    )
    alone = fm.train(four, net, fm.FedAvg(), rounds=2, local=LOCAL, seed=3)
    torch.testing.assert_close(found.loss[:3], alone.loss, rtol=0, atol=1e-9)
    assert (tmp_path / "clients.csv").read_text().splitlines()[5] == f"4,{NODE[4]},7,2"


def test_a_server_that_is_cut_off_spends_no_rounds(make_fed):
    fed, net, strategy = make_fed(SIZES), fm.mlp(6, 4, 3), Spy()

    class Returns(Grid):
        looks = 0

        def get_node_ids(self):
            self.looks += self.t == 1
            return [] if 0 < self.looks < 6 else super().get_node_ids()

    over_nodes(fed, net, strategy, 3, grid=Returns)
    assert [len(seen[0]) for seen in strategy._seen] == [5, 5, 5]


def test_results_are_written_by_client(make_fed, tmp_path):
    import numpy as np
    import pandas

    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    history = over_nodes(fed, net, fm.CGSV(), 3, results=tmp_path / "deep")
    table = pandas.read_csv(tmp_path / "deep" / "scores.csv")
    pandas.testing.assert_frame_equal(table, history.to_frame())
    assert np.array_equal(np.load(tmp_path / "deep" / "theta.npy"), history.theta.numpy())
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == [
        ".results.lock",
        "clients.csv",
        "scores.csv",
        "theta.npy",
    ]


def test_a_client_with_nan_data_takes_no_part(make_fed, caplog):
    fed, net, strategy = make_fed(SIZES), fm.mlp(6, 4, 3), Spy()

    def load(context):
        k = context.node_config["partition-id"]
        x, y = fed.client(k)
        return (None if k == 1 else k), (x * torch.nan if k == 2 else x), y

    known = {node: k for k, node in enumerate(NODE)}
    over_nodes(fed, net, strategy, 1, load=load, clients=known)
    assert strategy._seen[0][:2] == ([0, 1, 3, 4], [2])
    assert "client 2 holds inputs that are not finite" in caplog.text


BAD = {
    "load": lambda fed, net: flower.client_app(3, net),
    "net": lambda fed, net: flower.client_app(fed, "net"),
    "clients": lambda fed, net: over_nodes(fed, net, fm.FedAvg(), clients={13: 0, 77: 2}),
    "timeout": lambda fed, net: over_nodes(fed, net, fm.FedAvg(), timeout=0),
    "patience": lambda fed, net: over_nodes(fed, net, fm.FedAvg(), patience="long"),
    "strategy": lambda fed, net: over_nodes(fed, net, fm.FedAvg),
    "rounds": lambda fed, net: over_nodes(fed, net, fm.FedAvg(), rounds=0),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name(make_fed, name):
    with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
        BAD[name](make_fed(SIZES), fm.mlp(6, 4, 3))


def test_without_flower_the_import_says_what_to_install():
    code = "import sys; sys.modules['flwr'] = None; import fedlab_flower"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().endswith('pip install "PATH_OF_THE_CLONE[flower]"')
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: fedlab_flower needs")


COMPARE = """
wanted = fm.train(fed, fm.mlp(64, 16, 10), fm.CGSV(), rounds=2, seed=0)
for name in ("theta", "scores", "weights", "loss"):
    torch.testing.assert_close(getattr(hist, name), getattr(wanted, name), rtol=0, atol=1e-5)
"""


def test_a_folder_with_a_space_is_an_error_and_no_endless_wait(monkeypatch, make_fed):
    monkeypatch.setattr("sys.prefix", "/home/ann/my book/.venv")
    with pytest.raises(RuntimeError, match="/home/ann/my book"):
        flower.train(make_fed([9, 5]), fm.mlp(6, 4, 3), fm.FedAvg(), rounds=1)


@with_all_cases("Ray starts processes for half a minute")
@pytest.mark.skipif(" " in sys.prefix, reason="Flower cannot work below a folder with a space")
def test_the_simulation_gives_what_one_process_gives():
    """The example on the reference page; in a process of its own, as Ray leaves files open."""
    page = (chapters.ROOT / "book" / "api.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```python\n(fed = .*?flower\.train.*?)```", page, flags=re.DOTALL)
    start = "import torch, fedlab_mini as fm\nimport fedlab_flower as flower\n"
    pytest.importorskip("ray", reason="Ray is not installed: make setup WITH=flower")
    code = [sys.executable, "-c", start + text + COMPARE]
    done = subprocess.run(code, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
