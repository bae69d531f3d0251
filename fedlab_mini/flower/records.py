"""Records: what travels between server and clients, as Flower's arrays and settings.

Below: rounds, minibatches. Above: client, server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from torch import Tensor

from ..engine.minibatches import LocalSGD
from ..engine.rounds import Message


def pack(**parts: object) -> RecordDict:
    """Tensors and NumPy arrays as arrays, numbers and texts as settings; None is left out."""
    arrays, plain = {}, {}
    for name, part in parts.items():
        if isinstance(part, Tensor):
            arrays[name] = Array(part.detach().cpu().numpy())
        elif part is not None:
            plain[name] = part
    return RecordDict({"arrays": ArrayRecord(arrays), "settings": ConfigRecord(plain)})


def unpack(content: RecordDict) -> dict[str, Any]:
    """What ``pack`` was given: tensors, numbers and texts by name."""
    arrays, plain = content["arrays"], content["settings"]
    tensors = {name: torch.from_numpy(array.numpy().copy()) for name, array in arrays.items()}
    return tensors | dict(plain)


def settings(local: LocalSGD) -> dict[str, Any]:
    """How clients train, as numbers to send."""
    return {f"local.{name}": value for name, value in vars(local).items()}


def local_sgd(given: Mapping[str, Any]) -> LocalSGD:
    """How to train, from what was sent."""
    return LocalSGD(**{name[6:]: part for name, part in given.items() if name[:6] == "local."})


def sent(message: Message, k: int) -> dict[str, Any]:
    """A strategy's message to client ``k``: its class's name and fields; no other client's id.

    TypeError unless it is a dataclass with tensors, numbers, texts or None in its fields
    """
    if not dataclasses.is_dataclass(message) or isinstance(message, type):
        raise TypeError(f"message: expected a dataclass that can be sent, got {message!r}")
    fields = {f.name: getattr(message, f.name) for f in dataclasses.fields(message)}
    fields["clients"] = torch.tensor([k])
    for name, value in fields.items():
        if not isinstance(value, Tensor | bool | int | float | str | np.generic | None):
            raise TypeError(f"message: field {name} is {value!r}, which cannot be sent")
    return {"kind": type(message).__name__} | {f"message.{n}": v for n, v in fields.items()}


def received(given: Mapping[str, Any], kinds: Iterable[type]) -> Message:
    """The message that ``sent`` was given, if it is of one of the ``kinds``; else ValueError."""
    found = [kind for kind in kinds if kind.__name__ == given["kind"]]
    if not found:
        raise ValueError(f"messages: expected to be asked of {given['kind']} as well")
    names = [f.name for f in dataclasses.fields(found[0])]
    return found[0](**{name: given.get(f"message.{name}") for name in names})
