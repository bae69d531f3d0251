"""Plots: figures with a caption, a description and named axes, and nothing left open."""

from __future__ import annotations

import inspect
import itertools
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

import fedlab_mini as fm
from fedlab_mini.judge.evidence import interval
from fedlab_mini.show import plots
from fedlab_mini.show.styles import CLIENTS, CORRUPTED, METHODS, SETTINGS

LINES = {"one": torch.linspace(0, 1, 5), "two": torch.linspace(1, 0.25, 5)}
RUNS = {"one": torch.rand(3, 5, generator=torch.Generator().manual_seed(0))}
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def agg():
    """Draw without a display, and begin with no open figure."""
    before = mpl.get_backend()
    plt.switch_backend("agg")
    plt.close("all")
    yield
    plt.switch_backend(before)


def corrupted_federation(make_fed) -> fm.Federation:
    """A federation whose client 1 is marked."""
    return fm.Federation(**{**vars(make_fed((9, 4, 20))), "truth": {1: "flip_labels(0.4)"}})


FIGURES = {
    "curves": lambda make_fed: plots.curves(LINES),
    "curves of runs": lambda make_fed: plots.curves(RUNS, x=[0, 1, 2, 5, 9], title="Runs"),
    "holdings": lambda make_fed: plots.holdings(corrupted_federation(make_fed)),
    "scores": lambda make_fed: plots.scores({"exact": torch.tensor([0.1, -0.2, 0.3])}),
    "scores of two methods": lambda make_fed: plots.scores(
        {"exact": torch.tensor([0.1, -0.2, 0.3]), "sampled": torch.tensor([0.1, -0.1, 0.3])},
        corrupted={1},
        stderr={"sampled": torch.full((3,), 0.01)},
    ),
    "by_client": lambda make_fed: plots.by_client(torch.eye(4)[:, :3], corrupted={1: "noisy"}),
    "dots": lambda make_fed: plots.dots(
        {"one": [0.2, 0.5, 0.4], "two": [0.1, 0.3]}, xlabel="AUC", reference={"chance": 0.5}
    ),
    "panels": lambda make_fed: plots.panels(
        {"one": {"a": [[0.2, 0.5], [0.4, 0.6]]}, "two": {"a": [[0.1, 0.3], [0.2, 0.3]]}},
        x=[1, 10],
        ylabel="AUC",
        chance=0.5,
    ),
    "confusion": lambda make_fed: plots.confusion({"one": torch.eye(3), "two": torch.ones(3, 3)}),
}
every = pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES.keys())


@every
def test_a_figure_says_what_it_shows(make_fed, draw):
    figure = draw(make_fed)
    assert isinstance(figure, Figure)
    assert len(figure.caption) > 20
    assert len(figure.alt) > 40
    assert figure.caption.endswith(".")
    assert figure.alt.endswith(".")
    figure.canvas.draw()


@every
def test_every_visible_axis_is_labelled(make_fed, draw):
    for axis in (axis for axis in draw(make_fed).axes if axis.get_visible() and axis.axison):
        if axis.get_label() == "<colorbar>":
            assert axis.get_xlabel() or axis.get_ylabel()
        else:
            assert axis.get_xlabel()
            assert axis.get_ylabel()


@every
def test_a_phone_shows_text_that_can_be_read(make_fed, draw):
    figure = draw(make_fed)
    shown = max(0.7, 350 / (96 * figure.get_figwidth()))  # at least this much, by book.css
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() * 96 / 72 * shown for text in texts) >= 9


def test_every_figure_function_is_drawn_above():
    makers = [f for f in vars(plots).values() if inspect.isfunction(f) and f.__name__[0] != "_"]
    own = [f for f in makers if f.__module__ == plots.__name__]
    figures = {f.__name__ for f in own if f.__annotations__.get("return") == "Figure"}
    assert figures == {name.split(" of ")[0] for name in FIGURES}


@every
def test_no_figure_is_left_open(make_fed, draw):
    draw(make_fed)
    assert plt.get_fignums() == []


