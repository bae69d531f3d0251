"""Simulation: a federation trained by Flower on this machine, for comparison. Chapter 11 uses it.

Below: client, server. Beside ``fm.train``, whose rounds cost a small part of these.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import fedlab_mini as fm
from fedlab_mini.checks import instance
from fedlab_mini.engine.rounds import Strategy

from .client import client_app
from .server import server_app


def train(
    fed: fm.Federation, net: fm.Model, strategy: Strategy, **settings: Any
) -> fm.History:
    """``fm.train`` by Flower's simulation: a node for every client, on Ray, in other processes.

    settings  ``rounds``, ``local``, ``seed`` as in ``fm.train``; ``history``, ``timeout`` as in
              `server_app`
    returns   the ``History`` of ``fm.train`` up to rounding, without ``labels``
    raises    ImportError without Ray; RuntimeError where Flower is installed below a folder with a
              space in its name; other errors: see ``fm.train``
    cost      seconds to start Ray, which is shut down at the end, then a tenth of a second a round
              and more
    """
    if " " in sys.prefix:  # it would wait for ever
        raise RuntimeError(
            f"Flower cannot work below a folder with a space: {sys.prefix}"
        )
    import ray
    from flwr.simulation import run_simulation  # here, since nodes have no use for it

    instance("fed", fed, fm.Federation, "a Federation")
    # The first messages start Ray's workers: that takes time.
    given = {"same_as_train": True, "patience": 120, "clients": fed.clients, **settings}
    samples = {"validation": fed.validation, "test": fed.test}
    server = server_app(net, strategy, **samples, **given)
    # Started here: workers of Ray import this package from where this process has it.
    search_path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(runtime_env={"env_vars": search_path}, ignore_reinit_error=True, **quiet)
    # One core a node: small models gain nothing from more.
    one_core = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client_app(fed, net), fed.clients, backend_config=one_core)
    assert server.history is not None
    return server.history
