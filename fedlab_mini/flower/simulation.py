"""Simulation: a federation trained by Flower on this machine, for comparison. Chapter 11 uses it.

Below: client, server. Beside ``fm.train``, whose rounds cost a small part of these.
"""

from __future__ import annotations

import os

from flwr.simulation import run_simulation

from ..checks import instance
from ..federation import Federation
from ..local import LocalSGD
from ..model import Model
from ..rounds import History, Strategy
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
    raises   ImportError without Ray; other arguments, errors: see ``fm.train``
    cost     seconds to start Ray, then a tenth of a second a round and more
    """
    import ray  # noqa: F401  # or Flower would end this process

    instance("fed", fed, Federation, "a Federation")
    found: list[History] = []
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
        patience=600,  # starting Ray may take a minute
        done=found.append,
    )
    backend = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client_app(fed, net), fed.clients, backend_config=backend)
    return found[0]