def test_dots_show_every_seed_the_mean_and_its_interval():
    figure = plots.dots({"one": [0.2, 0.5, 0.4], "two": [0.7]}, xlabel="AUC")
    seeds, span, mean, lone, own = figure.axes[0].get_lines()
    found = interval([0.2, 0.5, 0.4])
    assert sorted(seeds.get_xdata()) == pytest.approx([0.2, 0.4, 0.5])
    assert list(span.get_xdata()) == pytest.approx([found.low, found.high])
    assert list(mean.get_xdata()) == pytest.approx([found.mean])
    assert list(lone.get_xdata()) == list(own.get_xdata()) == pytest.approx([0.7])
    assert str(found) in figure.alt


def test_panels_are_high_enough_to_read_and_have_a_tick_at_every_decade():
    lines = {f"set {number}": {"a": torch.rand(2, 5)} for number in range(3)}
    figure = plots.panels(lines, x=[1, 10, 100, 1000, 10_000], ylabel="AUC")
    figure.canvas.draw()
    page = 680 / figure.get_figwidth()  # pixels per inch where the page is 1,280 pixels wide
    for axis in figure.axes:
        assert axis.get_position().height * figure.get_figheight() * page > 180
        ticks = [tick for tick in axis.get_xticks() if 1 <= tick <= 10_000]
        assert ticks == [1, 10, 100, 1000, 10_000]


def test_a_legend_names_every_label_of_every_panel_once():
    runs = [[0.2, 0.5], [0.4, 0.6]]
    pictures = {"one": {"a": runs, "b": runs}, "two": {"b": runs, "c": runs}}
    figure = plots.panels(pictures, x=[1, 10], ylabel="AUC")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]


@pytest.mark.parametrize(("count", "inside"), [(8, True), (9, False)])
def test_many_labels_stand_beside_the_lines(count, inside):
    figure = plots.curves({f"line {i}": [0, 1] for i in range(count)})
    assert (figure.axes[0].get_legend() is not None, len(figure.legends)) == (inside, not inside)


def test_a_value_at_an_end_of_the_range_is_in_it():
    figure = plots.dots({"a": [0, 1, 1 + 1e-7]}, xlabel="accuracy", low=0, high=1)
    assert len(figure.axes) == 1


def test_panels_show_a_mean_and_its_interval_at_every_place():
    figure = plots.panels({"one": {"a": [[0.2, 0.5], [0.4, 0.6]]}}, x=[1, 10], ylabel="AUC")
    (axis,), found = figure.axes, interval([0.5, 0.6])
    assert list(axis.get_lines()[0].get_ydata()) == pytest.approx([0.3, 0.55])
    edge = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert {round(v, 9) for v in (found.low, found.high)} <= {round(float(y), 9) for y in edge}
    assert axis.get_xscale() == "log"
    assert str(found) in figure.alt
    two = plots.panels(
        {"one": {"a": [[0.2], [0.4]]}, "two": {"a": [[7.0], [9.0]]}}, x=[1], ylabel="b"
    )
    assert len({axis.get_ylim() for axis in two.axes}) == 1  # one scale, written once


def test_curves_show_every_line_and_say_where_it_ends():
    figure = plots.curves(LINES)
    assert [line.get_label() for line in figure.axes[0].get_lines()] == ["one", "two"]
    assert "one 1.00" in figure.alt
    assert "two 0.25" in figure.alt
    thin_and_mean = plots.curves(RUNS).axes[0].get_lines()
    assert len(thin_and_mean) == 4
    assert thin_and_mean[-1].get_ydata() == pytest.approx(RUNS["one"].mean(0).tolist(), abs=1e-6)


def test_nothing_is_left_out_when_there_are_many_lines():
    many = {f"line {k}": torch.tensor([0.0, float(k)]) for k in range(9)}
    labels = [line.get_label() for line in plots.curves(many).axes[0].get_lines()]
    assert labels == list(many)
    bars = plots.scores({label: torch.ones(3) for label in many}).axes[0].containers
    assert len(bars) == 9


def test_scores_draw_one_bar_a_client_and_mark_the_corrupted():
    values = torch.tensor([0.1, -0.2, 0.3])
    axis = plots.scores({"exact": values}, corrupted={1}).axes[0]
    heights = [bar.get_height() for bar in axis.containers[0]]
    assert heights == pytest.approx(values.tolist())
    hatched = [bool(bar.get_hatch()) for bar in axis.containers[0]]
    assert hatched == [False, True, False]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "1\ncorrupted", "2"]
    assert "lowest is client 1" in plots.scores({"exact": values}).alt


