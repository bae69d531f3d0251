"""Page: where the nodes of a ledger stand, as one static file that loads itself anew.

Below: ledger, standing. Above: the command line of this room.
"""

from __future__ import annotations

import html
import os
from pathlib import Path

from torch import Tensor

from ..engine.checkpoint import whole_file
from ..show.styles import client_colour
from .ledger import Reader
from .standing import Standing

DRAWN = 4  # nodes with a line at either end of a score; all others are in the table
LISTED = 200  # nodes in the table
POINTS = 200  # of a line: beyond, every second round is dropped
WIDTH, HEIGHT, LEFT, EDGE = 640, 260, 60, 20  # of a figure
STYLE = """:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem } svg { width: 100%; height: auto }
td, th { padding: .1rem .8rem; text-align: right } td:first-child { font-family: monospace }
polyline { fill: none; stroke-width: 2 } line { stroke: currentColor; opacity: .4 }
text { fill: currentColor; font-size: 13px }"""


class Page:
    """The page of a ledger; ``write`` reads what is new and writes the page, if anything was.

    every  seconds after which a browser loads it again; 0: never
    """

    def __init__(self, reader: Reader, every: int = 0):
        self.reader, self.every = reader, every
        self.standing = Standing(reader.methods)
        self.rounds: list[int] = []
        self.history: list[dict[str, Tensor]] = []

    def write(self, path: str | os.PathLike) -> bool:
        """Whether there was a new round."""
        before = self.reader.t
        for entry in self.reader.entries():
            self.standing.add(entry)
            self.rounds.append(entry.t)
            self.history.append({n: v.float() for n, v in self.standing.values().items()})
            if len(self.history) > POINTS:
                self.rounds, self.history = self.rounds[1::2], self.history[1::2]
        if self.reader.t == before and Path(path).exists():
            return False
        with whole_file(Path(path)) as partial:
            partial.write_text(self._html(), encoding="utf-8")
        return True

    def _html(self) -> str:
        reader, nodes = self.reader, list(self.standing.place)
        refresh = f'<meta http-equiv="refresh" content="{self.every}">' if self.every else ""
        title = f"{html.escape(reader.path.name)}: {len(nodes)} nodes after round {reader.t}"
        figures = "".join(self._figure(name) for name in reader.methods) if nodes else ""
        anchor = f"Anchor {reader.t}:{reader.last}, key {reader.fingerprint}"
        return (
            f'<!doctype html><html lang="en"><meta charset="utf-8">{refresh}<title>{title}</title>'
            f"<style>{STYLE}</style><h1>{title}</h1><p>{anchor}</p>{figures}{self._table()}</html>"
        )

    def _ends(self, name: str) -> list[int]:
        """Places of the nodes that are drawn: those with the highest and the lowest score."""
        order = self.standing.values()[name].argsort(descending=True, stable=True).tolist()
        return order if len(order) <= 2 * DRAWN else order[:DRAWN] + order[-DRAWN:]

    def _figure(self, name: str) -> str:
        """Lines of a score against the round, with the ends of both axes."""
        nodes, places = list(self.standing.place), self._ends(name)
        rounds, history = self.rounds, [values[name].tolist() for values in self.history]
        lines = {k: [v[k] if k < len(v) else 0.0 for v in history] for k in places}
        low = min(0.0, *(min(line) for line in lines.values()))
        high = max(0.0, *(max(line) for line in lines.values()))
        across = (WIDTH - LEFT - EDGE) / max(1, rounds[-1] - rounds[0])
        up = (HEIGHT - 2 * EDGE) / ((high - low) or 1.0)

        def y(value: float) -> float:
            return HEIGHT - EDGE - (value - low) * up

        drawn, zero = [], y(0.0)
        for k, line in lines.items():
            points = " ".join(
                f"{LEFT + (t - rounds[0]) * across:.1f},{y(value):.1f}"
                for t, value in zip(rounds, line, strict=True)
            )
            said = f"<title>{html.escape(nodes[k])}: {line[-1]:.4g}</title>"
            drawn.append(
                f'<polyline points="{points}" stroke="{client_colour(k)}">{said}</polyline>'
            )
        ends = [f"node {html.escape(nodes[k])} {line[-1]:.4g}" for k, line in lines.items()]
        title = html.escape(name)
        return (
            f'<h2>{title}</h2><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{title} by round; at the end: {", ".join(ends)}">'
            f'<line x1="{LEFT}" x2="{WIDTH - EDGE}" y1="{zero:.1f}" y2="{zero:.1f}"/>'
            f'<text x="4" y="{y(high) + 4:.1f}">{high:.3g}</text>'
            f'<text x="4" y="{y(low) + 4:.1f}">{low:.3g}</text>'
            f'<text x="{LEFT}" y="{HEIGHT - 2}">round {rounds[0]}</text>'
            f'<text x="{WIDTH - EDGE}" y="{HEIGHT - 2}" text-anchor="end">{rounds[-1]}</text>'
            f"{''.join(drawn)}</svg>"
        )

    def _table(self) -> str:
        """Where the nodes stand, the lowest by the first score on top."""
        values = self.standing.values()
        columns = [values[name].tolist() for name in self.reader.methods]
        rows = sorted(zip(self.standing.place, *columns, strict=True), key=lambda row: row[1])
        head = "".join(f"<th>{html.escape(n)}</th>" for n in ("node", *self.reader.methods))
        body = "".join(
            f'<tr><td><b style="color:{client_colour(self.standing.place[node])}">&#9632;</b> '
            f"{html.escape(node)}</td>{''.join(f'<td>{score:.4g}</td>' for score in scores)}</tr>"
            for node, *scores in rows[:LISTED]
        )
        return f"<table><tr>{head}</tr>{body}</table>"
