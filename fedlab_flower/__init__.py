"""Flower: the strategies of the book over clients that are somewhere else. Chapter 11 uses it.

``client_app`` is what a node runs, ``server_app`` what the server runs, ``train`` both in Flower's
simulation; ``Scored`` stands around a strategy of Flower's and only watches. Importing this
switches off, unless the environment says otherwise, the telemetry of Flower and Ray, Flower's
search for updates, its installing while it runs, and a warning of Ray's. Below: loop, methods.
Needs Flower: ``pip install "PATH_OF_THE_CLONE[flower]"``.
"""

from __future__ import annotations

import os

# Before the imports below: Flower and Ray read these when they are imported.
SETTINGS = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
SETTINGS |= {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # or Ray warns of a change
SETTINGS |= {"FLWR_DISABLE_UPDATE_CHECK": "1"}
SETTINGS |= {"FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1"}
for name, value in SETTINGS.items():
    os.environ.setdefault(name, value)

try:
    from .client import client_app
    from .scored import Scored
    from .server import server_app
    from .simulation import train
except ModuleNotFoundError as error:
    # The advice is for Flower alone: another module that is missing keeps its own error.
    if (error.name or "").partition(".")[0] != "flwr":
        raise
    raise ImportError(
        "fedlab_flower needs Flower; install it from a clone of the book: "
        'pip install "PATH_OF_THE_CLONE[flower]"'
    ) from error

__all__ = ["Scored", "client_app", "server_app", "train"]
