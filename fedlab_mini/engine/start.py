"""Start: what every training begins with: checks, a fingerprint, the model to start from.

Below: local, checkpoint. Above: training and simulation, which are siblings.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from torch import Tensor

from ..checks import instance, reals, whole
from ..worlds.federation import Federation
from . import checkpoint as files
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
    instance("fed", fed, Federation, "a Federation")
    instance("net", net, Model, "fm.Model(module)")
    instance("local", local, LocalSGD, "fm.LocalSGD(...)")
    local.rate(whole("rounds", rounds))  # that of the last round must be finite
    net.check(fed.x, fed.classes)
    if theta is None:
        return net.init(seed, dtype=fed.x.dtype, device=fed.x.device)
    return reals("theta", theta, [net.P], dtype=fed.x.dtype).to(fed.x.device)


def names(ids: Iterable[int]) -> str:
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
