"""What strangers and clients have tried against a training: refused or contained, and named.

Each attack is tried on a training over nodes in this process, which then ends as it should. Real
processes, ports and the network are in test_fleet.py.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fedlab_mini as fm

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from nodes import LOCAL, NODE, SIZES, Grid, Spy, changed, identity, over_nodes

import fedlab_flower as flower
from fedlab_flower import client, nodes, private, server
from fedlab_flower.records import pack, reply_parts, unpack

assert identity  # a fixture that every test here uses, too
NET = fm.mlp(6, 4, 3)
REGISTERED = {node: k for k, node in enumerate(NODE)}
EVERYBODY, WITHOUT_3 = ([0, 1, 2, 3, 4], []), ([0, 1, 2, 4], [3])


def with_settings(reply: Message, **parts) -> Message:
    """A reply with settings that `pack` would not write."""
    reply.content["settings"] = ConfigRecord(dict(reply.content["settings"]) | parts)
    return reply


def with_update(reply: Message, data: bytes, shape=(43,), dtype="float64") -> Message:
    """A reply whose update is some bytes, said to be an array."""
    array = Array(dtype=dtype, shape=shape, stype="numpy.ndarray", data=data)
    reply.content["arrays"] = ArrayRecord({"update": array})
    return reply


def npy(header: str, data: bytes = b"") -> bytes:
    """Bytes with a header of NumPy's that says anything."""
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


BAD_REPLIES = {
    "an array for the round": lambda r: changed(r, t=torch.tensor([2, 2])),
    "a list for the round": lambda r: with_settings(r, t=[2, 2]),
    "an array for the client": lambda r: changed(r, client=torch.tensor([3, 3])),
    "a text for the client": lambda r: with_settings(r, client="3"),
    "an array for the size": lambda r: changed(r, size=torch.tensor([13, 13])),
    "no samples": lambda r: with_settings(r, size=0),
    "less than no samples": lambda r: with_settings(r, size=-(10**12)),
    "a fraction of a sample": lambda r: with_settings(r, size=12.5),
    "no secret": lambda r: changed(r, secret=None),
    "another secret": lambda r: with_settings(r, secret="0" * 32),
    "bytes for the secret": lambda r: with_settings(r, secret=b"0" * 16),
    "words for the update": lambda r: changed(r, update="an update"),
    "whole numbers": lambda r: changed(r, update=torch.zeros(43, dtype=torch.long)),
    "one number more": lambda r: changed(r, update=torch.zeros(44).double()),
    "a matrix": lambda r: changed(r, update=torch.zeros(43, 1).double()),
    "500 MB": lambda r: with_update(r, bytes(500_000_000)),
    "no array at all": lambda r: with_update(r, b"an update"),
    "a terabyte, it says": lambda r: with_update(
        r, npy("{'descr': '<f8', 'fortran_order': False, 'shape': (125000000000,), }")
    ),
    "fewer bytes than it says": lambda r: with_update(
        r, npy("{'descr': '<f8', 'fortran_order': False, 'shape': (43,), }", bytes(80))
    ),
    "Python objects": lambda r: with_update(
        r, npy("{'descr': '|O', 'fortran_order': False, 'shape': (43,), }", b"cos\nsystem\n.")
    ),
    "a header that is a program": lambda r: with_update(r, npy("__import__('os').abort()")),
    "no settings": lambda r: Message(
        RecordDict({"arrays": r.content["arrays"]}), reply_to=as_task(r)
    ),
}


def as_task(reply: Message) -> Message:
    """What a reply could be a reply to."""
    about = reply.metadata
    task = Message(RecordDict(), about.src_node_id, about.message_type)
    task.metadata.__dict__["_message_id"] = "1"
    return task


@pytest.mark.parametrize("bad", BAD_REPLIES.values(), ids=BAD_REPLIES)
@pytest.mark.parametrize("alike", [True, False], ids=["as fm.train", "own minibatches"])
def test_a_bad_reply_is_left_out_and_named(make_fed, caplog, bad, alike):
    """One bad client of five in one round: the others' round is whole, and so are all others."""
    strategy = Spy()

    def meddle(k, t, reply):
        return bad(reply) if (k, t) == (3, 2) else reply

    grid = lambda app, n: Grid(app, meddle=meddle)  # noqa: E731
    over_nodes(make_fed(SIZES), NET, strategy, 3, grid=grid, same_as_train=alike)
    assert [seen[:2] for seen in strategy._seen] == [EVERYBODY, WITHOUT_3, EVERYBODY]
    assert f"round 2: node {NODE[3]} fails: " in caplog.text


