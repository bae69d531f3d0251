"""Nothing of the caller's is written to, and nothing that the caller changes later is read.

Every public function is called with arrays and modules of the caller's own, as ``bad_calls`` and
``MORE`` have them. They must be left as they were; when they are overwritten after the call, what
was returned must not change; and when that is overwritten, they must not.
"""

from __future__ import annotations

import copy
import inspect
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import matplotlib.figure
import numpy as np
import pandas
import pytest
import torch
from bad_calls import CALLS, NET, THETA, UPDATES, samples
from torch import Tensor, nn

import fedlab_mini as fm

KINDS: dict[str, Callable[[Tensor], Any]] = {"tensors": lambda a: a, "NumPy": Tensor.numpy}

CHANCE = torch.Generator().manual_seed(0)
X, Y = samples(9)
DEAL = {"y": Y, "clients": 3, "generator": CHANCE}
SPOIL = {"x": X, "y": Y, "classes": 3, "generator": CHANCE}
SEND = {"updates": UPDATES, "previous": THETA, "generator": CHANCE}
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
AAM = fm.AAM(*(torch.rand(shape) for shape in ((1, 3), (1, 2, 2), (1, 2), (1, 2), (1,))))
ALL_SIZES = {"sizes": torch.rand(4, 2, 3)}
ROOMS = {
    "spoils": (SPOIL, fm.backdoor(1, 0.5, (1, 2, 2), 1), fm.flip_labels(0.5), fm.relabel_as(1),
               fm.swap_labels((0, 1))),
    "sends": (SEND, fm.free_ride(), fm.replay(), fm.scale(1.0), fm.sign_flip()),
    "deals": (DEAL, fm.by_class(), fm.dirichlet_labels(), fm.dirichlet_sizes(), fm.iid(),
              fm.sorted_shards()),
}  # fmt: skip
# Public methods and instances that take arrays: what is called, and with what.
METHODS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "mlp": (lambda widths: repr(fm.mlp(*widths)), {"widths": [4, 3]}),
    "swap_labels": (lambda pairs: fm.swap_labels(*pairs), {"pairs": [[0, 1]]}),
    "Estimate": (fm.Estimate, {"values": X[0], "stderr": X[1], "evaluations": 1}),
    "Game.__call__": (fm.additive([1.0, 2.0]), {"coalitions": torch.eye(2, dtype=torch.bool)}),
    "Model.output_table": (NET.output_table, {"x": X}),
    "AAM.__call__": (AAM, ALL_SIZES),
    "backdoor.stamp": (fm.backdoor(1, 0.5, (1, 2, 2), 1).stamp, {"x": X}),
    "delete_words.__call__": (fm.delete_words(0.5), SPOIL | {"x": X.round()}),
    **{repr(one): (one, given) for given, *rest in ROOMS.values() for one in rest},
}
# Bound methods have an object of their own; else what is public itself, as the calls of
# ``bad_calls`` read games and models at once.
LISTED = {
    name: (call if inspect.ismethod(call) else target, given)
    for name, (call, target, given) in CALLS.items()
} | METHODS


# Keeps the caller's module, and is asked as that then is; gives views.
VIEWS = {"Model", "Model.split"}


def walk(value: Any) -> Iterator[Any]:
    """All arrays and modules within arguments or a result."""
    if isinstance(value, Tensor | np.ndarray | nn.Module):
        yield value
    elif isinstance(value, Mapping):
        yield from walk(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from walk(part)
    elif isinstance(value, fm.Model):
        yield value.module
    elif is_dataclass(value) and not isinstance(value, type):
        yield from walk(vars(value))


def state(value: Any) -> Any:
    """All that can be seen of arguments or a result but seconds, which differ from run to run."""
    if isinstance(value, Tensor):
        return str(value.dtype), list(value.shape), value.detach().numpy().tobytes()
    if isinstance(value, np.ndarray):
        return str(value.dtype), list(value.shape), value.tobytes()
    if isinstance(value, nn.Module):
        flags = [part.training for part in value.modules()]
        gradients = [p.grad for p in value.parameters()]
        return state(value.state_dict()), flags, gradients
    if isinstance(value, fm.Game):
        return value.name, state(value.shapley), state(fm.exact(value))
    if isinstance(value, fm.Model):
        return state(value.module)
    if isinstance(value, fm.History):
        return state([value.scores, value.weights, value.selected, vars(value)])
    if isinstance(value, fm.Cost):
        return value.client_epochs, value.model_evaluations
    if isinstance(value, pandas.DataFrame):
        rows = value[value.metric != "seconds"] if "metric" in value else value
        return rows.to_json()
    if isinstance(value, matplotlib.figure.Figure):
        value.savefig(pixels := io.BytesIO(), format="raw", dpi=40)
        return pixels.getvalue()
    if isinstance(value, Mapping):
        return {key: state(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return list(map(state, value))
    if is_dataclass(value) and not isinstance(value, type):
        return state(vars(value))
    return repr(value) if isinstance(value, int | float | str | None) else None


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
        for part in value.values() if isinstance(value, dict) else value:
            if isinstance(part, dict | list):
                overwrite(part)
        value.clear()


def fresh(value: Any, kind: str) -> Any:
    """An argument that nobody else holds, arrays as this kind."""
    if isinstance(value, Tensor):
        return KINDS[kind](value.clone())
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
        owner = getattr(target, "__self__", None)
        everything = [owner, *given.values(), *MORE.get(name, {}).values()]
        mutable = any(isinstance(part, list | dict) for part in everything)
        if name not in VIEWS and (mutable or any(True for _ in walk(everything))):
            yield name, "tensors"
            if not name.startswith("AAM"):  # which takes tensors only
                yield name, "NumPy"


@pytest.mark.parametrize(("name", "kind"), [*cases()])
@pytest.mark.filterwarnings("ignore")
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
