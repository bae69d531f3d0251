"""Streams: the same seed gives the same bytes, through control of chance, threads, tiny numbers.

Every purpose has its own independent stream of random numbers, and nothing in the package uses
PyTorch's global generator. Code that needs random numbers asks for a stream by (seed, purpose,
index). The later functions control the state of the process that results depend on.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import random
import threading
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import torch

from .parse import checks

DENORMAL = 5e-324

# Threads share a module's parameters and mode, and its random numbers are global, so only one
# thread at a time calls modules. Perceptrons run without their module, and need no lock.
LOCK = threading.RLock()


def stream(seed: int, purpose: str, *index: int) -> torch.Generator:
    """A generator that depends only on ``(seed, purpose, index)``.

    seed     any integer; purpose  what the numbers are for; index  e.g. the round or the client
    returns  a CPU ``torch.Generator`` (numbers are drawn on the CPU and moved, so devices agree)
    raises   TypeError if the seed is not an integer
    """
    seed = seed if type(seed) is int else checks.whole("seed", seed, None)
    key = "/".join(map(str, (seed, purpose, *index)))
    # The key is hashed, so that neighbouring seeds and indices have unrelated streams.
    digest = hashlib.sha256(key.encode()).digest()
    stream_seed = int.from_bytes(digest[:8], "big") >> 1
    return torch.Generator().manual_seed(stream_seed)


def numbers(generator: torch.Generator, index: np.ndarray) -> np.ndarray:
    """The random 64-bit numbers at some places of one long row, without computing the others.

    index    [N] places from 0; the row depends only on the generator's seed
    returns  [N] uint64, as SplitMix64 gives them           [Steele, Lea & Flood 2014, section 4]
    """
    # State i is seed + (i + 1) * gamma, so a number does not need the earlier ones. Sums and
    # products of uint64 wrap around at 2^64, as the algorithm requires.
    places = index.astype(np.uint64) + np.uint64(1)
    mixed = places * np.uint64(0x9E3779B97F4A7C15) + np.uint64(generator.initial_seed())
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def other_chance() -> bytes:
    """The state of the global random numbers of Python and NumPy."""
    return pickle.dumps((random.getstate(), np.random.get_state()))  # noqa: NPY002


@contextlib.contextmanager
def kept_chance() -> Iterator[None]:
    """Restore all global random states afterwards, as if nobody had drawn numbers."""
    python, numpy = pickle.loads(other_chance())
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread, which is faster for small products; restore the number afterwards.

    A caller's autocast is off inside, so that the products keep their precision
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    autocast = torch.is_autocast_enabled("cpu")
    try:
        with torch.autocast("cpu", enabled=False) if autocast else nullcontext():
            yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def no_denormals() -> Iterator[None]:
    """Treat denormal numbers as 0, because each takes as long as a hundred usual numbers.

    This applies to the current thread, and is restored afterwards.
    """
    before = DENORMAL * 1.0 == 0  # PyTorch has no function for this question
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
