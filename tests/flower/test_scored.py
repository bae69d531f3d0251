"""Scored: an app as Flower's quickstart has it trains the same bytes with and without it."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

import chapters
import fedlab_bench as fb
import fedlab_mini as fm

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp import strategy as flowers
from flwr.supercore.task_identity import TaskIdentity
from torch import nn

from fedlab_flower import Scored
from fedlab_flower.ledger import entries, table
from fedlab_flower.scored import NEEDS, _random_states, _restore
from fedlab_flower.standing import Standing

NODES = [2**62 + 5, 77, 403, 2**63 + 11]
ALL = {"min_train_nodes": 4, "min_available_nodes": 4, "fraction_evaluate": 0.0}


@pytest.fixture(autouse=True)
def identity():
    """Flower's processes know who they are; here the server has to be told."""
    TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = 1, 1, 1


def network(names=("1.num_batches_tracked",)) -> nn.Module:
    """A small model with what quickstarts have: batch normalisation and its counter.

    names  of the arrays: QFedAvg of Flower 1.41 cannot work with a counter
    """
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(8) if "1.num_batches_tracked" in names else nn.GroupNorm(2, 8)
    return nn.Sequential(nn.Linear(6, 8), norm, nn.ReLU(), nn.Linear(8, 3))


def samples(k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Client ``k``'s samples; 9 is the server. The last client's labels are wrong."""
    chance = torch.Generator().manual_seed(k)
    x = torch.randn(60 - 10 * (k % 4), 6, generator=chance)
    y = (x[:, :3]).argmax(1)
    return x, (y + 1) % 3 if k == 3 else y


def client_app(mods: list | None = None) -> ClientApp:
    """What a stranger's client looks like: own model, optimiser with momentum, epochs, mods."""
    app = ClientApp(mods=mods or [])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        k, t = int(context.node_config["partition-id"]), message.content["config"]["server-round"]
        torch.manual_seed(100 * t + k)
        np.random.seed(100 * t + k)  # noqa: NPY002 -- the mod's noise comes from there
        arrays = message.content["arrays"]
        model, (x, y) = network(arrays), samples(k)
        model.load_state_dict(arrays.to_torch_state_dict())
        sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for _ in range(2):
            for batch in torch.randperm(len(x)).split(8):
                sgd.zero_grad()
                loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
                loss.backward()
                sgd.step()
        told = MetricRecord({"num-examples": len(x), "train_loss": loss.item()})
        content = {"arrays": ArrayRecord(model.state_dict()), "metrics": told}
        return Message(RecordDict(content), reply_to=message)

    return app


class Grid:
    """A network in this process; ``meddle(k, t, reply)`` may change a reply, or drop it by None."""

    def __init__(self, app: ClientApp, meddle: Callable | None = None):
        self.app, self.meddle, self.rounds, self.count = app, meddle, 0, 0

    def get_node_ids(self) -> list[int]:
        return NODES

    def send_and_receive(self, messages, *, timeout=None):
        messages, replies = list(messages), []
        self.rounds += bool(messages)
        for message in messages:
            k = NODES.index(message.metadata.dst_node_id)
            self.count += 1
            message.metadata.__dict__["_message_id"] = str(self.count)
            # As over a network: what the node holds is another object.
            content = copy.deepcopy(message.content)
            there = copy.copy(message)
            there.content = content
            states = _random_states()
            context = Context(1, NODES[k], {"partition-id": k}, RecordDict(), {})
            reply = self.app(there, context)
            _restore(states)
            replies.append(self.meddle(k, self.rounds, reply) if self.meddle else reply)
        replies = [reply for reply in replies if reply is not None]
        random.Random(self.rounds).shuffle(replies)
        return replies


def validate(arrays: ArrayRecord) -> float:
    """A user's own: loss on the server's samples; draws random numbers, as users do."""
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.random()
    model, (x, y) = network(arrays), samples(9)
    model.load_state_dict(arrays.to_torch_state_dict())
    with torch.no_grad():
        return nn.functional.cross_entropy(model.eval()(x), y).item()


def trusted(arrays: ArrayRecord) -> ArrayRecord:
    """A user's own: one pass over the server's samples."""
    model, (x, y) = network(arrays), samples(9)
    model.load_state_dict(arrays.to_torch_state_dict())
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    nn.functional.cross_entropy(model(x), y).backward()
    sgd.step()
    return ArrayRecord(model.state_dict())


def trained(strategy, rounds: int = 3, meddle=None, mods=None, seed: int = 1):
    """The final arrays as bytes, and the states of the random numbers."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    names = () if isinstance(strategy, flowers.QFedAvg) else ("1.num_batches_tracked",)
    start = ArrayRecord(network(names).state_dict())
    torch.manual_seed(seed)
    made = strategy.start(Grid(client_app(mods), meddle), start, num_rounds=rounds)
    after = random.random(), float(np.random.rand()), float(torch.rand(1))  # noqa: NPY002
    return {name: array.data for name, array in made.arrays.items()}, after


STRATEGIES: dict[str, Callable] = {
    "FedAvg": lambda: flowers.FedAvg(**ALL),
    "half": lambda: flowers.FedAvg(**ALL | {"min_train_nodes": 2, "fraction_train": 0.5}),
    "FedAdam": lambda: flowers.FedAdam(**ALL, eta=0.05),
    "FedProx": lambda: flowers.FedProx(**ALL, proximal_mu=0.1),
    "FedAvgM": lambda: flowers.FedAvgM(**ALL, server_momentum=0.5),
    "FedMedian": lambda: flowers.FedMedian(**ALL),
    "Krum": lambda: flowers.Krum(**ALL, num_malicious_nodes=1),
    "QFedAvg": lambda: flowers.QFedAvg(client_learning_rate=0.05, **ALL),
    "noise": lambda: flowers.DifferentialPrivacyServerSideFixedClipping(
        flowers.FedAvg(**ALL), 0.01, 2.0, 4
    ),
}
FROM_UPDATES = ["CGSV", "class cosine", "step cosine"]
EVERY = [*FROM_UPDATES, "trust cosine", "leave one out", "second order", "Shapley, silent"]
MODS = [LocalDpMod(clipping_norm=3.0, sensitivity=1e-3, epsilon=1.0, delta=1e-5)]


@pytest.mark.parametrize("name", STRATEGIES)
def test_training_is_the_same_to_the_last_byte(name, tmp_path, monkeypatch):
    """With every score, functions of a user's that draw random numbers, and a mod that adds noise.

    The models that were validated are the strategy's own: the one really made is among them
    """
    monkeypatch.setattr("gc.collect", lambda *_: 0)  # QFedAvg asks for it at every array record
    alone = trained(STRATEGIES[name](), mods=MODS)
    judged = set()

    def watched(arrays: ArrayRecord) -> float:
        judged.add(tuple(array.data for array in arrays.values()))
        return validate(arrays)

    path = tmp_path / "ledger"
    functions = {"validate": watched, "trusted": trusted}
    # Flower's clipping cannot be asked about silence, see below.
    methods = EVERY[:5] if name == "noise" else EVERY
    strategy = Scored(STRATEGIES[name](), path, methods=methods, **functions)
    assert type(strategy) is type(STRATEGIES[name]())
    assert trained(strategy, mods=MODS) == alone
    assert tuple(alone[0].values()) in judged
    held = list(entries(path))
    assert [entry.round for entry in held] == [1, 2, 3]
    assert all(list(entry.scores) == methods and not entry.missing for entry in held)
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
    module = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)).double()
    net, (x, y), recorded = fm.Model(module), samples(9), []
    x = x.double()

    def loss(state) -> torch.Tensor:
        module.load_state_dict(state)
        return nn.functional.cross_entropy(module(x), y)

    def stepped(arrays: ArrayRecord) -> ArrayRecord:
        module.zero_grad()
        loss(arrays.to_torch_state_dict()).backward()
        moved = {name: p.detach() - 0.1 * p.grad for name, p in module.named_parameters()}
        return ArrayRecord(moved)

    def losses(arrays: ArrayRecord) -> float:
        return loss(arrays.to_torch_state_dict()).item()

    def own(k: int, t: int, reply: Message) -> Message | None:
        if (k, t) in ((2, 2), (0, 3)):
            return None
        if len(recorded) < t:
            recorded.append(
                {"theta": sent[0].to_torch_state_dict(), "models": [], "clients": [], "sizes": []}
            )
        chance = torch.Generator().manual_seed(10 * t + k)
        moved = {
            name: value + (0.3 + k) * torch.randn(value.shape, generator=chance, dtype=value.dtype)
            for name, value in sent[0].to_torch_state_dict().items()
        }
        for key, part in (("models", moved), ("clients", str(NODES[k])), ("sizes", 5 + k)):
            recorded[-1][key].append(part)
        told = MetricRecord({"num-examples": 5 + k, "train_loss": 0.0})
        reply.content = RecordDict({"arrays": ArrayRecord(moved), "metrics": told})
        return reply

    sent, noted = noting(flowers.FedAvg(**ALL))
    functions = {"validate": losses, "trusted": stepped}
    strategy = Scored(noted, tmp_path / "ledger", methods=EVERY, **functions)
    app = ClientApp()
    app.train()(lambda message, context: Message(RecordDict(), reply_to=message))
    strategy.start(Grid(app, own), ArrayRecord(module.state_dict()), num_rounds=3)
    silent = fm.methods.RoundValue(fm.exact, absent="silent")
    methods = {
        "CGSV": fm.CGSV(),
        "class cosine": fb.ClassCosine(),
        "trust cosine": fb.TrustCosine(),
        "Shapley, silent": silent,
        "leave one out": fm.leave_one_out,
    }
    names = [str(node) for node in NODES]
    server = {"net": net, "validation": (x, y), "metric": "loss"}
    # fm.score hears of those who sent something only; CGSV is told of the others, too.
    wanted = fm.score(recorded, methods=methods, clients=names, **server)
    found = strategy.scored.scores()
    for name in list(methods)[1:]:
        for node in names:
            assert found[name][node] == pytest.approx(wanted[name][node], abs=1e-9), (name, node)
    rule, server = fm.CGSV(), fm.Server(4, 3, net, (x, y), 0)
    state = rule.init(server)
    for t, record in enumerate(recorded, 1):
        theta = torch.cat([part.flatten() for part in record["theta"].values()])
        models = [torch.cat([p.flatten() for p in m.values()]) for m in record["models"]]
        places = torch.tensor([names.index(client) for client in record["clients"]])
        absent = torch.tensor([k for k in range(4) if k not in places.tolist()], dtype=torch.long)
        sizes, updates = torch.tensor(record["sizes"]), torch.stack(models) - theta
        round = fm.Round(t, theta, places, sizes, updates, absent)
        state = rule.step(server, state, round).state
    for k, node in enumerate(names):
        assert found["CGSV"][node] == pytest.approx(float(state["r"][k]), abs=1e-12)


def test_the_second_order_is_shapleys_value_of_a_quadratic_loss(tmp_path):
    def bowl(arrays: ArrayRecord) -> float:
        return sum(float(((a.numpy() - 0.3) ** 2).sum()) for a in arrays.values())

    path = tmp_path / "ledger"
    methods = ["second order", "Shapley, silent"]
    trained(Scored(flowers.FedAvg(**ALL), path, methods=methods, validate=bowl))
    for entry in entries(path):
        second, exact = (entry.scores[name] for name in methods)
        np.testing.assert_allclose(second, exact, rtol=1e-4, atol=1e-5)


def test_a_client_with_wrong_labels_is_last_by_every_score(tmp_path):
    """It has the fewest samples as well."""
    functions = {"validate": validate, "trusted": trusted}
    strategy = Scored(flowers.FedAvg(**ALL), tmp_path / "l", methods=EVERY, **functions)
    trained(strategy, rounds=4)
    for name, scores in strategy.scored.scores().items():
        assert min(scores, key=scores.get) == str(NODES[3]), (name, scores)


def test_a_free_rider_has_no_update_whatever_type_the_server_sends(tmp_path):
    """FedAdam sends float64 from the second round on; nodes hold float32."""

    def lazy(k, t, reply):
        if k == 1:
            held = network()
            held.load_state_dict(sent[0].to_torch_state_dict())
            reply.content["arrays"] = ArrayRecord(held.state_dict())
        return reply

    path = tmp_path / "ledger"
    sent, strategy = noting(flowers.FedAdam(**ALL, eta=0.05))
    trained(Scored(strategy, path), meddle=lazy)
    held = list(entries(path))
    assert next(iter(sent[0].values())).dtype == "float64"
    place = [entry.node.index(str(NODES[1])) for entry in held]
    assert [entry.norm[i] for entry, i in zip(held, place, strict=True)] == [0, 0, 0]
    assert [entry.scores["CGSV"][i] for entry, i in zip(held, place, strict=True)] == [0, 0, 0]
    assert all(sorted(entry.norm)[1] > 0 for entry in held)


def arrays_of(change: Callable) -> Callable:
    """Changes what client 2 sends in round 2: a function of its arrays."""

    def meddle(k, t, reply):
        if (k, t) == (2, 2):
            sent = reply.content["arrays"].to_torch_state_dict()
            reply.content["arrays"] = ArrayRecord(change(sent))
        return reply

    return meddle


def only(change: Callable) -> Callable:
    """Changes the reply of client 2 in round 2."""
    return lambda k, t, reply: change(reply) if (k, t) == (2, 2) else reply


def said(reply: Message, **metrics) -> Message:
    reply.content["metrics"] = MetricRecord(dict(reply.content["metrics"]) | metrics)
    return reply


def unreadable(reply: Message) -> Message:
    record = reply.content["arrays"]
    name = next(iter(record))
    record[name] = Array("float32", (3,), "numpy.ndarray", b"no numbers")
    return reply


def named_as(reply: Message, node: int) -> Message:
    reply.metadata.__dict__["_src_node_id"] = node
    return reply


def failed(reply: Message) -> Message:
    return named_as(Message(Error(1, "x" * 999), reply_to=reply), reply.metadata.src_node_id)


BROKEN = {
    "late": (only(lambda reply: None), "no reply"),
    "fails": (only(lambda r: failed(r)), "error: xxx"),
    "nan": (arrays_of(lambda a: {n: v * torch.nan for n, v in a.items()}), "not finite"),
    "huge": (arrays_of(lambda a: {n: v.double() * 1e200 for n, v in a.items()}), "not finite"),
    "whole": (arrays_of(lambda a: {n: v.long() for n, v in a.items()}), "masked"),
    "shape": (arrays_of(lambda a: {n: v[..., None] for n, v in a.items()}), "(8, 6, 1) where"),
    "names": (arrays_of(lambda a: {f"x{n}": v for n, v in a.items()}), "masked"),
    "samples": (only(lambda r: said(r, **{"num-examples": 1e300})), "num-examples: expected"),
    "no samples": (only(lambda r: said(r, **{"num-examples": float("nan")})), "num-examples"),
    "unreadable": (only(unreadable), "0.weight: cannot be read"),
}


class Tolerant(flowers.FedAvg):
    """A strategy that keeps the model, as a user's own may where Flower's raise."""

    def aggregate_train(self, server_round, replies):
        self.heard = [reply.metadata.src_node_id for reply in replies]
        return None, None


@pytest.mark.parametrize("name", BROKEN)
def test_a_reply_that_cannot_be_scored_is_missing_and_says_why(name, tmp_path):
    meddle, why = BROKEN[name]
    path = tmp_path / "ledger"
    strategy = Scored(Tolerant(**ALL), path)
    start = ArrayRecord(network().state_dict())
    strategy.start(Grid(client_app(), meddle), start, num_rounds=3)
    held = list(entries(path))
    assert [len(entry.node) for entry in held] == [4, 3, 4]
    assert list(held[1].missing) == [str(NODES[2])]
    assert why in held[1].missing[str(NODES[2])]
    assert len(held[1].missing[str(NODES[2])]) <= 200


def test_the_order_in_which_a_node_sends_its_arrays_says_nothing(tmp_path):
    turned = arrays_of(lambda arrays: dict(reversed(arrays.items())))
    for path, meddle in (("plain", None), ("turned", turned)):
        trained(Scored(flowers.FedAvg(**ALL), tmp_path / path), meddle=meddle)
    plain, other = (list(entries(tmp_path / path)) for path in ("plain", "turned"))
    assert [entry.scores for entry in plain] == [entry.scores for entry in other]
    assert [entry.missing for entry in other] == [{}, {}, {}]


def test_a_reply_in_anothers_name_counts_for_nobody_twice(tmp_path):
    """Flower 1.41 does not compare; what is seen is who came first, and who was not asked."""
    path = tmp_path / "ledger"
    strategy = Scored(Tolerant(**ALL), path)
    app, start = client_app(), ArrayRecord(network().state_dict())
    strange = {(2, 2): NODES[0], (3, 2): 5}
    meddle = lambda k, t, r: named_as(r, strange[k, t]) if (k, t) in strange else r  # noqa: E731
    strategy.start(Grid(app, meddle), start, num_rounds=2)
    assert sorted(strategy.heard) == sorted([NODES[0], NODES[0], NODES[1], 5])
    entry = list(entries(path))[1]
    assert sorted(map(int, entry.node)) == sorted([NODES[0], NODES[1]])
    assert entry.missing == {
        str(NODES[2]): "no reply",
        str(NODES[3]): "no reply",
        "5": "it was not asked",
    }


def test_a_server_that_was_started_again_goes_on(tmp_path):
    """Two runs of two rounds on one ledger: scores are those of one run that never stopped."""

    def late(k, t, r):
        return None if (k, t) in ((3, 1), (2, 2)) else r

    path, start = tmp_path / "deep" / "ledger", ArrayRecord(network().state_dict())
    for part in (0, 1):
        strategy = Scored(Tolerant(**ALL), path)
        grid = Grid(client_app(), late)
        grid.rounds = 2 * part
        strategy.start(grid, start, num_rounds=2)
    standing = Standing(FROM_UPDATES)
    for entry in entries(path):
        standing.add(entry)
    assert standing.rounds == 4
    assert standing.scores() == strategy.scored.scores()
    whole = Scored(Tolerant(**ALL), tmp_path / "whole")
    grid = Grid(client_app(), late)
    configure = whole.configure_train
    # Flower's round numbers begin anew with a server; clients seed their work with them.
    whole.configure_train = lambda t, *more: configure((t - 1) % 2 + 1, *more)
    whole.start(grid, start, num_rounds=4)
    assert whole.scored.scores() == strategy.scored.scores()


def masked(k, t, reply):
    """As secure aggregation sends: whole numbers."""
    sent = reply.content["arrays"].to_torch_state_dict()
    reply.content["arrays"] = ArrayRecord({n: (v * 1e6).long() for n, v in sent.items()})
    return reply


def test_masked_replies_are_refused_in_the_first_round(tmp_path):
    with pytest.raises(ValueError, match=r"none of 4 can be scored.*masked"):
        trained(Scored(flowers.FedAvg(**ALL), tmp_path / "l"), meddle=masked)
    one = lambda k, t, r: masked(k, t, r) if k == 0 else r  # noqa: E731
    strategy = Scored(Tolerant(**ALL), tmp_path / "one")
    start = ArrayRecord(network().state_dict())
    strategy.start(Grid(client_app(), one), start, num_rounds=2)
    assert [len(entry.node) for entry in entries(tmp_path / "one")] == [3, 3]


def test_what_fails_later_does_not_end_a_training(tmp_path, caplog):
    alone = trained(flowers.FedAvg(**ALL))
    calls = []

    def fails(arrays: ArrayRecord) -> float:
        calls.append(1)
        if len(calls) == 6:
            raise RuntimeError("no disk")
        return validate(arrays)

    path = tmp_path / "ledger"
    strategy = Scored(flowers.FedAvg(**ALL), path, methods=["leave one out"], validate=fails)
    assert trained(strategy) == alone
    assert "round 2 is not scored: no disk" in caplog.text
    assert len(list(entries(path))) == 2


def test_what_fails_at_first_is_an_error(tmp_path):
    def fails(arrays: ArrayRecord) -> float:
        raise RuntimeError("no disk")

    strategy = Scored(flowers.FedAvg(**ALL), tmp_path / "ledger", validate=fails)
    with pytest.raises(RuntimeError, match="no disk"):
        trained(strategy)


def test_a_strategy_that_cannot_be_asked_about_silence_says_so(tmp_path):
    """Flower 1.41 divides by the length of a zero update when it clips."""
    strategy = Scored(STRATEGIES["noise"](), tmp_path / "ledger", validate=validate)
    with pytest.raises(ValueError, match=r"^methods: .*ZeroDivisionError.*that need no valid"):
        trained(strategy)


def test_statistics_of_batch_normalisation_do_not_count(tmp_path):
    """A counter of batches would be nearly all of an update's length."""

    def grown(k, t, reply):
        change = arrays_of(lambda a: a | {"1.running_mean": a["1.running_mean"] + 1e6})
        return change(2, 2, reply) if k == 2 else reply

    norms = []
    for meddle in (None, grown):
        path = tmp_path / f"ledger{len(norms)}"
        strategy = Scored(Tolerant(**ALL), path)
        start = ArrayRecord(network().state_dict())
        strategy.start(Grid(client_app(), meddle), start, num_rounds=1)
        norms.append(next(entries(path)).norm)
    assert norms[0] == norms[1]


def test_the_line_of_the_page_is_enough(tmp_path):
    """The page's own words, with another path; then its table names every score there is."""
    page = (chapters.ROOT / "book" / "scored.md").read_text(encoding="utf-8")
    block = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0]
    assert block.count("/srv/fl/") == 1
    names = {"FedAdam": lambda **given: flowers.FedAdam(**ALL | given)}
    exec(block.replace("/srv/fl", str(tmp_path)), names)
    trained(names["strategy"])
    assert len(list(entries(tmp_path / "ledger.jsonl"))) == 3
    frame = table(tmp_path / "ledger.jsonl")
    assert len(frame) == 12
    assert set(strategy_scores := names["strategy"].scored.scores()) <= set(frame.columns)
    assert {*strategy_scores["CGSV"]} == set(frame["node"])
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", page, flags=re.MULTILINE)
    assert rows[1:] == list(NEEDS)


REFUSED = {
    "strategy": lambda path: Scored(object(), path),
    "methods: Shapley, silent needs validate=": lambda p: Scored(
        flowers.FedAvg(**ALL), p, methods=["Shapley, silent"]
    ),
    "methods: trust cosine needs trusted=": lambda p: Scored(
        flowers.FedAvg(**ALL), p, methods=["trust cosine"], validate=validate
    ),
    "methods: ": lambda p: Scored(flowers.FedAvg(**ALL), p, methods=["nonsense"]),
    "methods: expected at least one": lambda p: Scored(flowers.FedAvg(**ALL), p, methods=[]),
    "strategy: is scored": lambda p: Scored(Scored(flowers.FedAvg(**ALL), p), p),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_is_refused_by_name(message, tmp_path):
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        REFUSED[message](tmp_path / "ledger")
