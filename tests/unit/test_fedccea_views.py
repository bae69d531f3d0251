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
    found = studies.results("fedccea-letters")
    drawn = rows_of_dots(views.gaps(found, STRONG))
    assert len(drawn) == 4
    for label, method in (
        ("converged", "FedCCEA"),
        ("stopped", "FedCCEA, stopped"),
        ("LOO", "LOO"),
    ):
        low, high = (
            found.values(f"accuracy without {end} @ 8", method, STRONG)
            for end in ("lowest", "highest")
        )
        assert drawn[label] == pytest.approx((low - high).tolist())


def test_what_is_explained_is_that_of_the_model_and_of_the_shuffled_one() -> None:
    results = studies.results("fedccea-fit")
    drawn, table = rows_of_dots(results.figure()), views.explained_table(results)
    assert table.header == ["fit", "model", "shuffled clients"]
    wanted = results.values("R2", "AAM", "strong, rate 0.1")
    assert drawn["strong, rate 0.1"] == pytest.approx(wanted.tolist())
    shuffled = results.values("R2", "clients shuffled", "strong, rate 0.1")
    (row,) = (row for row in table.rows if row[0] == "strong, rate 0.1")
    medians = [float(values.quantile(0.5)) for values in (wanted, shuffled)]
    assert [float(text) for text in row[1:]] == pytest.approx(medians, abs=6e-4)
