"""train(checkpoint=): interrupted trainings go on to the same bytes, and other work is refused."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from helpers import Sends, each_value, same_bytes, with_attacks
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine import progress
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.worlds.attacks import UpdateAttack

SIZES = (9, 4, 20, 13, 7)
LOCAL = LocalSGD(batch=4)
MAKES: dict[str, Callable[..., fm.FedAvg]] = {
    "FedAvg": fm.FedAvg,
    "CGSV": functools.partial(fm.CGSV, per_round=3),
    "CGSV original": functools.partial(fm.CGSV, original=True, server_lr="mean"),
    "FRCCE": functools.partial(fm.FRCCE, per_round=4),
    "FRCCE moving": functools.partial(fm.FRCCE, baseline="moving", scaling="none"),
    "FRCCE together": functools.partial(fm.FRCCE, inputs="all"),
    "FLDVE": fm.FLDVE,
    "DVRLRemoval": fm.DVRLRemoval,
    "SFedAvg": functools.partial(fm.SFedAvg, 3),
    "SFedAvg orders": functools.partial(fm.SFedAvg, 4, exact=False, permutations=3),
    "SFedAvg literal": functools.partial(fm.SFedAvg, 3, literal=True),
    "SFedAvg loss": functools.partial(fm.SFedAvg, 3, metric="loss", empty="zero"),
    "SFedAvg by class": functools.partial(fm.SFedAvg, 2, by_class=True),
    "SFedAvg uniform": functools.partial(fm.SFedAvg, 2, temperature=math.inf),
    "LabelStandardisation": functools.partial(
        fm.LabelStandardisation, 3, window=2, spread=1, margin=0.3
    ),
    "LabelStandardisation once": functools.partial(
        fm.LabelStandardisation, 3, window=3, spread=1, once=True, groups="current"
    ),
}
DTYPES = (torch.float32, torch.float64)


class Interrupted(Exception):
    """Somebody pressed the stop button."""


class Bar:
    """Stands in for the progress bar: notes a training's rounds, and stops it before round t."""

    def __init__(self) -> None:
        self.stop, self.error, self.rounds = None, Interrupted, []

    def __call__(self, rounds: range, *_) -> Iterator[int]:
        self.rounds = []
        for t in rounds:
            if t == self.stop:
                self.stop = None
                raise self.error
            self.rounds.append(t)
            yield t


@pytest.fixture
def bar(monkeypatch) -> Bar:
    """The progress bar of all trainings; ``bar.stop = 4`` stops the next one before round 4."""
    bar = Bar()
    monkeypatch.setattr(progress, "bar", bar)
    return bar


def run(fed: fm.Federation, strategy, rounds: int = 6, **options) -> fm.History:
    """A short training of a small network."""
    options = {"local": LOCAL, "seed": 3} | options
    return fm.train(fed, fm.mlp(6, 4, 3), strategy, rounds=rounds, **options)


