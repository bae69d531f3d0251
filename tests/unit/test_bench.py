"""The bench: wrong files are named by line, the truth is retraining's, places are shared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench import command, judging, submission, truth, worlds
from fedlab_bench.entering import entered

HEAD = "scenario,seed,client,score"
SIZES = [
    f"sizes,{seed},{client},{client / 7 + seed:.3f}" for seed in range(10) for client in range(8)
]
FIRST, NEWEST = truth.folders()[0], truth.folders()[-1]
SUBMITTED = {place.name: sorted(place.glob("submissions/*.csv")) for place in truth.folders()}
FROZEN = fb.Frozen()


def written(tmp_path, *lines: str, encoding: str = "utf-8", end: str = "\n"):
    file = tmp_path / "mine.csv"
    file.write_bytes((end.join(lines) + end).encode(encoding))
    return file


def fifth(text: str) -> list[str]:
    """A right file whose fifth line is another; the header is line 1."""
    return [HEAD, *SIZES[:3], text, *SIZES[4:]]


WRONG = {  # what the refusal says -> a file's lines
    "line 1: expected the header scenario,seed,client,score": SIZES,
    "line 5: expected 4 columns, got 5": fifth("sizes,0,3,0,25"),
    "line 5: scenario: 'size' is none of the bench; did you mean sizes": fifth("size,0,3,.1"),
    "line 5: seed: expected one of 0 to 109, got '10'": fifth("sizes,10,3,.1"),
    "line 5: score: expected a finite number": fifth("sizes,0,3,1e999"),
    "line 5: score: expected a number, got '0,25'": fifth('sizes,0,3,"0,25"'),
    "line 5: score: expected a number, got 'NA'": fifth("sizes,0,3,NA"),
    "line 5: score: expected a number, got '1.234.5'": [
        line.replace(",", ";") for line in fifth("sizes,0,3,1.234.5")
    ],
    "line 5: client: expected one of 0 to 7, got '3.5'": fifth("sizes,0,3.5,.1"),
    "line 5: decimal commas and decimal points in one file": [
        line.replace(",", ";").replace("!", ",") for line in fifth("sizes,0,3,0!25")
    ],
    "line 1: expected the header scenario,seed,client,score, got 'Table 1'": [
        "Table 1",
        HEAD,
        *SIZES,
    ],
    "line 1: expected the header scenario,seed,client,score, got '": [
        '"scenario,seed,client,score',
        *SIZES,
    ],
    "where commas stand between columns, decimals have points and rows no names": [
        HEAD,
        *(f'"{n}",{row}' for n, row in enumerate(SIZES, 1)),  # R, write.table
    ],
    "line 5: sizes, seed 0, client 1 has its score in line 3 already": fifth("sizes,0,1,.1"),
    "sizes, seed 9: no scores of the clients [7]": [HEAD, *SIZES[:-1]],
    "sizes: no scores for the seeds [0]": [HEAD, *SIZES[8:]],
    "attack: replay is judged beside Dirichlet 0.5, which has no scores": [
        row.replace("sizes", "attack: replay") for row in (HEAD, *SIZES)
    ],
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_file_is_refused_by_name_and_line(said, tmp_path):
    file = written(tmp_path, *WRONG[said])
    with pytest.raises(fb.Refused) as refusal:
        fb.read_submission(file)
    assert str(refusal.value).startswith(str(file))
    assert said in str(refusal.value)


ROWS = [row.split(",") for row in SIZES]
SAVED = {  # as programs save one table: lines, encoding, ends of lines
    "Excel, UTF-8": ([HEAD, *SIZES, ",,,"], "utf-8-sig", "\r\n"),
    "Excel, Unicode text": ([line.replace(",", "\t") for line in (HEAD, *SIZES)], "utf-16", "\r\n"),
    "Excel, German": (
        ["# name: mine;;;", '"# cost: 8; a ""round""";;;', HEAD.replace(",", ";") + ";"]
        + [";".join(row).replace(".", ",") + ";" for row in ROWS],
        "utf-8-sig",
        "\r\n",
    ),
    "an old Mac": ([HEAD.title(), *SIZES], "utf-8", "\r"),
    "R, write.csv": (
        ['"","scenario","seed","client","score"']
        + [f'"{n}","{row[0]}",{",".join(row[1:])}' for n, row in enumerate(ROWS, 1)],
        "utf-8",
        "\n",
    ),
    "R, write.csv2": (
        ['"";"scenario";"seed";"client";"score"']
        + [f'"{n}";"{a}";{b};{c};{d.replace(".", ",")}' for n, (a, b, c, d) in enumerate(ROWS, 1)],
        "utf-8",
        "\n",
    ),
    "pandas, with an index, floats": (
        [f",{HEAD}", *(f"{n},{a},{b}.0,{c}.0,{d}" for n, (a, b, c, d) in enumerate(ROWS))],
        "utf-8",
        "\n",
    ),
    "by hand": ([" Scenario, seed ,CLIENT ,score", *map(" , ".join, ROWS)], "utf-8", "\n"),
    "all quoted": (
        [HEAD, *(",".join(f' "{part}"' for part in row) for row in ROWS)],
        "utf-8",
        "\n",
    ),
}


