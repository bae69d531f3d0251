"""The ledger: every item of five papers, with a verdict that its stored rows give, or a reason."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import figures
import studies
from fedlab_mini.show import plots
from studies import __main__ as command
from studies import exact, items, ledger, options, runs, store, telling
from studies.items import EXACT, NAMED, NONE
from studies.ledger_views import (
    OUTCOMES,
    cause_table,
    forest,
    listing,
    outcomes,
    verdict_bars,
    verdicts,
)
from studies.results import CONFIRMED, FAILS, HOLDS, NOT_SHOWN, SEEN, UNTESTED, Entry, Results
from studies.study import Claim, Study

DRAWN = {  # paper -> its figures and its tables
    "F-RCCE": (2, 1),
    "CGSV": (0, 0),
    "FedCCEA": (24, 3),
    "FLDVE": (6, 1),
    "S-FedAvg": (5, 0),
}
GAP = "S-FedAvg-4-13"  # holders of a 2 lead: stored on twenty seeds that confirm


@pytest.fixture(scope="module")
def found() -> list[Entry]:
    return ledger.entries()


def item(name: str) -> Claim:
    return next(each for each in items.items() if each.id == name)


def numbers(paper: str, kind: str) -> set[int]:
    """The figures or tables of a paper that the ledger names, ranges written out."""
    named = set()
    for each in items.items():
        if each.paper == paper:
            for text in re.findall(rf"{kind}s?\.? ([\d, a-dto]+)", each.item):
                plain = re.sub(r"[a-d]", "", text.replace("and", ","))
                for part in plain.split(","):
                    ends = [int(number) for number in re.findall(r"\d+", part)]
                    named |= set(range(ends[0], ends[-1] + 1)) if ends else set()
    return named


@pytest.mark.parametrize("paper", items.PAPERS)
def test_every_figure_and_table_of_a_paper_has_a_row(paper: str) -> None:
    figures, tables = DRAWN[paper]
    assert numbers(paper, "Fig") == set(range(1, figures + 1))
    assert numbers(paper, "Table") == set(range(1, tables + 1))


def test_no_row_is_without_a_verdict_or_a_reason(found: list[Entry]) -> None:
    for entry in found:
        assert entry.verdict in ledger.VERDICTS
        assert bool(entry.item.study or entry.item.reason) or entry.item.distance == EXACT
        assert (entry.verdict == UNTESTED) == (entry.item.distance == NONE)
        assert (entry.interval is not None) == bool(entry.item.study)
        if entry.verdict == NOT_SHOWN:
            assert entry.could


def test_a_named_departure_is_a_setting_in_which_the_study_differs() -> None:
    for each in items.items():
        departures = items.split(each.departures)
        assert len(departures) in ((1, 2, 3) if each.distance == NAMED else (0,)), each.id
        for setting in departures:
            protocol = studies.named(each.study).protocol
            assert setting in protocol, (each.id, setting)
            theirs, ours = protocol[setting]
            assert ours not in (theirs, "the same"), (each.id, setting)


def changed(each: Claim, change) -> Entry:
    """The entry of an item whose stored rows have been changed in memory."""
    own = store.read(studies.named(each.study))
    rows = own.frame.copy()
    mine = (rows.metric == each.metric) & (rows.method == each.a)
    mine &= rows.scenario == each.at
    rows = change(rows, mine)
    # What is derived needs all rows, and is not what is asked here.
    edited = Results(replace(own.study, derived=None), rows, confirmed=own.confirmed)
    return ledger.judged(each, edited, edited, "changed")


def test_a_seed_that_is_dropped_is_noticed() -> None:
    each = item(GAP)
    first = ledger.halves(each)[0].seeds[0]
    with pytest.raises(ValueError, match=rf"seeds that are missing: \[{first}\]"):
        changed(each, lambda rows, mine: rows[~(mine & (rows.seed == first))])


def test_confirmed_is_only_what_stood_when_the_seeds_were_drawn() -> None:
    each = item(GAP)
    assert ledger.judge(each).standing == CONFIRMED
    own, _ = ledger.halves(each)
    assert own.judge(replace(each, low=0.01)).standing == SEEN
    assert own.look.judge(each).standing == SEEN


def test_a_question_is_known_in_the_words_of_a_chapter() -> None:
    own, others = (item(GAP).a, item(GAP).at), ("others", "there")
    each = replace(item(GAP), b=others)

    def known(*asked: str, **bounds: object) -> bool:
        told = {"asked": [each.study, each.metric, *asked], "bounds": bounds}
        return telling.claim_of(told).question == each.question

    assert known(*own, "minus", *others, above=0)
    assert known(*own, "minus", *others, undecided=0)
    assert known(*others, "minus", *own, below=0)
    assert not known(*own, "minus", *others, above=0.01)


def test_two_studies_are_compared_seed_by_seed() -> None:
    each = next(i for i in items.items() if i.rival_study)
    own, rival = ledger.halves(each)
    assert own.seeds == rival.seeds
    by_hand = own.values(each.metric, each.a, each.at)
    by_hand = by_hand - rival.values(each.metric, each.b, each.at)
    assert ledger.judge(each).interval.mean == pytest.approx(float(by_hand.mean()))


def test_counts_are_those_of_the_entries(found: list[Entry]) -> None:
    counts = ledger.counted(found)
    assert sum(own["all"] for own in counts.values()) == len(found)
    own = ledger.tested(found)
    told = [int(number) for number in re.findall(r"\d+", ledger.summary(found))]
    words = [entry.verdict for entry in own]
    assert told[:3] == [len(own), words.count(HOLDS), words.count(FAILS)]
    assert told[4] == sum(entry.standing == CONFIRMED for entry in own)
    causes = cause_table(found)
    assert causes["empty coalition"]["all"] == sum("empty" in e.item.decides for e in found)
    for counts in causes.values():
        assert counts["all"] == sum(counts[name] for name in (*OUTCOMES, "ours"))


def called(figure: Figure) -> dict[str, str]:
    """The legend's words for the mark in each row, found by its form, colour and fill."""

    def look(artist: Any) -> tuple[Any, ...]:
        if isinstance(artist, Line2D):
            return artist.get_marker(), to_rgba(artist.get_markerfacecolor())
        return "", artist.get_facecolor()

    axis = figure.axes[0]
    rows = [text.get_text() for text in axis.get_yticklabels()]
    words = {}
    for legend in filter(None, [*figure.legends, axis.get_legend()]):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            words[look(handle)] = text.get_text()
    marks = [(line.get_ydata(), look(line)) for line in axis.get_lines()]
    return {rows[round(y[0])]: words[mark] for y, mark in marks if len(y) == 1 and mark in words}


