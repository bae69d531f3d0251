"""The page "Bring your own": Flower's arrays, recorded by a strategy of Flower's, are scored."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from helpers import numbers

import chapters
import fedlab_mini as fm

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity

NODES = [2**62 + 5, 77, 403]


class Grid:
    """A network that knows who is there."""

    def get_node_ids(self):
        return NODES


def page(start: str) -> dict:
    """The names that a block of the page defines; the block begins so."""
    text = (chapters.ROOT / "book" / "chapters" / "own.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"```\S+\n({re.escape(start)}.*?\n)```", text, re.DOTALL)
    names = {}
    exec(block, names)
    return names


def test_rounds_that_flower_has_saved_are_scored_as_rounds_in_memory(
    make_fed, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = 1, 1, 1
    fed, module = make_fed((9, 4, 20)), fm.mlp(6, 4, 3).module.double()
    strategy = page("import torch\nfrom flwr")["Recording"](min_train_nodes=3)
    arrays, memory = ArrayRecord(module.state_dict()), []
    for t in (1, 2, 3):
        theta, replies = arrays.to_torch_state_dict(), []
        memory.append({"theta": theta, "models": [], "sizes": [], "clients": []})
        for message in strategy.configure_train(t, arrays, ConfigRecord(), Grid()):
            message.metadata.__dict__["_message_id"] = f"{message.metadata.dst_node_id}"
            k = NODES.index(message.metadata.dst_node_id)
            told = message.content["arrays"].to_torch_state_dict().items()
            sent = ArrayRecord({name: a + 0.1 * numbers(*a.shape, seed=k) for name, a in told})
            size = MetricRecord({"num-examples": int(fed.sizes[k])})
            reply = RecordDict({"arrays": sent, "metrics": size})
            replies.append(Message(reply, reply_to=message))
            memory[-1]["models"].append(sent.to_torch_state_dict())
            memory[-1]["clients"].append(str(NODES[k]))
            memory[-1]["sizes"].append(int(fed.sizes[k]))
        arrays, _ = strategy.aggregate_train(t, replies[::-1])
    methods = [fm.CGSV(), fm.leave_one_out, fm.exact]
    given = {"net": fm.Model(module), "validation": fed.validation, "metric": "loss"}
    names = [str(node) for node in NODES]
    wanted = fm.score(memory, methods=methods, clients=names, **given)
    rounds = sorted(tmp_path.glob("round_*.pt"))
    found = fm.score(rounds, methods=methods, clients=names, **given)
    pd.testing.assert_frame_equal(found, wanted, atol=1e-9)
    without = [{key: r[key] for key in r if key != "theta" or r is memory[0]} for r in memory]
    again = fm.score(without, methods=methods, clients=names, **given)  # averaged as Flower does
    pd.testing.assert_frame_equal(again, wanted, atol=1e-6)