@pytest.mark.parametrize(("lines", "encoding", "end"), SAVED.values(), ids=SAVED)
def test_a_table_is_read_whatever_program_saved_it(lines, encoding, end, tmp_path):
    wanted = fb.read_submission(written(tmp_path, HEAD, *SIZES)).scores
    read = fb.read_submission(written(tmp_path, *lines, encoding=encoding, end=end))
    assert {cell: row.tolist() for cell, row in read.scores.items()} == {
        cell: row.tolist() for cell, row in wanted.items()
    }
    assert read.notes["name"] == "mine"
    assert "#" not in lines[1] or read.notes["cost"] == '8; a "round"'


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1"])
def test_a_spreadsheet_is_told_to_be_saved_as_a_table(start, tmp_path):
    (tmp_path / "mine.xlsx").write_bytes(start + b"\0" * 99)
    with pytest.raises(fb.Refused, match=r"mine\.xlsx: it is a spreadsheet .*; save it as CSV$"):
        fb.read_submission(tmp_path / "mine.xlsx")


def counted(*cells: tuple[str, int]) -> fb.Submission:
    """Scores that count the clients, the first one lowest."""
    scores = {cell: torch.arange(fb.WORLDS[cell[0]].clients).double() for cell in cells}
    return fb.Submission(scores, {"name": "counted"})


def test_a_file_from_another_system_is_read_and_comes_back_to_the_last_digit(tmp_path):
    lines = ("# name: mine", "", HEAD, "", *SIZES)
    foreign = fb.read_submission(written(tmp_path, *lines, encoding="utf-8-sig", end="\r\n"))
    assert foreign.notes == {"name": "mine"}
    wanted = pytest.approx([k / 7 + 3 for k in range(8)], abs=1e-3)
    assert foreign.scores["sizes", 3].tolist() == wanted
    foreign.scores["sizes", 4][:] = 1 + 1e-9 * torch.arange(8)
    path = tmp_path / "again.csv"
    foreign.write(path)
    again = fb.read_submission(path)
    assert again.notes == foreign.notes
    assert all(torch.equal(again.scores[cell], foreign.scores[cell]) for cell in again.scores)
    before = path.read_bytes()
    with pytest.raises(fb.Refused):
        counted(("sizes", 0)).write(path)
    assert path.read_bytes() == before
    long = written(tmp_path, HEAD, *SIZES).rename(tmp_path / f"{'a' * 70}.csv")
    assert submission.notes_of(long)["name"] == fb.read_submission(long).name == "a" * 60


# The truth


def test_frozen_worths_are_those_of_retraining():
    """The table of a cell is trained again; another kind of processor may differ by rounding."""
    codes = {("sizes", 4): [0, 255, 0b01010101], ("cnn: wrong labels", 2): [255]}
    # Coalitions under another rule, and among four hospitals.
    codes |= {(f"{rule}: Dirichlet 0.5", 3): [0, 2, 0b11010] for rule in ("momentum", "median")}
    codes["hospitals: Cleveland judges", 1] = [0, 1, 15]
    for (name, seed), coalitions in codes.items():
        game = truth.game(fb.WORLDS[name], seed, truth.SECOND_TRUTH)
        players = range(fb.WORLDS[name].clients)
        masks = torch.tensor([[bool(code >> k & 1) for k in players] for code in coalitions])
        stored = FROZEN.tables[name][str(seed)][1][coalitions]
        assert stored == pytest.approx(game(masks).numpy(), rel=1e-3)


