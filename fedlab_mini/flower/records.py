"""Records: what travels between server and clients, and what of it is believed.

Below: rounds, minibatches, private. Above: client, nodes.
"""

from __future__ import annotations

import dataclasses
import hmac
import io
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from ..checks import dims, flag, shown, whole
from ..engine import rounds as fl
from ..engine.guard import names
from ..engine.minibatches import LocalSGD
from .private import sign

LOGGER = logging.getLogger("flwr.fedlab_mini")  # where Flower's own lines go
REASON = 500  # characters of a failing node's words that are logged
MOST_SAMPLES = 10_000_000  # that a client may claim where nothing is registered
REPLIES = {  # what a reply says beside its task's secret number, by the kind of message
    "query.join": ("client", "size", "usable", "step"),
    "train": ("t", "client", "size"),
    "query.answer": ("t", "client", "changed"),
}
SAID: dict[str, Callable[[str, Any], Any]] = {
    "t": lambda name, value: whole(name, value, 0),
    "client": lambda name, value: whole(name, value, -1),
    "size": whole,
    "usable": flag,
    "step": flag,
    "changed": flag,
}


def pack(**parts: object) -> RecordDict:
    """Tensors as arrays, numbers and texts as settings; None is left out."""
    arrays, plain = {}, {}
    for name, value in parts.items():
        if isinstance(value, Tensor):
            arrays[name] = Array(value.detach().cpu().numpy())
        elif value is not None:
            plain[name] = value
    return RecordDict({"arrays": ArrayRecord(arrays), "settings": ConfigRecord(plain)})


def unpack(content: RecordDict) -> dict[str, Any]:
    """What ``pack`` was given: tensors, numbers and texts by name."""
    arrays, plain = content["arrays"], content["settings"]
    tensors = {name: torch.from_numpy(array.numpy().copy()) for name, array in arrays.items()}
    return tensors | dict(plain)


def replies(
    grid: Grid,
    kind: str,
    tasks: Mapping[int, RecordDict],
    t: int,
    seconds: float,
    P: int,
    key: Ed25519PrivateKey | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """What nodes reply to tasks {node id: task}, the first usable of each; errors are logged.

    A node that brings a reply may name another one as its sender. So each task carries a secret
    number, which its reply has to return; tasks' own numbers are hashes that hold the secret.
    key  signs the tasks
    """
    waiting, messages = {}, []
    for node_id, task in tasks.items():
        waiting[node_id] = task.config_records["settings"]["secret"] = secrets.token_hex(16)
        if key is not None:
            sign(task, node_id, kind, key)
        messages.append(Message(task, node_id, kind, ttl=seconds, group_id=str(t)))
    answers = grid.send_and_receive(messages, timeout=seconds) if messages else []
    # A fixed order, so that the log reads the same, no matter who was fast.
    for reply in sorted(answers, key=lambda reply: reply.metadata.src_node_id):
        node_id = reply.metadata.src_node_id
        if node_id not in waiting:
            continue
        try:
            parts = reply_parts(reply.content, kind, waiting[node_id], P)
        except Exception as error:  # whatever a node sends; an error reply has no content
            # One line of the log, whatever a client writes.
            reason = str(reply.error.reason if reply.has_error() else error)[:REASON]
            LOGGER.warning("round %d: node %d fails: %s", t, node_id, " ".join(reason.split()))
            continue
        del waiting[node_id]
        yield node_id, parts
    if waiting:
        LOGGER.warning("round %d: nothing from node %s", t, names(waiting))


def reply_parts(content: RecordDict, kind: str, secret: str, P: int) -> dict[str, Any]:
    """What a reply says, by name: of a ``train`` reply also its update [P], finite or not.

    Nothing is believed of a stranger's bytes: memory is taken for P numbers and no more.
    raises  ValueError, TypeError or KeyError at the first part that is not what it has to be
    """
    said = content["settings"]
    returned = said.get("secret")
    if not isinstance(returned, str) or not hmac.compare_digest(returned.encode(), secret.encode()):
        raise ValueError("secret: expected the number that came with the task")
    parts = {name: SAID[name](name, said.get(name)) for name in REPLIES[kind]}
    if kind == "train":
        parts["update"] = _update(content["arrays"]["update"], P)
    return parts


def _update(array: Any, P: int) -> Tensor:
    """The P numbers of an update, if that is what NumPy's header and the bytes after it say."""
    if not isinstance(array, Array):
        raise TypeError(f"update: expected an array {dims([P])}, got {shown(array)}")
    if len(array.data) > 8 * P + 4096:
        raise ValueError(f"update: expected {P} numbers, got {len(array.data)} bytes")
    file = io.BytesIO(array.data)
    header = {(1, 0): np.lib.format.read_array_header_1_0,
              (2, 0): np.lib.format.read_array_header_2_0}  # fmt: skip
    shape, _, dtype = header[np.lib.format.read_magic(file)](file)
    if shape != (P,) or dtype not in (np.float32, np.float64):
        raise ValueError(f"update: expected an array {dims([P])}, got {list(shape)} of {dtype}")
    return torch.from_numpy(np.frombuffer(array.data, dtype, P, file.tell()).copy())


def settings(local: LocalSGD) -> dict[str, Any]:
    """How clients train, as numbers to send."""
    return {f"local.{name}": value for name, value in vars(local).items()}


def local_sgd(task: Mapping[str, Any]) -> LocalSGD:
    """How to train, from what was sent."""
    return LocalSGD(**_below("local.", task))


def message_parts(message: fl.Message, k: int) -> dict[str, Any]:
    """A strategy's message to client ``k``: its class's name and fields; no other client's id.

    TypeError unless it is a dataclass with tensors, numbers, texts or None in its fields
    """
    if not dataclasses.is_dataclass(message) or isinstance(message, type):
        raise TypeError(f"message: expected a dataclass that can be sent, got {message!r}")
    values = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
    # Who else is asked is no client's business.
    values["clients"] = torch.tensor([k])
    for name, value in values.items():
        if not isinstance(value, Tensor | bool | int | float | str | np.generic | None):
            raise TypeError(f"message: field {name} is {value!r}, which cannot be sent")
    parts = {f"message.{name}": value for name, value in values.items()}
    return {"kind": type(message).__name__} | parts


def received_message(task: Mapping[str, Any], kinds: Iterable[type]) -> fl.Message:
    """The message whose parts were sent, if it is of one of the ``kinds``; else ValueError."""
    for kind in kinds:
        if kind.__name__ == task["kind"]:
            values = _below("message.", task)  # what was None was not sent
            # Settings cannot hold None: what is absent was None.
            missing = {field.name: None for field in dataclasses.fields(kind)}
            return kind(**(missing | values))
    raise ValueError(f"messages: expected to be asked of {task['kind']} as well")


def _below(prefix: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a task whose names begin with a prefix, without it."""
    found = [name for name in task if name.startswith(prefix)]
    return {name.removeprefix(prefix): task[name] for name in found}
