"""Audit: the commands that read a ledger, ``verify`` and ``page``. Below: ledger, page."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from ..engine.checkpoint import whole_file
from .ledger import Reader, table
from .page import Page


def add_to(commands: Any) -> None:
    """The commands, to the parser of all; each sets ``run``, which returns the exit status."""
    verify = commands.add_parser("verify", help="check every line of a ledger")
    verify.add_argument("--csv", type=Path, metavar="FILE", help="write it as a table")
    page = commands.add_parser("page", help="a page with plots of a ledger")
    for command, run in ((verify, check), (page, draw)):
        command.add_argument("ledger", type=Path)
        command.add_argument("--key", metavar="HASH", help="the server's key, from its log")
        command.add_argument("--anchor", metavar="ROUND:HASH", help="a round, from the log")
        command.set_defaults(run=run)
    page.add_argument("page", type=Path, metavar="FILE.html")
    page.add_argument("--every", type=int, metavar="SECONDS", help="go on as the ledger grows")


def _reader(options: argparse.Namespace) -> Reader:
    return Reader(options.ledger, key=options.key, anchor=options.anchor)


def check(options: argparse.Namespace) -> int:
    """Read all of a ledger, and say what it proves."""
    reader = _reader(options)
    nodes = {node for entry in reader.entries() for node in (*entry.nodes, *entry.missing)}
    reader.finish()
    print(f"{reader.path}: {reader.t} rounds, {len(nodes)} nodes, {', '.join(reader.methods)}")
    print(f"key     {reader.fingerprint}{'' if options.key else '  (compare with the log)'}")
    print(f"anchor  {reader.t}:{reader.last}")
    if not options.anchor:
        print("No line was changed. Whether later ones were cut off shows by --anchor only.")
    if options.csv:
        rows = table(reader.path, key=options.key, anchor=options.anchor)
        with whole_file(options.csv) as partial:
            rows.to_csv(partial, index=False)
    return 0


def draw(options: argparse.Namespace) -> int:
    """Write the page, once or for as long as nobody stops it."""
    reader = _reader(options)
    page = Page(reader, options.every or 0)
    page.write(options.page)
    try:
        while options.every:
            time.sleep(options.every)
            page.write(options.page)
    except KeyboardInterrupt:
        return 0
    reader.finish()
    return 0