def assert_same(one: fm.History, other: fm.History) -> None:
    """Two histories are equal to the last bit, seconds aside; so are their strategies."""
    for name in ("theta", "scores", "weights", "selected", "accuracy", "loss", "labels"):
        assert same_bytes(getattr(one, name), getattr(other, name)), name
    assert one.cost.client_epochs == other.cost.client_epochs
    assert one.cost.model_evaluations == other.cost.model_evaluations
    state = other.strategy.state_dict()
    for name, part in one.strategy.state_dict().items():
        assert same_bytes(part, state[name]), name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the checkpoint goes."""
    return tmp_path / "deep" / "training.npz"


# --- interrupted and resumed ---------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dtype"), each_value(list(MAKES), DTYPES))
def test_a_training_goes_on_to_the_same_bytes_from_wherever_it_was(
    make_fed, path, name, dtype, bar
):
    """Ended early, prolonged, interrupted twice, ended, and read once more when it is finished."""
    fed, make = make_fed(SIZES, dtype=dtype), MAKES[name]
    run(fed, make(), 2, checkpoint=path)
    for last in (4, 5):
        bar.stop = last
        with pytest.raises(Interrupted):
            run(fed, make(), checkpoint=path, every=1)
        assert bar.rounds == [last - 1]
    ended = run(fed, make(), checkpoint=path, every=1)
    assert bar.rounds == [5, 6]
    read = run(fed, make(), checkpoint=path)
    assert bar.rounds == []
    whole = run(fed, make())
    for history in (ended, read):
        assert_same(whole, history)
        assert history.cost.seconds > 0


def test_the_first_rounds_are_written_only_when_due(make_fed, path, bar):
    fed = make_fed(SIZES)
    bar.stop = 3
    with pytest.raises(Interrupted):
        run(fed, fm.CGSV(), checkpoint=path, every=5)
    assert not path.exists()
    run(fed, fm.CGSV(), 3, checkpoint=path, every=5)  # the end is always written
    assert path.exists()
    run(fed, fm.CGSV(), 4, checkpoint=path, every=5)
    assert bar.rounds == [4]


def test_how_often_it_is_written_does_not_matter(make_fed, path, bar):
    fed = make_fed(SIZES)
    bar.stop = 5
    with pytest.raises(Interrupted):
        run(fed, fm.FRCCE(), checkpoint=path, every=3)
    assert_same(run(fed, fm.FRCCE()), run(fed, fm.FRCCE(), checkpoint=path, every=1))


def test_a_keyboard_interrupt_leaves_a_sound_file(make_fed, path, bar):
    fed, bar.stop, bar.error = make_fed(SIZES), 5, KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        run(fed, fm.FLDVE(), checkpoint=str(path), every=2)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert_same(run(fed, fm.FLDVE()), run(fed, fm.FLDVE(), checkpoint=str(path)))


def test_the_same_strategy_object_may_go_on(make_fed, path, bar):
    fed, strategy, bar.stop = make_fed(SIZES), fm.FRCCE(), 4
    with pytest.raises(Interrupted):
        run(fed, strategy, checkpoint=path, every=2)
    assert_same(run(fed, fm.FRCCE()), run(fed, strategy, checkpoint=path))
    assert bar.rounds == [3, 4, 5, 6]


class ReplayOfUpdates(UpdateAttack):
    """Sends what the server did last, as ``fm.replay`` does, with noise."""

    def __call__(self, updates, previous, generator):
        noise = torch.randn(updates.shape, generator=generator, dtype=torch.float64)
        return previous + 0.01 * noise.to(updates)


ATTACKS = (fm.replay(), ReplayOfUpdates(), fm.free_ride(0.1))


@pytest.mark.parametrize(("attack", "make"), each_value(ATTACKS, (fm.CGSV, fm.FRCCE)))
def test_attackers_go_on_as_well(make_fed, path, attack, make, bar):
    fed = with_attacks(make_fed(SIZES), {1: attack})
    bar.stop = 4
    with pytest.raises(Interrupted):
        run(fed, make(), checkpoint=path, every=3)
    assert_same(run(fed, make()), run(fed, make(), checkpoint=path))


def test_rounds_without_clients_are_kept_too(make_fed, path):
    fed = make_fed(SIZES)

    class Now(fm.CGSV):
        def select(self, t):
            return torch.tensor([] if t % 2 else [0, 3], dtype=torch.long)

    run(fed, Now(), 3, checkpoint=path)
    assert_same(run(fed, Now(), 6), run(fed, Now(), 6, checkpoint=path))


def test_a_start_of_ones_own_is_part_of_the_work(make_fed, path):
    fed, theta = make_fed(SIZES), fm.mlp(6, 4, 3).init(9, dtype=torch.float64)
    run(fed, fm.CGSV(), 3, checkpoint=path, theta=theta)
    whole = run(fed, fm.CGSV(), theta=theta)
    assert_same(whole, run(fed, fm.CGSV(), checkpoint=path, theta=theta))
    with pytest.raises(ValueError, match=r"^checkpoint: .* belongs to other work"):
        run(fed, fm.CGSV(), checkpoint=path)


def test_decaying_step_sizes_go_on_where_they_were(make_fed, path):
    fed, local = make_fed(SIZES), LocalSGD(batch=4, decay=0.5, decay_every=2)
    run(fed, fm.CGSV(), 3, checkpoint=path, local=local)
    whole = run(fed, fm.CGSV(), local=local)
    assert_same(whole, run(fed, fm.CGSV(), checkpoint=path, local=local))


# --- labels that changed -------------------------------------------------------------------------


def swapped(seed: int = 1) -> fm.Federation:
    """Four clients with even digits; one has 2 and 4 in exchange."""
    wrong = fm.swap_labels((1, 2))
    return fm.irrelevant_digits(relevant=4, irrelevant=0, split=fm.iid(), corrupt=wrong, seed=seed)


def repairing(groups: str = "original") -> fm.LabelStandardisation:
    """The strategy that has the exchange undone, in two steps."""
    return fm.LabelStandardisation(3, groups=groups)


def long_run(fed: fm.Federation, strategy, rounds: int, **options) -> fm.History:
    """A training that is long enough for repairs."""
    return fm.train(fed, fm.mlp(64, 16, 5), strategy, rounds=rounds, seed=1, **options)


class Noted(fm.LabelStandardisation):
    """Label standardisation that notes the rounds in which labels changed."""

    def start(self, server):
        super().start(server)
        self.found = []

    def message(self, t):
        self.now = t
        return super().message(t)

    def hear(self, clients):
        self.found.append(self.now)
        super().hear(clients)


LONG = 24


@functools.cache
def whole() -> fm.History:
    """The training that nobody interrupts."""
    return long_run(swapped(), repairing(), LONG)


@functools.cache
def repairs() -> list[int]:
    """The rounds in which its labels change."""
    return long_run(swapped(), Noted(3), LONG).strategy.found


def test_a_training_goes_on_with_the_labels_it_had(path, bar):
    """Stopped before, between and after the two halves of a repair."""
    fed = swapped()
    clean = fm.irrelevant_digits(relevant=4, irrelevant=0, split=fm.iid(), seed=1)
    first, second = repairs()
    assert torch.equal(whole().labels, clean.y)
    for last in sorted({first, first + 1, second, second + 1, LONG}):
        bar.stop = last
        with pytest.raises(Interrupted):
            long_run(fed, repairing(), LONG, checkpoint=path, every=1)
    for _ in range(2):  # to its end, then read from the file
        again = long_run(fed, repairing(), LONG, checkpoint=path, every=1)
        assert_same(whole(), again)
    assert torch.equal(again.labels, clean.y)


def test_the_labels_on_disk_are_those_of_the_clients(path):
    """After the first half of the repair, the labels are neither the first nor the true ones."""
    fed, first = swapped(), repairs()[0]
    half = long_run(fed, repairing(), first, checkpoint=path)
    assert not torch.equal(half.labels, fed.y)
    assert torch.equal(half.labels, long_run(fed, repairing(), first, checkpoint=path).labels)
    longer = long_run(fed, repairing(), LONG, checkpoint=path)
    assert_same(whole(), longer)
    changed = (longer.labels != fed.y) & (half.labels == fed.y)
    assert changed.any()  # the second half was repaired by the first labels' groups


def test_a_checkpoint_belongs_to_the_labels_a_training_began_with(path):
    fed = swapped()
    history = long_run(fed, repairing(), LONG, checkpoint=path)
    assert not torch.equal(history.labels, fed.y)
    repaired = fm.Federation(**{**vars(fed), "y": history.labels})
    with pytest.raises(ValueError, match=r"^checkpoint: .* belongs to other work"):
        long_run(repaired, repairing(), LONG, checkpoint=path)


# --- strategies of one's own ---------------------------------------------------------------------


class OwnStrategy:
    """The least that ``train`` asks of a strategy; nothing is inherited."""

    def start(self, server: Server) -> None:
        self.scores = torch.zeros(server.clients, dtype=torch.float64)
        self.applied, self.evaluations = torch.zeros(server.clients), 0

    def select(self, t: int) -> Tensor:
        return torch.arange(len(self.scores))

    def aggregate(self, round: Round) -> Tensor:
        self.scores[round.clients] += round.updates.norm(dim=1).double()
        return round.theta + round.updates.mean(0)

    def state_dict(self) -> dict[str, Tensor]:
        return {"scores": self.scores.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.scores = state["scores"].clone()


def test_a_strategy_without_a_repr_goes_on(make_fed, path):
    fed = make_fed(SIZES)
    run(fed, OwnStrategy(), 3, checkpoint=path)
    assert_same(run(fed, OwnStrategy()), run(fed, OwnStrategy(), checkpoint=path))


class Cautious(fm.CGSV):
    """CGSV with options that are handed on, and one that is not kept under its name."""

    def __init__(self, caution: float = 0.5, **options):
        super().__init__(server_lr=caution, **options)


def test_a_subclass_with_a_constructor_of_its_own_goes_on(make_fed, path):
    fed = make_fed(SIZES)
    run(fed, Cautious(0.2, floor=None), 3, checkpoint=path)
    whole = run(fed, Cautious(0.2, floor=None))
    assert_same(whole, run(fed, Cautious(0.2, floor=None), checkpoint=path))
    with pytest.raises(ValueError, match=r"^checkpoint: "):
        run(fed, Cautious(0.3, floor=None), checkpoint=path)


@dataclass(eq=False, kw_only=True)
class Slow(fm.FedAvg):
    """A strategy of one's own with a field and a number it remembers."""

    speed: float = 0.5
    KEPT: ClassVar = (*fm.FedAvg.KEPT, "moved")

    def start(self, server):
        super().start(server)
        self.moved = 0.0

    def aggregate(self, round):
        step = self.speed / (1 + self.moved) * (super().aggregate(round) - round.theta)
        self.moved += float(step.norm())
        return round.theta + step


