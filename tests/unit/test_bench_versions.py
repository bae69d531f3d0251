"""The bench as it grows: the attack of version 1.1, files of before, sentences on a third block."""

from __future__ import annotations

import csv
import functools
import hashlib
import json
from itertools import pairwise

import pandas
import pytest
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench import judging, submission, truth, worlds
from fedlab_bench.show import leaderboard as show
from fedlab_mini.worlds.attacks import replay
from studies import bench_findings, leaderboard

PREDICTED, LOUD, CNN = "attack: predicted step", "alike, scale x4", "cnn: wrong labels"
LATER = (PREDICTED, LOUD, CNN)  # came after version 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_predicted_step_is_the_last_one_at_an_honest_length(dtype):
    generator = torch.Generator().manual_seed(0)
    honest = torch.randn(3, 50, generator=generator, dtype=dtype)
    step = 1e-4 * torch.randn(50, generator=generator, dtype=dtype)
    before = honest.clone()
    sent = worlds.predicted_step()(honest, step, generator)
    assert torch.equal(honest, before)
    assert sent.dtype == dtype
    torch.testing.assert_close(sent.norm(dim=1), honest.norm(dim=1))
    torch.testing.assert_close(
        torch.cosine_similarity(sent, step[None]), torch.ones(3, dtype=dtype)
    )
    for nothing in (None, torch.zeros_like(step)):  # before the server's first step
        assert torch.equal(worlds.predicted_step()(honest, nothing, generator), 0 * honest)
    with pytest.raises(ValueError, match="previous: expected shape"):
        worlds.predicted_step()(honest, step[:7], generator)


def test_who_predicts_the_step_goes_on_as_the_server_did():
    honest = fb.recorded(fb.WORLDS[worlds.TWIN], 1).records
    records = fb.recorded(fb.WORLDS[PREDICTED], 1).records
    others = [client for client in range(8) if client != worlds.ATTACKER]
    assert torch.equal(records[0]["updates"][others], honest[0]["updates"][others])
    assert not records[0]["updates"][worlds.ATTACKER].any()
    for last, this in pairwise(records):
        step, sent = this["theta"] - last["theta"], this["updates"][worlds.ATTACKER]
        assert float(torch.cosine_similarity(sent, step, dim=0)) == pytest.approx(1)
        # A mean of updates is shorter than the longest of them; this is no replay.
        assert sent.norm() > 1.2 * replay()(sent[None], step, torch.Generator()).norm()


def test_one_of_alike_clients_multiplies_its_update_and_is_judged_beside_itself():
    honest = fb.recorded(fb.WORLDS["alike"], 1).records[0]["updates"]
    sent = fb.recorded(fb.WORLDS[LOUD], 1).records[0]["updates"]
    times = torch.ones(8, 1)
    times[worlds.ATTACKER] = 4
    assert torch.allclose(sent, times * honest)
    (one,) = fb.entered({"lengths": lambda round, server: round.updates.norm(dim=1)}, [LOUD], [0])
    assert set(one.scores) == {(LOUD, 0), ("alike", 0)}
    gained = fb.judge([one], fb.Frozen()).set_index(["scenario", "metric"]).value
    pays = [fm.contribution_index(one.scores[name, 0])[worlds.ATTACKER] for name in (LOUD, "alike")]
    assert gained[LOUD, "pay gained"] == pytest.approx(float(pays[0] - pays[1]))
    assert gained[LOUD, "pay gained"] > 0.1


def test_a_convolution_sees_the_same_clients_with_a_step_of_its_own():
    world, plain = fb.WORLDS[CNN], fb.WORLDS["wrong labels"]
    (fed, net), (other, mlp) = world.made(2), plain.made(2)
    assert torch.equal(fed.x, other.x)
    assert torch.equal(fed.y, other.y)
    assert (world.local.lr, plain.local.lr) == (0.5, 0.2)
    # 8 maps of 3 x 3 and their bias, 8 x 4 x 4 pixels after the pool, 32 hidden units, ten classes
    assert net.P == 8 * 10 + (128 + 1) * 32 + 33 * 10 != mlp.P
    records = fb.recorded(world, 2).records
    losses = [float(net.evaluate(record["theta"][None], *fed.test, "loss")) for record in records]
    assert losses[-1] < losses[0] - 0.3
    game = truth.game(world, 2, truth.TRUTH)
    grand = float(game(torch.ones(1, 8, dtype=torch.bool)))
    assert grand == pytest.approx(fb.Frozen().tables[CNN]["2"][0][255], rel=1e-3)


