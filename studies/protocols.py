"""Protocols: the subject of each study, and how the paper's setting differs from ours.

They are data, in ``protocols.toml``; the code of a study makes rows. Below: items, results.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .items import items
from .results import Results, reachable
from .study import Claim, Derived, Row, Study

FILE = Path(__file__).with_suffix(".toml")
ENTRIES: dict[str, dict[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))


def entry(name: str) -> dict[str, Any]:
    """The whole entry of a study, with fields inherited from the study that it is ``like``."""
    own = ENTRIES[name]
    base = entry(own["like"]) if "like" in own else {"protocol": {}}
    protocol = dict(base["protocol"])
    for setting, told in own.get("protocol", {}).items():
        # A single text is our setting, because the paper has one setting and we may have several.
        protocol[setting] = (protocol[setting][0], told) if isinstance(told, str) else tuple(told)
    return {**base, **own, "protocol": protocol}


def study(
    name: str,
    rows: Callable[..., Iterable[Row]],
    claims: Iterable[Claim] = (),
    derived: Callable[[Results], Derived] | None = None,
    figure: Callable[[Results], Figure] | None = None,
    probe: Mapping[str, object] | None = None,
) -> Study:
    """The study that an entry describes, with its rows, claims, figure and probe."""
    described = entry(name)
    described.pop("like", None)
    seeds, confirm = (described.get(half, getattr(Study, half)) for half in ("seeds", "confirm"))
    told, protocol = f"{seeds} seeds to look at, {confirm} that confirm", described["protocol"]
    theirs, ours = protocol.get("repetitions", ("not given", ""))
    protocol["repetitions"] = (theirs, f"{told}; {ours}" if ours else told)
    claims = (*(item for item in items() if item.study == name), *claims)
    tried = [claim for claim in claims if not claim.reason]
    if vain := [claim.sentence for claim in tried if not reachable(claim, confirm)]:
        raise ValueError(f"{name}: {confirm} seeds can never show {vain[0]!r}; six pass a half")
    return Study(
        name=name,
        rows=rows,
        claims=claims,
        derived=derived,
        figure=figure,
        probe=dict(probe or {}),
        **described,
    )
