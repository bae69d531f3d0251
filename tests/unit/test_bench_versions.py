"""The bench as it grows: later attacks and rules, files of before, sentences on later blocks."""

from __future__ import annotations

import hashlib
from itertools import pairwise, product

import pandas
import pytest
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench import command, recording, truth, worlds
from studies import bench_findings, calls, leaderboard

PREDICTED, HALF = "attack: predicted step", "half the clients a round"
COPIED = "attack: copied update"
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
        assert sent.norm() > 1.2 * step.norm()


ATTACKER, VICTIM = worlds.ATTACKER, worlds.VICTIM


def sent(name: str, client: int = ATTACKER) -> list[torch.Tensor]:
    """What a client sends in every round of seed 1."""
    records = fb.recorded(fb.WORLDS[name], 1).records
    return [record["updates"][client] for record in records]


KNOW_STEPS = ("noisy replay", "L-BFGS step")


def cosines_with_the_last_step(name: str) -> list[float]:
    records = fb.recorded(fb.WORLDS[name], 1).records
    steps = torch.stack([this["theta"] - last["theta"] for last, this in pairwise(records)])
    rows = torch.stack([record["updates"][ATTACKER] for record in records[1:]])
    return torch.cosine_similarity(rows, steps).tolist()


def test_attackers_of_version_2_send_what_their_knowledge_allows():
    honest = fb.recorded(fb.WORLDS[worlds.TWIN], 1).records
    others = [client for client in range(8) if client != ATTACKER]
    for name in [name for name, world in fb.WORLDS.items() if world.version == 2]:
        if fb.WORLDS[name].truth is None and name != "attack: two names":
            first = fb.recorded(fb.WORLDS[name], 1).records[0]
            assert torch.equal(first["updates"][others], honest[0]["updates"][others]), name
    copy = "attack: copied update"
    assert all(map(torch.equal, sent(copy), sent(copy, VICTIM)))
    withheld = sent("attack: withheld work")
    assert [bool(row.any()) for row in withheld] == [False] * 10 + [True] * 10
    against = "attack: against another"
    pushed, own = sent(against)[0], honest[0]["updates"][ATTACKER]
    assert float(pushed.norm()) == pytest.approx(float(own.norm()))
    victim = honest[0]["updates"][VICTIM]
    assert float(torch.cosine_similarity(pushed, victim, dim=0)) < 0
    assert fb.WORLDS[against].counted == (VICTIM,)
    noisy, predicted = (cosines_with_the_last_step(f"attack: {name}") for name in KNOW_STEPS)
    assert 0.98 < min(noisy) < max(noisy) < 1  # noise of a tenth
    # A prediction needs two steps; before, it is a replay.
    assert predicted[0] == pytest.approx(1)
    assert max(predicted[2:]) < 0.9
    for name in ("replay at median length", "disguise"):
        last = fb.recorded(fb.WORLDS[f"attack: {name}"], 1).records[-1]["updates"].norm(dim=1)
        assert float(last[ATTACKER]) == pytest.approx(float(last[others].median()))


def test_two_names_share_the_samples_and_the_second_comes_last():
    world = fb.WORLDS["attack: two names"]
    fed, twin = world.made(1)[0], fb.WORLDS[worlds.TWIN].made(1)[0]
    assert world.counted == (ATTACKER, 8)
    assert int(fed.sizes[ATTACKER] + fed.sizes[8]) == int(twin.sizes[ATTACKER])
    others = [client for client in range(8) if client != ATTACKER]
    assert torch.equal(fed.sizes[others], twin.sizes[others])


