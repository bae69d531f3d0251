"""The page *How we know*: its examples hold, its tables are those of the code, and intervals keep
what it promises of them.
"""

from __future__ import annotations

import doctest
import json
import re

import pytest

import chapters
import how_we_know
import interval_coverage
from fedlab_mini import evidence
from studies import telling

PAGE = (chapters.ROOT / "book" / "how_we_know.md").read_text(encoding="utf-8")
NAMES = list(interval_coverage.SHAPES)


def promised(name: str) -> float:
    """What the rule must cover with 5 seeds or more, to two digits."""
    return 0.895 if name in interval_coverage.HARD else 0.94


def kept(column: str) -> set[str]:
    """The shapes for which the stored share keeps the promise with 5, 10 and 20 seeds."""
    stored = interval_coverage.stored()
    return {
        name
        for name in NAMES
        if min(stored[name, seeds][column] for seeds in (5, 10, 20)) >= promised(name)
    }


def test_the_rule_covers_what_it_promises_and_the_usual_interval_does_not() -> None:
    assert kept("rule") == set(NAMES) - set(interval_coverage.HOPELESS)
    assert kept("t") == {"normal"}
    for found in interval_coverage.stored().values():
        assert found["outside"] == found["without width"] == 0


@pytest.mark.parametrize("seeds", interval_coverage.SEEDS)
@pytest.mark.parametrize("name", NAMES)
def test_the_table_is_what_other_luck_gives(name: str, seeds: int) -> None:
    """4,000 studies: four standard errors of a share are at most .032."""
    again = interval_coverage.simulated(name, seeds, 4_000, luck=1)
    stored = interval_coverage.stored()[name, seeds]
    for column in ("t", "rule"):
        error = (max(stored[column] * (1 - stored[column]), 0.0005) / 4_000) ** 0.5
        assert again[column] == pytest.approx(stored[column], abs=4.5 * error)
    assert again["width"] == pytest.approx(stored["width"], rel=0.12)
    assert again["outside"] == again["without width"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_many_intervals_are_those_of_the_package(name: str) -> None:
    """The simulation makes thousands at once; each is the one that ``evidence`` makes."""
    shape = interval_coverage.SHAPES[name]
    for seeds in (3, 10):
        draws = shape.draw(interval_coverage.np.random.default_rng(seeds), (40, seeds))
        lows, highs = interval_coverage.ours(draws, shape.low, shape.high)
        for values, low, high in zip(draws, lows, highs, strict=True):
            found = evidence.interval(values, low=shape.low, high=shape.high)
            assert found[1:3] == pytest.approx((low, high), abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_true_mean_is_the_mean_of_many_draws(name: str) -> None:
    shape = interval_coverage.SHAPES[name]
    draws = shape.draw(interval_coverage.np.random.default_rng(5), (200_000, 2))
    error = draws.std() / draws.size**0.5
    assert draws.mean() == pytest.approx(shape.mean, abs=4.5 * error)
    assert draws.min() >= shape.low
    assert draws.max() <= shape.high


def test_every_example_of_the_page_holds() -> None:
    examples = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    assert examples.count(">>> print") == 6
    told: list[str] = []
    test = doctest.DocTestParser().get_doctest(examples, {}, "page", "book/how_we_know.md", 0)
    doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    assert not told, "".join(told)


def test_every_computed_part_stands_on_the_page_once() -> None:
    written = re.findall(r"^<!-- (\w+) -->$", how_we_know.FILE.read_text("utf-8"), re.MULTILINE)
    assert PAGE.count('start-after: "<!-- ') == PAGE.count('end-before: "<!-- end -->"')
    shown = re.findall(r'start-after: "<!-- (\w+) -->"', PAGE)
    assert shown == [name for name in written if name != "end"]


def test_the_computed_parts_are_those_of_the_notebooks_and_studies() -> None:
    stored = how_we_know.FILE.read_text(encoding="utf-8")
    assert stored == how_we_know.page(), f"out of date: {how_we_know.ADVICE}"


RECORDS = [
    {"chapter": "01_toy", "key": "late", "bounds": {"above": 0.5}, "half": "confirmed",
     "mean, low, high": [0.8, 0.7, 0.9], "seeds": 20, "study": "toy", "power": 0.1,
     "asked": ["toy", "AUC @ 5", "ours", "all flipped"]},
    {"chapter": "01_toy", "key": "alike", "bounds": {"within": [-0.1, 0.1]}, "half": "confirmed",
     "mean, low, high": [0.0, -0.05, 0.05], "seeds": 20, "study": "toy", "power": 0.1,
     "asked": ["toy", "AUC", "ours", "here", "minus", "theirs", "here"]},
    {"chapter": "02_toy", "key": "open", "bounds": {"undecided": 0}, "half": "confirmed",
     "mean, low, high": [0.1, -0.05, 0.25], "seeds": 20, "study": "toy", "power": 0.25,
     "asked": ["toy", "gap"]},
    {"chapter": "02_toy", "key": "run", "bounds": {"below": 2}, "half": "live",
     "mean, low, high": [1.0, None, None], "seeds": 5},
]  # fmt: skip
LATE, _, OPEN = (telling.claim_of(record).question for record in RECORDS[:3])
TOY = how_we_know.Known(
    "toy", 5, 20, 1, stood=frozenset([LATE, OPEN]), claims=((OPEN, "holds"), ("z", "not shown"))
)


def test_a_sentence_is_confirmed_only_if_it_stood_when_the_seeds_were_drawn() -> None:
    stood = {"toy": TOY.stood}
    found = [how_we_know.standing(record, stood) for record in RECORDS]
    assert found == ["confirmed", "seen", "confirmed", "live"]
    assert how_we_know.standing(RECORDS[0], {}) == "seen"
    looked = {**RECORDS[0], "half": "seen"}
    assert how_we_know.standing(looked, stood) == "seen"


def test_sentences_and_what_chance_makes_of_them_are_counted() -> None:
    told = how_we_know.counted([TOY], RECORDS)
    cells = dict(re.findall(r"^\| ([\w ,]+) \| ([\d |]+) \|$", told, re.MULTILINE))
    assert cells == {
        "sentences of the chapters, confirmed": "2 | 1 | 1",
        "sentences of the chapters, seen": "1 | 1 | 0",
        "sentences of the chapters, live": "1 | 1 | 0",
        "claims that studies judge, confirmed": "1 | 1 | 0",
        "claims that studies judge, seen": "1 | 0 | 1",
        "together": "6 | 4 | 2",
    }
    assert "2 confirmed sentences and claims" in told
    many = how_we_know.counted([TOY], RECORDS[:1] * 299)
    assert "3.0 of them would be wrong by chance" in many
    assert "these would be 15.0" in many


def test_a_study_is_a_line() -> None:
    told = how_we_know.studied([TOY, how_we_know.Known("idle")], RECORDS)
    assert "1 of 2 studies have seeds that confirm; 1 blocks were drawn" in told
    assert "| `toy` | 5 | 20 | 1 | 2 of 3 | 1 of 2 | 1 | 0 | 1 |" in told
    assert "| `idle` | 0 | 0 | 0 | 0 of 0 | 0 of 0 | 0 | 0 | 0 |" in told


@pytest.mark.parametrize(
    ("places", "told"),
    [
        (["ours", ""], "AUC: ours (`toy`)"),
        (["", "here"], "AUC: here (`toy`)"),
        (["ours", "", "minus", "theirs", ""], "AUC: ours minus theirs (`toy`)"),
        (["ours", "a", "minus", "ours", "b"], "AUC: ours, a minus ours, b (`toy`)"),
        (["", "a", "minus", "", "b"], "AUC: a minus b (`toy`)"),
    ],
)
def test_what_is_measured_is_said_in_words(places: list[str], told: str) -> None:
    assert how_we_know.asked({"asked": ["toy", "AUC", *places]}) == told


def test_every_interval_of_the_book_lies_where_its_sentence_says() -> None:
    """What notebooks hold was asserted when they ran; outputs edited by hand are found here."""
    wrong = [
        f"{record['chapter']}, {record['key']}: {how_we_know.measured(record)} is not "
        f"{how_we_know.bounds(record)}"
        for record in telling.told()
        if not how_we_know.true(record)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("bounds", "ends", "true"),
    [
        ({"above": 0}, (0.1, 0.2), True),
        ({"above": 0}, (-0.1, 0.2), False),
        ({"below": 0}, (-0.1, 0.2), False),
        ({"below": 0}, (-0.3, None), False),
        ({"above": 0, "below": 1}, (0.1, 0.9), True),
        ({"above": 0, "below": 1}, (0.1, 1.1), False),
        ({"within": [0, 1]}, (0.1, 0.9), True),
        ({"within": [0, 1]}, (0, 1), False),
        ({"within": [0, 1]}, (None, None), False),
        ({"undecided": 0}, (-0.1, 0.1), True),
        ({"undecided": 0}, (0.1, 0.2), False),
    ],
)
def test_whether_a_sentence_is_true_is_read_off_its_interval(
    bounds: dict, ends: tuple, true: bool
) -> None:
    record = {"bounds": bounds, "mean, low, high": [0.1, *ends]}
    assert how_we_know.true(record) == true


def test_every_sentence_is_listed_with_what_it_asks() -> None:
    told = how_we_know.listed(RECORDS, {"toy": TOY.stood})
    rows = [line for line in told.splitlines() if line.startswith("| `")]
    assert rows == [
        "| `late` | AUC @ 5: ours, all flipped (`toy`) | above 0.5 | 0.80 [0.70, 0.90] | 20 "
        "| confirmed |",
        "| `alike` | AUC: ours minus theirs, here (`toy`) | from -0.1 to 0.1 "
        "| 0.00 [-0.05, 0.05] | 20 | seen |",
        "| `open` | gap (`toy`) | not shown to differ from 0; 0.25 would have been seen "
        "| 0.10 [-0.05, 0.25] | 20 | confirmed |",
        "| `run` | the run in the chapter | below 2 | 1.00 | 5 | live |",
    ]
    assert told.count("{dropdown}") == 2


def test_sentences_come_from_the_outputs_of_notebooks(tmp_path, monkeypatch) -> None:
    """A record as ``tell`` leaves it is found, whatever prefix its name has when it is glued."""
    data = {"application/papermill.record/application/x-sentence+json": {"half": "live"}}
    output = {"data": data, "metadata": {"scrapbook": {"name": "late"}}}
    (tmp_path / "notebooks").mkdir()
    notebook = {"cells": [{"outputs": [output]}, {"cell_type": "markdown"}]}
    (tmp_path / "notebooks" / "01_toy.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    monkeypatch.setattr(telling, "ROOT", tmp_path)
    assert list(telling.told()) == [{"chapter": "01_toy", "key": "late", "half": "live"}]
