"""What people bring, with the right answer of each; most of it the package does not read yet.

A marked case is expected to fail, for the reason that stands beside it and with the error that is
met today. Who mends one takes its mark away. Where a thing may also be refused, ``or_told`` says
which words the refusal owes: a raw error of another library, or words that point elsewhere, is
none.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from helpers import numbers
from torch import nn
from torch.nn.utils import parameters_to_vector, prune

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


@missing("layers that find their shape at the first batch", RuntimeError)
def test_lazy_layers() -> None:
    fed = fm.Federation.from_datasets([(X, Y)] * 2, validation=(X, Y), test=(X, Y))
    trained = lambda net: fm.train(fed, net, fm.FedAvg(), rounds=1).theta.numel()  # noqa: E731
    or_told("lazy", lambda: trained(fm.Model(lazy())), fm.mlp(4, 5, 3).P)


def test_pruned_layers() -> None:
    layer = prune.l1_unstructured(nn.Linear(4, 3), "weight", 0.5)
    theta = parameters_to_vector(layer.parameters()).detach()
    want = nn.functional.cross_entropy(layer(X), Y).item()

    def loss() -> float:
        fed = fm.Federation.from_datasets([(X, Y)], validation=(X, Y), test=(X, Y))
        net = fm.Model(layer)
        return fm.train(fed, net, fm.FedAvg(), rounds=1, theta=theta).loss[0].item()

    or_told(r"prun|\bhook", loss, want)


class Words(nn.Module):
    """A text's mean word, then a line; with ``cast`` it makes whole numbers of what it is given."""

    def __init__(self, cast: bool) -> None:
        super().__init__()
        self.cast, self.word, self.line = cast, nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.line(self.word(x.long() if self.cast else x).mean(1))


@missing("whole numbers that stay whole, for an embedding", ValueError)
def test_tokens() -> None:
    texts = torch.arange(180).view(30, 6) % 20

    def values(cast: bool) -> list[float]:
        net = fm.Model(Words(cast))
        theta, updates = net.init(0), 0.1 * numbers(3, net.P, seed=1).float()
        return fm.exact(fm.round_game(net, theta, updates, texts, Y)).values.tolist()

    assert values(cast=False) == values(cast=True)


# Records of rounds: the same numbers in the form that the package reads are right


@missing("updates that are stored sparse", TypeError)
def test_sparse_updates() -> None:
    kept = torch.where(UPDATES.abs() < 0.7, 0, UPDATES)
    want = scored(ROUND | {"updates": kept})
    or_told(r"\bsparse updates\b", lambda: scored(ROUND | {"updates": kept.to_sparse()}), want)


@missing("a word on files of torch.save", ValueError)
def test_a_round_that_torch_saved(tmp_path) -> None:
    torch.save(ROUND, tmp_path / "round_001.pt")
    or_told(r"torch\.save", lambda: scored(tmp_path / "round_001.pt"), scored(ROUND))


NOBODY = {
    "no updates": {"updates": []},
    "an array without rows": {"updates": torch.zeros(0, NET.P)},
}


@pytest.mark.parametrize("silent", NOBODY.values(), ids=NOBODY)
@missing("a round in which nobody replied", TypeError, ValueError)
def test_a_round_in_which_nobody_replied(silent) -> None:
    assert scored(ROUND, silent) == scored(ROUND)


@missing("arrays with negative strides", TypeError, ValueError)
def test_arrays_seen_from_the_end() -> None:
    turned = np.flip(np.flip(UPDATES.numpy(), 0).copy(), 0)
    assert scored(ROUND | {"updates": turned}) == scored(ROUND)


# Games go to other processes

UNSENT = missing("games that can be pickled", AttributeError, pickle.PicklingError)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: fm.glove(2, 3), marks=UNSENT, id="glove"),
        pytest.param(lambda: fm.round_game(NET, THETA, UPDATES, X, Y), id="round"),
    ],
)
def test_a_game_goes_to_another_process(make) -> None:
    sent = pickle.loads(pickle.dumps(make()))
    assert fm.exact(sent).values.tolist() == fm.exact(make()).values.tolist()


# What lies beside a sheet, and names in figures


BESIDE = {
    "what a Mac leaves on a stick": ("._sheet.ipynb", b"\x00\x05\x16\x07\x00\x02Mac OS X\xb0\xff"),
    "an empty file": ("Untitled.ipynb", b""),
    "no metadata": ("none.ipynb", b"{}"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # otter's own
@pytest.mark.parametrize(("name", "content"), BESIDE.values(), ids=BESIDE)
@missing("a lab sheet that looks past other files", ValueError, TypeError, KeyError)
def test_a_sheet_beside_other_files(name, content, tmp_path, monkeypatch) -> None:
    sheet = next((ROOT / "notebooks/labs/student").glob("*.ipynb")).read_text(encoding="utf-8")
    (tmp_path / "sheet.ipynb").write_text(sheet, encoding="utf-8")
    (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec("".join(json.loads(sheet)["cells"][0]["source"]), names)
    for question in json.loads(sheet)["metadata"]["otter"]["tests"]:
        assert names["grader"].check(question, global_env={}).name == question


@pytest.mark.parametrize("label", ["cost $5 to $9", r"A$\foo B$"])
@missing("names with two dollar signs, drawn as they are written", AssertionError, ValueError)
def test_a_name_is_no_formula(label) -> None:
    with plt.rc_context({"svg.fonttype": "none"}), io.StringIO() as drawn:
        plots.dots({label: [0.1, 0.2], "FedAvg": [0.2, 0.4]}, xlabel="tau").savefig(
            drawn, format="svg"
        )
        texts = re.findall(r"<text [^>]*>(.*?)</text>", drawn.getvalue(), re.DOTALL)
    assert label in texts
