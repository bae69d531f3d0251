"""Command line: `python -m fedlab_mini data list | verify [name ...] | fetch name`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..worlds.data import DataUnavailable, fetch, folder, load
from ..worlds.data.registry import CARDS, Card, card
from ..worlds.data.store import in_use, place, verified


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; exit status 0: success, 1: a file is wrong or missing, 2: wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m fedlab_mini data",
        description=__doc__,
        epilog="FEDLAB_DATA names the folder of the real data sets; default: the user's cache.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="list all data sets, and where each was found")
    verify = commands.add_parser("verify", help="check the SHA-256 of the files found")
    verify.add_argument("names", nargs="*", metavar="name", help="data sets that must be present")
    commands.add_parser("fetch", help="download a real data set").add_argument("name")
    options = parser.parse_args(arguments)
    try:
        if options.command == "list":
            return show()
        if options.command == "verify":
            return verify_sets(options.names)
        return fetch_set(options.name)
    except ValueError as error:
        # Exits with status 2, as for any other wrong usage.
        parser.error(str(error))
    except DataUnavailable as error:
        print(error, file=sys.stderr)
        return 1


def show() -> int:
    """Print a table of all data sets, and the folder of the real ones."""
    line = "{:15} {:>8} {:>8} {:>10}  {:36}  {}".format
    print(line("name", "samples", "classes", "size", "licence", "where"))
    for each in CARDS.values():
        total_bytes = sum(file.size for file in in_use(each))
        size = f"{total_bytes / 1e6:.1f} MB" if total_bytes else "-"
        samples, classes = f"{each.samples:,}", len(each.labels)
        print(line(each.name, samples, classes, size, each.licence, where(each)))
    print(f"\nfolder of the real data sets: {folder()}")
    return 0


def where(entry: Card) -> str:
    """The folder in which a data set was found (unchecked), "in the package" or "absent"."""
    paths = [place(entry, file) for file in in_use(entry)]
    # Some of the files are not enough, because a load reads all of them.
    if not all(path.is_file() for path in paths):
        return "absent"
    return "in the package" if entry.embedded else str(paths[0].parent)


def verify_sets(names: Sequence[str]) -> int:
    """Check the named data sets, or all; an absent set is an error only if it was named."""
    all_well = True
    for each in [card(name) for name in names] or list(CARDS.values()):
        found = [file for file in in_use(each) if place(each, file).is_file()]
        if not (found or names or each.embedded):
            print(f"{each.name}: absent")
            continue
        try:
            for file in in_use(each):
                print(f"{each.name}: {verified(each, file)} ok")
            if each.content is not None:
                _verify_content(each)
        except DataUnavailable as error:
            print(error)
            all_well = False
    return 0 if all_well else 1


def _verify_content(entry: Card) -> None:
    content = load(entry.name).sha256()
    if content != entry.content:
        told = f"expected SHA-256 {entry.content}, found {content}"
        raise DataUnavailable(f"{entry.name}: its samples differ from the card's, {told}")
    print(f"{entry.name}: samples ok")


def fetch_set(name: str) -> int:
    """Print the source and the licence, download the files, and print their paths."""
    entry = card(name)
    if not entry.embedded:
        print(f"{name}: {entry.source}\nlicence: {entry.licence}")
        for download in [entry.archive] if entry.archive else entry.files:
            print(f"{download.url}, {download.size / 1e6:.1f} MB")
    for path in fetch(name):
        print(path)
    return 0