@pytest.mark.parametrize("rule", ["momentum", "median"])
def test_a_rule_is_the_same_in_recorded_rounds_and_in_retraining(rule):
    """The worth of all clients is the loss after the rounds of a training with that strategy."""
    world = fb.WORLDS[f"{rule}: Dirichlet 0.5"]
    fed, net = world.made(2)
    strategy, lot = recording.RULES[rule][0](), recording.luck(2, truth.TRUTH)
    history = fm.train(fed, net, strategy, rounds=world.rounds, local=world.local, seed=lot)
    worth = truth.game(world, 2, truth.TRUTH)(torch.ones(1, 8, dtype=torch.bool))
    assert float(worth) == pytest.approx(-float(history.loss[-1]))
    assert float(worth) == pytest.approx(fb.Frozen().tables[f"{rule}: Dirichlet 0.5"]["2"][0, -1])


def test_whose_patients_judge_changes_no_client():
    names = [name for name, world in fb.WORLDS.items() if world.family == "four hospitals"]
    feds = [fb.WORLDS[name].made(4)[0] for name in names]
    assert [fed.clients for fed in feds] == [4] * 5
    assert all(torch.equal(fed.x, feds[0].x) for fed in feds)
    counts = [len(fed.test[1]) for fed in feds]
    assert counts[0] == sum(counts[1:])


@pytest.mark.parametrize("name", calls.ESTIMATORS)
def test_an_estimator_comes_near_the_value_as_its_calls_grow(name):
    def worth(coalitions: torch.Tensor) -> torch.Tensor:
        weights = torch.arange(1.0, 9.0).double()
        total = coalitions.double() @ weights
        return total**3 / 1000

    exact = fm.exact(fm.Game(8, worth)).values
    last = calls.BUDGETS[-1]
    estimates = [calls.estimates(name, fm.Game(8, worth), seed) for seed in range(30)]
    errors = [[distance(one[budget], exact) for one in estimates] for budget in (24, last)]
    few, many = (sum(own) / len(own) for own in errors)
    assert many < 0.8 * few
    # No bias beyond that of truncation: the mean of many estimates is nearer than one of them.
    mean = torch.stack([one[last] for one in estimates]).mean(0)
    assert distance(mean, exact) < 0.06


def distance(values: torch.Tensor, exact: torch.Tensor) -> float:
    return float((values - exact).norm() / exact.norm())


def test_the_files_of_version_1_are_closed():
    """Byte for byte; what is new has its files in the folder of a later version."""
    place = truth.folders()[0]
    files = sorted(path for path in place.rglob("*") if path.is_file() and path.suffix != ".lock")
    lines = [f"{path.relative_to(place).as_posix()} {truth.sha256(path)}" for path in files]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12] == "d0b3f1bb345b"
    assert sum(path.stat().st_size for path in place.parent.rglob("*")) < 12e6


def test_a_file_of_version_1_is_judged_as_before(tmp_path):
    path = truth.folders()[0] / "submissions" / "size.csv"
    own = [line for line in path.read_text().splitlines() if not line.startswith("# name")]
    (tmp_path / "mine.csv").write_text("\n".join(own) + "\n")
    page = tmp_path / "board.html"
    frame = command.main(["judge", str(tmp_path / "mine.csv"), "--page", str(page)])
    assert {fb.WORLDS[name].version for name in frame.scenario} == {1}
    assert "The bench, version 1.4" in page.read_text()
    keys = ["seed", "scenario", "metric"]
    mine, size = (frame[frame.method == name].set_index(keys).value for name in ("mine", "size"))
    assert mine.to_numpy() == pytest.approx(size[mine.index].to_numpy(), abs=2e-6)