def test_a_changed_truth_is_noticed_and_of_two_folders_the_first_counts(tmp_path):
    place = tmp_path / "v1" / "truth"
    place.mkdir(parents=True)
    (tmp_path / "v1" / "manifest.json").write_bytes((FIRST / "manifest.json").read_bytes())
    whole = (FIRST / "truth" / "sizes.npz").read_bytes()
    (place / "sizes.npz").write_bytes(whole)
    assert fb.Frozen(place).knows("sizes", 3)
    (place / "sizes.npz").write_bytes(whole[:-9] + b"x" + whole[-8:])
    with pytest.raises(ValueError, match=r"sizes.npz is not the file that the bench was frozen"):
        fb.Frozen(place)
    table = FROZEN.tables["sizes"]["3"]
    np.savez(tmp_path / "sizes.npz", **{"3": table + 1, "100": table})
    both = fb.Frozen(FIRST / "truth", tmp_path)
    assert torch.equal(both.of("sizes", 3), FROZEN.of("sizes", 3))
    assert (both.knows("sizes", 100), FROZEN.knows("sizes", 100)) == (True, False)


def test_a_bench_of_ones_own_is_made_where_the_error_says(tmp_path, monkeypatch):
    monkeypatch.setenv(truth.VARIABLE, str(tmp_path))
    place = tmp_path / "v1" / "truth"

    def slow(world, seed):
        if seed == 1:  # meanwhile another process has finished a seed
            list(truth.freeze(["sizes"], [0], place))
        return np.linspace(seed, seed + 1, 512, dtype=np.float32).reshape(2, 256)

    monkeypatch.setattr(truth, "trained", slow)
    (path,) = truth.freeze(["sizes"], [1], place)
    assert {seed: table[0, 0] for seed, table in truth.read(path).items()} == {"0": 0, "1": 1}
    command.main(["truth", "--to", str(place), "--scenarios", "sizes"])
    counted(*[("sizes", seed) for seed in range(10)]).write(tmp_path / "mine.csv")
    frame = command.main(["judge", str(tmp_path / "mine.csv")])
    assert set(frame.method) == {"counted", fb.CEILING}
    assert set(frame.seed) == set(range(10))


# Worlds


def test_variants_change_what_a_server_sees_and_not_the_clients():
    fed, _ = fb.WORLDS["wrong labels"].made(2)
    seen = {}
    for name in ("validation 20", "validation lacks a class", "half the clients a round"):
        other, _ = fb.WORLDS[name].made(2)
        assert torch.equal(fed.x, other.x)
        assert torch.equal(fed.y, other.y)
        assert truth.owner_of(name) == "wrong labels"
        sent = {len(record["clients"]) for record in fb.recorded(fb.WORLDS[name], 2).records}
        seen[name] = (len(other.validation[1]), 2 in other.validation[1], sent)
    assert seen["validation 20"] == (20, True, {8})
    assert seen["validation lacks a class"][1:] == (False, {8})
    assert seen["half the clients a round"] == (360, True, {4})


def test_crowds_and_even_splits_are_what_they_say():
    world = fb.WORLDS["wrong labels, 30 clients"]
    fed, _ = world.made(0)
    assert fed.clients == 30
    assert fed.noise[0] == 0
    assert fed.noise[:10].mean() < 0.3 < 0.5 < fed.noise[-10:].mean() < 0.7
    assert world.worse(0) == list(range(15, 30))
    groups = worlds.even_dirichlet(0.1).deal(torch.arange(400) % 10, 8, torch.Generator())
    assert [len(group) for group in groups] == [50] * 8
    assert len(set(torch.cat(groups).tolist())) == 400
    assert max(torch.bincount(group % 10).max() for group in groups) > 25  # of one class


# Judging