def test_a_file_of_version_1_is_told_what_it_lacks():
    names = [name for name, world in fb.WORLDS.items() if world.family == "attacks"]
    rows = [
        (seed, name, method, "rank gained", 0.1)
        for seed in range(10)
        for method in ("new", "old")
        for name in names
        if (method, name) != ("old", PREDICTED)
    ]
    frame = pandas.DataFrame(rows, columns=judging.COLUMNS)
    assert list(fb.standings(frame, "rank gained")["attacks"]) == ["new"]
    said = f"old does not stand in attacks: it lacks {PREDICTED}"
    assert fb.absent(frame, "rank gained") == [said]


def test_a_version_behind_the_point_keeps_its_folder():
    assert truth.FOLDER == "v1"
    manifest = json.loads(leaderboard.MANIFEST.read_text(encoding="utf-8"))
    assert manifest["version"] == fb.VERSION
    asked = {
        f"{leaderboard.slug(owner)}.npz"
        for name, world in fb.WORLDS.items()
        if world.family in bench_findings.TOLD and (owner := truth.owner_of(name))
    }
    assert set(manifest["confirming"]) == asked


# A file of version 1 -> a hash over its rows, and over those of judged.csv about its score.
FIRST = {
    "alone": ("be9f21961580", "8bb39bcb3ccd"),
    "banzhaf": ("7535067c23d8", "32ed742b9216"),
    "cgsv": ("3580494b2655", "65871c75aa50"),
    "class-cosine": ("c662ba7b0de6", "bf42a88483f8"),
    "f-rcce": ("ae904d4393fe", "792687d2fcfa"),
    "fedce": ("81badf362aad", "8b9d762b5005"),  # but for HALF
    "fedif": ("d65317c35268", "3ba0b163d65b"),
    "first-order": ("3f2b80bf481c", "401925f7128c"),
    "leave-one-out": ("489a73617e2a", "672f310c4155"),
    "s-fedavg-s-relevance": ("53a4e1e35ba0", "237621a73074"),
    "second-order": ("4193c1466a2e", "ae8daf8a3e40"),
    "shapley-silent": ("21c2041c5054", "341cd250fe45"),
    "shapley": ("ef148a20e36b", "2d1f7f6e318e"),
    "shapleyfl": ("ed5350fb644a", "8eaeca85204a"),
    "size": ("9ea95559d88f", "96a32cafa477"),
    "trust-cosine": ("5f029ec9829d", "4e6ee6349857"),
}
HALF = "half the clients a round"  # FedCE measured the last round's size there until version 1.2
CEILING_ROWS = "e6ae9eda7d0c"


def digest(lines):
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def judged_lines():
    """The lines of judged.csv by score, without the scenarios that came later."""
    lines: dict[str, list[str]] = {}
    for line in leaderboard.JUDGED.read_text(encoding="utf-8").splitlines()[1:]:
        _, scenario, method, *_ = next(csv.reader([line]))
        if scenario not in LATER and (method, scenario) != ("FedCE", HALF):
            lines.setdefault(method, []).append(line)
    return lines


