"""Losses and metrics of one's own, against a loop in plain PyTorch, to 1e-9 in float64.

The loop knows the module, the loss as PyTorch has it, and which samples form which minibatch;
nothing else of the package.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import pytest
import torch
from helpers import numbers
from sklearn.metrics import f1_score, r2_score, roc_auc_score
from torch import Tensor, nn
from torch.nn import functional as F

import fedlab_mini as fm
from fedlab_mini.engine.plain import batches

SIZES = (9, 16, 5)
SERVER = 40
N = sum(SIZES) + SERVER
X = numbers(N, 4, seed=1)
SIGNAL = X @ numbers(4, 3, seed=2)  # [N, 3]
NOISY = SIGNAL + 0.3 * numbers(N, 3, seed=3)
LOCAL = fm.LocalSGD(epochs=2, batch=7, lr=0.05)


class Flat(nn.Module):
    """Outputs [N], as somebody writes who has one number a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))

    def forward(self, x):
        return self.inside(x).squeeze(-1)


def perceptron(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, outputs))


def r_squared(outputs: Tensor, y: Tensor) -> float:
    return r2_score(y.numpy(), outputs.numpy())


def auc(outputs: Tensor, y: Tensor) -> float:
    return roc_auc_score(y.numpy(), outputs.numpy())


def f_1(outputs: Tensor, y: Tensor) -> float:
    return f1_score(y.numpy(), outputs.numpy() > 0, average="macro", zero_division=0)


def relative(outputs: Tensor, y: Tensor) -> Tensor:
    """No mean over samples: what one is worth depends on the others of its minibatch."""
    return (outputs - y).square().sum() / (1 + y.abs().sum())


class Task(NamedTuple):
    module: nn.Module
    y: Tensor
    classes: int
    loss: Any
    metric: Any


TASKS = {
    "regression": Task(perceptron(1), NOISY[:, :1], 0, nn.MSELoss(), r_squared),
    "one logit": Task(
        perceptron(1),
        (NOISY[:, :1] > 0).double(),
        0,
        nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0])),  # in float32, as people have it
        auc,
    ),
    "several labels": Task(
        perceptron(3), (NOISY > 0).double(), 0, F.binary_cross_entropy_with_logits, f_1
    ),
    "class weights": Task(
        perceptron(3),
        NOISY.argmax(1),
        3,
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 5.0])),
        lambda outputs, y: float((outputs.argmax(1) == y).double().mean()),
    ),
    "no mean over samples": Task(Flat(), NOISY[:, 0], 0, relative, r_squared),
}


def weights_of(task: Task) -> nn.Module | Any:
    """The loss in the type of the data, which a plain loop needs."""
    return task.loss.double() if isinstance(task.loss, nn.Module) else task.loss


def bring(task: Task) -> tuple[fm.Federation, fm.Model]:
    *clients, server = zip(X.split([*SIZES, SERVER]), task.y.split([*SIZES, SERVER]), strict=True)
    fed = fm.Federation.from_datasets(clients, validation=server, test=server, classes=task.classes)
    return fed, fm.Model(task.module, loss=task.loss, metric=task.metric)


class Plain:
    """Training as anybody writes it, of some of the clients."""

    def __init__(self, task: Task, fed: fm.Federation, rounds: int):
        self.task, self.fed, self.rounds = task, fed, rounds

    def set(self, theta: Tensor) -> nn.Module:
        module = self.task.module.double()
        nn.utils.vector_to_parameters(theta.clone(), module.parameters())
        return module

    def update(self, theta: Tensor, k: int, t: int) -> Tensor:
        module, (x, y) = self.set(theta), self.fed.client(k)
        sgd = torch.optim.SGD(module.parameters(), lr=LOCAL.lr)
        for positions in batches(self.fed, LOCAL, 5, t, k):
            sgd.zero_grad()
            weights_of(self.task)(module(x[positions]), y[positions]).backward()
            sgd.step()
        return nn.utils.parameters_to_vector(module.parameters()).detach() - theta

    def trained(self, theta: Tensor, clients: tuple[int, ...]) -> Tensor:
        for t in range(1, self.rounds + 1 if clients else 1):
            sizes = torch.tensor([SIZES[k] for k in clients]).double()
            sent = torch.stack([self.update(theta, k, t) for k in clients])
            theta = theta + sizes / sizes.sum() @ sent
        return theta

    @torch.no_grad()
    def judged(self, theta: Tensor) -> tuple[float, float]:
        """Minus the loss, and the metric."""
        x, y = self.fed.validation
        outputs = self.set(theta)(x)
        return -float(weights_of(self.task)(outputs, y)), float(self.task.metric(outputs, y))