def test_fields_and_what_is_kept_are_all_that_a_strategy_of_ones_own_says(make_fed, path, bar):
    fed, bar.stop = make_fed(SIZES), 4
    with pytest.raises(Interrupted):
        run(fed, Slow(speed=0.3), checkpoint=path, every=1)
    assert_same(run(fed, Slow(speed=0.3)), run(fed, Slow(speed=0.3), checkpoint=path))
    assert repr(Slow(speed=0.3)) == "Slow(per_round=None, weighting='size', speed=0.3)"
    with pytest.raises(ValueError, match=r"^checkpoint: .* belongs to other work"):
        run(fed, Slow(speed=0.4), checkpoint=path)


class Hidden(fm.FedAvg):
    """Stores its argument under another name, which no repr shows."""

    def __init__(self, speed: float):
        super().__init__()
        self._s = torch.full((2000,), speed)

    def aggregate(self, round):
        return round.theta + self._s[-1] * (super().aggregate(round) - round.theta)


def test_an_argument_under_another_name_is_part_of_the_work(make_fed, path):
    fed = make_fed(SIZES)
    run(fed, Hidden(0.5), 2, checkpoint=path)
    assert_same(run(fed, Hidden(0.5), 4), run(fed, Hidden(0.5), 4, checkpoint=path))
    with pytest.raises(ValueError, match=r"^checkpoint: .* belongs to other work"):
        run(fed, Hidden(0.25), 4, checkpoint=path)


