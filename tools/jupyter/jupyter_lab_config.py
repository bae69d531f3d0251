"""How `make lab` starts JupyterLab: on the whole book, with its notebooks in view, without news.

The root is the repository, because chapters show figures from `book/`.
"""

import os
import sys
from pathlib import Path

from nbformat import read
from nbformat.sign import NotebookNotary

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
c = get_config()  # noqa: F821 - Jupyter gives it

c.ServerApp.root_dir = str(ROOT)
c.ServerApp.preferred_dir = str(ROOT / "notebooks")
c.ServerApp.allow_root = getattr(os, "geteuid", lambda: 1)() == 0  # as in most containers
c.LabApp.default_url = "/lab/tree/notebooks/01_federated_averaging.ipynb"
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.handlers.announcements.NeverCheckForUpdate"

# labconfig/ beside this file switches extensions off: news, and another reading of Markdown
paths = [str(HERE), os.environ.get("JUPYTER_CONFIG_PATH")]
os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))

# JupyterLab hides SVG of strangers. The book's own notebooks are signed, whatever else lies there.
for source in sorted((ROOT / "book" / "chapters").glob("*.md")):
    stored = ROOT / "notebooks" / f"{source.stem}.ipynb"
    try:
        NotebookNotary().sign(read(stored, as_version=4))
    except Exception as error:
        print(f"{stored.name} is shown without its figures' text: {error}", file=sys.stderr)
