"""Draws: how much scores of recorded rounds depend on the server's validation samples.

The page "Bring your own" shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from ..engine import progress
from ..judge.student import student
from ..parse.checks import alongside, array, refusal, whole
from ..streams import stream
from .scoring import score

if TYPE_CHECKING:
    import pandas


def score_intervals(
    updates: Any, *, validation: tuple[Any, Any] | None = None, draws: int = 20, **given: Any
) -> pandas.DataFrame:
    """The table of ``fm.score``, with an interval over resampled validation sets for each score.

    updates  and the rest as for ``fm.score``; the records must be readable more than once
    draws    how often ``validation`` is resampled, with repetition and to the same size; all
             methods score each set, so the time is ``draws`` + 1 times that of ``fm.score``
    returns  the same table; next to a column "exact" are "exact, low" and "exact, high", a 95 %
             interval that shows how much the score depends on the validation samples. NaN if no
             such set changes a score, because its method does not use them
    raises   as ``fm.score``, and for draws below 2

    Another training run would change the scores more. The rounds of one run give no interval, as
    each begins where the previous one ended: they are not independent, and later rounds matter less
    """
    import pandas  # here, since it takes a second to import

    whole("draws", draws, 2)
    if validation is None:
        raise ValueError("validation: expected samples (x, y) to draw from, got None")
    if isinstance(updates, Iterator):
        raise refusal("updates", f"a list, which is read {draws + 1} times", updates, TypeError)
    table = score(updates, validation=validation, **given)
    inputs = array("validation[0]", validation[0], ["N", "..."])
    labels = alongside("validation[1]", validation[1], validation[0])
    labels = array("validation[1]", labels, [len(inputs), "..."])
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
            moved = torch.stack([torch.tensor(one[name].to_numpy()) for one in again]).std(0)
            arm = student(draws) * torch.where(moved > 0, moved, torch.nan).numpy()
            columns |= {f"{name}, low": table[name] - arm, f"{name}, high": table[name] + arm}
    return pandas.DataFrame(columns)
