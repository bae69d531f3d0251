"""Start: what every training begins with: checks, a fingerprint, the model to start from.

Below: local, checkpoint. Above: training and simulation, which are siblings.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from . import checkpoint as files
from .federation import Federation
from .local import LocalSGD
from .model import Model


def begin(
    fed: Federation,
    net: Model,
    rounds: int,
    local: LocalSGD,
    seed: int,
    theta: Tensor | None = None,
) -> Tensor:
    """Check what every training needs and return the model to start from."""
    if not isinstance(fed, Federation):
        raise TypeError(f"fed: expected a Federation, got {type(fed).__name__}")
    if not isinstance(net, Model):
        raise TypeError(f"net: expected fm.Model(module), got {type(net).__name__}")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise ValueError(f"rounds: expected a whole number of at least 1, got {rounds!r}")
    if not isinstance(local, LocalSGD):
        raise TypeError(f"local: expected an fm.LocalSGD(...), got {local!r}")
    net.check(fed.x, fed.classes)
    if theta is not None and not torch.is_tensor(theta):
        raise TypeError(f"theta: expected a tensor [{net.P}], got {type(theta).__name__}")
    if theta is None:
        return net.init(seed, dtype=fed.x.dtype, device=fed.x.device)
    if theta.shape != (net.P,):
        raise ValueError(f"theta: expected shape [{net.P}], got {list(theta.shape)}")
    if not torch.isfinite(theta).all():
        raise ValueError("theta: holds NaN or infinite values")
    return theta.to(fed.x)


def check_clients(ids: Tensor | Sequence[int], clients: int) -> Tensor:
    """Client ids as a LongTensor; ValueError or TypeError for unknown or repeated ones."""
    try:
        ids = torch.as_tensor(ids if torch.is_tensor(ids) else list(ids)).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"clients: expected client ids, got {ids!r}") from error
    if ids.numel() and (ids.is_floating_point() or ids.dtype == torch.bool):
        raise TypeError(f"clients: expected whole numbers, got {ids.dtype}")
    ids = ids.long()
    if ids.ndim != 1 or len(ids.unique()) != len(ids):
        raise ValueError(f"clients: expected distinct client ids, got {ids.tolist()}")
    if len(ids) and not (int(ids.min()) >= 0 and int(ids.max()) < clients):
        raise ValueError(f"clients: expected ids in 0..{clients - 1}, got {ids.tolist()}")
    return ids


def names(ids: Sequence[int] | set[int]) -> str:
    """Client ids for a message: sorted, separated by commas."""
    return ", ".join(map(str, sorted(ids)))


def warn_unusable(fed: Federation) -> None:
    """Name the clients whose data are not finite, once a training."""
    if fed.unusable:
        warnings.warn(
            f"client {names(fed.unusable)} holds inputs that are not finite and takes no part",
            stacklevel=3,
        )


def describe(fed: Federation, net: Model, local: LocalSGD, seed: int) -> str:
    """Fingerprint of everything a training depends on, for checkpoints."""
    attacks, unusable = sorted(fed.attacks.items()), sorted(fed.unusable)
    data = (fed.x, fed.y, fed.sizes, fed.validation, fed.test, unusable)
    return files.fingerprint(net, attacks, *data, local, seed)
