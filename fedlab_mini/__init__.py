"""fedlab_mini: contribution evaluation in federated learning, one room per concept.

``import fedlab_mini as fm`` gives every public name; the chapters of the book derive them. Seven
files, read in this order, explain a round of training:

engine/plain.py        a round in its simplest form, one client after another
engine/rounds.py       what a server sees of a round, what a strategy is, how clients are reached
methods/fedavg.py      the strategy that all others inherit from
engine/train.py        a round: choose clients, train, leave out bad updates, aggregate, record
engine/minibatches.py  which samples form which minibatch
engine/local.py        local training of many clients at once; which updates are usable
engine/model.py        any module as a function of one flat vector
"""

from . import methods
from .engine.history import Cost, History
from .engine.local import LocalSGD
from .engine.model import Model
from .engine.networks import cnn, logistic, mlp
from .engine.rounds import Round, Server, Step
from .engine.simulate import simulate
from .engine.train import local_updates, train
from .games.closed_forms import additive, airport, glove, majority, quadratic
from .games.estimate import Estimate
from .games.game import Game, all_coalitions
from .games.kernel import kernel
from .games.sampling import guided, permutation, truncated
from .games.shapley import alone, banzhaf, exact, leave_one_out
from .games.training_games import retraining_game, round_game
from .games.values import core_shortfall, least_core, nucleolus
from .judge import evidence as evidence
from .judge.draws import score_intervals
from .judge.metrics import detection_auc, kendall, spearman
from .judge.removal import removal_curves
from .judge.score import score
from .methods import *  # noqa: F403
from .worlds.attacks import free_ride, replay, scale, sign_flip
from .worlds.corrupt import backdoor, delete_words, flip_labels, relabel_as, swap_labels
from .worlds.data import Dataset, DataUnavailable, load
from .worlds.federation import Federation, federation
from .worlds.partition import by_class, dirichlet_labels, dirichlet_sizes, iid, sorted_shards
from .worlds.scenarios import irrelevant_digits, noisy_digits, skewed_digits, spam

__version__ = "2.0.0"

__all__ = [
    "Cost",
    "DataUnavailable",
    "Dataset",
    "Estimate",
    "Federation",
    "Game",
    "History",
    "LocalSGD",
    "Model",
    "Round",
    "Server",
    "Step",
    "additive",
    "airport",
    "all_coalitions",
    "alone",
    "backdoor",
    "banzhaf",
    "by_class",
    "cnn",
    "core_shortfall",
    "delete_words",
    "detection_auc",
    "dirichlet_labels",
    "dirichlet_sizes",
    "exact",
    "federation",
    "flip_labels",
    "free_ride",
    "glove",
    "guided",
    "iid",
    "irrelevant_digits",
    "kendall",
    "kernel",
    "least_core",
    "leave_one_out",
    "load",
    "local_updates",
    "logistic",
    "majority",
    "mlp",
    "noisy_digits",
    "nucleolus",
    "permutation",
    "quadratic",
    "relabel_as",
    "removal_curves",
    "replay",
    "retraining_game",
    "round_game",
    "scale",
    "score",
    "score_intervals",
    "sign_flip",
    "simulate",
    "skewed_digits",
    "sorted_shards",
    "spam",
    "spearman",
    "swap_labels",
    "train",
    "truncated",
]
__all__ += methods.__all__
