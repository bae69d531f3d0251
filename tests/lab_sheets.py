"""What tests of labs share: both sheets of a lab, run and checked, and what its checks tell."""

import ast
import contextlib
import importlib
import io
import re
import warnings
from functools import cache

import nbformat
import torch

import labs


@cache
def assigned(name):
    """Both notebooks of a lab: student's sheet and solution."""
    return labs.assign(labs.LABS / f"{name}.md")


def sheet(name):
    """The student's sheet that is handed out."""
    return nbformat.read(labs.STUDENT / f"{name}.ipynb", as_version=4)


def run(notebook, folder):
    """The names after all cells ran one after the other, in this process: that saves 16 kernels.

    The file has another name than the sheet: what its first cell says holds in every test here.
    """
    nbformat.write(notebook, folder / "renamed by a student.ipynb")
    names = {"__name__": "__main__", "display": lambda *shown: None}
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                exec(compile(cell.source, "cell", "exec"), names)
    return names


def check(question, names):
    """A question's result, checked with `names`."""
    with contextlib.redirect_stdout(io.StringIO()):
        return names["grader"].check(question, global_env=names)


def hints(notebook, question):
    """What a question's checks may tell, a tuple for each check."""
    listed = re.findall(r"^@quiet\((.*)\)$", notebook.metadata["otter"]["tests"][question], re.M)
    return [ast.literal_eval(f"({texts},)") for texts in listed]


def tokens(value):
    """How an answer could appear in a text, as patterns."""
    if isinstance(value, torch.Tensor):
        return tokens(value.tolist())
    if isinstance(value, dict):
        return tokens([*value.values()])
    if isinstance(value, (list, tuple, set)):
        return [p for x in value for p in tokens(x)]
    if isinstance(value, str):
        return [rf"""['"]{re.escape(value)}['"]"""]
    if not isinstance(value, (int, float)) or value in (0, 1):
        return []  # code, or too common to tell anything: `leaks` looks for the checks' lines
    digits = {repr(value)}
    if isinstance(value, float):  # an id 3 is not said by the 3.00 of something else
        digits |= {f"{value:g}", f"{value:.2f}", f"{value:.3f}", f"{value:.4f}"}
    exact = {d for d in digits if abs(float(d) - value) <= 1e-3 * abs(value)}
    return [rf"(?<![\w.]){re.escape(d)}(?!\w|\.\d)" for d in sorted(exact)]


def leaks(notebook, results, right):
    """Where a failure's text or a hint has a right answer not asked with, or a check's line."""
    asked = " ".join(cell.source for cell in notebook.cells)
    found = []
    for question, result in results.items():
        told = [hint for texts in hints(notebook, question) for hint in texts]
        text = "\n".join([result.summary(), result._repr_html_(), *told])
        body = notebook.metadata["otter"]["tests"][question].split("\n@test_case", 1)[1]
        lines = [re.escape(s) for s in map(str.strip, body.splitlines()) if s.startswith("assert")]
        for pattern in [*tokens(right[question]), *lines]:
            if re.search(pattern, text) and not re.search(pattern, asked):
                found.append((question, pattern))
    return found


def exception_test():
    """The grader's module, which warns when it is imported outside a sheet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("otter.test_files.exception_test")
