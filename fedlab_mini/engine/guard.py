"""Guard: the ceremony around a training, so that ``train.py`` reads as a round does.

What every training checks before it begins, whom it warns of, how it goes on from a checkpoint, and
what a strategy of one's own owes it, checked where that is first broken; the page "Bring your own"
has a template. Below: history, checkpoint. Above: train, simulate, flower.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from torch import Tensor

from ..checks import instance, reals, shown, whole
from ..worlds.federation import Federation
from . import checkpoint as files
from .history import History, Log, resume
from .minibatches import LocalSGD
from .model import Model
from .rounds import Server, Strategy, Workers


def starting_model(
    fed: Federation,
    net: Model,
    rounds: int,
    local: LocalSGD,
    seed: int,
    theta: Tensor | None = None,
) -> tuple[Model, Tensor]:
    """Check what every training needs; return the module as it now is, and where it starts."""
    instance("fed", fed, Federation, "a Federation")
    instance("net", net, Model, "fm.Model(module)")
    instance("local", local, LocalSGD, "fm.LocalSGD(...)")
    local.rate(whole("rounds", rounds))  # that of the last round must be finite
    net.check(fed.x, fed.classes)
    taken = net.now()
    # The data's type and device decide those of the whole training.
    if theta is not None:
        return taken, reals("theta", theta, [taken.P], dtype=fed.x.dtype).to(
            fed.x.device, copy=True
        )
    # A copy was made by a training that has said so.
    if not net.ours and taken is not net:
        warnings.warn(
            f"net: the training starts anew, from theta=net.init({seed}); theta=net.theta() "
            "starts from the module's own weights",
            stacklevel=3,
        )
    return taken, taken.init(seed, dtype=fed.x.dtype, device=fed.x.device)


def training_mark(fed: Federation, net: Model, local: LocalSGD, seed: int) -> files.Mark:
    """Everything that the clients' training depends on, part by part, for checkpoints."""
    attacks, unusable = sorted(fed.attacks.items()), sorted(fed.unusable)
    data = (fed.x, fed.y, fed.sizes, fed.validation, fed.test, unusable)
    return files.mark(
        "training", net=net, attacks=attacks, data=data, local=local, seed=seed
    )


def names(ids: Iterable[int]) -> str:
    """Client ids for a message: sorted, separated by commas."""
    return ", ".join(map(str, sorted(ids)))


def warn_unusable_data(fed: Federation) -> None:
    """Name the clients whose data are not finite, once a training."""
    if fed.unusable:
        warnings.warn(
            f"client {names(fed.unusable)} holds inputs that are not finite and takes no part",
            stacklevel=3,
        )


class Blame:
    """Who sent updates that do not count: each client is named in one warning, and counted."""

    def __init__(self) -> None:
        self.rounds_left_out: Counter[int] = Counter()
        self.divergence_warned = False

    def note(self, t: int, culprits: list[int], unblamed: int) -> None:
        """After a round: ids of those who are to blame, and how many others were left out."""
        # A client that lies every round is worth one line, not one a round.
        newly_left_out = [k for k in culprits if not self.rounds_left_out[k]]
        self.rounds_left_out.update(culprits)
        if newly_left_out:
            warnings.warn(
                f"round {t}: client {names(newly_left_out)} sent an update that is not finite or "
                "far too long; it is left out, now and whenever that happens again",
                stacklevel=6,
            )
        if unblamed and not self.divergence_warned:
            self.divergence_warned = True
            warnings.warn(
                f"round {t}: training diverges from this model; {unblamed} updates that are not "
                "finite or far too long are left out, and nobody is named",
                stacklevel=6,
            )

    def sum_up(self) -> None:
        """How often clients were left out, where once is not all."""
        counts = sorted(self.rounds_left_out.items())
        repeated = [
            f"client {k} in {count_of_rounds} rounds"
            for k, count_of_rounds in counts
            if count_of_rounds > 1
        ]
        if repeated:
            warnings.warn(f"left out: {', '.join(repeated)}", stacklevel=4)


