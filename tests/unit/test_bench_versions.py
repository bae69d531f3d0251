"""The bench as it grows: the attack of version 1.1, files of before, sentences on a third block."""

from __future__ import annotations

import hashlib
from itertools import pairwise, product

import pandas
import pytest
import torch

import fedlab_bench as fb
from fedlab_bench import truth, worlds
from fedlab_mini.worlds.attacks import Replay
from studies import bench_findings, leaderboard

PREDICTED, HALF = "attack: predicted step", "half the clients a round"
LATER = (PREDICTED, "alike, scale x4", "cnn: wrong labels")  # came after version 1
FIRST = (
    *("alone", "banzhaf", "cgsv", "class-cosine", "f-rcce", "fedce", "fedif", "first-order"),
    *("leave-one-out", "s-fedavg-s-relevance", "second-order", "shapley-silent", "shapley"),
    *("shapleyfl", "size", "trust-cosine"),
)


def test_who_predicts_the_step_sends_the_servers_last_one_at_an_honest_length():
    honest = fb.recorded(fb.WORLDS[worlds.TWIN], 1).records
    records = fb.recorded(fb.WORLDS[PREDICTED], 1).records
    others = [client for client in range(8) if client != worlds.ATTACKER]
    assert torch.equal(records[0]["updates"][others], honest[0]["updates"][others])
    assert not records[0]["updates"][worlds.ATTACKER].any()
    for last, this in pairwise(records):
        step, sent = this["theta"] - last["theta"], this["updates"][worlds.ATTACKER]
        assert float(torch.cosine_similarity(sent, step, dim=0)) == pytest.approx(1)
        # A mean of updates is shorter than the longest of them; this is no replay.
        assert sent.norm() > 1.2 * Replay()(sent[None], step, torch.Generator()).norm()


def test_no_row_of_version_1_has_changed(tmp_path):
    """All rows of its files, and of judged.csv about their scores and the ceiling, as a hash."""
    lines, names = [], [fb.CEILING]
    for stem in FIRST:
        path = leaderboard.SUBMISSIONS / f"{stem}.csv"
        one = fb.read_submission(path)
        names.append(one.name)
        # FedCE measured the last round's size there until version 1.2.
        other = (*LATER, HALF) if stem == "fedce" else LATER
        lines += [
            f"{stem},{scenario},{seed},{values.tolist()}"
            for (scenario, seed), values in one.scores.items()
            if scenario not in other
        ]
    frame = pandas.read_csv(leaderboard.JUDGED, dtype=str, keep_default_na=False)
    frame = frame[frame.method.isin(names) & ~frame.scenario.isin(LATER)]
    frame = frame[(frame.method != "FedCE") | (frame.scenario != HALF)]
    text = "\n".join([*lines, frame.to_csv(index=False)])
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == "753fc861fd44"
    # Nor does who reads a file and writes it again, as `enter` does.
    one.write(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()


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


def test_a_block_of_seeds_is_read_from_its_file():
    held, fresh = fb.judged(fb.HELD_OUT), fb.judged(fb.CONFIRMING)
    assert set(held.seed) == set(fb.HELD_OUT)
    assert set(fresh.seed) == set(fb.CONFIRMING)  # nobody had seen them
    # Every score was tried on them; the mean cosine is judged in one family only.
    told = [name for name, world in fb.WORLDS.items() if world.family in bench_findings.TOLD]
    small = {name for name in told if fb.WORLDS[name].clients == 8}
    there = set(zip(fresh.scenario, fresh.seed, fresh.method, strict=True))
    methods = {row.name for row in leaderboard.rows()} - {"mean cosine"}
    for name in small:
        seeds = truth.seeds_of(fb.WORLDS[name], fb.CONFIRMING)
        assert there >= set(product([name], seeds, methods))


@pytest.mark.parametrize(
    ("score", "value", "claim"),
    [("CGSV", 0.9, "bench-weights-1"), ("mean cosine", 0.5, "bench-weights-2")],
)
def test_a_sentence_that_the_blocks_refute_is_not_written(score, value, claim):
    rows = pandas.concat([fb.judged(seeds) for seeds in bench_findings.BLOCKS.values()])
    assert bench_findings.faults() == []
    asked = rows.method.eq(score) & rows.scenario.eq(bench_findings.WRONG) & rows.metric.eq("AUC")
    # Not all alike, or the rule would imagine a seed at the far end.
    rows.loc[asked, "value"] = [value + (-0.05) ** (1 + n % 2) for n in range(asked.sum())]
    with pytest.raises(ValueError, match=claim):
        bench_findings.findings(bench_findings.results_of(rows))


def test_a_block_alone_stops_a_sentence_only_from_the_other_side():
    rows = pandas.concat([fb.judged(seeds) for seeds in bench_findings.BLOCKS.values()])
    asked = rows.method.eq("class cosine") & rows.metric.eq("AUC")
    asked &= rows.scenario.eq("half the clients a round") & rows.seed.isin(fb.HELD_OUT)
    for value, word in ((0.5, []), (0.1, ["bench-half a round-1"])):
        rows.loc[asked, "value"] = [value + (-0.02) ** (1 + n % 2) for n in range(asked.sum())]
        found = bench_findings.faults(bench_findings.results_of(rows))
        assert [fault.partition(":")[0] for fault in found] == word


def test_no_score_means_every_score():
    ids = [claim.id for one in bench_findings.FINDINGS for claim in one.claims]
    assert len(ids) == len(set(ids))
    rows = pandas.concat([fb.judged(seeds) for seeds in bench_findings.BLOCKS.values()])
    asked = rows.method.eq("nucleolus") & rows.metric.eq("tau") & rows.scenario.eq("sizes")
    rows.loc[asked, "value"] = [0.99 + 0.001 * (n % 2) for n in range(asked.sum())]
    (fault,) = bench_findings.faults(bench_findings.results_of(rows))
    assert "it holds now" in fault
    assert "nucleolus minus that of size" in fault
