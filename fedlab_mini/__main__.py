"""The command line: ``python -m fedlab_mini data``, which has its own ``--help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .command import data, terminal


@terminal()
def main(words: Sequence[str] | None = None) -> int:
    """Run the command; another one is wrong usage, with exit status 2."""
    parser = argparse.ArgumentParser(prog="python -m fedlab_mini", description=__doc__)
    parser.add_argument("command", choices=["data"], help="list, fetch or verify data sets")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...", help="of the command")
    return data.main(parser.parse_args(words).words)


if __name__ == "__main__":
    sys.exit(main())
