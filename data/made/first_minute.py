"""The pictures of README's first minute, from a run of its five lines.

    python data/made/first_minute.py

``first_minute.svg`` is what the five lines draw. ``explorer.svg``, and ``explorer_moving.html`` for
the landing page, are the explorer of chapter 6, `RoundReplay`, on the same training: every bar,
line and number is one that the explorer shows after that round. Where a reader wants less motion,
and on paper, the moving picture stands still at its last round.
"""

from __future__ import annotations

import io
import math
import re
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedlab_mini.engine.files import whole_file

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "book" / "_static" / "figures"
PLOT, STILL, MOVING = (
    FOLDER / name for name in ("first_minute.svg", "explorer.svg", "explorer_moving.html")
)
SECONDS = 14  # of one replay, the last fifth of it at rest
MOVES = 0.8
LEFT, RIGHT = 44, 292  # of both charts
WEIGHTS, ACCURACY = (62, 202), (258, 368)  # top and bottom of each
BAR, WIDEST = 378, 46  # where bars begin, and the length of the longest
LINE = 23  # pixels from one line of text to the next
CLIENTS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c564b")
ALONE = f"""
.replay{{--ink:#1d2430;--paper:#fbfbfd;--quiet:#5a6472;--edge:#d5d9e0;{
    "".join(f"--client-{k}:{colour};" for k, colour in enumerate(CLIENTS))
}}}
@media (prefers-color-scheme:dark){{
.replay{{--ink:#e8ebf0;--paper:#14181f;--quiet:#a9b3c1;--edge:#3a424e}}}}
@media (prefers-reduced-motion:no-preference){{.replay{{--time:{SECONDS}s 3}}}}
"""
ON_THE_PAGE = f"""
.replay{{--ink:var(--pst-color-text-base);--paper:var(--pst-color-background);--quiet:var(--book-quiet);--edge:none}}
.replay:is([data-state=playing],[data-state=paused]){{--time:{SECONDS}s infinite}}
.replay[data-state=paused] *{{animation-play-state:paused!important}}
@media print{{.replay *{{animation:none!important}}}}
"""
RULES = Path(__file__).with_suffix(".css").read_text(encoding="utf-8").partition("*/\n")[2]
PAGE = """<figure class="replay">
<div>
{svg}
<button type="button" hidden><span>Pause</span><span class="visually-hidden"> the replay</span>
</button>
</div>
</figure>
"""


@dataclass(frozen=True)
class States:
    """What the explorer shows after rounds 0 ... T of K clients.

    weights [T + 1][K]; accuracy [T + 1]; corrupted: ids
    """

    weights: list[list[float]]
    accuracy: list[float]
    corrupted: list[int]

    @property
    def last(self) -> int:
        return len(self.accuracy) - 1


