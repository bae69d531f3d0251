"""One training: ``simulate`` with everybody present is ``train(FedAvg)``, whatever goes wrong."""

from __future__ import annotations

import warnings

import pytest
import torch
from helpers import Sends

import fedlab_mini as fm
from fedlab_mini.worlds.corrupt import Backdoor

ROUNDS, CLIENTS = 4, 6
CASES = {
    "nothing": {},
    "backdoor": {2: Backdoor(1, 0.5, (1, 4, 4), 2)},
    "FreeRide": {2: fm.attacks.FreeRide(0.3)},
    "replay": {2: fm.attacks.Replay()},
    "scale beyond the rule": {2: fm.attacks.Scale(1e6)},
    "scale without end": {2: fm.attacks.Scale(1e300)},
    "no number": {2: Sends(torch.nan)},
    "one of each": {
        0: fm.FlipLabels(0.5),
        1: fm.attacks.SignFlip(),
        2: Sends(torch.inf),
        3: fm.attacks.Replay(),
    },
    "everybody": dict.fromkeys(range(CLIENTS), fm.attacks.Scale(1e6)),
    "within the rule until the model is ruined": dict.fromkeys(range(5), fm.attacks.Scale(30.0)),
}


def small_images(samples: int = 300) -> fm.Dataset:
    generator = torch.Generator().manual_seed(5)
    x = torch.randint(0, 4, (samples, 16), generator=generator).double()
    y = (x @ torch.randn(16, 3, generator=generator, dtype=torch.float64)).argmax(1)
    return fm.Dataset(x, y, 3, shape=(1, 4, 4))


def named(work) -> tuple[object, list[str]]:
    """What a training gives, and whom its warnings name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = work()
    texts = [str(warning.message) for warning in caught]
    texts = [text.partition(": ")[2] or text for text in texts if "left out:" not in text]
    return result, [text.partition(" sent")[0] for text in texts if "sent" in text]


@pytest.mark.parametrize("wrong", CASES.values(), ids=CASES)
def test_everybody_always_is_train(wrong):
    dealt = {"clients": CLIENTS, "split": fm.DirichletSizes(2.0), "validation": 60, "test": 60}
    fed = fm.federation(small_images(), corrupt=wrong, seed=1, **dealt)
    net, everybody = fm.mlp(16, 8, 3), torch.ones(2, ROUNDS, CLIENTS)
    given = {"local": fm.LocalSGD(epochs=2, batch=16, lr=0.2, decay=0.5), "seed": 3}
    history, told = named(lambda: fm.train(fed, net, fm.FedAvg(), rounds=ROUNDS, **given))
    accuracy, told_again = named(lambda: fm.simulate(fed, net, everybody, on="test", **given))
    given |= {"on": "test", "metric": "loss"}
    loss, _ = named(lambda: fm.simulate(fed, net, everybody, **given))
    last, _ = named(lambda: fm.simulate(fed, net, everybody, last=True, **given))
    for run in range(2):
        assert torch.equal(accuracy[run], history.accuracy[1:])
        torch.testing.assert_close(loss[run], history.loss[1:], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(last[:, 0], history.loss[-1:].expand(2), rtol=1e-9, atol=1e-9)
    assert told == told_again
