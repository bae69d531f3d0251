"""No attack crashes a strategy, makes a score NaN, or moves it out of its documented range."""

from __future__ import annotations

import warnings

import pytest
import torch
from conftest import random_federation

import fedlab_bench as fb
import fedlab_mini as fm

ATTACKS: dict[str, fm.attacks.UpdateAttack] = {
    "zeros": fm.attacks.FreeRide(0.0),
    "noise": fm.attacks.FreeRide(1.0),
    "sign flip": fm.attacks.SignFlip(),
    "scaled": fm.attacks.Scale(5.0),
    "scaled beyond all use": fm.attacks.Scale(1e30),
    "replay": fm.attacks.Replay(),
    "noisy replay": fm.attacks.NoisyReplay(2.0),
    "prediction": fm.attacks.PredictedStep(),
    "median length": fm.attacks.AtMedianLength(fm.attacks.SignFlip()),
    "disguise": fm.attacks.Disguise(),
    "copy": fm.attacks.CopyOf(0),
    "push": fm.attacks.Against(0, 3.0),
    "withheld": fm.attacks.Withhold(3),
}
KINDS = {getattr(room.methods, name) for room in (fm, fb) for name in room.methods.__all__}
KINDS = {kind for kind in KINDS if isinstance(kind, type) and issubclass(kind, fm.FedAvg)}
DETECTORS = (
    *(fm.defences.LastStep(), fm.defences.Duplicates(), fm.defences.Norms()),
    *(fm.defences.ServersGradient(), fm.defences.FoolsGold()),
)
STRATEGIES = {
    **{kind.__name__: kind() for kind in sorted(KINDS, key=lambda kind: kind.__name__)},
    "CGSV literal": fm.CGSV(literal=True),
    "Median": fm.defences.Median(),
    **{repr(one): fm.defences.Defended(fm.CGSV(), one) for one in DETECTORS},
}
# What the docstrings promise; scores of other strategies are finite numbers.
RANGES = {
    **dict.fromkeys(("FedAvg", "CGSV", "Median", "FRCCE", "FLDVE", "DVRLRemoval"), (0, 1)),
    **dict.fromkeys(("MeanCosine", "ClassCosine", "TrustCosine"), (-1, 1)),
    **{repr(one): (0, 1) for one in DETECTORS},
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_an_attack_leaves_scores_finite_and_within_their_range(name, attack):
    low, high = RANGES.get(name, (-torch.inf, torch.inf))
    fed = random_federation((7, 4, 9, 6, 5), dtype=torch.float32)
    for who in ({2}, {0, 2, 3, 4}):  # one attacker, and all but one
        attacked = fed.attacked(dict.fromkeys(who, attack))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of updates that are left out
            found = fm.train(attacked, fm.mlp(6, 4, 3), STRATEGIES[name], rounds=5)
        assert found.scores.isfinite().all()
        assert found.theta.isfinite().all()
        assert low - 1e-6 <= float(found.scores.min())
        assert float(found.scores.max()) <= high + 1e-6