def code() -> str:
    """The five lines: README's first block of Python."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]


def run() -> dict[str, Any]:
    """The names after the five lines, and ``drawn``, what the last of them returns."""
    *before, last = [line for line in code().splitlines() if line]
    names: dict[str, Any] = {}
    exec("\n".join([*before, f"drawn = {last}"]), names)
    return names


def plot(figure: Any) -> str:
    """A matplotlib figure as a light SVG with its words."""
    import matplotlib as mpl

    light = runpy.run_path(str(ROOT / "tools" / "figures.py"))["light"]
    with mpl.rc_context({"svg.hashsalt": "figures"}), io.StringIO() as file:
        figure.savefig(file, format="svg", metadata={"Date": None})
        svg = light(file.getvalue())
    return re.sub(r"(<svg [^>]*)>", rf'\1 role="img"><title>{figure.alt}</title>', svg, count=1)


def states(hist: Any, corrupted: Sequence[int]) -> States:
    """Every state of the explorer, from its first round to its last."""
    from fedlab_mini.show.widgets import RoundReplay

    replay, weights, accuracy = RoundReplay(hist, corrupted=corrupted), [], []
    for t in range(len(hist.scores) + 1):
        replay.round = t
        table = replay.numbers()
        weights.append(list(table["weight"].values()))
        accuracy.append(table["value"]["test accuracy"])
    return States(weights, accuracy, sorted(corrupted))


def steps(name: str, count: int, look: Callable[[int], str]) -> str:
    """Keyframes that show states 0 ... count - 1 one after the other."""
    stops: dict[str, list[str]] = {}
    for t in range(count):
        at = f"{100 * MOVES * t / (count - 1):g}%"
        stops.setdefault(look(t), []).extend([at, "to"] if t == count - 1 else [at])
    frames = (f"{','.join(at)}{{transform:{what}}}" for what, at in stops.items())
    return f"@keyframes {name}{{{''.join(frames)}}}"


def strip(x: float, y: float, texts: Sequence[str], window: str) -> str:
    """Texts one below the other behind a window that shows one; at rest it shows the last."""
    lines = "".join(
        f'<text class="end" y="{LINE * t}">{text}</text>' for t, text in enumerate(texts)
    )
    rest = f"transform:translateY({-LINE * (len(texts) - 1)}px)"
    jump = f'<g class="jump" style="{rest}">{lines}</g>'
    return f'<g transform="translate({x:g} {y:g})"><g clip-path="url(#{window})">{jump}</g></g>'


def points(values: Sequence[float], most: float, chart: tuple[int, int]) -> str:
    """A line over the rounds; [T + 1] values between 0 and ``most``."""
    (top, bottom), wide = chart, (RIGHT - LEFT) / (len(values) - 1)
    places = (f"{LEFT + wide * t:.1f} {bottom - (bottom - top) * v / most:.1f}"
              for t, v in enumerate(values))  # fmt: skip
    return "M" + "L".join(places)


def axes(title: str, chart: tuple[int, int], most: float, last: int) -> list[str]:
    """The frame of a chart, its title above and its ends beside."""
    top, bottom = chart
    return [
        f'<text class="bold" x="{LEFT}" y="{top - 10}">{title}</text>',
        f'<path class="axis" d="M{LEFT} {top}V{bottom}H{RIGHT}"/>',
        f'<text class="end quiet" x="{LEFT - 6}" y="{bottom + 4}">0</text>',
        f'<text class="end quiet" x="{LEFT - 6}" y="{top + 8}">{most:g}</text>',
        f'<text class="quiet" x="{LEFT}" y="{bottom + 18}">0</text>',
        f'<text class="end quiet" x="{RIGHT}" y="{bottom + 18}">round {last}</text>',
    ]


def words(shown: States) -> str:
    """The picture in words, for who does not see it."""
    first, end = shown.weights[1], shown.weights[-1]
    wrong = ", ".join(f"client {k} from {first[k]:.3f} to {end[k]:.3f}" for k in shown.corrupted)
    others = [end[k] for k in range(len(end)) if k not in shown.corrupted]
    return (
        f"A slider runs from round 0 to round {shown.last}. One line per client shows its weight, "
        f"bars beside them the weights of this round, a line below the test accuracy. Between "
        f"rounds 1 and {shown.last} the weight of the client with wrong labels falls: {wrong}; the "
        f"others end between {min(others):.3f} and {max(others):.3f}. The test accuracy rises from "
        f"{shown.accuracy[0]:.3f} to {shown.accuracy[-1]:.3f}."
    )


def table(shown: States) -> list[str]:
    """A row a client: its name, a bar and its weight."""
    widest = max(map(max, shown.weights))
    made = [f'<text class="bold" x="312" y="{WEIGHTS[0] - 10}">Weight in this round</text>']
    for k, end in enumerate(shown.weights[-1]):
        y, long = WEIGHTS[0] + 14 + LINE * k, WIDEST * end / widest
        wrong = " bold" if k in shown.corrupted else ""
        made.append(f'<text class="{wrong.strip()}" x="312" y="{y}">client {k}</text>')
        place = f"M{BAR} {y - 11}h{long:.2f}v13H{BAR}z"
        bar = f'<path class="bar bar{k}" fill="var(--client-{k})" d="{place}"/>'
        numbers = [f"{weights[k]:.3f}" for weights in shown.weights]
        made += [bar, strip(470, y, numbers, "ex-window")]
    names = " and ".join(f"client {k}" for k in shown.corrupted)
    y = WEIGHTS[0] + 18 + LINE * len(shown.weights[-1])
    return [*made, f'<text class="quiet" x="312" y="{y}">{names}: wrong labels</text>']


def style(shown: States, where: str) -> str:
    """The picture's style sheet: where everything is after each round."""
    wide, count = RIGHT - LEFT, shown.last + 1
    made = [
        steps("ex-along", count, lambda t: f"translateX({wide * (t / shown.last - 1):.1f}px)"),
        steps("ex-jump", count, lambda t: f"translateY({-LINE * t}px)"),
    ]
    for k in range(len(shown.weights[0])):
        row = [weights[k] / (shown.weights[-1][k] or 1e-9) for weights in shown.weights]
        made.append(steps(f"ex-bar{k}", count, lambda t, row=row: f"scaleX({row[t]:.4g})"))
        made.append(f".replay .bar{k}{{animation:ex-bar{k} var(--time) linear}}")
    return "".join([where.lstrip(), RULES.lstrip(), "\n".join(made)])


