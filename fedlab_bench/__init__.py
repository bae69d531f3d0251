"""fedlab_bench: any score of contribution beside all others, and the neighbours to compare with.

``import fedlab_bench as fb`` gives every public name, and lets ``fm.score`` know the neighbours by
name. What the book's chapters derive stands in ``fedlab_mini``, which knows nothing of this.

registry    the scores that are compared       methods/   neighbours of the book's methods
worlds      the scenarios                      truth      what retraining says, twice, frozen
rounds      what a server sees, recorded       judging    scores beside the truth
comparing   your method, your scenarios        entering, submission   scores of anybody's
measures    what is measured, and how          show/, command/   tables, figures, python -m
"""

from . import methods
from .comparing import compare
from .entering import entered
from .judging import absent, judge, judged, standings, stored
from .methods import *  # noqa: F403
from .registry import CEILING, METHODS, Retrained
from .rounds import recorded
from .scenarios import SCENARIOS
from .show.leaderboard import board, picture, summary
from .submission import Refused, Submission, read_submission
from .truth import CONFIRMING, HELD_OUT, PUBLIC, VERSION, Frozen, freeze
from .worlds import FAMILIES, WORLDS, World

__all__ = [
    "CEILING",
    "CONFIRMING",
    "FAMILIES",
    "HELD_OUT",
    "METHODS",
    "PUBLIC",
    "SCENARIOS",
    "VERSION",
    "WORLDS",
    "Frozen",
    "Refused",
    "Retrained",
    "Submission",
    "World",
    "absent",
    "board",
    "compare",
    "entered",
    "freeze",
    "judge",
    "judged",
    "picture",
    "read_submission",
    "recorded",
    "standings",
    "stored",
    "summary",
]
__all__ += methods.__all__
