"""python -m studies list | run [NAME ...] | renew [NAME ...] | show NAME | check."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import check, every, named, read, renew, run, state
from .store import about
from .study import Study


def seeds_of(text: str) -> list[int]:
    """ "0-9" or "0,3,5" as seeds."""
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(s) for s in text.split(",")]


def line(study: Study) -> str:
    """A line on a study: name, item, seeds, minutes a seed, state, verdict."""
    known = about(study)
    seconds = list(known.get("seconds", {}).values())
    minutes = f"{sum(seconds) / len(seconds) / 60:6.1f}" if seconds else "     ?"
    return (
        f"{study.name:24s} {len(seconds):2d} of {study.seeds:2d} seeds {minutes} minutes each  "
        f"{state(study):8s} {known.get('verdict', '')} ({study.item})"
    )


def page(study: Study) -> str:
    """The protocol, and sentence by sentence what was measured, as text."""
    results = read(study)
    parts = [study.item, study.says, repr(study.settings()), repr(results.judged())]
    return "\n\n".join([*parts, f"As a whole: {results.verdict()}. {study.cannot}".rstrip()])


def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="every study: seeds stored, minutes a seed, state, verdict")
    runs = verbs.add_parser("run", help="compute what is missing or stale; goes on where it was")
    runs.add_argument("--seeds", type=seeds_of, help="such as 0-9 or 0,3,5; default: the study's")
    runs.add_argument("--again", action="store_true", help="also what is stored and current")
    renews = verbs.add_parser("renew", help="run one seed again: are the rows still the code's?")
    renews.add_argument("--seed", choices=("rotate", "cheapest"), default="rotate")
    for verb, names in ((runs, "default: all"), (renews, "default: all that are stale")):
        verb.add_argument("names", nargs="*", help=names)
        verb.add_argument("--jobs", type=int, default=1, help="processes side by side")
    verbs.add_parser("show", help="a study's protocol and verdicts").add_argument("name")
    verbs.add_parser("check", help="are the stored results what the code gives?")
    asked = parser.parse_args(words)
    try:
        if asked.verb == "list":
            print("\n".join(map(line, every())))
        elif asked.verb == "show":
            print(page(named(asked.name)))
        elif asked.verb == "run":
            studies = [named(name) for name in asked.names] or every()
            stored = run(studies, asked.seeds, asked.jobs, asked.again)
            print(f"stored: {', '.join(stored) or 'nothing; all is current'}")
        elif asked.verb == "renew":
            studies = [named(name) for name in asked.names]
            studies = studies or [study for study in every() if state(study) == "stale"]
            outcome = renew(studies, asked.seed, asked.jobs)
            print("\n".join(f"{name:24s} {word}" for name, word in outcome.items()) or "no study")
        elif faults := check(every()):
            sys.exit("\n".join(faults))
        else:
            print(f"{len(every())} studies: rows, verdicts and code agree")
    except (ValueError, FileNotFoundError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
