"""Methods: the neighbours, which are scores of the literature related to the book's methods.

Every name in ``__all__`` is public: users reach it as ``fb.NAME``, the reference lists it, and the
tests of the promises that every strategy makes cover it.
"""

from .classwise import ClasswiseShapley, classwise_shapley
from .fedce import FedCE
from .fedif import FedIF
from .gtg import GTGShapley
from .neighbours import CappedTaylor, ClassCosine, MeanCosine, ShapleyFL, TrustCosine
from .quality import QualityInference
from .semivalues import beta_shapley

__all__ = ["CappedTaylor", "ClassCosine", "ClasswiseShapley", "FedCE", "FedIF", "GTGShapley"]
__all__ += ["MeanCosine", "QualityInference", "ShapleyFL", "TrustCosine", "beta_shapley"]
__all__ += ["classwise_shapley"]
