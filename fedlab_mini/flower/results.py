"""Results: what a run leaves behind and says, by client id. Below: log. Above: server."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ..engine.checkpoint import whole_file
from ..engine.log import Log
from ..engine.rounds import History, Strategy

LOGGER = logging.getLogger("flwr.fedlab_mini")  # where Flower's own lines go


def say(t: int, rounds: int, log: Log, missing: Tensor) -> None:
    """The round as lines of the server's log."""
    scores, weights, selected = log.rows[-1]
    accuracy, loss = log.curve[-1]
    LOGGER.info("round %d of %d: accuracy %.3f, loss %.3f", t, rounds, accuracy, loss)
    for k in selected.nonzero().flatten().tolist():
        note = "  missing" if k in missing.tolist() else ""
        LOGGER.info("  client %3d  score %+.4f  weight %.4f%s", k, scores[k], weights[k], note)


def write(
    folder: Path, log: Log, strategy: Strategy, node: Mapping[int, int], samples: Tensor,
    missing: Tensor,
) -> None:  # fmt: skip
    """The run's results so far, as tables; each file is whole at any moment.

    node {client id: node id} of those that have joined; samples, missing [K]
    """
    import pandas  # here, since it takes a second to import

    accuracy, loss = torch.tensor(log.curve, dtype=torch.float64).T
    scores, weights, selected = log.columns()
    history = History(accuracy, loss, scores, weights, selected, log.theta, strategy)
    ids = range(len(samples))
    clients = {"client": list(ids), "node": [str(node.get(k, "")) for k in ids]}
    clients |= {"samples": samples.tolist(), "missing": missing.tolist()}
    tables = {"scores.csv": history.to_frame(), "clients.csv": pandas.DataFrame(clients)}
    for name, table in tables.items():
        with whole_file(folder / name) as path:
            table.to_csv(path, index=False)