def test_the_truth_as_a_score_reaches_the_ceiling_and_luck_does_not():
    scenarios = ("sizes", "wrong labels")
    cells = [(name, seed) for name in scenarios for seed in range(10)]
    second = {cell: FROZEN.of(*cell)[1] for cell in cells}
    luck = {cell: torch.rand(8, generator=torch.Generator().manual_seed(cell[1])) for cell in cells}
    mine = [fb.Submission(second, {"name": "second"}), fb.Submission(luck, {"name": "luck"})]
    frame = fb.judge(mine, FROZEN)
    tau = frame[frame.metric == "tau"].groupby(["scenario", "method"]).value.mean()
    for name in scenarios:
        # Judged by itself in one of the two trainings, it stands between the ceiling and 1.
        top = tau[name, fb.CEILING]
        assert top < tau[name, "second"] == pytest.approx((1 + top) / 2)
        assert abs(tau[name, "luck"]) < 0.3 < top
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
    measured = dict(judging.attacked(scores, honest, fb.WORLDS["attack: noise"]))
    assert measured["rank gained"] == pytest.approx(2.5 / 4 - 2 / 4)
    assert measured["pay gained"] == pytest.approx(3 / 11 - 2 / 10)
    # A second name: both are paid, none for a negative score, and their sum has a rank.
    both = replace(fb.WORLDS["attack: two names"], counted=(worlds.ATTACKER, 5))
    named = torch.tensor([4.0, 3.0, 2.0, 1.0, -1.0, 1.5])
    measured = dict(judging.attacked(named, honest, both))
    assert measured["rank gained"] == pytest.approx(3 / 4 - 2 / 4)
    assert measured["pay gained"] == pytest.approx(3.5 / 11.5 - 2 / 10)
    # Against another client: what that one loses is what the attacker gains.
    harmed = replace(fb.WORLDS["attack: against another"], counted=(1,))
    measured = dict(judging.attacked(torch.tensor([4.0, 1.5, 2.0, 1.0, -1.0]), honest, harmed))
    assert measured["rank gained"] == pytest.approx(3 / 4 - 2 / 4)
    assert measured["pay gained"] == pytest.approx(3 / 10 - 1.5 / 8.5)


def test_scores_are_compared_over_the_seeds_that_all_have_and_who_does_not_stand_is_said():
    rows = [(seed, "Dirichlet 0.5", "half", "tau", 0.5) for seed in range(10)]
    for scenario in ("Dirichlet 0.5", "Dirichlet 0.1"):
        rows += [(seed, scenario, "most", "tau", seed / 20) for seed in range(12)]
        rows += [(seed, scenario, "early", "tau", 0.4) for seed in range(10)]
        rows += [(seed, scenario, "late", "tau", 0.3) for seed in range(100, 105)]
    frame = pandas.DataFrame(rows, columns=judging.COLUMNS)
    stands = fb.standings(frame, "tau")["skew"]
    assert {name: len(own.values) for name, own in stands.items()} == {"most": 10, "early": 10}
    assert stands["most"].values == tuple(seed / 20 for seed in range(10))
    assert fb.absent(frame, "tau") == [
        "late does not stand in skew: it has no seed in common with the others",
        "half does not stand in skew: it lacks Dirichlet 0.1",
    ]


def test_an_attack_brings_the_world_that_it_is_judged_beside():
    """With "alike, scale x4" client 0 sends four times what it would have sent."""
    loud = "alike, scale x4"
    honest = fb.recorded(fb.WORLDS["alike"], 1).records[0]["updates"]
    sent = fb.recorded(fb.WORLDS[loud], 1).records[0]["updates"]
    times = torch.ones(8, 1)
    times[worlds.ATTACKER] = 4
    assert torch.allclose(sent, times * honest)
    (one,) = entered({"lengths": lambda round, server: round.updates.norm(dim=1)}, [loud], [0])
    assert set(one.scores) == {(loud, 0), ("alike", 0)}
    gained = fb.judge([one], FROZEN).set_index(["scenario", "metric"]).value
    assert gained[loud, "pay gained"] > 0.1


# The command


