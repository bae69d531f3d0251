"""How `make lab` starts JupyterLab: on the whole book, with its notebooks in view, without news.

The root is the repository, because chapters show figures from `book/`.
"""

import os
from pathlib import Path

c = get_config()  # noqa: F821 - given by Jupyter

c.ServerApp.root_dir = str(Path(__file__).resolve().parent.parent)
c.ServerApp.preferred_dir = str(Path(c.ServerApp.root_dir) / "notebooks")
c.ServerApp.allow_root = getattr(os, "geteuid", lambda: 1)() == 0  # as in most containers
c.LabApp.default_url = "/lab/tree/notebooks/01_federated_averaging.ipynb"
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.handlers.announcements.NeverCheckForUpdate"
unwanted = ("@jupyterlab/apputils-extension:announcements", "jupyterlab-myst")
disabled = dict.fromkeys(unwanted, True)
c.ServerApp.tornado_settings = {"page_config_data": {"disabledExtensions": disabled}}
