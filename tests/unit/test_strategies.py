"""What every strategy owes its users: scores by id, odd rounds and sizes, attackers, symmetry."""

from __future__ import annotations

import functools
import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import helpers
import numpy as np
import pytest
import torch
from helpers import (
    ALL_CASES,
    Played,
    Sends,
    check_finite,
    each_value,
    numbers,
    same_bytes,
    with_attacks,
)
from torch import Tensor

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.rounds import Round, Server, copied
from fedlab_mini.methods import fedavg

SIZES = (9, 4, 20, 13, 7, 6, 11)
LINEAR: dict[str, Callable[..., fm.FedAvg]] = {
    "FedAvg": fm.FedAvg,
    "CGSV": fm.CGSV,
    "CGSV without prior": functools.partial(fm.CGSV, 0.0),
    "CGSV unscaled": functools.partial(fm.CGSV, normalise=False),
    "CGSV literal": functools.partial(fm.CGSV, literal=True),
    "CGSV original": functools.partial(fm.CGSV, original=True),
    "CGSV mean": functools.partial(fm.CGSV, server_lr="mean"),
}
LEARNED: dict[str, Callable[..., fm.FRCCE]] = {
    "FRCCE": fm.FRCCE,
    "FRCCE probes": functools.partial(fm.FRCCE, probes=3, baseline="probes"),
    "FRCCE moving": functools.partial(fm.FRCCE, baseline="moving"),
    "FRCCE previous, unscaled": functools.partial(fm.FRCCE, baseline="previous", scaling="none"),
    "FRCCE by size": functools.partial(fm.FRCCE, weighting="size", layer="all"),
    "FRCCE literal": functools.partial(fm.FRCCE, literal=True),
    "FLDVE": fm.FLDVE,
    "FLDVE one probe": functools.partial(fm.FLDVE, probes=1),
    "FLDVE literal": functools.partial(fm.FLDVE, literal=True),
    "DVRLRemoval": fm.DVRLRemoval,
}
EXACT: dict[str, Callable[..., fm.SFedAvg]] = {  # for six clients or fewer
    "SFedAvg": functools.partial(fm.SFedAvg, m=None),
    "SFedAvg loss": functools.partial(fm.SFedAvg, m=None, metric="loss"),
    "SFedAvg by class": functools.partial(fm.SFedAvg, m=None, by_class=True),
    "SFedAvg uniform": functools.partial(
        fm.SFedAvg, m=None, temperature=math.inf, weighting="size"
    ),
    "SFedAvg zero": functools.partial(fm.SFedAvg, m=None, empty="zero"),
    "SFedAvg silent": functools.partial(fm.SFedAvg, m=None, absent="silent"),
    "LabelStandardisation": functools.partial(fm.LabelStandardisation, m=None),
}
SAMPLED: dict[str, Callable[..., fm.SFedAvg]] = {
    "SFedAvg orders": functools.partial(fm.SFedAvg, m=None, exact=False, permutations=3),
    "SFedAvg literal": functools.partial(fm.SFedAvg, m=None, literal=True),
    "LabelStandardisation literal": functools.partial(
        fm.LabelStandardisation, m=None, literal=True, window=2
    ),
}
RELEVANCE = EXACT | SAMPLED
PUBLIC = {name: getattr(fm, name) for name in fm.methods.__all__}
PUBLIC |= {name: getattr(fb, name) for name in fb.methods.__all__}
OTHERS: dict[str, Callable[..., fm.FedAvg]] = {  # new ones are tried as they are
    name: kind
    for name, kind in PUBLIC.items()
    if inspect.isclass(kind) and issubclass(kind, fm.FedAvg)
    if name not in LINEAR | LEARNED | RELEVANCE
}
ALL = LINEAR | LEARNED | RELEVANCE | OTHERS
LOCAL = LocalSGD(batch=4)
NAMES = [1, 4, 6]  # ids of three clients of seven


def every(*groups: dict[str, Callable[..., fm.FedAvg]]) -> pytest.MarkDecorator:
    """Run the test for each strategy of the groups; it gets ``make``."""
    merged = functools.reduce(dict.__or__, groups)
    return pytest.mark.parametrize("make", merged.values(), ids=merged.keys())


