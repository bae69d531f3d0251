"""Private: a file that one process at a time works at, tasks that only the server can have sent.

Chapter 11 says against whom. Below: checks. Above: client, nodes, server.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_pem_public_key,
)
from flwr.app import Array, RecordDict

from fedlab_mini.checks import home

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def readable_by_owner() -> Iterator[None]:
    """Files that are made meanwhile are 0600, folders 0700."""
    # The mask is the whole process's: it is set back whatever happens meanwhile.
    previous_mask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(previous_mask)


@contextlib.contextmanager
def alone(path: Path, seconds: float = 0) -> Iterator[int]:
    """Work at ``path`` as the only process of this machine; whatever ends it frees the path.

    seconds to wait for another process that works there
    yields  the lock's file descriptor: who inherits it holds the lock, too
    raises  RuntimeError if another process works there all the time
    """
    with readable_by_owner():
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file of its own: the path is replaced when it is written, and its lock with it.
        lock_descriptor = os.open(
            path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600
        )
    try:
        deadline = time.monotonic() + seconds
        while fcntl is not None:
            try:
                # The system ends it with its last holder, killed or not; a mere file would stay.
                fcntl.flock(lock_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"{path}: another process works there; stop it or wait for its end"
                    ) from None
                time.sleep(0.1)
        yield lock_descriptor
    finally:
        os.close(lock_descriptor)


def signing_key(path: str | os.PathLike) -> Ed25519PrivateKey:
    """The server's key for tasks, an Ed25519 key in PEM; TypeError for another kind."""
    private_key = load_pem_private_key(home(path).read_bytes(), None)
    if not isinstance(private_key, Ed25519PrivateKey):
        raise TypeError(f"signing_key: expected an Ed25519 key in {path}")
    return private_key


def verifying_key(path: str | os.PathLike) -> Ed25519PublicKey:
    """The public half of a server's key; TypeError for another kind."""
    public_key = load_pem_public_key(home(path).read_bytes())
    if not isinstance(public_key, Ed25519PublicKey):
        raise TypeError(f"server_key: expected an Ed25519 public key in {path}")
    return public_key


def sign(task: RecordDict, node: int, kind: str, key: Ed25519PrivateKey) -> None:
    """Put the server's signature into a task for one node."""
    task.config_records["settings"]["signature"] = key.sign(_summary(task, node, kind))


def verify(task: RecordDict, node: int, kind: str, key: Ed25519PublicKey) -> None:
    """ValueError unless the server has signed this task for this node."""
    try:
        signature: Any = task["settings"]["signature"]
        key.verify(signature, _summary(task, node, kind))
    # Unsigned, not bytes, or of another key: the sender learns nothing of the difference.
    except (InvalidSignature, KeyError, TypeError, ValueError):
        raise ValueError(
            "task: expected one that this client's server has signed"
        ) from None


def _summary(task: RecordDict, node_id: int, message_type: str) -> bytes:
    """A hash of all that a task says, and for whom."""
    # Whom and what it is for is signed, too: a task for one node is none for another.
    task_hash = hashlib.sha256(json.dumps([node_id, message_type]).encode())
    # In one order, since sender and receiver may hold the parts in different ones.
    for record_name, record_items in sorted(task.items()):
        for item_name, item in sorted(record_items.items()):
            if item_name == "signature":
                continue
            item_bytes = (
                item.data if isinstance(item, Array) else json.dumps(item).encode()
            )
            # Lengths between the parts: no two tasks have the same row of bytes.
            item_label = [record_name, item_name, type(item).__name__, len(item_bytes)]
            task_hash.update(json.dumps(item_label).encode() + item_bytes)
    return task_hash.digest()
