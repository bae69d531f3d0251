"""The bench as it grows: the attack of version 1.1, files of before, sentences on a third block."""

from __future__ import annotations

import json
from itertools import pairwise

import pandas
import pytest
import torch

import leaderboard
from fedlab_mini.judge import bench
from fedlab_mini.judge.bench import judging, truth, worlds
from fedlab_mini.worlds.attacks import replay

PREDICTED = "attack: predicted step"


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
    honest = bench.recorded(bench.WORLDS[worlds.TWIN], 1).records
    records = bench.recorded(bench.WORLDS[PREDICTED], 1).records
    others = [client for client in range(8) if client != worlds.ATTACKER]
    assert torch.equal(records[0]["updates"][others], honest[0]["updates"][others])
    assert not records[0]["updates"][worlds.ATTACKER].any()
    for last, this in pairwise(records):
        step, sent = this["theta"] - last["theta"], this["updates"][worlds.ATTACKER]
        assert float(torch.cosine_similarity(sent, step, dim=0)) == pytest.approx(1)
        # A mean of updates is shorter than the longest of them; this is no replay.
        assert sent.norm() > 1.2 * replay()(sent[None], step, torch.Generator()).norm()


def test_a_file_of_version_1_is_told_what_it_lacks():
    names = [name for name, world in bench.WORLDS.items() if world.family == "attacks"]
    rows = [
        (seed, name, method, "rank gained", 0.1)
        for seed in range(10)
        for method in ("new", "old")
        for name in names
        if (method, name) != ("old", PREDICTED)
    ]
    frame = pandas.DataFrame(rows, columns=judging.COLUMNS)
    assert list(bench.standings(frame, "rank gained")["attacks"]) == ["new"]
    said = f"old does not stand in attacks: it lacks {PREDICTED}"
    assert bench.absent(frame, "rank gained") == [said]


def test_a_version_behind_the_point_keeps_its_folder():
    assert truth.FOLDER == "v1"
    manifest = json.loads(leaderboard.MANIFEST.read_text(encoding="utf-8"))
    assert manifest["version"] == bench.VERSION
    asked = {
        f"{leaderboard.slug(owner)}.npz"
        for name, world in bench.WORLDS.items()
        if world.family in leaderboard.TOLD and (owner := truth.owner_of(name))
    }
    assert set(manifest["confirming"]) == asked


def test_every_score_was_tried_on_seeds_that_nobody_had_seen():
    frame = pandas.read_csv(leaderboard.CONFIRMED)
    assert set(frame.seed) == set(bench.CONFIRMING)
    told = [name for name, world in bench.WORLDS.items() if world.family in leaderboard.TOLD]
    scores = [row.name for row in leaderboard.rows()]
    assert {"GTG-Shapley", "least core", "nucleolus"} <= set(scores)
    there = set(zip(frame.scenario, frame.seed, frame.method, strict=True))
    assert there >= {
        (scenario, seed, score)
        for scenario in told
        for seed in bench.CONFIRMING
        for score in scores
    }
    seen = set(leaderboard.judged((*bench.PUBLIC, *bench.HELD_OUT)).seed)
    assert not seen & set(bench.CONFIRMING)


# A sentence of the page -> rows that make it false: family, metric, score, new value.
FALSE = {
    "a score is clearly better than counting": ("skew", "tau", "size", -1.0),
    "a score reaches the ceiling": ("skew, even sizes", "tau", "CGSV", 1.0),
    "few samples are enough": ("few samples", "AUC", "second order", 1.0),
    "a score finds dirt under skew": (leaderboard.HARD, "AUC", "CGSV", 1.0),
}


@pytest.mark.parametrize("block", ["held out", "confirming"])
@pytest.mark.parametrize("said", FALSE)
def test_a_sentence_that_a_block_refutes_is_not_written(said, block):
    family, metric, score, value = FALSE[said]
    blocks = {
        "held out": leaderboard.judged(bench.HELD_OUT),
        "confirming": pandas.read_csv(leaderboard.CONFIRMED),
    }
    leaderboard.findings(*blocks.values())
    frame = blocks[block].copy()
    families = frame.scenario.map(lambda name: bench.WORLDS[name].family)
    frame.loc[
        (families == family) & (frame.metric == metric) & (frame.method == score), "value"
    ] = value
    with pytest.raises(AssertionError, match=said):
        leaderboard.findings(*(blocks | {block: frame}).values())