def test_a_look_at_500_megabytes_takes_no_memory():
    said = pack(update=torch.zeros(43).double(), t=1, client=0, size=9, secret="1")
    array = Array(dtype="float64", shape=(43,), stype="numpy.ndarray", data=bytes(500_000_000))
    said["arrays"] = ArrayRecord({"update": array})
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"^update: expected 43 numbers, got 500000000 bytes"):
            reply_parts(said, "train", "1", 43)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_own_minibatches_tell_a_client_nothing_of_the_others(make_fed):
    """Neither the seed nor anybody's size is in a task; a training repeats all the same."""
    fed, told = make_fed(SIZES), []

    class Reads(Grid):
        def send_and_receive(self, messages, *, timeout=None):
            told.extend(unpack(message.content) for message in messages)
            return super().send_and_receive(messages, timeout=timeout)

    one, other = (
        over_nodes(fed, NET, fm.CGSV(), 3, grid=Reads, same_as_train=False) for _ in range(2)
    )
    names = set().union(*told)
    assert {"theta", "t", "mark", "secret", "client", "heard"} < names
    assert not names & {"seed", "offset", "total", "size", "clients"}
    assert torch.equal(one.theta, other.theta)
    alike = fm.train(fed, NET, fm.CGSV(), rounds=3, local=LOCAL, seed=3)
    assert not torch.equal(one.theta, alike.theta)
    torch.testing.assert_close(one.loss[-1], alike.loss[-1], rtol=0, atol=0.1)


def claims(size: int, *, at_the_start: bool, k: int = 3):
    """A client that says it holds so many samples."""

    def grid(app, clients):
        made = Grid(app, meddle=lambda c, t, r: with_settings(r, size=size) if c == k else r)
        send = made.send_and_receive

        def answered(messages, *, timeout=None):
            replies = send(messages, timeout=timeout)
            for reply in replies:
                if at_the_start and reply.metadata.src_node_id == NODE[k] and made.t == 0:
                    with_settings(reply, size=size)
            return replies

        made.send_and_receive = answered
        return made

    return grid


@pytest.mark.parametrize("alike", [True, False], ids=["as fm.train", "own minibatches"])
def test_a_million_million_samples_count_as_those_that_are_registered(
    make_fed, tmp_path, caplog, alike
):
    """And a checkpoint holds no more: the same command goes on from it."""
    fed, strategy = make_fed(SIZES), Spy()
    given = {"samples": dict(enumerate(SIZES)), "clients": REGISTERED, "same_as_train": alike}
    given |= {"grid": claims(10**12, at_the_start=True), "checkpoint": tmp_path / "c.npz"}
    found = over_nodes(fed, NET, strategy, 2, **given)
    over_nodes(fed, NET, strategy, 4, **given)
    assert {tuple(seen[2]) for seen in strategy._seen} == {SIZES}
    assert "client 3 claims 1000000000000 samples; 13 count" in caplog.text
    honest = over_nodes(fed, NET, Spy(), 2, same_as_train=alike)
    assert torch.equal(found.theta, honest.theta)


def test_where_nothing_is_registered_a_claim_has_a_limit_too(make_fed):
    strategy = Spy()
    grid = claims(10**12, at_the_start=False)
    over_nodes(make_fed(SIZES), NET, strategy, 2, grid=grid, same_as_train=False)
    assert [seen[2][3] for seen in strategy._seen] == [10_000_000] * 2


def growing(fed, k: int, more: int):
    """``load`` of nodes of whom one begins with fewer samples, and then has more and more."""
    calls = SimpleNamespace(of_k=0)

    def load(context):
        client = context.node_config["partition-id"]
        x, y = fed.client(client)
        if client == k:
            length = min(len(y) - 3 + more * calls.of_k, len(y))
            calls.of_k += 1
            x, y = x[:length], y[:length]
        return client, x, y

    return load


