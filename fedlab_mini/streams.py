"""Randomness: one independent stream of numbers for every purpose.

Nothing in the package touches PyTorch's global generator. Whoever needs chance asks for a stream by
(seed, purpose, index): two purposes never share numbers, and the same seed gives the same bytes.
"""

from __future__ import annotations

import hashlib

import torch

from . import checks


def stream(seed: int, purpose: str, *index: int) -> torch.Generator:
    """A generator that depends on nothing but ``(seed, purpose, index)``.

    seed     any integer; purpose  what the numbers are for; index  e.g. the round or the client
    returns  a CPU ``torch.Generator`` (numbers are drawn on the CPU and moved, so devices agree)
    raises   TypeError if the seed is no integer
    """
    key = "/".join(str(part) for part in (checks.whole("seed", seed, None), purpose, *index))
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 1
    return torch.Generator().manual_seed(number)
