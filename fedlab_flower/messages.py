"""Messages: what server and clients send each other, and which replies count.

Builds on engine.rounds; used by client and server.
"""

from __future__ import annotations

import dataclasses
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedlab_mini.engine import rounds as fl
from fedlab_mini.engine.left_out import names
from fedlab_mini.parse.checks import flag, reals, whole

LOGGER = logging.getLogger("flwr.fedlab_mini")  # a part of Flower's own log
REASON = 500  # characters of a failing node's message that are logged
# The fields of a reply besides its task's nonce and an update, by the kind of message.
FIELDS: dict[str, dict[str, Callable[[str, Any], Any]]] = {
    "query.join": {"client": partial(whole, low=0), "size": whole},
    "train": {"size": whole},
    "query.answer": {"changed": flag},
}


def pack(**parts: object) -> RecordDict:
    """Tensors as arrays, numbers and texts as settings; None is left out."""
    arrays, settings = {}, {}
    for name, part in parts.items():
        if isinstance(part, Tensor):
            arrays[name] = Array(part.detach().cpu().numpy())
        elif part is not None:
            settings[name] = part
    return RecordDict({"arrays": ArrayRecord(arrays), "settings": ConfigRecord(settings)})


def unpack(content: RecordDict) -> dict[str, Any]:
    """The arguments of ``pack``: tensors, numbers and texts by name."""
    arrays, settings = content["arrays"], content["settings"]
    tensors = {name: torch.from_numpy(a.numpy().copy()) for name, a in arrays.items()}
    return tensors | dict(settings)


class Tasks:
    """Messages to some nodes, and the rule for which replies count.

    A reply may name a false sender. So each task carries a nonce, 128 new random bits that its
    reply has to return. No other node and no other round knows it.

    kind   "query.join", "train" or "query.answer"; tasks  {node id: content of the message}
    t      the round, for the log; P  numbers of an update
    seconds  how long the server waits for the replies
    """

    def __init__(self, kind: str, tasks: Mapping[int, RecordDict], t: int, P: int, seconds: float):
        self.kind, self.t, self.P, self.seconds = kind, t, P, seconds
        self.awaited = {node: secrets.token_hex(16) for node in tasks}
        self.messages = []
        for node, task in tasks.items():
            task.config_records["settings"]["nonce"] = self.awaited[node]
            # With a time limit, a node that returns later does not work on old tasks.
            message = Message(task, node, kind, ttl=seconds, group_id=str(t))
            self.messages.append(message)

    def asked(self, grid: Grid) -> dict[int, dict[str, Any]]:
        """Send the messages now, and return the replies that count, see ``believed``."""
        if not self.messages:
            return {}
        return self.believed(grid.send_and_receive(self.messages, timeout=self.seconds))

    def believed(self, replies: Iterable[Message]) -> dict[int, dict[str, Any]]:
        """{node: parts of its first usable reply}; errors and missing replies are logged."""
        said = {}
        # In a fixed order, so that the log does not depend on the order of arrival.
        for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id):
            node = reply.metadata.src_node_id
            # The node was not asked, or a usable reply in its name came earlier.
            if node not in self.awaited:
                continue
            try:
                nonce = self.awaited[node]
                said[node] = reply_parts(reply.content, self.kind, nonce, self.P)
                del self.awaited[node]
            except Exception as error:  # a node may send anything
                words = str(reply.error.reason if reply.has_error() else error)[:REASON]
                LOGGER.warning("round %d: node %d fails: %s", self.t, node, " ".join(words.split()))
        if self.awaited:
            LOGGER.warning("round %d: nothing from node %s", self.t, names(self.awaited))
        return said


def reply_parts(content: RecordDict, kind: str, nonce: str, P: int) -> dict[str, Any]:
    """The parts of a reply by name; an error at the first part that is not valid."""
    settings = content["settings"]
    if settings.get("nonce") != nonce:
        raise ValueError("nonce: expected the number that came with the task")
    parts = {name: check(name, settings.get(name)) for name, check in FIELDS[kind].items()}
    if kind == "train":
        # Not checked for finite values, because the book's rule of usable updates does it.
        update: Any = content["arrays"]["update"]
        parts["update"] = reals("update", update.numpy().copy(), [P], finite=False)
    return parts


def message_parts(message: fl.Message, k: int) -> dict[str, Any]:
    """A strategy's message to client ``k``: its class's name and fields, without other ids.

    TypeError unless it is a dataclass
    """
    message = getattr(message, "inside", message)  # a stranger's message is wrapped by the gate
    fields = {f.name: getattr(message, f.name) for f in dataclasses.fields(message)}  # type: ignore[arg-type]
    # A client must not learn which other clients get the message.
    fields["clients"] = torch.tensor([k])
    return {"kind": type(message).__name__} | prefixed("message.", fields)


def received_message(task: Mapping[str, Any], kinds: Iterable[type]) -> fl.Message:
    """The message from its parts, if its class is among ``kinds``; else ValueError."""
    for kind in kinds:
        if kind.__name__ == task["kind"]:
            # Settings cannot hold None, so an absent field was None.
            absent: dict[str, Any] = dict.fromkeys(f.name for f in dataclasses.fields(kind))
            return kind(**(absent | below("message.", task)))
    raise ValueError(f"messages: expected the class {task['kind']} among them")


def prefixed(prefix: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The same parts under names that begin with ``prefix``."""
    return {f"{prefix}{name}": part for name, part in parts.items()}


def below(prefix: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``prefixed``, among all parts of a task."""
    return {n.removeprefix(prefix): p for n, p in task.items() if n.startswith(prefix)}
