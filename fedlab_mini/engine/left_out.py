"""Left out: warnings of clients that do not take part in a round or in a training run.

The average of [McMahan et al. 2017] takes whatever arrives. Here an update that is not finite or
far too long is left out of its round, and its sender is named.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable

from ..worlds.federation import Federation


def names(ids: Iterable[int]) -> str:
    """Client ids for a message: sorted, separated by commas."""
    return ", ".join(map(str, sorted(ids)))


def warn_unusable_data(fed: Federation) -> None:
    """Warn once in a training run about clients whose inputs are not finite."""
    if fed.unusable:
        warnings.warn(
            f"client {names(fed.unusable)} holds inputs that are not finite and is left out",
            stacklevel=3,
        )


def warn_left_out(t: int, clients: list[int], before: Counter[int], asked: int) -> None:
    """Count the clients that are left out of a round; warn the first time for each."""
    newly = [client for client in clients if not before[client]]
    before.update(clients)
    if newly:
        hint = "; no client is left, so scale the inputs or reduce the step size"
        warnings.warn(
            f"round {t}: client {names(newly)} sent an update that is not finite or far too "
            "long; it is left out, now and whenever that happens again"
            f"{hint if len(clients) == asked else ''}",
            stacklevel=5,
        )


def sum_up(left_out: Counter[int]) -> None:
    """Warn of clients that were left out more than once, with the number of rounds."""
    counts = sorted(left_out.items())
    repeated = [f"client {k} in {count} rounds" for k, count in counts if count > 1]
    if repeated:
        warnings.warn(f"left out: {', '.join(repeated)}", stacklevel=4)
