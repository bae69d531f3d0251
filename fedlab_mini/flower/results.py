"""Results: what a run leaves behind and says, by client id. Below: history. Above: server."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import Tensor

from ..engine.checkpoint import whole_file
from ..engine.history import Log
from ..engine.rounds import Strategy
from .nodes import MISSED, Nodes
from .records import LOGGER


class Report:
    """What the server logs of every round, and the tables it writes to a folder, if any."""

    def __init__(self, nodes: Nodes, strategy: Strategy, rounds: int, folder: Path | None):
        self.nodes, self.strategy, self.rounds, self.folder = nodes, strategy, rounds, folder

    def after_round(self, t: int, log: Log, missing: Tensor) -> None:
        """Say how round ``t`` went, and write the tables anew."""
        accuracy, loss, absent = log.accuracy[-1], log.loss[-1], set(missing.tolist())
        LOGGER.info("round %d of %d: accuracy %.3f, loss %.3f", t, self.rounds, accuracy, loss)
        scores, weights = log.scores[-1], log.weights[-1]
        for client in log.selected[-1].nonzero().flatten().tolist():
            missing_note = "  missing" if client in absent else ""
            LOGGER.info(
                "  client %3d  score %+.4f  weight %.4f%s",
                client,
                scores[client],
                weights[client],
                missing_note,
            )
        if self.folder is not None:
            self.write_tables(self.folder, log)

    def write_tables(self, folder: Path, log: Log) -> None:
        """The results so far; each file is whole at any moment."""
        import pandas  # here, since it takes a second to import

        nodes, client_count = self.nodes, self.nodes.server.clients
        history = log.history(self.strategy, 0.0, nodes.labels)
        clients = pandas.DataFrame(
            {
                "client": range(client_count),
                "node": [str(nodes.node_of.get(client, "")) for client in range(client_count)],
                "samples": nodes.sizes.tolist(),
                "missing": nodes.table[MISSED].tolist(),
            }
        )
        for name, table in {"scores.csv": history.to_frame(), "clients.csv": clients}.items():
            # A reader of the folder never finds half a table.
            with whole_file(folder / name) as path:
                table.to_csv(path, index=False)

    def write_model(self, theta: Tensor) -> None:
        """The final model, at the end."""
        if self.folder is not None:
            with whole_file(self.folder / "theta.npy") as path:
                np.save(path, theta.cpu().numpy())
