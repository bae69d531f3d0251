"""Losses and metrics of one's own: what is refused, and in which words.

That those which are accepted are computed right: tests/oracles/test_own_objective.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers import numbers
from sklearn.metrics import r2_score
from torch import nn
from torch.nn import functional as F

import fedlab_mini as fm

X, TARGETS = numbers(20, 4, seed=1).float(), numbers(20, seed=2).float()
MODULE = nn.Linear(4, 1)


def fed(y: Any = TARGETS[:, None], **more: Any) -> fm.Federation:
    given = {"validation": (X, y), "test": (X, y), "classes": 0} | more
    return fm.Federation.from_datasets([(X, y), (X, y)], **given)


def trained(loss: Any, y: Any = TARGETS[:, None], strategy: Any = None, **more: Any) -> Any:
    model = fm.Model(more.pop("module", MODULE), loss=loss, metric=more.pop("metric", None))
    return fm.train(fed(y, **more), model, strategy or fm.FedAvg(), rounds=1, theta=model.theta())


def game(metric: Any) -> Any:
    net = fm.Model(MODULE, loss=F.mse_loss)
    return fm.exact(fm.retraining_game(fed(), net, 1, metric=metric))


CLASSES = torch.arange(20) % 3


class Accumulating:
    """A metric as libraries of metrics have them: over all that it was ever shown."""

    hits = shown = 0

    def __call__(self, outputs, y):
        self.hits += int((outputs.argmax(1) == y).sum())
        self.shown += len(y)
        return self.hits / self.shown


def unlucky() -> nn.Linear:
    """Wrong on the two samples that a metric is tried on, and so is minus its outputs."""
    module, two = nn.Linear(4, 3), X.unique(dim=0)[:2]
    gap, offset = two[0] - two[1], two.square().sum(1) @ torch.tensor([0.5, -0.5])
    module.weight.data = torch.stack([gap, -gap, 0 * gap])
    module.bias.data = torch.stack([-offset, offset, torch.tensor(100.0)])
    return module


class Rolling(Accumulating):
    """A loss that weighs by what it has seen."""

    def __call__(self, outputs, y):
        self.shown += 1
        return F.mse_loss(outputs, y) / self.shown


class Attending(nn.Module):
    """Attention, whose second derivative has no formula in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.out = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        h = self.line(x)[:, None].unflatten(2, (2, 4)).transpose(1, 2)
        return self.out(F.scaled_dot_product_attention(h, h, h).flatten(1))


