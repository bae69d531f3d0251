"""A chapter is a MyST text `book/chapters/NN_topic.md`, its evidence one in `book/evidence`;
`reading.py` makes the notebooks that readers open.

What the other tools need: find chapters, read them, run them with papermill, and
write notebooks and texts in a canonical form, so that two runs of one source give the same bytes.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("fedlab_mini", "fedlab_bench", "fedlab_flower")
TEXTS = ROOT / "book" / "chapters"
EVIDENCE = "evidence"  # the folder's name below `book/` and `notebooks/`
NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "_build"
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
METADATA = {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}}
JUPYTEXT_VERSION = re.compile(r"^ +jupytext_version: .*\n", re.MULTILINE)
Job = tuple[Path, Path, dict[str, Any]]  # source, where the raw result goes, parameters
KERNEL_START = 600  # seconds to answer, at most; a busy machine is slow
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class ChapterError(RuntimeError):
    """A chapter did not run to its end; the message contains chapter, cell and error."""


def key(path: Path) -> str:
    """The name of a text and its notebooks: 04_cgsv, or evidence/04_cgsv."""
    return f"{EVIDENCE}/{path.stem}" if path.parent.name == EVIDENCE else path.stem


def sources(names: Iterable[str] = ()) -> list[Path]:
    """Texts in order; `names` ("02", "evidence/02", "evidence" or a path) selects some."""
    # Numbered chapters first, then the pages beside them, then the evidence.
    found = [*sorted(TEXTS.glob("*.md")), *sorted((TEXTS.parent / EVIDENCE).glob("*.md"))]
    wanted = [key(Path(name)) for name in names]
    for name in wanted:
        if not any(key(path).startswith(name) for path in found):
            raise ValueError(f"no chapter {name!r}; there are: {', '.join(map(key, found))}")
    return [path for path in found if not wanted or key(path).startswith(tuple(wanted))]


def lessons(found: Iterable[Path] | None = None) -> list[Path]:
    """The given texts (default: all) without the evidence."""
    return [p for p in (sources() if found is None else found) if p.parent.name != EVIDENCE]


def longest_first(found: Iterable[Path]) -> list[Path]:
    """Later chapters run longer, other pages least; a long one started last would run alone."""
    return sorted(found, key=lambda path: (key(path)[0].isdigit(), path.stem), reverse=True)


def numbered() -> list[Path]:
    """The texts of the chapters, without the pages beside them."""
    return [path for path in sources() if key(path)[0].isdigit()]


def needed(source: Path) -> list[str]:
    """Further packages that a chapter needs, by tags such as ``needs-flwr``."""
    tags = [tag for cell in read_text(source).cells for tag in cell.metadata.get("tags", [])]
    return sorted({tag.removeprefix("needs-") for tag in tags if tag.startswith("needs-")})


def left_out(source: Path) -> str:
    """Why a chapter cannot run here, and the remedy; empty if it can."""
    wanted = needed(source)
    if packages := ", ".join(name for name in wanted if find_spec(name) is None):
        return f"{key(source)} is not run: it needs {packages}; `make setup WITH=flower`"
    if "flwr" in wanted and " " in sys.prefix:
        place = f"below a folder with a space: {sys.prefix}"
        return f"{key(source)} is not run: Flower cannot work {place}"
    return ""


def runnable(names: Iterable[str] = ()) -> list[Path]:
    """Those of the `sources` that can run here; prints why others cannot."""
    found = sources(names)
    reasons = {source: left_out(source) for source in found}
    for reason in filter(None, reasons.values()):
        print(reason, flush=True)
    return [source for source in found if not reasons[source]]


def write_atomic(path: Path, text: str) -> None:
    """Write beside the target, then rename: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")  # other processes may write it, too
    part.write_text(text, encoding="utf-8", newline="\n")
    os.replace(part, path)


