"""Command line of a federation in Flower, ``python -m fedlab_mini.flower COMMAND --help``.

verify, page           a ledger of scores
plan, check, keys ...  a federation on several machines
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import audit, fleet

OF_A_LEDGER = ("verify", "page")


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; exit status 0: all is well, 1: something is not, 2: misused."""
    words = sys.argv[1:] if words is None else list(words)
    return audit.main(words) if words and words[0] in OF_A_LEDGER else fleet.main(words)


if __name__ == "__main__":
    sys.exit(main())
