"""Simulation: Flower trains a federation on this machine, for comparison. Chapter 11 uses it.

Builds on client and server. Rounds of ``fm.train`` cost a small part of these rounds.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Strategy
from fedlab_mini.parse.checks import instance

from .client import client_app
from .server import server_app


def train(fed: fm.Federation, net: fm.Model, strategy: Strategy, **settings: Any) -> fm.History:
    """``fm.train`` in Flower's simulation: one node per client, on Ray, in other processes.

    settings  ``rounds``, ``local``, ``seed`` as in ``fm.train``; ``history``, ``timeout`` as in
              `server_app`
    returns   the ``History`` of ``fm.train`` up to rounding, without ``labels``
    raises    ImportError without Ray; RuntimeError if Flower is installed in a path with a space;
              other errors: see ``fm.train``
    cost      some seconds to start Ray, which is shut down at the end, then a tenth of a second
              per round or more
    """
    if " " in sys.prefix:  # Flower would wait without end
        raise RuntimeError(f"Flower does not work in a path with a space, got {sys.prefix}")
    import ray
    from flwr.simulation import run_simulation  # here, because nodes do not need it

    instance("fed", fed, fm.Federation, "a Federation")
    # The first messages start Ray's workers, which takes time, so patience is longer.
    given = {"same_as_train": True, "patience": 120, "clients": fed.clients, **settings}
    samples = {"validation": fed.validation, "test": fed.test}
    server = server_app(net, strategy, **samples, **given)
    # Started here, so that Ray's workers import this package from the same path.
    search_path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(runtime_env={"env_vars": search_path}, ignore_reinit_error=True, **quiet)
    # One core per node, because small models gain nothing from more cores.
    one_core = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client_app(fed, net), fed.clients, backend_config=one_core)
    assert server.history is not None
    return server.history