def test_no_row_of_version_1_has_changed(tmp_path):
    """All rows of its files, and of judged.csv about their scores and the ceiling, as a hash."""
    lines, names, place = [], [fb.CEILING], truth.folders()[0]
    for stem in FIRST:
        path = place / "submissions" / f"{stem}.csv"
        one = fb.read_submission(path)
        names.append(one.name)
        # FedCE measured the last round's size there until version 1.2.
        other = (*LATER, HALF) if stem == "fedce" else LATER
        lines += [
            f"{stem},{scenario},{seed},{values.tolist()}"
            for (scenario, seed), values in one.scores.items()
            if scenario not in other
        ]
    frame = pandas.read_csv(place / "judged.csv", dtype=str, keep_default_na=False)
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
    monkeypatch.setattr(leaderboard, "notes", lambda: {"size": said, leaderboard.MEAN: said})
    cells = [(worlds.TWIN, seed) for seed in leaderboard.SEEDS]
    held = torch.arange(8, dtype=torch.float64) / 7
    fb.Submission(dict.fromkeys(cells, held), {"name": "size"}).write(tmp_path / "size.csv")

    def scored(methods, cells):
        return [fb.Submission(dict.fromkeys(cells, 1 + held), {"name": "size"})]

    monkeypatch.setattr(leaderboard, "scored", scored)
    leaderboard.enter([COPIED, PREDICTED])
    scores = fb.read_submission(tmp_path / "size.csv").scores
    assert all(torch.equal(scores[cell], held) for cell in cells)
    assert torch.equal(scores[COPIED, 100], 1 + held)
    assert (PREDICTED, 100) not in scores  # version 1 is closed


def test_a_block_of_seeds_is_read_from_its_file():
    held, fresh = fb.judged(fb.HELD_OUT), fb.judged(fb.CONFIRMING)
    assert set(held.seed) == set(fb.HELD_OUT)
    assert set(fresh.seed) == set(fb.CONFIRMING)  # nobody had seen them
    # Every score was tried on them; two are judged in some families only.
    told = [name for name, world in fb.WORLDS.items() if world.family in bench_findings.TOLD]
    small = {name for name in told if fb.WORLDS[name].clients == 8}
    there = set(zip(fresh.scenario, fresh.seed, fresh.method, strict=True))
    for name in small:
        world = fb.WORLDS[name]
        methods = [one for one in bench_findings.SCORES if bench_findings.stands(one, world.family)]
        seeds = truth.seeds_of(world, fb.CONFIRMING)
        assert there >= set(product([name], seeds, methods))


@pytest.mark.parametrize(
    ("score", "value", "claim"),
    [("CGSV", 0.9, "bench-weights-1"), ("mean cosine", 0.5, "bench-weights-2")],
)
def test_a_sentence_that_the_blocks_refute_is_not_written(score, value, claim):
    rows = bench_findings.stored()
    assert bench_findings.faults() == []
    asked = rows.method.eq(score) & rows.scenario.eq(bench_findings.WRONG) & rows.metric.eq("AUC")
    # Not all alike, or the rule would imagine a seed at the far end.
    rows.loc[asked, "value"] = [value + (-0.05) ** (1 + n % 2) for n in range(asked.sum())]
    with pytest.raises(ValueError, match=claim):
        bench_findings.findings(bench_findings.results_of(rows))


def test_a_block_alone_stops_a_sentence_only_from_the_other_side():
    rows = bench_findings.stored()
    asked = rows.method.eq("class cosine") & rows.metric.eq("AUC")
    asked &= rows.scenario.eq("half the clients a round") & rows.seed.isin(fb.HELD_OUT)
    for value, word in ((0.5, []), (0.1, ["bench-half a round-1"])):
        rows.loc[asked, "value"] = [value + (-0.02) ** (1 + n % 2) for n in range(asked.sum())]
        found = bench_findings.faults(bench_findings.results_of(rows))
        assert [fault.partition(":")[0] for fault in found] == word


def test_no_score_means_every_score():
    ids = [claim.id for one in bench_findings.FINDINGS for claim in one.claims]
    assert len(ids) == len(set(ids))
    rows = bench_findings.stored()
    asked = rows.method.eq("nucleolus") & rows.metric.eq("tau") & rows.scenario.eq("sizes")
    rows.loc[asked, "value"] = [0.99 + 0.001 * (n % 2) for n in range(asked.sum())]
    (fault,) = bench_findings.faults(bench_findings.results_of(rows))
    assert "it holds now" in fault
    assert "nucleolus minus that of size" in fault
