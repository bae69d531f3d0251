"""Methods: the neighbours: scores of the literature around those of the book.

What stands in ``__all__`` is public: it is under ``fb``, on the API page, and in the tests of what
every strategy owes its users.
"""

from .fedce import FedCE
from .fedif import FedIF
from .gtg import GTGShapley
from .neighbours import (
    CappedTaylor,
    ClassCosine,
    MeanCosine,
    ShapleyFL,
    TrustCosine,
)
from .quality import QualityInference
from .semivalues import beta_shapley

__all__ = [
    "CappedTaylor",
    "ClassCosine",
    "FedCE",
    "FedIF",
    "GTGShapley",
    "MeanCosine",
    "QualityInference",
    "ShapleyFL",
    "TrustCosine",
    "beta_shapley",
]
