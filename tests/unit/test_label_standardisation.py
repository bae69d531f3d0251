"""Label standardisation: when the server asks, whom, what comes back, and what it then forgives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from helpers import Sends, of_module, with_attacks
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.minibatches import LocalSGD
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


# --- when, whom, and what for --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "spread", "once"), [(1, 0, True), (2, 3, False), (2, 3, True), (5, 19, False)]
)
def test_the_server_asks_from_the_first_stable_round_on(window, spread, once):
    """Also where the model is unstable later; accuracies and spread are multiples of 1 / 64."""
    found = set()
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        curve = torch.randint(1, 12 << seed % 3, (14,), generator=generator).cumsum(0) % 65
        curve = curve.tolist() if seed % 2 else sorted(curve.tolist())
        strategy = fm.LabelStandardisation(1, window=window, spread=spread / 64, once=once)
        sent, state = signals(strategy, curve, 64)
        last = [curve[t - window : t] for t in range(window, 15)]
        stable = [t for t, a in enumerate(last, window) if max(a) - min(a) <= spread]
        at = stable[0] if stable else 0
        assert int(state["stable_at"]) == at
        assert sent == [t == at if once else 0 < at <= t for t in range(1, 15)]
        found.add(at)
    assert len(found) > 1 or window == 1


def test_accuracies_that_differ_by_exactly_the_spread_are_stable():
    """Of 100 samples, low and low + 5 are right: their difference is 5 % but for rounding."""
    strategy = fm.LabelStandardisation(1, window=2)
    assert all(signals(strategy, [low, low + 5], 100)[0][1] for low in range(50, 95, 2))
    assert not signals(strategy, [50, 56], 100)[0][1]


def test_defaults_are_ours_and_the_text_as_printed():
    names = ("margin", "spread", "groups", "window", "once", "temperature", "accuracy")
    ours, printed = fm.LabelStandardisation(), fm.LabelStandardisation(literal=True)
    wanted = [0.05, 0.05, "original", 5, False, 0.02, "recall"]
    assert [getattr(ours, name) for name in names] == wanted
    wanted = [None, 0.02, "current", 5, False, 1, "recall"]
    assert [getattr(printed, name) for name in names] == wanted


@pytest.mark.parametrize(
    ("literal", "corrected", "wanted"),
    [(False, [], [1, 3]), (False, [0, 3], [0, 1, 3]), (True, [0, 3], [1, 3])],
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


# --- the channel ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """A message that renames labels by a function of the old ones, and notes what it was given."""

    clients: Tensor | list[int]
    rename: Callable[[Tensor], Tensor]
    given: list[tuple] = field(default_factory=list)

    def answer(self, net: Model, theta: Tensor, x: Tensor, original: Tensor, y: Tensor) -> Tensor:
        self.given.append((net, theta.clone(), x.clone(), original.clone(), y.clone()))
        return self.rename(y)


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


def run(fed: fm.Federation, strategy, rounds: int = 4, net=None) -> fm.History:
    """A short training of a small network."""
    return fm.train(fed, net or fm.mlp(6, 4, 3), strategy, rounds=rounds, local=LOCAL, seed=3)


def labels_of(fed: fm.Federation, ids, rename) -> Tensor:
    """The labels of all clients, those of some renamed."""
    labels = [fed.client(k)[1] for k in range(5)]
    return torch.cat([rename(y) if k in ids else y for k, y in enumerate(labels)])


def test_clients_get_the_new_model_and_their_own_samples(make_fed):
    """Who changed something is heard; who writes into what it is given spoils nothing."""
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    orders = {1: Order([3, 0], shifted), 2: Order([0, 1], lambda y: y), 4: Order([], shifted)}
    orders[3] = Order(torch.tensor([3]), lambda y: y.sub_(1).remainder_(3))  # back, in place
    strategy = Ordering(orders=orders)
    history = run(fed, strategy, net=net)
    assert strategy.changes == [[3, 0], [3]]
    assert torch.equal(history.labels, labels_of(fed, (0,), shifted))
    assert torch.equal(fed.y, make_fed(SIZES).y)
    for t, ids in ((1, [3, 0]), (3, [3])):
        theta = run(fed, Ordering(orders={1: Order([3, 0], shifted)}), t).theta
        for k, (_, sent, x, original, y) in zip(ids, orders[t].given, strict=True):
            assert torch.equal(sent, theta)
            assert torch.equal(x, fed.client(k)[0])
            assert torch.equal(original, fed.client(k)[1])
            assert torch.equal(y, original if t == 1 else shifted(original))


@pytest.mark.parametrize("stacked", [True, False], ids=["stacked", "general"])
def test_the_next_round_trains_on_the_new_labels(make_fed, stacked):
    """Before, in and after: the same as training on the federation with these labels."""
    fed, net = make_fed(SIZES), of_module(fm.mlp(6, 4, 3), stacked)
    history = run(fed, Ordering(orders={2: Order([1, 4], shifted)}), 4, net)
    theta, labels = run(fed, fm.FedAvg(), 2, net).theta, labels_of(fed, (1, 4), shifted)
    now = fm.Federation(**{**vars(fed), "y": labels})
    for t in (3, 4):
        updates = fm.local_updates(now, net, theta, local=LOCAL, seed=3, t=t)
        theta = theta + (now.sizes.double() / now.sizes.sum()) @ updates
    torch.testing.assert_close(history.theta, theta, rtol=0, atol=1e-9)
    assert torch.equal(history.labels, labels)


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


# --- in training ---------------------------------------------------------------------------------


def test_without_messages_it_is_sfedavg(make_fed):
    """Never stable: the same bytes, and one model more evaluated a round."""
    fed = make_fed(SIZES)
    one = run(fed, fm.SFedAvg(3), 5)
    other = run(fed, fm.LabelStandardisation(3, window=6), 5)
    for name in ("theta", "scores", "selected"):
        assert torch.equal(getattr(one, name), getattr(other, name))
    assert other.cost.model_evaluations == one.cost.model_evaluations + 5


def test_an_exchange_is_undone_and_forgiven():
    given = {"split": fm.IID(), "seed": 1, "relevant": 4, "irrelevant": 0}
    truth = fm.irrelevant_digits(**given).y
    fed = fm.irrelevant_digits(corrupt=fm.SwapLabels((1, 2)), **given)
    (k,) = (k for k, text in fed.truth.items() if text.startswith("SwapLabels"))
    assert not torch.equal(fed.y, truth)
    heard = []

    class Watched(fm.LabelStandardisation):
        def heard(self, server, state, changed):
            before = state["phi"].clone()
            state = super().heard(server, state, changed)
            heard.append((changed.tolist(), before, state["phi"].clone()))
            return state

    history = fm.train(fed, fm.mlp(64, 16, 5), Watched(3), rounds=40, seed=1)
    assert torch.equal(history.labels, truth)
    assert history.state["corrections"].tolist() == [len(heard) * (i == k) for i in range(4)]
    ids, before, after = heard[0]
    assert ids == [k]
    before[k] = before.mean()
    torch.testing.assert_close(after, before)
