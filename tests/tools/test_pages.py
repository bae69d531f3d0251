"""What pages show of stored rows: how sentences stand, and what chance makes of them."""

import doctest
import re

import torch

from studies import pages, telling

RECORDS = [
    {"chapter": "01_toy", "key": "late", "bounds": {"above": 0.5}, "half": "confirmed",
     "mean, low, high": [0.8, 0.7, 0.9], "seeds": 20, "study": "toy", "power": 0.1,
     "asked": ["toy", "AUC @ 5", "ours", "all flipped"]},
    {"chapter": "01_toy", "key": "alike", "bounds": {"within": [-0.1, 0.1]}, "half": "confirmed",
     "mean, low, high": [0.0, -0.05, 0.05], "seeds": 20, "study": "toy", "power": 0.1,
     "asked": ["toy", "AUC", "ours", "here", "minus", "theirs", "here"]},
    {"chapter": "02_toy", "key": "open", "bounds": {"undecided": 0}, "half": "confirmed",
     "mean, low, high": [0.1, -0.05, 0.25], "seeds": 20, "study": "toy", "power": 0.25,
     "asked": ["toy", "gap"]},
    {"chapter": "02_toy", "key": "run", "bounds": {"below": 2}, "half": "live",
     "mean, low, high": [1.0, 0.5, 1.5], "seeds": 5},
]  # fmt: skip
LATE, _, OPEN = (telling.claim_of(record).question for record in RECORDS[:3])
TOY = pages.Known("toy", 5, 20, 1, frozenset([LATE, OPEN]), [(OPEN, "holds"), ("z", "not shown")])


def test_a_sentence_is_confirmed_only_if_it_stood_when_the_seeds_were_drawn():
    told = pages.listed(RECORDS, {"toy": TOY.stood})
    assert re.findall(r"\| `.*", told) == [
        "| `late` | AUC @ 5: ours, all flipped (`toy`) | above 0.5 | 0.80 [0.70, 0.90] | 20 "
        "| confirmed |",
        "| `alike` | AUC: ours minus theirs, here (`toy`) | from -0.1 to 0.1 "
        "| 0.00 [-0.05, 0.05] | 20 | exploratory |",
        "| `open` | gap (`toy`) | not shown to differ from 0; 0.25 detectable with 80 % power "
        "| 0.10 [-0.05, 0.25] | 20 | confirmed |",
        "| `run` | the run in the chapter | below 2 | 1.00 [0.50, 1.50] | 5 | live |",
    ]


def test_sentences_and_studies_are_counted():
    numbers = re.findall(r"\| (\d) \| (\d) \| (\d) \|", pages.counted([TOY], RECORDS))
    assert numbers == [tuple(row) for row in ("211", "110", "110", "110", "101", "642")]


def test_values_that_defeat_an_interval_are_named():
    rest = [0.01 * k for k in range(1, 10)]
    told = {
        "zeros": ([0.0] * 9 + [0.3], pages.ZERO),
        "all zero": ([0.0] * 10, ""),  # then a seed is imagined, and the interval is wide
        "at an end": ([0.0] * 9 + [1.0], ""),
        "disaster": ([*rest, 0.9], pages.DISASTER),
        "two kinds": ([*rest[:5], *([0.9] * 5)], ""),
        "plain": (rest, ""),
    }
    found = {name: pages.defeats(torch.tensor(values), -1, 1) for name, (values, _) in told.items()}
    assert found == {name: kind for name, (_, kind) in told.items()}


def test_every_example_of_how_we_know_holds():
    text = (pages.BOOK / "how_we_know.md").read_text(encoding="utf-8")
    examples = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    test = doctest.DocTestParser().get_doctest(examples, {}, "page", "page", 0)
    assert doctest.DocTestRunner(verbose=False).run(test) == (0, len(test.examples))
