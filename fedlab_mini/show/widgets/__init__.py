"""Widgets: figures that a reader can change. The browser computes, without a server.

Each widget is one ES module, built from the pieces in ``static/``. It works in JupyterLab and, with
the state that the notebook stores, on the book's site.
"""

from .aam import AAMExplorer
from .attacker import AttackerExplorer
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

__all__ = ["AAMExplorer", "AttackerExplorer", "ChangesExplorer", "CosineExplorer"]
__all__ += ["DriftExplorer", "LabelRuleExplorer", "MixUpExplorer", "PartitionExplorer"]
__all__ += ["PolicyExplorer", "PotExplorer", "Quiz", "ReplicaExplorer", "RoundReplay"]
__all__ += ["ShapleyExplorer", "TemperatureExplorer", "VerdictExplorer"]