def test_pictures_show_what_came_out(found: list[Entry]) -> None:
    bars = plots.drawn(verdict_bars(found))
    counts = outcomes(ledger.tested(found), "paper").values()
    assert bars == {name: [own[name] for own in counts] for name in OUTCOMES}
    rows = {name: ledger.judge(item(name)) for name in (GAP, "S-FedAvg-3a-6")}
    rows["looked"] = rows[GAP]._replace(standing=SEEN)
    figure = forest(rows, xlabel="gain")
    meant = {CONFIRMED: "measured, confirmed", SEEN: "measured, exploratory"}
    legend = {name: meant[entry.standing] for name, entry in rows.items()}
    assert plots.shows(figure, {}, axes=("gain", "item"))
    assert called(figure) == legend
    for name, entry in rows.items():  # alone, without marks that it does not need
        alone = forest({name: entry}, xlabel="gain")
        assert called(alone) == {name: legend[name]}
        told = [text.get_text() for text in alone.legends[0].get_texts()]
        assert {*told} & {*meant.values()} == {legend[name]}
    for name, (start, _, *measured) in plots.drawn(figure).items():
        mean, low, high = rows[name].interval[:3]
        assert (start, measured) == (0, [low, high, mean])
    assert verdicts(figure) == [HOLDS, HOLDS, HOLDS]


@pytest.mark.parametrize("name", [study.name for study in studies.every() if study.figure])
def test_a_figure_of_a_study_has_axes_that_the_book_knows(name: str) -> None:
    assert [*figures.faults(studies.results(name).figure())] == []


