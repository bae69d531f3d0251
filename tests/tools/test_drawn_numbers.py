"""Numbers that a drawing prints are those of the chapter's hand case, and obey its rule."""

import re

import chapters
from fedlab_mini.methods.label_standardisation import Inspection

HAND = "the model takes 18 for fours; of those called 4, it takes all 20 for twos"


def test_the_client_of_figure_9_1_is_that_of_the_hand_case_and_is_renamed() -> None:
    drawing = (chapters.ROOT / "book/_static/figures/relabel.svg").read_text(encoding="utf-8")
    cells = re.findall(r'font-weight="600">(\d)</text><text [^>]*>(\.\d+)</text>', drawing)
    recall = {int(digit): float(number) for digit, number in cells}
    shares = [float(number) for number in re.findall(r">share ([\d.]+)<", drawing)]
    chapter = (chapters.ROOT / "book/chapters/09_label_standardisation.md").read_text(
        encoding="utf-8"
    )
    assert f"$P[2] = {recall[2]:.2f}".replace("0.", ".") in chapter
    assert f"$P[4] = {recall[4]:.2f}".replace("0.", ".") in chapter
    assert HAND in chapter
    assert shares == [18 / 20, 20 / 20]
    # A group is renamed to what it is seen as: the first to 4, the second to 2.
    for share, digit in zip(shares, (4, 2), strict=True):
        assert share >= recall[digit] - Inspection.margin
    for told in (drawing, chapter):
        assert f"share of {shares[0]:.2f}".replace("0.", ".") in told
