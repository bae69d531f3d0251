"""The scoreboard: what is drawn is what the scores say."""

import re

import pytest
import torch

from fedlab_mini.show.scoreboard import EDGE, HEIGHT, Said, scoreboard

TRUE = Said(torch.tensor([[1.0, 4.0], [3.0, 4.0]]), "all", "4 training runs", "pay by it")
SCORE = Said(torch.tensor([[-10.0, 20.0]]), "updates", "nothing", "<not> alone")
BOARD = scoreboard(["Ash", "Yew"], {"reference": TRUE, "a score": SCORE}, caption="Two clients.")


def test_bars_are_means_and_outlines_are_the_reference_in_shares_of_the_largest():
    """Heights of row "a score" in its pictures: Ash -1/2 and Yew 1, the reference 1/2 and 1."""
    pictures = re.findall(r"<svg.*?</svg>", BOARD._repr_html_(), re.DOTALL)
    assert len(pictures) == 4
    zero = EDGE + (HEIGHT - 2 * EDGE) * 2 / 3  # from 1 at the top to -1/2 at the foot
    unit = zero - EDGE
    for picture, mean, outline in zip(pictures[2:], (-0.5, 1), (0.5, 1), strict=True):
        rects = [
            tuple(map(float, r))
            for r in re.findall(r'y="(\S+)" width="\S+" height="(\S+)"', picture)
        ]
        for (top, tall), share in zip(rects, (mean, outline), strict=True):
            assert tall == pytest.approx(abs(share) * unit, abs=0.1)
            assert top == pytest.approx(zero - max(share, 0) * unit, abs=0.1)
        (dot,) = re.findall(r'cy="(\S+)"', picture)
        assert float(dot) == pytest.approx(zero - mean * unit, abs=0.1)
    assert len(re.findall("<circle", pictures[0])) == 2


def test_a_screen_reader_and_a_terminal_get_numbers_and_words():
    page = BOARD._repr_html_()
    assert page.count('aria-hidden="true"') == 4
    assert re.findall(r"<span>(.*?)</span>", page) == ["2.00", "4.00", "−10.00", "20.00"]
    assert "&lt;not&gt; alone" in page
    assert page.count('scope="row"') == 2
    assert BOARD.means() == {"reference": [2, 4], "a score": [-10, 20]}
    assert re.search(r"a score +-10\.00 +20\.00  <not> alone", repr(BOARD))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rows": {}}, "rows: expected at least one"),
        ({"rows": {"a": 3}}, r"rows\['a'\]"),
        ({"clients": ["Ash"]}, r"rows\['reference'\]: values"),
    ],
)
def test_rows_that_fit_no_clients_are_refused(given, told):
    call = {"clients": ["Ash", "Yew"], "rows": {"reference": TRUE}, "caption": "c"} | given
    with pytest.raises((TypeError, ValueError), match=f"^{told}"):
        scoreboard(**call)
