"""fedlab_mini: contribution evaluation in federated learning, one subpackage per concept.

``import fedlab_mini as fm`` gives the names of ``__all__``, which chapters use, and the modules
``fm.attacks``, ``fm.defences``, ``fm.evidence``, ``fm.methods`` and ``fm.pay``. A function
of ``gate`` parses its arguments and calls its namesake in another folder. Eleven files, read in
this order, explain a round of training:

engine/plain.py        a round in its simplest form, one client after another
engine/rounds.py       what a server sees of a round, what a strategy is, how clients are reached
methods/fedavg.py      the strategy that all others inherit from
engine/train.py        a round: select clients, train, leave out unusable updates, aggregate, record
engine/history.py      the record to which each round adds
engine/minibatches.py  which samples form which minibatch
engine/local.py        the updates of a round's clients, and which of them are usable
engine/fast/stacks.py  local training of many clients at once
engine/model.py        any module as a function of one flat vector
engine/outputs.py      its outputs for many vectors at once, and what they are judged by
engine/objective.py    the loss that training lowers, and the measures of a round

A game takes five files of ``games``: game, training_games, coalitions, shapley and estimate.
"""

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from . import methods as methods
from . import pay as pay
from .engine.history import History
from .engine.minibatches import LocalSGD
from .engine.model import Model
from .games.game import Game
from .gate.draws import score_intervals
from .gate.games import (
    additive,
    all_coalitions,
    alone,
    banzhaf,
    exact,
    glove,
    guided,
    kernel,
    leave_one_out,
    permutation,
    quadratic,
    retraining_game,
    round_game,
    truncated,
)
from .gate.judging import removal_curves
from .gate.methods import class_relevance, contribution_index, cosine_game, cosines, fedccea
from .gate.networks import logistic, mlp
from .gate.scoring import records, score
from .gate.training import local_updates, simulate, train
from .judge import evidence as evidence
from .judge.metrics import detection_auc, kendall, spearman
from .methods import defences as defences
from .methods.cgsv import CGSV
from .methods.fedavg import FedAvg
from .methods.label_standardisation import LabelStandardisation
from .methods.reinforce import FLDVE, FRCCE, DVRLRemoval
from .methods.round_scores import RoundScore
from .methods.sfedavg import SFedAvg
from .version import __version__ as __version__
from .worlds import attacks as attacks
from .worlds.cases import four_hospitals, six_clinics
from .worlds.corrupt import FlipLabels, RelabelAs, SwapLabels
from .worlds.data import Dataset, load
from .worlds.federation import Federation, federation
from .worlds.partition import IID, DirichletLabels, DirichletSizes, SortedShards
from .worlds.scenarios import irrelevant_digits, noisy_digits, skewed_digits, spam

# At most sixty; book/api.md lists them by chapter.
__all__ = ["CGSV", "FLDVE", "FRCCE", "IID", "DVRLRemoval", "Dataset", "DirichletLabels"]
__all__ += ["DirichletSizes", "FedAvg", "Federation", "FlipLabels", "Game", "History"]
__all__ += ["LabelStandardisation", "LocalSGD", "Model", "RelabelAs", "RoundScore", "SFedAvg"]
__all__ += ["SortedShards", "SwapLabels", "additive", "all_coalitions", "alone", "banzhaf"]
__all__ += ["class_relevance", "contribution_index", "cosine_game", "cosines", "detection_auc"]
__all__ += ["exact", "fedccea", "federation", "four_hospitals", "glove", "guided"]
__all__ += ["irrelevant_digits", "kendall", "kernel", "leave_one_out", "load", "local_updates"]
__all__ += ["logistic", "mlp", "noisy_digits", "permutation", "quadratic", "records"]
__all__ += ["removal_curves", "retraining_game", "round_game", "score", "score_intervals"]
__all__ += ["simulate", "six_clinics", "skewed_digits", "spam", "spearman", "train", "truncated"]

# Names of version 2.0 that are kept for one release, by the module that holds them: old=new.
MOVED = {
    "engine.history": "Cost",
    "engine.rounds": "Round Server Step",
    "games.estimate": "Estimate",
    "gate.networks": "cnn",
    "gate.games": "core_shortfall least_core nucleolus",
    "methods": "AAM FedCCEAResult RoundValue Taylor fit_aam settle simulator",
    "worlds.attacks": "free_ride=FreeRide replay=Replay scale=Scale sign_flip=SignFlip",
    "worlds.corrupt": "backdoor=Backdoor delete_words=DeleteWords flip_labels=FlipLabels "
    "relabel_as=RelabelAs swap_labels=SwapLabels",
    "worlds.data": "DataUnavailable",
    "worlds.partition": "by_class=ByClass dirichlet_labels=DirichletLabels "
    "dirichlet_sizes=DirichletSizes iid=IID sorted_shards=SortedShards",
}


def __dir__() -> list[str]:
    return [*__all__, "attacks", "defences", "evidence", "methods", "pay", "__version__"]


if not TYPE_CHECKING:  # a type checker would accept any name, misspelt ones too

    def __getattr__(name: str) -> Any:
        for room, names in MOVED.items():
            for old, _, new in (pair.partition("=") for pair in names.split()):
                if name == old:
                    now = new or old
                    short = {"methods": "fm.methods.", "worlds.attacks": "fm.attacks."}
                    place = short.get(room, f"fedlab_mini.{room}.")
                    told = f"fm.{now}" if now in __all__ else f"{place}{now}"
                    warnings.warn(f"fm.{old} is now {told}", DeprecationWarning, stacklevel=2)
                    return getattr(importlib.import_module(f"{__name__}.{room}"), now)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
