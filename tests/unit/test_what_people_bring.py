"""What people bring, with the right answer of each; most of it the package does not read yet.

A marked case is expected to fail, for the reason that stands beside it and with the error that is
met today. Who mends one takes its mark away. Where a thing may also be refused, ``or_told`` says
which words the refusal owes: a raw error of another library, or words that point elsewhere, is
none.
"""

from __future__ import annotations

import copy
import html
import io
import json
import multiprocessing
import os
import pickle
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from helpers import numbers
from torch import nn
from torch.nn.utils import (
    parameters_to_vector,
    prune,
    spectral_norm,
    vector_to_parameters,
    weight_norm,
)
from torch.nn.utils.parametrizations import orthogonal
from torch.nn.utils.parametrizations import spectral_norm as new_spectral_norm

import fedlab_mini as fm
from fedlab_mini.show import plots

ROOT = Path(__file__).parents[2]
NET = fm.mlp(4, 3)
THETA, UPDATES = NET.init(0), numbers(3, NET.P, seed=1).float()
X, Y = numbers(30, 4, seed=2).float(), torch.arange(30) % 3
ROUND = {"theta": THETA, "updates": UPDATES}


def missing(what: str, *errors: type[Exception]) -> pytest.MarkDecorator:
    """The mark of a case: what is missing, and the errors that are met today."""
    return pytest.mark.xfail(strict=True, reason=what, raises=errors or AssertionError)


def or_told(words: str, call: Callable[[], Any], want: Any) -> None:
    """A call gives what is wanted, or is refused in one sentence with these words."""
    try:
        got = call()
    except (TypeError, ValueError) as refusal:
        if not re.search(words, str(refusal), re.IGNORECASE):
            raise
    else:
        assert got == pytest.approx(want, abs=1e-6)


def scored(*rounds: Any, method: Any = fm.exact, **more: Any) -> dict[Any, float]:
    """The scores of some rounds, by client."""
    given = {"net": NET, "validation": (X, Y)} | more
    return fm.score(list(rounds), methods=[method], **given).iloc[:, 0].to_dict()


# Modules: what each of them says by itself is right


def lazy() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(3))


def stack() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


