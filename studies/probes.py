"""Probes: one short setting of every study, run in every check, so that stored rows fit the code.

A change to a method, the engine or a study changes the rows of a probe; a comment or a new name
does not. Below: store. Above: runs, audit.
"""

from __future__ import annotations

import math
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import torch

from fedlab_mini import __version__
from fedlab_mini.streams import one_thread

from . import store
from .metrics import base
from .study import COLUMNS, Study

SEEDS = range(5)  # of every probe, stored
DIGITS = 6  # of the stored values, after the point
TIMED = ("seconds", "MiB")  # metrics that begin so differ from run to run
HAIR = 1e-9  # by which equal values of six digits may differ as floats


def generated(
    study: Study, seed: int, **settings: object
) -> Iterator[tuple[int, str, str, str, float]]:
    """The rows of a seed as they are stored; every metric must have a range."""
    for scenario, method, metric, value in study.rows(seed, **settings):
        base(metric)
        yield seed, scenario, method, metric, round(float(value), DIGITS)


def probed(study: Study, seed: int) -> pd.DataFrame:
    """The rows of a probe's seed, as the code computes them now."""
    with one_thread():
        return pd.DataFrame(generated(study, seed, **(study.probe or {})), columns=COLUMNS)


def fresh(study: Study) -> tuple[pd.DataFrame | None, store.Known]:
    """The rows of all seeds of a probe now, with machine, date and settings."""
    if study.probe is None:
        return None, {}
    start = time.process_time()
    rows = pd.concat([probed(study, seed) for seed in SEEDS])
    seconds = round((time.process_time() - start) / len(SEEDS), 1)
    return rows, {"settings": repr(dict(study.probe)), "seconds": seconds, **here()}


def fault(study: Study, seed: int) -> str:
    """What is wrong with a probe: empty, or a sentence with the row's name.

    On the kind of processor that made the stored rows each digit agrees. Elsewhere a row lies
    within the range of its five seeds, widened by its own width. Times are not compared
    """
    if study.probe is None:
        return ""
    stored, noted = store.probe_rows(study), store.about(study).get("probe")
    if stored is None or noted is None:
        return f"no rows of its probe; python -m studies verify {study.name}"
    if noted["settings"] != repr(dict(study.probe)):
        return (
            f"its probe has other settings; python -m studies verify {study.name}; if only a score "
            "was added to fb.METHODS: its name into LATER of studies/head_to_head.py"
        )
    names = COLUMNS[1:-1]
    now = probed(study, seed)
    both = stored[stored.seed == seed].merge(
        now, on=COLUMNS[:-1], how="outer", suffixes=("", "_now"), indicator=True
    )
    lone = both[both._merge != "both"]
    if len(lone):
        side = "no longer makes" if lone._merge.iloc[0] == "left_only" else "newly makes"
        return f"its probe {side} the row {_named(lone.iloc[0])}"
    low, high = both.value, both.value
    if noted["machine"] != here()["machine"]:
        # Rounding decides whether a quotient by almost 0 is infinite or not a number.
        both = both.replace([math.inf, -math.inf], math.nan)
        ends = stored.groupby(names, sort=False).value.agg(["min", "max"])
        seen = both.join(ends, on=names)
        width = seen["max"] - seen["min"]
        low, high = seen["min"] - width, seen["max"] + width
    timed = both.metric.str.startswith(TIMED)
    gone = both.value.isna() != both.value_now.isna()
    off = both[(gone | (both.value_now < low - HAIR) | (both.value_now > high + HAIR)) & ~timed]
    if not len(off):
        return ""
    row = off.iloc[0]
    rest = f"; {len(off) - 1} more" if len(off) > 1 else ""
    return f"its probe gives {row.value_now:g} and not {row.value:g}: {_named(row)}{rest}"


def _named(row: pd.Series) -> str:
    places = ", ".join(filter(None, [row.method, row.scenario]))
    return f"{row.metric} of {places}, seed {row.seed}"


def here() -> dict[str, str]:
    """What computes now: version, machine, date."""
    processor = f"{platform.machine()}, {vendor()}, {torch.backends.cpu.get_cpu_capability()}"
    torch_version = torch.__version__.partition("+")[0]
    machine = f"{processor}, torch {torch_version}, Python {platform.python_version()}"
    return {"version": __version__, "machine": machine, "date": store.today()}


def vendor() -> str:
    """The vendor and kind of the processor: long runs agree only on one kind."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.is_file() else ""
    names = ("vendor_id", "cpu family", "model")
    found = [re.search(rf"^{name}\s*: (.+)$", text, re.MULTILINE) for name in names]
    known = " ".join(match[1] for match in found if match)
    return known or platform.processor() or "unknown"
