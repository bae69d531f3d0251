"""The bench: wrong files are named by line, the truth is retraining's, places are shared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

import chapters
import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench import command, entering, judging, submission, truth, worlds
from fedlab_bench.__main__ import COMMANDS, main
from fedlab_bench.entering import entered
from fedlab_bench.show.leaderboard import picture
from fedlab_mini.command import write_csv

HEAD = "scenario,seed,client,score"
SIZES = [
    f"sizes,{seed},{client},{client / 7 + seed:.3f}" for seed in range(10) for client in range(8)
]
SUBMITTED = sorted((truth.folder() / "submissions").glob("*.csv"))


def written(tmp_path, *lines: str, encoding: str = "utf-8", end: str = "\n"):
    file = tmp_path / "mine.csv"
    file.write_bytes((end.join(lines) + end).encode(encoding))
    return file


def changed(line: int, text: str) -> list[str]:
    """A right file with one line that is another; the header is line 1."""
    lines = [HEAD, *SIZES]
    return [*lines[: line - 1], text, *lines[line:]]


WRONG = {  # a file's lines -> what the refusal says
    "empty": ([""], "it is empty"),
    "no header": (SIZES, "line 1: expected the header scenario,seed,client,score"),
    "only a header": ([HEAD], "expected rows below the header"),
    "only notes": (["# name: a"], "expected the header"),
    "other header": (["scenario,seed,client,value", *SIZES], "line 1: expected the header"),
    "columns in another order": (["seed,scenario,client,score", *SIZES], "line 1"),
    "semicolons": ([HEAD.replace(",", ";")], "separate columns by commas"),
    "tabs": ([HEAD.replace(",", "\t")], "separate columns by commas"),
    "unknown note": (["# colour: red", HEAD, *SIZES], "line 1: expected '# NOTE: words'"),
    "a remark": (["# my best", HEAD, *SIZES], "line 1: expected '# NOTE: words'"),
    "a note twice": (["# name: a", "# name: b", HEAD, *SIZES], "line 2: name is given twice"),
    "an empty name": (["# name:", HEAD, *SIZES], "line 1: name: expected 1 to 60 letters"),
    "a long name": ([f"# name: {'a' * 61}", HEAD, *SIZES], "line 1: name: expected 1 to 60"),
    "an escape in a name": (["# name: a\x1b[2J", HEAD, *SIZES], "line 1: name: expected 1 to 60"),
    "a column too few": (changed(5, "sizes,0,3"), "line 5: expected 4 columns, got 3"),
    "a column too many": (changed(5, "sizes,0,3,.1,.2"), "line 5: expected 4 columns, got 5"),
    "a decimal comma": (changed(5, "sizes,0,3,0,25"), "line 5: expected 4 columns, got 5"),
    "an open quote": (changed(5, '"sizes,0,3,.1'), "line 5: cannot be read as a row"),
    "unknown scenario": (
        changed(5, "size,0,3,.1"),
        "line 5: scenario: 'size' is none of the bench; did you mean sizes",
    ),
    "seed of none": (
        changed(5, "sizes,10,3,.1"),
        "line 5: seed: expected one of 0 to 109, got '10'",
    ),
    "seed no number": (changed(5, "sizes,zero,3,.1"), "line 5: seed: expected one of"),
    "negative seed": (changed(5, "sizes,-1,3,.1"), "line 5: seed: expected one of"),
    "client of none": (
        changed(5, "sizes,0,8,.1"),
        "line 5: client: expected one of 0 to 7, got '8'",
    ),
    "client from one": (changed(5, "sizes,0,3.0,.1"), "line 5: client: expected one of"),
    "a word as a score": (
        changed(5, "sizes,0,3,good"),
        "line 5: score: expected a number, got 'good'",
    ),
    "no score": (changed(5, "sizes,0,3,"), "line 5: score: expected a number, got ''"),
    "NaN": (changed(5, "sizes,0,3,nan"), "line 5: score: expected a finite number"),
    "infinite": (changed(5, "sizes,0,3,1e999"), "line 5: score: expected a finite number"),
    "twice": (
        changed(5, "sizes,0,1,.1"),
        "line 5: sizes, seed 0, client 1 has its score in line 3 already",
    ),
    "a client missing": ([HEAD, *SIZES[:-1]], "sizes, seed 9: no scores of the clients [7]"),
    "a seed missing": ([HEAD, *SIZES[8:]], "sizes: no scores for the seeds [0]"),
    "an attack without its twin": (
        [HEAD, *(row.replace("sizes", "attack: replay") for row in SIZES)],
        "attack: replay is judged beside Dirichlet 0.5, which has no scores",
    ),
    "a zero byte": (changed(5, "sizes,0,3,.1\0"), "line 5: holds a zero byte"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_by_name_and_line(case, tmp_path):
    lines, said = WRONG[case]
    file = written(tmp_path, *lines)
    with pytest.raises(fb.Refused) as refusal:
        fb.read_submission(file)
    assert str(refusal.value).startswith(str(file))
    assert said in str(refusal.value)


def test_files_that_are_no_text_or_not_there(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_bytes(f"{HEAD}\nsizes,0,0,\xff".encode("latin-1"))
    with pytest.raises(fb.Refused, match="line 2: not text in UTF-8"):
        fb.read_submission(file)
    with pytest.raises(fb.Refused, match="no such file"):
        fb.read_submission(tmp_path / "other.csv")
    with pytest.raises(fb.Refused, match="no such file"):
        fb.read_submission(tmp_path)


def test_a_file_from_another_system_reads_alike_and_comes_back(tmp_path):
    plain = fb.read_submission(written(tmp_path, "# name: mine", HEAD, *SIZES))
    lines = ("# name: mine", "", HEAD, "", *SIZES)
    foreign = written(tmp_path, *lines, encoding="utf-8-sig", end="\r\n")
    again = fb.read_submission(foreign)
    again.write(tmp_path / "again.csv")
    copied = fb.read_submission(tmp_path / "again.csv")
    for one in (again, copied):
        assert one.notes == plain.notes == {"name": "mine"}
        assert all(torch.equal(one.scores[cell], plain.scores[cell]) for cell in plain.scores)
    assert plain.scores["sizes", 3].tolist() == pytest.approx(
        [k / 7 + 3 for k in range(8)], abs=1e-3
    )


FROZEN = fb.Frozen()


def test_frozen_worths_are_those_of_retraining():
    """The table of a cell is trained again; another kind of processor may differ by rounding."""
    world = fb.WORLDS["sizes"]
    game = truth.game(world, 4, truth.SECOND_TRUTH)
    coalitions = torch.tensor([[False] * 8, [True] * 8, [True, False] * 4])
    rows = [0, 255, 0b01010101]
    stored = FROZEN.tables["sizes"]["4"][1][rows]
    assert stored == pytest.approx(game(coalitions).numpy(), rel=1e-3)


def test_values_are_the_exact_ones_of_the_table():
    table = FROZEN.tables["alike"]["0"]
    values = FROZEN.of("alike", 0)
    assert values.sum(1).numpy() == pytest.approx(table[:, 255] - table[:, 0], rel=1e-5)
    worths = torch.from_numpy(table[0]).double()
    # The last player's value by the definition: a mean over the sizes of coalitions without it.
    codes = torch.arange(128)
    sizes = torch.tensor([bin(code).count("1") for code in range(128)])
    gains = worths[codes + 128] - worths[codes]
    mean = torch.stack([gains[sizes == size].mean() for size in range(8)]).mean()
    assert float(values[0][7]) == pytest.approx(float(mean))


def test_the_truth_as_a_score_reaches_the_ceiling_and_luck_does_not():
    scenarios = ("sizes", "wrong labels")
    cells = [(name, seed) for name in scenarios for seed in range(10)]
    second = {cell: FROZEN.of(*cell)[1] for cell in cells}
    luck = {cell: torch.rand(8, generator=torch.Generator().manual_seed(cell[1])) for cell in cells}
    mine = [fb.Submission(second, {"name": "second"}), fb.Submission(luck, {"name": "luck"})]
    frame = fb.judge(mine, FROZEN)
    for name in scenarios:
        tau = (
            frame[(frame.metric == "tau") & (frame.scenario == name)].groupby("method").value.mean()
        )
        # Judged by itself in one of the two trainings, it stands between the ceiling and 1.
        assert tau[fb.CEILING] < tau["second"] == pytest.approx((1 + tau[fb.CEILING]) / 2)
        assert abs(tau["luck"]) < 0.3 < tau[fb.CEILING]
    places = {name: own.place for name, own in fb.standings(frame, "tau")["sizes"].items()}
    assert places == {fb.CEILING: 0, "second": 1, "luck": 2}


def test_scores_that_are_not_told_apart_share_a_place():
    better, alike, worse = np.linspace(0.5, 0.7, 10), np.linspace(0.7, 0.5, 10), np.full(10, 0.1)
    values = {"a": better, "b": alike, "c": worse, fb.CEILING: worse}
    rows = [
        (seed, "sizes", name, metric, float(own[seed]))
        for name, own in values.items()
        for metric in ("tau", "relative error")
        for seed in range(10)
    ]
    frame = pandas.DataFrame(rows, columns=judging.COLUMNS)
    for metric, places in {"tau": (1, 1, 3), "relative error": (2, 2, 1)}.items():
        stands = fb.standings(frame, metric)["sizes"]
        assert tuple(stands[name].place for name in "abc") == places
        assert stands[fb.CEILING].place == 0


def test_what_an_attack_gains_by_hand():
    honest = torch.tensor([4.0, 3.0, 2.0, 1.0, -1.0])
    scores = torch.tensor([4.0, 3.0, 3.0, 1.0, -1.0])
    measured = dict(judging.attacked(scores, honest))
    assert measured["rank gained"] == pytest.approx(2.5 / 4 - 2 / 4)
    assert measured["pay gained"] == pytest.approx(3 / 11 - 2 / 10)


def test_a_changed_truth_is_noticed(tmp_path):
    place = tmp_path / "v1" / "truth"
    place.mkdir(parents=True)
    (tmp_path / "v1" / "manifest.json").write_bytes((truth.folder() / "manifest.json").read_bytes())
    whole = (truth.folder() / "truth" / "sizes.npz").read_bytes()
    (place / "sizes.npz").write_bytes(whole)
    assert fb.Frozen(place).knows("sizes", 3)
    (place / "sizes.npz").write_bytes(whole[:-9] + b"x" + whole[-8:])
    with pytest.raises(
        ValueError, match=r"sizes.npz is not the file that the bench was frozen with"
    ):
        fb.Frozen(place)


def test_truth_of_a_seed_that_two_folders_have_stays_as_the_first_has_it(tmp_path):
    frozen = np.load(truth.folder() / "truth" / "sizes.npz")
    np.savez(tmp_path / "sizes.npz", **{"3": frozen["3"] + 1, "100": frozen["3"] + 2})
    both = fb.Frozen(truth.folder() / "truth", tmp_path)
    assert torch.equal(both.of("sizes", 3), fb.Frozen().of("sizes", 3))
    assert both.knows("sizes", 100)
    assert both.knows("sizes", 4)


def test_even_dirichlet_deals_as_many_samples_to_everybody_and_skews_their_classes():
    y = torch.arange(400) % 10
    for alpha, least in ((0.1, 0.45), (0.5, 0.25), (1e6, 0.1)):
        generator = torch.Generator().manual_seed(3)
        groups = worlds.even_dirichlet(alpha).deal(y, 8, generator)
        everything = torch.cat(groups)
        assert [len(group) for group in groups] == [50] * 8
        assert len(set(everything.tolist())) == 400
        largest = [float(torch.bincount(y[group]).max()) / 50 for group in groups]
        assert sum(largest) / 8 > least
    assert sum(largest) / 8 < 0.2  # a large alpha deals nearly alike


@pytest.mark.parametrize(
    "name", ["validation 20", "validation lacks a class", "half the clients a round"]
)
def test_variants_change_what_a_server_sees_and_not_the_clients(name):
    fed, _ = fb.WORLDS["wrong labels"].made(2)
    other, _ = fb.WORLDS[name].made(2)
    assert torch.equal(fed.x, other.x)
    assert torch.equal(fed.y, other.y)
    assert truth.owner_of(name) == "wrong labels"
    counts = {"validation 20": 20, "half the clients a round": 360}
    if name in counts:
        assert len(other.validation[1]) == counts[name]
    else:
        assert 2 not in other.validation[1]
        assert 2 in fed.validation[1]
    rounds = fb.recorded(fb.WORLDS[name], 2)
    per_round = 4 if name.startswith("half") else 8
    assert {len(record["clients"]) for record in rounds.records} == {per_round}


def test_a_crowd_has_wrong_labels_from_none_to_seven_in_ten():
    fed, _ = fb.WORLDS["wrong labels, 30 clients"].made(0)
    assert fed.clients == 30
    assert fed.noise[0] == 0
    assert fed.noise[:10].mean() < 0.3 < 0.5 < fed.noise[-10:].mean() < 0.7
    assert fb.WORLDS["wrong labels, 30 clients"].worse(0) == list(range(15, 30))


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (fb.Retrained(fm.alone), "methods: a trains itself; expected a score of rounds"),
        (fm.CGSV, r"methods: a is a class; write CGSV\(\)"),
        (3, "methods: a: expected a strategy"),
    ],
)
def test_what_cannot_watch_rounds_is_refused_by_name(method, said):
    with pytest.raises(TypeError, match=said):
        entered({"a": method}, ["sizes"], [0])


def test_an_attacker_sends_what_the_name_says():
    honest = fb.recorded(fb.WORLDS["Dirichlet 0.5"], 1).records[0]["updates"]
    attacked = fb.recorded(fb.WORLDS["attack: scale x4"], 1).records[0]["updates"]
    others = [client for client in range(8) if client != worlds.ATTACKER]
    assert torch.equal(attacked[others], honest[others])
    assert torch.allclose(attacked[worlds.ATTACKER], 4 * honest[worlds.ATTACKER])


def lengths(round, server):
    """A score of this file: how long an update is."""
    return round.updates.norm(dim=1)


def test_a_python_score_is_judged_by_one_command_from_anywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "guest.py").write_text(
        "def lengths(round, server):\n    return round.updates.norm(dim=1)\n"
    )
    words = ["judge", "guest:lengths", "--scenarios", "sizes", "--scores-to", "lengths.csv"]
    files = ["--page", "board.html", "--csv", "all.csv", "--figure", "board.svg"]
    frame = command.main([*words, *files])
    printed = capsys.readouterr().out
    assert "lengths" in printed
    assert "CGSV" in printed
    assert "(the truth itself)" in printed
    page = (tmp_path / "board.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<td" in page
    assert "lengths" in page
    drawn = picture(frame).axes[0]
    assert drawn.get_xlabel() == "tau, sizes"
    assert "lengths" in [label.get_text() for label in drawn.get_yticklabels()]
    assert [text.get_text() for text in drawn.texts] == ["ceiling"]
    assert "<svg" in (tmp_path / "board.svg").read_text()
    # The file that it wrote is judged alike, and the function itself gives the same scores.
    again = command.main(["judge", "lengths.csv", "--alone"])
    mine = frame[frame.method == "lengths"].value.tolist()
    assert again[again.method == "lengths"].value.tolist() == pytest.approx(mine, abs=1e-4)
    (direct,) = entered({"lengths": lengths}, ["sizes"], [0])
    stored = fb.read_submission(tmp_path / "lengths.csv").scores["sizes", 0]
    assert torch.allclose(direct.scores["sizes", 0], stored, rtol=1e-4)


def counted(*cells: tuple[str, int], name: str = "counted") -> fb.Submission:
    """Scores that count the clients, the first one lowest."""
    scores = {cell: torch.arange(fb.WORLDS[cell[0]].clients).double() for cell in cells}
    return fb.Submission(scores, {"name": name})


def test_scores_of_other_seeds_are_compared_over_those_that_all_have():
    names = ("attack: replay", worlds.TWIN)
    early = counted(*[(name, seed) for name in names for seed in range(10)], name="early")
    both = [(name, seed) for name in names for seed in (*range(10), *range(100, 110))]
    frame = fb.judge([early, counted(*both, name="both")], FROZEN)
    stands = fb.standings(frame, "rank gained")["attacks"]
    assert {name: len(own.values) for name, own in stands.items()} == {"early": 10, "both": 10}
    assert fb.absent(frame, "rank gained") == []


def test_who_does_not_stand_is_said():
    rows = [(seed, "Dirichlet 0.5", "half", "tau", 0.5) for seed in range(10)]
    for scenario in ("Dirichlet 0.5", "Dirichlet 0.1"):
        rows += [(seed, scenario, "most", "tau", 0.4) for seed in range(10)]
        rows += [(seed, scenario, "late", "tau", 0.3) for seed in range(100, 105)]
    frame = pandas.DataFrame(rows, columns=judging.COLUMNS)
    stands = fb.standings(frame, "tau")["skew"]
    assert list(stands) == ["most"]
    assert stands["most"].values == (0.4,) * 10
    assert fb.absent(frame, "tau") == [
        "late does not stand in skew: it has no seed in common with the others",
        "half does not stand in skew: it lacks Dirichlet 0.1",
    ]


@pytest.mark.parametrize("names", [("one", "two", "one"), (fb.CEILING,)])
def test_a_name_is_refused_where_it_is_taken(names):
    with pytest.raises(ValueError, match="name: expected one of its own for every score, got"):
        fb.judge([counted(("sizes", 0), name=name) for name in names], FROZEN)


def test_an_attack_brings_the_world_that_it_is_judged_beside():
    (one,) = entered({"lengths": lengths}, ["attack: scale x4"], [0])
    assert set(one.scores) == {("attack: scale x4", 0), (worlds.TWIN, 0)}
    measured = fb.judge([one], FROZEN).set_index(["scenario", "metric"]).value
    assert measured["attack: scale x4", "rank gained"] > 0


def test_a_bench_of_ones_own_is_made_where_the_error_says(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(truth.VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match="fedlab_bench truth --to FOLDER/v1/truth"):
        truth.folder()
    table = np.linspace(0, 1, 512, dtype=np.float32).reshape(2, 256)
    monkeypatch.setattr(truth, "trained", lambda world, seed: table)
    place = tmp_path / "v1" / "truth"
    command.main(["truth", "--to", str(place), "--scenarios", "sizes"])
    counted(*[("sizes", seed) for seed in range(10)]).write(tmp_path / "mine.csv")
    frame = command.main(["judge", str(tmp_path / "mine.csv")])
    assert set(frame.method) == {"counted", fb.CEILING}
    assert frame.value.dtype == float


def test_freezing_keeps_what_another_process_has_finished(tmp_path, monkeypatch):
    def slow(world, seed):
        if seed == 1:  # meanwhile another process has finished a seed
            list(truth.freeze(["sizes"], [0], tmp_path))
        return np.full((2, 256), seed, np.float32)

    monkeypatch.setattr(truth, "trained", slow)
    (path,) = truth.freeze(["sizes"], [1], tmp_path)
    assert {seed: table[0, 0] for seed, table in truth.read(path).items()} == {"0": 0, "1": 1}


def test_files_that_are_no_truth_are_named(tmp_path):
    np.savez(tmp_path / "sizes.npz", **{"3": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match=r"sizes.npz: seed 3: expected numbers \(2, 256\)"):
        fb.Frozen(tmp_path)
    for text in ("{}", "[]", "{", '{"files": 1}'):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(ValueError, match=r"manifest.json: expected the manifest of a bench"):
            truth.manifest(tmp_path)


def test_scores_are_written_to_the_last_digit_and_only_if_they_can_be_read(tmp_path):
    path = tmp_path / "mine.csv"
    near = 1 + 1e-9 * torch.arange(8, dtype=torch.float64)
    cells = [("sizes", seed) for seed in range(10)]
    fb.Submission(dict.fromkeys(cells, near), {"name": "near"}).write(path)
    assert torch.equal(fb.read_submission(path).scores["sizes", 4], near)
    before = path.read_bytes()
    wrong = {
        "no scores for the seeds": counted(*cells[:2]),
        "1 to 60 letters": counted(*cells, name="a" * 61),
        "expected a finite number": fb.Submission(dict.fromkeys(cells, near / 0), {"name": "a"}),
    }
    for said, one in wrong.items():
        with pytest.raises(fb.Refused, match=said):
            one.write(path)
        assert path.read_bytes() == before


def test_a_file_without_a_name_has_that_of_the_file_as_far_as_it_fits(tmp_path):
    file = written(tmp_path, HEAD, *SIZES).rename(tmp_path / f"{'a' * 70}.csv")
    assert submission.notes_of(file)["name"] == "a" * 60
    assert fb.read_submission(file).name == "a" * 60


def test_the_python_score_is_the_one_that_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, HEAD, *SIZES)
    words = ["judge", "mine.csv", "size", "--scenarios", "sizes", "--alone"]
    command.main([*words, "--scores-to", "size.csv"])
    assert submission.notes_of("size.csv")["name"] == "size"


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(tmp_path, monkeypatch):
    def broken(frame, path, **options):
        path = Path(path)
        path.write_text("half")
        raise OSError("no space left")

    path = tmp_path / "all.csv"
    path.write_text("old")
    monkeypatch.setattr(pandas.DataFrame, "to_csv", broken)
    with pytest.raises(OSError, match="no space left"):
        write_csv(str(path), pandas.DataFrame({"a": [1]}))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_called_as_its_help_says(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert f"usage: python -m fedlab_bench {name} " in capsys.readouterr().out


def test_the_score_command_and_this_one_know_the_same_scores(monkeypatch):
    asked = []
    monkeypatch.setattr(entering, "entered", lambda methods, *_: asked.append(*methods) or ["it"])
    options = command._parser().parse_args(["judge", "quality inference"])
    assert command._python("quality inference", options) == "it"
    assert asked == ["quality inference"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["judge", "nowhere.csv"], "nowhere.csv: there is no such file"),
        (["judge", "nomodule:x"], "scores: expected module:NAME"),
        (["judge", "unheard"], "scores: unknown unheard"),
        (["judge", "size", "--scenarios", "size"], "scenarios"),
        (["judge", "size", "--page", "x.txt"], "--page: expected a file .html"),
        (["judge", "size", "--figure", "x.xyz"], "--figure: expected a file .svg"),
        (["judge", "size", "--truth", "nowhere"], "nowhere"),
        (["judge", "size", "--seeds", "20-29"], "seeds: expected some of 0 to 9, or of 100 to"),
        (["judge", "size", "size", "--scores-to", "x.csv"], "expected one score in Python, got 2"),
        (["judge", "retrained: alone"], "scores: unknown retrained: alone; known are"),
        (["rounds", "--to", "x", "--seeds", "20-29"], "seeds: expected some of 0 to 9"),
        (["truth", "--to", "x", "--seeds", "20-29"], "seeds: expected some of 0 to 9"),
        (
            ["truth", "--to", "x", "--scenarios", "validation 50"],
            "scenarios: validation 50: judged by wrong labels, no truth of its own",
        ),
    ],
)
def test_wrong_commands_are_one_line(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        command.main(words)
    printed = capsys.readouterr().err.strip()
    assert stop.value.code == 1
    assert said in printed
    assert "\n" not in printed


@pytest.mark.parametrize("text", ["9" * 20, f"{'9' * 20}-{'9' * 20}", "5-4", "0", "-1", "x"])
def test_seeds_that_are_none_are_a_usage_error(text, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["rounds", "--to", "x", f"--seeds={text}"])
    assert stop.value.code == 2
    assert "--seeds" in capsys.readouterr().err


def test_rounds_in_files_are_those_that_scores_watch(tmp_path):
    rounds = fb.recorded(fb.WORLDS["sizes"], 0)
    *files, server = rounds.write(tmp_path)
    arrays = np.load(server)
    table = fm.score(
        files,
        net=rounds.server.net,
        validation=(arrays["x"], arrays["y"]),
        methods={"CGSV": fm.CGSV()},
        clients=range(8),
    )
    scores = fb.read_submission(truth.folder() / "submissions" / "cgsv.csv").scores["sizes", 0]
    assert table["CGSV"].to_numpy() == pytest.approx(scores.numpy(), abs=1e-3)


@pytest.mark.parametrize("half", [0, 1])
def test_every_committed_submission_is_whole(half):
    """What a pull request adds passes here: form, both blocks of seeds, notes, judgement."""
    entries = [fb.read_submission(path) for path in SUBMITTED[half::2]]
    for one in entries:
        assert {"name", "sees", "cost"} <= set(one.notes), f"{one.name}: what it sees, and costs"
        for scenario in {name for name, _ in one.scores}:
            seeds = {seed for name, seed in one.scores if name == scenario}
            world = fb.WORLDS[scenario]
            public, held_out = (truth.seeds_of(world, b) for b in (fb.PUBLIC, fb.HELD_OUT))
            assert seeds == {*public, *held_out}, f"{one.name}, {scenario}"
    # Judged together, since the truth of a cell and its ceiling are the same for all.
    judged = fb.judge(entries, FROZEN)
    # What an attack gains needs no truth, so that is known of held-out seeds, too.
    judged = judged[judged.seed.isin(list(fb.PUBLIC))]
    stored = fb.stored(set(zip(judged.scenario, judged.seed, strict=True)))
    for one in entries:
        anew, mine = (
            frame[frame.method == one.name].set_index(["scenario", "seed", "metric"]).value
            for frame in (judged, stored)
        )
        assert set(mine.index) == set(anew.index), one.name
        assert mine.to_numpy() == pytest.approx(anew[mine.index].to_numpy(), abs=2e-6), one.name


def test_names_are_taken_once():
    names = [submission.notes_of(path)["name"] for path in SUBMITTED]
    assert len(names) > 15
    assert len(set(names)) == len(names)


def test_the_manifest_knows_all_files_and_the_rounds_come_again():
    known = json.loads((truth.folder() / "manifest.json").read_text())
    there = {
        path.relative_to(truth.folder()).as_posix(): path
        for path in truth.folder().glob("*/**/*.npz")
    }
    assert known["files"] == {name: truth.sha256(path) for name, path in there.items()}
    size = sum(path.stat().st_size for path in truth.folder().rglob("*") if path.is_file())
    assert size < 20 * 2**20
    if known["processor"] == torch.backends.cpu.get_cpu_capability():
        cell = "replicas/100"
        assert known["rounds"][cell] == fb.recorded(fb.WORLDS["replicas"], 100).digest()


def test_the_page_is_up_to_date():
    from studies import pages

    assert not pages.write(check=True), "python -m studies pages"
    described = (chapters.ROOT / "book" / "bench.md").read_text(encoding="utf-8")
    assert all(family in described for family in fb.FAMILIES)
