"""Label standardisation: when the server asks, whom, what comes back, and what it then forgives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import pytest
import torch
from helpers import Sends, of_module, with_attacks
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Round, Server, State

SIZES = (9, 4, 20, 13, 7)
LOCAL = LocalSGD(batch=4)
RULER = fm.logistic(1, 2)  # says 1 where x + b > 0


def measuring(N: int, clients: int = 4) -> Server:
    """The server of N samples x = 1..N, all of class 0."""
    x = torch.arange(1, N + 1, dtype=torch.float64)[:, None]
    return Server(clients, 2, RULER, (x, torch.zeros(N, dtype=torch.long)), 0)


def a_round(t: int, right: int, clients=(0,)) -> Round:
    """A round after which the model is right about the first ``right`` samples."""
    theta = torch.zeros(4, dtype=torch.float64)
    target = torch.tensor([0, 1, 0, -right - 0.5], dtype=torch.float64)
    ids = torch.tensor(clients)
    return Round(t, theta, ids, torch.ones_like(ids), (target - theta).repeat(len(ids), 1))


def signals(
    strategy: fm.LabelStandardisation, curve: list[int], N: int
) -> tuple[list[bool], State]:
    """In which rounds the server sends a message, if its accuracy goes like that; the state."""
    server = measuring(N)
    state, sent = strategy.init(server), []
    for t, right in enumerate(curve, 1):
        state = strategy.step(server, state, a_round(t, right)).state
        assert float(state["recent"][-1]) == right / N
        sent.append(strategy.message(server, state, t) is not None)
    return sent, state


def first_stable(curve: list[int], N: int, window: int, spread: Fraction) -> int:
    """The first round whose last ``window`` accuracies differ by no more than spread; 0: none."""
    for t in range(window, len(curve) + 1):
        last = curve[t - window : t]
        if Fraction(max(last) - min(last), N) <= spread:
            return t
    return 0


# --- when, whom, and what for --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "spread", "once"),
    [(1, "0", True), (2, "1/20", False), (2, "1/20", True), (5, "3/10", False), (5, "1", True)],
)
def test_the_server_asks_from_the_first_stable_round_on(window, spread, once):
    """Also where the model is unstable later; accuracies are multiples of 1 / 64."""
    spread, found = Fraction(spread), set()
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        curve = torch.randint(1, 12 << seed % 3, (14,), generator=generator).cumsum(0) % 65
        curve = curve.tolist() if seed % 2 else sorted(curve.tolist())
        strategy = fm.LabelStandardisation(1, window=window, spread=float(spread), once=once)
        sent, state = signals(strategy, curve, 64)
        at = first_stable(curve, 64, window, spread)
        assert int(state["stable_at"]) == at
        assert sent == [t == at if once else 0 < at <= t for t in range(1, 15)]
        found.add(at)
    assert found != {0}


def test_accuracies_that_differ_by_exactly_the_spread_are_stable():
    wrong = []
    for low, spread in itertools.product(range(50, 95, 3), ("1/50", "1/20")):
        high = low + int(100 * Fraction(spread))
        strategy = fm.LabelStandardisation(1, window=2, spread=float(Fraction(spread)))
        if not signals(strategy, [low, high], 100)[0][1]:
            wrong.append((low, high))
    assert wrong == []


def test_defaults_are_ours_and_the_text_as_printed():
    ours, printed = fm.LabelStandardisation(), fm.LabelStandardisation(literal=True)
    wanted = [(0.05, 0.05, "original", 5, False), (None, 0.02, "current", 5, False)]
    for strategy, values in zip((ours, printed), wanted, strict=True):
        found = (strategy.margin, strategy.spread, strategy.groups, strategy.window, strategy.once)
        assert found == values
    assert (ours.temperature, printed.temperature, ours.accuracy) == (0.02, 1, "recall")
    assert fm.LabelStandardisation(literal=True, spread=0.05).spread == 0.05


def test_a_message_is_for_its_round_only():
    """Where nobody sends anything usable in a round there is no step, and no message."""
    strategy = fm.LabelStandardisation(1, window=1, spread=1)
    sent, state = signals(strategy, [4], 8)
    assert sent == [True]
    assert strategy.message(measuring(8), state, 2) is None
    assert strategy.message(measuring(8), strategy.init(measuring(8)), 0) is None


@pytest.mark.parametrize(
    ("literal", "corrected", "wanted"),
    [(False, [], [1, 3]), (False, [0, 3], [0, 1, 3]), (True, [0, 3], [1, 3])],
    ids=["nobody renamed", "two renamed", "literal, two renamed"],
)
def test_suspects_are_below_the_mean_relevance_or_have_renamed_before(literal, corrected, wanted):
    strategy = fm.LabelStandardisation(None, window=1, spread=1, literal=literal)
    server = measuring(64, clients=5)
    state = strategy.init(server)
    state["phi"] = torch.tensor([0.375, -0.25, 0.125, 0.0, 0.5], dtype=torch.float64)
    state["corrections"][corrected] = 2
    still = torch.zeros(1, 4, dtype=torch.float64)
    round = Round(1, still[0], torch.tensor([4]), torch.ones(1).long(), still)
    state = strategy.step(server, state, round).state
    assert float(state["phi"].mean()) == 0.125  # of client 4 three quarters are left; 2 is at it
    assert strategy.message(server, state, 1).clients.tolist() == wanted


def test_who_repaired_gets_the_mean_relevance():
    strategy, server = fm.LabelStandardisation(None), measuring(8, clients=5)
    phi = torch.tensor([0.4, -0.6, 0.1, -0.2, 0.5], dtype=torch.float64)
    state = strategy.init(server) | {"phi": phi.clone()}
    state = strategy.heard(server, state, torch.tensor([1, 3]))
    phi[[1, 3]] = phi.mean()
    torch.testing.assert_close(strategy.scores(server, state), phi, rtol=0, atol=1e-12)
    state = strategy.heard(server, state, torch.tensor([3]))
    assert state["corrections"].tolist() == [0, 1, 0, 2, 0]


# --- the channel ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """A message that renames labels by a function of the old ones, and notes what it was given."""

    clients: Tensor | list[int]
    rename: Callable[[Tensor], Tensor]
    given: list[tuple] = field(default_factory=list)

    def answer(self, net: Model, theta: Tensor, x: Tensor, original: Tensor, y: Tensor) -> Tensor:
        self.given.append((net, theta.clone(), x.clone(), original.clone(), y.clone()))
        return self.rename(y.clone())


@dataclass(frozen=True, eq=False, kw_only=True)
class Ordering(fm.FedAvg):
    """FedAvg that sends orders after the rounds named, and notes who says to have changed."""

    orders: dict[int, Order]
    changes: list[list[int]] = field(default_factory=list)

    def message(self, server, state, t):
        return self.orders.get(t)

    def heard(self, server, state, changed):
        self.changes.append(changed.tolist())
        return state


def shifted(y: Tensor) -> Tensor:
    """Labels 0, 1, 2 become 1, 2, 0."""
    return (y + 1) % 3


def run(fed: fm.Federation, strategy, rounds: int = 4, net=None, **options) -> fm.History:
    """A short training of a small network."""
    net = fm.mlp(6, 4, 3) if net is None else net
    return fm.train(fed, net, strategy, rounds=rounds, **({"local": LOCAL, "seed": 3} | options))


def labels_of(fed: fm.Federation, ids, rename) -> Tensor:
    """The labels of all clients, those of some renamed."""
    return torch.cat(
        [rename(y) if k in ids else y for k, (_, y) in enumerate(map(fed.client, range(5)))]
    )


def test_clients_get_the_new_model_and_their_own_samples(make_fed):
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    orders = {1: Order([3, 0], shifted), 3: Order(torch.tensor([3]), shifted)}
    run(fed, Ordering(orders=orders), net=net)
    for t, ids in ((1, [3, 0]), (3, [3])):
        theta = run(fed, Ordering(orders={1: Order([3, 0], shifted)}), t).theta
        for k, (model, sent, x, original, y) in zip(ids, orders[t].given, strict=True):
            assert repr(model) == repr(net)
            assert torch.equal(sent, theta)
            assert torch.equal(x, fed.client(k)[0])
            assert torch.equal(original, fed.client(k)[1])
            assert torch.equal(y, original if t == 1 else shifted(original))


@pytest.mark.parametrize("stacked", [True, False], ids=["stacked", "general"])
def test_the_next_round_trains_on_the_new_labels(make_fed, stacked):
    """Before, in and after: the same as training on the federation with these labels."""
    fed, net = make_fed(SIZES), of_module(fm.mlp(6, 4, 3), stacked)
    before = fed.y.clone()
    history = run(fed, Ordering(orders={2: Order([1, 4], shifted)}), 4, net)
    theta, labels = run(fed, fm.FedAvg(), 2, net).theta, labels_of(fed, (1, 4), shifted)
    now = fm.Federation(**{**vars(fed), "y": labels})
    for t in (3, 4):
        updates = fm.local_updates(now, net, theta, local=LOCAL, seed=3, t=t)
        theta = theta + (now.sizes.double() / now.sizes.sum()) @ updates
    torch.testing.assert_close(history.theta, theta, rtol=0, atol=1e-9)
    assert torch.equal(history.labels, labels)
    assert torch.equal(fed.y, before)  # the federation given is left alone
    assert torch.equal(run(fed, fm.FedAvg(), 2).labels, fed.y)


def test_only_those_who_changed_something_are_heard(make_fed):
    """And labels may be changed back; whoever writes into what it is given spoils nothing."""
    fed, before = make_fed(SIZES), make_fed(SIZES).y
    strategy = Ordering(
        orders={
            1: Order([4, 2, 0], lambda y: torch.ones_like(y)),
            2: Order([0, 2], lambda y: y.fill_(1)),
            3: Order([], shifted),
        }
    )
    history = run(fed, strategy)
    assert strategy.changes == [[4, 2, 0]]
    assert torch.equal(history.labels, labels_of(fed, (0, 2, 4), torch.ones_like))
    strategy = Ordering(orders={t: Order([1], shifted) for t in (1, 2, 3)})
    assert torch.equal(run(fed, strategy).labels, before)
    assert strategy.changes == [[1]] * 3


def test_who_is_absent_answers_and_who_cannot_take_part_does_not(make_fed):
    """Client 4 is never asked to train; 1 attacks, about labels it answers; 2 holds a NaN."""

    class Few(Ordering):
        def select(self, server, state, t):
            return torch.tensor([0, 1, 2] if t != 2 else [], dtype=torch.long)

    clean = make_fed(SIZES)
    pairs = [(x.clone(), y) for x, y in map(clean.client, range(5))]
    pairs[2][0][0, 0] = torch.nan
    server = {"validation": clean.validation, "test": clean.test}
    with pytest.warns(UserWarning, match="client 2 holds"):
        fed = fm.Federation.from_datasets(pairs, **server, classes=3)
    strategy = Few(orders={2: Order([4, 2, 1], shifted)})  # a round without anybody
    with pytest.warns(UserWarning, match="client [12]"):
        history = run(with_attacks(fed, {1: Sends(torch.nan)}), strategy)
    assert strategy.changes == [[4, 1]]
    assert torch.equal(history.labels, labels_of(fed, (1, 4), shifted))
    assert torch.isfinite(history.theta).all()


INVALID = {
    "one too large": lambda y: torch.cat([y[:-1], torch.tensor([3])]),
    "one negative": lambda y: torch.cat([torch.tensor([-1]), y[1:]]),
    "too few": lambda y: y[1:],
    "a column": lambda y: y[:, None],
    "fractions": lambda y: y + 0.6 * (y < 2),
    "nothing": lambda y: None,
}


@pytest.mark.parametrize("rename", INVALID.values(), ids=INVALID)
def test_answers_that_are_no_labels_are_refused(make_fed, rename):
    strategy = Ordering(orders={2: Order([0, 2], lambda y: y if len(y) == 9 else rename(y))})
    with pytest.raises((TypeError, ValueError), match=r"^message: what client 2 answers"):
        run(make_fed(SIZES), strategy)


@pytest.mark.parametrize("ids", [[5], [-1], [1, 1], [0.5]], ids=str)
def test_a_message_to_nobody_known_is_refused(make_fed, ids):
    strategy = Ordering(orders={1: Order(ids, shifted)})
    with pytest.raises((TypeError, ValueError), match=r"^clients: "):
        run(make_fed(SIZES), strategy)


# --- in training ---------------------------------------------------------------------------------


def test_without_messages_it_is_sfedavg(make_fed):
    """Never stable: the same bytes, and one model more evaluated a round."""
    fed = make_fed(SIZES)
    one = run(fed, fm.SFedAvg(3), 5)
    other = run(fed, fm.LabelStandardisation(3, window=6), 5)
    for name in ("theta", "scores", "selected"):
        assert torch.equal(getattr(one, name), getattr(other, name))
    assert other.cost.model_evaluations == one.cost.model_evaluations + 5


def test_an_exchange_is_undone_and_forgiven_by_a_server_that_never_sees_the_data():
    """Ids alone come back; neither samples nor labels are in anything that a strategy is given."""
    given = {"split": fm.iid(), "seed": 1, "relevant": 4, "irrelevant": 0}
    truth = fm.irrelevant_digits(**given).y
    fed = fm.irrelevant_digits(corrupt=fm.swap_labels((1, 2)), **given)
    (k,) = (k for k, text in fed.truth.items() if text.startswith("swap"))
    assert not torch.equal(fed.y, truth)
    seen, heard = [], []

    class Watched(fm.LabelStandardisation):
        def step(self, server, state, round):
            seen.extend([*state.values(), *vars(round).values()])
            return super().step(server, state, round)

        def message(self, server, state, t):
            found = super().message(server, state, t)
            assert found is None or {*vars(found)} == {"clients", "right", "margin", "groups"}
            return found

        def heard(self, server, state, changed):
            before = state["phi"].clone()
            seen.extend([*state.values(), changed])
            state = super().heard(server, state, changed)
            heard.append((changed.tolist(), before, state["phi"].clone()))
            return state

    history = fm.train(fed, fm.mlp(64, 16, 5), Watched(3), rounds=40, seed=1)
    assert torch.equal(history.labels, truth)
    assert history.state["corrections"].tolist() == [len(heard) * (i == k) for i in range(4)]
    ids, before, after = heard[0]
    assert ids == [k]
    assert float(before[k]) < float(before.mean())
    before[k] = before.mean()
    torch.testing.assert_close(after, before)
    assert (history.scores == after).all(1).any()  # it is what the history shows of that round
    tensors = [part for part in seen if torch.is_tensor(part)]
    lengths = {len(fed.y), *fed.sizes.tolist()}
    assert not any({*part.shape[:1]} & lengths for part in tensors)
    data = {part.untyped_storage().data_ptr() for part in (fed.x, fed.y, history.labels)}
    assert not data & {part.untyped_storage().data_ptr() for part in tensors}
