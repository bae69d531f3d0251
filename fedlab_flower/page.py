"""Page: where the nodes of a ledger stand, as one static file that loads itself anew.

Below: ledger, standing. Above: the command line of this room.
"""

from __future__ import annotations

import html
import os

from torch import Tensor

from fedlab_mini.checks import home, unread
from fedlab_mini.engine.files import whole_file
from fedlab_mini.show.styles import client_colour

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
        path, previous_round = home(path), self.reader.t
        unread("page", path, [self.reader.path, f"{self.reader.path}.key"])
        for entry in self.reader.entries():
            self.standing.add(entry)
            self.rounds.append(entry.t)
            # 32 bits are enough to draw, and a ledger may have many nodes.
            self.history.append(
                {
                    score: column.float()
                    for score, column in self.standing.values().items()
                }
            )
            if len(self.history) > POINTS:
                # An odd number of them, so that the first and the newest stay.
                self.rounds, self.history = self.rounds[::2], self.history[::2]
        if self.reader.t == previous_round and path.exists():
            return False
        with whole_file(path) as partial_path:
            partial_path.write_text(self._html(), encoding="utf-8")
        return True

    def _html(self) -> str:
        reader, node_ids = self.reader, list(self.standing.place)
        refresh = (
            f'<meta http-equiv="refresh" content="{self.every}">' if self.every else ""
        )
        title = f"{html.escape(reader.path.name)}: {len(node_ids)} nodes after round {reader.t}"
        figures = (
            "".join(self._figure(score) for score in reader.methods) if node_ids else ""
        )
        anchor = f"Anchor {reader.t}:{reader.last}, key {reader.fingerprint}"
        return (
            f'<!doctype html><html lang="en"><meta charset="utf-8">{refresh}<title>{title}</title>'
            f"<style>{STYLE}</style><h1>{title}</h1><p>{anchor}</p>{figures}{self._table()}</html>"
        )

    def _ends(self, name: str) -> list[int]:
        """Places of the nodes that are drawn: those with the highest and the lowest score."""
        # [K], the highest score first; equal ones stay in the order in which they joined.
        places = (
            self.standing.values()[name].argsort(descending=True, stable=True).tolist()
        )
        return places if len(places) <= 2 * DRAWN else places[:DRAWN] + places[-DRAWN:]

    def _figure(self, name: str) -> str:
        """Lines of a score against the round, with the ends of both axes."""
        node_ids, drawn_places = list(self.standing.place), self._ends(name)
        rounds, history = (
            self.rounds,
            [columns[name].tolist() for columns in self.history],
        )
        # Who joined later has no place yet in the columns of earlier rounds: 0 until then.
        score_lines = {
            place: [scores[place] if place < len(scores) else 0.0 for scores in history]
            for place in drawn_places
        }
        # Zero is always within the axis, as a line is drawn there.
        lowest = min(0.0, *(min(score_line) for score_line in score_lines.values()))
        highest = max(0.0, *(max(score_line) for score_line in score_lines.values()))
        # One round only, or nothing but zeros: neither axis may divide by 0.
        round_width = (WIDTH - LEFT - EDGE) / max(1, rounds[-1] - rounds[0])
        score_height = (HEIGHT - 2 * EDGE) / ((highest - lowest) or 1.0)

        def y(score: float) -> float:
            return HEIGHT - EDGE - (score - lowest) * score_height

        polylines, zero_height = [], y(0.0)
        for place, score_line in score_lines.items():
            points = " ".join(
                f"{LEFT + (t - rounds[0]) * round_width:.1f},{y(score):.1f}"
                for t, score in zip(rounds, score_line, strict=True)
            )
            # A node's name is a stranger's text: as markup it could run in the reader's browser.
            tooltip = (
                f"<title>{html.escape(node_ids[place])}: {score_line[-1]:.4g}</title>"
            )
            polylines.append(
                f'<polyline points="{points}" stroke="{client_colour(place)}">{tooltip}</polyline>'
            )
        end_labels = [
            f"node {html.escape(node_ids[place])} {score_line[-1]:.4g}"
            for place, score_line in score_lines.items()
        ]
        title = html.escape(name)
        return (
            f'<h2>{title}</h2><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{title} by round; at the end: {", ".join(end_labels)}">'
            f'<line x1="{LEFT}" x2="{WIDTH - EDGE}" y1="{zero_height:.1f}" y2="{zero_height:.1f}"/>'
            f'<text x="4" y="{y(highest) + 4:.1f}">{highest:.3g}</text>'
            f'<text x="4" y="{y(lowest) + 4:.1f}">{lowest:.3g}</text>'
            f'<text x="{LEFT}" y="{HEIGHT - 2}">round {rounds[0]}</text>'
            f'<text x="{WIDTH - EDGE}" y="{HEIGHT - 2}" text-anchor="end">{rounds[-1]}</text>'
            f"{''.join(polylines)}</svg>"
        )

    def _table(self) -> str:
        """Where the nodes stand, the lowest by the first score on top."""
        current_scores = self.standing.values()
        score_columns = [
            current_scores[score_name].tolist() for score_name in self.reader.methods
        ]
        table_rows = sorted(
            zip(self.standing.place, *score_columns, strict=True), key=lambda row: row[1]
        )
        head_cells = "".join(
            f"<th>{html.escape(heading)}</th>"
            for heading in ("node", *self.reader.methods)
        )
        table_body = "".join(
            f'<tr><td><b style="color:{client_colour(self.standing.place[node])}">&#9632;</b> '
            f"{html.escape(node)}</td>{''.join(f'<td>{score:.4g}</td>' for score in scores)}</tr>"
            for node, *scores in table_rows[:LISTED]
        )
        return f"<table><tr>{head_cells}</tr>{table_body}</table>"
