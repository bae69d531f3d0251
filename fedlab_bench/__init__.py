"""fedlab_bench compares any contribution score with all others, including related methods.

``import fedlab_bench as fb`` gives every public name, and makes the related methods known to
``fm.score`` by name. The book's own methods are in ``fedlab_mini``, which does not import this.

compared    the scores that are compared       methods/   related methods from the literature
dealing     nine federations of eight clients  worlds     these and variants: the scenarios
recording   recorded rounds of a server        `truth`    frozen values of two retrainings
comparing   your method, your scenarios        judging    scores and reference values
measures    what is measured, and how          entering, submission   scores from other people
                                               show/, command   tables, figures, command line
"""

from . import methods
from .compared import CEILING as CEILING
from .compared import METHODS as METHODS
from .compared import Retrained
from .compared import shown as shown
from .comparing import compare
from .dealing import SCENARIOS as SCENARIOS
from .entering import entered
from .judging import absent as absent
from .judging import judge, judged, standings
from .judging import stored as stored
from .methods import *  # noqa: F403
from .recording import recorded
from .show.leaderboard import board, picture, summary
from .submission import Refused as Refused
from .submission import Submission, read_submission
from .truth import CONFIRMING as CONFIRMING
from .truth import CONFIRMING_2 as CONFIRMING_2
from .truth import HELD_OUT as HELD_OUT
from .truth import LATEST as LATEST
from .truth import PUBLIC as PUBLIC
from .truth import VERSION as VERSION
from .truth import VERSIONS as VERSIONS
from .truth import Frozen as Frozen
from .truth import freeze as freeze
from .worlds import FAMILIES as FAMILIES
from .worlds import WORLDS as WORLDS
from .worlds import World as World

__all__ = ["Retrained", "Submission", "board", "compare", "entered", "judge", "judged", "picture"]
__all__ += ["read_submission", "recorded", "standings", "summary"]
__all__ += methods.__all__
