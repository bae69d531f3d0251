"""Simulation: a federation trained by Flower on this machine, for comparison. Chapter 11 uses it.

Below: client, server. Beside ``fm.train``, whose rounds cost a small part of these.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from fedlab_mini.checks import instance
from fedlab_mini.engine.history import History
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Strategy
from fedlab_mini.worlds.federation import Federation

from .client import client_app
from .server import server_app


def train(
    fed: Federation,
    net: Model,
    strategy: Strategy,
    *,
    rounds: int,
    local: LocalSGD | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike | None = None,
    timeout: float = 60.0,
) -> History:
    """``fm.train`` by Flower's simulation: a node for every client, on Ray, in other processes.

    timeout  seconds that a round waits for replies
    returns  the ``History`` of ``fm.train`` up to rounding, without ``labels``
    raises   ImportError without Ray; RuntimeError where Flower is installed below a folder with a
             space in its name; other arguments, errors: see ``fm.train``
    cost     seconds to start Ray, which is shut down at the end, then a tenth of a second a round
             and more
    """
    if " " in sys.prefix:  # it would wait for ever
        raise RuntimeError(
            f"Flower cannot work below a folder with a space: {sys.prefix}"
        )
    import ray
    from flwr.simulation import run_simulation  # here, since nodes have no use for it

    instance("fed", fed, Federation, "a Federation")
    server = server_app(
        net,
        strategy,
        clients=fed.clients,
        validation=fed.validation,
        test=fed.test,
        rounds=rounds,
        local=local,
        seed=seed,
        checkpoint=checkpoint,
        timeout=timeout,
        same_as_train=True,
        patience=120,  # the first messages start Ray's workers
    )
    _start(ray)
    # One core a node: small models gain nothing from more.
    one_core = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client_app(fed, net), fed.clients, backend_config=one_core)
    assert server.history is not None
    return server.history


def _start(ray: Any, tries: int = 3) -> None:
    """Start Ray, for an error if it fails instead of a server without nodes.

    A busy machine may need more than the half minute that Ray allows itself
    """
    # Workers of Ray import this package from where this process has it.
    search_path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    for tries_left in reversed(range(tries)):
        try:
            ray.init(
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": search_path},
                ignore_reinit_error=True,
            )
            return
        except Exception:
            # Half started, it would be taken for started by the next try.
            ray.shutdown()
            if not tries_left:
                raise
