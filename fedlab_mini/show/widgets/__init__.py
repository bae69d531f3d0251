"""Widgets: figures that a reader can change. The browser computes, without a server.

Each widget is one ES module, built from the pieces in ``static/``. It works in JupyterLab and, with
the state that the notebook stores, on the book's site.
"""

from .aam import AAMExplorer
from .cosine import CosineExplorer
from .drift import DriftExplorer
from .labelrule import LabelRuleExplorer
from .partition import PartitionExplorer
from .policy import PolicyExplorer
from .quiz import Quiz
from .replay import RoundReplay
from .replica import ReplicaExplorer
from .shapley import ShapleyExplorer
from .temperature import TemperatureExplorer

__all__ = [
    "AAMExplorer",
    "CosineExplorer",
    "DriftExplorer",
    "LabelRuleExplorer",
    "PartitionExplorer",
    "PolicyExplorer",
    "Quiz",
    "ReplicaExplorer",
    "RoundReplay",
    "ShapleyExplorer",
    "TemperatureExplorer",
]
