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
from .judging import absent as absent
from .judging import judge, judged, standings
from .judging import stored as stored
from .methods import *  # noqa: F403
from .registry import CEILING as CEILING
from .registry import METHODS as METHODS
from .registry import Retrained
from .rounds import recorded
from .scenarios import SCENARIOS as SCENARIOS
from .show.leaderboard import board, picture, summary
from .submission import Refused as Refused
from .submission import Submission, read_submission
from .truth import CONFIRMING as CONFIRMING
from .truth import HELD_OUT as HELD_OUT
from .truth import PUBLIC as PUBLIC
from .truth import VERSION as VERSION
from .truth import Frozen as Frozen
from .truth import freeze as freeze
from .worlds import FAMILIES as FAMILIES
from .worlds import WORLDS as WORLDS
from .worlds import World as World

__all__ = [
    "Retrained",
    "Submission",
    "board",
    "compare",
    "entered",
    "judge",
    "judged",
    "picture",
    "read_submission",
    "recorded",
    "standings",
    "summary",
]
__all__ += methods.__all__