def test_a_python_score_and_its_file_are_judged_alike_by_one_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("guest.py").write_text(
        "def lengths(round, server):\n    return round.updates.norm(dim=1)\n"
    )
    words = ["judge", "guest:lengths", "--scenarios", "sizes", "--scores-to", "lengths.csv"]
    frame = command.main([*words, "--page", "board.html", "--csv", "all.csv"])
    assert "lengths" in Path("board.html").read_text()
    head = Path("lengths.csv").read_text().splitlines()[:6]
    asked = ["# name: lengths", "# sees:", "# cost:", "# date:", f"# version: {fb.VERSION}"]
    assert head == [*asked, HEAD]  # what a person fills in; empty, it says nothing
    assert fb.read_submission("lengths.csv").notes == {"name": "lengths", "version": fb.VERSION}
    assert len(pandas.read_csv("all.csv")) == len(frame)
    again = command.main(["judge", "lengths.csv", "size", "--scenarios", "sizes", "--alone"])
    assert set(again.method) == {"lengths", "size", fb.CEILING}
    mine = frame[frame.method == "lengths"].value.tolist()
    assert again[again.method == "lengths"].value.tolist() == pytest.approx(mine, abs=1e-4)


def test_rounds_in_files_are_those_that_scores_watch(tmp_path):
    command.main(["rounds", "--to", str(tmp_path), "--scenarios", "sizes", "--seeds", "1"])
    files = fm.records(tmp_path / "sizes-0")  # without the server's samples
    arrays = np.load(tmp_path / "sizes-0" / "server.npz")
    _, net = fb.WORLDS["sizes"].made(0)
    given = {"validation": (arrays["x"], arrays["y"]), "methods": [fm.CGSV()]}
    table = fm.score(files, net=net, clients=range(8), **given)
    scores = fb.read_submission(FIRST / "submissions" / "cgsv.csv").scores["sizes", 0]
    assert table["CGSV"].to_numpy() == pytest.approx(scores.numpy(), abs=1e-3)


# What is committed


@pytest.mark.parametrize("version", SUBMITTED)
def test_every_committed_submission_is_whole_and_judged_as_stored(version):
    """What a pull request adds passes here: form, both blocks of seeds, notes, judgement."""
    entries = [fb.read_submission(path) for path in SUBMITTED[version]]
    assert len({one.name for one in entries}) == len(entries) > 15
    judged_again = ("sizes", "attack: replay", worlds.TWIN)
    if version == NEWEST.name:
        judged_again = ("median: wrong labels", "attack: two names", worlds.TWIN)
    for place, one in enumerate(entries):
        assert {"name", "sees", "cost"} <= set(one.notes), one.name
        for scenario in {name for name, _ in one.scores}:
            seeds = {seed for name, seed in one.scores if name == scenario}
            blocks = (truth.seeds_of(fb.WORLDS[scenario], b) for b in (fb.PUBLIC, fb.HELD_OUT))
            assert seeds == set().union(*blocks), f"{one.name}, {scenario}"
        few = {cell: own for cell, own in one.scores.items() if cell[0] in judged_again}
        entries[place] = replace(one, scores=few)
    judged = fb.judge(entries, FROZEN)
    judged = judged[judged.seed.isin(list(fb.PUBLIC))]
    if version == NEWEST.name:  # whose file of judgements does not repeat those of version 1
        judged = judged[judged.scenario != worlds.TWIN]
    cells = set(zip(judged.scenario, judged.seed, strict=True))
    keys = ["method", "scenario", "seed", "metric"]
    anew = judged[judged.method != fb.CEILING].set_index(keys).value
    stored = fb.stored(cells)
    stored = stored[stored.method.isin(judged.method)].set_index(keys).value
    assert set(stored.index) == set(anew.index)
    assert stored.to_numpy() == pytest.approx(anew[stored.index].to_numpy(), abs=2e-6)


@pytest.mark.parametrize("name", ["replicas", "attack: L-BFGS step"])
def test_the_manifest_knows_all_files_and_the_rounds_come_again(name):
    world = fb.WORLDS[name]
    place = truth.folders()[world.version - 1]
    known = json.loads((place / "manifest.json").read_text())
    there = {path.relative_to(place).as_posix(): path for path in place.glob("*/**/*.npz")}
    assert known["version"] == fb.VERSIONS[world.version]
    assert known["files"] == {file: truth.sha256(path) for file, path in there.items()}
    if known["processor"] == torch.backends.cpu.get_cpu_capability():
        assert known["rounds"][f"{name}/100"] == fb.recorded(world, 100).digest()
