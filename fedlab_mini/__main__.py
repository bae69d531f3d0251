"""The command line: ``python -m fedlab_mini score | compare | data``, each with its ``--help``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

COMMANDS = {
    "score": "score the clients of recorded rounds",
    "compare": "your method beside the book's, on the same federations",
    "data": "data sets: list, fetch, verify",
}


def main(words: Sequence[str] | None = None) -> object:
    """Run one command; what is not one ends with exit status 2 and the list of commands."""
    words = sys.argv[1:] if words is None else list(words)
    if words and words[0] in COMMANDS:
        return importlib.import_module(f"fedlab_mini.command.{words[0]}").main(words[1:])
    lines = [f"  {name:8s} {what}" for name, what in COMMANDS.items()]
    usage = "\n".join(["usage: python -m fedlab_mini COMMAND [--help]", "", *lines])
    if words in (["-h"], ["--help"]):
        return print(usage)
    print(usage, file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    answer = main()
    sys.exit(answer if isinstance(answer, int) else 0)
