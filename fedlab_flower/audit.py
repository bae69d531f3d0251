"""Audit: the commands that read a ledger, ``verify`` and ``page``. Below: ledger, page."""

from __future__ import annotations

import argparse
import time
from typing import Any

from fedlab_mini.checks import home, unread
from fedlab_mini.engine.files import whole_file

from .ledger import Reader, table
from .page import Page


def add_to(commands: Any) -> None:
    """The commands, to the parser of all; each sets ``run``, which returns the exit status."""
    verify_command = commands.add_parser("verify", help="check every line of a ledger")
    verify_command.add_argument(
        "--csv", type=home, metavar="FILE", help="write it as a table"
    )
    page_command = commands.add_parser("page", help="a page with plots of a ledger")
    for subparser, action in ((verify_command, check), (page_command, draw)):
        subparser.add_argument("ledger", type=home)
        subparser.add_argument(
            "--key", metavar="HASH", help="the server's key, from its log"
        )
        subparser.add_argument(
            "--anchor", metavar="ROUND:HASH", help="a round, from the log"
        )
        subparser.set_defaults(run=action)
    page_command.add_argument("page", type=home, metavar="FILE.html")
    page_command.add_argument(
        "--every", type=int, metavar="SECONDS", help="go on as the ledger grows"
    )


def _reader(options: argparse.Namespace) -> Reader:
    return Reader(options.ledger, key=options.key, anchor=options.anchor)


def check(options: argparse.Namespace) -> int:
    """Read all of a ledger, and say what it proves."""
    reader = _reader(options)
    if options.csv:
        unread("--csv", options.csv, [reader.path, f"{reader.path}.key"])
    # `entries` checks each line when it comes to it, so all are read before anything is said.
    node_ids = {
        node_id
        for entry in reader.entries()
        for node_id in (*entry.nodes, *entry.missing)
    }
    reader.finish()
    print(
        f"{reader.path}: {reader.t} rounds, {len(node_ids)} nodes, {', '.join(reader.methods)}"
    )
    print(
        f"key     {reader.fingerprint}{'' if options.key else '  (compare with the log)'}"
    )
    print(f"anchor  {reader.t}:{reader.last}")
    if not options.anchor:
        print(
            "No line was changed. Whether later ones were cut off shows by --anchor only."
        )
    if options.csv:
        # A second reading: the first keeps no rounds, so that a check takes the memory of one.
        ledger_table = table(reader.path, key=options.key, anchor=options.anchor)
        with whole_file(options.csv) as partial_path:
            ledger_table.to_csv(partial_path, index=False)
    return 0


def draw(options: argparse.Namespace) -> int:
    """Write the page, once or for as long as nobody stops it."""
    reader = _reader(options)
    ledger_page = Page(reader, options.every or 0)
    ledger_page.write(options.page)
    try:
        while options.every:
            time.sleep(options.every)
            ledger_page.write(options.page)
    # The server may be at half a line just now: the end of the file is not judged here.
    except KeyboardInterrupt:
        return 0
    reader.finish()
    return 0