class Held(nn.Module):
    """A line whose parameters are read otherwise than by their names."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.line = nn.Linear(4, 3)
        self.how, self.pair = how, (self.line.weight, self.line.bias)
        self.turned = self.line.weight.detach().t() if how == "turned" else torch.zeros(4, 3)

    def forward(self, x):
        by_pair = nn.functional.linear(x, *self.pair)
        return by_pair if self.how == "pair" else x @ self.turned + self.line.bias


def half_compiled() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is deprecated
        return nn.Sequential(torch.jit.script(nn.Linear(4, 5)), nn.Tanh(), nn.Linear(5, 3))


def of_inference() -> nn.Module:
    with torch.inference_mode():
        return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def in_use(module: nn.Module) -> nn.Module:
    module(X[:1])
    return module


class Calling(nn.Module):
    """A line whose outputs a function of (self, outputs) changes, with attributes by name."""

    def __init__(self, change: Callable[[Any, torch.Tensor], Any], **attributes: Any) -> None:
        super().__init__()
        self.line, self.change = nn.Linear(4, 3), change
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.change(self, self.line(x))


class Recurrent(nn.Module):
    """Reads a row number by number; may begin where the minibatch before has ended."""

    def __init__(self, kind: type[nn.RNNBase], where: str) -> None:
        super().__init__()
        self.body, self.head = kind(1, 5, batch_first=True), nn.Linear(5, 3)
        self.where, self.state, self.states = where, None, {}

    def forward(self, x):
        before = self.state if self.where == "attribute" else self.states.get(len(x))
        steps, after = self.body(x[:, :, None], before)
        after = after.detach() if torch.is_tensor(after) else tuple(map(torch.detach, after))
        if self.where == "attribute":
            self.state = after
        if self.where == "dictionary":
            self.states[len(x)] = after
        return self.head(steps[:, -1])


def counting(module: Any, outputs: torch.Tensor) -> torch.Tensor:
    module.calls += 1
    return outputs / module.calls


def running(module: Any, outputs: torch.Tensor) -> torch.Tensor:
    """Evaluates by a mean that only training changes."""
    if module.training:
        module.mean = 0.9 * module.mean + 0.1 * outputs.detach().mean(0)
        return outputs
    return outputs - module.mean


def shrinking(module: Any, outputs: torch.Tensor) -> torch.Tensor:
    module.line.weight.data.mul_(0.9)
    return outputs


def of_python(module: Any, outputs: torch.Tensor) -> torch.Tensor:
    return 0 * outputs if random.random() < 1e-9 else outputs


def of_numpy(module: Any, outputs: torch.Tensor) -> torch.Tensor:
    return outputs * float(np.random.rand())  # noqa: NPY002


def of_its_own(module: Any, outputs: torch.Tensor) -> torch.Tensor:
    return outputs * torch.rand(1, generator=module.chance)


def hooked(hook: Callable[..., Any]) -> nn.Module:
    module = stack()
    module[1].register_forward_hook(hook(module))
    return module


def hook_of_parameters(module: nn.Module) -> Callable[..., Any]:
    return lambda layer, given, outputs: outputs + module[0].weight.sum()


def hook_with_memory(module: nn.Module) -> Callable[..., Any]:
    calls: list[int] = []

    def hook(layer: Any, given: Any, outputs: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return outputs / len(calls)

    return hook


def replaced_forward() -> nn.Module:
    module = stack()
    module.forward = lambda x: module[2](module[1](module[0](x)))
    return module


def quantised(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao is deprecated, and people bring its modules
        module = nn.Sequential(module)
        return torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, torch.qint8)[0]


def spectral_layer() -> nn.Module:
    return new_spectral_norm(nn.Linear(4, 3))


KEEPS = "net: the outputs of {} depend on what it keeps from batch to batch, .* torch's{}; only its"
READS = "net: the outputs of {} depend on parameters other than those given"
ZEROS = torch.zeros(3)
REFUSED = {
    "lazy": (lazy, r"module: layer '1' \(LazyLinear\) has no shape yet; call .* module\(x\[:1\]\)"),
    "parallel": (lambda: nn.DataParallel(nn.Linear(4, 3)), r"module: .* inside it, \.module$"),
    "compiled in part": (
        half_compiled,
        r"module: layer '0' .* is compiled by torch\.jit; give the",
    ),
    "quantised": (lambda: quantised(nn.Linear(4, 3)), "module: layer '' .* has quantised weights"),
    "quantised in part": (
        lambda: quantised(nn.Sequential(nn.Conv1d(4, 2, 1), nn.Flatten(), nn.Linear(2, 3))),
        r"module: layer '2' \(Linear\) has quantised weights, which cannot be trained; give",
    ),
    "meta": (
        lambda: nn.Linear(4, 3, device="meta"),
        "module: parameter 'weight' is on the meta",
    ),
    "turned": (lambda: Held("turned"), "module: turned holds the values of .* 'line.weight'"),
    "spectral": (
        lambda: spectral_norm(nn.Linear(4, 3)),
        KEEPS.format("Linear", r" \(it changes .*weight_u.*\)"),
    ),
    "spectral, as it is now": (
        spectral_layer,
        KEEPS.format("ParametrizedLinear", r" \(it changes parametrizations.*\)"),
    ),
    "pair": (lambda: Held("pair"), READS.format("Held")),
    "a hook's parameters": (lambda: hooked(hook_of_parameters), READS.format("Sequential")),
    "forward of the first module": (replaced_forward, READS.format("Sequential")),
    "a hook with a memory": (lambda: hooked(hook_with_memory), KEEPS.format("Sequential", "")),
    "GRU with a memory": (
        lambda: Recurrent(nn.GRU, "attribute"),
        KEEPS.format("Recurrent", r" \(it changes state\)"),
    ),
    "LSTM with a memory": (
        lambda: Recurrent(nn.LSTM, "attribute"),
        KEEPS.format("Recurrent", r" \(it changes state\)"),
    ),
    "LSTM with a memory by size": (
        lambda: Recurrent(nn.LSTM, "dictionary"),
        KEEPS.format("Recurrent", r" \(it changes states\)"),
    ),
    "schedule": (
        lambda: Calling(counting, calls=0),
        KEEPS.format("Calling", r" \(it changes calls\)"),
    ),
    "mean for evaluation": (
        lambda: Calling(running, mean=ZEROS),
        KEEPS.format("Calling", r" \(it changes mean\)"),
    ),
    "weights that shrink": (
        lambda: Calling(shrinking),
        KEEPS.format("Calling", r" \(it changes line.weight\)"),
    ),
    "chance of Python": (lambda: Calling(of_python), KEEPS.format("Calling", "")),
    "chance of NumPy": (lambda: Calling(of_numpy), KEEPS.format("Calling", "")),
    "chance of its own": (
        lambda: Calling(of_its_own, chance=torch.Generator()),
        KEEPS.format("Calling", ""),
    ),
    "two outputs in training": (
        lambda: Calling(lambda m, outputs: (outputs, outputs) if m.training else outputs),
        r"net: fails on data of shape \(4,\): in training mode it gives a tuple, no tensor",
    ),
}


def trained_once(module: nn.Module) -> list[float]:
    """The loss before and after a round from the module's own parameters."""
    fed = fm.Federation.from_datasets([(X, Y)], validation=(X, Y), test=(X, Y))
    net, local = fm.Model(module), fm.LocalSGD(batch=30, lr=0.3)
    theta = net.theta().float()
    return fm.train(fed, net, fm.FedAvg(), rounds=1, theta=theta, local=local).loss.tolist()


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_a_module_that_theta_cannot_stand_for(make, said) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        trained_once(make())


