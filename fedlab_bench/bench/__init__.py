"""Bench: scores are judged beside retraining that is done already, in seconds.

    python -m fedlab_bench judge my_scores.csv            scores from any language
    python -m fedlab_bench judge my_module:MyScore        or a score in Python

worlds: the scenarios, in families; rounds: what a server sees of them; truth: what retraining says,
frozen in data/bench; submission: a file of scores, checked; entering: a Python score becomes one;
judging: the measures, and who is told apart from whom. The page *The bench* is drawn from it.
"""

from .entering import EIGHT as EIGHT
from .entering import entered as entered
from .judging import CEILING as CEILING
from .judging import MEASURES as MEASURES
from .judging import absent as absent
from .judging import judge as judge
from .judging import judged as judged
from .judging import standings as standings
from .judging import stored as stored
from .rounds import recorded as recorded
from .submission import Refused as Refused
from .submission import Submission as Submission
from .submission import notes_of as notes_of
from .submission import read_submission as read_submission
from .truth import CONFIRMING as CONFIRMING
from .truth import HELD_OUT as HELD_OUT
from .truth import PUBLIC as PUBLIC
from .truth import VERSION as VERSION
from .truth import Frozen as Frozen
from .truth import folder as folder
from .truth import freeze as freeze
from .worlds import FAMILIES as FAMILIES
from .worlds import WORLDS as WORLDS
