"""Command line: `python -m fedlab_mini data list | verify [name ...] | fetch name [--to DIR]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..worlds.data import load
from ..worlds.data.fetch import fetch
from ..worlds.data.registry import CARDS, Card, File, card
from ..worlds.data.store import DataUnavailable, check, in_use, locate, roots


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; exit status 0: all is well, 1: a file is wrong or missing, 2: misused."""
    parser = argparse.ArgumentParser(prog="python -m fedlab_mini data", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="every data set, and where it was found")
    verify = commands.add_parser("verify", help="check the SHA-256 of every file that is there")
    verify.add_argument("names", nargs="*", metavar="name", help="sets that must be there")
    download = commands.add_parser("fetch", help="download a real data set")
    download.add_argument("name")
    download.add_argument("--to", metavar="DIR", help="folder to fill; default: the user's cache")
    options = parser.parse_args(arguments)
    try:
        if options.command == "list":
            return show()
        if options.command == "verify":
            return verify_sets(options.names)
        return fetch_set(options.name, options.to)
    except ValueError as error:
        parser.error(str(error))
    except DataUnavailable as error:
        print(error, file=sys.stderr)
        return 1


def show() -> int:
    """Print a table of all sets and the search path."""
    line = "{:15} {:>8} {:>8} {:>10}  {:36}  {}".format
    print(line("name", "samples", "classes", "size", "licence", "where"))
    for entry in CARDS.values():
        total_bytes = sum(file.size for file in in_use(entry))
        megabytes = f"{total_bytes / 1e6:.1f} MB" if total_bytes else "-"
        samples, classes = f"{entry.samples:,}", len(entry.labels)
        print(line(entry.name, samples, classes, megabytes, entry.licence, where(entry)))
    print("\nsearched: " + "\n          ".join(map(str, roots())))
    return 0


def where(entry: Card) -> str:
    """The folder in which a set was found (unchecked), "in the package" or "absent"."""
    places = [place for file in in_use(entry) if (place := locate(file))]
    if len(places) < len(in_use(entry)):
        return "absent"
    return "in the package" if entry.embedded else str(places[0].parent)


def verify_sets(names: Sequence[str]) -> int:
    """Check the named sets, or all; a set that is absent counts as wrong only if it was named."""
    all_well = True
    for entry in [card(name) for name in names] or list(CARDS.values()):
        if entry.files and all(locate(file) is None for file in in_use(entry)):
            print(f"{entry.name}: absent")
            all_well &= entry.name not in names and not entry.embedded
        else:
            verified = [_verify_file(entry, file) for file in in_use(entry)]
            # Samples can be counted only where every file is the right one.
            all_well &= all(verified) and (entry.content is None or _verify_content(entry))
    return 0 if all_well else 1


def _verify_content(entry: Card) -> bool:
    digest = load(entry.name).sha256()
    is_right = digest == entry.content
    print(f"{entry.name}: {'ok' if is_right else f'expected {entry.content}, found {digest}'}")
    return is_right


def _verify_file(entry: Card, file: File) -> bool:
    path = locate(file)
    if path is None:
        print(f"{entry.name}: {file.path} is missing")
        return False
    try:
        check(entry, file, path)
    except DataUnavailable as error:
        print(error)
        return False
    print(f"{entry.name}: {path} ok")
    return True


def fetch_set(name: str, to: str | None) -> int:
    """Download a set with a progress bar and say where it lies."""
    for path in fetch(name, to=to, progress=True):
        print(path)
    return 0