def test_data_that_grow_are_trained_on_and_weigh_more(make_fed):
    fed, strategy = make_fed(SIZES), Spy()
    over_nodes(fed, NET, strategy, 4, load=growing(fed, 3, 1), same_as_train=False)
    assert [seen[2][3] for seen in strategy._seen] == [11, 12, 13, 13]
    assert [seen[1] for seen in strategy._seen] == [[]] * 4


def test_data_that_grow_leave_minibatches_alone_where_all_hang_on_them(make_fed):
    """As fm.train: the samples of the start count, and the client is not out for good."""
    fed, strategy = make_fed(SIZES), Spy()
    found = over_nodes(fed, NET, strategy, 3, load=growing(fed, 3, 1))
    assert [seen[:2] for seen in strategy._seen] == [EVERYBODY] * 3
    fewer = [fed.client(k) for k in range(5)]
    fewer[3] = tuple(part[:10] for part in fewer[3])
    start = fm.Federation.from_datasets(fewer, validation=fed.validation, test=fed.test, classes=3)
    wanted = fm.train(start, NET, fm.FedAvg(), rounds=3, local=LOCAL, seed=3)
    torch.testing.assert_close(found.theta, wanted.theta, rtol=0, atol=1e-6)


def test_data_that_shrink_are_missing_where_all_hang_on_them(make_fed, caplog):
    fed, strategy = make_fed(SIZES), Spy()
    over_nodes(fed, NET, strategy, 1, load=growing(fed, 3, -1))
    assert strategy._seen[0][1] == [3]
    assert "size: expected a whole number of 1..9, got 10" in caplog.text


def test_a_forged_reply_does_not_count_and_the_true_one_does(make_fed, caplog):
    """Client 1 answers for client 0, first and under its node's name, as Flower 1.41 lets it."""
    fed = make_fed(SIZES)

    class Forges(Grid):
        def send_and_receive(self, messages, *, timeout=None):
            kinds = {message.metadata.message_type for message in messages}
            replies = super().send_and_receive(messages, timeout=timeout)
            if kinds != {"train"}:
                return replies
            # All that client 1 knows: its own task, with a secret of its own.
            (mine,) = [m for m in messages if m.metadata.dst_node_id == NODE[1]]
            known = unpack(mine.content)
            (victim,) = [m for m in messages if m.metadata.dst_node_id == NODE[0]]
            for secret in (known["secret"], "", "0" * 32):
                said = pack(
                    update=torch.full((43,), 9.0).double(),
                    t=self.t,
                    client=0,
                    size=9,
                    secret=secret,
                )
                replies.insert(0, Message(said, reply_to=victim))
            return replies

    honest, attacked = (
        over_nodes(fed, NET, fm.CGSV(), 3, grid=grid, clients=REGISTERED) for grid in (Grid, Forges)
    )
    assert torch.equal(honest.theta, attacked.theta)
    assert torch.equal(honest.scores, attacked.scores)
    wanted = f"node {NODE[0]} fails: secret: expected the number that came with the task"
    assert caplog.text.count(wanted) == 9


def keys(folder) -> dict:
    """Files of a server's signing key: ``key`` and ``pub``."""
    key = Ed25519PrivateKey.generate()
    half = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    whole = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    folder.mkdir()
    (folder / "key").write_bytes(whole)
    (folder / "pub").write_bytes(half)
    return {name: folder / name for name in ("key", "pub")}


