"""Check that pictures can be read: alt text for images in texts, labels for axes drawn in cells.

The figures of `fedlab_mini.plots` carry labels and descriptions themselves; a test sees to it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from nbformat import NotebookNode

from lint_prose import tokens

ALT_OPTION = re.compile(r"^:?alt:[ \t]*\S", re.MULTILINE)
IMG = re.compile(r"<img\b[^>]*>", re.IGNORECASE | re.DOTALL)
ALT_ATTRIBUTE = re.compile(r"""\balt\s*=\s*(["'])[^"']*\w""", re.IGNORECASE)

DRAWS = {
    *("bar", "barh", "boxplot", "contour", "contourf", "errorbar", "fill_between", "hexbin"),
    *("hist", "hist2d", "imshow", "loglog", "matshow", "pcolormesh", "plot", "scatter"),
    *("semilogx", "semilogy", "stackplot", "violinplot"),
}
BOTH = {"x", "y"}


def image_faults(cells: Sequence[NotebookNode]) -> Iterator[str]:
    """Images in texts that a reader who cannot see them learns nothing about."""
    for cell in cells:
        if cell.cell_type != "markdown":
            continue
        for token, _ in tokens(cell.source):
            if re.match(r"\{(figure|image)\}", token.info) and not ALT_OPTION.search(token.content):
                yield f"no alt text; give the directive a line `:alt: ...`: {token.info}"
            parts = [token, *(token.children or [])]
            for part in parts:
                if part.type == "image" and not part.content.strip():
                    yield f"no alt text; write it between the brackets: ![...]({part.attrs['src']})"
                for tag in IMG.findall(part.content) if part.type.startswith("html") else ():
                    if not ALT_ATTRIBUTE.search(tag):
                        yield f'no alt text; add alt="...": {tag}'


def names(node: ast.AST) -> set[str]:
    """The plain names in an expression, without functions that are called, such as zip."""
    parts = list(ast.walk(node))
    called = {id(part.func) for part in parts if isinstance(part, ast.Call)}
    return {part.id for part in parts if isinstance(part, ast.Name) and id(part) not in called}


def given(call: ast.Call) -> set[str]:
    """Which labels a call sets, "x" and "y"; both where it switches the axes off."""
    method = call.func.attr
    first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    if method == "set_axis_off" or (method == "axis" and first == "off"):
        return set(BOTH)
    if method == "set":
        return {key.arg[0] for key in call.keywords if key.arg in ("xlabel", "ylabel")}
    own = re.fullmatch(r"(?:set_|sup)?([xy])label", method)
    return {own[1]} if own and first != "" else set()


def base(receiver: str) -> str:
    """The name that an expression begins with: axes of `axes[0].flat`."""
    return re.split(r"\W", receiver, maxsplit=1)[0]


def together(loop: ast.For | ast.comprehension) -> list[tuple[ast.expr, ast.expr]]:
    """What a loop runs over, with its variable; several of each in a loop over zip."""
    over, target = loop.iter, loop.target
    zipped = isinstance(over, ast.Call) and ast.unparse(over.func) == "zip"
    if zipped and isinstance(target, ast.Tuple):
        return list(zip(over.args, target.elts, strict=False))
    return [(over, target)]


class Drawing:
    """What a cell draws on and what it labels; axes go by the expression that names them."""

    def __init__(self, source: str) -> None:
        self.nodes = list(ast.walk(ast.parse(source)))
        calls = [n for n in self.nodes if isinstance(n, ast.Call)]
        self.calls = [c for c in calls if isinstance(c.func, ast.Attribute)]
        self.labels: dict[str, set[str]] = defaultdict(set)
        self.loops: dict[str, set[str]] = defaultdict(set)  # name -> loop variables over it
        for call in self.calls:
            self.labels[ast.unparse(call.func.value)] |= given(call)
        for loop in self.nodes:
            if isinstance(loop, ast.For | ast.comprehension):
                for over, target in together(loop):
                    for name in names(over):
                        self.loops[name] |= names(target)

    def by_construction(self) -> set[str]:
        """Names of what comes from `plots`, which labels its axes."""
        found = {"plots"}
        for node in self.nodes:
            if isinstance(node, ast.Assign) and names(node.value) & found:
                found |= set().union(*map(names, node.targets))
        return found

    def drawn(self) -> set[str]:
        """The axes that are drawn on, or made by `plt.subplots`."""
        drawing = [c.func for c in self.calls if c.func.attr in DRAWS]
        found = {ast.unparse(function.value) for function in drawing}
        for node in self.nodes:
            made = isinstance(node, ast.Assign) and ast.unparse(node.value)
            if made and made.startswith("plt.subplots(") and isinstance(node.targets[0], ast.Tuple):
                found |= names(node.targets[0].elts[1])
        return {axes for axes in found if base(axes) not in self.by_construction()}

    def same(self, one: str, other: str) -> bool:
        """Whether a label on one is a label on the other: one part of the other, or looped over."""
        a, b = base(one), base(other)
        if a == b:
            return one == other or "[" not in one or "[" not in other
        over = [variables | {name} for name, variables in self.loops.items()]
        return any({a, b} <= family for family in over)

    def everywhere(self) -> set[str]:
        """Labels that count for all axes: of the whole figure, or of shared axes."""
        some = set().union(*self.labels.values())
        words = {call.func.attr for call in self.calls}
        words |= {key.arg for call in self.calls for key in call.keywords if key.arg}
        whole = {word[3] for word in words & {"supxlabel", "supylabel"}}
        return whole | {word[-1] for word in words & {"sharex", "sharey"}} & some

    def missing(self) -> dict[str, list[str]]:
        """For all axes that are drawn on, the labels they lack."""
        parameters = {node.arg for node in self.nodes if isinstance(node, ast.arg)}
        faults = {}
        for axes in sorted(self.drawn()):
            found = self.everywhere()
            for labelled, which in self.labels.items():
                if base(axes) in parameters or self.same(axes, labelled):
                    found |= which
            if BOTH - found:
                faults[axes] = sorted(BOTH - found)
        return faults


def axis_faults(cells: Sequence[NotebookNode]) -> Iterator[str]:
    """Cells that draw with matplotlib itself and leave an axis without a label."""
    for cell in cells:
        if cell.cell_type == "code":
            for what, missing in Drawing(cell.source).missing().items():
                yield (
                    f"`{what}` has no {' and no '.join(missing)} label; write "
                    f"{what}.set(xlabel=..., ylabel=...), or switch the axis off, in the cell "
                    f"that starts with: {cell.source.splitlines()[0]}"
                )