def shapley(worth: dict[tuple[int, ...], float], players: int) -> list[float]:
    """The mean over all orders of what a player adds."""
    total = [0.0] * players
    for order in itertools.permutations(range(players)):
        for place, k in enumerate(order):
            before = tuple(sorted(order[:place]))
            total[k] += worth[tuple(sorted((*before, k)))] - worth[before]
    return [value / math.factorial(players) for value in total]


@pytest.fixture(params=TASKS)
def case(request) -> tuple[Task, fm.Federation, fm.Model, Tensor]:
    task = TASKS[request.param]
    fed, net = bring(task)
    return task, fed, net, net.init(5, dtype=torch.float64)


close = {"rtol": 0, "atol": 1e-9}


def test_retraining_values_and_leave_one_out(case) -> None:
    task, fed, net, theta = case
    plain, everybody = Plain(task, fed, rounds=2), tuple(range(len(SIZES)))
    coalitions = [s for n in range(4) for s in itertools.combinations(everybody, n)]
    judged = {s: plain.judged(plain.trained(theta, s)) for s in coalitions}
    assert len({round(loss, 6) for loss, _ in judged.values()}) == 8
    # Both as words and by the function itself; "accuracy" is the metric that the model was given.
    for place, metric in ((0, "loss"), (1, "accuracy"), (1, task.metric)):
        worth = {s: values[place] for s, values in judged.items()}
        game = fm.retraining_game(fed, net, 2, LOCAL, metric, seed=5)
        assert fm.exact(game).values.tolist() == pytest.approx(shapley(worth, 3), abs=1e-9)
        without = [worth[everybody] - worth[tuple({*everybody} - {k})] for k in everybody]
        assert fm.leave_one_out(game).values.tolist() == pytest.approx(without, abs=1e-9)
    done = fm.train(fed, net, fm.FedAvg(), rounds=2, local=LOCAL, seed=5, theta=theta)
    loss, metric = plain.judged(plain.trained(theta, everybody))
    assert float(done.loss[-1]) == pytest.approx(-loss, abs=1e-9)
    assert float(done.accuracy[-1]) == pytest.approx(metric, abs=1e-9)


def test_scores_of_a_round(case) -> None:
    task, fed, net, theta = case
    plain = Plain(task, fed, rounds=1)
    sent = torch.stack([plain.update(theta, k, 1) for k in range(3)])
    ours = fm.local_updates(fed, net, theta, local=LOCAL, seed=5)
    torch.testing.assert_close(ours, sent, **close)
    share = torch.tensor(SIZES).double() / sum(SIZES)
    record = {"theta": theta, "updates": sent, "sizes": SIZES}
    found = fm.score(
        [record], net=net, validation=fed.validation, methods=["second order", "Shapley"]
    )

    def loss(point: Tensor) -> Tensor:
        x, y = fed.validation
        names = [name for name, _ in task.module.named_parameters()]
        sizes = [p.numel() for p in task.module.parameters()]
        shapes = [p.shape for p in task.module.parameters()]
        parts = [q.view(s) for q, s in zip(point.split(sizes), shapes, strict=True)]
        outputs = torch.func.functional_call(task.module, dict(zip(names, parts, strict=True)), x)
        return weights_of(task)(outputs, y)

    slope = torch.autograd.functional.jacobian(loss, theta)
    curvature = torch.autograd.functional.hessian(loss, theta)
    rows = share[:, None] * sent
    second = -(rows @ (slope + curvature @ rows.sum(0) / 2))
    torch.testing.assert_close(torch.tensor(found["second order"]), second, **close)

    worth = {}
    for n in range(4):
        for s in itertools.combinations(range(3), n):
            w = share[list(s)] / share[list(s)].sum()
            worth[s] = plain.judged(theta + w @ sent[list(s)] if s else theta)[0]
    assert found["Shapley"].tolist() == pytest.approx(shapley(worth, 3), abs=1e-9)


def test_the_weights_of_cgsv(case) -> None:
    task, fed, net, theta = case
    strategy = fm.CGSV(gamma0=0.5, server_lr=0.5, floor=None)
    done = fm.train(fed, net, strategy, rounds=2, local=LOCAL, seed=5, theta=theta)
    plain, r = Plain(task, fed, rounds=2), torch.tensor(SIZES).double() / sum(SIZES)
    for t in (1, 2):
        sent = torch.stack([plain.update(theta, k, t) for k in range(3)])
        unit = sent / sent.norm(dim=1, keepdim=True)
        together = r @ unit
        cosines = unit @ together / together.norm()
        gamma = 1 - 0.5 / t
        r = gamma * r + (1 - gamma) * cosines
        r = r / r.sum()
        theta = theta + 0.5 * together
        torch.testing.assert_close(done.scores[t - 1], r, **close)
    torch.testing.assert_close(done.theta, theta, **close)
    # No sample of a server's is needed.
    alone = fm.score([sent], theta=theta, net=net, methods=[fm.CGSV()])
    assert alone["CGSV"].sum() == pytest.approx(1)
