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

from fedlab_mini.checks import dims, flag, shown, whole
from fedlab_mini.engine import rounds as fl
from fedlab_mini.engine.guard import names
from fedlab_mini.engine.minibatches import LocalSGD

from .private import sign

LOGGER = logging.getLogger("flwr.fedlab_mini")  # where Flower's own lines go
REASON = 500  # characters of a failing node's words that are logged
MOST_SAMPLES = 10_000_000  # that a client may claim where nothing is registered
# What a reply says beside its task's secret number, by the kind of message.
REPLY_FIELDS = {
    "query.join": ("client", "size", "usable", "step"),
    "train": ("t", "client", "size"),
    "query.answer": ("t", "client", "changed"),
}
REPLY_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "t": lambda name, value: whole(name, value, 0),
    "client": lambda name, value: whole(name, value, -1),
    "size": whole,
    "usable": flag,
    "step": flag,
    "changed": flag,
}


def pack(**parts: object) -> RecordDict:
    """Tensors as arrays, numbers and texts as settings; None is left out."""
    arrays, plain_values = {}, {}
    for part_name, part in parts.items():
        if isinstance(part, Tensor):
            arrays[part_name] = Array(part.detach().cpu().numpy())
        elif part is not None:
            plain_values[part_name] = part
    return RecordDict(
        {"arrays": ArrayRecord(arrays), "settings": ConfigRecord(plain_values)}
    )


def unpack(content: RecordDict) -> dict[str, Any]:
    """What ``pack`` was given: tensors, numbers and texts by name."""
    arrays, plain_values = content["arrays"], content["settings"]
    tensors = {
        array_name: torch.from_numpy(array.numpy().copy())
        for array_name, array in arrays.items()
    }
    return tensors | dict(plain_values)


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
    awaited_secrets, messages = {}, []
    for node_id, task in tasks.items():
        awaited_secrets[node_id] = task.config_records["settings"]["secret"] = (
            secrets.token_hex(16)
        )
        if key is not None:
            # After the secret, which the signature covers, too.
            sign(task, node_id, kind, key)
        messages.append(Message(task, node_id, kind, ttl=seconds, group_id=str(t)))
    received = grid.send_and_receive(messages, timeout=seconds) if messages else []
    # A fixed order, so that the log reads the same, no matter who was fast.
    for reply in sorted(received, key=lambda reply: reply.metadata.src_node_id):
        node_id = reply.metadata.src_node_id
        # Nobody has asked it, or a usable reply in its name was there before.
        if node_id not in awaited_secrets:
            continue
        try:
            usable_parts = reply_parts(reply.content, kind, awaited_secrets[node_id], P)
        except Exception as error:  # whatever a node sends; an error reply has no content
            # One line of the log, whatever a client writes.
            reason = str(reply.error.reason if reply.has_error() else error)[:REASON]
            LOGGER.warning(
                "round %d: node %d fails: %s", t, node_id, " ".join(reason.split())
            )
            continue
        del awaited_secrets[node_id]
        yield node_id, usable_parts
    if awaited_secrets:
        LOGGER.warning("round %d: nothing from node %s", t, names(awaited_secrets))


def reply_parts(content: RecordDict, kind: str, secret: str, P: int) -> dict[str, Any]:
    """What a reply says, by name: of a ``train`` reply also its update [P], finite or not.

    Nothing is believed of a stranger's bytes: memory is taken for P numbers and no more.
    raises  ValueError, TypeError or KeyError at the first part that is not what it has to be
    """
    reply_settings = content["settings"]
    # Compared below in constant time: how long it takes tells nothing of the digits.
    returned = reply_settings.get("secret")
    if not isinstance(returned, str) or not hmac.compare_digest(
        returned.encode(), secret.encode()
    ):
        raise ValueError("secret: expected the number that came with the task")
    parts = {
        field_name: REPLY_CHECKS[field_name](field_name, reply_settings.get(field_name))
        for field_name in REPLY_FIELDS[kind]
    }
    if kind == "train":
        parts["update"] = _update(content["arrays"]["update"], P)
    return parts


def _update(array: Any, P: int) -> Tensor:
    """The P numbers of an update, if that is what NumPy's header and the bytes after it say."""
    if not isinstance(array, Array):
        raise TypeError(f"update: expected an array {dims([P])}, got {shown(array)}")
    # At most 8 bytes a number, and room for NumPy's header.
    if len(array.data) > 8 * P + 4096:
        raise ValueError(f"update: expected {P} numbers, got {len(array.data)} bytes")
    # The header alone is read, as a literal: it may claim a terabyte, or hold a program.
    array_file = io.BytesIO(array.data)
    header_readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, _, dtype = header_readers[np.lib.format.read_magic(array_file)](array_file)
    if shape != (P,) or dtype not in (np.float32, np.float64):
        raise ValueError(
            f"update: expected an array {dims([P])}, got {list(shape)} of {dtype}"
        )
    # A copy, since the bytes of a message cannot be written to.
    return torch.from_numpy(np.frombuffer(array.data, dtype, P, array_file.tell()).copy())


def settings(local: LocalSGD) -> dict[str, Any]:
    """How clients train, as numbers to send."""
    return {
        f"local.{field_name}": field_value
        for field_name, field_value in vars(local).items()
    }


def local_sgd(task: Mapping[str, Any]) -> LocalSGD:
    """How to train, from what was sent."""
    return LocalSGD(**_below("local.", task))


def message_parts(message: fl.Message, k: int) -> dict[str, Any]:
    """A strategy's message to client ``k``: its class's name and fields; no other client's id.

    TypeError unless it is a dataclass with tensors, numbers, texts or None in its fields
    """
    if not dataclasses.is_dataclass(message) or isinstance(message, type):
        raise TypeError(
            f"message: expected a dataclass that can be sent, got {message!r}"
        )
    field_values = {
        field.name: getattr(message, field.name) for field in dataclasses.fields(message)
    }
    # Who else is asked is no client's business.
    field_values["clients"] = torch.tensor([k])
    for field_name, field_value in field_values.items():
        if not isinstance(
            field_value, Tensor | bool | int | float | str | np.generic | None
        ):
            raise TypeError(
                f"message: field {field_name} is {field_value!r}, which cannot be sent"
            )
    named_parts = {
        f"message.{field_name}": field_value
        for field_name, field_value in field_values.items()
    }
    return {"kind": type(message).__name__} | named_parts


def received_message(task: Mapping[str, Any], kinds: Iterable[type]) -> fl.Message:
    """The message whose parts were sent, if it is of one of the ``kinds``; else ValueError."""
    # Only classes that the node's owner has named: a task's own name for one makes nothing.
    for message_class in kinds:
        if message_class.__name__ == task["kind"]:
            sent_fields = _below("message.", task)  # what was None was not sent
            # Settings cannot hold None: what is absent was None.
            absent_fields = {
                field.name: None for field in dataclasses.fields(message_class)
            }
            return message_class(**(absent_fields | sent_fields))
    raise ValueError(f"messages: expected to be asked of {task['kind']} as well")


def _below(prefix: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a task whose names begin with a prefix, without it."""
    prefixed_names = [part_name for part_name in task if part_name.startswith(prefix)]
    return {
        part_name.removeprefix(prefix): task[part_name] for part_name in prefixed_names
    }
