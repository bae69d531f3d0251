"""Widgets: figures that a reader can change. The browser computes, without a server.

Each widget is one ES module, built from the pieces in ``static/``. It works in JupyterLab and, with
the state that the notebook stores, on the book's site.
"""

from .aam import AAMExplorer
from .changes import ChangesExplorer
from .cosine import CosineExplorer
from .drift import DriftExplorer
from .labelrule import LabelRuleExplorer
from .mixup import MixUpExplorer
from .partition import PartitionExplorer
from .policy import PolicyExplorer
from .pot import PotExplorer
from .quiz import Quiz
from .replay import RoundReplay
from .replica import ReplicaExplorer
from .shapley import ShapleyExplorer
from .temperature import TemperatureExplorer
from .verdict import VerdictExplorer

__all__ = ["AAMExplorer", "ChangesExplorer", "CosineExplorer", "DriftExplorer", "LabelRuleExplorer"]
__all__ += ["MixUpExplorer", "PartitionExplorer", "PolicyExplorer", "PotExplorer", "Quiz"]
__all__ += ["ReplicaExplorer", "RoundReplay", "ShapleyExplorer", "TemperatureExplorer"]
__all__ += ["VerdictExplorer"]
