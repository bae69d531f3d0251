"""What several test files share: random federations, random games and the readable loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from types import ModuleType
from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import Tensor

import deadlines
import fedlab_mini as fm
import fedlab_mini.engine.plain

# no clock decides: neither the time of an example, nor that of drawing one
untimed = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("book", derandomize=True, max_examples=20, database=None, **untimed)
settings.load_profile("book")
# small tensors: a second thread only spins beside the other worker, unless somebody asks for it
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))


def late_is_not_run(item: pytest.Item) -> Generator[None, object, object]:
    """Leave a test out whose deadline passes on a busy machine; the reason names it."""
    try:
        return (yield)
    except Exception as error:
        if not (deadlines.passed(error) and deadlines.busy()):
            raise
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        pytest.skip(f"{deadlines.NOT_RUN}{item.nodeid} (a busy machine; {said})")


pytest_runtest_setup = pytest.hookimpl(wrapper=True)(late_is_not_run)
pytest_runtest_call = pytest.hookimpl(wrapper=True)(late_is_not_run)


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


@pytest.fixture
def own_settings():
    """Kernels that a test starts ignore the user's settings; later tests do not notice."""
    import chapters

    with mock.patch.dict(os.environ):
        chapters.use_own_settings()
        yield


@pytest.fixture(scope="session")
def plain() -> ModuleType:
    """The readable twin of the engine: one client after another."""
    return fedlab_mini.engine.plain


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
