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
    parser = argparse.ArgumentParser(
        prog="python -m fedlab_mini data", description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="every data set, and where it was found")
    verify = commands.add_parser(
        "verify", help="check the SHA-256 of every file that is there"
    )
    verify.add_argument(
        "names", nargs="*", metavar="name", help="sets that must be there"
    )
    download = commands.add_parser("fetch", help="download a real data set")
    download.add_argument("name")
    download.add_argument(
        "--to", metavar="DIR", help="folder to fill; default: the user's cache"
    )
    options = parser.parse_args(arguments)
    try:
        if options.command == "list":
            return show()
        if options.command == "verify":
            return verify_sets(options.names)
        return fetch_set(options.name, options.to)
    except ValueError as error:
        # Exits with status 2, as for any other misuse.
        parser.error(str(error))
    except DataUnavailable as error:
        print(error, file=sys.stderr)
        return 1


def show() -> int:
    """Print a table of all sets and the search path."""
    line = "{:15} {:>8} {:>8} {:>10}  {:36}  {}".format
    print(line("name", "samples", "classes", "size", "licence", "where"))
    for data_card in CARDS.values():
        total_bytes = sum(card_file.size for card_file in in_use(data_card))
        megabytes = f"{total_bytes / 1e6:.1f} MB" if total_bytes else "-"
        samples, classes = f"{data_card.samples:,}", len(data_card.labels)
        print(
            line(
                data_card.name,
                samples,
                classes,
                megabytes,
                data_card.licence,
                where(data_card),
            )
        )
    print("\nsearched: " + "\n          ".join(map(str, roots())))
    return 0


def where(entry: Card) -> str:
    """The folder in which a set was found (unchecked), "in the package" or "absent"."""
    file_paths = [
        file_path for card_file in in_use(entry) if (file_path := locate(card_file))
    ]
    # A part of the files is no use: a load reads all of them.
    if len(file_paths) < len(in_use(entry)):
        return "absent"
    return "in the package" if entry.embedded else str(file_paths[0].parent)


def verify_sets(names: Sequence[str]) -> int:
    """Check the named sets, or all; a set that is absent counts as wrong only if it was named."""
    all_well = True
    for data_card in [card(set_name) for set_name in names] or list(CARDS.values()):
        # A set without files of its own, such as digits, cannot be absent.
        if data_card.files and all(
            locate(card_file) is None for card_file in in_use(data_card)
        ):
            print(f"{data_card.name}: absent")
            all_well &= data_card.name not in names and not data_card.embedded
        else:
            # A list, so that every file is looked at, also behind one that is wrong.
            verified = [
                _verify_file(data_card, card_file) for card_file in in_use(data_card)
            ]
            # Samples can be counted only where every file is the right one.
            all_well &= all(verified) and (
                data_card.content is None or _verify_content(data_card)
            )
    return 0 if all_well else 1


def _verify_content(data_card: Card) -> bool:
    digest = load(data_card.name).sha256()
    is_right = digest == data_card.content
    print(
        f"{data_card.name}: {'ok' if is_right else f'expected {data_card.content}, found {digest}'}"
    )
    return is_right


def _verify_file(data_card: Card, card_file: File) -> bool:
    file_path = locate(card_file)
    if file_path is None:
        print(f"{data_card.name}: {card_file.path} is missing")
        return False
    try:
        check(data_card, card_file, file_path)
    except DataUnavailable as error:
        print(error)
        return False
    print(f"{data_card.name}: {file_path} ok")
    return True


def fetch_set(name: str, to: str | None) -> int:
    """Download a set with a progress bar and say where it lies."""
    for file_path in fetch(name, to=to, progress=True):
        print(file_path)
    return 0