def test_the_listing_has_the_cause_and_the_remark_of_a_row(found: list[Entry]) -> None:
    rows = listing(found).split("<tr ")[1:]
    assert len(rows) == len(found)
    for row, entry in zip(rows, found, strict=True):
        for part in (entry.item.decides, entry.item.remark, entry.verdict, entry.measured):
            assert html.escape(part) in row


def test_exact_sentences_come_out_as_by_hand() -> None:
    assert exact.six_per_cent() == (False, "6.9 %")
    assert exact.almost_linear()[0]
    assert "0.94" in exact.almost_linear()[1]
    assert exact.hundred_are_cheaper() == (False, "22 times TMC for 4 clients, 6.8 for 64")
    assert exact.expansion() == (False, "0.62 by Eq. 5, 1.56 by Eq. 6")
    assert exact.updates_or_models()[0]
    assert not exact.gamma_one_is_fedavg()[0]


def toy_rows(seed: int, *, low: float = 0.4, methods=("good", "bad"), most: int | None = None):
    torch.manual_seed(seed)
    for method in methods[:most]:
        level = low if method == "bad" else 0.9
        yield "here", method, "AUC", level + 0.02 * float(torch.rand(()))


TOY = Study(name="toy", item="A toy", says="", protocol={}, rows=toy_rows, seeds=3, confirm=4)


@pytest.fixture
def toy(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Claim:
    monkeypatch.setenv("FEDLAB_RESULTS", str(tmp_path))
    runs.run(TOY)
    monkeypatch.setattr(ledger, "named", lambda name: TOY)
    monkeypatch.setattr(ledger, "_read", lambda name: store.read(TOY))
    each = replace(item(GAP), id="S-FedAvg-9-1", study="toy", sentence="Good is better.", low=0.2)
    each = replace(each, metric="AUC", a="good", b="bad", at="here")
    monkeypatch.setattr(ledger, "items", lambda: (each,))
    return each


def test_a_row_runs_again_on_seeds_that_nobody_used(toy: Claim, tmp_path, capsys) -> None:
    before = {path.name: path.read_bytes() for path in tmp_path.glob("toy.*")}
    command.main(["row", "S-FedAvg-9", "--seeds", "5", "--first", "30000"])
    said = capsys.readouterr().out
    fresh = [{(m, s): v for s, m, _, v in toy_rows(seed)} for seed in range(30000, 30005)]
    gain = [round(row["good", "here"], 6) - round(row["bad", "here"], 6) for row in fresh]
    assert re.search(rf"fresh +{sum(gain) / 5:.2f}\d* \[.*\]: holds; fresh, 5 seeds", said)
    assert re.search(r"stored .*: holds; exploratory, 3 seeds", said)
    # Nothing was stored: neither a file nor a row more.
    assert {path.name: path.read_bytes() for path in tmp_path.glob("toy.*")} == before
    assert not list(tmp_path.glob("parts/*.csv"))


def test_a_setting_is_changed_for_a_run_which_says_so(toy: Claim, tmp_path, capsys) -> None:
    before = {path.name: path.read_bytes() for path in tmp_path.glob("toy.*")}
    words = ["row", "S-FedAvg-9", "--seeds", "5", "--first", "30000"]
    words += ["--set", "low=0.8", "--set", "methods=good;bad"]
    command.main(words)
    said = capsys.readouterr().out
    assert "with the study's settings, here low=0.8, methods=good;bad; nothing is stored" in said
    assert re.search(r"fresh .*: does not hold; fresh, with low=0\.8, methods=good;bad,", said)
    assert re.search(r"stored .*: holds; exploratory, 3 seeds", said)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("toy.*")} == before


