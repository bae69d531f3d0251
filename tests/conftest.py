"""What several test files share: random federations, random games and the plain reference loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

import fedlab_mini as fm
from fedlab_mini.local import LocalSGD, Shuffles

settings.register_profile("book", derandomize=True, deadline=None, max_examples=20, database=None)
settings.load_profile("book")
torch.set_num_threads(1)  # small tensors: a second thread only spins beside the other worker


def random_federation(
    sizes: Iterable[int],
    *,
    inputs: int = 6,
    classes: int = 3,
    dtype: torch.dtype = torch.float64,
    server: int = 40,
    seed: int = 0,
) -> fm.Federation:
    """Clients of the given sizes with Gaussian inputs and labels that a linear rule can learn."""
    generator = torch.Generator().manual_seed(seed)
    rule = torch.randn(inputs, classes, generator=generator, dtype=torch.float64)

    def draw(n: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, inputs, generator=generator, dtype=torch.float64)
        return x.to(dtype), (x @ rule).argmax(1)

    return fm.Federation.from_datasets(
        [draw(n) for n in sizes], validation=draw(server), test=draw(server + 9), classes=classes
    )


def random_game(n: int, seed: int = 0) -> fm.Game:
    """A worth drawn at random for each of the 2^n coalitions."""
    generator = torch.Generator().manual_seed(seed)
    return table_game(torch.randn(1 << n, generator=generator, dtype=torch.float64))


def table_game(table: Tensor) -> fm.Game:
    """The game whose worth of a coalition is ``table[bit mask]``."""
    n = len(table).bit_length() - 1
    bits = 1 << torch.arange(n)
    return fm.Game(n, lambda s: table[(s * bits).sum(1)])


def load_module(net: fm.Model, theta: Tensor) -> nn.Module:
    """A copy of the model's module that holds the parameters ``theta``."""
    module = copy.deepcopy(net.module).to(theta.dtype)
    nn.utils.vector_to_parameters(theta.clone(), module.parameters())
    return module


def train_plainly(
    net: fm.Model,
    theta: Tensor,
    samples: tuple[Tensor, Tensor],
    batches: Iterable[Tensor],
    lr: float,
    setup: Callable[[nn.Module], object] = nn.Module.train,
) -> Tensor:
    """One client's training as a beginner writes it: module, autograd, optimiser; its update."""
    (x, y), module = samples, load_module(net, theta)
    setup(module)
    optimiser = torch.optim.SGD(module.parameters(), lr=lr)
    for rows in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(x[rows]), y[rows]).backward()
        optimiser.step()
    return nn.utils.parameters_to_vector(module.parameters()).detach() - theta


def planned_batches(
    fed: fm.Federation, local: LocalSGD, seed: int, t: int, k: int, count: int | None = None
) -> list[Tensor]:
    """Positions, within client ``k``'s own samples, of the minibatches the engine plans for it."""
    count = int(fed.sizes[k]) if count is None else count
    plan = Shuffles(fed, local, seed).plan(t, np.array([k]), np.array([count]))
    return [
        block[used] - fed.offsets[k]
        for block, used in zip(plan.blocks, plan.scale > 0, strict=True)
    ][: int(plan.steps[0])]


def train_federation_plainly(
    fed: fm.Federation,
    net: fm.Model,
    rounds: int,
    local: LocalSGD,
    seed: int,
    shares: Tensor | None = None,
) -> Tensor:
    """FedAvg client after client; shares [T, K] of the data (default: all); the final theta."""
    theta = net.init(seed, dtype=fed.x.dtype)
    for t in range(1, rounds + 1):
        total, step = 0, torch.zeros_like(theta)
        for k in range(fed.clients):
            share = 1.0 if shares is None else float(shares[t - 1, k])
            count = int(np.ceil(share * int(fed.sizes[k])))
            if count == 0:
                continue
            batches = planned_batches(fed, local, seed, t, k, count)
            update = train_plainly(net, theta, fed.client(k), batches, local.rate(t))
            step, total = step + count * update, total + count
        theta = theta + step / max(total, 1)
    return theta


def judge(net: fm.Model, theta: Tensor, samples: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """(accuracy, mean cross-entropy) of the model ``theta``, by the module itself."""
    x, y = samples
    with torch.no_grad():
        scores = load_module(net, theta).eval()(x)
    loss = nn.functional.cross_entropy(scores.double(), y)
    return float((scores.argmax(1) == y).double().mean()), float(loss)


class Plain:
    """The reference implementations above, for tests that ask for the fixture ``plain``."""

    batches = staticmethod(planned_batches)
    update = staticmethod(train_plainly)
    train = staticmethod(train_federation_plainly)
    judge = staticmethod(judge)
    module = staticmethod(load_module)


@pytest.fixture(scope="session")
def plain() -> type[Plain]:
    """The plain reference loop."""
    return Plain


@pytest.fixture(scope="session")
def make_fed() -> Callable[..., fm.Federation]:
    """``make_fed(sizes, inputs=, classes=, dtype=, server=, seed=)``: a random federation."""
    return random_federation


@pytest.fixture(scope="session")
def make_game() -> Callable[..., fm.Game]:
    """``make_game(n, seed)``: a game with random worths."""
    return random_game


@pytest.fixture(scope="session")
def make_table_game() -> Callable[[Tensor], fm.Game]:
    """``make_table_game(table)``: the game with the worths of ``table`` [2^n]."""
    return table_game