HOSTILE = {
    "NaN": Sends(torch.nan),
    "infinite": Sends(torch.inf),
    "1e30": Sends(1e30),
    "a million times": fm.scale(1e6),
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
    named = [str(warning.message) for warning in said]
    first, total = f"round 1: client {clients - 1} sent", f"left out: client {clients - 1} in 2"
    assert [text[: len(first)] for text in named[:1]] == [first]
    assert [text[: len(total)] for text in named[1:]] == [total]


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


def choosing(strategy: fm.FedAvg, timetable: Callable[[int], Iterable[int]]) -> fm.FedAvg:
    """The strategy as one that asks the clients of a timetable."""
    return with_methods(
        strategy, select=lambda self, server, state, t: torch.tensor(list(timetable(t)))
    )


def started(strategy: fm.FedAvg, clients: int, seed: int = 0) -> Played:
    """The strategy before round 1: 3 inputs, 2 classes, 12 validation samples."""
    given = numbers(12, 3, seed=5), torch.arange(12) % 2
    return Played(strategy, Server(clients, 2, fm.mlp(3, 4, 2), given, seed))


def tosses(strategy: fm.FedAvg) -> bool:
    """Does it draw coins?"""
    return isinstance(strategy, fm.FRCCE) and not (
        isinstance(strategy, fm.FLDVE) and strategy.literal
    )


def with_coins_by_place(strategy: fm.FedAvg) -> fm.FedAvg:
    """The strategy with coins that belong to rows, so that only the names of clients differ."""

    def draw(self, server: Server, omega: Tensor, t: int, clients: Tensor) -> Tensor:
        chance = torch.Generator().manual_seed(t)
        return (torch.rand(self.probes, len(omega), generator=chance) < omega).to(omega)

    return with_methods(strategy, draw=draw) if tosses(strategy) else strategy


def with_coins_by_id(strategy: fm.FedAvg) -> fm.FedAvg:
    """The strategy with coins that belong to six clients, whatever their omega."""

    def draw(self, server: Server, omega: Tensor, t: int, clients: Tensor) -> Tensor:
        return (numbers(self.probes, 6, seed=t) > -0.3).double()[:, clients]

    return with_methods(strategy, draw=draw) if tosses(strategy) else strategy


def a_round(clients: Iterable[int], t: int, updates: Tensor | None = None, sizes=None) -> Round:
    """A round of ``mlp(3, 4, 2)``, with P = 26; by default updates and sizes belong to ids."""
    clients = list(clients)
    if updates is None:
        updates = torch.stack([0.3 * numbers(26, seed=100 * t + k) for k in clients])
    sizes = [10 + 3 * k for k in clients] if sizes is None else sizes
    return helpers.a_round(updates, sizes, clients, t=t, theta=0.5 * numbers(26, seed=t))


# --- who takes part ------------------------------------------------------------------------------


@every(ALL)
def test_scores_belong_to_ids_whatever_the_selection(make_fed, make):
    """Clients 1, 4, 6, always: their scores are those of a federation that has nobody else."""
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    history = fm.train(fed, net, choosing(make(), lambda t: [1, 4, 6]), rounds=4, local=LOCAL)
    assert history.scores.shape == history.weights.shape == (4, 7)
    outside = [0, 2, 3, 5]
    assert (history.scores[:, outside] == unheard(make, 7)).all()
    assert not history.weights[:, outside].any()
    assert every_score_or_some(make)((history.scores[:, [1, 4, 6]] != 0).any(0))
    assert history.selected[:, [1, 4, 6]].all()
    assert not history.selected[:, outside].any()
    check_finite(history)


def same_rounds(few: Played, many: Played) -> Iterator[int]:
    """Five rounds of clients 0, 1, 2 with one strategy, of NAMES with the other; gives t."""
    for t in range(1, 6):
        updates = 0.3 * numbers(3, 26, seed=t)
        one = few.step(a_round(range(3), t, updates, [5, 9, 2]))
        other = many.step(a_round(NAMES, t, updates, [5, 9, 2]))
        torch.testing.assert_close(one.theta, other.theta, rtol=0, atol=1e-12)
        torch.testing.assert_close(one.weights, other.weights, rtol=0, atol=1e-12)
        yield t


@every(LINEAR, LEARNED)
def test_ids_are_only_names(make):
    """The rounds of clients 0, 1, 2 of three, and the same rounds of 1, 4, 6 of seven."""
    few, many = (started(with_coins_by_place(make()), n) for n in (3, 7))
    for _ in same_rounds(few, many):
        torch.testing.assert_close(few.scores, many.scores[NAMES], rtol=0, atol=1e-12)


@every(ALL)
def test_partial_participation(make_fed, make):
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    history = fm.train(fed, net, asking(make, 3), rounds=4, local=LOCAL, seed=1)
    check_finite(history)
    assert (history.selected.sum(1) == 3).all()
    assert not history.weights[~history.selected].any()
    seen = history.selected.cumsum(0) > 0
    assert (history.scores[~seen] == unheard(make, 7)).all()
    assert (history.scores[seen] != unheard(make, 7)).any()
    sums = history.weights.double().sum(1)
    assert ((sums - 1).abs() < 1e-6).logical_or(sums == 0).all()


@every(ALL)
def test_late_joiners(make_fed, make):
    def timetable(t):
        return range(5) if t < 3 else range(7)

    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    history = fm.train(fed, net, choosing(make(), timetable), rounds=4, local=LOCAL)
    check_finite(history)
    assert (history.scores[:2, 5:] == unheard(make, 7)).all()
    assert every_score_or_some(make)(history.scores[3, 5:] != 0)


@every(ALL)
def test_nobody_is_asked_now_and_then(make_fed, make):
    fed, net = make_fed(SIZES), fm.mlp(6, 4, 3)
    strategy = choosing(make(), lambda t: [] if t % 2 else [5, 0, 3])
    history = fm.train(fed, net, strategy, rounds=3, local=LOCAL)
    check_finite(history)
    assert (history.scores[0] == unheard(make, 7)).all()
    assert history.loss[1] == history.loss[0]
    assert torch.equal(history.scores[2], history.scores[1])


@every(ALL)
@pytest.mark.parametrize("clients", [1, 2, 500 if ALL_CASES else 90])
def test_any_number_of_clients(make_fed, make, clients):
    fed, net = make_fed([1 + k % 3 for k in range(clients)], inputs=3), fm.logistic(3, 3)
    history = fm.train(fed, net, make(), rounds=2, local=LOCAL)
    check_finite(history)
    assert history.scores.shape == (2, clients)
    assert every_score_or_some(make)(history.scores[-1] != 0)


# --- strange updates -----------------------------------------------------------------------------


@every(ALL)
def test_a_client_that_sends_zeros(make_fed, make):
    fed = with_attacks(make_fed(SIZES), {3: fm.free_ride(0.0)})
    history = fm.train(fed, fm.mlp(6, 4, 3), make(), rounds=3, local=LOCAL)
    check_finite(history)


@every(ALL)
def test_everybody_sends_zeros(make_fed, make):
    fed, net = make_fed(SIZES[:3]), fm.mlp(6, 4, 3)
    fed = with_attacks(fed, dict.fromkeys(range(3), fm.free_ride(0.0)))
    history = fm.train(fed, net, make(), rounds=3, local=LOCAL)
    check_finite(history)
    assert torch.equal(history.theta, net.init(0, dtype=torch.float64))


@every(ALL)
def test_a_client_that_sends_nan_is_left_out(make_fed, make):
    fed, net = with_attacks(make_fed(SIZES), {3: Sends(torch.nan)}), fm.mlp(6, 4, 3)
    with pytest.warns(UserWarning, match="client 3") as caught:
        history = fm.train(fed, net, make(), rounds=3, local=LOCAL)
    said = [str(warning.message) for warning in caught]
    assert said[0].startswith("round 1: client 3 sent an update that is not finite")
    assert said[1:] == ["left out: client 3 in 3 rounds"]
    check_finite(history)
    assert not history.weights[:, 3].any()
    if isinstance(make(), fm.SFedAvg):  # the lowest value of every round
        assert (history.scores[:, 3] <= history.scores.amin(1)).all()
    else:
        assert not history.scores[:, 3].any()
    assert history.selected[:, 3].all()
    assert not torch.equal(history.theta, net.init(0, dtype=torch.float64))


@every(ALL)
@pytest.mark.parametrize("factor", [1000.0, -1e6])
def test_a_client_that_boosts_its_update(make_fed, make, factor):
    fed = with_attacks(make_fed(SIZES), {3: fm.scale(factor)})
    net = fm.mlp(6, 4, 3)
    played = Played(make(), Server(7, 3, net, fed.validation, 0))
    theta = net.init(0, dtype=torch.float64)
    for t in (1, 2, 3):  # from the same model: what follows a ruined one is another question
        updates = fm.local_updates(fed, net, theta, local=LOCAL, t=t)
        done = played.step(Round(t, theta, torch.arange(7), fed.sizes, updates))
        assert torch.isfinite(done.theta).all()
        assert torch.isfinite(played.scores).all()


@pytest.mark.parametrize("make", [fm.CGSV, fm.FRCCE, fm.FLDVE, fm.DVRLRemoval])
@pytest.mark.parametrize("seed", range(2))
def test_one_boosted_update_does_not_ruin_the_model(make, seed):
    digits, net = fm.load("digits"), fm.logistic(64, 10)
    honest = fm.federation(digits, clients=6, seed=seed)
    fed = with_attacks(honest, {2: fm.scale(1000.0)})
    wanted = fm.train(honest, net, fm.FedAvg(), rounds=12, seed=seed)
    history = fm.train(fed, net, make(), rounds=12, seed=seed)
    check_finite(history)
    assert float(history.accuracy[-1]) > float(wanted.accuracy[-1]) - 0.1
    ruined = fm.train(fed, net, fm.FedAvg(), rounds=12, seed=seed)
    assert float(ruined.loss[-1]) > 5 * float(history.loss[-1])  # where nobody watches


BOTH = {
    name: (kind, {"m": 6} if issubclass(kind, fm.SFedAvg) else {})
    for name, kind in PUBLIC.items()
    if inspect.isclass(kind) and hasattr(kind, "literal")
}
GRID = {"FedAvg": fm.FedAvg}
GRID |= {name: functools.partial(kind, **few) for name, (kind, few) in BOTH.items()}
GRID |= {
    f"{name} literal": functools.partial(kind, literal=True, **few)
    for name, (kind, few) in BOTH.items()
}


@every(GRID)
@pytest.mark.parametrize(("size", "attackers"), each_value([1e8, 1e18, 1e38, 3e38], [1, 3, 6]))
def test_huge_updates_harm_nobody_but_their_senders(make_fed, make, attackers, size):
    """Finite, of alternating signs, from up to six of ten clients, who are the ones named."""
    sends = dict.fromkeys(range(attackers), Sends(size, alternating=True))
    fed = with_attacks(make_fed(range(4, 14), dtype=torch.float32), sends)
    with pytest.warns(UserWarning, match="client") as caught:
        history = fm.train(fed, fm.mlp(6, 4, 3), make(), rounds=6, local=LOCAL)
    check_finite(history)
    said = " ".join(str(warning.message) for warning in caught)
    named = {int(k) for ids in re.findall(r"client ([\d, ]+)", said) for k in ids.split(",")}
    assert named == set(history.selected[:, :attackers].any(0).nonzero().flatten().tolist())
    assert not history.weights[:, :attackers].any()
    assert float(history.loss[-1]) < 2 * float(history.loss[0])


# --- symmetry ------------------------------------------------------------------------------------


@every(LINEAR, LEARNED, EXACT)
def test_identical_clients_have_identical_scores(make):
    """Clients 1 and 5 send the same; what is drawn may differ, what the policy says may not."""
    played = started(make(), 6)
    for t in range(1, 8):
        updates = 0.3 * numbers(4, 26, seed=t)
        updates[3] = updates[0]
        played.step(a_round([1, 2, 3, 5], t, updates, [8, 3, 12, 8]))
        assert float(played.scores[1]) == pytest.approx(float(played.scores[5]), abs=1e-10)
    if isinstance(played.strategy, fm.FRCCE):
        omega = played.state["omega"]
        torch.testing.assert_close(omega[1], omega[5], rtol=0, atol=1e-10)


@every(RELEVANCE)
def test_values_belong_to_ids_however_many_clients_there_are(make):
    """As above; relevances start at 1 / K, so what is compared is the rounds' values."""
    few, many = started(make(), 3), started(make(), 7)
    for t in same_rounds(few, many):
        values = many.state["values"][NAMES]
        torch.testing.assert_close(few.state["values"], values, rtol=0, atol=1e-12)
        start = 0.75**t * (1 / 3 - 1 / 7)  # what is left of the different starts
        torch.testing.assert_close(few.scores - start, many.scores[NAMES], rtol=0, atol=1e-12)


@every(LINEAR, LEARNED, RELEVANCE)
def test_renamed_clients_keep_their_scores(make):
    """Client k of one training is called pi(k) in another one: the scores move with the names."""
    rename = torch.tensor([3, 0, 4, 1, 5, 2])
    one, other = (started(with_coins_by_place(make()), 6) for _ in range(2))
    for t in range(1, 6):
        ids = [[0, 1, 2, 3, 4], [5, 2, 0], [1, 3, 4, 5], [2], [0, 1, 2, 3, 4, 5]][t - 1]
        updates, sizes = 0.3 * numbers(len(ids), 26, seed=t), [10 + 3 * k for k in ids]
        done = one.step(a_round(ids, t, updates, sizes))
        same = other.step(a_round(rename[ids].tolist(), t, updates, sizes))
        torch.testing.assert_close(done.theta, same.theta, rtol=0, atol=1e-12)
        torch.testing.assert_close(one.scores, other.scores[rename], rtol=0, atol=1e-12)
        torch.testing.assert_close(done.weights, same.weights, rtol=0, atol=1e-12)


@every(LINEAR, EXACT)
def test_the_order_of_the_rows_does_not_matter(make):
    one, other = started(make(), 6), started(make(), 6)
    for t, ids in enumerate([[0, 1, 2, 3, 4], [5, 2, 0], [1, 3, 4, 5], [0, 5, 2, 1]], 1):
        mixed = torch.tensor(ids)[torch.randperm(len(ids), generator=torch.Generator())].tolist()
        done, same = one.step(a_round(ids, t)), other.step(a_round(mixed, t))
        torch.testing.assert_close(done.theta, same.theta, rtol=0, atol=1e-10)
        torch.testing.assert_close(one.scores, other.scores, rtol=0, atol=1e-10)


@every(LEARNED)
def test_the_order_of_the_rows_does_not_matter_once_the_coins_are_tossed(make):
    """Each client's coin shows the same, in whatever row the client stands."""
    one, other = (started(with_coins_by_id(make()), 6) for _ in range(2))
    for t, ids in enumerate([[0, 1, 2, 3, 4], [5, 2, 0], [1, 3, 4, 5], [0, 5, 2, 1]], 1):
        done = one.step(a_round(ids, t))
        same = other.step(a_round(ids[2:] + ids[:2], t))
        omegas = one.state["omega"], other.state["omega"]
        torch.testing.assert_close(*omegas, rtol=0, atol=1e-9)
        torch.testing.assert_close(done.theta, same.theta, rtol=0, atol=1e-9)
        torch.testing.assert_close(one.scores, other.scores, rtol=0, atol=1e-9)


# --- state ---------------------------------------------------------------------------------------


def timetable(t: int) -> list[int]:
    """Five of six clients, and fewer in odd rounds."""
    return [0, 1, 3, 4, 5] if t % 2 == 0 else [4, 1, 2]


@every(ALL)
def test_the_state_is_all_that_the_coming_rounds_depend_on(make):
    """Another object, with other rounds behind it, goes on from a copy to the last bit."""
    one, other = started(make(), 6), started(make(), 6)
    for t in (1, 2, 3):
        one.step(a_round(timetable(t), t))
        other.step(a_round(timetable(t), t + 10))
    snapshot = copied(one.state)
    other.state = copied(snapshot)
    assert same_bytes(one.scores, other.scores)
    for t in (4, 5, 6):
        done, same = (played.step(a_round(timetable(t), t)) for played in (one, other))
        assert same_bytes(done.theta, same.theta)
        assert same_bytes(done.weights, same.weights)
        assert same_bytes(one.scores, other.scores)
        assert done.evaluated == same.evaluated
    assert one.state.keys() == snapshot.keys()
    assert any(not same_bytes(one.state[name], part) for name, part in snapshot.items())
    for name, part in one.state.items():
        assert same_bytes(part, other.state[name]), name


@every(ALL)
def test_same_seed_same_bytes_also_with_a_used_strategy(make_fed, make):
    fed, net, strategy = make_fed(SIZES, dtype=torch.float32), fm.mlp(6, 4, 3), make()
    first, other, again = (
        fm.train(fed, net, strategy, rounds=2, local=LOCAL, seed=seed) for seed in (4, 5, 4)
    )
    for name in ("theta", "scores", "weights", "loss", "accuracy"):
        assert same_bytes(getattr(first, name), getattr(again, name))
    assert not torch.equal(first.theta, other.theta)
    assert first.cost.model_evaluations == again.cost.model_evaluations
    assert first.theta.dtype == first.weights.dtype == torch.float32
    assert first.scores.dtype == torch.float64


@pytest.mark.parametrize(
    "make",
    [fm.FedAvg, fm.CGSV, fm.FRCCE, RELEVANCE["SFedAvg"], RELEVANCE["SFedAvg orders"]],
    ids=["FedAvg", "CGSV", "FRCCE", "SFedAvg", "SFedAvg orders"],
)
def test_training_leaves_the_global_generator_alone(make_fed, make):
    fed, net = make_fed(SIZES[:3]), fm.logistic(6, 3)
    before = torch.get_rng_state()
    fm.train(fed, net, make(), rounds=1, local=LOCAL)
    assert torch.equal(before, torch.get_rng_state())


@every(ALL)
def test_a_repr_tells_settings_apart(make):
    strategy = make()
    assert repr(strategy).startswith(f"{type(strategy).__name__}(")
    assert repr(strategy) == repr(make())
    assert repr(strategy) != repr(asking(make, 2))


def test_coins_belong_to_ids_not_to_places():
    played = started(fm.FRCCE(probes=6), 9)
    omega, ids = (
        torch.rand(4, generator=torch.Generator().manual_seed(0)),
        torch.tensor([8, 1, 5, 2]),
    )
    order = torch.tensor([2, 0, 3, 1])
    one, other = (
        played.strategy.draw(played.server, omega[rows], 3, ids[rows])
        for rows in (torch.arange(4), order)
    )
    assert torch.equal(one[:, order], other)


# --- what a strategy says of itself --------------------------------------------------------------


@pytest.mark.parametrize("name", BOTH)
def test_paper_versus_code_is_what_the_constructor_does(name):
    kind, _ = BOTH[name]
    ours, literal, rows = kind(), kind(literal=True), kind.departures()
    assert repr(kind.printed()) == repr(literal)
    assert rows.keys() == {n for n in kind.PRINTED if getattr(ours, n) != kind.PRINTED[n]}
    for choice, row in rows.items():
        pairs = zip(row.values(), (kind.PRINTED[choice], getattr(ours, choice)), strict=True)
        assert all(text in (str(value), f"{value:g}" if isinstance(value, float) else "none")
                   for text, value in pairs)  # fmt: skip
    for choice, printed in kind.PRINTED.items():
        assert getattr(literal, choice) == printed
    given = {n: getattr(ours, n) for n in rows if kind.PRINTED[n] is not None}
    if issubclass(kind, fm.FLDVE):  # one probe by the text, whatever is asked
        del given["probes"], given["baseline"]
    for mixed in (kind(literal=True, **given), kind.printed(**given)):
        assert all(getattr(mixed, choice) == value for choice, value in given.items())
    assert fm.FedAvg.departures() == {}
    assert repr(fm.FedAvg.printed(per_round=3)) == repr(fm.FedAvg(per_round=3))


@pytest.mark.parametrize("name", BOTH)
def test_defaults_are_plain_values(name):
    """What a signature shows is what a strategy made without arguments has."""
    kind, _ = BOTH[name]
    strategy = kind()
    for option in inspect.signature(kind).parameters.values():
        assert getattr(strategy, option.name) == option.default
        assert option.default is not None or kind.PRINTED.get(option.name) is None


def test_literal_wants_the_decorator_that_fills_it_in():
    def mine(decorator):
        @decorator
        class Mine(fm.CGSV):
            own: float = 0.5

        return Mine

    plain = mine(dataclass(frozen=True, eq=False, kw_only=True))
    assert plain(0.2).own == 0.5
    with pytest.raises(TypeError, match=r"^literal: Mine wants @strategy"):
        plain(literal=True)
    assert mine(fedavg.strategy)(literal=True).server_lr == 1


def test_arguments_are_refused_as_python_refuses_them():
    for wrong in (lambda: fm.FRCCE(1e-3, lr=1e-3), lambda: fm.CGSV(gama=1), lambda: fm.CGSV(1, 2)):
        with pytest.raises(TypeError, match="argument"):
            wrong()


OUT_OF_RANGE = {
    fm.FedAvg: {"per_round": (0, -1), "weighting": ("data",)},
    fm.CGSV: {
        "gamma0": (-0.1, 1.1, math.nan),
        "server_lr": ("mode", 0, -1.0, math.inf, math.nan),
        "floor": (-1e-3, 1.0, math.nan),
        "per_round": (0,),
    },
    fm.FRCCE: {
        "lr": (0, -1e-3, math.inf, math.nan),
        "probes": (0,),
        "baseline": ("mean",),
        "window": (0,),
        "sign": ("plus",),
        "scaling": ("layer",),
        "layer": ("first",),
        "clamp": (-0.1, 0.5, math.nan),
        "limit": (0, -1.0, math.nan),
        "weighting": ("data",),
        "per_round": (0,),
    },
    fm.SFedAvg: {
        "m": (0, -1),
        "alpha": (-0.1, 1.1, math.nan),
        "beta": (-0.1, math.nan, math.inf),
        "permutations": (0,),
        "temperature": (0, -1, math.nan),
        "metric": ("f1",),
        "empty": ("nothing",),
        "weighting": ("data",),
        "absent": ("gone",),
    },
    fm.LabelStandardisation: {
        "margin": (-0.1, 1.1, math.nan),
        "spread": (-0.1, 2, math.nan),
        "window": (0,),
        "accuracy": ("f1",),
        "groups": ("all", ""),
    },
}
OUT_OF_RANGE[fm.FLDVE] = OUT_OF_RANGE[fm.FRCCE]
OUT_OF_RANGE[fm.DVRLRemoval] = OUT_OF_RANGE[fm.FLDVE]


@pytest.mark.parametrize("kind", OUT_OF_RANGE, ids=lambda kind: kind.__name__)
def test_options_out_of_range_are_named(kind):
    """Those of a wrong kind: tests/properties/test_bad_input.py."""
    for parent, bad in OUT_OF_RANGE.items():
        for name, values in bad.items() if issubclass(kind, parent) else ():
            for value in values:
                if parent is not fm.FedAvg or name in inspect.signature(kind).parameters:
                    with pytest.raises(ValueError, match=rf"^{name}: "):
                        kind(**{name: value})


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (fm.CGSV, {"original": True}),
        (fm.CGSV, {"normalise": False}),
        (fm.SFedAvg, {"exact": True}),
        (fm.SFedAvg, {"by_class": True}),
    ],
)
def test_what_the_printed_text_does_not_know_is_refused_with_literal(kind, options):
    with pytest.raises(ValueError, match=r"^literal: "):
        kind(literal=True, **options)


def test_numpy_numbers_are_numbers():
    one = fm.SFedAvg(np.int64(3), np.float32(0.5), by_class=np.bool_(True))
    assert repr(one) == repr(fm.SFedAvg(3, 0.5, by_class=True))
