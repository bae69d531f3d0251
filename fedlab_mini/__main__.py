"""The command line: ``python -m fedlab_mini score | data``, each with its ``--help``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence

COMMANDS = {
    "score": "score the clients of recorded rounds",
    "data": "data sets: list, fetch, verify",
}


def chosen(
    package: str, commands: Mapping[str, str], words: Sequence[str] | None
) -> tuple[str, list[str]]:
    """The command that was asked for, and the words behind it; without one, what there is.

    commands  {name: what it does}; for --help the exit status is 0, for anything else 2
    """
    words = sys.argv[1:] if words is None else list(words)
    if words and words[0] in commands:
        return words[0], words[1:]
    lines = [f"  {name:8s} {what}" for name, what in commands.items()]
    usage = "\n".join([f"usage: python -m {package} COMMAND [--help]", "", *lines])
    asked = words in (["-h"], ["--help"])
    print(usage, file=sys.stdout if asked else sys.stderr)
    sys.exit(0 if asked else 2)


def main(words: Sequence[str] | None = None) -> object:
    """Run one command; what is not one ends with exit status 2 and the list of commands."""
    command, rest = chosen("fedlab_mini", COMMANDS, words)
    return importlib.import_module(f"fedlab_mini.command.{command}").main(rest)


if __name__ == "__main__":
    answer = main()
    sys.exit(answer if isinstance(answer, int) else 0)
