"""DriftExplorer: where does FedAvg converge with two quadratic clients? Chapter 1 shows it."""

from __future__ import annotations

import traitlets

from .base import Explorer, Numbers, by_name, floats, program


class DriftExplorer(Explorer):
    """FedAvg with two clients of equal weight, one parameter, and the loss a (model - c)^2 / 2.

    curvatures, optima  [2]  a above 0, and c, of both clients
    rate, steps              learning rate, and local steps per round; rate times a is at most 1
    """

    _esm = program("kit", "line", "drift")
    hides = ("part of the way", "FedAvg rests at θ_E", "distance")
    curvatures = floats(1.0, 3.0)
    optima = floats(0.0, 10.0)
    rate = traitlets.Float(0.02).tag(sync=True)
    steps = traitlets.Int(200, min=1).tag(sync=True)

    def trained(self, model: float, a: float, c: float) -> float:
        """The model of a client after the local steps of a round."""
        for _ in range(self.steps):
            model -= self.rate * a * (model - c)
        return model

    def numbers(self) -> Numbers:
        clients = list(zip(self.curvatures, self.optima, strict=True))
        # Round by round until convergence; the page uses the closed form of this point.
        model, moved = 0.0, 1.0
        while abs(moved) > 1e-12:
            moved = sum(self.trained(model, a, c) for a, c in clients) / 2 - model
            model += moved
        best = sum(a * c for a, c in clients) / sum(self.curvatures)
        # From 0 towards an optimum at 1, so the result is the part of the way.
        parts = [self.trained(0.0, a, 1.0) for a in self.curvatures]
        single_numbers = {
            "best model θ*": best,
            "FedAvg rests at θ_E": model,
            "distance": abs(model - best),
        }
        return {
            **by_name(["client 1", "client 2"], {"part of the way": parts}),
            "value": single_numbers,
        }
