"""Values of the right kind that cannot be meant, by public name and argument.

Values of a wrong kind are tried by ``bad_input``. Where the refusal names another argument, as when
two do not fit each other, the key says both: the one that is replaced and the one that is named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from bad_calls import NET
from torch import full, nn, ones, tensor, zeros

import fedlab_mini as fm
from fedlab_mini.worlds.attacks import Replay, Scale

NAN, INF = math.nan, math.inf
Table = dict[str, dict[str | tuple[str, str], Sequence[Any]]]
SHARE = (1.1, -0.1, NAN)
METRIC, ON = ("f1",), ("train",)
NO_BATCH = [nn.BatchNorm1d(2, track_running_stats=False), nn.Linear(2, 2, dtype=torch.complex64)]
NO_BATCH += [nn.InstanceNorm1d(2, track_running_stats=True), nn.Sequential(nn.BatchNorm1d(2))]
FLIP = fm.FlipLabels(0.1)


def dealing(groups: Any) -> Any:
    """A split that deals these groups, whatever is asked."""
    return lambda y, clients, generator: groups


WORLDS: Table = {
    "Dataset": {
        "x": (zeros(6), zeros(0, 2), full((6, 4), NAN), full((6, 4), INF)),
        "y": (zeros(5).long(), tensor([0, 1, 2, 3, 0, 0]), tensor([0, 1, 2, -1, 0, 0])),
        "classes": (0,),
        "labels": (("a",),),
        "shape": ((1, 2, 3), (1, 2), (1, 1.0, 4)),
        "groups": ([0, 0, 1, 0, 0, 0], [0, 0]),
        "missing": (zeros(6, 1), zeros(2, 1).bool()),
    },
    "Dataset.subset": {"index": ([], [60], [-1], [0.5], [[0, 1]], zeros(60).bool())},
    "federation": {
        "clients": (0, -3, 5000),
        "validation": (0, 60),
        "test": (-1,),
        "samples": (2, 99999),
        "split": (fm.IID, *map(dealing, ([torch.arange(9)], None, [[0.5]] * 3, [[0]] * 3))),
        "corrupt": (
            {10: FLIP},
            {-1: FLIP},
            {0: []},
            {0: [Scale(2.0), Replay()]},
        ),
    },
    "FlipLabels": {"share": SHARE},
    "RelabelAs": {"share": (2,), "target": (-1, 5)},
    "DeleteWords": {"share": (-1,), "messages": (1.5,), "form": ("bag",)},
    "Backdoor": {"target": (9,), "share": (3.0,), "shape": ((8, 8), (1, 28, 28)), "size": (9,)},
    "SwapLabels": {"pairs": ([], [(1, 2), (2, 3)], [1, 2], [(0, 7)])},
    "SignFlip": {"strength": (0.0,)},
    "FreeRide": {"noise": (-1.0,)},
    "Scale": {"factor": (INF,)},
    "DirichletLabels": {"alpha": (0, -1.0), "floor": (0,)},
    "DirichletSizes": {"alpha": (NAN, INF, 1e-320), "floor": (0,)},
    "ByClass": {"classes_per_client": (0, 11)},
    "SortedShards": {"shards_per_client": (0,)},
    "Federation": {
        "x": (full((18, 4), NAN),),
        ("y", "x, y"): (full((18,), 3),),
        "sizes": ([17, 0, 1], [6, 6, 5]),
        "truth": ({3: "bad"},),
        "attacks": ({3: Scale(2.0)},),
        "unusable": ({0, 1, 2}, {3}),
        "noise": (zeros(2),),
        "names": (("a", "b"), ("a", "b", "a"), ("a", "b", "c", "d")),
    },
    "Federation.from_datasets": {
        "datasets": (
            [],
            [(ones(6, 4), zeros(6).long()), (ones(6, 5), zeros(6).long())],
            [(ones(6, 4), zeros(6).long()), (ones(6, 4).double(), zeros(6).long())],
            [(ones(6, 4), -ones(6).long())],
            [(full((6, 4), NAN), zeros(6).long()), (full((1, 4), INF), zeros(1).long())],
        ),
        "validation": ((full((6, 4), NAN), zeros(6).long()),),
        "test": ((ones(6, 9), zeros(6).long()),),
        "classes": (2,),
        "truth": ({1: "no such client"},),
    },
    "Federation.client": {"k": (3, -1)},
    "Federation.server": {("part", "on"): ("training",)},
    "six_clinics": {"alder": (149, 900), "damson": (1.5,)},
    "four_hospitals": {"judged_by": ("Zurich",)},
    "noisy_digits": {"noise_set": (0, 4)},
    "irrelevant_digits": {"data": (fm.Dataset(ones(90, 4), torch.arange(90) % 9, 9),)},
}

ENGINE: Table = {
    "mlp": {"widths": ([6], [6, 0, 3])},
    "logistic": {"classes": (-1,)},
    "cnn": {"shape": ((1, 3, 3), (1, 28)), "hidden": (0,), "channels": ((4, 0),)},
    "Model": {"module": (nn.ReLU(), *NO_BATCH)},
    "Model.evaluate": {
        "thetas": (zeros(NET.P), zeros(1, 14)),
        "y": (full((9,), 3), zeros(8).long()),
    },
    "Model.predict": {"theta": (zeros(5),)},
    "LocalSGD": dict.fromkeys(("epochs", "batch", "steps", "decay", "decay_every", "lr"), (0, -1)),
    "train": {"rounds": (0,), "theta": (zeros(3), full((NET.P,), NAN))},
    "local_updates": {"clients": ([0, 0], [3], [-1], [[0, 1]])},
    "simulate": {
        "participation": (
            *(ones(2), ones(1, 1, 2), ones(0, 1, 3), ones(1, 0, 3)),
            *(full((1, 1, 3), share) for share in (1.01, -0.01, NAN, 2)),
        ),
        "metric": METRIC,
        "on": ON,
        "theta": (zeros(2), full((NET.P,), INF)),
        "momentum": (1, -0.1, NAN),
    },
}

GAMES: Table = {
    "Game": {"n": (0, -1, 10**400), "shapley": ([1.0],), "client_epochs": (-1.0,)},
    "additive": {"w": ([], [1.0, NAN], ones(2, 2))},
    "glove": {"left": (0,), "right": (-1,)},
    "quadratic": {"updates": (ones(3),), "H": (ones(3, 3), torch.arange(4.0).view(2, 2))},
    **{name: {"game": (fm.additive(range(25)),)} for name in ("exact", "least_core", "nucleolus")},
    "beta_shapley": {"alpha": (0,)},
    "permutation": {"samples": (0,)},
    "truncated": {"samples": (0,), "tolerance": (-0.1, NAN)},
    "guided": {"samples": (-1,), "tolerance": (INF,)},
    "kernel": {"budget": (5, 0)},
    "banzhaf": {"samples": (1,)},
    "round_game": {
        "theta": (zeros(5), full((NET.P,), INF)),
        "updates": (zeros(3, 5), zeros(NET.P), zeros(0, NET.P), full((3, NET.P), NAN)),
        ("x", "net"): (zeros(9, 5),),
        ("x", "y"): (zeros(8, 4),),
        "y": (full((9,), 3),),
        "absent": ("gone",),
        "metric": METRIC,
        "weights": (ones(2), [1.0, 0, 1], [1.0, -1, 1], [1.0, NAN, 1], [1e-60, 1, 1]),
    },
    "retraining_game": {"net": (fm.mlp(6, 4),), "rounds": (0,), "metric": METRIC, "on": ON},
}

STRATEGIES: Table = {
    "FedAvg": {"per_round": (0,), "weighting": ("data",)},
    "CGSV": {"gamma0": (1.1, NAN), "server_lr": ("mode", 0), "floor": (-1e-3, 1.0)},
    "FRCCE": {
        "lr": (0, INF),
        "probes": (0,),
        "window": (0,),
        "clamp": (-0.1, 0.5),
        "limit": (0, NAN),
        "baseline": ("mean",),
        "sign": ("plus",),
        "layer": ("first",),
    },
    "SFedAvg": {
        "m": (0,),
        "alpha": (1.1,),
        "beta": (-0.1,),
        "metric": METRIC,
        "permutations": (0,),
        "temperature": (0, NAN),
        "empty": ("nothing",),
    },
    "LabelStandardisation": {
        "margin": (-0.1, 1.1),
        "spread": (-0.1, 2),
        "window": (0,),
        "accuracy": METRIC,
        "groups": ("all",),
    },
}

JUDGED: Table = {
    "simulator": {"simulations": (0,), "rounds": (-1,), "metric": METRIC, "on": ON},
    "fedccea": {"simulations": (0,), "rounds": (-1,), "net": (fm.logistic(5, 3),)},
    "fit_aam": {
        "sizes": (ones(4, 3), ones(1, 4, 2, 3), zeros(0, 2, 3), full((4, 2, 3), NAN)),
        "accuracy": (ones(4), ones(4, 3), ones(2, 4, 2), full((4, 2), NAN)),
        "used": (ones(2, 3), ones(4), [[1] * 4, [0] * 4], full((1, 4), NAN), [[1, 1, 1, -1]]),
        **dict.fromkeys(("starts", "steps", "every", "lr"), (0, -1)),
        **dict.fromkeys(("start", "form"), ("zero",)),
    },
    "settle": {"sizes": (ones(4, 3),), "accuracy": (ones(4, 4), full((4, 2), NAN)), "starts": (0,)},
    "contribution_index": {"v": ([], [1.0, NAN], ones(2, 2))},
    "spearman": {("a", "a, b"): ([1, 2],), "a": ([1, INF, 2],)},
    "kendall": {("b", "a, b"): ([1, 2],), "a": ([1, NAN, 2],)},
    "detection_auc": {"bad": (1, [0.0], [True], set(), {0, 1, 2}, {3}), "scores": ([1, NAN, 2],)},
    "removal_curves": {"scores": ([1, 2], [1, 2, NAN]), "fractions": ([1.0], [-0.1], [])},
    "GTGShapley": {
        **dict.fromkeys(("between", "within", "settled", "window", "least"), (-1, NAN)),
        "unit": ("share",),
        "samples": (2.5,),
    },
    "FedCE": {"mix": ("minus",), "floor": (1.0,), "metric": METRIC},
    "FedIF": {"memory": (1.0,)},
    "QualityInference": {"metric": METRIC, "per_round": (0,)},
    "evidence.interval": {"values": ([1.0],), "level": (1.0,)},
    "evidence.paired": {"b": ([1.0],)},
    "all_coalitions": {"n": (25,)},
    "score_intervals": {"draws": (1,)},
    "plots.table": {"data": ({"a": {"x": 1}, "b": {"y": 1}},)},
}

OUT_OF_RANGE: Table = WORLDS | ENGINE | GAMES | STRATEGIES | JUDGED
