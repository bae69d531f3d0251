"""What every strategy owes its users: scores by id, odd rounds and sizes, attackers, symmetry."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable

import helpers
import pytest
import torch
from helpers import Played, Sends, check_finite, each_value, numbers, with_attacks
from torch import Tensor

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.minibatches import LocalSGD
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.parse.settings import options_of

SIZES = (9, 4, 20, 13, 7, 6, 11)
LINEAR: dict[str, Callable[..., fm.FedAvg]] = {
    "FedAvg": fm.FedAvg,
    "CGSV": fm.CGSV,
    "CGSV without prior": functools.partial(fm.CGSV, 0.0),
    "CGSV literal": functools.partial(fm.CGSV, literal=True),
    "CGSV original": functools.partial(fm.CGSV, original=True),
    "CGSV mean": functools.partial(fm.CGSV, server_lr="mean"),
}
LEARNED: dict[str, Callable[..., fm.FRCCE]] = {
    "FRCCE": fm.FRCCE,
    "FRCCE probes": functools.partial(fm.FRCCE, probes=3, baseline="probes"),
    "FRCCE moving": functools.partial(fm.FRCCE, baseline="moving"),
    "FRCCE previous, unscaled": functools.partial(fm.FRCCE, baseline="previous", scaling="none"),
    "FLDVE": fm.FLDVE,
    "FLDVE literal": functools.partial(fm.FLDVE, literal=True),
    "DVRLRemoval": fm.DVRLRemoval,
}
EXACT: dict[str, Callable[..., fm.SFedAvg]] = {  # for six clients or fewer
    "SFedAvg": functools.partial(fm.SFedAvg, m=None),
    "SFedAvg by class": functools.partial(fm.SFedAvg, m=None, by_class=True),
    "SFedAvg silent": functools.partial(fm.SFedAvg, m=None, absent="silent"),
    "LabelStandardisation": functools.partial(fm.LabelStandardisation, m=None),
}
SAMPLED: dict[str, Callable[..., fm.SFedAvg]] = {
    "SFedAvg orders": functools.partial(fm.SFedAvg, m=None, exact=False, permutations=3),
    "LabelStandardisation literal": functools.partial(
        fm.LabelStandardisation, m=None, literal=True, window=2
    ),
}
PUBLIC = {name: getattr(room.methods, name) for room in (fm, fb) for name in room.methods.__all__}
OTHERS: dict[str, Callable[..., fm.FedAvg]] = {  # new ones are tried as they are
    name: kind
    for name, kind in PUBLIC.items()
    if inspect.isclass(kind) and issubclass(kind, fm.FedAvg)
    if name not in LINEAR | LEARNED | EXACT
} | {"Median": fm.defences.Median}
ALL = LINEAR | LEARNED | EXACT | SAMPLED | OTHERS
FAIR = {name: kind for name, kind in OTHERS.items() if kind is not fb.GTGShapley}  # draws orders
LOCAL = LocalSGD(batch=4)


def every(*groups: dict[str, Callable[..., fm.FedAvg]]) -> pytest.MarkDecorator:
    """Run the test for each strategy of the groups; it gets ``make``."""
    merged = functools.reduce(dict.__or__, groups)
    return pytest.mark.parametrize("make", merged.values(), ids=merged.keys())


def asking(make: Callable[..., fm.FedAvg], count: int) -> fm.FedAvg:
    """The strategy with ``count`` clients a round, by the name it has for that."""
    kind = make.func if isinstance(make, functools.partial) else make
    return make(**{"m" if issubclass(kind, fm.SFedAvg) else "per_round": count})


def unheard(make: Callable[..., fm.FedAvg], clients: int) -> float:
    """The score of a client that nobody has asked yet: 0, or a relevance of 1 / K."""
    return 1 / clients if isinstance(make(), fm.SFedAvg) else 0.0


def every_score_or_some(make: Callable[..., fm.FedAvg]) -> Callable[[Tensor], Tensor]:
    """Of a method of the book all are said to differ from 0; of another one 0 may be the lowest."""
    if make is fb.QualityInference:  # where the same clients come again, their marks cancel
        return lambda differs: torch.tensor(True)
    return torch.any if make in OTHERS.values() else torch.all


def with_methods(strategy: fm.FedAvg, **methods: Callable) -> fm.FedAvg:
    """The strategy as one of a subclass that has these methods."""
    own = type(strategy)
    object.__setattr__(strategy, "__class__", type(own.__name__, (own,), methods))
    return strategy


def started(strategy: fm.FedAvg, clients: int, seed: int = 0) -> Played:
    """The strategy before round 1: 3 inputs, 2 classes, 12 validation samples."""
    given = numbers(12, 3, seed=5), torch.arange(12) % 2
    return Played(strategy, Server(clients, 2, fm.mlp(3, 4, 2), given, seed))


def with_coins(strategy: fm.FedAvg, own: list[int]) -> fm.FedAvg:
    """The strategy with coins that belong to clients, whatever they are called."""

    def draw(self, server: Server, omega: Tensor, t: int, clients: Tensor) -> Tensor:
        coins = (numbers(self.probes, 5, seed=t) > -0.3).double()
        return coins[:, [own.index(k) for k in clients.tolist()]]

    tosses = isinstance(strategy, fm.FRCCE) and not getattr(strategy, "literal", False)
    return with_methods(strategy, draw=draw) if tosses else strategy


def a_round(clients: Iterable[int], t: int, updates: Tensor | None = None, sizes=None) -> Round:
    """A round of ``mlp(3, 4, 2)``, with P = 26; by default updates and sizes belong to ids."""
    clients = list(clients)
    if updates is None:
        updates = torch.stack([0.3 * numbers(26, seed=100 * t + k) for k in clients])
    sizes = [10 + 3 * k for k in clients] if sizes is None else sizes
    return helpers.a_round(updates, sizes, clients, t=t, theta=0.5 * numbers(26, seed=t))


def close(one: Tensor, other: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=atol)


# --- who takes part ------------------------------------------------------------------------------


TIMETABLES = {
    "the same three": lambda t: [1, 4, 6],
    "late joiners": lambda t: range(5) if t < 3 else range(7),
    "now and then nobody": lambda t: [] if t % 2 else [5, 0, 3],
    "three that it chooses": None,
}


@every(ALL)
@pytest.mark.parametrize("timetable", TIMETABLES.values(), ids=TIMETABLES)
def test_scores_belong_to_ids_whatever_the_selection(make_fed, make, timetable):
    def select(self, server, state, t):
        return torch.tensor(list(timetable(t)), dtype=torch.long)

    strategy = with_methods(make(), select=select) if timetable else asking(make, 3)
    history = fm.train(make_fed(SIZES), fm.mlp(6, 4, 3), strategy, rounds=4, local=LOCAL)
    check_finite(history)
    asked = history.selected
    for t in (1, 2, 3, 4):
        chosen = asked[t - 1].nonzero().flatten().tolist()
        assert chosen == sorted(timetable(t)) if timetable else len(chosen) == 3
    assert not history.weights[~asked].any()
    heard = asked.cumsum(0) > 0
    assert (history.scores[~heard] == unheard(make, 7)).all()
    score = history.scores[:, heard[-1]]
    assert (every_score_or_some(make) if timetable else torch.any)((score != 0).any(0))
    sums = history.weights.double().sum(1)
    assert ((sums - 1).abs() < 1e-6).logical_or(sums == 0).all()
    for t in (0, 2):
        if not asked[t].any():
            assert history.loss[t + 1] == history.loss[t]
            assert t == 0 or torch.equal(history.scores[t], history.scores[t - 1])


@every(ALL)
@pytest.mark.parametrize("clients", [1, 2, 7, 90])
def test_any_number_of_clients(make_fed, make, clients):
    fed, net = make_fed([1 + k % 3 for k in range(clients)], inputs=3), fm.logistic(3, 3)
    history = fm.train(fed, net, make(), rounds=2, local=LOCAL)
    check_finite(history)
    assert history.scores.shape == (2, clients)
    assert every_score_or_some(make)(history.scores[-1] != 0)


# --- strange updates -----------------------------------------------------------------------------


HOSTILE = {
    "NaN": Sends(torch.nan),
    "infinite": Sends(torch.inf),
    "whose sum overflows": Sends(1e308, alternating=True),
    "a million times": fm.attacks.Scale(1e6),
}


@pytest.mark.parametrize(("sent", "clients"), each_value(list(HOSTILE), [10, 2, 1]))
@every(ALL)
def test_one_hostile_client_is_named_and_nobody_else(make_fed, make, sent, clients):
    fed = with_attacks(make_fed([8] * clients), {clients - 1: HOSTILE[sent]})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        history = fm.train(fed, fm.mlp(6, 4, 3), make(), rounds=2, local=LOCAL)
    check_finite(history)
    assert history.weights[:, -1].tolist() == [0, 0]
    score = history.scores[:, -1]
    assert (score <= history.scores.amin(1)).all() or not score.any()
    named = [str(warning.message) for warning in said]
    first, total = f"round 1: client {clients - 1} sent", f"left out: client {clients - 1} in 2"
    assert [text[: len(first)] for text in named[:1]] == [first]
    assert [text[: len(total)] for text in named[1:]] == [total]


@every(ALL)
@pytest.mark.parametrize("senders", [1, 3])
def test_zeros_are_an_update(make_fed, make, senders):
    fed, net = make_fed(SIZES[:3]), fm.mlp(6, 4, 3)
    fed = with_attacks(fed, dict.fromkeys(range(senders), fm.attacks.FreeRide(0.0)))
    history = fm.train(fed, net, make(), rounds=3, local=LOCAL)
    check_finite(history)
    assert torch.equal(history.theta, net.init(0, dtype=torch.float64)) == (senders == 3)


# --- symmetry ------------------------------------------------------------------------------------


@every(LINEAR, LEARNED, EXACT, FAIR)
def test_identical_clients_have_identical_scores(make):
    """Clients 1 and 5 send the same; what is drawn may differ, what the policy says may not."""
    played = started(make(), 6)
    for t in range(1, 8):
        updates = 0.3 * numbers(4, 26, seed=t)
        updates[3] = updates[0]
        played.step(a_round([1, 2, 3, 5], t, updates, [8, 3, 12, 8]))
        close(played.scores[1], played.scores[5], atol=1e-10)


@every(ALL)
def test_ids_are_only_names_and_rows_only_places(make):
    """The rounds of clients 0 to 4 of five; and again, renamed among seven, in another order."""
    rename = [3, 0, 6, 1, 5]
    few, many = (
        started(with_coins(make(), own), n) for own, n in ((list(range(5)), 5), (rename, 7))
    )
    draws = make in SAMPLED.values() or make is fb.GTGShapley  # orders of rows
    for t, ids in enumerate([[0, 1, 2, 3, 4], [4, 2, 0], [1, 3, 4], [2], [0, 1, 2, 3, 4]], 1):
        order = torch.arange(len(ids)) if draws else torch.arange(len(ids)).roll(t)
        updates, sizes = (
            0.3 * numbers(len(ids), 26, seed=t),
            torch.tensor([10 + 3 * k for k in ids]),
        )
        one = few.step(a_round(ids, t, updates, sizes))
        names = [rename[ids[row]] for row in order]
        other = many.step(a_round(names, t, updates[order], sizes[order]))
        close(one.theta, other.theta, atol=1e-9)
        close(one.weights[order], other.weights, atol=1e-9)
        start = unheard(make, 5) - unheard(make, 7)  # relevances start at 1 / K
        if start and t == 1:
            close(few.scores - 0.75 * start, many.scores[rename], atol=1e-9)
        elif not start and make is not fb.FedCE:  # whose scores add up to 1 over all
            close(few.scores, many.scores[rename], atol=1e-9)


# --- what a strategy says of itself --------------------------------------------------------------

BOTH = [kind for kind in PUBLIC.values() if inspect.isclass(kind) and hasattr(kind, "literal")]


@pytest.mark.parametrize("kind", BOTH, ids=lambda kind: kind.__name__)
def test_paper_versus_code_is_what_the_constructor_does(kind):
    ours, literal, rows = kind(), kind(literal=True), kind.departures()
    options = {name: both.printed for name, both in options_of(kind).items()}
    with pytest.warns(DeprecationWarning, match=rf"{kind.__name__}\(literal=True\)"):
        assert repr(kind.printed()) == repr(literal)
    assert rows.keys() == {n for n in options if getattr(ours, n) != options[n]}
    for choice, row in rows.items():
        pairs = zip(row.values(), (options[choice], getattr(ours, choice)), strict=True)
        assert all(text in (str(value), f"{value:g}" if isinstance(value, float) else "none")
                   for text, value in pairs)  # fmt: skip
    for choice, printed in options.items():
        assert getattr(literal, choice) == printed