def test_holdings_show_the_label_counts(make_fed):
    fed = corrupted_federation(make_fed)
    figure = plots.holdings(fed)
    shown = torch.tensor(figure.axes[0].images[0].get_array().tolist())
    assert torch.equal(shown.long(), fed.label_counts.T)
    assert "3 clients by 3 classes" in figure.alt
    assert "4 to 20 samples" in figure.alt


# Colours, markers and lines

MAIN = [
    *("FedAvg", "CGSV", "F-RCCE", "FLDVE", "removal", "FedCCEA", "S-FedAvg"),
    *("label standardisation", "exact", "leave-one-out", "truncated"),
]
BOOK = {  # the labels of the figures that chapters draw with these functions
    "fig-gap": ["FedAvg"],
    "fig-drift": ["FedAvg", "bound"],
    "fig-splits": ["IID", "Dirichlet 1", "Dirichlet 0.1"],
    "fig-round-values": ["exact Shapley", "leave-one-out"],
    "fig-retraining": ["exact Shapley", "truncated", "leave-one-out"],
    "fig-bill": ["leave-one-out", "truncated, K orders", "exact"],
    "fig-ladder": ["CGSV, our step", "printed step"],
    "fig-groups": ["two cleaner", "one of each", "two noisier"],
    "fig-slope": ["Banzhaf", "Shapley"],
    "fig-sign": [
        *("our sign, sound", "our sign, corrupted"),
        *("printed sign, sound", "printed sign, corrupted"),
    ],
    "fig-weights": ["noisy", "others", "noisy, literal"],
    "fig-balance": ["trainings", "fitted model"],
    "fig-index": ["all", "first half", "second half"],
    "fig-toy": ["passes", "regression"],
    "fig-irrelevant": ["10 relevant", "6 relevant, 4 irrelevant"],
    "fig-temperature": ["FedAvg", "S-FedAvg, T = 1", "S-FedAvg, T = 0.02"],
    "fig-margin": ["truly L", "70 % look like L"],
    "fig-validate": ["wrong labels", "sizes"],
    "fig-workers": ["even split", "sent at once", "one sender"],
}
ESTIMATORS = [
    *("exact", "leave-one-out", "truncated", "permutation"),
    *("guided", "kernel", "Banzhaf"),
]
TOGETHER = {**BOOK, "all methods of chapters": MAIN, "all estimators": ESTIMATORS}
SIGHT = {  # Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB
    "normal": torch.eye(3).double(),
    "deuteranopia": torch.tensor(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ).double(),
    "protanopia": torch.tensor(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ).double(),
}
TO_XYZ = torch.tensor(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
).double()
sights = pytest.mark.parametrize("sight", SIGHT)


