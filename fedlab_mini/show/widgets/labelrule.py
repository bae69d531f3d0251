"""LabelRuleExplorer: when is a group of labels renamed, rightly or wrongly? Chapter 9 shows it."""

from __future__ import annotations

import numpy as np
import traitlets
from scipy.stats import binom

from ...parse import checks
from .base import Explorer, Numbers, program


class LabelRuleExplorer(Explorer):
    """The rule of label standardisation: the probability of a right and of a false repair.

    group     samples in the client's group, 1 to 200
    server    the server's samples of the class, from which it estimates the recall, 1 to 200
    recall    probability that the model predicts the class for samples of this class, [.5, 1]
    fraction  probability that it predicts the class in a group of other samples, [0, 1]
    margin    renamed if the client's share is at least the server's minus ``margin``, [0, .5]
    strict    the paper's rule instead: renamed only if the share is larger
    raises    ValueError naming the argument
    """

    _esm = program("kit", "labelrule")
    group = traitlets.Int().tag(sync=True)
    server = traitlets.Int().tag(sync=True)
    recall = traitlets.Float().tag(sync=True)
    fraction = traitlets.Float().tag(sync=True)
    margin = traitlets.Float().tag(sync=True)
    strict = traitlets.Bool().tag(sync=True)

    def __init__(
        self,
        *,
        group: int = 15,
        server: int = 36,
        recall: float = 0.95,
        fraction: float = 0.7,
        margin: float = 0.05,
        strict: bool = False,
    ):
        super().__init__(
            group=checks.whole("group", group, 1, 200),
            server=checks.whole("server", server, 1, 200),
            recall=checks.number("recall", recall, 0.5, 1),
            fraction=checks.number("fraction", fraction, 0, 1),
            margin=checks.number("margin", margin, 0, 0.5),
            strict=checks.flag("strict", strict),
        )

    @property
    def hides(self) -> tuple[str]:  # type: ignore[override]  # it follows the rule
        # For the strict rule, the page asks how often a better model repairs.
        return ("a right repair" if self.strict else "a false repair",)

    def chance(self, seen: float) -> float:
        """Probability that a group is renamed if the model predicts its class with ``seen``."""
        group_hits, server_hits = np.arange(self.group + 1), np.arange(self.server + 1)
        group_chances = binom.pmf(group_hits, self.group, seen)
        server_chances = binom.pmf(server_hits, self.server, self.recall)
        # [group + 1, server + 1]: the counts are independent, so their probabilities multiply.
        joint_chances = np.outer(group_chances, server_chances)
        # A column and a row, so that all pairs of counts are compared.
        group_shares = (group_hits / self.group)[:, None]
        server_recalls = (server_hits / self.server)[None]
        # A small tolerance, so that equal shares count as equal in floating point.
        if self.strict:
            return float(joint_chances[group_shares > server_recalls + 1e-12].sum())
        return float(joint_chances[group_shares >= server_recalls - self.margin - 1e-12].sum())

    def numbers(self) -> Numbers:
        right_chance, wrong_chance = self.chance(self.recall), self.chance(self.fraction)
        return {"chance": {"a right repair": right_chance, "a false repair": wrong_chance}}
