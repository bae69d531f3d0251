"""Scored: an app as Flower's quickstart has it trains the same bytes with and without it."""

from __future__ import annotations

import random
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import Played, a_round

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.rounds import Server

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import strategy as flowers
from nodes import NODE, Grid, identity
from torch import nn

from fedlab_flower import Scored
from fedlab_flower.ledger import entries
from fedlab_flower.scores import Replies, Reply

assert identity  # a fixture of every test here
NODES = [str(node) for node in NODE[:4]]
ALL = {"min_train_nodes": 4, "min_available_nodes": 4, "fraction_evaluate": 0.0}


def network(arrays=()) -> nn.Module:
    """A small model; batch normalisation and its counter, as quickstarts have, unless 4 arrays."""
    torch.manual_seed(0)
    norm = nn.Identity() if len(arrays) == 4 else nn.BatchNorm1d(8)
    found = nn.Sequential(nn.Linear(6, 8), norm, nn.ReLU(), nn.Linear(8, 3))
    if arrays:
        found.load_state_dict(arrays.to_torch_state_dict())
    return found


def samples(k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Client ``k``'s samples; 9 is the server. The last client's labels are wrong."""
    x = torch.randn(60 - 10 * (k % 4), 6, generator=torch.Generator().manual_seed(k))
    y = (x[:, :3]).argmax(1)
    return x, (y + 1) % 3 if k == 3 else y


def client_app() -> ClientApp:
    """What a stranger's client looks like: own model, optimiser with momentum, epochs."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        k, t = int(context.node_config["partition-id"]), message.content["config"]["server-round"]
        states = torch.get_rng_state()  # it is another process
        model, (x, y) = network(message.content["arrays"]), samples(k)
        torch.manual_seed(100 * t + k)
        sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for batch in torch.randperm(2 * len(x)).remainder(len(x)).split(8):
            sgd.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            sgd.step()
        torch.set_rng_state(states)
        told = MetricRecord({"num-examples": len(x), "train_loss": 0.0})
        content = {"arrays": ArrayRecord(model.state_dict()), "metrics": told}
        return Message(RecordDict(content), reply_to=message)

    return app


def validate(arrays: ArrayRecord) -> float:
    """A user's own: loss on the server's samples; draws random numbers, as users do."""
    np.random.seed(5)  # noqa: NPY002
    random.random()
    model, (x, y) = network(arrays), samples(9)
    with torch.no_grad():
        return nn.functional.cross_entropy(model.eval()(x), y).item()


def trusted(arrays: ArrayRecord) -> ArrayRecord:
    """A user's own: one pass over the server's samples."""
    model, (x, y) = network(arrays), samples(9)
    nn.functional.cross_entropy(model(x), y).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return ArrayRecord(model.state_dict())


def trained(strategy, rounds: int = 3, meddle=None, start=None):
    """The final arrays as bytes, and random numbers drawn next."""
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    grid = Grid(client_app(), 4, meddle=meddle)
    start = ArrayRecord((start or network()).state_dict())
    torch.manual_seed(1)
    made = strategy.start(grid, start, num_rounds=rounds).arrays
    after = random.random(), float(np.random.rand()), float(torch.rand(1))  # noqa: NPY002
    return {name: array.data for name, array in made.items()}, after


def test_the_page_holds_as_printed(tmp_path, monkeypatch):
    """Its functions score a training and leave it as it is; names come from ids of Flower's."""
    page = (Path(__file__).parents[2] / "book" / "scored.md").read_text(encoding="utf-8")
    line, functions, reading, weekly, naming = re.findall(
        r"^```python\n(.*?)^```$", page, re.M | re.S
    )
    task = types.ModuleType("my_app.task")
    task.Net, (task.x, task.y) = network, samples(9)
    monkeypatch.setitem(sys.modules, "my_app", types.ModuleType("my_app"))
    monkeypatch.setitem(sys.modules, "my_app.task", task)
    monkeypatch.chdir(tmp_path)
    code = (line + functions).replace("/srv/fl/", "")
    given = {"FedAdam": lambda **more: flowers.FedAdam(**ALL | more)}
    exec(code.replace('"ledger.jsonl")', '"first.jsonl")'), given)
    alone = flowers.FedAdam(**ALL | {"fraction_train": 0.5})
    assert trained(given["strategy"]) == trained(alone)
    held = list(entries("ledger.jsonl"))
    assert len(held) == 3
    assert {*held[0].scores} == {*EVERY} - {"Shapley, silent"}
    assert max(held[0].scores["trust cosine"]) > 0
    ids = iter(re.findall(r"\d{19,}", naming))
    exec(reading, given)
    assert len(weekly.splitlines()) == 4  # lines of pandas
    exec(weekly, given)
    report, table = given["report"], given["table"]
    (week,) = {*report.index.get_level_values("week")}
    assert week.start_time.day_name() == "Monday"
    assert week.start_time <= table["time"].dt.tz_localize(None).min() <= week.end_time
    for (_, node), told in report.iterrows():
        mine = table[table["node"] == node]
        assert told["rounds"] == mine["reply"].count()
        assert told["CGSV"] == pytest.approx(mine["CGSV"].mean())
    for node in NODES:
        naming = naming.replace(next(ids, "no id"), node, 1)
    exec(naming, given)
    assert {"Basel", "Graz"} & {*given["table"]["node"]}


def test_a_model_with_one_output_has_no_class_cosine(tmp_path):
    """A regression has no classes to compare."""
    one, two = {"w": torch.ones(1, 3)}, {"w": torch.ones(2, 3)}
    for arrays, said in ((one, "got one row"), (two, "")):
        theta = {n: a.numpy() for n, a in arrays.items()}
        reply = Reply(None, "arrays", theta, theta, 1, torch.ones(3 * len(arrays["w"])).double())
        replies = Replies.__new__(Replies)
        replies.ordered, replies.rows = [reply], reply.update[None]
        if said:
            with pytest.raises(ValueError, match=said):
                replies.class_cosine(reply.update)
        else:
            assert replies.class_cosine(reply.update).tolist() == pytest.approx([1])


def test_an_update_many_times_as_long_as_the_median_is_named(tmp_path, caplog):
    """One client masks its update, and the others send theirs in the clear."""

    def mask(k, t, reply):
        high = with_arrays(lambda a: {n: v + 10_000 for n, v in a.items()})
        return high(reply) if k == 2 else reply

    trained(Scored(flowers.FedAvg(**ALL), tmp_path / "l"), rounds=1, meddle=mask)
    (said,) = [r.getMessage() for r in caplog.records if "as long as the median" in r.getMessage()]
    assert NODES[2] in said
    assert not any(f"'{node}'" in said for node in NODES[:2] + NODES[3:])
    caplog.clear()
    trained(Scored(flowers.FedAvg(**ALL), tmp_path / "clear"), rounds=1)
    assert "as long as the median" not in caplog.text


STRATEGIES: dict[str, Callable] = {
    "FedAvg": lambda: flowers.FedAvg(**ALL),
    "half": lambda: flowers.FedAvg(**ALL | {"min_train_nodes": 2, "fraction_train": 0.5}),
    "FedAdam": lambda: flowers.FedAdam(**ALL, eta=0.05),
}
FROM_UPDATES = ["CGSV", "class cosine", "step cosine"]
EVERY = [*FROM_UPDATES, "trust cosine", "leave one out", "second order", "Shapley, silent"]


@pytest.mark.parametrize("name", STRATEGIES)
def test_training_is_the_same_to_the_last_byte(name, tmp_path):
    """With every score, and functions of a user's that draw random numbers.

    The models that were validated are the strategy's own: the one really made is among them
    """
    alone, judged, path = trained(STRATEGIES[name]()), set(), tmp_path / "ledger"

    def watched(arrays: ArrayRecord) -> float:
        judged.add(tuple(array.data for array in arrays.values()))
        return validate(arrays)

    functions = {"validate": watched, "trusted": trusted}
    strategy = Scored(STRATEGIES[name](), path, methods=EVERY, **functions)
    assert trained(strategy) == alone
    assert tuple(alone[0].values()) in judged
    held = list(entries(path))
    assert [entry.round for entry in held] == [1, 2, 3]
    assert all(list(entry.scores) == EVERY and not entry.missing for entry in held)
    assert {len(entry.node) for entry in held} == {2 if name == "half" else 4}


def noting(strategy):
    """The strategy, and a list that holds the model it sent last."""
    sent, configure = [], strategy.configure_train

    def noted(server_round, arrays, config, grid):
        sent[:] = [arrays]
        return configure(server_round, arrays, config, grid)

    strategy.configure_train = noted
    return sent, strategy


def test_scores_are_those_of_the_book(tmp_path):
    """Rounds of a perceptron, recorded as they pass, scored by the book's own strategies."""
    module = nn.Sequential(nn.Linear(6, 8), nn.Identity(), nn.ReLU(), nn.Linear(8, 3))
    (sent, noted), recorded = noting(flowers.FedAvg(**ALL)), {}

    def note(k: int, t: int, reply: Message) -> Message | None:
        if (k, t) in ((2, 2), (0, 3)):
            return None
        one = recorded.setdefault(t, {"theta": sent[0].to_torch_state_dict()})
        model, size = reply.content["arrays"].to_torch_state_dict(), len(samples(k)[1])
        for key, part in (("models", model), ("clients", NODES[k]), ("sizes", size)):
            one.setdefault(key, []).append(part)
        return reply

    functions = {"validate": validate, "trusted": trusted}
    strategy = Scored(noted, tmp_path / "ledger", methods=EVERY, **functions)
    trained(strategy, meddle=note, start=module)
    methods = {
        "class cosine": fb.ClassCosine(),
        "trust cosine": fb.TrustCosine(),
        "Shapley, silent": fm.methods.RoundValue(fm.exact, absent="silent"),
        "leave one out": fm.leave_one_out,
    }
    server = {"net": fm.Model(module), "validation": samples(9), "metric": "loss"}
    wanted = fm.score([*recorded.values()], methods=methods, clients=NODES, **server)
    found = strategy.scored.scores()
    for name in methods:
        assert found[name] == pytest.approx(dict(wanted[name]), abs=1e-5), name
    # fm.score hears of those who sent something only; CGSV is told of the others, too.
    flat = nn.utils.parameters_to_vector
    cgsv = Played(fm.CGSV(), Server(4, 3, server["net"], samples(9), 0))
    for t, one in recorded.items():
        theta = flat(one["theta"].values())
        updates = torch.stack([flat(model.values()) - theta for model in one["models"]])
        places = [NODES.index(client) for client in one["clients"]]
        absent = {*range(4)} - {*places}
        cgsv.step(a_round(updates, one["sizes"], places, t=t, missing=absent, theta=theta))
    assert [found["CGSV"][n] for n in NODES] == pytest.approx(cgsv["r"].tolist(), abs=1e-6)


def test_the_second_order_is_shapleys_value_of_a_quadratic_loss(tmp_path):
    def bowl(arrays: ArrayRecord) -> float:
        return sum(float(((a.numpy() - 0.3) ** 2).sum()) for a in arrays.values())

    path, methods = tmp_path / "ledger", ["second order", "Shapley, silent"]
    trained(Scored(flowers.FedAvg(**ALL), path, methods=methods, validate=bowl))
    for entry in entries(path):
        second, exact = (entry.scores[name] for name in methods)
        np.testing.assert_allclose(second, exact, rtol=1e-4, atol=1e-5)


def test_a_free_rider_has_no_update_whatever_type_the_server_sends(tmp_path):
    """FedAdam sends float64 from the second round on; nodes hold float32."""

    def lazy(k, t, reply):
        if k == 1:
            reply.content["arrays"] = ArrayRecord(network(sent[0]).state_dict())
        return reply

    path, (sent, strategy) = tmp_path / "ledger", noting(flowers.FedAdam(**ALL, eta=0.05))
    trained(Scored(strategy, path), meddle=lazy)
    assert next(iter(sent[0].values())).dtype == "float64"
    for entry in entries(path):
        place = entry.node.index(NODES[1])
        assert entry.norm[place] == entry.scores["CGSV"][place] == 0 < sorted(entry.norm)[1]


def only(change: Callable) -> Callable:
    """Changes the reply of client 2 in round 2."""
    return lambda k, t, reply: change(reply) if (k, t) == (2, 2) else reply


def with_arrays(change: Callable) -> Callable:
    def changed(reply: Message) -> Message:
        sent = reply.content["arrays"].to_torch_state_dict()
        reply.content["arrays"] = ArrayRecord(change(sent))
        return reply

    return changed


def endless(reply: Message) -> Message:
    reply.content["metrics"] = MetricRecord({"num-examples": 1e300})
    return reply


def named_as(reply: Message, node: int) -> Message:
    reply.metadata.__dict__["_src_node_id"] = node
    return reply


BROKEN = {
    "late": (lambda r: None, "no reply"),
    "nan": (with_arrays(lambda a: {n: v * torch.nan for n, v in a.items()}), "not finite"),
    "shape": (with_arrays(lambda a: {n: v[..., None] for n, v in a.items()}), "(8, 6, 1) where"),
    "samples": (endless, "num-examples: expected"),
}


class Tolerant(flowers.FedAvg):
    """A strategy that keeps the model, as a user's own may where Flower's raise."""

    def aggregate_train(self, server_round, replies):
        self.heard = [reply.metadata.src_node_id for reply in replies]
        return None, None


def reordered(arrays: dict) -> dict:
    """What changes no score and no length: the order, and statistics of batches."""
    more = arrays | {"1.running_mean": arrays["1.running_mean"] + 1e6}
    return dict(reversed(more.items()))


def test_order_and_statistics_of_what_a_node_sends_do_not_count(tmp_path):
    held = []
    for path, meddle in (("plain", None), ("other", only(with_arrays(reordered)))):
        trained(Scored(Tolerant(**ALL), tmp_path / path), 2, meddle)
        held.append(list(entries(tmp_path / path))[1])
    assert (held[0].scores, held[0].norm, {}) == (held[1].scores, held[1].norm, held[1].missing)


@pytest.mark.parametrize("name", BROKEN)
def test_a_reply_that_cannot_be_scored_is_missing_and_says_why(name, tmp_path):
    (change, why), path = BROKEN[name], tmp_path / "ledger"
    trained(Scored(Tolerant(**ALL), path), meddle=only(change))
    held = list(entries(path))
    assert [len(entry.node) for entry in held] == [4, 3, 4]
    assert list(held[1].missing) == [NODES[2]]
    assert why in held[1].missing[NODES[2]]


def test_a_reply_in_anothers_name_counts_for_nobody_twice(tmp_path):
    """Flower 1.41 does not compare; what is seen is who came first, and who was not asked."""
    path, strange = tmp_path / "ledger", {(2, 2): NODE[0], (3, 2): 5}
    strategy = Scored(Tolerant(**ALL), path)
    trained(strategy, 2, lambda k, t, r: named_as(r, strange.get((k, t), NODE[k])))
    assert sorted(strategy.heard) == sorted([NODE[0], NODE[0], NODE[1], 5])
    entry = list(entries(path))[1]
    assert sorted(entry.node) == sorted(NODES[:2])
    assert entry.missing == dict.fromkeys(NODES[2:], "no reply") | {"5": "it was not asked"}


def test_a_server_that_was_started_again_goes_on(tmp_path):
    """Two runs of two rounds on one ledger: scores are those of one run that never stopped."""

    def late(k, t, r):
        return None if (k, t) in ((3, 1), (2, 2)) else r

    for _ in range(2):
        again = Scored(Tolerant(**ALL), tmp_path / "deep" / "ledger")
        trained(again, 2, late)
    whole = Scored(Tolerant(**ALL), tmp_path / "whole")
    configure = whole.configure_train
    # Flower's round numbers begin anew with a server; clients seed their work with them.
    whole.configure_train = lambda t, *more: configure((t - 1) % 2 + 1, *more)
    trained(whole, 4, late)
    assert whole.scored.scores() == again.scored.scores()


def test_what_fails_later_does_not_end_a_training(tmp_path, caplog):
    calls, path = [], tmp_path / "ledger"

    def fails(arrays: ArrayRecord) -> float:
        calls.append(1)
        if len(calls) in bad:
            raise RuntimeError("no disk")
        return validate(arrays)

    strategy = Scored(flowers.FedAvg(**ALL), path, methods=["leave one out"], validate=fails)
    bad = {6}
    assert trained(strategy) == trained(flowers.FedAvg(**ALL))
    assert "round 2 is not scored: no disk" in caplog.text
    assert len(list(entries(path))) == 2
    bad = range(99)  # at first it is an error
    with pytest.raises(RuntimeError, match="no disk"):
        trained(Scored(flowers.FedAvg(**ALL), tmp_path / "other", validate=fails))
