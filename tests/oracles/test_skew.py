"""Skew: the quantity that a server sees, against hand-made rounds, and how rules are judged."""

from dataclasses import replace

import pandas as pd
import pytest
import torch
from torch.nn.functional import cross_entropy

import fedlab_mini as fm
import studies
from fedlab_mini.engine.rounds import Round
from studies import advice, skew
from studies.results import Results
from studies.study import COLUMNS

KIND = skew.Kind("digits", 8, 1, "Dirichlet 0.1", skew.WRONG)


@pytest.fixture(scope="module")
def federation():
    return KIND.made(0)


def round_of(net, fed, updates):
    return Round(2, net.init(0), torch.arange(len(updates)), fed.sizes[: len(updates)], updates)


def test_rise_is_the_median_client_s_by_a_plain_loop(federation):
    fed, net = federation
    theta = net.init(0)
    updates = fm.local_updates(fed, net, theta, local=fm.LocalSGD(epochs=2, lr=0.2))
    x, y = fed.validation

    def loss(model):
        return float(cross_entropy(net.forward(model, x).double(), y))

    rises = sorted(loss(theta + one) - loss(theta) for one in updates)
    assert skew.rise(net, round_of(net, fed, updates), fed) == pytest.approx(rises[3], abs=1e-6)
    # ``torch.median`` takes the lower of the two in the middle.
    assert rises[3] != rises[4]


def test_clients_that_send_one_update_look_the_same(federation):
    fed, net = federation
    one = torch.randn(net.P, generator=torch.Generator().manual_seed(0))
    same = round_of(net, fed, one.repeat(8, 1))
    assert skew.rows_of_last_layer(net, same) == pytest.approx(0, abs=1e-12)
    assert skew.judged_by_class(net, same, fed)[0] == pytest.approx(0, abs=1e-6)
    assert skew.pairwise_cosine(same) == pytest.approx(1)
    opposite = round_of(net, fed, torch.stack([one, -one]))
    assert skew.pairwise_cosine(opposite) == pytest.approx(-1)


def test_clients_that_know_one_class_each_are_far_apart(federation):
    fed, net = federation
    rows = torch.zeros(8, net.P)
    bias = net.split(rows)[-1]  # a view
    bias[torch.arange(8), torch.arange(8)] = 1000.0
    apart = round_of(net, fed, rows)
    assert skew.rows_of_last_layer(net, apart) == pytest.approx(1)
    mixes, recall = skew.judged_by_class(net, apart, fed)
    assert mixes == pytest.approx(1, abs=1e-3)
    # Recall is 1 for one of ten classes, and 0 for the others.
    assert recall == pytest.approx(0.1**0.5, abs=1e-3)
    assert skew.distance(torch.eye(3)).tolist() == [1, 1, 1]


def test_wrong_labels_are_those_of_the_last_two_clients(federation):
    fed, net = federation
    assert fed.corrupted == {5, 6, 7}
    assert fed.noise.tolist() == [0] * 6 + [1, 1]
    clean, _ = replace(KIND, corrupted=skew.CLEAN).made(0)
    assert not clean.corrupted
    assert torch.equal(clean.x, fed.x)
    # The last two have the largest loss of those that count: the idle one does not.
    rows = torch.zeros(8, net.P)
    net.split(rows)[-1][6:, 0] = 50.0
    rows[5] = 1e3
    own, _ = skew.detected(net, round_of(net, fed, rows), fed)
    assert own == 1


def made_up(rise):
    """Rows of two seeds, in which own loss fails exactly under Dirichlet 0.1 to 1."""
    found = []
    for seed, kind in [(seed, kind) for seed in (0, 1) for kind in skew.KINDS]:
        skewed = kind.split not in ("Dirichlet 5", "IID")
        found.append((seed, kind.name, "own loss", f"{skew.MEAN_COSINE} @ {skew.ROUND}", 1))
        for t in (skew.ROUND, *skew.LENGTHS):
            found.append((seed, kind.name, "own loss", f"{skew.AUC} @ {t}", 0.5 if skewed else 1))
            for rule in skew.LIMITS:
                found.append((seed, kind.name, rule, f"{skew.SEEN} @ {t}", rise(kind, skewed)))
    return Results(studies.named("label-skew"), pd.DataFrame(found, columns=COLUMNS))


def test_rates_of_a_perfect_rule_and_of_one_that_calls_all_skewed():
    perfect = made_up(lambda kind, skewed: 1.0 if skewed else -1.0)
    of_all = perfect.values(skew.ERRS, skew.RISE, skew.ALL)
    assert of_all.tolist() == [0, 0]
    # A low cosine speaks of skew, so the same numbers are all wrong for it.
    assert perfect.values(skew.ERRS, skew.COSINE, skew.ALL).tolist() == [1, 1]
    assert perfect.values(skew.CALLED, skew.RISE, skew.ALL).tolist() == pytest.approx([0.6] * 2)
    always = made_up(lambda kind, skewed: 1.0)
    assert always.values(skew.ERRS, skew.RISE, skew.ALL).tolist() == pytest.approx([0.4] * 2)
    assert always.values(skew.ALARM, skew.RISE, skew.ALL).tolist() == pytest.approx([0.4] * 2)
    assert always.values(skew.ERRS, skew.RISE, "IID").tolist() == [1, 1]
    assert always.values(skew.ERRS, skew.RISE, "Dirichlet 0.1").tolist() == [0, 0]
    place = "round 2's word on round 32"
    assert always.values(skew.ERRS, skew.RISE, place).tolist() == [0.25, 0.25]
    assert always.values(skew.CALLED, skew.RISE, "IID, MNIST, 5 epochs, round 8").tolist() == [1, 1]


def test_every_claim_has_a_sentence_of_its_own_and_none_fails():
    results = studies.results("label-skew")
    sentences = [claim.sentence for claim in skew.CLAIMS.values()]
    assert len(set(sentences)) == len(sentences)
    words = {name: results.judge(claim).verdict for name, claim in skew.CLAIMS.items()}
    # Some bounds were set too tight before the seeds were drawn.
    assert set(words.values()) == {"holds", "not shown"}, words
    assert words["errs"] == words[skew.ROWS] == "holds"


def test_the_advice_has_the_rule_s_numbers():
    says = advice.records()["mixes seen"].words
    assert f"In round {skew.ROUND} (" in says
    assert f"Above {skew.LIMITS[skew.RISE]}," in says
    assert "@" not in says
    assert len(says.partition("(")[0].split()) <= 40