def lab(colour: str, sight: str = "normal") -> torch.Tensor:
    """CIELAB coordinates of an sRGB colour, as seen."""
    rgb = torch.tensor([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]).double()
    linear = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ (SIGHT[sight] @ linear).clamp(0, 1) / TO_XYZ.sum(1)
    f = torch.where(xyz > 216 / 24389, xyz ** (1 / 3), (24389 / 27 * xyz + 16) / 116)
    return torch.stack([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(a: str, b: str, sight: str) -> float:
    return float((lab(a, sight) - lab(b, sight)).norm())


def drawn(figure: Figure, panel: int = 0) -> dict[str, tuple]:
    """Label -> colour, marker, line style of the lines of a panel."""
    return {
        line.get_label(): (line.get_color(), line.get_marker(), line.get_linestyle())
        for line in figure.axes[panel].get_lines()
        if not line.get_label().startswith("_")
    }


def test_the_distance_is_that_of_cielab():
    assert lab("#FFFFFF").tolist() == pytest.approx([100, 0, 0], abs=0.01)
    assert lab("#FF0000").tolist() == pytest.approx([53.24, 80.09, 67.20], abs=0.02)
    red_and_green = ("#C04000", "#6B7000")
    assert distance(*red_and_green, "normal") > 3 * distance(*red_and_green, "deuteranopia")


@sights
def test_methods_differ_for_every_sight(sight):
    for (a, (one, _)), (b, (other, _)) in itertools.combinations(METHODS.items(), 2):
        assert distance(one, other, sight) >= 12, f"{a} and {b} look alike"
    for name, (colour, _) in METHODS.items():
        for other in (CORRUPTED, SETTINGS[0]):
            assert distance(colour, other, sight) >= 15, f"{name} looks like {other}"


@sights
@pytest.mark.parametrize("figure", TOGETHER)
def test_what_stands_in_one_figure_differs(figure, sight):
    styles = plots.styles(TOGETHER[figure])
    for (a, one), (b, other) in itertools.combinations(styles.items(), 2):
        assert one.marker != other.marker, f"{a} and {b} have one marker"
        if one.colour == other.colour:
            assert one.line != other.line, f"{a} and {b} have one colour and one line"
        else:
            assert distance(one.colour, other.colour, sight) >= 15, f"{a} and {b} look alike"


def test_the_figures_of_the_book_are_known():
    text = "".join(p.read_text(encoding="utf-8") for p in ROOT.glob("book/chapters/*.md"))
    cells = re.findall(r"^```{code-cell}$(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    shown = [cell for cell in cells if re.search(r"plots\.(curves|scores)\(", cell)]
    named = {re.search(r"name: (fig-[\w-]+)", cell)[1] for cell in shown}
    every = re.findall(r"^    name: (fig-[\w-]+)$", text, re.MULTILINE)
    assert len(set(every)) == len(every), "two figures of the book have one name"
    assert named == set(BOOK), "write the labels of every figure of the chapters into BOOK"


def test_a_method_has_its_style_whatever_else_is_drawn():
    others = ["IID", "corrupted", "sound", *MAIN]
    for name, (colour, marker) in METHODS.items():
        for labels in ([name], [*others, name], [name, *others], [f"{name}, old", name]):
            assert plots.styles(labels)[name] == plots.Style(colour, marker, "-")


def test_a_method_has_its_colour_in_every_function():
    colour, marker = METHODS["exact"]
    values = torch.tensor([0.1, 0.2])
    curves = plots.curves({"kernel": values, "exact": values})
    assert drawn(curves)["exact"] == (colour, marker, "-")
    bars = plots.scores({"kernel": values, "exact": values}).axes[0].containers
    (exact,) = (group for group in bars if group.get_label() == "exact")
    assert {to_hex(bar.get_facecolor()).upper() for bar in exact} == {colour}


@pytest.mark.parametrize(
    ("label", "method"),
    [
        ("CGSV, ours", "CGSV"),
        ("FedAvg without noise", "FedAvg"),
        ("S-FedAvg, T = 1", "S-FedAvg"),
        ("exact Shapley", "exact"),
        ("TMC", "truncated"),
        ("truncated, K orders", "truncated"),
        ("orders in pairs", "permutation"),
        ("guided orders", "guided"),
        ("AAM, clients shuffled", "FedCCEA"),
    ],
)
def test_a_label_takes_the_style_of_the_method_it_names(label, method):
    assert plots.styles([label])[label][:2] == METHODS[method]


def test_a_second_label_of_a_method_is_a_variant():
    labels = ["CGSV, ours", "CGSV, as printed", "CGSV, 1", "CGSV, 2", "CGSV, 3", "CGSV"]
    styles = plots.styles(labels)
    assert [*styles] == labels
    assert {style.colour for style in styles.values()} == {METHODS["CGSV"][0]}
    assert len({style.marker for style in styles.values()}) == len(labels)
    assert styles["CGSV"].line == "-"
    assert styles["CGSV, ours"].line != "-"


@pytest.mark.parametrize("count", [1, 2, 5, 14])
def test_other_labels_are_grey(count):
    other = ["S-FedAvgs", "unexact", "without CGSV", *map(str, range(count))]
    styles = plots.styles([*other, *MAIN, "sound"])
    taken = {colour for colour, _ in METHODS.values()} | {*CLIENTS, CORRUPTED}
    assert not taken & set(SETTINGS)
    assert {styles[label].colour for label in other} <= set(SETTINGS)
    alone = plots.styles(map(str, range(count)))
    assert len({style.marker for style in alone.values()}) == count
    assert alone["0"].colour == SETTINGS[0] == styles["sound"].colour
    assert styles[other[0]].colour != SETTINGS[0]


@pytest.mark.parametrize(
    ("label", "colour"),
    [
        ("corrupted, ours", CORRUPTED),
        ("80 % noise", CORRUPTED),
        ("6 relevant, 4 irrelevant", CORRUPTED),
        ("10 relevant", SETTINGS[0]),
        ("no corruption", SETTINGS[0]),
        ("without noise", SETTINGS[0]),
        ("CGSV, 80 % noise", METHODS["CGSV"][0]),
    ],
)
def test_vermilion_means_corrupted(label, colour):
    assert plots.styles([label])[label].colour == colour


def test_vermilion_is_nobodys_own():
    assert CORRUPTED not in {colour for colour, _ in METHODS.values()}
    assert CORRUPTED not in CLIENTS


def test_a_client_has_its_colour():
    assert [plots.client_colour(k) for k in range(12)] == [*CLIENTS, *CLIENTS[:2]]
    assert len(set(CLIENTS)) == 10
    bars = plots.scores({"FedCCEA": torch.ones(12)}, corrupted={4}).axes[0].containers[0]
    shown = [to_hex(bar.get_facecolor()).upper() for bar in bars]
    assert shown == [plots.client_colour(k) for k in range(12)]
    figure = plots.by_client(torch.ones(6, 12), corrupted={4: "noisy"})
    assert [line.get_color() for line in figure.axes[0].get_lines()] == shown


def test_corrupted_clients_are_told_apart_without_colour_too():
    figure = plots.by_client(torch.ones(6, 4), corrupted={2: "noisy", 3: "late", 1: "noisy"})
    lines = drawn(figure)
    assert [*lines] == ["0", "1 noisy", "2 noisy", "3 late"]
    assert lines["0"][2] == "-"
    assert "-" not in {lines[label][2] for label in ("1 noisy", "2 noisy", "3 late")}
    assert lines["1 noisy"][1:] == lines["2 noisy"][1:] != lines["3 late"][1:]
    assert figure.axes[0].get_lines()[1].get_markerfacecolor() == CORRUPTED
    assert "client 3 is late" in figure.alt
    bar = plots.scores({"a": torch.ones(3)}, corrupted={1}).axes[0].containers[0][1]
    assert bar.get_hatch()
    assert to_hex(bar.get_edgecolor()).upper() == CORRUPTED


def test_holdings_mark_the_corrupted_in_words(make_fed):
    ticks = plots.holdings(corrupted_federation(make_fed)).axes[0].get_xticklabels()
    assert [tick.get_text() for tick in ticks] == ["0", "1\ncorrupted", "2"]


@pytest.mark.parametrize("count", [1, 20])
def test_every_function_draws_one_and_many(make_fed, count):
    labels = [f"line {i}" for i in range(count)]
    values = torch.rand(7, 20, generator=torch.Generator().manual_seed(0))
    figures = [
        plots.curves(dict.fromkeys(labels, values)),
        plots.scores(dict.fromkeys(labels, values[0])),
        plots.scores({"exact": values[0, :count]}, corrupted={0}),
        plots.by_client(values[:, :count], corrupted={count - 1}),
        plots.confusion(dict.fromkeys(labels, torch.eye(2))),
        plots.holdings(make_fed([3] * count)),
    ]
    for figure in figures:
        figure.canvas.draw()
        legends = [*figure.legends, *(a.get_legend() for a in figure.axes if a.get_legend())]
        assert sum(len(legend.get_texts()) for legend in legends) in (0, count)


def test_the_notation_page_shows_the_table():
    words = "circle square diamond thin_diamond star triangle_up triangle_down triangle_left "
    words += "triangle_right pentagon octagon upright_hexagon flat_hexagon plus bar"
    names = [word.replace("_", " ") for word in words.split()]
    shapes = dict(zip(names, "osDd*^v<>p8hHP|", strict=True))
    page = (ROOT / "book" / "notation.md").read_text(encoding="utf-8")
    row = re.compile(r"^\| ([\w -]+) \| [\w ]+ \| `(#\w{6})` \| ([\w ]+) \|$", re.MULTILINE)
    shown = {name: (colour, shapes[shape]) for name, colour, shape in row.findall(page)}
    assert shown == METHODS
    row = re.compile(r"^\| (\d) \| [\w ]+ \| `(#\w{6})` \|$", re.MULTILINE)
    assert [colour for _, colour in sorted(row.findall(page))] == list(CLIENTS)
    for colour in (CORRUPTED, *SETTINGS):
        assert f"`{colour}`" in page


def test_widgets_show_clients_in_the_same_colours():
    style = (ROOT / "fedlab_mini" / "show" / "widgets" / "static" / "kit.css").read_text(
        encoding="utf-8"
    )
    light = style.split("data-theme")[0].upper()
    for k, colour in enumerate(CLIENTS):
        assert f"--CLIENT-{k}: {colour};" in light
    assert f"--CORRUPTED: {CORRUPTED};" in light


def test_labels_that_begin_with_an_underscore_are_shown():
    drawn = [
        plots.curves({"_own": LINES["one"], "two": LINES["two"]}),
        plots.scores({"_own": LINES["one"], "two": LINES["two"]}),
    ]
    for figure in drawn:
        texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        assert texts[0].endswith("_own")
        figure.canvas.draw()


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda: plots.curves(torch.ones(3)), TypeError, "lines: expected {label: values}"),
        (lambda: plots.curves({}), ValueError, "lines: expected at least one label"),
        (lambda: plots.curves({"a": "abc"}), TypeError, r"lines\['a'\]: expected an array"),
        (lambda: plots.curves({"a": [1, 2]}, x=[1]), ValueError, "x: expected an array"),
        (lambda: plots.curves({"a": [1, 2]}, log="yes"), TypeError, "log: expected True or False"),
        (lambda: plots.scores({}), ValueError, "values: expected at least one label"),
        (lambda: plots.scores({"a": [1, 2], "b": [1]}), ValueError, r"values\['b'\]: expected"),
        (lambda: plots.scores({"a": [1, 2]}, corrupted={2}), ValueError, r"ids in 0\.\.1"),
        (lambda: plots.scores({"a": [1]}, stderr={"a": [1, 2]}), ValueError, r"stderr\['a'\]"),
        (lambda: plots.by_client(torch.ones(3)), ValueError, "values: expected an array"),
        (lambda: plots.by_client(torch.ones(3, 2), corrupted=[5]), ValueError, "corrupted"),
        (lambda: plots.confusion({"a": [1, 2]}), ValueError, "tables"),
        (lambda: plots.holdings(None), TypeError, "fed: expected a Federation"),
        (lambda: plots.curves({1: [1, 2]}), TypeError, "lines: label: expected a text, got 1"),
        (lambda: plots.curves({"a": [1]}, ylabel=3), TypeError, "ylabel: expected a text, got 3"),
        (lambda: plots.curves({"a": torch.ones(2, 0)}), ValueError, r"lines\['a'\]"),
        (lambda: plots.curves({"a": [1]}, title=None), TypeError, "title: expected a text"),
        (lambda: plots.scores({"a": [1]}, stderr={"a": [-1]}), ValueError, r"stderr\['a'\]"),
        (lambda: plots.dots({"a": [1]}, xlabel=b"x"), TypeError, "xlabel: expected a text"),
        (lambda: plots.dots({"a": [1]}, xlabel="x", reference=[1]), TypeError, "reference: exp"),
        (lambda: plots.dots({"a": [-0.1, 1]}, xlabel="x", low=0, high=1), ValueError, "low: exp"),
        (lambda: plots.dots({"a": [0, 1.1]}, xlabel="x", low=0, high=1), ValueError, "high: exp"),
        (lambda: plots.by_client(torch.ones(3, 2), corrupted={1: 5}), TypeError, r"corrupted\[1\]"),
        (lambda: plots.panels({}, x=[1], ylabel="y"), ValueError, "lines: expected at least one"),
        (lambda: plots.confusion({None: torch.eye(2)}), TypeError, "tables: label: expected a"),
    ],
)
def test_bad_input_is_named(draw, error, message):
    with pytest.raises(error, match=message):
        draw()
    assert plt.get_fignums() == []
