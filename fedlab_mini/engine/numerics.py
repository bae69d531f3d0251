"""Numerics: the state of the process that results depend on, held while models run.

Threads, tiny numbers, and a lock for what PyTorch keeps once for all. Above: model, local.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

DENORMAL = 5e-324

# A module's parameters and mode are shared, and the chance it draws is global: one thread at a time
# calls modules. Perceptrons are trained and evaluated without their module, and need no lock.
LOCK = threading.RLock()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Small products run faster on one thread; the former number is restored afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def no_denormals() -> Iterator[None]:
    """Numbers too small for full precision count as 0: each would cost a hundred usual ones.

    Holds for this thread; restored afterwards.
    """
    before = DENORMAL * 1.0 == 0  # there is no other way to ask
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