def own_settings() -> dict[str, str]:
    """An environment whose kernels ignore the user's Jupyter, IPython and matplotlib settings."""
    own = BUILD / "settings"
    kernel = own / "ipython" / "profile_default" / "ipython_kernel_config.py"
    figures = "import runpy\nrunpy.run_path({!r})['watch']()\n".format(
        str(ROOT / "tools/figures.py")
    )
    figures += "c.InlineBackend.figure_formats = {'svg'}\n"
    write_atomic(kernel, f"c.Application.log_level = 'CRITICAL'\n{figures}")
    write_atomic(own / "matplotlib" / "matplotlibrc", "svg.hashsalt: figures\n")
    env = os.environ | {
        "IPYTHONDIR": str(own / "ipython"),
        "JUPYTER_CONFIG_DIR": str(own / "jupyter"),
        "JUPYTER_DATA_DIR": str(own / "jupyter-data"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "MPLCONFIGDIR": str(own / "matplotlib"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "TQDM_DISABLE": "1",  # stored outputs need no progress bars
    }
    env.pop("MPLBACKEND", None)  # the chapters use the kernel's default, inline
    if not list((own / "matplotlib").glob("fontlist*")):
        subprocess.run(
            [sys.executable, "-c", "import matplotlib.font_manager"], env=env, check=True
        )
    return env


def use_own_settings() -> None:
    """Run this whole process, and the kernels it starts, in `own_settings`."""
    os.environ.update(own_settings())
    os.environ.pop("MPLBACKEND", None)


def read_text(path: Path) -> NotebookNode:
    """The notebook that a MyST text describes, without outputs."""
    return copy.deepcopy(parsed(path.read_text(encoding="utf-8")))


@cache
def parsed(text: str) -> NotebookNode:
    """The notebook of a text; a text is parsed once, as the lint reads each several times."""
    notebook = jupytext.reads(text, fmt="md:myst")
    return with_ids(nbformat.v4.new_notebook(cells=notebook.cells, metadata=METADATA))


def canonical(notebook: NotebookNode) -> str:
    """The canonical MyST text of a notebook; reading and writing it again changes nothing."""
    bare = nbformat.v4.new_notebook(cells=notebook.cells, metadata={"kernelspec": KERNELSPEC})
    return JUPYTEXT_VERSION.sub("", jupytext.writes(bare, fmt="md:myst"))


def run(source: Path, target: Path, parameters: dict[str, Any]) -> NotebookNode:
    """Execute one chapter in `notebooks/` with papermill, keep the raw result at `target`.

    Returns the notebook in stable form. Raises ChapterError at the first cell that fails.
    """
    import papermill

    blank = target.with_name(f"{source.stem}.in.ipynb")
    write_atomic(blank, nbformat.writes(read_text(source)))
    name = source.relative_to(ROOT) if source.is_relative_to(ROOT) else source.name
    options = {"kernel_name": KERNELSPEC["name"], "cwd": NOTEBOOKS, "progress_bar": False}
    options |= {"start_timeout": KERNEL_START, "iopub_timeout": KERNEL_START}
    options["request_save_on_cell_execute"] = False  # otherwise the file is written twice per cell
    try:
        patiently(papermill.execute_notebook, blank, target, parameters=parameters, **options)
    except papermill.PapermillExecutionError as failed:
        raise ChapterError(
            f"{name}, code cell {failed.exec_count}: {failed.ename}: {failed.evalue}\n\n"
            f"{failed.source.strip()}\n\nThe notebook as far as it got: {target}"
        ) from None
    except DeadKernelError:
        raise ChapterError(f"{name}: the kernel died; was memory short?") from None
    return stable(nbformat.read(target, as_version=4), key(source))


def patiently(start: Callable, *given: Any, **options: Any) -> Any:
    """Call a function that starts a kernel; repeat it if the kernel died, as by a taken port."""
    try:
        return start(*given, **options)
    except RuntimeError as failed:
        if "Kernel died before replying" not in str(failed):
            raise
        return start(*given, **options)


def timed(*job: Any) -> tuple[NotebookNode, float]:
    """`run`, with its seconds."""
    start = time.perf_counter()
    return run(*job), time.perf_counter() - start


def run_all(jobs: list[Job]) -> Iterator[tuple[Path, NotebookNode, float]]:
    """Run chapters, two at a time; yields source, notebook and seconds as they end.

    Raises ChapterError when all have ended, if any failed.
    """
    failures: list[str] = []
    with ProcessPoolExecutor(max_workers=2) as pool:
        running = {pool.submit(timed, *job): job[0] for job in jobs}
        try:
            for done in as_completed(running):
                if isinstance(done.exception(), ChapterError):
                    failures.append(str(done.exception()))
                else:
                    yield running[done], *done.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if failures:
        raise ChapterError("\n\n".join(failures))


def with_ids(notebook: NotebookNode) -> NotebookNode:
    """The same notebook in format 4.5."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{index:03d}"
    return notebook


def stable(notebook: NotebookNode, name: str) -> NotebookNode:
    """Remove what changes from run to run: ids, times, versions, unused widget models."""
    cells = [c for c in notebook.cells if "injected-parameters" not in c.metadata.get("tags", [])]
    count = 0
    for index, cell in enumerate(cells):
        cell["id"] = re.sub("[_/]", "-", f"{name}-{index:03d}")
        for noise in ("execution", "papermill", "collapsed"):
            cell.metadata.pop(noise, None)
        if not cell.metadata.get("tags", ["kept"]):
            del cell.metadata["tags"]
        if cell.cell_type == "code":
            count += 1
            cell.execution_count, cell.outputs = count, merge_streams(cell.outputs)
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = count
    kept = {key: notebook.metadata[key] for key in notebook.metadata if key == "widgets"}
    clean = nbformat.v4.new_notebook(cells=cells, metadata={**METADATA, **kept})
    return stable_widgets(clean, name)


def merge_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join neighbouring pieces of one stream, because the kernel's cuts depend on timing."""
    merged: list[NotebookNode] = []
    for output in outputs:
        if merged and "name" in output and output.name == merged[-1].get("name"):
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


def stable_widgets(notebook: NotebookNode, stem: str) -> NotebookNode:
    """Keep the widget models that a displayed view reaches; name them by order of appearance."""
    state = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    views = (output.get("data", {}).get(WIDGET_VIEW) for output in outputs)
    shown = [view["model_id"] for view in views if view]
    order: list[str] = []
    while shown:
        model = shown.pop(0)
        if model in state and model not in order:
            order.append(model)
            shown += re.findall(r"IPY_MODEL_([0-9a-f]{32})", json.dumps(state[model]))
    if not order:
        notebook.metadata.pop("widgets", None)
        return notebook
    notebook.metadata.widgets[WIDGET_STATE]["state"] = {model: state[model] for model in order}
    text = nbformat.writes(notebook)
    for index, model in enumerate(order):
        text = text.replace(model, hashlib.sha256(f"{stem}/{index}".encode()).hexdigest()[:32])
    return nbformat.reads(text, as_version=4)


def digest(notebook: NotebookNode) -> str:
    """A hash that changes if a cell is edited, added or removed, but not if cells are run."""
    cells = repr([(cell.cell_type, cell.source.strip()) for cell in notebook.cells])
    return hashlib.sha256(cells.encode()).hexdigest()[:16]


def serialise(notebook: NotebookNode) -> str:
    """The bytes of an `.ipynb`, keys sorted, one newline at the end."""
    return nbformat.writes(notebook, sort_keys=True).rstrip("\n") + "\n"
