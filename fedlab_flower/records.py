"""Records: what travels between server and clients, and what of it is believed.

Below: rounds, minibatches. Above: client, server.
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

from fedlab_mini.checks import flag, reals, whole
from fedlab_mini.engine import rounds as fl
from fedlab_mini.engine.guard import names

LOGGER = logging.getLogger("flwr.fedlab_mini")  # where Flower's own lines go
REASON = 500  # characters of a failing node's words that are logged
# What a reply says beside its task's nonce and an update, by the kind of message.
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
    """What ``pack`` was given: tensors, numbers and texts by name."""
    arrays, settings = content["arrays"], content["settings"]
    tensors = {name: torch.from_numpy(a.numpy().copy()) for name, a in arrays.items()}
    return tensors | dict(settings)


class Tasks:
    """Messages to some nodes, and which replies to them count.

    A node that brings a reply may name another one as its sender. So each task carries a nonce,
    128 fresh random bits that its reply has to return: no other node, and no other round, has it.

    kind   "query.join", "train" or "query.answer"; tasks  {node id: what it is sent}
    t      the round, for the log; P  numbers of an update
    seconds  after which nobody waits for the replies any more
    """

    def __init__(
        self, kind: str, tasks: Mapping[int, RecordDict], t: int, P: int, seconds: float
    ):
        self.kind, self.t, self.P, self.seconds = kind, t, P, seconds
        self.awaited = {node: secrets.token_hex(16) for node in tasks}
        self.messages = []
        for node, task in tasks.items():
            task.config_records["settings"]["nonce"] = self.awaited[node]
            # A node that comes back later has no old tasks to work through.
            message = Message(task, node, kind, ttl=seconds, group_id=str(t))
            self.messages.append(message)

    def asked(self, grid: Grid) -> dict[int, dict[str, Any]]:
        """Send them now; see ``believed``."""
        if not self.messages:
            return {}
        return self.believed(grid.send_and_receive(self.messages, timeout=self.seconds))

    def believed(self, replies: Iterable[Message]) -> dict[int, dict[str, Any]]:
        """{node: what its reply says}, the first usable one of each; all others are logged."""
        said = {}
        # In a fixed order, so that the log reads the same, no matter who was fast.
        for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id):
            node = reply.metadata.src_node_id
            # Nobody has asked it, or a usable reply in its name was there before.
            if node not in self.awaited:
                continue
            try:
                nonce = self.awaited[node]
                said[node] = reply_parts(reply.content, self.kind, nonce, self.P)
                del self.awaited[node]
            except Exception as error:  # whatever a node sends; an error has no content
                words = str(reply.error.reason if reply.has_error() else error)[:REASON]
                LOGGER.warning(
                    "round %d: node %d fails: %s", self.t, node, " ".join(words.split())
                )
        if self.awaited:
            LOGGER.warning("round %d: nothing from node %s", self.t, names(self.awaited))
        return said


def reply_parts(content: RecordDict, kind: str, nonce: str, P: int) -> dict[str, Any]:
    """What a reply says, by name; an error at the first part that is not what it has to be."""
    settings = content["settings"]
    if settings.get("nonce") != nonce:
        raise ValueError("nonce: expected the number that came with the task")
    parts = {
        name: check(name, settings.get(name)) for name, check in FIELDS[kind].items()
    }
    if kind == "train":
        # Finite or not: the book's own rule of usable updates judges that.
        update: Any = content["arrays"]["update"]
        parts["update"] = reals("update", update.numpy().copy(), [P], finite=False)
    return parts


def message_parts(message: fl.Message, k: int) -> dict[str, Any]:
    """A strategy's message to client ``k``: its class's name and fields; no other id.

    TypeError unless it is a dataclass
    """
    fields = {f.name: getattr(message, f.name) for f in dataclasses.fields(message)}  # type: ignore[arg-type]
    # Who else is asked is no client's business.
    fields["clients"] = torch.tensor([k])
    return {"kind": type(message).__name__} | prefixed("message.", fields)


def received_message(task: Mapping[str, Any], kinds: Iterable[type]) -> fl.Message:
    """The message whose parts were sent, if it is of one of the ``kinds``; else ValueError."""
    for kind in kinds:
        if kind.__name__ == task["kind"]:
            # Settings cannot hold None: what is absent was None.
            absent: dict[str, Any] = dict.fromkeys(
                f.name for f in dataclasses.fields(kind)
            )
            return kind(**(absent | below("message.", task)))
    raise ValueError(f"messages: expected to be asked of {task['kind']} as well")


def prefixed(prefix: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The same parts under names that begin with ``prefix``."""
    return {f"{prefix}{name}": part for name, part in parts.items()}


def below(prefix: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """What ``prefixed`` was given, out of all parts of a task."""
    return {n.removeprefix(prefix): p for n, p in task.items() if n.startswith(prefix)}
