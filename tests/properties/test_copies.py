"""Nothing of the caller's is written to, and nothing that the caller changes later is read.

Every public function is called with arrays and modules of the caller's own, as ``bad_calls``,
``MORE`` and ``METHODS`` have them. They must be left as they were; when they are overwritten after
the call, what was returned must not change; and when that is overwritten, they must not. Strategies
and attacks of a reader's own that work in place train as their twins do that write into nothing.
"""

from __future__ import annotations

import copy
import inspect
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass, replace
from typing import Any

import matplotlib.figure
import numpy as np
import pandas
import pytest
import torch
from bad_calls import CALLS, THETA, samples
from conftest import random_federation
from torch import Tensor, nn

import fedlab_mini as fm
from fedlab_mini.games.estimate import Estimate
from fedlab_mini.worlds.attacks import Known, UpdateAttack
from fedlab_mini.worlds.corrupt import DeleteWords

pytestmark = pytest.mark.filterwarnings("ignore")

CHANCE = torch.Generator().manual_seed(0)
X, Y = samples(9)
SPOIL = {"x": X, "y": Y, "classes": 3, "generator": CHANCE}
# What ``bad_calls`` leaves out, since it may be left out: more arguments of its calls.
MORE: dict[str, dict[str, Any]] = {
    "train": {"theta": THETA},
    "simulate": {"theta": THETA},
    "local_updates": {"clients": torch.tensor([2, 0])},
    "round_game": {"weights": torch.tensor([1.0, 2.0, 3.0]), "metric": "loss"},
    "retraining_game": {"metric": "loss"},
    "cosine_game": {"weights": torch.tensor([1.0, 2.0, 3.0])},
    "Game": {"shapley": torch.ones(2, dtype=torch.float64)},
    "fit_aam": {"used": torch.ones(1, 4)},
    "Federation": {"noise": torch.zeros(3)},
    "Federation.from_datasets": {"truth": {0: "nothing"}},
}
AAM = fm.methods.AAM(*(torch.rand(shape) for shape in ((1, 3), (1, 2, 2), (1, 2), (1, 2), (1,))))
# Public methods and instances that take arrays: what is called, and with what.
METHODS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Estimate": (Estimate, {"values": X[0], "stderr": X[1], "evaluations": 1}),
    "Game.__call__": (fm.additive([1.0, 2.0]), {"coalitions": torch.eye(2, dtype=torch.bool)}),
    "AAM.__call__": (AAM, {"sizes": torch.rand(4, 2, 3)}),
    "DeleteWords.__call__": (DeleteWords(0.5), SPOIL | {"x": X.round()}),
}
# Bound methods have an object of their own; else what is public itself, as the calls of
# ``bad_calls`` read games and models at once.
KEEP_OR_STAR = ("Model", "Model.split", "mlp", "SwapLabels")
LISTED = {
    name: (call if inspect.ismethod(call) else target, given)
    for name, (call, target, given) in CALLS.items()
    if name not in KEEP_OR_STAR
} | METHODS


def parts(value: Any) -> list[Any]:
    """What a container holds, but seconds, which differ from run to run."""
    if isinstance(value, fm.Model):
        return [value.module]
    if is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    if isinstance(value, Mapping):
        return [part for key, part in value.items() if key != "seconds"]
    return list(value) if isinstance(value, list | tuple) else []


def walk(value: Any) -> Iterator[Any]:
    """All arrays and modules within arguments or a result."""
    if isinstance(value, Tensor | np.ndarray | nn.Module):
        yield value
    for part in parts(value):
        yield from walk(part)


def state(value: Any) -> Any:
    """All that can be seen of arguments or a result."""
    if isinstance(value, nn.Module):
        flags = [part.training for part in value.modules()]
        value = [value.state_dict(), flags, [p.grad for p in value.parameters()]]
    elif isinstance(value, fm.Game):
        value = [value.name, value.shapley, fm.exact(value)]
    elif isinstance(value, fm.History):
        value = [value.scores, value.weights, value.selected, vars(value)]
    elif isinstance(value, pandas.DataFrame):
        rows = value[value.metric != "seconds"] if "metric" in value else value
        value = rows.to_json()
    elif isinstance(value, matplotlib.figure.Figure):
        value.savefig(pixels := io.BytesIO(), format="raw", dpi=40)
        return pixels.getvalue()
    if isinstance(value, Tensor | np.ndarray):
        value = value.detach().numpy() if isinstance(value, Tensor) else value
        return str(value.dtype), value.shape, value.tobytes()
    own = repr(value) if isinstance(value, int | float | str | None) else type(value).__name__
    return [own, *map(state, parts(value))]


@torch.no_grad()
def overwrite(value: Any) -> None:
    """Put other numbers into all arrays, turn all modules' modes round, empty all lists."""
    for part in walk(value):
        if isinstance(part, nn.Module):
            overwrite(list(part.state_dict().values()))
            for module in part.modules():
                module.training = not module.training
        elif isinstance(part, Tensor):
            part.copy_(~part if part.dtype == torch.bool else 1 - part)
        elif part.dtype != object and part.size:
            part[...] = ~part if part.dtype == bool else 1 - part
    if isinstance(value, dict | list):
        for part in parts(value):
            if isinstance(part, dict | list):
                overwrite(part)
        value.clear()


