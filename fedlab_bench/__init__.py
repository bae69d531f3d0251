"""fedlab_bench: any score of contribution beside all others, and the neighbours to compare with.

``import fedlab_bench as fb`` gives every public name, and lets ``fm.score`` know the neighbours by
name. What the book's chapters derive stands in ``fedlab_mini``, which knows nothing of this.

registry   the scores that are compared        methods/   neighbours of the book's methods
compare/   scores on a federation of yours     bench/     scores on frozen rounds, and their truth
show/      tables, figures, the explorer       command/   python -m fedlab_bench
"""

from . import methods
from .bench import judge
from .compare import compare
from .methods import *  # noqa: F403
from .registry import Retrained

__all__ = [
    "Retrained",
    "compare",
    "judge",
]
__all__ += methods.__all__
