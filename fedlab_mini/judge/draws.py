"""Draws: how far scores of recorded rounds hang on which validation samples the server holds.

The page "Bring your own" shows it, and ``python -m fedlab_mini score --draws 20``. Below: score.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from ..checks import array, shown, whole
from ..engine import progress
from ..streams import stream
from .score import score
from .student import student

if TYPE_CHECKING:
    import pandas


def score_intervals(
    updates: Any,
    *,
    validation: tuple[Any, Any] | None = None,
    draws: int = 20,
    **given: Any,
) -> pandas.DataFrame:
    """The table of ``fm.score``; beside each score the ends of an interval over validation draws.

    updates  and the rest as for ``fm.score``; records that can be read more than once
    draws    how often as many samples are drawn from ``validation``, with repetition, and all is
             scored again: it takes that many times as long, and once more
    returns  the same table; beside a column "exact" stand "exact, low" and "exact, high", a 95 %
             interval: how far the score hangs on the samples that happen to be there. NaN where
             no draw moves a score, as it does not look at them
    raises   as ``fm.score``, and for draws below 2

    Another training would differ by more. Rounds of one training give no interval: each begins
    where the one before it ended, so they are no independent draws, and later ones matter less
    """
    import pandas  # here, since it takes a second to import

    whole("draws", draws, 2)
    if validation is None:
        raise ValueError("validation: expected samples (x, y) to draw from, got None")
    if isinstance(updates, Iterator):
        raise TypeError(
            f"updates: expected a list, as all is read {draws + 1} times, got {shown(updates)}"
        )
    table = score(updates, validation=validation, **given)
    inputs = array("validation[0]", validation[0], ["N", "..."])
    labels = array("validation[1]", validation[1], [len(inputs)])
    again = []
    for draw in progress.bar(range(draws), "validation draws"):
        luck = stream(given.get("seed", 0), "validation draws", draw)
        rows = torch.randint(len(inputs), (len(inputs),), generator=luck)
        drawn = inputs[rows.to(inputs.device)], labels[rows.to(labels.device)]
        again.append(score(updates, validation=drawn, **given))
    columns: dict[str, Any] = {}
    for name in table:
        columns[name] = table[name]
        if name != "rounds":
            moved = torch.stack(
                [torch.tensor(one[name].to_numpy()) for one in again]
            ).std(0)
            arm = student(draws) * torch.where(moved > 0, moved, torch.nan).numpy()
            columns |= {
                f"{name}, low": table[name] - arm,
                f"{name}, high": table[name] + arm,
            }
    return pandas.DataFrame(columns)
