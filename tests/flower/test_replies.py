"""Replies: what clients have sent that is none, or not theirs; left out and named.

Each is tried on a training over nodes in this process, which then ends as it should.
"""

from __future__ import annotations

import copy

import pytest
import torch

import fedlab_mini as fm

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from nodes import NODE, SIZES, Grid, changed, identity, over_nodes, spy

from fedlab_flower.records import message_parts, received_message

assert identity  # a fixture that every test here uses, too
NET = fm.mlp(6, 4, 3)
EVERYBODY, WITHOUT_3 = ([0, 1, 2, 3, 4], []), ([0, 1, 2, 4], [3])


def with_settings(reply: Message, **parts) -> Message:
    """A reply with settings that `pack` would not write."""
    reply.content["settings"] = ConfigRecord(dict(reply.content["settings"]) | parts)
    return reply


def with_update(reply: Message, data: bytes) -> Message:
    """A reply whose update is some bytes, said to be an array."""
    array = Array(dtype="float64", shape=(43,), stype="numpy.ndarray", data=data)
    reply.content["arrays"] = ArrayRecord({"update": array})
    return reply


def npy(header: str, data: bytes = b"") -> bytes:
    """Bytes with a header of NumPy's that says anything."""
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def without_content(reply: Message) -> Message:
    reply.content = RecordDict()
    return reply


def failed(reply: Message) -> Message:
    found = Message(Error(code=2, reason="the disk is full"), reply_to=reply)
    found.metadata.__dict__["_src_node_id"] = reply.metadata.src_node_id
    return found


BAD_REPLIES = {
    "an error": failed,
    "nothing": without_content,
    "no update": lambda r: changed(r, update=None),
    "an array for the size": lambda r: changed(r, size=torch.tensor([13, 13])),
    "no samples": lambda r: with_settings(r, size=0),
    "no nonce": lambda r: changed(r, nonce=None),
    "another nonce": lambda r: with_settings(r, nonce="0" * 32),
    "words for the update": lambda r: changed(r, update="an update"),
    "one number more": lambda r: changed(r, update=torch.zeros(44).double()),
    "a matrix": lambda r: changed(r, update=torch.zeros(43, 1).double()),
    "a terabyte, it says": lambda r: with_update(
        r, npy("{'descr': '<f8', 'fortran_order': False, 'shape': (125000000000,), }")
    ),
    "fewer bytes than it says": lambda r: with_update(
        r, npy("{'descr': '<f8', 'fortran_order': False, 'shape': (43,), }", bytes(80))
    ),
    "Python objects": lambda r: with_update(
        r, npy("{'descr': '|O', 'fortran_order': False, 'shape': (43,), }", b"cos\nsystem\n.")
    ),
}


@pytest.mark.parametrize("bad", BAD_REPLIES.values(), ids=BAD_REPLIES)
@pytest.mark.parametrize("alike", [True, False], ids=["as fm.train", "own minibatches"])
def test_a_bad_reply_is_left_out_and_named(make_fed, caplog, bad, alike):
    """One bad client of five in one round: the others' round is whole, and so are all others."""
    strategy, seen = spy()
    grid = Grid(meddle=lambda k, t, r: bad(r) if (k, t) == (3, 2) else r)
    over_nodes(make_fed(SIZES), NET, strategy, 3, grid=grid, same_as_train=alike)
    assert [said[:2] for said in seen] == [EVERYBODY, WITHOUT_3, EVERYBODY]
    assert f"round 2: node {NODE[3]} fails: " in caplog.text


class Meddles(Grid):
    """Adds replies to those of each round of training."""

    def more(self, messages: list, replies: list) -> list:
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        replies = super().send_and_receive(messages, timeout=timeout)
        if messages and messages[0].metadata.message_type == "train":
            replies = self.more(messages, replies)
        return replies


def test_a_forged_reply_does_not_count_and_the_true_one_does(make_fed, caplog):
    """Client 1 answers for client 0, first and under its node's name, as Flower 1.41 lets it."""
    fed = make_fed(SIZES)

    class Forges(Meddles):
        def more(self, messages, replies):
            # All that client 1 knows: its own task, with a nonce of its own.
            (mine,) = [r for r in replies if r.metadata.src_node_id == NODE[1]]
            forged = copy.deepcopy(mine)
            forged.metadata.__dict__["_src_node_id"] = NODE[0]
            return [changed(forged, update=torch.full((43,), 9.0).double()), *replies]

    honest, forged = (over_nodes(fed, NET, fm.CGSV(), 3, grid=g) for g in (Grid(), Forges()))
    assert torch.equal(honest.theta, forged.theta)
    assert torch.equal(honest.scores, forged.scores)
    assert f"node {NODE[0]} fails: nonce: expected the number" in caplog.text


def test_a_reply_of_another_round_is_none(make_fed, caplog):
    """Client 3 is late in every round, and each time its last reply is brought."""
    strategy, seen = spy()

    class Late(Meddles):
        kept = None

        def more(self, messages, replies):
            (own,) = [r for r in replies if r.metadata.src_node_id == NODE[3]]
            others = [r for r in replies if r is not own]
            before, self.kept = self.kept, own
            return others if before is None else [*others, before]

    over_nodes(make_fed(SIZES), NET, strategy, 3, grid=Late())
    assert [said[:2] for said in seen] == [WITHOUT_3] * 3
    assert f"round 3: node {NODE[3]} fails: nonce: " in caplog.text


def test_who_was_not_asked_or_answers_twice_counts_for_nothing(make_fed):
    """A second usable reply is another update under the same nonce."""
    fed = make_fed(SIZES)

    class Chosen(fm.FedAvg):
        def select(self, server, state, t):
            return torch.tensor([0, 1, 2])

    class Again(Meddles):
        def more(self, messages, replies):
            twice, stranger = copy.deepcopy(replies[0]), copy.deepcopy(replies[0])
            stranger.metadata.__dict__["_src_node_id"] = NODE[4]
            nines = torch.full((43,), 9.0).double()
            return [*replies, changed(twice, update=nines), changed(stranger, update=nines)]

    one, other = (over_nodes(fed, NET, Chosen(), 2, grid=g) for g in (Grid(), Again()))
    assert torch.equal(one.theta, other.theta)
    assert not other.weights[:, 3:].any()


def test_every_task_has_a_nonce_of_its_own(make_fed):
    grid = Grid()
    over_nodes(make_fed(SIZES), NET, fm.FedAvg(), 3, grid=grid)
    nonces = [task["nonce"] for task in grid.told]
    assert len(set(nonces)) == len(nonces) == 4 * 5  # joins, and three rounds
    assert {len(nonce) for nonce in nonces} == {32}


def test_messages_arrive_as_they_were_sent_and_none_else():
    sent = fm.methods.label_standardisation.Inspection(torch.tensor([4, 7]), torch.rand(3), None)
    task = message_parts(sent, 7)
    found = received_message(task, [type(sent)])
    assert found.clients.tolist() == [7]
    assert torch.equal(found.right, sent.right)
    assert (found.margin, found.groups) == (None, "original")
    with pytest.raises(ValueError, match=r"^messages: expected to be asked of Inspection"):
        received_message(task, [])
