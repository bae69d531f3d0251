"""Replies: what clients have sent that is none, or not theirs; left out and named.

Each is tried on a training over nodes in this process, which then ends as it should.
"""

from __future__ import annotations

import copy

import pytest
import torch

import fedlab_mini as fm

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message
from nodes import NODE, SIZES, Grid, changed, identity, over_nodes, spy

from fedlab_flower.messages import unpack

assert identity  # a fixture that every test here uses, too
NET = fm.mlp(6, 4, 3)
EVERYBODY, WITHOUT_3 = ([0, 1, 2, 3, 4], []), ([0, 1, 2, 4], [3])


def with_settings(reply: Message, **parts) -> Message:
    """A reply with settings that `pack` would not write."""
    reply.content["settings"] = ConfigRecord(dict(reply.content["settings"]) | parts)
    return reply


def with_bytes(reply: Message, kind: str, length: int, data: bytes = b"") -> Message:
    """A reply whose update is some bytes, behind a header of NumPy's that says anything."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({length},), }}"
    text = header.encode().ljust(118) + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data
    array = Array(dtype="float64", shape=(43,), stype="numpy.ndarray", data=data)
    reply.content["arrays"] = ArrayRecord({"update": array})
    return reply


def failed(reply: Message) -> Message:
    found = Message(Error(code=2, reason="the disk is full"), reply_to=reply)
    found.metadata.__dict__["_src_node_id"] = reply.metadata.src_node_id
    return found


BAD_REPLIES = {
    "an error": failed,
    "no update": lambda r: changed(r, update=None),
    "no samples": lambda r: with_settings(r, size=0),
    "another nonce": lambda r: with_settings(r, nonce="0" * 32),
    "one number more": lambda r: changed(r, update=torch.zeros(44).double()),
    "a terabyte, it says": lambda r: with_bytes(r, "<f8", 125000000000),
    "fewer bytes than it says": lambda r: with_bytes(r, "<f8", 43, bytes(80)),
    "Python objects": lambda r: with_bytes(r, "|O", 43, b"cos\nsystem\n."),
}


@pytest.mark.parametrize("bad", BAD_REPLIES.values(), ids=BAD_REPLIES)
def test_a_bad_reply_is_left_out_and_named(make_fed, caplog, bad):
    """One bad client of five in one round: the others' round is whole, and so are all others."""
    strategy, seen = spy()
    grid = Grid(meddle=lambda k, t, r: bad(r) if (k, t) == (3, 2) else r)
    over_nodes(make_fed(SIZES), NET, strategy, 3, grid=grid)
    assert [said[:2] for said in seen] == [EVERYBODY, WITHOUT_3, EVERYBODY]
    assert f"round 2: node {NODE[3]} fails: " in caplog.text


class Meddles(Grid):
    """Client 1 answers for others, too, and first: under their nodes' names, as Flower 1.41 lets.

    It knows its own task, with a nonce of its own. Client 2 answers twice; nobody asked client 4.
    """

    def send_and_receive(self, messages, *, timeout=None):
        replies = super().send_and_receive(messages, timeout=timeout)
        if messages and messages[0].metadata.message_type == "train":
            own = {r.metadata.src_node_id: r for r in replies}
            for node, name in ((NODE[1], NODE[0]), (NODE[1], NODE[4]), (NODE[2], NODE[2])):
                more = changed(copy.deepcopy(own[node]), update=torch.full((43,), 9.0).double())
                more.metadata.__dict__["_src_node_id"] = name
                replies = [*replies, more] if name == node else [more, *replies]
        return replies


class Chosen(fm.CGSV):
    """All but client 4."""

    def select(self, server, state, t):
        return torch.tensor([0, 1, 2, 3])


def test_a_forged_reply_does_not_count_and_the_true_one_does(make_fed, caplog):
    fed, plain = make_fed(SIZES), Grid()
    honest, forged = (over_nodes(fed, NET, Chosen(), 3, grid=g) for g in (plain, Meddles()))
    assert torch.equal(honest.theta, forged.theta)
    assert torch.equal(honest.scores, forged.scores)
    assert not forged.weights[:, 4].any()
    assert f"node {NODE[0]} fails: nonce: expected the number" in caplog.text
    nonces = [unpack(task)["nonce"] for task in plain.told]
    assert len(set(nonces)) == len(nonces) == 5 + 3 * 4  # joins, and three rounds
    assert {len(nonce) for nonce in nonces} == {32}
