"""What scripts of data/made have made: the table of intervals, the explorer of the landing page."""

import re

import first_minute
import interval_coverage as made
import pandas as pd
import pytest

from fedlab_mini import evidence

NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
STORED = pd.read_csv(made.FILE).set_index(["values", "seeds"])


def test_the_rule_covers_what_it_promises_and_the_usual_interval_does_not():
    least = STORED.drop(3, level="seeds").groupby(level="values").min()
    for column, kept in (("rule", {*made.SHAPES} - {*made.HOPELESS}), ("t", {"normal"})):
        good = [x for x in made.SHAPES if least[column][x] >= (0.895 if x in made.HARD else 0.94)]
        assert set(good) == kept
    assert not STORED[["outside", "without width"]].any(axis=None)


@pytest.mark.parametrize(("name", "seeds"), [("normal", 3), (made.HARD[1], 5)])
def test_the_table_is_what_other_luck_gives_with_the_intervals_of_the_package(name, seeds):
    again = made.simulated(name, seeds, 4_000, luck=1)
    for column in ("t", "rule"):  # four standard errors of a share
        assert again[column] == pytest.approx(STORED[column][name, seeds], abs=0.032)
    assert again["width"] == pytest.approx(STORED.width[name, seeds], rel=0.12)
    shape = made.SHAPES[name]
    draws = shape.draw(made.np.random.default_rng(seeds), (20, seeds))
    for values, *ends in zip(draws, *made.ours(draws, shape.low, shape.high), strict=True):
        found = evidence.interval(values, low=shape.low, high=shape.high)
        assert found[1:3] == pytest.approx(ends, abs=1e-9)


LOOKS = pd.read_csv(made.LOOKS).set_index(["values", "seeds", "blocks"])


def test_looks_miss_as_often_as_the_page_says():
    """Normal values stay far below what is allowed, skewed ones do not, zeros are worst."""
    normal, skewed, *_, zeros = (LOOKS.loc[name] for name in made.LOOKED_AT)
    assert normal["any"].max() < 0.02
    assert skewed["any"][5, 5] > 0.05 > skewed["any"][20, 5]
    assert 0.4 < skewed["any"][5, 1] / skewed["any"][5, 5] < 0.6
    assert zeros["any"][20, 5] > zeros["any"][5, 5] > 0.114  # more than is allowed
    for name, block in ((made.LOOKED_AT[1], 5), (made.LOOKED_AT[-1], 5)):
        again = made.looked_at(name, block, 4_000, luck=1)
        for row in again:
            stored = LOOKS.loc[name, block, row["blocks"]]
            assert [row["last"], row["any"]] == pytest.approx([*stored], abs=0.03)
    # A single look is a study of the other table.
    for values in made.LOOKED_AT:
        share = LOOKS["any"][values, 5, 1]
        assert 1 - share == pytest.approx(STORED["rule"][values, 5], abs=0.015)


def test_the_explorer_of_the_landing_page_is_what_its_five_lines_give():
    stored, text = first_minute.EXPLORER.read_text(encoding="utf-8"), first_minute.made()
    assert NUMBER.sub("0", stored) == NUMBER.sub("0", text), "run data/made/first_minute.py"
    for old, new in zip(NUMBER.findall(stored), NUMBER.findall(text), strict=True):
        near = pytest.approx(float(new), rel=0.01, abs=0.3 if "." in old else 0)
        assert float(old) == near
