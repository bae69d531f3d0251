"""Other people's scores: the stored files, their places, and the small cases of the page."""

from __future__ import annotations

import ast
import importlib
import re
import sys

import pandas
import pytest
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from studies import foreign
from studies.items import ROOT

EXAMPLE = ROOT / "examples" / "foreign"
SCORES = {score.name: score for score in foreign.every()}


@pytest.fixture(scope="module")
def judged() -> dict[str, pandas.DataFrame]:
    """Every stored score, judged again by what the repository has."""
    frozen = fb.Frozen()
    return {name: foreign.again(score, frozen) for name, score in SCORES.items()}


def test_there_are_six_projects_and_eight_values_with_licences_and_pins():
    projects = foreign.projects()
    assert len(projects) >= 6
    assert len({score.value for score in SCORES.values()}) >= 8
    for name, project in projects.items():
        assert project.licence in ("MIT", "Apache-2.0", "LGPL-3.0")
        # A commit is a whole hash, and the short one is its beginning.
        assert not project.commit or re.fullmatch(
            rf"{project.version}[0-9a-f]{{33}}", project.commit
        )
        needs = (EXAMPLE / "requirements" / f"{name}.txt").read_text().splitlines()[1:]
        assert all(re.fullmatch(r"[\w-]+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in needs)
        if not project.commit:
            assert any(line.startswith(f"{name}=={project.version} ") for line in needs)


def test_every_file_says_what_it_is_and_holds_what_its_score_reaches():
    for name, score in SCORES.items():
        stored = fb.read_submission(score.file())
        assert stored.name == name
        assert list(stored.scores) == score.cells()
        assert stored.notes["source"].endswith("; stored")
        assert {"date", "version", "cost", "sees"} <= stored.notes.keys()
    files = {path.name for path in foreign.PLACE.glob("*.csv")} - {"judged.csv", "published.csv"}
    assert files == {score.file().name for score in SCORES.values()}


@pytest.mark.parametrize("name", SCORES)
def test_a_stored_score_judged_again_has_its_stored_place(judged, name):
    public = judged[name][judged[name].seed.isin(fb.PUBLIC)]
    stored = foreign.rows_of(SCORES[name], fb.PUBLIC)
    again = foreign.standing(public, "tau")
    assert again
    for family, before in foreign.standing(stored, "tau").items():
        assert again[family].values == pytest.approx(before.values, abs=1e-5)
        assert again[family].place == before.place
    # Attacks need no reference values, so those of the held-out seeds are judged again, too.
    attacks = judged[name][judged[name].metric == "pay gained"]
    kept = foreign.rows_of(SCORES[name], fb.HELD_OUT)
    kept = kept[kept.metric == "pay gained"]
    assert attacks.value.tolist() == pytest.approx(kept.value.tolist(), abs=1e-5)


def test_the_board_is_of_the_stored_rows(monkeypatch):
    one = SCORES["FedML: MR"]
    rows = foreign.rows_of(one, fb.HELD_OUT)
    before = foreign.standing(rows, "tau")["sizes"]
    worse = rows.assign(value=rows.value.where(rows.scenario != "sizes", rows.value - 0.5))
    assert foreign.standing(worse, "tau")["sizes"].place > before.place


RIGHT = {  # by hand: the right values of each small case
    "floor": (1, -1),
    "GTG as shipped": (1, 2, 3),
    "LOO as shipped": (1, 2, 3),
    "GTG, ids from 0": (1, 2, 3),
    "GTG, ids from 4": (1, 2, 3),
    "LOO, ids from 1": (1, 2, 3),
    "GTG, remembered": (5 / 3, -1 / 3, -1 / 3),
    "default budget": (1,) * 8,
    "truncated": (0.01, 0.01, 0.006),
    "least core": (0.5, -0.5),
    "exact": (1, 2, 3),
}


@pytest.mark.parametrize("case", foreign.CASES, ids=lambda case: f"{case.project}, {case.answer}")
def test_a_small_case_has_the_right_values_and_the_project_said_others(case):
    truth = case.truth()
    if case.answer in RIGHT:
        assert truth == pytest.approx(RIGHT[case.answer], abs=1e-6)
    said = case.said()
    if isinstance(said, str):
        assert "Error" in said or said.startswith("Exception")
    else:
        assert said != pytest.approx(truth, abs=1e-3)


def test_lemaires_least_core_gives_every_coalition_more_and_a_corner_does_not():
    (case,) = [case for case in foreign.CASES if case.answer == "Lemaire, in money"]
    game = foreign.game_of(case.table)
    members = (torch.arange(1, 7)[:, None] >> torch.arange(3) & 1).double()

    def slack(values) -> float:
        paid = members @ torch.as_tensor(values, dtype=torch.float64)
        return float((paid - game.all()[1:7]).min())

    assert slack(case.truth()) == pytest.approx(6562.5, abs=0.01)
    (shares,) = [case.said() for case in foreign.CASES if case.answer == "Lemaire"]
    assert slack([90000 * share for share in shares]) == pytest.approx(0, abs=0.1)


def test_orderings_that_forget_are_right_where_gtg_remembers():
    """The detour of the page: a truncated ordering adds 0, and no coalition's worth is invented."""
    from itertools import permutations

    (case,) = [case for case in foreign.CASES if case.answer == "GTG, remembered"]
    worths, total = case.table, [0.0, 0.0, 0.0]
    for order in permutations(range(3)):
        position = before = 0
        for player in order:
            position += 1 << player
            now = before if abs(worths[-1] - before) < 0.001 else worths[position]
            total[player] += (now - before) / 6
            before = now
    assert total == pytest.approx(case.truth())


def test_numpy_2_writes_its_integers_in_another_way():
    import numpy as np

    assert str({np.int64(0)}) != str({0})  # the key of FLCE's cache


def test_adapters_import_only_what_their_environment_has(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for path in EXAMPLE.glob("*_scores.py"):
        tree = ast.parse(path.read_text())
        names = {one.names[0].name for one in ast.walk(tree) if isinstance(one, ast.Import)}
        names |= {one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
        assert not [name for name in names if name.startswith(("fedlab", "studies"))]
        assert 10 <= len(path.read_text().splitlines()) <= 90


def test_a_cell_gives_gains_and_layers(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    cells = importlib.import_module("cells")
    monkeypatch.setattr("examples.foreign.__main__.BUILT", tmp_path)
    from examples.foreign import __main__ as command

    cell = cells.Cell(command.recording("sizes", 0))
    seen = fb.recorded(fb.WORLDS["sizes"], 0)
    first = next(cell.games())
    model = seen.rounds[0].theta + (
        seen.rounds[0].updates[[0, 3]].T
        @ (seen.rounds[0].sizes[[0, 3]] / seen.rounds[0].sizes[[0, 3]].sum()).double()
    )
    before, after = seen.server.net.evaluate(
        torch.stack([seen.rounds[0].theta, model]), *seen.server.validation, "loss"
    )
    assert first([0, 3]) == pytest.approx(float(before - after))
    right = seen.server.net.evaluate(model[None], *seen.server.validation, "accuracy")
    assert cell.accuracy(model.numpy()) == pytest.approx(float(right[0]))
    # What their exact values are compared with: ours, of the same rounds.
    ours = sum(fm.exact(foreign.game_of(worths)).values for worths in cell.worths)
    theirs = fb.read_submission(SCORES["FedML: MR"].file()).scores["sizes", 0]
    torch.testing.assert_close(theirs, ours, rtol=1e-3, atol=1e-4)
    sys.modules.pop("cells", None)
