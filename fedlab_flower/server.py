"""Server: a training whose clients are nodes of Flower, by the rounds that ``fm.train`` has.

Chapter 11 uses it. Below: nodes, results, engine.train. Beside: client. Above: simulation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from torch import Tensor

from fedlab_mini.checks import distinct_ids, flag, home, instance, number, whole
from fedlab_mini.engine.guard import starting_model
from fedlab_mini.engine.history import History, Log
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Server, Strategy
from fedlab_mini.engine.train import Training
from fedlab_mini.worlds.federation import Federation, Samples

from . import private
from .nodes import Nodes
from .records import MOST_SAMPLES
from .results import Report

LAST_WORDS = 10.0  # seconds that a killed server's app takes to notice


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
    samples: int | Mapping[int, int] = MOST_SAMPLES,
    same_as_train: bool = False,
    signing_key: str | os.PathLike | None = None,
    timeout: float = 60.0,
    patience: float = 60.0,
) -> TrainingApp:
    """The ServerApp of a training: any strategy of the book, clients that run `client_app`.

    clients     {Flower's node id: client id 0..K-1}, which decides whose a reply is, whatever it
                says; or K: then nodes are believed what they say they are, as in a simulation
    validation, test  the server's samples (x, y)
    checkpoint  file of the history, which is written after every round and gone on from
    results     folder for ``scores.csv`` (a row a round and client, added round by round),
                ``clients.csv`` and, at the end, ``theta.npy``
    samples     the most samples that a client may claim, one number or {client id: number}: what
                a client says weighs its update, and no other party has counted
    same_as_train  clients are told the seed and the sizes of all, so that their minibatches are
                those of `train`. Without, each draws its own, from a seed that its data make;
                then data may grow while training goes on
    signing_key  file of an Ed25519 key that signs every task; `client_app` has the other half
    timeout     seconds that a round waits for replies; who is late or fails is missing in it
    patience    seconds that the start waits for clients that have not joined
    other arguments, errors: see `train`. RuntimeError where another process trains to the same
    files, or where no client that is there sends a usable update, three times.
    Files are their owner's alone (0600). A small seed can be guessed from the first model: where
    clients are not to know whom a strategy will draw, give ``secrets.randbits(62)``
    """
    local = LocalSGD() if local is None else local
    number("timeout", timeout, 0, ends="(]")
    number("patience", patience, 0, ends="(]")
    # Refused when the app is made, not when its run begins.
    own_federation = server_samples(net, validation, test)
    net, theta = starting_model(own_federation, net, rounds, local, seed)
    registered = clients if isinstance(clients, Mapping) else None
    if registered is not None:
        distinct_ids("clients", list(registered.values()), len(registered))
    client_count = whole("clients", clients) if registered is None else len(registered)
    for sample_limit in samples.values() if isinstance(samples, Mapping) else [samples]:
        whole("samples", sample_limit)
    flag("same_as_train", same_as_train)
    task_key = None if signing_key is None else private.signing_key(signing_key)
    server = Server(
        client_count, own_federation.classes, net, own_federation.validation, seed
    )
    app = TrainingApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        node_options = samples, same_as_train, task_key
        nodes = Nodes(
            grid, server, own_federation.test, registered, local, timeout, *node_options
        )
        results_folder = None if results is None else home(results)
        locked_paths = [
            None if checkpoint is None else home(checkpoint),
            results_folder and results_folder / "results",
        ]
        with ExitStack() as held_locks, private.readable_by_owner():
            # Two trainings may share the checkpoint or the folder alone: each of them is locked.
            for locked_path in filter(None, locked_paths):
                held_locks.enter_context(private.alone(locked_path, LAST_WORDS))
            # Who joins later misses rounds: the first one waits for everybody.
            nodes.gather(patience)
            training = Training(
                server, nodes, strategy, local, theta, own_federation.test
            )
            report = Report(nodes, rounds, results_folder, training.history)
            path = None if checkpoint is None else home(checkpoint)
            start = History.load(path) if path is not None and path.exists() else None

            def after(t: int, log: Log, missing: Tensor) -> None:
                # A server may be killed at any moment, and goes on from there.
                if path is not None:
                    training.history().save(path)
                report.after_round(t, log, missing)

            history = training.run(rounds, start, after)
            report.write_model(history.theta)
            app.history = history

    return app


def server_samples(net: Model, validation: Samples, test: Samples) -> Federation:
    """The server's own samples, checked, as a federation of one."""
    instance("net", net, Model, "fm.Model(module)")
    classes = net.outputs(torch.as_tensor(validation[0]))
    return Federation.from_datasets(
        [validation], validation=validation, test=test, classes=classes
    )