AS_THEY_ARE = {
    "lazy, in use": lambda: in_use(lazy()),
    "made for inference": of_inference,
    "half precision": lambda: stack().half(),
    "brain floats in part": lambda: nn.Sequential(nn.Linear(4, 5).bfloat16(), nn.Linear(5, 3)),
    "orthogonal": lambda: orthogonal(nn.Linear(4, 3)),
    "LSTM": lambda: Recurrent(nn.LSTM, "nowhere"),
    "parallel in part": lambda: nn.Sequential(nn.DataParallel(nn.Linear(4, 3)), nn.Tanh()),
    "symbolically traced": lambda: torch.fx.symbolic_trace(stack()),
}


@pytest.mark.parametrize("make", AS_THEY_ARE.values(), ids=AS_THEY_ARE)
def test_a_module_as_it_is_trains_as_by_hand(make) -> None:
    torch.manual_seed(0)
    module = make()
    found = trained_once(module)
    alone = copy.deepcopy(module).float()
    own = [nn.Parameter(p.detach().clone()) for p in alone.parameters()]  # also after inference
    names = [name for name, _ in alone.named_parameters()]

    def loss(parameters: Any) -> torch.Tensor:
        named = dict(zip(names, parameters, strict=True))
        return nn.functional.cross_entropy(torch.func.functional_call(alone, named, X), Y)

    slopes = torch.autograd.grad(loss(own), own)
    after = loss([p - 0.3 * slope for p, slope in zip(own, slopes, strict=True)])
    assert found == pytest.approx([loss(own).item(), after.item()], abs=1e-5)


class Fast(nn.Linear):
    """In brain floats, by itself."""

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x)


def test_a_module_that_computes_in_brain_floats() -> None:
    fast, line = Fast(4, 3), nn.Linear(4, 3)
    line.load_state_dict(fast.state_dict())
    assert trained_once(fast) == pytest.approx(trained_once(line), abs=0.01)


