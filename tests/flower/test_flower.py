"""Flower: every strategy over nodes that answer late, wrongly or never; nothing is simulated but
the network, except in one test."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch
from helpers import Sends, each_value, with_all_cases, with_attacks

import chapters
import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.minibatches import LocalSGD

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from nodes import LOCAL, NODE, SIZES, Grid, identity, over_nodes, spy

from fedlab_flower.messages import unpack

assert identity  # a fixture of every test here
NET = fm.mlp(6, 4, 3)
MEMBERS = [node for k, node in enumerate(NODE) if k != 3]
REGISTERED = {node: k for k, node in enumerate(NODE)}


def assert_alike(one: fm.History, other: fm.History) -> None:
    """The same training up to rounding."""
    for name in ("theta", "scores", "weights", "accuracy", "loss"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=1e-6)
    assert torch.equal(one.selected, other.selected)
    assert one.cost.client_epochs == other.cost.client_epochs
    assert one.cost.model_evaluations == other.cost.model_evaluations


def strategies() -> dict[str, fm.FedAvg]:
    """Every strategy of the book; some clients a round where it lets one say so."""
    kinds = [getattr(room, name) for room in (fm.methods, fb.methods) for name in room.__all__]
    kinds = [k for k in kinds if isinstance(k, type) and issubclass(k, fm.FedAvg)]
    return {k.__name__: k(3) if issubclass(k, fm.SFedAvg) else k(per_round=3) for k in kinds}


@pytest.mark.filterwarnings("ignore:round .* not finite", "ignore:left out")
@pytest.mark.parametrize(
    ("name", "attack"),
    each_value(list(strategies()), [None, fm.attacks.Replay(), Sends(torch.nan)]),
)
def test_every_strategy_gives_what_it_gives_in_one_process(make_fed, name, attack):
    fed, strategy = make_fed(SIZES), strategies()[name]
    fed = fed if attack is None else with_attacks(fed, {2: attack})
    wanted = fm.train(fed, NET, strategy, rounds=4, local=LOCAL, seed=3)
    assert_alike(over_nodes(fed, NET, strategy), wanted)


@pytest.mark.parametrize("local", [LocalSGD(steps=7, batch=5), LocalSGD(batch=64, decay=0.5)])
def test_any_module_and_any_local_training(make_fed, local):
    """Dropout, too, is drawn for the client, not for its place."""
    fed, linear = make_fed(SIZES), torch.nn.Linear
    net = fm.Model(torch.nn.Sequential(linear(6, 5), torch.nn.Dropout(0.4), linear(5, 3)).double())
    wanted = fm.train(fed, net, fm.FedAvg(3), rounds=3, local=local, seed=5)
    assert_alike(over_nodes(fed, net, fm.FedAvg(3), 3, local=local, seed=5), wanted)


def test_own_minibatches_tell_a_client_nothing_of_the_others(make_fed):
    """Neither the seed nor anybody's size is in a task; a training repeats all the same."""
    fed, grid = make_fed(SIZES), Grid()
    given = {"same_as_train": False}
    one = over_nodes(fed, NET, fm.CGSV(), 3, grid=grid, **given)
    names = set().union(*map(unpack, grid.told))
    assert {"theta", "t", "nonce", "client", "heard", "local.lr"} < names
    assert not names & {"seed", "sizes"}
    assert torch.equal(one.theta, over_nodes(fed, NET, fm.CGSV(), 3, **given).theta)
    alike = fm.train(fed, NET, fm.CGSV(), rounds=3, local=LOCAL, seed=3)
    assert not torch.equal(one.theta, alike.theta)
    torch.testing.assert_close(one.loss[-1], alike.loss[-1], rtol=0, atol=0.1)


class Killed(Exception):
    """Stands for kill -9: nothing of the server's process is left but its file."""


def test_a_server_that_is_killed_goes_on_to_the_same_bytes(tmp_path, caplog):
    """Clients have renamed labels by then, and one round more than the server remembers."""
    given = {"split": fm.IID(), "relevant": 4, "irrelevant": 0, "seed": 1}
    fed = fm.irrelevant_digits(corrupt=fm.SwapLabels((1, 2)), **given).to(dtype=torch.float64)
    training, last = (fed, fm.mlp(64, 16, 5), fm.LabelStandardisation(3)), 11
    options = {"local": LocalSGD(), "seed": 1}

    class Kills(Grid):
        armed = True

        def send_and_receive(self, messages, *, timeout=None):
            replies = super().send_and_receive(messages, timeout=timeout)
            now = self.asked[-1][::2] in ((last, "query.answer"), (last + 1, "train"))
            if self.armed and now:
                self.armed = False
                raise Killed
            return replies

    wanted = fm.train(*training, rounds=20, **options)
    whole = over_nodes(*training, 20, **options)
    assert_alike(whole, wanted)
    assert wanted.state["corrections"].sum() >= 1
    assert torch.equal(whole.state["corrections"], wanted.state["corrections"])
    given = {"history": tmp_path / "h.npz", "grid": Kills()} | options
    with pytest.raises(Killed):
        over_nodes(*training, 20, **given)
    assert len(fm.History.load(tmp_path / "h.npz").scores) in (last - 1, last)
    again = over_nodes(*training, 20, **given)
    for name in ("theta", "scores", "weights", "loss"):
        assert torch.equal(getattr(whole, name), getattr(again, name)), name
    with pytest.raises(ValueError, match=r"^start: its training differs in seed"):
        over_nodes(*training, 20, **given | {"seed": 2})
    # another run of Flower's knows nothing of what was renamed in the first
    other = over_nodes(*training, 22, **given | {"grid": Grid()})
    assert "lost with an earlier run of Flower" in caplog.text
    assert not other.weights[20:, int(whole.state["corrections"].argmax())].any()


