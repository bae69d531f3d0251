"""The command line: ``python -m fedlab_bench COMMAND``, each with its ``--help``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from fedlab_mini.__main__ import chosen
from fedlab_mini.command import terminal

COMMANDS = {
    "compare": "your method beside the book's, on the same federations",
    "judge": "scores beside the frozen reference values of the bench",
    "rounds": "the recorded rounds of the bench, as files",
    "truth": "retrain, for the reference values of seeds",
    "score": "score the clients of recorded rounds, by the neighbours, too",
}


@terminal()
def main(words: Sequence[str] | None = None) -> object:
    """Run one command; an unknown command ends with exit status 2 and the list of commands."""
    command, rest = chosen("fedlab_bench", COMMANDS, words)
    if command == "score":
        score = importlib.import_module("fedlab_mini.command.score")
        return score.main(rest, "fedlab_bench")
    return importlib.import_module("fedlab_bench.command").main([command, *rest])


if __name__ == "__main__":
    answer = main()
    sys.exit(answer if isinstance(answer, int) else 0)