REPARAMETRISED = {
    "pruned": lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
    "weight_norm": weight_norm,
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("way", REPARAMETRISED)
def test_reparametrised_layers(way) -> None:
    layer = REPARAMETRISED[way](nn.Linear(4, 3))
    theta = parameters_to_vector(layer.parameters()).detach()
    want = nn.functional.cross_entropy(layer(X), Y).item()

    def loss() -> float:
        fed = fm.Federation.from_datasets([(X, Y)], validation=(X, Y), test=(X, Y))
        net = fm.Model(layer)
        return fm.train(fed, net, fm.FedAvg(), rounds=1, theta=theta).loss[0].item()

    or_told(rf"prun|{way}|\bhook", loss, want)


class Words(nn.Module):
    """A text's mean word, then a line; with ``cast`` it makes whole numbers of what it is given."""

    def __init__(self, cast: bool) -> None:
        super().__init__()
        self.cast, self.word, self.line = cast, nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.line(self.word(x.long() if self.cast else x).mean(1))


@pytest.mark.parametrize("way", ["round_game", "score"])
def test_tokens(way) -> None:
    texts = torch.arange(180).view(30, 6) % 20

    def values(cast: bool) -> list[float]:
        net = fm.Model(Words(cast))
        theta, updates = net.init(0), 0.1 * numbers(3, net.P, seed=1).float()
        if way == "score":
            given = {"theta": theta, "updates": updates}
            return list(scored(given, net=net, validation=(texts, Y)).values())
        game = fm.round_game(net, theta, updates, texts, Y, metric="loss")
        return fm.exact(game).values.tolist()

    or_told(r"write x\.long\(\) in its forward", lambda: values(cast=False), values(cast=True))
    assert any(values(cast=True))


def test_a_call_in_inference_mode() -> None:
    fed = fm.Federation.from_datasets([(X, Y)], validation=(X, Y), test=(X, Y))
    with torch.inference_mode(), pytest.raises(ValueError, match=r"write torch\.no_grad\(\)"):
        fm.train(fed, NET, fm.FedAvg(), rounds=1)


def test_sparse_gradients() -> None:
    def losses(sparse: bool) -> list[float]:
        module = Words(cast=True)
        module.word.sparse = sparse
        texts = torch.arange(180).view(30, 6) % 20
        samples = {"validation": (texts, Y), "test": (texts, Y)}
        fed = fm.Federation.from_datasets([(texts, Y)], **samples)
        net = fm.Model(module)
        return fm.train(fed, net, fm.FedAvg(), rounds=2, theta=net.init(0)).loss.tolist()

    assert losses(sparse=True) == pytest.approx(losses(sparse=False), abs=1e-6)


# Records of rounds: the same numbers in the form that the package reads are right


def test_frames_of_pandas() -> None:
    frame = pd.DataFrame(X.numpy()).astype("Float64")
    or_told(r"\.tolist\(\)|\.astype\(", lambda: scored(ROUND, validation=(frame, Y)), scored(ROUND))


SPARSE = {
    "torch": lambda updates: updates.to_sparse(),
    "scipy": lambda updates: scipy.sparse.csr_array(updates.numpy()),
}


@pytest.mark.parametrize("form", SPARSE.values(), ids=SPARSE)
def test_sparse_updates(form) -> None:
    kept = torch.where(UPDATES.abs() < 0.7, 0, UPDATES)
    want = scored(ROUND | {"updates": kept})
    or_told(r"\bsparse updates\b", lambda: scored(ROUND | {"updates": form(kept)}), want)


def by_name(vectors: torch.Tensor) -> dict[str, torch.Tensor]:
    """Vectors [..., P] as a dictionary of parameters [..., *shape]."""
    return dict(zip(NET.shapes, NET.split(vectors), strict=True))


def line(vector: torch.Tensor) -> nn.Module:
    """A module of such parameters."""
    module = nn.Sequential(nn.Linear(4, 3))
    vector_to_parameters(vector, module.parameters())
    return module


FORMS = {
    "a stack a parameter": ROUND | {"updates": by_name(UPDATES)},
    "models, and what a norm counts": {
        "theta": by_name(THETA),
        "models": by_name(THETA + UPDATES) | {"num_batches_tracked": [1, 2, 3]},
    },
    "a list of state dicts": {"theta": THETA, "updates": [*map(by_name, UPDATES)]},
    "models as modules": {"theta": line(THETA), "models": [line(THETA + one) for one in UPDATES]},
    "sizes and names": ROUND | {"sizes": [1, 1, 1], "clients": [0, 1, 2], "t": 3},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_round_of_named_parameters(form, tmp_path) -> None:
    torch.save(form, tmp_path / "round_001.pt")
    files = [] if isinstance(form["theta"], nn.Module) else [*tmp_path.iterdir()]
    for given in (form, *files):
        assert scored(given) == pytest.approx(scored(ROUND), abs=1e-6)


def test_a_round_of_rows_alone(tmp_path) -> None:
    np.save(tmp_path / "round_001.npy", UPDATES.numpy())
    torch.save([*map(by_name, UPDATES)], tmp_path / "round_001.pt")
    for given in (UPDATES, [*UPDATES], *tmp_path.iterdir()):
        assert scored(given, theta=THETA) == scored(ROUND)


class Counted(nn.Module):
    """A line with buffers before, within and after it, of which a server keeps track as well."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.ones(4))
        self.line = nn.Linear(4, 3)
        self.line.register_buffer("scale", torch.ones(3))
        self.register_buffer("seen", torch.tensor(7))

    def forward(self, x):
        return self.line(x + self.shift - 1) * self.line.scale


def test_lists_of_all_that_a_state_dict_holds() -> None:
    net = fm.Model(Counted())
    held = net.module.state_dict()

    def listed(vector: torch.Tensor) -> list[torch.Tensor]:
        return [*(held | dict(zip(net.shapes, NET.split(vector), strict=True))).values()]

    whole = {"theta": listed(THETA), "updates": [*map(listed, UPDATES)]}
    assert scored(whole, net=net) == scored(ROUND, net=net)
    with pytest.raises(ValueError, match=r"or all of module.state_dict\(\) in its order, got 4$"):
        scored(whole | {"theta": whole["theta"][1:]}, net=net)


LACKING = {name: stack for name, stack in by_name(UPDATES).items() if "bias" not in name}
SAID = {
    "lacks the parameters 0.bias, has .*0.weight.*; freeze": ROUND | {"updates": LACKING},
    "updates: expected as many rows": ROUND | {"updates": LACKING | {"0.bias": torch.ones(2, 3)}},
    r"lacks the parameters 0.weight, 0.bias, has \['a', 'b'\]$": ROUND
    | {"updates": {"a": UPDATES[0], "b": UPDATES[1]}},
    r"models\[0\]: holds .*'9.weight'.*, which net has not": {
        "theta": THETA,
        "models": by_name(THETA + UPDATES) | {"9.weight": torch.ones(3, 2)},
    },
    "updates: expected a list of the clients' state dicts, .* got one by": ROUND
    | {"updates": {name: by_name(row) for name, row in zip("abc", UPDATES, strict=True)}},
    "updates: holds whole rounds; give one record a round": {"updates": [ROUND, ROUND]},
    r"updates: its columns, .* are not in their order": ROUND
    | {"updates": pd.DataFrame(UPDATES.numpy()).iloc[:, ::-1]},
    r"updates: expected an array \[m, P\], got Tensor \[3, 5, 3\]": ROUND
    | {"updates": UPDATES.view(3, 5, 3)},
}


@pytest.mark.parametrize("said", SAID)
def test_what_is_no_round_of_named_parameters(said) -> None:
    with pytest.raises(ValueError, match=rf"^updates\[0\]: .*{said}"):
        scored(SAID[said])


def test_ids_of_pandas_are_followed() -> None:
    """A frame's index names the clients, and a column of sizes finds them."""
    frame = pd.DataFrame(UPDATES.numpy(), index=["Ulm", "Bonn", "Graz"])
    sizes = pd.Series({"Graz": 300, "Ulm": 10, "Bonn": 20})
    given = {"updates": UPDATES, "clients": ["Ulm", "Bonn", "Graz"], "sizes": [10, 20, 300]}
    want = scored(given, theta=THETA)
    assert scored({"updates": frame, "sizes": sizes}, theta=THETA) == want
    assert list(scored(frame, theta=THETA)) == ["Ulm", "Bonn", "Graz"]
    assert len(set(want.values())) == 3


FILES = {
    "r.pt": (lambda path: torch.save(NET.module, path), r"torch\.save .* it holds objects, such"),
    "r.pth": (lambda path: torch.save({"a": 1}, path), r"unknown keys \['a'\]; known are t, theta"),
    "r.pkl": (lambda path: path.write_bytes(pickle.dumps(ROUND)), r"or a pickle; write numpy\.s"),
    "old.pt": (
        lambda path: torch.save(ROUND, path, _use_new_zipfile_serialization=False),
        r"or a pickle; write numpy\.savez\(path, updates=\.\.\.\)",
    ),
    "r.safetensors": (lambda path: path.write_bytes(b"8{}"), r"\*\*safetensors\.numpy\.load_file"),
    "r.npz": (
        lambda path: np.savez(path, clients=np.array(["a"], object), updates=UPDATES[:1]),
        r"clients: cannot be read \(Python objects; write numpy\.array\(values\.tolist\(\)\)\)$",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_round(name, tmp_path) -> None:
    write, said = FILES[name]
    write(tmp_path / name)
    with pytest.raises(ValueError, match=rf"^updates\[0\]: .*{name}.*{said}"):
        scored(tmp_path / name)


NOBODY = {
    "no updates": {"updates": []},
    "an array without rows": {"updates": torch.zeros(0, NET.P)},
    "no models": {"models": []},
    "clients and sizes, too": {"updates": [], "clients": [], "sizes": []},
    "an array of arrays": {"updates": np.array([]), "clients": np.array([]), "sizes": np.array([])},
    "a model, too": {"theta": THETA + 1, "updates": []},
    "no names": {"updates": {}},
    "stacks without rows": {
        "models": {"0.bias": torch.zeros(0, 3), "0.weight": np.ones((0, 3, 4))}
    },
}


@pytest.mark.parametrize("silent", NOBODY.values(), ids=NOBODY)
def test_a_round_in_which_nobody_replied(silent) -> None:
    for rounds in ([ROUND, silent], [silent, ROUND], [ROUND, silent, ROUND]):
        assert scored(*rounds) == scored(*(one for one in rounds if one is ROUND))


def test_a_log_without_a_round() -> None:
    for rounds in ([], [{"updates": []}] * 2):
        with pytest.raises(ValueError, match=r"^updates: expected a round.*, got no rounds$"):
            scored(*rounds)


def turned(array: np.ndarray, axis: int = 0) -> np.ndarray:
    """The same numbers, seen from the end."""
    return np.flip(np.flip(array, axis).copy(), axis)


def datasets(x: Any, y: Any) -> list[float]:
    fed = fm.Federation.from_datasets([(x, y)], validation=(X, Y), test=(X, Y))
    return [*fed.x.flatten().tolist(), *fed.y.flatten().tolist()]


BACKWARDS = {
    "inputs, mirrored": lambda turn: datasets(turn(X.numpy(), 1), Y),
    "labels": lambda turn: datasets(X, turn(Y.numpy())),
    "updates": lambda turn: [*scored(ROUND | {"updates": turn(UPDATES.numpy())}).values()],
    "numbers to compare": lambda turn: fm.spearman(turn(np.arange(4.0)), [4.0, 1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("call", BACKWARDS.values(), ids=BACKWARDS)
def test_arrays_seen_from_the_end(call) -> None:
    assert call(turned) == call(lambda array, axis=0: array)


# Games go to other processes


def squares(coalitions: torch.Tensor) -> torch.Tensor:
    return coalitions.double().sum(1) ** 2


def retraining() -> fm.Game:
    fed = fm.Federation.from_datasets([(X, Y)] * 2, validation=(X, Y), test=(X, Y))
    return fm.retraining_game(fed, NET, 1)


GAMES = {
    "glove": lambda: fm.glove(2, 3),
    "additive": lambda: fm.additive([1.0, -2.0]),
    "quadratic": lambda: fm.quadratic(UPDATES, [1, 2, 3], UPDATES[0], torch.eye(NET.P)),
    "cosine": lambda: fm.cosine_game(UPDATES),
    "round": lambda: fm.round_game(NET, THETA, UPDATES, X, Y),
    "round, silent": lambda: fm.round_game(NET, THETA, UPDATES, X, Y, absent="silent"),
    "retraining": retraining,
    "a function of one's own": lambda: fm.Game(3, squares),
}


@pytest.mark.parametrize("make", GAMES.values(), ids=GAMES)
def test_a_game_can_be_pickled(make) -> None:
    sent = pickle.loads(pickle.dumps(make()))
    assert fm.exact(sent).values.tolist() == fm.exact(make()).values.tolist()


def test_a_game_goes_to_another_process() -> None:
    fresh = multiprocessing.get_context("spawn")  # as everywhere on Windows and macOS
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        found = pool.submit(fm.exact, fm.glove(2, 3)).result()
    assert found.values.tolist() == fm.exact(fm.glove(2, 3)).values.tolist()


# Words that go elsewhere


@pytest.mark.parametrize("words", ["--help", "data list"])
def test_a_reader_who_has_left(words) -> None:
    """As ``| head -0``: the other end of the pipe is closed before a line is written."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "fedlab_mini", *words.split()],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.stderr == ""


BESIDE = {
    "what a Mac leaves on a stick": ("._sheet.ipynb", b"\x00\x05\x16\x07\x00\x02Mac OS X\xb0\xff"),
    "an empty file": ("Untitled.ipynb", b""),
    "an unfinished merge": ("merged.ipynb", b"<<<<<<< HEAD\n{}\n=======\n"),
    "a list": ("list.ipynb", b"[]"),
    "no metadata": ("none.ipynb", b"{}"),
    "half a sheet": ("half.ipynb", b'{"metadata": {"otter": {"assignment_name": "04_cgsv"}}}'),
    "brackets": ("deep.ipynb", b"[" * 100_000),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # otter's own
@pytest.mark.parametrize(("name", "content"), BESIDE.values(), ids=BESIDE)
def test_a_sheet_beside_other_files(name, content, tmp_path, monkeypatch) -> None:
    sheet = (ROOT / "notebooks/labs/student/04_cgsv.ipynb").read_text(encoding="utf-8")
    (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    first = "".join(json.loads(sheet)["cells"][0]["source"])
    with pytest.raises(FileNotFoundError, match="no sheet of 04_cgsv in"):
        exec(first, names)
    (tmp_path / "lab 4 [Łódź].ipynb").write_text(sheet, encoding="utf-8")
    exec(first, names)
    for question in json.loads(sheet)["metadata"]["otter"]["tests"]:
        assert names["grader"].check(question, global_env={}).name == question


LABELS = ("cost $5 to $9", r"A$\foo B$", r"\$5 and $6$ of <b>a_b</b> &amp; 50%")
LINES = torch.rand(3, 2)
FIGURES = {
    "curves": lambda label: plots.curves({label: LINES, "FedAvg": LINES}),
    "a title": lambda label: plots.curves({"FedAvg": LINES}, title=label),
    "dots": lambda label: plots.dots({label: [0.1, 0.2], "FedAvg": [0.2, 0.4]}, xlabel="tau"),
    "an axis": lambda label: plots.dots({"FedAvg": [0.2, 0.4]}, xlabel=label),
    "a line": lambda label: plots.dots({"CGSV": [0.2]}, xlabel="tau", reference={label: 0.1}),
    "scores": lambda label: plots.scores({label: LINES[:, 0], "FedAvg": LINES[:, 1]}),
    "a panel": lambda label: plots.panels({label: {"CGSV": LINES}}, x=[1, 100], ylabel="tau"),
    "panels": lambda label: plots.panels({"one": {label: LINES}}, x=[1, 100], ylabel="tau"),
    "confusion": lambda label: plots.confusion({"a": torch.eye(2)}, rows=label),
}


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
@pytest.mark.parametrize("label", LABELS)
def test_a_name_is_no_formula(label, draw) -> None:
    with plt.rc_context({"svg.fonttype": "none"}), io.StringIO() as drawn:
        draw(label).savefig(drawn, format="svg")
        texts = re.findall(r"<text [^>]*>(.*?)</text>", drawn.getvalue(), re.DOTALL)
    assert any(html.unescape(text) == label for text in texts)
    assert not any("mathdefault" in text for text in texts)  # powers of ten are formulas still
