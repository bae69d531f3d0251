"""What a project says of the small cases of the page *Other people's code*, as JSON.

`FOREIGN_CODE=... python small_cases.py PROJECT` in the project's environment. A case that raises
an error is answered with the error. The page and tests/unit/test_foreign.py have the right values.
"""

import contextlib
import io
import json
import sys
from itertools import combinations
from types import SimpleNamespace

import numpy as np

THREE = [0, 1, 2, 3, 3, 4, 5, 6]  # an additive game: 1, 2, 3; bit k of the position is player k
SPEND = [0, 1, -1, 0]
CORNER = [0, 1, 0, 0]
DETOUR = [0, 1, 0, 3, 0, 3, 0, 1]
SMALL = [0, 0.01, 0.01, 0.02, 0.006, 0.016, 0.016, 0.026]
LEMAIRE = [0, 46125, 17437.5, 69187.5, 5812.5, 53812.5, 30750, 90000]


def looked_up(table):
    """The game of a table of worths."""
    return lambda members: float(table[sum(1 << int(k) for k in members)])


def svfl():
    from svfl.svfl import calculate_sv

    yield "floor", lambda: list(calculate_sv({0: 0, 1: 1}, looked_up(SPEND), list).values())


def fedml():
    from fedml_scores import assess

    def said(kind, table, ids_from, repaired):
        np.random.seed(0)  # noqa: NPY002 (the generator that FedML draws from)
        clients = len(table).bit_length() - 1
        assessor = assess(kind, [looked_up(table)], clients, ids_from, repaired)
        return list(assessor.shapley_values_by_round[0].values())

    gtg, loo = "GTG, one line added", "LOO, one line added"
    yield "MR", lambda: said("MR", THREE, 1, False)
    yield "GTG as shipped", lambda: said(gtg, THREE, 1, False)
    yield "LOO as shipped", lambda: said(loo, THREE, 1, False)
    yield "GTG, ids from 1", lambda: said(gtg, THREE, 1, True)
    yield "GTG, ids from 0", lambda: said(gtg, THREE, 0, True)
    yield "GTG, ids from 4", lambda: said(gtg, THREE, 4, True)
    yield "LOO, ids from 1", lambda: said(loo, THREE, 1, True)
    yield "LOO, ids from 0", lambda: said(loo, THREE, 0, True)
    yield "GTG, remembered", lambda: said(gtg, DETOUR, 1, True)


def flce():
    from flce_scores import theirs

    def said(kind, table, **options):
        n = len(table).bit_length() - 1
        sets = [set(S) for size in range(n + 1) for S in combinations(range(n), size)]
        cache = {str(S): [looked_up(table)(S)] for S in sets}
        loader = SimpleNamespace(X_train_parts=[0] * n, y_train_parts=[0] * n)
        loader.X_test = loader.y_test = None
        model = SimpleNamespace(device="cpu")
        ((values,), _) = kind(loader, model, cache, ["accuracy"]).get_contributions(**options)
        return list(values)

    yield "Lemaire", lambda: said(theirs.LeastCore, [worth / 90000 for worth in LEMAIRE])
    yield "Lemaire, in money", lambda: said(theirs.LeastCore, LEMAIRE)
    guided = theirs.TMC_GuidedSampling_Shapley
    eight = [bin(position).count("1") for position in range(256)]
    yield "default budget", lambda: said(guided, eight, seed=0, num_samples=None)
    yield "key of a set", lambda: str({np.int64(0)})


def mplc():
    from mplc_scores import Contributivity

    def said():
        partners = [SimpleNamespace(y_train=range(10))] * 3
        one = Contributivity(SimpleNamespace(partners_list=partners))
        for size in range(1, 4):
            worth = looked_up(SMALL)
            one.charac_fct_values |= {S: worth(S) for S in combinations(range(3), size)}
        one.truncated_MC()
        return list(one.contributivity_scores)

    yield "truncated", said


def shapiq():
    from shapiq import ExactComputer

    def said():
        worths = np.array(CORNER, dtype=float)
        exact = ExactComputer(lambda asked: worths[np.asarray(asked, dtype=int) @ [1, 2]], 2)
        values = exact("ELC", order=1)
        return [float(values[(k,)]) for k in range(2)]

    yield "least core", said


def shapleyfl():
    from shapleyfl_scores import Model, theirs

    def said(method, **options):
        shapley = theirs.Shapley([0, 1, 2], None, Model(looked_up(THREE)), None, 0.0)
        return [float(value) for value in getattr(shapley, method)(**options)]

    yield "exact", lambda: said("eval_exactshap")


if __name__ == "__main__":
    answers = {}
    for name, answer in globals()[sys.argv[1]]():
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                said = answer()
            answers[name] = said if isinstance(said, str) else [round(float(v), 6) for v in said]
        except Exception as error:  # what it says is the answer
            answers[name] = f"{type(error).__name__}: {error}"
    json.dump(answers, sys.stdout)