def test_an_order_that_the_server_has_not_signed_is_refused(make_fed, tmp_path, monkeypatch):
    """lr = 123, put in by another client: never trained on; so is an order for another node."""
    ours, other = keys(tmp_path / "ours"), keys(tmp_path / "other")
    fed, rates, refusals = make_fed(SIZES), [], []
    trained = client.round_updates

    def watched(fed, net, theta, ids, shuffles, *rest):
        rates.append(shuffles.local.lr)
        return trained(fed, net, theta, ids, shuffles, *rest)

    monkeypatch.setattr(client, "round_updates", watched)
    attacks = {
        "changed": lambda task, node: None,
        "signed by another": lambda task, node: private.sign(
            task, node, "train", private.signing_key(other["key"])
        ),
        "signed for another": lambda task, node: private.sign(
            task, NODE[0], "train", private.signing_key(ours["key"])
        ),
        "unsigned": lambda task, node: task["settings"].pop("signature"),
    }

    class Injects(Grid):
        def send_and_receive(self, messages, *, timeout=None):
            for message in messages:
                node, kind = message.metadata.dst_node_id, message.metadata.message_type
                if kind != "train" or node == NODE[0]:
                    continue
                for name, attack in attacks.items():
                    order = pack(**unpack(message.content) | {"local.lr": 123.0})
                    attack(order, node)
                    injected = Message(order, node, "train")
                    injected.metadata.__dict__["_message_id"] = name
                    try:
                        self.app(injected, self.contexts[node])
                    except ValueError as error:
                        refusals.append(str(error))
            return super().send_and_receive(messages, timeout=timeout)

    app = flower.client_app(fed, NET, server_key=ours["pub"])
    grid = lambda _, clients: Injects(app)  # noqa: E731
    found = over_nodes(fed, NET, Spy(), 2, grid=grid, signing_key=ours["key"])
    assert len(refusals) == 2 * 4 * 4
    assert set(refusals) == {"task: expected one that this client's server has signed"}
    assert set(rates) == {LOCAL.lr}
    assert torch.equal(found.theta, over_nodes(fed, NET, Spy(), 2).theta)


def test_a_client_that_wants_signatures_takes_part_in_nothing_else(make_fed, tmp_path, caplog):
    fed, key = make_fed(SIZES), keys(tmp_path / "a")
    app = flower.client_app(fed, NET, server_key=key["pub"])
    with pytest.raises(RuntimeError, match="no client that is there sent a usable update"):
        over_nodes(fed, NET, Spy(), 2, grid=lambda _, n: Grid(app), patience=0.5, timeout=0.5)
    assert "task: expected one that this client's server has signed" in caplog.text


class Silent(Grid):
    """Nobody answers from a round on, for some sendings."""

    first, times = 2, 10**9

    def send_and_receive(self, messages, *, timeout=None):
        replies = super().send_and_receive(messages, timeout=timeout)
        if self.t >= self.first and self.times > 0 and messages:
            type(self).times -= 1
            return []
        return replies


def test_a_round_with_nobody_is_repeated(make_fed, caplog):
    """The same bytes as without the silence."""
    fed, strategy = make_fed(SIZES), Spy()
    twice = type("Twice", (Silent,), {"times": 2})
    found = over_nodes(fed, NET, strategy, 3, grid=twice)
    assert [seen[:2] for seen in strategy._seen] == [EVERYBODY] * 3
    assert "round 2: nothing usable came, attempt 2" in caplog.text
    assert torch.equal(found.theta, over_nodes(fed, NET, Spy(), 3).theta)


def test_rounds_with_nobody_end_the_training_and_not_its_checkpoint(make_fed, tmp_path):
    fed, given = make_fed(SIZES), {"checkpoint": tmp_path / "c.npz", "results": tmp_path}
    with pytest.raises(RuntimeError, match=r"^round 2: no client that is there sent a usable"):
        over_nodes(fed, NET, fm.CGSV(), 3, grid=type("Never", (Silent,), {}), **given)
    rows = (tmp_path / "scores.csv").read_text().splitlines()
    assert [row[0] for row in rows[1:]] == ["1"] * 5
    found = over_nodes(fed, NET, fm.CGSV(), 3, **given)
    assert torch.equal(found.theta, over_nodes(fed, NET, fm.CGSV(), 3).theta)


def test_one_dead_client_that_is_drawn_alone_ends_nothing(make_fed):
    """Others are there, and their rounds come."""
    fed = make_fed(SIZES)

    class First(Spy):
        def select(self, t):
            return torch.tensor([3] if t == 2 else [0, 1])

    strategy = First()
    grid = lambda app, n: Grid(app, late={(3, 2)})  # noqa: E731
    found = over_nodes(fed, NET, strategy, 3, grid=grid)
    assert not found.weights[1].any()
    assert [seen[0] for seen in strategy._seen] == [[0, 1], [0, 1]]


