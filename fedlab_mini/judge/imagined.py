"""One more seed, imagined at the end of the range: bounds of a mean that no spread can give.

Used by evidence; the page *How we know* says when. Below: nothing of the package.
"""

from __future__ import annotations

from collections.abc import Sequence

HALVINGS = 60  # beyond the last digit of a float


def bound(values: Sequence[float], end: float, share: float) -> float:
    """A bound of the mean of a range that ends at ``end``: at most (or least) so far away.

    values [n]  one number per seed, in the range
    end         its low end for a lower bound, its high end for an upper one
    share       the probability left below the bound: .025 and .975 for an interval of 95 %
    returns     that quantile of the mean of values and end under random weights, flat Dirichlet;
                for 0/1 values the bound of Clopper and Pearson
    source      [Gaffke 2005; Learned-Miller & Thomas 2019]
    """
    points = [*values, end]
    # Bisection: the share below a place rises with the place.
    low, high = min(points), max(points)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if low < middle < high:
            rising = share_below(middle, points) < share
            low, high = (middle, high) if rising else (low, middle)
    return (low + high) / 2


def share_below(place: float, points: Sequence[float]) -> float:
    """P(sum of w x <= place) for the points x and weights w that are uniform on the simplex.

    The part of a simplex on one side of a plane: exact with ties, and without cancellation, as
    every step is a mean of two shares. Some points lie at or below the place, some above it.
    Cost: their numbers, multiplied.                              source  [Varsi 1973; Ali 1973]
    """
    above = [point - place for point in points if point > place]
    # part[k] is the share for the points below so far and the first k of those above.
    part = [1.0] + [0.0] * len(above)
    for below in (place - point for point in points if point <= place):
        for k, gap in enumerate(above, start=1):
            part[k] = (below * part[k - 1] + gap * part[k]) / (below + gap)
    return part[-1]
