"""Checks: what no argument may be, said in one voice, whichever argument it is."""

from __future__ import annotations

import numpy as np
import pytest

from fedlab_mini import checks


def test_whole_numbers_add_up_to_a_whole_number():
    with pytest.raises(ValueError, match=r"^sizes: expected whole numbers in 1\.\.\d+, got 46"):
        checks.wholes("sizes", [2**62] * 3, ["K"], 1)
    assert checks.wholes("sizes", [2**62], ["K"], 1).tolist() == [2**62]


def test_a_mask_that_hides_nothing_is_none():
    whole = np.ma.array([1, 2, 3], mask=[False, False, False])
    assert checks.wholes("it", whole, ["n"]).tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match=r"^it: expected .* hides values behind a mask$"):
        checks.wholes("it", [1, np.ma.masked], ["n"])


class Broken:
    def __repr__(self):
        raise ArithmeticError("no")


def test_a_message_is_one_line_whatever_was_given():
    class Poem:
        def __repr__(self):
            return "roses\nare red" * 50

    assert "Broken object at" in checks.shown(Broken())
    assert checks.shown(Poem()).startswith("roses are red")
    assert len(checks.shown(Poem())) == checks.SHOWN