REFUSED = {  # --set -> what is said
    "lo=3": "set: toy has the settings low=0.4; methods=good;bad; most=None; got 'lo=3'",
    "low=few": "set: toy: low: expected such as 0.4, got 'few'",
    "methods=good;worse": "set: toy: methods: expected some of good;bad, got 'good;worse'",
    "methods=good": "set: with methods=good toy has no 'AUC' of 'bad' in 'here'",
    "most=1.5": "set: toy: most: expected a whole number, got '1.5'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_setting_is_refused_with_those_that_are_known(toy: Claim, text: str) -> None:
    with pytest.raises(SystemExit) as refusal:
        command.main(["row", "S-FedAvg-9", "--set", text])
    assert str(refusal.value) == REFUSED[text]


def test_what_can_be_set_stands_in_show_also_options_of_methods(capsys) -> None:
    command.main(["show", "sfedavg-selection"])
    said = capsys.readouterr().out
    assert "--set NAME=VALUE` changes: rounds=100; scenarios=IID;1 class" in said
    assert re.search(r"with SFedAvg\.NAME=VALUE: .*alpha=0\.75; .*temperature=0\.02;", said)
    assert re.search(r"with Bandit\.NAME=VALUE: .*doubt=1\.0", said)


def test_an_option_of_a_method_is_changed_for_a_run() -> None:
    """The row is that of a strategy with the option, and other classes are as before."""
    (each,) = [item for item in ledger.items() if item.id == "S-FedAvg-A2-9"]
    study = ledger.named(each.study)
    found = {}
    for text in ("", "SFedAvg.temperature=5"):
        own, changes = options.parted(study, [text] if text else [])
        with options.trained_with(changes):
            rows = list(study.rows(1, **dict(study.probe or {}), **own))
        found[text] = {row[:3]: row[3] for row in rows}
    plain, warm = found.values()
    assert plain.keys() == warm.keys()
    moved = {place for place in plain if str(plain[place]) != str(warm[place])}
    assert moved
    assert {method for _, method, _ in moved} < {method for _, method, _ in plain}
    again = {row[:3]: row[3] for row in study.rows(1, **dict(study.probe or {}))}
    assert str(again) == str(plain)


OPTIONS = {  # --set -> what is said before anything runs
    "SFedAvg.heat=1": "set: SFedAvg has the options per_round=None; .*; got 'SFedAvg.heat=1'",
    "SFedAvg.temperature=-1": "set: sfedavg-values: SFedAvg.temperature: expected .*, got -1",
    "CGSV.gamma0=1": "set: sfedavg-values trains by Oracle, SFedAvg; got 'CGSV.gamma0=1'",
}


@pytest.mark.parametrize("text", OPTIONS)
def test_an_option_is_refused_before_computing(text: str, monkeypatch) -> None:
    monkeypatch.setattr(ledger, "again", lambda *_: pytest.fail("a seed was computed"))
    with pytest.raises(SystemExit) as refusal:
        command.main(["row", "S-FedAvg-A2-9", "--set", text])
    assert re.fullmatch(OPTIONS[text], str(refusal.value))


EARLY = {  # a row, --set -> what is said before anything is computed
    ("F-RCCE-T1", "clients=100,200"): "frcce-bill has no 'seconds' of 'F-RCCE' in '500 clients'",
    ("F-RCCE-2.1-1", "rounds=400"): "frcce-judge has no 'AUC @ 800' of 'ours' in '20 % wrong'",
    ("CGSV-S-2", "splits=alike"): "cgsv-length has no 'accuracy @ 20' of 'CGSV' in 'Dirichlet 0.5'",
}


@pytest.mark.parametrize(("row", "text"), EARLY)
def test_a_setting_that_leaves_a_row_without_a_number_is_refused_before_computing(
    row: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(ledger, "again", lambda *_: pytest.fail("a seed was computed"))
    with pytest.raises(SystemExit) as refusal:
        command.main(["row", row, "--set", text])
    assert str(refusal.value) == f"set: with {text} {EARLY[row, text]}"
    assert not capsys.readouterr().out


@pytest.mark.parametrize("text", ["splits=alike", "rounds=20", "rounds=3200"])
def test_a_setting_that_leaves_the_rows_is_no_reason_to_refuse(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "again", lambda *_: pytest.skip("a seed would be computed"))
    with pytest.raises(pytest.skip.Exception, match="would be computed"):
        command.main(["row", "CGSV-S-1", "--set", text])


def test_fresh_seeds_are_new_each_time_and_beyond_all_blocks() -> None:
    draws = [tuple(ledger.fresh_seeds(2)) for _ in range(20)]
    assert len(set(draws)) > 10
    known = [store.about(study).get("seconds", {}) for study in studies.every()]
    assert (
        max(int(seed) for seeds in known for seed in seeds) < ledger.FRESH <= min(map(min, draws))
    )
