"""One training: ``simulate`` with everybody present is ``train(FedAvg)``, whatever goes wrong."""

from __future__ import annotations

import warnings

import pytest
import torch
from helpers import Sends

import fedlab_mini as fm
from fedlab_mini.worlds import attacks, corrupt

ROUNDS, CLIENTS = 4, 6
CASES = {
    "nothing": {},
    "flip_labels": {2: fm.flip_labels(0.7)},
    "relabel_as": {2: fm.relabel_as(1, 0.8)},
    "swap_labels": {2: fm.swap_labels((0, 2))},
    "delete_words": {2: fm.delete_words(0.5)},
    "backdoor": {2: fm.backdoor(1, 0.5, (1, 4, 4), 2)},
    "sign_flip": {2: fm.sign_flip(2.0)},
    "free_ride": {2: fm.free_ride(0.3)},
    "replay": {2: fm.replay()},
    "scale": {2: fm.scale(3.0)},
    "scale within the rule": {2: fm.scale(1e3)},
    "scale beyond the rule": {2: fm.scale(1e6)},
    "scale backwards": {2: fm.scale(-1e6)},
    "scale without end": {2: fm.scale(1e300)},
    "no number": {2: Sends(torch.nan)},
    "most of them": {k: fm.scale(1e6) for k in range(4)} | {4: fm.replay()},
    "one of each": {0: fm.flip_labels(0.5), 1: fm.sign_flip(), 2: Sends(torch.inf), 3: fm.replay()},
    "everybody": dict.fromkeys(range(CLIENTS), fm.scale(1e6)),
    "within the rule until the model is ruined": dict.fromkeys(range(5), fm.scale(30.0)),
}
cases = pytest.mark.parametrize("wrong", CASES.values(), ids=CASES)


def words(samples: int = 300) -> fm.Dataset:
    """Whole numbers that can be counted words, or small images."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randint(0, 4, (samples, 16), generator=generator).double()
    y = (x @ torch.randn(16, 3, generator=generator, dtype=torch.float64)).argmax(1)
    return fm.Dataset(x, y, 3, shape=(1, 4, 4))


def trained_both_ways(wrong, local, net=None):
    """Accuracy and loss after every round: of ``train``, and of ``simulate`` with everybody."""
    fed = fm.federation(
        words(),
        clients=CLIENTS,
        split=fm.dirichlet_sizes(2.0),
        corrupt=wrong,
        validation=60,
        test=60,
        seed=1,
    )
    net = fm.mlp(16, 8, 3) if net is None else net
    everybody = torch.ones(2, ROUNDS, CLIENTS)
    settings = {"local": local, "seed": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = fm.train(fed, net, fm.FedAvg(), rounds=ROUNDS, **settings)
        accuracy = fm.simulate(fed, net, everybody, on="test", **settings)
        loss = fm.simulate(fed, net, everybody, on="test", metric="loss", **settings)
        last = fm.simulate(fed, net, everybody, on="test", metric="loss", last=True, **settings)
    return history, accuracy, loss, last


def test_no_corruption_and_no_attack_is_forgotten():
    bases = corrupt.DataCorruption, attacks.UpdateAttack
    known = [*vars(corrupt).values(), *vars(attacks).values()]
    kinds = [kind for kind in known if isinstance(kind, type) and issubclass(kind, bases)]
    names = {kind.__name__ for kind in kinds if kind not in bases}
    assert len(names) >= 9
    assert names <= set(CASES)


@cases
@pytest.mark.parametrize(
    "local",
    [fm.LocalSGD(batch=8, lr=0.05), fm.LocalSGD(epochs=2, batch=16, lr=0.2, decay=0.5)],
    ids=["one pass", "two passes"],
)
def test_everybody_always_is_train(wrong, local):
    history, accuracy, loss, last = trained_both_ways(wrong, local)
    for run in range(2):
        assert torch.equal(accuracy[run], history.accuracy[1:])
        torch.testing.assert_close(loss[run], history.loss[1:], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(last[:, 0], history.loss[-1:].expand(2), rtol=1e-9, atol=1e-9)


def test_everybody_always_is_train_where_the_step_size_is_at_fault():
    history, accuracy, loss, _ = trained_both_ways({}, fm.LocalSGD(batch=4, lr=1e30))
    assert torch.equal(accuracy[0], history.accuracy[1:])
    torch.testing.assert_close(loss[0], history.loss[1:], rtol=1e-9, atol=1e-9)


@cases
def test_who_is_named_is_the_same(wrong):
    """A warning of ``simulate`` names exactly those that ``train`` names."""
    fed = fm.federation(words(), clients=CLIENTS, corrupt=wrong, validation=60, test=60, seed=1)
    net, said = fm.logistic(16, 3), []
    for work in (
        lambda: fm.train(fed, net, fm.FedAvg(), rounds=ROUNDS),
        lambda: fm.simulate(fed, net, torch.ones(1, ROUNDS, CLIENTS)),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            work()
        texts = [str(warning.message) for warning in caught]
        texts = [text.partition(": ")[2] or text for text in texts if "left out:" not in text]
        named = [text.partition(" sent")[0] for text in texts if "sent" in text]
        said.append(",".join(named))
    assert said[0] == said[1]
