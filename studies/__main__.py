"""python -m studies list | run | confirm | verify [NAME ...] | show NAME | check
| disagree | ledger | row ID | pages | bench WHAT.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fedlab_mini.command import terminal
from fedlab_mini.worlds.data import DataUnavailable

from . import (
    calls,
    check,
    confirm,
    disagree,
    every,
    foreign,
    ledger,
    named,
    options,
    read,
    run,
    state,
    telling,
    verify,
)
from . import leaderboard as board
from . import pages as shown
from .audit import SOUND
from .store import about, questions
from .study import BLOCK, Study


def seeds_of(text: str) -> list[int]:
    """ "0-9" or "0,3,5" as seeds."""
    first, dash, last = text.partition("-")
    seeds = list(range(int(first), int(last) + 1)) if dash else [int(s) for s in text.split(",")]
    if max(seeds) >= BLOCK:
        raise argparse.ArgumentTypeError(f"seeds to look at must be below {BLOCK}")
    return seeds


HEAD = (
    f"{'study':24s} {'look':>5s} {'confirm':>8s} {'block':>5s} {'asked':>7s} "
    f"{'minutes left':>12s}  {'verified':10s} state"
)


def line(study: Study) -> str:
    """One line about a study: its seeds of both kinds, questions, minutes left, state, verdict."""
    known = about(study)
    seconds = list(known.get("seconds", {}).values())
    blocks = known.get("blocks", [])
    look = len(known.get("look", []))
    confirmed = len(blocks[-1]["seeds"]) if blocks else 0
    asked, stood = questions(study), known.get("asked", {})
    left = max(study.seeds - look, 0) + max(study.confirm - confirmed, 0)
    each = sum(seconds) / len(seconds) / 60 if seconds else float("nan")
    return (
        f"{study.name:24s} {look:2d}/{study.seeds:2d} {confirmed:5d}/{study.confirm:2d} "
        f"{len(blocks):5d} {len(asked & stood.keys()):3d}/{len(asked):3d} {left * each:12.1f}  "
        f"{max(known.get('verified', {}).values(), default=''):10s} {state(study):11s} "
        f"{known.get('verdict', '')}"
    )


def page(study: Study) -> str:
    """The protocol, and what was measured for each claim, as text."""
    results = read(study)
    parts = [study.item, study.says, repr(study.settings()), options.page(study)]
    if study.claims:
        parts.append(repr(results.judged()))
        whole = f"The paper's claims: {results.verdict()}; ours: {results.verdict('book')}."
        parts.append(f"{whole} {study.cannot}".rstrip())
        several = {text: found.each for text, found in results.verdicts().items() if found.each}
        blocks = [f"{t.rstrip('.')}: blocks alone: {', '.join(e)}" for t, e in several.items()]
        parts += ["\n".join(blocks)] if blocks else []
    told = Counter(r["chapter"] for r in telling.told() if r.get("study") == study.name)
    where = ", ".join(f"{chapter}: {count}" for chapter, count in told.items()) or "none"
    return "\n\n".join([*parts, f"Claims of the book that rest on it: {where}."])


@terminal()
def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser(
        "list", help="every study: seeds to look at and to confirm, minutes left, verdicts"
    )
    runs = verbs.add_parser("run", help="compute seeds to look at; an interrupted run continues")
    runs.add_argument("--seeds", type=seeds_of, help="such as 0-9 or 0,3,5; default: the study's")
    confirms = verbs.add_parser("confirm", help="compute a block of seeds that nobody has seen")
    confirms.add_argument("--block", type=int, default=0, help="1, 2, ...; default: the first")
    verifies = verbs.add_parser("verify", help="run whole rows again and store the date")
    verifies.add_argument("--minutes", type=float, default=math.inf, help="default: no limit")
    for verb in (runs, confirms):
        verb.add_argument("--again", action="store_true", help="also what is stored and current")
        verb.add_argument("--jobs", type=int, default=1, help="processes side by side")
    for verb in (runs, confirms, verifies):
        verb.add_argument("names", nargs="*", help="default: all")
    verbs.add_parser("show", help="a study's protocol and verdicts").add_argument("name")
    papers = verbs.add_parser("ledger", help="what came out of every item of the five papers")
    papers.add_argument("paper", nargs="?", default="", help="such as F-RCCE; default: all")
    rows = verbs.add_parser("row", help="run an item of the ledger again, on unused seeds")
    rows.add_argument("id", help="such as F-RCCE-2a-3, or the beginning of several: F-RCCE-2a")
    rows.add_argument("--seeds", type=int, default=2, help="how many; default: 2")
    rows.add_argument("--first", type=int, help="the first of them, to repeat a run")
    set_help = "for this run, such as rounds=50, clients=10,20 or SFedAvg.temperature=0.5; `show` "
    set_help += "lists what a study has; repeatable"
    rows.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=set_help)
    verbs.add_parser("check", help="are the stored results what the code gives?")
    disagrees = verbs.add_parser("disagree", help="questions that two sources answer differently")
    disagrees.add_argument(
        "--all", action="store_true", help="also those that they answer in one way"
    )
    writes = verbs.add_parser("pages", help="write what pages of the book show of stored rows")
    writes.add_argument("--check", action="store_true", help="only say what is out of date")
    bench = verbs.add_parser("bench", help="the bench's own files; see studies/leaderboard.py")
    bench.add_argument("what", choices=["enter", "judge", "confirm", "calls", "foreign"])
    bench.add_argument("where", nargs="*", help="enter: scenarios; others: folders of values")
    asked = parser.parse_args(words)
    try:
        answer(asked)
    except (ValueError, KeyError, FileNotFoundError, DataUnavailable) as error:
        sys.exit(str(error.args[0] if error.args else error))


def answer(asked: argparse.Namespace) -> None:
    """Run the command and print its result."""
    studies = [named(name) for name in getattr(asked, "names", None) or []]
    if asked.verb == "list":
        print("\n".join([HEAD, *map(line, every()), summary(every())]))
    elif asked.verb == "show":
        print(page(named(asked.name)))
    elif asked.verb == "ledger":
        print(ledger.page(asked.paper))
    elif asked.verb == "row":
        print(ledger.rerun(asked.id, asked.seeds, asked.first, asked.set))
    elif asked.verb == "disagree":
        text, unsaid = disagree.page(asked.all)
        print(text)
        if unsaid:
            sys.exit("mend one of the two, or say in the text that they differ: situations.toml")
    elif asked.verb == "pages":
        stale = [path.name for path in shown.write(asked.check)]
        if stale and asked.check:
            raise ValueError(f"out of date: {', '.join(stale)}; python -m studies pages")
        print(f"written: {', '.join(stale)}" if stale else "all pages are up to date")
    elif asked.verb == "bench" and asked.what == "enter":
        board.enter(asked.where or board.fb.WORLDS)
    elif asked.verb == "bench" and asked.what == "foreign":
        foreign.judge(Path(*asked.where))
    elif asked.verb == "bench" and asked.what == "calls":
        calls.write(map(Path, asked.where))
    elif asked.verb == "bench":
        getattr(board, asked.what)([*map(Path, asked.where)])
    elif asked.verb == "run":
        for study in studies or every():
            stored = run(study, asked.seeds, asked.jobs, asked.again)
            print(f"{study.name}: {'stored' if stored else 'nothing to do'}", flush=True)
    elif asked.verb == "confirm":
        for study in studies or every():
            stored = confirm(study, asked.block, asked.jobs, asked.again)
            print(f"{study.name}: {'confirmed' if stored else 'nothing to do'}", flush=True)
    elif asked.verb == "verify":
        outcome = verify(studies or every(), asked.minutes)
        print("\n".join(f"{name:24s} {word}" for name, word in outcome.items()) or "no study")
        if wrong := [name for name, word in outcome.items() if word != SOUND]:
            sys.exit(f"not verified: {', '.join(wrong)}")
    else:
        if faults := check(every()):
            sys.exit("\n".join(faults))
        print(f"{len(every())} studies: rows, verdicts and code agree")


def summary(studies: Sequence[Study]) -> str:
    """The number of studies in each state."""
    states = Counter(map(state, studies))
    return ", ".join(f"{count} {word}" for word, count in states.items())


if __name__ == "__main__":
    main()
