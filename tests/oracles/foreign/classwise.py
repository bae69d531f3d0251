"""pyDVL's class-wise Shapley values of rounds whose clients hold one class, as JSON.

On the standard input: {answers [2^m, N], labels [N], classes [m]}; the classes that coalitions of
clients answer, the right ones, and each client's own class.
"""

import json
import sys

import numpy as np
from pydvl.valuation.dataset import Dataset
from pydvl.valuation.methods.classwise_shapley import ClasswiseShapleyValuation
from pydvl.valuation.samplers import (
    DeterministicPermutationSampler,
    DeterministicUniformSampler,
    FiniteNoIndexIteration,
)
from pydvl.valuation.samplers.classwise import ClasswiseSampler
from pydvl.valuation.scorers.classwise import ClasswiseSupervisedScorer
from pydvl.valuation.stopping import NoStopping
from pydvl.valuation.utility.classwise import ClasswiseModelUtility

asked = json.load(sys.stdin)
ANSWERS, LABELS, CLASSES = (np.array(asked[name]) for name in ("answers", "labels", "classes"))


class Coalition:
    """A model whose training samples are clients; it answers as their coalition does."""

    def fit(self, clients, _):
        self.answers = ANSWERS[sum(1 << int(client) for client in np.ravel(clients))]
        return self

    def predict(self, samples):
        return self.answers[np.ravel(samples).astype(int)]

    def score(self, samples, labels):
        return float((self.predict(samples) == labels).mean())


def numbered(labels):
    return Dataset(np.arange(len(labels), dtype=float)[:, None], labels)


scorer = ClasswiseSupervisedScorer(Coalition.score, numbered(LABELS))
sampler = ClasswiseSampler(
    DeterministicPermutationSampler(),
    DeterministicUniformSampler(index_iteration=FiniteNoIndexIteration),
    min_elements_per_label=0,
)
utility = ClasswiseModelUtility(Coalition(), scorer, clone_before_fit=False)
valuation = ClasswiseShapleyValuation(utility, sampler, NoStopping(), normalize_values=False)
result = valuation.fit(numbered(CLASSES)).result
print(json.dumps(np.asarray(result.values)[np.argsort(result.indices)].tolist()))
