"""fedlab_mini: contribution evaluation in federated learning, one room per concept.

``import fedlab_mini as fm`` gives every public name; the chapters of the book derive them.
"""

from . import evidence as evidence
from . import methods
from .compare import compare
from .corrupt import (
    backdoor,
    delete_words,
    flip_labels,
    free_ride,
    open_set,
    relabel_as,
    replay,
    scale,
    sign_flip,
    swap_labels,
)
from .data import Dataset, DataUnavailable, load
from .federation import Federation, federation
from .game import Game, all_coalitions
from .games import (
    additive,
    airport,
    glove,
    majority,
    quadratic,
    retraining_game,
    round_game,
)
from .local import LocalSGD
from .methods import *  # noqa: F403
from .metrics import contribution_index, detection_auc, fairness, kendall, spearman
from .model import Model, cnn, logistic, mlp
from .partition import by_class, dirichlet_labels, dirichlet_sizes, iid, sorted_shards
from .rounds import Cost, History, Round, Server
from .scenarios import irrelevant_digits, noisy_digits, skewed_digits, spam
from .score import score
from .shapley import (
    Estimate,
    alone,
    banzhaf,
    exact,
    guided,
    kernel,
    leave_one_out,
    permutation,
    truncated,
)
from .simulation import removal_curves, simulate
from .training import local_updates, train
from .values import beta_shapley, core_shortfall, least_core, nucleolus

__version__ = "0.1.0"

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
    "additive",
    "airport",
    "all_coalitions",
    "alone",
    "backdoor",
    "banzhaf",
    "beta_shapley",
    "by_class",
    "cnn",
    "compare",
    "contribution_index",
    "core_shortfall",
    "delete_words",
    "detection_auc",
    "dirichlet_labels",
    "dirichlet_sizes",
    "exact",
    "fairness",
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
    "open_set",
    "permutation",
    "quadratic",
    "relabel_as",
    "removal_curves",
    "replay",
    "retraining_game",
    "round_game",
    "scale",
    "score",
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
