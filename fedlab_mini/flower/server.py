"""Server: a training whose clients are nodes of Flower, by the rounds that ``fm.train`` has.

Chapter 11 uses it. Below: nodes, results, engine.train. Beside: client. Above: simulation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ..checks import distinct_ids, instance, number, whole
from ..engine.guard import starting_model
from ..engine.history import History
from ..engine.minibatches import LocalSGD
from ..engine.model import Model
from ..engine.rounds import Server, Strategy
from ..engine.train import Training
from ..worlds.federation import Federation, Samples
from .nodes import Nodes
from .results import Report


class TrainingApp(ServerApp):
    """A ServerApp that leaves the ``history`` of its training, once that has ended.

    Its ``labels`` are empty: clients keep theirs.
    """

    history: History | None = None


def server_app(
    net: Model,
    strategy: Strategy,
    *,
    clients: int | Mapping[int, int],
    validation: Samples,
    test: Samples,
    rounds: int,
    local: LocalSGD | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike | None = None,
    results: str | os.PathLike | None = None,
    timeout: float = 60.0,
    patience: float = 60.0,
) -> TrainingApp:
    """The ServerApp of a training: any strategy of the book, clients that run `client_app`.

    clients     {Flower's node id: client id 0..K-1}, which decides whose a reply is, whatever it
                says; or K: then nodes are believed what they say they are, as in a simulation
    validation, test  the server's samples (x, y)
    checkpoint  file that is written after every round and that a training goes on from
    results     folder for ``scores.csv`` (a row a round and client), ``clients.csv`` and, at the
                end, ``theta.npy``; written anew after every round
    timeout     seconds that a round waits for replies; who is late or fails is missing in it
    patience    seconds that the start waits for clients that have not joined
    other arguments, errors: see `train`; the same seed gives what `train` gives, up to rounding
    """
    local = LocalSGD() if local is None else local
    number("timeout", timeout, 0, ends="(]")
    number("patience", patience, 0, ends="(]")
    # Refused when the app is made, not when its run begins.
    own = server_samples(net, validation, test)
    theta = starting_model(own, net, rounds, local, seed)
    registered = clients if isinstance(clients, Mapping) else None
    if registered is not None:
        distinct_ids("clients", list(registered.values()), len(registered))
    count = whole("clients", clients) if registered is None else len(registered)
    server = Server(count, own.classes, net, own.validation, seed)
    app = TrainingApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        nodes = Nodes(grid, server, own.test, registered, local, timeout)
        # Minibatches depend on all sizes: the first round waits for everybody.
        nodes.gather(patience)
        report = Report(nodes, strategy, rounds, None if results is None else Path(results))
        training = Training(server, nodes, strategy, local, theta, own.test)
        history = training.run(rounds, checkpoint, every=1, after=report.after_round)
        report.write_model(history.theta)
        app.history = history

    return app


def server_samples(net: Model, validation: Samples, test: Samples) -> Federation:
    """The server's own samples, checked, as a federation of one."""
    instance("net", net, Model, "fm.Model(module)")
    classes = net.outputs(torch.as_tensor(validation[0]))
    return Federation.from_datasets([validation], validation=validation, test=test, classes=classes)
