"""Log: what a training has done so far, how it gets to disk and back, and its history.

Below: checkpoint, rounds. Above: loop.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import torch
from torch import Tensor

from . import checkpoint as files
from .rounds import Cost, History, Strategy

COLUMNS = ("scores", "weights", "selected")


@dataclass
class Log:
    """The rounds so far, and all that the next ones depend on beside the strategy."""

    theta: Tensor
    previous: Tensor  # the server's last step, for attackers that replay it
    curve: list[tuple[float, float]]
    kept: Tensor  # what the clients have changed, such as labels; see ``loop.Workers``
    rows: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    epochs: float = 0.0
    seconds: float = 0.0  # of earlier, interrupted calls

    @property
    def done(self) -> int:
        return len(self.rows)

    def columns(self) -> list[Tensor]:
        return [torch.stack(column) for column in zip(*self.rows, strict=True)]

    def history(self, strategy: Strategy, seconds: float, labels: Tensor) -> History:
        scores, weights, selected = self.columns()
        accuracy, loss = torch.tensor(self.curve, dtype=torch.float64).T
        cost = Cost(self.epochs, strategy.evaluations, self.seconds + seconds)
        made = (self.theta, strategy, cost, labels)
        return History(accuracy, loss, scores, weights, selected, *made)

    def save(self, path: str | os.PathLike, mark: str, strategy: Strategy, seconds: float) -> None:
        arrays = dict(zip(COLUMNS, self.columns(), strict=True))
        arrays |= {"theta": self.theta, "previous": self.previous, "labels": self.kept}
        arrays |= {f"strategy.{name}": part for name, part in strategy.state_dict().items()}
        arrays |= {"curve": torch.tensor(self.curve, dtype=torch.float64)}
        arrays |= {"spent": torch.tensor([self.epochs, self.seconds + seconds]).double()}
        files.save(path, mark, **{n: part.detach().cpu().numpy() for n, part in arrays.items()})


def resume(
    path: str | os.PathLike | None,
    mark: str,
    strategy: Strategy,
    rounds: int,
    theta: Tensor,
    kept: Tensor,
) -> Log | None:
    """The training that ``path`` holds, with its strategy's state restored; None if there is none.

    ValueError if it belongs to other work or is longer than asked for.
    """
    saved = None if path is None else files.begin(path, mark)
    if saved is None:
        return None
    part = {name: torch.from_numpy(array) for name, array in saved.items()}
    if len(part["scores"]) > rounds:
        raise ValueError(f"checkpoint: {path} holds {len(part['scores'])} rounds, {rounds} asked")
    strategy.load_state_dict(
        {name[9:]: value for name, value in part.items() if name.startswith("strategy.")}
    )
    rows = list(zip(*(part[name].unbind() for name in COLUMNS), strict=True))
    curve = [tuple(pair) for pair in part["curve"].tolist()]
    models = (part["theta"].to(theta), part["previous"].to(theta))
    kept = part["labels"].to(kept)
    return Log(*models, curve, kept, rows, *part["spent"].tolist())
