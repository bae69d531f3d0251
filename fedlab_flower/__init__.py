"""Flower: the book's strategies with clients in other processes. Chapter 11 uses it.

Nodes run ``client_app``, the server runs ``server_app``, and ``train`` runs both in Flower's
simulation. ``Scored`` watches one of Flower's strategies without changing it. Unless the
environment sets them, the import switches off the telemetry of Flower and Ray, Flower's search for
updates and its installation of packages, and a warning of Ray.
Needs Flower: ``pip install "PATH_OF_THE_CLONE[flower]"``.
"""

from __future__ import annotations

import os

# Set before the imports, because Flower and Ray read these variables when they are imported.
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
    # The advice is only for Flower; any other missing module keeps its own error.
    if (error.name or "").partition(".")[0] != "flwr":
        raise
    raise ImportError(
        "fedlab_flower needs Flower; install it from a clone of the book: "
        'pip install "PATH_OF_THE_CLONE[flower]"'
    ) from error

__all__ = ["Scored", "client_app", "server_app", "train"]