def picture(shown: States, where: str) -> str:
    """The explorer as an SVG that moves; ``where`` is ALONE or ON_THE_PAGE."""
    wide, most = RIGHT - LEFT, math.ceil(20 * max(map(max, shown.weights))) / 20
    lines = []
    for k in range(len(shown.weights[0])):
        wrong = " wrong" if k in shown.corrupted else ""
        path = points([weights[k] for weights in shown.weights], most, WEIGHTS)
        lines.append(f'<path class="line{wrong}" stroke="var(--client-{k})" d="{path}"/>')
    lines.append(
        f'<path class="line" stroke="var(--ink)" d="{points(shown.accuracy, 1, ACCURACY)}"/>'
    )
    now = f'<path class="now" d="M{RIGHT} {{}}V{{}}"/>'
    covers = [
        f'<path class="cover" d="M{RIGHT} {top - 4}h{wide}V{bottom + 2}H{RIGHT}z"/>'
        for top, bottom in (WEIGHTS, ACCURACY)
    ]
    rounds = [f"{t}" for t in range(shown.last + 1)]
    accuracy = [f"{value:.3f}" for value in shown.accuracy]
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" class="replay" viewBox="0 0 484 398" '
            'width="484" height="398" role="img" aria-labelledby="ex-title ex-text">',
            '<title id="ex-title">A training again, round by round, in an explorer</title>',
            f'<desc id="ex-text">{words(shown)}</desc>',
            f"<style>\n{style(shown, where)}\n</style>",
            f'<clipPath id="ex-window"><path d="M-60-15h62v{LINE - 4}h-62z"/></clipPath>',
            '<rect class="card" width="484" height="398" rx="10"/>',
            *lines,
            f'<g class="along">{"".join(covers)}{now.format(*WEIGHTS)}{now.format(*ACCURACY)}</g>',
            f'<path class="axis" d="M{LEFT} 20H{RIGHT}"/>',
            f'<g class="along"><circle class="knob" cx="{RIGHT}" cy="20" r="8"/></g>',
            '<text class="bold" x="312" y="25">Round</text>',
            strip(470, 25, rounds, "ex-window"),
            *axes("Clients: weight", WEIGHTS, most, shown.last),
            *table(shown),
            *axes("Test accuracy", ACCURACY, 1, shown.last),
            f'<text class="bold" x="312" y="{ACCURACY[0] + 14}">Test accuracy</text>',
            strip(470, ACCURACY[0] + 14, accuracy, "ex-window"),
            '<rect class="edge" x="0.5" y="0.5" width="483" height="397" rx="10"/>',
            "</svg>\n",
        ]
    )


def made() -> dict[Path, str]:
    """Every picture of the first minute, from a run."""
    names = run()
    shown = states(names["hist"], sorted(names["fed"].corrupted))
    inside = picture(shown, ON_THE_PAGE).replace(' class="replay"', "", 1)
    return {
        PLOT: plot(names["drawn"]),
        STILL: picture(shown, ALONE),
        MOVING: PAGE.format(svg=inside.rstrip()),
    }


def main() -> None:
    for path, text in made().items():
        with whole_file(path) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
        print(f"{path.relative_to(ROOT)}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main()
