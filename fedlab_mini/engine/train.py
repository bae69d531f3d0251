"""Training: rounds of federated averaging under a strategy, all clients in this process.

Chapter 1 derives it. Below: loop, local, start. Beside: simulation. Above: games, methods.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..checks import distinct_ids, whole, wholes
from ..worlds.federation import Federation
from .local import LocalSGD, Shuffles, round_updates
from .loop import run
from .model import Model
from .rounds import History, Message, Server, Strategy
from .start import begin, describe, warn_unusable


def train(
    fed: Federation,
    net: Model,
    strategy: Strategy,
    *,
    rounds: int,
    local: LocalSGD | None = None,
    seed: int = 0,
    theta: Tensor | None = None,
    checkpoint: str | os.PathLike | None = None,
    every: int = 50,
) -> History:
    """Train one federated model under a strategy.

    theta       [P] where to start; default: ``net.init(seed)``
    checkpoint  file that is written after every ``every`` rounds and at the end, and that an
                interrupted training goes on from; more ``rounds`` than it holds prolong it
    returns     a ``History``; same seed, same bytes, interrupted or not
    raises      ValueError or TypeError naming the argument, or what of the strategy's answers is
                no answer. A client whose update is not finite or far too long (see ``Sieve``) is
                left out of that round, and named in a warning the first time
    """
    local = LocalSGD() if local is None else local
    theta = begin(fed, net, rounds, local, seed, theta)
    every = whole("every", every)
    warn_unusable(fed)
    return run(
        Here(fed, net, local, seed),
        Server(fed.clients, fed.classes, net, fed.validation, seed),
        strategy,
        theta,
        test=fed.test,
        rounds=rounds,
        local=local,
        checkpoint=checkpoint,
        every=every,
    )


class Here:
    """The clients of a federation as ``Workers``: in this process, trained in one stack."""

    def __init__(self, fed: Federation, net: Model, local: LocalSGD, seed: int):
        self.fed, self.net, self.original = fed, net, fed.y
        self.work = fed, net, local, seed
        self.shuffles, self.room = Shuffles(fed, local, seed), _Room(fed.x.new_empty(net.P))

    @property
    def sizes(self) -> Tensor:
        """Samples of every client, [K]."""
        return self.fed.sizes

    @property
    def step(self) -> bool:
        """Attackers may replay the server's last step."""
        return bool(self.fed.attacks)

    @property
    def kept(self) -> Tensor:
        """All clients' labels [n], as they now have them."""
        return self.fed.y

    labels = kept

    def restore(self, kept: Tensor) -> None:
        """Go on with these labels [n]."""
        self.fed, self.shuffles.stack = replace(self.fed, y=kept), None

    def describe(self) -> str:
        """Fingerprint of everything the training depends on, for checkpoints."""
        return describe(*self.work)

    def updates(
        self, theta: Tensor, chosen: Tensor, t: int, previous: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Ids of those that can take part, and their updates [m, P] in round ``t``."""
        usable = [k for k in chosen.tolist() if k not in self.fed.unusable]
        ids, room = torch.tensor(usable, dtype=torch.long), self.room.rows(len(usable))
        given = (ids, self.shuffles, t, previous, room)
        return ids, round_updates(self.fed, self.net, theta, *given)

    def answers(self, message: Message, clients: Tensor, theta: Tensor, t: int) -> Tensor:
        """Ids of the clients that changed labels; from now on they train on the new ones."""
        fed, labels, changed = self.fed, self.fed.y.clone(), []
        for k in clients.tolist():
            if k in fed.unusable:
                continue
            own = slice(*fed.offsets[k : k + 2].tolist())
            given = (fed.x[own], self.original[own].clone(), fed.y[own].clone())
            answer = message.answer(self.net, theta, *given)
            new = renamed(answer, k, len(given[2]), fed.classes).to(labels)
            if not torch.equal(new, fed.y[own]):
                labels[own] = new
                changed.append(k)
        if changed:
            self.restore(labels)
        return torch.tensor(changed, dtype=torch.long)


def renamed(answer: object, k: int, many: int, classes: int) -> Tensor:
    """Client k's answer to a message, checked: labels [many] in 0..classes-1."""
    return wholes(f"message: what client {k} answers", answer, [many], high=classes - 1)


class _Room:
    """Memory for a round's updates, used again unless somebody still holds the last one's."""

    def __init__(self, like: Tensor):
        self.memory = like.new_empty(0, len(like))

    def rows(self, m: int) -> Tensor:
        """Memory [m, P]: touched before, where it can, as fresh pages every round would cost."""
        storage = self.memory.untyped_storage()
        count = getattr(torch._C, "_storage_Use_Count", None)
        free = count is not None and count(storage._cdata) <= 2  # self.memory, storage
        if len(self.memory) < m or not free:
            self.memory = self.memory.new_empty(m, self.memory.shape[1])
        return self.memory[:m]


def local_updates(
    fed: Federation,
    net: Model,
    theta: Tensor | None,
    clients: Tensor | Sequence[int] | None = None,
    *,
    local: LocalSGD | None = None,
    seed: int = 0,
    t: int = 1,
) -> Tensor:
    """What the named clients send back in round ``t``: updates [m, P], one row a client.

    theta [P]; clients: ids in the order of the rows, default all
    raises     ValueError for unknown or repeated ids
    """
    local, t = LocalSGD() if local is None else local, whole("t", t)
    theta = begin(fed, net, 1, local, seed, theta)
    ids = distinct_ids("clients", range(fed.clients) if clients is None else clients, fed.clients)
    shuffles = Shuffles(fed, local, seed)
    room = theta.new_empty(len(ids), net.P)
    return round_updates(fed, net, theta, ids, shuffles, t, torch.zeros_like(theta), room)
