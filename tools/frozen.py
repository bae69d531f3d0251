"""Do training runs, games and scores still give the same bytes? A change of form may change none.

    python tools/frozen.py                     one hash per result
    python tools/frozen.py --against COMMIT    what differs from that commit, on this machine

The last digits depend on the processor, so no hash is stored: both sides are computed here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import fedlab_bench  # noqa: F401  (makes the bench's scores known by name)
import fedlab_mini as fm
from fedlab_mini.judge.registry import SCORES

ROOT = Path(__file__).resolve().parents[1]
LOCAL = fm.LocalSGD(epochs=2, batch=16, lr=0.2)


def strategies() -> dict[str, Any]:
    """Every strategy, as it runs here and as published."""
    policies = {"FRCCE": fm.FRCCE, "FLDVE": fm.FLDVE, "DVRLRemoval": fm.DVRLRemoval}
    by_kind = {
        name: {"": kind(), "as published": kind(literal=True)} for name, kind in policies.items()
    }
    by_kind |= {
        "FedAvg": {
            "": fm.FedAvg(),
            "three": fm.FedAvg(per_round=3),
            "uniform": fm.FedAvg(weighting="uniform"),
        },
        "CGSV": {
            "": fm.CGSV(),
            "as published": fm.CGSV(literal=True),
            "mean": fm.CGSV(server_lr="mean"),
        },
        "SFedAvg": {
            "": fm.SFedAvg(3),
            "as published": fm.SFedAvg(3, literal=True),
            "by class": fm.SFedAvg(3, by_class=True),
        },
        "LabelStandardisation": {
            "": fm.LabelStandardisation(3, window=2),
            "as published": fm.LabelStandardisation(3, literal=True),
        },
    }
    return {
        f"{kind} {form}".strip(): one
        for kind, forms in by_kind.items()
        for form, one in forms.items()
    }


class Own(nn.Module):
    """A class of one's own, with a buffer that does not train."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 6), nn.Linear(6, 10)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.scale * self.first(x)))


def networks() -> dict[str, Any]:
    """Networks whose layers take different ways through the engine."""
    image = nn.Unflatten(1, (1, 8, 8))
    cnn = nn.Sequential(image, nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    group = nn.Sequential(
        image, nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(144, 10)
    )
    layer = nn.Sequential(nn.Linear(64, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 10))
    dropout = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 10))
    modules = {"cnn": cnn, "GroupNorm": group, "LayerNorm": layer, "dropout": dropout, "own": Own()}
    return {name: fm.Model(module) for name, module in modules.items()} | {
        "logistic": fm.logistic(64, 10)
    }


def trained(fed: Any, net: Any, strategy: Any, rounds: int = 4) -> list[Tensor]:
    """The model and the scores after a few rounds."""
    history = fm.train(fed, net, strategy, rounds=rounds, local=LOCAL, seed=3, theta=net.init(3))
    return [history.theta, history.scores]


def results() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name and computation of each result."""
    data = fm.load("digits")
    bad = {1: fm.FlipLabels(0.5), 4: fm.attacks.FreeRide()}
    fed = fm.federation(data, clients=6, corrupt=bad, samples=240, validation=90, test=90, seed=5)
    skewed = fm.federation(data, clients=6, split=fm.DirichletLabels(0.3), samples=240, seed=5)
    net = fm.mlp(64, 8, 10)
    for name, strategy in strategies().items():
        yield f"train, {name}", partial(trained, fed, net, strategy)
    yield "train, label skew", partial(trained, skewed, net, fm.FedAvg())
    for name, model in networks().items():
        yield f"train, {name}", partial(trained, fed, model, fm.CGSV(), 2)
    for name, case in {
        "clinics": fm.six_clinics(1),
        "hospitals": fm.four_hospitals(seed=1),
    }.items():
        model = fm.mlp(case.x.shape[1], 8, int(case.y.max()) + 1)
        yield f"train, {name}", partial(trained, case, model, fm.FedAvg(), 2)

    theta = fm.train(fed, net, fm.FedAvg(), rounds=2, local=LOCAL, seed=3).theta
    updates = fm.local_updates(fed, net, theta, local=LOCAL, seed=3, t=3)
    estimators = {
        "exact": fm.exact,
        "Banzhaf": fm.banzhaf,
        "alone": fm.alone,
        "leave one out": fm.leave_one_out,
        "permutation": partial(fm.permutation, samples=20),
        "antithetic": partial(fm.permutation, samples=20, antithetic=True),
        "truncated": partial(fm.truncated, samples=20, tolerance=0.01),
        "guided": partial(fm.guided, samples=20),
        "kernel": partial(fm.kernel, budget=40),
    }
    for metric in ("accuracy", "loss"):
        for absent in ("left out", "silent"):
            game = partial(
                fm.round_game, net, theta, updates, *fed.validation, metric=metric, absent=absent
            )
            for name, estimator in estimators.items():
                yield f"{name} of a round, {metric}, {absent}", partial(valued, game, estimator)
    retraining = partial(fm.retraining_game, fed, net, 2, LOCAL)
    yield "exact, retrained", partial(valued, retraining, fm.exact)
    part = torch.rand(3, 2, 6, generator=torch.Generator().manual_seed(2)).round(decimals=1)
    yield "simulate", lambda: fm.simulate(fed, net, part, local=LOCAL, seed=2)
    yield "FedCCEA", lambda: fm.fedccea(fed, net, 20, 2, LOCAL, steps=50).index

    records = [
        {"theta": theta, "updates": updates},
        {"theta": theta, "updates": updates.flip(0) / 2},
    ]
    for name in SCORES:
        yield (
            f"score, {name}",
            lambda name=name: fm.score(records, net=net, validation=fed.validation, methods=[name])[
                name
            ].to_numpy(copy=True),
        )


def valued(game: Callable[[], Any], estimator: Callable[[Any], Any]) -> Tensor:
    """The values of a new game, which has stored no worth."""
    return estimator(game()).values


def hashes() -> dict[str, str]:
    """One hash for each result; for a result that ends in an error, the error."""
    torch.set_num_threads(1)
    found = {}
    for name, compute in results():
        try:
            result = compute()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
            continue
        digest = hashlib.sha256()
        for part in result if isinstance(result, list) else [result]:
            array = torch.as_tensor(part).detach().contiguous().numpy()
            digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
        found[name] = digest.hexdigest()[:16]
    return found


def hashes_of(commit: str) -> dict[str, str]:
    """The same results by the packages of another commit, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        tree = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*tree, "add", "--detach", "--force", "--quiet", folder, commit], check=True)
        try:
            given = os.environ | {"PYTHONPATH": folder}
            command = [sys.executable, str(Path(__file__).resolve())]
            done = subprocess.run(
                command, cwd=folder, env=given, check=True, stdout=subprocess.PIPE
            )
        finally:
            subprocess.run([*tree, "remove", "--force", folder], check=True)
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit")
    given = parser.parse_args()
    here = hashes()
    if not given.against:
        print(json.dumps(here, indent=1))
        return 0
    there = hashes_of(given.against)
    differ = [name for name in here if here[name] != there.get(name)]
    for name in differ:
        print(f"{name}: {there.get(name, 'missing')} became {here[name]}")
    print(f"{len(here) - len(differ)} of {len(here)} results have the same bytes")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