@dataclasses.dataclass
class Session:
    """One call of a training: its strategy introduced and checked, its checkpoint, its clock."""

    workers: Workers
    server: Server
    strategy: Strategy
    checkpoint: str | os.PathLike | None

    def __post_init__(self) -> None:
        self.began = time.perf_counter()
        if isinstance(self.strategy, type) or not hasattr(self.strategy, "aggregate"):
            wrong = shown(self.strategy)
            raise TypeError(f"strategy: expected one such as fm.FedAvg(), got {wrong}")
        # Before the mark is taken: a strategy sets its state here.
        self.strategy.start(self.server)
        check_started(self.strategy)
        # What cannot be copied is refused now, not after the last round. As if it were copied
        # already, so that the model and the validation samples are shared.
        self.untrained = own_copy(self.strategy, {id(self.server): self.server})

    def resume(self, fresh: Log, rounds: int) -> Log:
        """The rounds that the checkpoint holds, or ``fresh``; the clients go on from there."""
        log = fresh
        if self.checkpoint is not None:
            work, strategy = self.workers.mark(), self.strategy
            self.mark = files.mark("train", work, strategy=strategy, theta=fresh.theta)
            log = resume(self.checkpoint, self.mark, strategy, fresh, rounds)
        # Also at the start, where clients have nothing to take back yet.
        self.workers.restore(log.client_memory)
        return log

    def save(self, log: Log) -> None:
        """Write the checkpoint; ValueError if a resumed training would differ."""
        assert self.checkpoint is not None
        check_remembered(self.strategy, self.untrained)
        log.save(
            self.checkpoint, self.mark, self.strategy, time.perf_counter() - self.began
        )

    def history(self, log: Log) -> History:
        """What the training leaves behind."""
        seconds = time.perf_counter() - self.began
        trained = own_copy(self.strategy, {})
        return log.history(trained, seconds, self.workers.labels)


def own_copy(strategy: Strategy, copied: dict[int, Any]) -> Strategy:
    """A copy of the strategy with all it holds but what is said to be copied already."""
    try:
        return copy.deepcopy(strategy, copied)
    except Exception as error:  # whatever its attributes raise
        raise TypeError(
            f"strategy: expected one that copy.deepcopy copies, as its history keeps a copy; "
            f"{type(strategy).__name__} is not ({error})"
        ) from error


def check_started(strategy: Any) -> None:
    """After ``start``: constructor and start of the base have run; TypeError otherwise."""
    class_name = type(strategy).__name__
    # An __init__ of one's own hides the one that a dataclass writes.
    if dataclasses.is_dataclass(strategy):
        fields = [field.name for field in dataclasses.fields(strategy)]
        unset = [name for name in fields if name not in vars(strategy)]
        if unset:
            raise TypeError(
                f"{class_name}: its __init__ leaves {', '.join(unset)} unset; "
                "write super().__init__() as its first line"
            )
    for name in getattr(strategy, "KEPT", ()):
        try:
            attrgetter(name)(strategy)
        except AttributeError:
            raise TypeError(
                f"{class_name}: {name} is named in KEPT and not set by start; write "
                "super().start(server) as the first line of start, and set there what KEPT names"
            ) from None


def refuse_written(strategy: Any, t: int, before: dict, after: dict) -> None:
    """After an ``aggregate`` that has written into the round: ValueError naming the tensor."""
    written = next(name for name in before if after[name] != before[name])
    raise ValueError(
        f"round {t}: {type(strategy).__name__} writes into round.{written}, which others read; "
        f"write into a copy, round.{written}.clone()"
    )


def check_recorded(strategy: Any, t: int) -> None:
    """After an ``aggregate`` that counted no round: it has noted weights, or ValueError.

    A strategy that counts no rounds at all keeps scores in a way of its own
    """
    if hasattr(strategy, "rounds") and not strategy.applied.any():
        raise ValueError(
            f"round {t}: {type(strategy).__name__}.aggregate notes no weights and no scores; "
            "write self.record(round, weights, scores) before it returns"
        )


def check_remembered(strategy: Any, untrained: Any) -> None:
    """Before a checkpoint: its state restores all that training has changed, or ValueError.

    untrained  a copy from before round 1. Attributes whose names begin with "_" may be lost
    """
    restored, class_name = copy.copy(untrained), type(strategy).__name__
    # What a resumed training would begin with, beside what this one has.
    restored.load_state_dict(strategy.state_dict())
    forgotten = [
        name
        for name, value in vars(strategy).items()
        if name != "applied"  # every round sets it anew
        and not name.startswith("_")
        and files.fingerprint(value) != files.fingerprint(vars(restored).get(name))
    ]
    if not forgotten:
        return
    base_class = type(strategy).__bases__[0].__name__
    quoted = "".join(f', "{name}"' for name in forgotten)
    advice = "them into state_dict"
    if hasattr(strategy, "KEPT"):
        advice = f"KEPT = (*{base_class}.KEPT{quoted}) in the class"
    raise ValueError(
        f"{class_name}: a resumed training would have lost {', '.join(forgotten)}; "
        f"write {advice}, for tensors and numbers that start sets, or begin the names of "
        "what may be lost with _"
    )
