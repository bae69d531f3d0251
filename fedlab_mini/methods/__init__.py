"""Contribution methods, one file per family; ``fm.train`` runs each strategy.

Every name in ``__all__`` is public: users reach it as ``fm.methods.NAME``, and what a chapter
derives also as ``fm.NAME``. The reference lists it, and the tests of the promises that every
strategy makes cover it.
"""

from ..gate.methods import (
    class_relevance,
    contribution_index,
    cosine_game,
    cosines,
    fedccea,
    fit_aam,
    settle,
    simulator,
)
from .aam import AAM
from .cgsv import CGSV
from .fedavg import FedAvg
from .fedccea import FedCCEAResult
from .label_standardisation import LabelStandardisation
from .reinforce import FLDVE, FRCCE, DVRLRemoval
from .round_scores import RoundScore, RoundValue, Taylor
from .sfedavg import SFedAvg

__all__ = [
    "AAM",
    "CGSV",
    "FLDVE",
    "FRCCE",
    "DVRLRemoval",
    "FedAvg",
    "FedCCEAResult",
    "LabelStandardisation",
    "RoundScore",
    "RoundValue",
    "SFedAvg",
    "Taylor",
    "class_relevance",
    "contribution_index",
    "cosine_game",
    "cosines",
    "fedccea",
    "fit_aam",
    "settle",
    "simulator",
]