def fresh(value: Any, kind: str) -> Any:
    """An argument that nobody else holds, arrays as this kind."""
    if isinstance(value, Tensor):
        return value.clone().numpy() if kind == "NumPy" else value.clone()
    if isinstance(value, list | tuple):
        return type(value)(fresh(part, kind) for part in value)
    if isinstance(value, dict):
        return {key: fresh(part, kind) for key, part in value.items()}
    if isinstance(value, torch.Generator):
        return torch.Generator().manual_seed(1)
    writable = isinstance(value, nn.Module | fm.Model) or is_dataclass(value)
    return copy.deepcopy(value) if writable else value


def called(name: str, kind: str) -> tuple[Any, Callable[[], Any]]:
    """What a call is given, its own object included, and the call.

    A strategy is not noted: it holds its last training.
    """
    target, given = LISTED[name]
    given = {key: fresh(part, kind) for key, part in (given | MORE.get(name, {})).items()}
    owner = getattr(target, "__self__", None)
    if isinstance(owner, fm.Model | fm.Dataset | fm.Federation):
        owner = fresh(owner, "tensors")
        target = getattr(owner, target.__name__)
    noted = {key: part for key, part in given.items() if key != "strategy"}
    return {"self": owner, **noted}, lambda: target(**given)


def cases() -> Iterator[tuple[str, str]]:
    """Every listed name with anything to overwrite: as tensors and as NumPy's."""
    for name, (target, given) in LISTED.items():
        everything = [getattr(target, "__self__", None), *given.values()]
        everything += MORE.get(name, {}).values()
        if any(isinstance(part, list | dict) for part in everything) or any(
            True for _ in walk(everything)
        ):
            yield name, "tensors"
            if not name.startswith("AAM"):  # which takes tensors only
                yield name, "NumPy"


@pytest.mark.parametrize(("name", "kind"), [*cases()])
def test_what_is_given_and_what_is_returned_share_nothing(name, kind):
    wanted = state(called(name, kind)[1]())
    given, call = called(name, kind)
    before = state(given)
    result = call()
    assert state(given) == before, "the call writes into what it is given"
    for part in given.values():
        overwrite(part)
    assert state(result) == wanted, "what was returned changes with what was given"
    after = state(given)
    overwrite(result)
    assert state(given) == after, "what was given changes with what was returned"


# --- code of a reader's own ----------------------------------------------------------------------


class Replays(UpdateAttack):
    """Sends the server's last step back, reckoned where it lies."""

    looks_around = False

    def sends(self, known: Known) -> Tensor:
        row = known.updates[0].zero_()
        row += known.last_step
        known.last_step.fill_(7)
        return row


def trained(strategy: fm.FedAvg, attack: UpdateAttack) -> fm.History:
    """Three rounds of five clients, of whom two attack; what the caller has stays as it was."""
    fed = replace(random_federation((7, 4, 9, 6, 5)), attacks={1: attack, 3: attack})
    module = nn.Sequential(nn.LeakyReLU(inplace=True), nn.Linear(6, 3))
    net = fm.Model(module)
    before = repr((vars(fed), state(net.module)))
    history = fm.train(fed, net, strategy, rounds=3, local=fm.LocalSGD(batch=4))
    assert repr((vars(fed), state(net.module))) == before
    return history


class InPlace(fm.FedAvg):
    """Writes into the server that it was introduced to, the ids it chose and the models it gave."""

    def init(self, server):
        vars(self)["kept"] = {}
        for part in (*server.validation, *server.net.module.parameters()):
            part.data.zero_()
        server.net.module.eval()
        return super().init(server)

    def select(self, server, state, t):
        self.kept["ids"] = super().select(server, state, t)
        return self.kept["ids"]

    def step(self, server, state, round):
        self.kept["ids"].copy_(4 - self.kept["ids"])
        done = super().step(server, state, round)
        if "round" in self.kept:  # the round before
            for part in ("theta", "clients", "sizes", "updates", "missing"):
                getattr(self.kept["round"], part).zero_()
            done = done._replace(theta=self.kept["theta"].copy_(done.theta))
        self.kept.update(round=round, theta=done.theta)
        return done


@pytest.mark.parametrize(
    ("kind", "attack"), [(InPlace, fm.attacks.Replay()), (fm.FedAvg, Replays())]
)
def test_who_works_in_place_trains_as_its_twin_does(kind, attack):
    torch.manual_seed(0)
    one = trained(kind(per_round=3), attack)
    torch.manual_seed(0)
    other = trained(fm.FedAvg(per_round=3), fm.attacks.Replay())
    for part in ("theta", "scores", "weights", "selected", "accuracy", "loss"):
        assert torch.equal(getattr(one, part), getattr(other, part)), part