def test_other_code_under_the_same_name_is_other_work(make_fed, path, monkeypatch):
    fed = make_fed(SIZES)
    run(fed, Hidden(0.5), 2, checkpoint=path)
    monkeypatch.setattr(Hidden, "aggregate", lambda self, round: round.theta + self._s[-1])
    with pytest.raises(ValueError, match=r"^checkpoint: .* belongs to other work"):
        run(fed, Hidden(0.5), 2, checkpoint=path)


# --- what is refused -----------------------------------------------------------------------------


def other_fed(make_fed, **changes) -> fm.Federation:
    """The federation of these tests with something changed."""
    return fm.Federation(**{**vars(make_fed(SIZES)), **changes})


OTHER = {
    "seed": lambda make_fed: {"seed": 4},
    "local": lambda make_fed: {"local": LocalSGD(batch=5)},
    "strategy": lambda make_fed: {"strategy": fm.FedAvg()},
    "gamma0": lambda make_fed: {"strategy": fm.CGSV(0.4)},
    "floor": lambda make_fed: {"strategy": fm.CGSV(floor=None)},
    "per_round": lambda make_fed: {"strategy": fm.CGSV(per_round=4)},
    "data": lambda make_fed: {"fed": make_fed(SIZES, seed=1)},
    "attack": lambda make_fed: {"fed": other_fed(make_fed, attacks={2: fm.sign_flip()})},
}


