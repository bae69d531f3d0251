"""The computed parts of the landing page and of the summaries: how many items came out how.

python tools/ledger_page.py            write book/ledger.txt, which the pages include
python tools/ledger_page.py --check    only say whether it is out of date
"""

from __future__ import annotations

import chapters
import computed
from studies import ledger
from studies.results import ALIKE, FAILS, HOLDS, NOT_SHOWN

FILE = chapters.ROOT / "book" / "ledger.txt"
ADVICE = "python tools/ledger_page.py"


def by_paper(own: list[ledger.Entry]) -> str:
    """A table: how many tested sentences of each paper hold, do not hold, are open."""
    lines = ["| paper | tested | hold | do not hold | open | confirmed |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    sure = dict.fromkeys(ledger.counted(own), 0)
    for entry in own:
        sure[entry.item.paper] += entry.standing == ledger.CONFIRMED
    for paper, counts in ledger.counted(own).items():
        open_ = counts[NOT_SHOWN] + counts[ALIKE]
        cells = [counts["all"], counts[HOLDS], counts[FAILS], open_, sure[paper]]
        lines.append(f"| {paper} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def page() -> str:
    """All computed parts, each under its mark."""
    entries = ledger.entries()
    parts = {"count": ledger.summary(entries), "papers": by_paper(ledger.tested(entries))}
    return computed.under_marks(parts)


if __name__ == "__main__":
    computed.write_or_check(FILE, page(), ADVICE)
