"""Command line of a federation in Flower, ``python -m fedlab_flower COMMAND --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import audit, fleet


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; exit status 0: all is well, 1: something is not, 2: misused."""
    description = "A federation in Flower: the ledger of its scores, and its machines."
    parser = argparse.ArgumentParser(
        prog="python -m fedlab_flower", description=description
    )
    commands = parser.add_subparsers(dest="command", required=True)
    audit.add_to(commands)
    fleet.add_to(commands)
    options = parser.parse_args(words)
    try:
        # Commands that have nothing to judge return None: all is well.
        return options.run(options) or 0
    # What a user can mend is told in one line; any other error is ours and keeps its traceback.
    except fleet.REFUSED as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
