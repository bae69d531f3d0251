"""The figures of chapter 7's studies plot the rows that their labels name."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

import studies
from studies import fedccea_claims as views

STRONG = "strong, no noise"


def rows_of_dots(figure: Figure) -> dict[str, list[float]]:
    """The dots of each row, by its label: every row draws its seeds first."""
    (axis,) = figure.axes
    labels = [text.get_text() for text in axis.get_yticklabels()]
    dots = [line for line in axis.lines if line.get_marker() == "o" and len(line.get_xdata()) > 1]
    return {label: line.get_xdata().tolist() for label, line in zip(labels, dots, strict=True)}


def test_the_gaps_are_those_of_the_scores_that_are_named() -> None:
    results = {name: studies.results(f"fedccea-{name.lower()}") for name in ("Letters", "MNIST")}
    drawn = rows_of_dots(views.gaps(results, STRONG))
    assert len(drawn) == 8
    for label, method in (("settled", "FedCCEA"), ("stopped", "FedCCEA, stopped"), ("LOO", "LOO")):
        for source, found in results.items():
            low, high = (
                found.values(f"accuracy without {end} @ 8", method, STRONG)
                for end in ("lowest", "highest")
            )
            assert drawn[f"{source}, {label}"] == pytest.approx((low - high).tolist())


def test_what_is_explained_is_that_of_the_model_and_of_the_shuffled_one() -> None:
    results = studies.results("fedccea-fit")
    drawn = rows_of_dots(results.figure())
    for label, method in (("model", "AAM"), ("shuffled", "clients shuffled")):
        wanted = results.values("R2", method, "strong, rate 0.1").tolist()
        assert drawn[f"strong, rate 0.1, {label}"] == pytest.approx(wanted)