@pytest.mark.parametrize("stem", FIRST)
def test_no_row_of_version_1_has_changed(stem, tmp_path):
    path = leaderboard.SUBMISSIONS / f"{stem}.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    of_it = judged_lines()[submission.notes_of(path)["name"]]
    other = (*LATER, HALF) if stem == "fedce" else LATER
    first = [line for line in lines if not line.startswith(("#", *(f'"{LOUD}"', *other)))]
    assert (digest(first), digest(of_it)) == FIRST[stem]
    # Nor does who reads a file and writes it again, as `enter` does.
    fb.read_submission(path).write(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()


def test_the_ceilings_of_version_1_are_those_of_then():
    assert digest(judged_lines()[fb.CEILING]) == CEILING_ROWS


def test_who_enters_keeps_what_a_file_holds(tmp_path, monkeypatch):
    own = [row for row in leaderboard.rows() if row.name == "size"]
    monkeypatch.setattr(leaderboard, "SUBMISSIONS", tmp_path)
    monkeypatch.setattr(leaderboard, "rows", lambda: own)
    said = {"sees": "sizes", "cost": "no model evaluated"}
    monkeypatch.setattr(leaderboard, "notes", lambda: {"size": said})
    cells = [(worlds.TWIN, seed) for seed in leaderboard.SEEDS]
    held = torch.arange(8, dtype=torch.float64) / 7
    fb.Submission(dict.fromkeys(cells, held), {"name": "size"}).write(tmp_path / "size.csv")
    later = {(name, seed): 1 + held for name in (PREDICTED, worlds.TWIN) for _, seed in cells}
    entered = [fb.Submission(later, {"name": "size"})]
    monkeypatch.setattr(fb, "entered", lambda *asked: entered)
    leaderboard.enter([PREDICTED])
    scores = fb.read_submission(tmp_path / "size.csv").scores
    assert all(torch.equal(scores[cell], held) for cell in cells)
    assert torch.equal(scores[PREDICTED, 100], 1 + held)


def test_a_judgement_stays_where_only_its_rounding_differs(tmp_path, monkeypatch):
    monkeypatch.setattr(leaderboard, "JUDGED", tmp_path / "judged.csv")
    rows = [(seed, "sizes", "size", "tau", value) for seed, value in enumerate((0.1, 0.2, 0.3))]
    frame = pandas.DataFrame(rows, columns=judging.COLUMNS)
    assert leaderboard._kept(frame).equals(frame)
    frame[:2].to_csv(leaderboard.JUDGED, index=False)
    anew = frame.assign(value=[0.1 + 1e-6, 0.2 + 1e-3, 0.3])
    assert leaderboard._kept(anew).value.tolist() == [0.1, 0.2 + 1e-3, 0.3]
    # What was judged by a truth that is not at hand now stays whole.
    elsewhere = frame.assign(scenario="MNIST: wrong labels")
    elsewhere.to_csv(leaderboard.JUDGED, index=False)
    assert leaderboard._kept(anew).equals(pandas.concat([anew, elsewhere], ignore_index=True))


def test_a_block_of_seeds_is_read_from_its_file():
    held, fresh = fb.judged(fb.HELD_OUT), fb.judged(fb.CONFIRMING)
    assert set(held.seed) == set(fb.HELD_OUT)
    assert set(fresh.seed) == set(fb.CONFIRMING)
    with pytest.raises(ValueError, match=r"seeds: expected some that the bench has judged, got"):
        fb.judged([77])


def test_a_board_shows_the_scores_that_are_asked_for_and_a_picture_one_family():
    fresh = fb.judged(fb.CONFIRMING)
    chosen = [fb.CEILING, "size", "CGSV"]
    few, whole = (show.board(fresh, "tau", names) for names in (chosen, None))
    lines = {line.split("  ")[0]: line for line in str(whole).splitlines()}
    shown = str(few).splitlines()
    assert [line.split("  ")[0] for line in shown[1:4]] == [fb.CEILING, "size", "CGSV's weights"]
    for line in shown[1:4]:  # places are among all scores, whichever are shown
        assert line.split() == lines[line.split("  ")[0]].split()
    narrow = str(show.board(fresh, "tau", chosen, ["skew", "dirt"])).splitlines()
    assert narrow[0].split() == ["score", "skew", "dirt"]
    for said, asked in (("methods", {"methods": ["unheard"]}), ("families", {"families": ["no"]})):
        with pytest.raises(ValueError, match=f"{said}: expected"):
            show.board(fresh, "tau", **asked)
    drawn = show.picture(fresh, "AUC", "few samples").axes[0]
    assert drawn.get_xlabel() == "AUC, few samples"
    # but the mean cosine, which is judged in one family only
    assert len(drawn.get_yticklabels()) == len(leaderboard.rows()) - 1
    for metric, family, said in (("beauty", None, "metric"), ("tau", "attacks", "place")):
        with pytest.raises(ValueError, match=f"{said}: expected"):
            show.picture(fresh, metric, family)


def test_every_score_was_tried_on_seeds_that_nobody_had_seen():
    frame = fb.judged(fb.CONFIRMING)
    assert set(frame.seed) == set(fb.CONFIRMING)
    told = [name for name, world in fb.WORLDS.items() if world.family in bench_findings.TOLD]
    # The mean cosine is judged in one family only: dirt under skew.
    scores = [row.name for row in leaderboard.rows() if row.name != "mean cosine"]
    assert {"GTG-Shapley", "least core", "nucleolus"} <= set(scores)
    there = set(zip(frame.scenario, frame.seed, frame.method, strict=True))
    assert there >= {
        (scenario, seed, score)
        for scenario in told
        for seed in truth.seeds_of(fb.WORLDS[scenario], fb.CONFIRMING)
        for score in scores
        if fb.WORLDS[scenario].clients <= leaderboard.MOST_CLIENTS.get(score, 100)
    }
    seen = set(fb.judged((*fb.PUBLIC, *fb.HELD_OUT)).seed)
    assert not seen & set(fb.CONFIRMING)


# A sentence of the page -> rows that make it false: family, metric, score, new value.
FALSE = {
    "a score is clearly better than counting": ("skew", "tau", "size", -1.0),
    "a score reaches the ceiling": ("skew, even sizes", "tau", "CGSV", 1.0),
    "few samples are enough": ("few samples", "AUC", "second order", 1.0),
    "a score finds dirt under skew": (bench_findings.HARD, "AUC", "CGSV", 1.0),
    "a score punishes the predicted step": ("attacks", "pay gained", "FedIF", -1.0),
    "a score is clearly better than counting by sizes": ("sizes", "tau", "size", -1.0),
    "scaled weights rank sizes as well": ("sizes", "tau", "Shapley", 0.85),
    "second order finds no dirt": ("dirt", "AUC", "second order", 0.5),
    "CGSV finds no dirt": ("dirt", "AUC", "CGSV", 0.5),
    "class cosine finds no dirt": ("dirt", "AUC", "class cosine", 0.5),
    "FedCE puts dirt last": ("dirt", "AUC", "FedCE", 0.5),
    "a multiplied update does not pay": (bench_findings.LOUD, "pay gained", "second order", 0.0),
    "a cap does not help": (bench_findings.LOUD, "pay gained", bench_findings.CAPPED, 0.1),
    "CGSV sees a rare class": ("rare class", "AUC", "CGSV", 0.5),
    "second order needs everybody": ("half a round", "AUC", "second order", 0.5),
    "class cosine needs everybody": ("half a round", "AUC", "class cosine", 0.5),
    "CGSV finds no spam that is wrong": ("messages", "AUC", "CGSV", 0.5),
    "two classes are enough": ("messages", "AUC", "class cosine", 1.0),
    "thirty are too many": ("30 clients", "AUC", "class cosine", 0.5),
}


@functools.cache
def blocks():
    """Both blocks of seeds, of which all sentences are true."""
    read = {
        "held out": fb.judged(fb.HELD_OUT),
        "confirming": fb.judged(fb.CONFIRMING),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fb, "standings", standings)
        bench_findings.findings(*read.values())
    return read


STANDINGS, KNOWN = fb.standings, {}


def family_of(scenarios):
    return scenarios.map(lambda name: fb.WORLDS[name].family)


def standings(frame, metric):
    """The same, computed once for the same rows of a family, which others do not touch."""
    rows, found = frame[frame.metric == metric], {}
    for _, family in rows.groupby(family_of(rows.scenario), sort=False):
        key = metric, pandas.util.hash_pandas_object(family).to_numpy().tobytes()
        if key not in KNOWN:
            KNOWN[key] = STANDINGS(family, metric)
        found |= KNOWN[key]
    return found


@pytest.mark.parametrize("block", ["held out", "confirming"])
@pytest.mark.parametrize("said", FALSE)
def test_a_sentence_that_a_block_refutes_is_not_written(said, block, monkeypatch):
    monkeypatch.setattr(fb, "standings", standings)
    family, metric, score, value = FALSE[said]
    frame = blocks()[block].copy()
    frame.loc[
        (family_of(frame.scenario) == family) & (frame.metric == metric) & (frame.method == score),
        "value",
    ] = value
    with pytest.raises(AssertionError, match=said):
        bench_findings.findings(*(blocks() | {block: frame}).values())


@pytest.mark.parametrize(
    ("score", "value", "said"),
    [
        ("CGSV", 0.9, "weights find or miss wrong labels"),
        ("CGSV", 0.1, "weights find or miss wrong labels"),
        ("mean cosine", 0.5, "the mean cosine finds no wrong labels"),
    ],
)
def test_weights_and_cosine_are_told_apart_on_both_blocks_together(score, value, said):
    both = pandas.concat(blocks().values())
    assert "over the 20 seeds of both blocks" in bench_findings._cosines(both)
    asked = both.method.eq(score) & both.scenario.eq(bench_findings.WRONG) & both.metric.eq("AUC")
    assert asked.sum() == 20
    # Not all alike, or the rule would imagine a seed at the far end.
    both.loc[asked, "value"] = [value + shift for shift in (-0.05, 0.05)] * 10
    with pytest.raises(AssertionError, match=said):
        bench_findings._cosines(both)