def test_late_clients_are_missing_and_the_rest_is_the_book(make_fed, caplog):
    """The same numbers as where the strategy itself asks only those that answer."""
    fed, (strategy, seen), late = make_fed(SIZES), spy(), {(1, 2), (4, 2), (0, 3)}
    found = over_nodes(fed, NET, strategy, 3, grid=Grid(late=late))
    assert [missing for _, missing, _ in seen] == [[], [1, 4], [0]]
    assert f"round 2: nothing from node {NODE[1]}, {NODE[4]}" in caplog.text

    class Punctual(fm.FedAvg):
        def select(self, server, state, t):
            return torch.tensor([k for k in range(5) if (k, t) not in late])

    wanted = fm.train(fed, NET, Punctual(), rounds=3, local=LOCAL, seed=3)
    torch.testing.assert_close(found.theta, wanted.theta, rtol=0, atol=1e-6)


def test_whose_a_reply_is_the_node_decides(make_fed, caplog):
    """Client 3 says it is 0, with its own samples: the score stays its own, the log names it."""
    fed = make_fed(SIZES)

    def load(context):
        k = context.node_config["partition-id"]
        return 0 if k == 3 else k, *fed.client(k)

    given = {"clients": REGISTERED, "same_as_train": False}
    honest, liar = (over_nodes(fed, NET, fm.CGSV(), load=who, **given) for who in (None, load))
    assert torch.equal(honest.scores, liar.scores)
    assert f"node {NODE[3]} is client 3 and says it is 0" in caplog.text
    strategy, seen = spy()  # where no node is registered, who comes second stays out
    over_nodes(fed, NET, strategy, 2, load=load, same_as_train=False)
    assert [clients for clients, _, _ in seen] == [[0, 1, 2, 4]] * 2
    assert "does not join: client: " in caplog.text
    with pytest.raises(ValueError, match=r"^clients: "):
        over_nodes(fed, NET, fm.FedAvg(), clients={13: 0, 77: 2})


class Wavers(Grid):
    """Client 4 is there from round 3 on; for a moment nobody is there."""

    looks = 0

    def get_node_ids(self):
        self.absent, self.looks = () if self.t >= 2 else (4,), self.looks + (self.t == 1)
        return [] if 0 < self.looks < 4 else super().get_node_ids()


def test_clients_join_late_and_a_server_that_is_cut_off_spends_no_rounds(make_fed):
    fed, (strategy, seen), grid = make_fed(SIZES), spy(), Wavers()
    given = {"clients": {node: k for k, node in enumerate(MEMBERS)}, "timeout": 9, "grid": grid}
    over_nodes(fed, NET, strategy, 4, same_as_train=False, **given)
    assert [found[:2] for found in seen] == [([0, 1, 2], [3])] * 2 + [([0, 1, 2, 3], [])] * 2
    assert 3 not in {k for _, k, _ in grid.asked}  # whom nobody named takes no part
    with pytest.raises(RuntimeError, match=r"^same_as_train: .* client 4 has not joined"):
        over_nodes(fed, NET, strategy, 4, grid=Wavers())  # minibatches hang on its size


COMPARE = """
wanted = fm.train(fed, fm.mlp(64, 16, 10), fm.CGSV(), rounds=2, seed=0)
for name in ("theta", "scores", "weights", "loss"):
    torch.testing.assert_close(getattr(hist, name), getattr(wanted, name), rtol=0, atol=1e-5)
"""


@with_all_cases("Ray starts processes for half a minute")
@pytest.mark.skipif(" " in sys.prefix, reason="Flower cannot work below a folder with a space")
def test_the_simulation_gives_what_one_process_gives():
    """The example on the reference page; in a process of its own, as Ray leaves files open."""
    page = (chapters.ROOT / "book" / "fedlab_flower.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```python\n(fed = .*?flower\.train.*?)```", page, flags=re.DOTALL)
    start = "import torch, fedlab_mini as fm\nimport fedlab_flower as flower\n"
    pytest.importorskip("ray", reason="Ray is not installed: make setup WITH=flower")
    subprocess.run([sys.executable, "-c", start + text + COMPARE], check=True, timeout=600)
