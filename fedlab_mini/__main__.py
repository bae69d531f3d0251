"""The command line: ``python -m fedlab_mini score | data``, each with its ``--help``."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence

from .command import terminal

COMMANDS = {
    "score": "score the clients of recorded rounds",
    "data": "list, fetch or verify data sets",
}


def chosen(
    package: str, commands: Mapping[str, str], words: Sequence[str] | None
) -> tuple[str, list[str]]:
    """The command that was asked for, and the words behind it; misuse ends with status 2.

    commands  {name: what it does}
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}",
        epilog="\n".join(f"{name:8s} {what}" for name, what in commands.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=commands, help="each has its own --help")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...")
    options = parser.parse_args(words)
    return options.command, options.words


@terminal()
def main(words: Sequence[str] | None = None) -> object:
    """Run one command; what is not one ends with exit status 2 and the commands."""
    command, rest = chosen("fedlab_mini", COMMANDS, words)
    return importlib.import_module(f"fedlab_mini.command.{command}").main(rest)


if __name__ == "__main__":
    answer = main()
    sys.exit(answer if isinstance(answer, int) else 0)