def test_a_join_that_hangs_or_fails_is_asked_ever_more_seldom(make_fed, monkeypatch):
    """Twenty minutes of rounds: few joins, each of which may cost half a minute."""
    fed, strategy = make_fed(SIZES), Spy()
    clock, asked = SimpleNamespace(now=0.0), []

    def sleep(seconds):
        clock.now += seconds

    watch = SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep)
    monkeypatch.setattr(nodes, "time", watch)

    class Hangs(Grid):
        def send_and_receive(self, messages, *, timeout=None):
            clock.now += 30.0 if self.t else 0.1
            if any(m.metadata.dst_node_id == NODE[4] for m in messages):
                asked.append((clock.now, timeout))
                clock.now += timeout
            return [
                reply
                for reply in super().send_and_receive(messages, timeout=timeout)
                if reply.metadata.src_node_id != NODE[4]
            ]

    over_nodes(fed, NET, strategy, 40, grid=Hangs, patience=20, timeout=60)
    times = [when for when, _ in asked]
    assert asked[0][1] <= 20
    in_training = [timeout for when, timeout in asked if when > times[0] + 30]
    assert in_training
    assert max(in_training) <= 30
    assert len(asked) < 16
    gaps = np.diff(times)
    assert gaps[:3].max() < 120 < 250 < gaps[-3:].max()
    assert [seen[1] for seen in strategy._seen] == [[4]] * 40


@contextlib.contextmanager
def files_end_after(size: int) -> Iterator[None]:
    """Meanwhile the disk takes no more of a file than this many bytes."""
    resource = pytest.importorskip("resource", reason="a system without limits")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("full", ["from the start", "in round 3"])
def test_a_full_disk_ends_a_training_that_goes_on_when_there_is_room(make_fed, tmp_path, full):
    fed, given = make_fed(SIZES), {"checkpoint": tmp_path / "c.npz", "results": tmp_path / "r"}
    with contextlib.ExitStack() as held:

        class Fills(Grid):
            def send_and_receive(self, messages, *, timeout=None):
                replies = super().send_and_receive(messages, timeout=timeout)
                if self.t == 3:
                    held.enter_context(files_end_after(40))
                return replies

        if full == "from the start":
            held.enter_context(files_end_after(40))
        with pytest.raises(OSError, match=r"^checkpoint: cannot write .*c\.npz \("):
            over_nodes(fed, NET, fm.CGSV(), 5, grid=Fills, **given)
    # What is there is whole, and nothing half written lies beside it.
    found = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    done = {"c.npz", "scores.csv", "clients.csv"} if full == "in round 3" else set()
    assert {name for name in found if not name.endswith(".lock")} == done
    if done:
        rows = (tmp_path / "r" / "scores.csv").read_text().splitlines()[1:]
        assert [row[0] for row in rows] == ["1"] * 5 + ["2"] * 5
    went_on = over_nodes(fed, NET, fm.CGSV(), 5, **given)
    honest = over_nodes(fed, NET, fm.CGSV(), 5)
    assert torch.equal(went_on.theta, honest.theta)
    assert torch.equal(went_on.scores, honest.scores)


SECOND = """
import pathlib, sys
from fedlab_flower.private import alone
with alone(pathlib.Path(sys.argv[1])):
    print("in", flush=True)
    sys.stdin.read()
"""


def test_two_trainings_at_once_to_the_same_files_are_refused(make_fed, tmp_path, monkeypatch):
    """Also of two processes; a killed one leaves no lock."""
    monkeypatch.setattr(server, "LAST_WORDS", 0.2)
    fed, file = make_fed(SIZES), tmp_path / "c.npz"
    words = [sys.executable, "-c", SECOND, str(file)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as first:
        assert first.stdout.readline() == "in\n"
        with pytest.raises(RuntimeError, match=r"c\.npz: another process works there"):
            over_nodes(fed, NET, Spy(), 1, checkpoint=file)
        assert not file.exists()
        first.kill()
    over_nodes(fed, NET, Spy(), 1, checkpoint=file)
    assert file.exists()


def test_what_a_training_writes_is_its_owners_alone(make_fed, tmp_path):
    given = {"checkpoint": tmp_path / "a" / "c.npz", "results": tmp_path / "b"}
    over_nodes(make_fed(SIZES), NET, Spy(), 1, **given)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 6
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {path.parent.stat().st_mode & 0o777 for path in files} == {0o700}
