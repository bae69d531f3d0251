"""Scoreboard: what each score says of each client, beside reference values, one row per score.

A notebook shows it as HTML, a terminal as text. Lessons end with it.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..parse import checks

WIDTH, HEIGHT, EDGE = 54, 44, 3  # of the picture in a cell, in pixels
OF_MEAN = 'fill-opacity="0.3"'
OF_REFERENCE = 'fill="none" stroke="currentColor" stroke-width="0.7" stroke-dasharray="2 2"'


@dataclass(frozen=True)
class Said:
    """What one score says of K clients, and what a reader should know of the score.

    values [seeds, K]  in the score's own unit, which differs from that of other scores
    sees, costs, verdict  short texts: what it must see, what it takes, when to use it
    """

    values: Tensor
    sees: str
    costs: str
    verdict: str


class Scoreboard:
    """Rows of `Said` by name; made by ``scoreboard``."""

    def __init__(self, clients: Sequence[str], rows: Mapping[str, Said], caption: str):
        self.clients, self.rows, self.caption = clients, rows, caption

    def means(self) -> dict[str, list[float]]:
        """{score: the mean over seeds for each client}."""
        return {name: said.values.mean(0).tolist() for name, said in self.rows.items()}

    def __repr__(self) -> str:
        width = max(map(len, self.rows))
        lines = [" " * width + "".join(f"{client:>9}" for client in self.clients)]
        for name, means in self.means().items():
            numbers = "".join(f"{mean:9.2f}" for mean in means)
            lines.append(f"{name:{width}}{numbers}  {self.rows[name].verdict}")
        return "\n".join([*lines, "", self.caption])

    def _repr_html_(self) -> str:
        heads = ["score", *self.clients, "use it?", "must see", "costs"]
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in heads)
        body = "\n".join(self._row(name, said) for name, said in self.rows.items())
        return (
            f'<table class="fedlab-scoreboard">\n<caption>{html.escape(self.caption)}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        )

    def _row(self, name: str, said: Said) -> str:
        first = next(iter(self.rows.values())).values.mean(0)
        outlines = first / float(first.abs().max())  # the reference, as shares of its largest
        shares = said.values / (float(said.values.abs().max()) or 1.0)
        lowest = min(float(shares.min()), float(outlines.min()), 0.0)
        cells = [f'<th scope="row">{html.escape(name)}</th>']
        for client, mean in enumerate(said.values.mean(0).tolist()):
            label, shown = html.escape(self.clients[client]), f"{round(mean, 2) + 0.0:.2f}"
            shown = shown.replace("-", "\N{MINUS SIGN}")
            picture = _dots(shares[:, client], float(outlines[client]), lowest)
            cells.append(
                f'<td class="dots" data-label="{label}">{picture}<span>{shown}</span></td>'
            )
        words = {"use it?": said.verdict, "must see": said.sees, "costs": said.costs}
        cells += [f'<td data-label="{key}">{html.escape(text)}</td>' for key, text in words.items()]
        return f"<tr>{''.join(cells)}</tr>"


def _dots(shares: Tensor, outline: float, lowest: float) -> str:
    """A picture in SVG: a dot per seed over a bar at their mean, and the reference's outline.

    All heights are shares of the largest value of their row; ``lowest`` is at the lower edge.
    """

    def height(share: float) -> float:
        return EDGE + (1 - share) / (1 - lowest) * (HEIGHT - 2 * EDGE)

    def bar(share: float, left: float, looks: str) -> str:
        top, foot = sorted((height(share), height(0.0)))
        size = f'width="{WIDTH - 2 * left}" height="{foot - top:.1f}"'
        return f'<rect x="{left}" y="{top:.1f}" {size} {looks}/>'

    places = torch.linspace(3 * EDGE, WIDTH - 3 * EDGE, len(shares)).tolist()
    dots = "".join(
        f'<circle cx="{place:.1f}" cy="{height(share):.1f}" r="1.5"/>'
        for place, share in zip(places, shares.tolist(), strict=True)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" aria-hidden="true" '
        f'fill="currentColor">{bar(float(shares.mean()), 2.5 * EDGE, OF_MEAN)}'
        f'{bar(outline, EDGE, OF_REFERENCE)}{dots}<path d="M0 {height(0.0):.1f}H{WIDTH}" '
        'stroke="currentColor"/></svg>'
    )


def scoreboard(clients: Sequence[str], rows: Mapping[str, Said], *, caption: str) -> Scoreboard:
    """What each score says of each client: dots over seeds, bars of means, in the order of rows.

    clients  the K names; rows  {score: `Said`}, the reference first: every row has its outline
    Heights are shares of a row's largest absolute value, since every score has a unit of its own.
    raises   TypeError or ValueError naming the argument
    """
    names = checks.texts("clients", clients)
    checks.instance("rows", rows, Mapping, "{score: Said}")
    if not rows:
        raise ValueError("rows: expected at least one score, got none")
    for name, said in rows.items():
        checks.instance(f"rows[{name!r}]", said, Said, "Said(values, sees, costs, verdict)")
        checks.reals(f"rows[{name!r}]: values", said.values, ["seeds", len(names)])
    return Scoreboard(names, dict(rows), checks.text("caption", caption))
