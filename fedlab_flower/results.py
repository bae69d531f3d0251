"""Results: what a run leaves behind and says, by client id. Below: history. Above: server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedlab_mini.engine.files import whole_file
from fedlab_mini.engine.history import Log, frame

from .nodes import MISSED, Nodes
from .records import LOGGER


class Report:
    """What the server logs of every round, and the tables it writes to a folder, if any."""

    def __init__(self, nodes: Nodes, rounds: int, folder: Path | None, history: Callable):
        self.nodes, self.rounds, self.folder = nodes, rounds, folder
        self.history = history  # () -> what the training would leave behind now
        self.written = 0  # rounds that this process knows to be in ``scores.csv``

    def after_round(self, t: int, log: Log, missing: Tensor) -> None:
        """Say how round ``t`` went, and write the tables anew."""
        accuracy, loss, missing_clients = (
            log.accuracy[-1],
            log.loss[-1],
            set(missing.tolist()),
        )
        LOGGER.info(
            "round %d of %d: accuracy %.3f, loss %.3f", t, self.rounds, accuracy, loss
        )
        scores, weights = log.rows["scores"][-1], log.rows["weights"][-1]
        for client in log.rows["selected"][-1].nonzero().flatten().tolist():
            missing_note = "  missing" if client in missing_clients else ""
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
        """The results so far; of ``scores.csv`` a round adds its own rows, and touches no other."""
        import pandas  # here, since it takes a second to import

        nodes, client_count = self.nodes, self.nodes.server.clients
        client_table = pandas.DataFrame(
            {
                "client": range(client_count),
                "node": [
                    str(nodes.node_of.get(client, "")) for client in range(client_count)
                ],
                "samples": nodes.sizes.tolist(),
                "missing": nodes.table[MISSED].tolist(),
            }
        )
        # A reader of the folder never finds half a table.
        with whole_file(folder / "clients.csv") as partial_path:
            client_table.to_csv(partial_path, index=False)
        scores_path = folder / "scores.csv"
        # What another process has written may end anywhere: it is written anew, once.
        if not self.written or self.written != log.rounds - 1 or not scores_path.exists():
            history = self.history()
            with whole_file(scores_path) as partial_path:
                history.to_frame().to_csv(partial_path, index=False)
        else:
            add_rows(scores_path, last_round(log))
        self.written = log.rounds

    def write_model(self, theta: Tensor) -> None:
        """The final model, at the end."""
        if self.folder is not None:
            with whole_file(self.folder / "theta.npy") as partial_path:
                np.save(partial_path, theta.cpu().numpy())


def last_round(log: Log) -> bytes:
    """The rows that the last round adds to ``History.to_frame``, as CSV."""
    client_count = len(log.rows["scores"][-1])
    # [K] each: accuracy and loss, one number a round, are repeated for every client.
    round_table = frame(
        round=torch.full([client_count], log.rounds),
        client=torch.arange(client_count),
        score=log.rows["scores"][-1],
        weight=log.rows["weights"][-1],
        selected=log.rows["selected"][-1],
        accuracy=log.accuracy[-1].expand(client_count),
        loss=log.loss[-1].expand(client_count),
    )
    return round_table.to_csv(index=False, header=False, lineterminator="\n").encode()


def add_rows(path: Path, rows: bytes) -> None:
    """Append all of it, or nothing; OSError naming the file."""
    try:
        # Unbuffered: a full disk fails the write itself, not the closing of the file.
        with open(path, "ab", buffering=0) as table_file:
            previous_end, unwritten = (
                os.fstat(table_file.fileno()).st_size,
                memoryview(rows),
            )
            try:
                while unwritten:
                    unwritten = unwritten[table_file.write(unwritten) :]
                os.fsync(table_file.fileno())
            except OSError:
                # Half a row would be read as numbers that nobody has measured.
                os.ftruncate(table_file.fileno(), previous_end)
                raise
    except OSError as error:
        raise OSError(f"cannot write {path} ({error})") from error
