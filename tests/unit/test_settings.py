"""Settings: annotations are checked, and literal takes the paper's values of what nobody gave."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import pytest

import fedlab_mini as fm
from fedlab_mini.parse.settings import Count, Settings, between, ours

if TYPE_CHECKING:
    from nowhere import Unknown


@dataclass(frozen=True, eq=False, kw_only=True)
class Mine(fm.CGSV):
    """A reader's strategy: an option of each kind, and another default of CGSV's."""

    share: Annotated[float, between(0, 1, "[)")] = ours(0.5, printed=0.25)
    word: Literal["a", "b"] = "a"
    times: Count | None = None
    whole: int = 0
    floor: float | None = 0.01
    gamma0: float = field(default=0.25, kw_only=False)
    digit: Literal[1, 2] = 1
    note: Annotated[float, "in metres"] = 2


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"share": 1.0}, ValueError, r"^share: expected a number in \[0, 1\), got 1.0"),
        ({"share": True}, TypeError, "^share: expected a number in"),
        ({"word": "c"}, ValueError, '^word: expected "a" or "b", got'),
        ({"word": None}, TypeError, "^word: "),
        ({"times": 0}, ValueError, "^times: expected a whole number of at least 1, got 0"),
        ({"whole": 1.5}, TypeError, "^whole: expected a whole number, got 1.5"),
        ({"floor": 1.0}, ValueError, r"^floor: expected a number in \[0, 1\), got 1.0"),
        ({"gamma0": 2}, ValueError, r"^gamma0: expected a number in \[0, 1\], got 2"),
        ({"literal": 1}, TypeError, "^literal: expected True or False, got 1"),
    ],
)
def test_annotations_are_checked_and_a_new_default_keeps_the_range(options, kind, message):
    with pytest.raises(kind, match=message):
        Mine(**options)


def test_numbers_of_numpy_become_pythons():
    made = Mine(np.float32(0.5), whole=np.int64(-3), share=np.array(0.25))
    assert [made.gamma0, made.whole, made.share, made.times] == [0.5, -3, 0.25, None]
    assert [type(made.gamma0), type(made.whole)] == [float, int]


def test_literal_takes_the_papers_values_of_what_nobody_gave():
    literal = Mine(literal=True)
    assert (literal.share, literal.floor, literal.server_lr) == (0.25, None, 1.0)
    # Options that are given win, even if they equal the default; the paper has no floor.
    given = Mine(literal=True, share=0.5, server_lr="median", floor=0.5)
    assert (given.share, given.server_lr, given.floor) == (0.5, "median", None)
    assert fm.FRCCE(1e-3, literal=True).lr == 1e-3
    assert replace(given, whole=2).share == 0.5
    assert Mine.departures()["floor"] == {"as printed": "none", "ours": "0.01"}
    assert Mine.departures()["share"] == {"as printed": "0.25", "ours": "0.5"}


def test_options_that_follow_from_others():
    assert fm.CGSV(normalise=False).server_lr == 1.0
    assert fm.CGSV(normalise=False, server_lr="median").server_lr == "median"
    assert fm.FLDVE(probes=1).baseline == "previous"
    assert fm.FLDVE(probes=1, baseline="moving").baseline == "moving"
    for options in ({"probes": "1"}, {"probes": np.ones(2)}):
        with pytest.raises(TypeError, match=r"^probes: "):
            fm.FLDVE(**options)


@pytest.mark.parametrize("made", [Mine(), Mine(literal=True), fm.SFedAvg(3), fm.LocalSGD(2)])
def test_settings_are_copied_as_they_are(made):
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), replace(made)):
        assert repr(other) == repr(made)
    with pytest.raises(AttributeError):
        made.literal = True


def test_annotations_that_only_their_author_can_read_are_not_checked():
    @dataclass(frozen=True)
    class Own(Settings):
        strange: Unknown
        number: int = 1

    @dataclass(frozen=True)
    class More(Own):
        share: float = 0.5

    assert More("anything", number="one").number == "one"
    with pytest.raises(TypeError, match=r"^share: expected a finite number"):
        More("anything", share="half")
