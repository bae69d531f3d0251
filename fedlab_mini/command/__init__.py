"""Command: what the command lines share, an object of the user's by its name."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any


def imported(option: str, text: str) -> Any:
    """The object that ``package.module:NAME`` names; modules of the working folder are found.

    raises  ValueError naming the option
    """
    where, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(where), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{option}: expected module:NAME, got {text} ({error})") from error
