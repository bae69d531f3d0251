"""One more seed, imagined at an end of the range, bounds a mean where the spread is no guide.

Used by evidence; the page *How we know* says when. Imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Sequence

HALVINGS = 60  # enough for the last digit of a float


def bound(values: Sequence[float], end: float, share: float) -> float:
    """A lower or upper bound of the true mean of values whose range ends at ``end``.

    values [n]  one number per seed, in the range
    end         the low end of the range for a lower bound, its high end for an upper bound
    share       the probability left below the bound: .025 and .975 for an interval of 95 %
    returns     that quantile of the mean of values and end under flat Dirichlet weights; if all
                values are 0 or 1, this is the bound of Clopper and Pearson
    source      [Gaffke 2005; Learned-Miller & Thomas 2019]
    """
    points = [*values, end]
    # Bisection works because the share below a place rises with the place.
    low, high = min(points), max(points)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if low < middle < high:
            rising = share_below(middle, points) < share
            low, high = (middle, high) if rising else (low, middle)
    return (low + high) / 2


def share_below(place: float, points: Sequence[float]) -> float:
    """P(sum of w x <= place) for the points x and weights w that are uniform on the simplex.

    This is the part of a simplex on one side of a plane. It is exact with ties, and nothing
    cancels, because every step is a mean of two shares. The cost is the number of points at or
    below the place times the number above it.                    source  [Varsi 1973; Ali 1973]
    """
    above = [point - place for point in points if point > place]
    # part[k] is the share for the lower points so far and the first k points above the place.
    part = [1.0] + [0.0] * len(above)
    for below in (place - point for point in points if point <= place):
        for k, gap in enumerate(above, start=1):
            part[k] = (below * part[k - 1] + gap * part[k]) / (below + gap)
    return part[-1]
