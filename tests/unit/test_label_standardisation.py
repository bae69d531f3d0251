"""Label standardisation: when the server asks, whom, what comes back, and what it then forgives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction

import pytest
import torch
from helpers import Sends, of_module, with_attacks
from torch import Tensor, nn

import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Round, Server, State
from fedlab_mini.methods.label_standardisation import Inspection

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


# --- when ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("spread", ["0", "1/20", "3/10", "1"])
@pytest.mark.parametrize("once", [False, True], ids=["repeated", "once"])
def test_the_server_asks_from_the_first_stable_round_on(window, spread, once):
    """Also where the model is unstable later; accuracies are multiples of 1 / 64."""
    spread = Fraction(spread)
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        curve = torch.randint(1, 12 << seed % 3, (14,), generator=generator).cumsum(0) % 65
        curve = curve.tolist() if seed % 2 else sorted(curve.tolist())
        strategy = fm.LabelStandardisation(1, window=window, spread=float(spread), once=once)
        sent, state = signals(strategy, curve, 64)
        at = first_stable(curve, 64, window, spread)
        assert int(state["stable_at"]) == at
        if once:
            assert sent == [t == at for t in range(1, 15)]
        else:
            assert sent == [0 < at <= t for t in range(1, 15)]


def test_window_and_spread_by_hand():
    """Of 64: 40 and 44 differ by 4 = 1/16; five in a row are needed, four are not enough."""
    curve = [10, 40, 44, 42, 41, 43, 60, 0]
    sent, state = signals(fm.LabelStandardisation(1, spread=1 / 16), curve, 64)
    assert sent == [False] * 5 + [True] * 3
    assert int(state["stable_at"]) == 6
    sent, state = signals(fm.LabelStandardisation(1, spread=3 / 64), curve, 64)
    assert not any(sent)
    assert int(state["stable_at"]) == 0
    sent, _ = signals(fm.LabelStandardisation(1, spread=1), curve, 64)
    assert sent == [False] * 4 + [True] * 4


def test_accuracies_that_differ_by_exactly_the_spread_are_stable():
    wrong = []
    for low, spread in itertools.product(range(50, 95), ("1/50", "1/20")):
        high = low + int(100 * Fraction(spread))
        strategy = fm.LabelStandardisation(1, window=2, spread=float(Fraction(spread)))
        sent, _ = signals(strategy, [low, high], 100)
        if not sent[1]:
            wrong.append((low, high))
    assert wrong == []


def test_defaults_are_ours_and_the_text_as_printed():
    ours, printed = fm.LabelStandardisation(), fm.LabelStandardisation(literal=True)
    wanted = [(0.05, 0.05, "original", 5, False), (None, 0.02, "current", 5, False)]
    for strategy, values in zip((ours, printed), wanted, strict=True):
        found = (strategy.margin, strategy.spread, strategy.groups, strategy.window, strategy.once)
        assert found == values
    assert ours.temperature == 0.02
    assert printed.temperature == 1
    assert fm.LabelStandardisation(literal=True, spread=0.05).spread == 0.05
    assert ours.accuracy == "recall"


def test_a_message_is_for_its_round_only():
    """Where nobody sends anything usable in a round there is no step, and no message."""
    strategy = fm.LabelStandardisation(1, window=1, spread=1)
    sent, state = signals(strategy, [4], 8)
    assert sent == [True]
    assert strategy.message(measuring(8), state, 2) is None


# --- whom, and what for --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("literal", "corrected", "wanted"),
    [
        (False, [], [1, 2, 3]),
        (False, [0, 3], [0, 1, 2, 3]),
        (True, [], [1, 2, 3]),
        (True, [0, 3], [1, 2, 3]),
    ],
    ids=["nobody renamed", "two renamed", "literal", "literal, two renamed"],
)
def test_suspects_are_below_the_mean_relevance_or_have_renamed_before(literal, corrected, wanted):
    strategy = fm.LabelStandardisation(None, window=1, spread=1, literal=literal)
    server = measuring(64, clients=5)
    state = strategy.init(server)
    state["phi"] = torch.tensor([0.3, -0.2, 0.1, 0.05, 0.5], dtype=torch.float64)
    state["corrections"][corrected] = 2
    theta = torch.zeros(4, dtype=torch.float64)
    still = torch.zeros(1, 4, dtype=torch.float64)
    round = Round(1, theta, torch.tensor([4]), torch.ones(1).long(), still)
    state = strategy.step(server, state, round).state
    assert state["phi"].tolist() == pytest.approx([0.3, -0.2, 0.1, 0.05, 0.375])  # mean .125
    assert strategy.message(server, state, 1).clients.tolist() == wanted


def test_nobody_is_suspected_where_all_are_alike():
    strategy, server = fm.LabelStandardisation(4, window=1, spread=1), measuring(8)
    round = a_round(1, 5, clients=[0, 1, 2, 3])
    state = strategy.step(server, strategy.init(server), round).state
    alike = state["phi"].unique()
    assert len(alike) == 1 or float(alike.max() - alike.min()) < 1e-12
    if len(alike) == 1:
        assert strategy.message(server, state, 1).clients.tolist() == []


def test_who_repaired_gets_the_mean_relevance():
    strategy, server = fm.LabelStandardisation(None), measuring(8, clients=5)
    phi = torch.tensor([0.4, -0.6, 0.1, -0.2, 0.5], dtype=torch.float64)
    state = strategy.init(server) | {"phi": phi.clone()}
    state = strategy.heard(server, state, torch.tensor([1, 3]))
    wanted = phi.clone()
    wanted[[1, 3]] = phi.mean()
    torch.testing.assert_close(strategy.scores(server, state), wanted, rtol=0, atol=1e-12)
    assert state["corrections"].tolist() == [0, 1, 0, 1, 0]
    state = strategy.heard(server, state, torch.tensor([3]))
    assert state["corrections"].tolist() == [0, 1, 0, 2, 0]
    assert float(strategy.scores(server, state)[3]) == pytest.approx(float(wanted.mean()))


def test_the_first_state_knows_nothing():
    """Also that of an object which was used before."""
    strategy, server = fm.LabelStandardisation(1, window=1, spread=1), measuring(8)
    _, used = signals(strategy, [3, 4], 8)
    strategy.heard(server, used, torch.tensor([0]))
    state = strategy.init(server)
    assert strategy.message(server, state, 0) is None
    assert int(state["stable_at"]) == 0
    assert not state["corrections"].any()
    assert state["recent"].isnan().all()


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
    history = run(fed, Ordering(orders={2: Order([1, 4], shifted)}), 4, net)
    theta = run(fed, fm.FedAvg(), 2, net).theta
    labels = fed.y.clone()
    for k in (1, 4):
        own = slice(*fed.offsets[k : k + 2].tolist())
        labels[own] = shifted(labels[own])
    now = fm.Federation(**{**vars(fed), "y": labels})
    for t in (3, 4):
        updates = fm.local_updates(now, net, theta, local=LOCAL, seed=3, t=t)
        theta = theta + (now.sizes.double() / now.sizes.sum()) @ updates
    torch.testing.assert_close(history.theta, theta, rtol=0, atol=1e-9)
    assert torch.equal(history.labels, labels)
    assert not torch.equal(run(fed, fm.FedAvg(), 4, net).theta, history.theta)


def test_only_those_who_changed_something_are_heard(make_fed):
    fed = make_fed(SIZES)

    def ones(y):
        return torch.ones_like(y)

    strategy = Ordering(
        orders={1: Order([4, 2, 0], ones), 2: Order([0, 2], ones), 3: Order([], ones)}
    )
    before = fed.y.clone()
    history = run(fed, strategy)
    assert strategy.changes == [[4, 2, 0]]
    assert torch.equal(fed.y, before)  # the federation given is left alone
    for k in range(5):
        own = slice(*fed.offsets[k : k + 2].tolist())
        wanted = ones(before[own]) if k in (0, 2, 4) else before[own]
        assert torch.equal(history.labels[own], wanted)


def test_labels_may_be_changed_back(make_fed):
    fed = make_fed(SIZES)
    strategy = Ordering(orders={t: Order([1], shifted) for t in (1, 2, 3)})
    history = run(fed, strategy)
    assert strategy.changes == [[1]] * 3
    assert torch.equal(history.labels, fed.y)


@pytest.mark.parametrize(
    "make", [fm.FedAvg, fm.CGSV, lambda: Ordering(orders={})], ids=["FedAvg", "CGSV", "no orders"]
)
def test_labels_stay_where_there_is_no_message(make_fed, make):
    fed = make_fed(SIZES)
    assert torch.equal(run(fed, make(), 2).labels, fed.y)


def test_a_message_reaches_clients_that_did_not_take_part(make_fed):
    fed = make_fed(SIZES)

    class Few(Ordering):
        def select(self, server, state, t):
            return torch.tensor([0, 1] if t != 2 else [], dtype=torch.long)

    strategy = Few(orders={2: Order([4], shifted)})  # a round without anybody
    history = run(fed, strategy)
    assert strategy.changes == [[4]]
    assert not torch.equal(history.labels, fed.y)


def test_a_client_that_cannot_take_part_does_not_answer(make_fed):
    clean = make_fed(SIZES)
    pairs = [(x.clone(), y) for x, y in map(clean.client, range(5))]
    pairs[2][0][0, 0] = torch.nan
    server = {"validation": clean.validation, "test": clean.test}
    with pytest.warns(UserWarning, match="client 2 holds"):
        fed = fm.Federation.from_datasets(pairs, **server, classes=3)
    order = Order([2, 3], shifted)
    strategy = Ordering(orders={1: order})
    with pytest.warns(UserWarning, match="client 2 holds"):
        history = run(fed, strategy, 2)
    assert strategy.changes == [[3]]
    assert len(order.given) == 1
    own = slice(*fed.offsets[2:4].tolist())
    assert torch.equal(history.labels[own], fed.y[own])


@pytest.mark.parametrize(
    "attack", [fm.sign_flip(), fm.replay(), Sends(torch.nan)], ids=lambda a: type(a).__name__
)
def test_attackers_answer_about_their_data(make_fed, attack):
    """An attack is on updates: the labels behind it are asked for and renamed like any other."""
    attack = {1: attack}
    fed = with_attacks(make_fed(SIZES), attack)
    strategy = Ordering(orders={1: Order([1, 3], shifted)})
    if isinstance(attack[1], Sends):
        with pytest.warns(UserWarning, match="client 1"):
            history = run(fed, strategy)
    else:
        history = run(fed, strategy)
    assert strategy.changes == [[1, 3]]
    for k in (1, 3):
        own = slice(*fed.offsets[k : k + 2].tolist())
        assert torch.equal(history.labels[own], shifted(fed.y[own]))
    assert torch.isfinite(history.theta).all()


INVALID = {
    "too large": lambda y: y + 3,
    "one too large": lambda y: torch.cat([y[:-1], torch.tensor([3])]),
    "negative": lambda y: y - 3,
    "one negative": lambda y: torch.cat([torch.tensor([-1]), y[1:]]),
    "too few": lambda y: y[1:],
    "too many": lambda y: torch.cat([y, y]),
    "a column": lambda y: y[:, None],
}


@pytest.mark.parametrize("rename", INVALID.values(), ids=INVALID)
def test_answers_that_are_no_labels_are_refused(make_fed, rename):
    strategy = Ordering(orders={2: Order([0, 2], lambda y: y if len(y) == 9 else rename(y))})
    with pytest.raises(ValueError, match=r"^message: what client 2 answers"):
        run(make_fed(SIZES), strategy)


@pytest.mark.parametrize(
    "rename", [lambda y: y + 0.6 * (y < 2), lambda y: None], ids=["fractions", "nothing"]
)
def test_answers_of_another_type_are_refused(make_fed, rename):
    strategy = Ordering(orders={2: Order([0, 2], rename)})
    with pytest.raises(TypeError, match=r"^message: what client 0 answers"):
        run(make_fed(SIZES), strategy)


def test_an_answer_that_writes_into_its_argument_spoils_nothing(make_fed):
    class InPlace(Order):
        def answer(self, net, theta, x, original, y):
            return y.fill_(1)

    fed = make_fed(SIZES)
    before, strategy = fed.y.clone(), Ordering(orders={1: InPlace([2], shifted)})
    run(fed, strategy, 2)
    assert torch.equal(fed.y, before)
    assert strategy.changes == [[2]]


@pytest.mark.parametrize("ids", [[5], [-1], [1, 1], [0.5]], ids=str)
def test_a_message_to_nobody_known_is_refused(make_fed, ids):
    strategy = Ordering(orders={1: Order(ids, shifted)})
    with pytest.raises((TypeError, ValueError), match=r"^clients: "):
        run(make_fed(SIZES), strategy)


# --- in training ---------------------------------------------------------------------------------


def swapped(seed: int = 0, pair=(1, 2), **options) -> tuple[fm.Federation, Tensor, int]:
    """IID even digits, one relevant client with two labels in exchange; the truth; its id."""
    given = {"split": fm.iid(), "seed": seed, "relevant": 4, "irrelevant": 0} | options
    clean = fm.irrelevant_digits(**given)
    fed = fm.irrelevant_digits(corrupt=fm.swap_labels(pair), **given)
    (k,) = (k for k, text in fed.truth.items() if text.startswith("swap"))
    return fed, clean.y, k


@pytest.mark.parametrize("seed", range(3))
def test_an_exchange_is_found_and_undone(seed):
    fed, truth, k = swapped(seed)
    assert not torch.equal(fed.y, truth)
    rule = fm.LabelStandardisation(3)
    history = fm.train(fed, fm.mlp(64, 16, 5), rule, rounds=40, seed=seed)
    assert torch.equal(history.labels, truth)
    corrections = history.state["corrections"]
    assert corrections.nonzero().flatten().tolist() == [k]
    assert int(corrections[k]) in (1, 2)  # the two groups at once, or one after the other
    assert history.state["stable_at"] >= 5


def test_the_relevance_of_who_repaired_jumps_to_the_mean():
    fed, _, k = swapped(0)
    found = []

    class Noting(fm.LabelStandardisation):
        def heard(self, server, state, changed):
            before = state["phi"].clone()
            state = super().heard(server, state, changed)
            found.append((changed.tolist(), before, state["phi"].clone()))
            return state

    history = fm.train(fed, fm.mlp(64, 16, 5), Noting(3), rounds=40)
    ids, before, after = found[0]
    assert ids == [k]
    assert float(before[k]) < float(before.mean())
    assert float(after[k]) == pytest.approx(float(before.mean()))
    others = [j for j in range(4) if j != k]
    assert torch.equal(after[others], before[others])
    assert (history.scores == after).all(1).any()  # it is what the history shows of that round


def test_a_healthy_federation_is_left_alone():
    fed = fm.irrelevant_digits(relevant=5, irrelevant=0, split=fm.iid(), seed=4)
    history = fm.train(fed, fm.mlp(64, 16, 5), fm.LabelStandardisation(3), rounds=30)
    assert history.state["stable_at"]
    assert not history.state["corrections"].any()
    assert torch.equal(history.labels, fed.y)


def test_without_messages_it_is_sfedavg(make_fed):
    """Never stable: the same bytes, and one model more evaluated a round."""
    fed = make_fed(SIZES)
    one = run(fed, fm.SFedAvg(3), 5)
    other = run(fed, fm.LabelStandardisation(3, window=6), 5)
    assert torch.equal(one.theta, other.theta)
    assert torch.equal(one.scores, other.scores)
    assert torch.equal(one.selected, other.selected)
    assert other.cost.model_evaluations == one.cost.model_evaluations + 5


def reachable(thing: object, seen: set[int]) -> list[Tensor]:
    """All tensors that can be reached from an object."""
    if id(thing) in seen or isinstance(thing, nn.Module | str | int | float | type):
        return []
    seen.add(id(thing))
    if torch.is_tensor(thing):
        return [thing]
    if isinstance(thing, dict):
        parts = list(thing.values())
    elif isinstance(thing, list | tuple | set | frozenset):
        parts = list(thing)
    elif is_dataclass(thing):
        parts = [getattr(thing, f.name) for f in fields(thing)]
    else:
        parts = list(getattr(thing, "__dict__", {}).values())
    return [tensor for part in parts for tensor in reachable(part, seen)]


def test_the_strategy_never_gets_hold_of_client_data():
    """Neither by arguments nor by what it keeps; the message alone travels, and ids come back."""
    fed, truth, k = swapped(1)
    calls: list[tuple[str, tuple, object]] = []

    class Watched(fm.LabelStandardisation):
        pass

    def watch(name: str) -> None:
        def method(self, *given):
            found = getattr(fm.LabelStandardisation, name)(self, *given)
            calls.append((name, given, found))
            if name == "message" and found is not None:
                assert type(found) is Inspection
                assert {f.name for f in fields(found)} == {"clients", "right", "margin", "groups"}
                assert found.right.shape == (5,)
            return found

        setattr(Watched, name, method)

    for name in ("init", "select", "step", "message", "heard"):
        watch(name)
    strategy = Watched(3)
    history = fm.train(fed, fm.mlp(64, 16, 5), strategy, rounds=40, seed=1)
    assert torch.equal(history.labels, truth)
    heard = [given for name, given, _ in calls if name == "heard"]
    assert heard
    for _, _, ids in heard:  # beside the server and the state
        assert ids.dtype == torch.long
        assert ids.tolist() == [k]
    held = reachable(strategy, set()) + reachable(calls, set())
    own = [given[0].validation for _, given, _ in calls]
    assert all(map(torch.equal, own[0], fed.validation))
    server = {part.data_ptr() for samples in own for part in samples}
    data = [fed.x, fed.y, history.labels]
    storages = {part.untyped_storage().data_ptr() for part in data}
    rows = {tuple(row) for row in fed.x[:50].tolist()}
    for tensor in held:
        assert tensor.untyped_storage().data_ptr() not in storages
        if tensor.data_ptr() not in server and tensor.ndim and tensor.shape[-1] == 64:
            assert not rows & {tuple(row) for row in tensor.reshape(-1, 64).tolist()}
    lengths = {len(fed.y), *fed.sizes.tolist()}
    labels = [t for t in held if t.dtype == torch.long and t.ndim == 1 and len(t) in lengths]
    assert all(t.data_ptr() in server for t in labels)


def test_half_repairs_finish_with_original_groups_and_never_with_current_ones():
    """Label 2 of client 0 is 4 in truth and 4 is 2; a first repair has merged the two."""
    truth = torch.tensor([2] * 6 + [4] * 8)
    original = torch.where(truth == 2, 4, 2)
    net = fm.logistic(5, 5)
    theta = torch.cat([torch.eye(5).flatten(), torch.zeros(5)])
    x = nn.functional.one_hot(truth, 5).float()
    ends = {}
    for groups in ("original", "current"):
        rule, y = Inspection(torch.tensor([0]), torch.full((5,), 0.9), 0.05, groups), original
        y = torch.where(original == 2, 4, y)  # only the group of 2 was renamed in the first round
        for _ in range(5):
            y = rule.answer(net, theta, x, original, y)
        ends[groups] = y
    assert torch.equal(ends["original"], truth)
    assert not torch.equal(ends["current"], truth)


def test_an_answer_knows_no_dropout():
    """A client that starts from a module in training mode, as a fresh one is."""
    module = nn.Sequential(nn.Dropout(0.9), nn.Linear(5, 5, bias=False))
    net, theta = fm.Model(module), torch.eye(5).flatten()
    net.module.train()
    y = torch.arange(5).repeat_interleave(8)
    x = nn.functional.one_hot(y, 5).float()
    rule = Inspection(torch.tensor([0]), torch.zeros(5))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert torch.equal(rule.answer(net, theta, x, y, y), y)


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"margin": None},
        {"margin": 0.1},
        {"spread": 0.1},
        {"window": 4},
        {"once": True},
        {"accuracy": "precision"},
        {"groups": "current"},
        {"literal": True},
        {"m": 4},
    ],
    ids=str,
)
def test_a_repr_tells_settings_apart(options):
    one, other = fm.LabelStandardisation(), fm.LabelStandardisation(**options)
    assert repr(one) == repr(fm.LabelStandardisation())
    assert repr(one) != repr(other)