class Running(nn.Module):
    """Keeps a mean of its inputs as an attribute, which no client would send."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.mean = nn.Linear(4, 1), torch.zeros(4)

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()
        return self.line(x - self.mean)


class Noisy(nn.Module):
    """Draws from a generator that no seed of the package reaches."""

    chance = np.random.default_rng(5)

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 1)

    def forward(self, x):
        noise = self.chance.normal(size=x.shape) if self.training else 0 * x.numpy()
        return self.line(x + torch.from_numpy(noise).to(x))


def round_game(y: torch.Tensor) -> Any:
    net = fm.Model(MODULE, loss=nn.HuberLoss())
    return fm.round_game(net, net.theta(), UPDATE, X, y, metric="loss")


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "numbers, and cross-entropy": (
        lambda: trained(None),
        r"^net: its loss is cross-entropy, .* fm\.Model\(module, loss=\.\.\.\)",
    ),
    "numbers where classes are counted": (
        lambda: fed(classes=None),
        r"^datasets\[0\]: y: expected .*: classes=0, and a model with a loss",
    ),
    "labels [N] beside outputs [N, 1]": (
        lambda: trained(nn.MSELoss(), TARGETS),
        r"^loss: does not pair outputs and labels; outputs have shape \[N, 1\], labels \[N\]",
    ),
    "the same by hand": (
        lambda: trained(lambda o, y: (o - y).abs().mean(), TARGETS),
        "^loss: does not pair outputs and labels",
    ),
    "the same in a metric": (
        lambda: trained(
            lambda o, y: F.mse_loss(o[:, 0], y),
            TARGETS,
            metric=lambda o, y: -(o - y).square().mean(),
        ),
        "^metric: does not pair outputs and labels",
    ),
    "the same in a game": (
        lambda: round_game(TARGETS),
        "^loss: does not pair outputs and labels",
    ),
    "the same for scores": (
        lambda: fm.score(
            [UPDATE], theta=NET.theta(), net=NET, validation=(X, TARGETS), methods=[fm.exact]
        ),
        "^loss: does not pair outputs and labels",
    ),
    "weight decay in the loss": (
        lambda: trained(lambda o, y: F.mse_loss(o, y) + MODULE.weight.square().sum()),
        "^loss: reads parameters directly, as weight decay does",
    ),
    "a metric that accumulates": (
        lambda: trained(None, CLASSES, module=unlucky(), classes=3, metric=Accumulating()),
        "^metric: remembers earlier calls",
    ),
    "a loss that remembers": (lambda: trained(Rolling()), "^loss: remembers earlier calls"),
    "a metric with the labels first": (
        lambda: trained(F.mse_loss, metric=r2_score),
        "^metric: is called with .* but its first argument is y_true",
    ),
    "labels from 1": (
        lambda: trained(None, CLASSES + 1, module=nn.Linear(4, 3), classes=None),
        "^net: gives 3 outputs, but the data have 4 classes; are the classes counted from 0",
    ),
    "classes where one logit is meant": (
        lambda: trained(nn.BCEWithLogitsLoss(), CLASSES, module=nn.Linear(4, 1), classes=None),
        "^net: gives 1 outputs, .* give classes=0",
    ),
    "whole numbers that became floats": (
        lambda: trained(F.cross_entropy, CLASSES, module=nn.Linear(4, 3)),
        r"^loss: fails on .*: write y\.long\(\) in the function",
    ),
    "a mean that only one client knows": (
        lambda: trained(F.mse_loss, module=Running()),
        r"^net: the outputs of Running depend on what it keeps .* \(it changes mean\); only",
    ),
    "noise from elsewhere": (
        lambda: trained(F.mse_loss, module=Noisy()),
        r"^net: the outputs of Noisy depend on .* random numbers that are not torch's; only its",
    ),
    "a slope that PyTorch lacks": (
        lambda: trained(F.mse_loss, module=Attending(), strategy=fm.methods.Taylor(2)),
        "^net: PyTorch cannot differentiate its loss",
    ),
    "a loss a sample": (
        lambda: trained(nn.MSELoss(reduction="none")),
        r"^loss: expected one number as a tensor .* such as \.mean\(\) gives, got shape \[2, 1\]",
    ),
    "a loss that is a number of Python": (
        lambda: trained(lambda o, y: float(F.mse_loss(o, y))),
        "^loss: expected one number as a tensor",
    ),
    "a loss without a slope": (
        lambda: trained(lambda o, y: ((o > 0).float() - y).abs().mean()),
        r"^loss: expected .* that PyTorch can differentiate, .* requires_grad=False; .* as metric=",
    ),
    "a class instead of an object": (
        lambda: trained(nn.MSELoss),
        r"^loss: expected a function of \(outputs, labels\), such as nn\.MSELoss\(\)",
    ),
    "a loss that learns": (
        lambda: trained(nn.Sequential(nn.Linear(1, 1))),
        "^loss: has parameters of its own",
    ),
    "a loss that draws": (
        lambda: trained(lambda o, y: F.mse_loss(o + torch.rand(1), y)),
        "^loss: draws random numbers",
    ),
    "arguments in the other order": (
        lambda: trained(F.cross_entropy, CLASSES, module=nn.Linear(4, 2), classes=3),
        "^net: gives 2 outputs, but the data have 3 classes",
    ),
    "a loss that fails": (
        lambda: trained(lambda o, y: F.mse_loss(o, y["target"])),
        r"^loss: fails on outputs Tensor \[2, 1\] of float32 and labels Tensor \[2, 1\] of float32",
    ),
    "a metric that fails": (
        lambda: game(lambda o, y: o["accuracy"]),
        r"^metric: fails on outputs Tensor \[20, 1\]",
    ),
    "a metric that is NaN": (lambda: game(lambda o, y: o.sum() * torch.nan), "^metric: .* NaN"),
    "a word that is none": (lambda: game("auc"), '^metric: expected "accuracy", "loss" or a'),
    "accuracy without classes": (lambda: game("accuracy"), '^metric: "accuracy" needs classes'),
    "accuracy, by a method": (
        lambda: trained(F.mse_loss, strategy=fm.SFedAvg(1)),
        '^metric: "accuracy" needs classes',
    ),
    "a relevance of each class": (
        lambda: trained(F.mse_loss, strategy=fm.SFedAvg(1, by_class=True)),
        "^by_class: needs classes",
    ),
    "labels that are standardised": (
        lambda: trained(F.mse_loss, strategy=fm.LabelStandardisation()),
        "^label standardisation: needs classes",
    ),
    "no sample is given to one who reads them": (
        lambda: fm.score([UPDATE], theta=NET.theta(), net=NET, methods=[fm.CGSV(), "second order"]),
        r"^validation: a method reads the server's samples; give validation=\(x, y\)",
    ),
    "targets that are not finite": (
        lambda: fed(TARGETS[:, None] / 0),
        r"^datasets\[0\]: y: holds NaN or infinite values",
    ),
}
NET = fm.Model(MODULE, loss=F.mse_loss)
UPDATE = numbers(2, NET.P, seed=3).float()


@pytest.mark.parametrize(("call", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_meant_is_refused_in_words(call, words) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        call()


WORKS = {
    "labels as the function pairs them": lambda: trained(
        lambda o, y: F.mse_loss(o[:, 0], y), TARGETS
    ),
    "one logit": lambda: trained(nn.BCEWithLogitsLoss(), (TARGETS > 0)[:, None]),
    "a probability": lambda: trained(
        lambda o, y: F.binary_cross_entropy(o, y),
        (TARGETS > 0)[:, None],
        module=nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()),
    ),
    "an image for every sample": lambda: trained(
        nn.L1Loss(),
        numbers(20, 3, 4, seed=4),
        module=nn.Sequential(nn.Linear(4, 12), nn.Unflatten(1, (3, 4))),
    ),
    "counts": lambda: trained(nn.PoissonNLLLoss(), TARGETS.abs().round()[:, None]),
    "whole numbers as targets": lambda: trained(F.mse_loss, TARGETS.sign().long()[:, None]),
    "weights of classes": lambda: trained(
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])),
        CLASSES,
        module=nn.Linear(4, 3),
        classes=3,
        metric=lambda o, y: (o.argmax(1) == y).double().mean(),
    ),
    "softened labels": lambda: trained(
        nn.CrossEntropyLoss(label_smoothing=0.1),
        CLASSES,
        module=nn.Linear(4, 3),
        classes=3,
        strategy=fm.LabelStandardisation(1),
        metric=lambda o, y: (o.argmax(1) == y).double().mean(),
    ),
    "a loss in double precision": lambda: trained(lambda o, y: F.mse_loss(o.double(), y.double())),
    "a layer at two places": lambda: trained(
        F.mse_loss,
        module=nn.Sequential(shared := nn.Linear(4, 4), nn.Tanh(), shared, nn.Linear(4, 1)),
    ),
    "a loss without curvature": lambda: trained(nn.L1Loss(), strategy=fm.methods.Taylor(2)),
    "a metric for methods that read accuracy": lambda: trained(
        F.mse_loss, strategy=fm.SFedAvg(1), metric=lambda o, y: -F.l1_loss(o, y)
    ),
}


@pytest.mark.parametrize("call", WORKS.values(), ids=WORKS)
def test_what_people_train_with(call) -> None:
    history = call()
    assert history.loss.isfinite().all()
    assert history.scores.isfinite().all()
    assert history.loss[1] != history.loss[0]
    assert "nan" not in repr(history)