@pytest.mark.parametrize("change", OTHER)
def test_a_checkpoint_of_other_work_is_refused(make_fed, path, change):
    same = {"fed": make_fed(SIZES), "strategy": fm.CGSV()}
    run(**same, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"^checkpoint: .* belongs to other work"):
        run(**(same | OTHER[change](make_fed)), checkpoint=path)
    assert path.read_bytes() == before


def by_one(make: Callable[..., fm.FedAvg], **values: object) -> list[tuple[fm.FedAvg, fm.FedAvg]]:
    """A strategy, and the same with one value changed, for each of the values."""
    return [(make(), make(**{name: value})) for name, value in values.items()]


RATINGS = {"alpha": 0.5, "beta": 0.5, "permutations": 9, "temperature": 1.0, "metric": "loss"}
RATINGS |= {"empty": "zero", "exact": True, "by_class": True, "absent": "silent"}
RATINGS |= {"weighting": "size", "literal": True, "margin": 0.1, "spread": 0.1, "window": 4}
RATINGS |= {"once": True, "accuracy": "precision", "groups": "current"}
CHOICES = {"lr": 2e-3, "baseline": "moving", "sign": "printed", "clamp": 0.0, "limit": None}
OTHERS = [
    *by_one(fm.FRCCE, **CHOICES, layer="all", weighting="size"),
    *by_one(functools.partial(fm.FRCCE, baseline="moving"), window=5),
    *by_one(fm.FLDVE, probes=4),
    *by_one(functools.partial(fm.FLDVE, probes=1), literal=True),
    *by_one(functools.partial(fm.LabelStandardisation, 3), **RATINGS),
    (fm.LabelStandardisation(3), fm.LabelStandardisation(2)),
    (fm.FLDVE(), fm.DVRLRemoval()),
]


@pytest.mark.parametrize(("one", "other"), OTHERS, ids=lambda strategy: "")
def test_a_checkpoint_of_other_settings_is_refused(make_fed, path, one, other):
    fed = make_fed(SIZES[:3])
    run(fed, one, 1, checkpoint=path)
    with pytest.raises(ValueError, match=r"^checkpoint: .* belongs to other work"):
        run(fed, other, 1, checkpoint=path)


def test_fewer_rounds_than_it_holds_are_refused(make_fed, path):
    fed = make_fed(SIZES)
    run(fed, fm.CGSV(), 5, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"^checkpoint: .* holds 5 rounds, 4 asked"):
        run(fed, fm.CGSV(), 4, checkpoint=path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_checkpoint_is_refused(make_fed, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a checkpoint")
    with pytest.raises(ValueError, match=r"^checkpoint: .* is not a checkpoint"):
        run(make_fed(SIZES), fm.CGSV(), checkpoint=path)
    assert path.read_text() == "not a checkpoint"


# --- what a round says ---------------------------------------------------------------------------


class Listening(fm.FedAvg):
    """FedAvg that notes who took part and who is missing."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def select(self, t):
        return torch.tensor([4, 0, 2, 1] if t == 2 else [3, 1])

    def aggregate(self, round):
        self.heard.append((round.t, round.clients.tolist(), sorted(round.missing.tolist())))
        return super().aggregate(round)


def test_who_was_asked_and_sent_nothing_usable_is_missing(make_fed):
    """Client 1 sends NaN; client 4 holds NaN and cannot take part."""
    clean = make_fed(SIZES)
    pairs = [(x.clone(), y) for x, y in map(clean.client, range(5))]
    pairs[4][0][0, 0] = torch.nan
    server = {"validation": clean.validation, "test": clean.test}
    with pytest.warns(UserWarning, match="client 4 holds"):
        fed = fm.Federation.from_datasets(pairs, **server, classes=3)
    fed = with_attacks(fed, {1: Sends(torch.nan)})
    strategy = Listening()
    with pytest.warns(UserWarning, match="client"):
        run(fed, strategy, 3)
    assert strategy.heard == [(1, [3], [1]), (2, [0, 2], [1, 4]), (3, [3], [1])]


def test_nobody_is_missing_by_default(make_fed):
    strategy = Listening()
    run(make_fed(SIZES), strategy, 2)
    assert [missing for *_, missing in strategy.heard] == [[], []]
    one = Round(1, torch.zeros(2), torch.tensor([0]), torch.tensor([3]), torch.zeros(1, 2))
    assert one.missing.tolist() == []
    assert one.missing.dtype == torch.long
