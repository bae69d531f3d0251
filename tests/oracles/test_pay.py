"""Pay rules against exact rationals: published games, players under several names, promises."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.games.values import core_shortfall

F = Fraction
Worth = dict[frozenset[int], Fraction]


def enumerated(n: int, worth: Worth) -> list[Fraction]:
    """The Shapley value in fractions, by adding players in every order."""
    total = [F(0)] * n
    for order in itertools.permutations(range(n)):
        before = frozenset()
        for player in order:
            after = before | {player}
            total[player] += worth[after] - worth[before]
            before = after
    return [value / math.factorial(n) for value in total]


def coalitions(n: int) -> list[frozenset[int]]:
    return [frozenset(i for i in range(n) if code >> i & 1) for code in range(1 << n)]


def game_of(n: int, worth: Worth) -> fm.Game:
    table = torch.tensor([float(worth[s]) for s in coalitions(n)], dtype=torch.float64)
    return fm.Game(n, lambda s: table[s.long() @ (1 << torch.arange(n))])


def of(n: int, **named: str) -> Worth:
    """Worths such as of(3, v12="3/2"); the coalitions that are not named are worth 0."""
    given = {frozenset(int(i) - 1 for i in name[1:]): F(value) for name, value in named.items()}
    return {s: given.get(s, F(0)) for s in coalitions(n)}


def estate(amount: int) -> Worth:
    """The Talmud's: claims of 100, 200 and 300 on an estate; a coalition gets what others leave."""
    claims = (100, 200, 300)
    left = {s: amount - sum(claims[i] for i in range(3) if i not in s) for s in coalitions(3)}
    return {s: F(max(value, 0)) for s, value in left.items()}


ALONE = {"v1": "46125", "v2": "34875/2", "v3": "11625/2"}
PAIRS = {"v12": "138375/2", "v13": "107625/2", "v23": "30750", "v123": "90000"}
GAMES = {
    "Lemaire 1991": (of(3, **ALONE, **PAIRS), ["51750", "25875", "12375"]),
    "Talmud, 200": (estate(200), ["100/3", "250/3", "250/3"]),
    "gloves": (of(3, v12="1", v13="1", v123="1"), ["2/3", "1/6", "1/6"]),
}
NUCLEOLUS = {
    "Lemaire 1991": (GAMES["Lemaire 1991"][0], ["105375/2", "97875/4", "51375/4"]),
    "Talmud, 100": (estate(100), ["100/3", "100/3", "100/3"]),
    "Talmud, 200": (estate(200), ["50", "75", "75"]),
    "Talmud, 300": (estate(300), ["50", "100", "150"]),
    "gloves": (GAMES["gloves"][0], ["1", "0", "0"]),
}


def close(found: torch.Tensor, wanted: list[Fraction], tolerance: float = 1e-9) -> bool:
    scale = max(map(abs, wanted)) or F(1)
    pairs = zip(found.tolist(), wanted, strict=True)
    return all(abs(F(x) - y) <= F(tolerance) * scale for x, y in pairs)


@pytest.mark.parametrize("name", GAMES)
def test_shapley_pays_the_published_fractions(name: str) -> None:
    worth, told = GAMES[name]
    exact = enumerated(3, worth)
    assert exact == [F(value) for value in told]
    game = game_of(3, worth)
    assert close(fm.pay.shapley(game), exact)
    assert abs(fm.pay.balance(fm.pay.shapley(game), game)) < 1e-9 * float(
        worth[frozenset({0, 1, 2})]
    )


@pytest.mark.parametrize("name", NUCLEOLUS)
def test_the_nucleolus_pays_the_published_fractions(name: str) -> None:
    worth, told = NUCLEOLUS[name]
    found = fm.pay.nucleolus(game_of(3, worth))
    assert close(found, [F(value) for value in told], 1e-7)  # the linear programs' tolerance


def test_lemaires_core_holds_both_and_its_least_core_is_the_published_one() -> None:
    game = game_of(3, GAMES["Lemaire 1991"][0])
    assert fm.pay.core_gap(game) == pytest.approx(float(F("-13125/2") / 90000), rel=1e-7)
    for rule in (fm.pay.shapley, fm.pay.nucleolus, fm.pay.least_core):
        assert fm.pay.shortfall(rule(game), game) < 0
        assert fm.pay.alone_or_better(rule(game), game).all()
    assert fm.pay.shortfall(fm.pay.nucleolus(game), game) == pytest.approx(-6562.5, rel=1e-6)


def test_gloves_leave_the_shapley_value_outside_the_core() -> None:
    game = game_of(3, GAMES["gloves"][0])
    assert fm.pay.core_gap(game) == pytest.approx(0, abs=1e-9)
    assert fm.pay.shortfall(fm.pay.shapley(game), game) == pytest.approx(1 / 6)
    assert fm.pay.shortfall(fm.pay.nucleolus(game), game) == pytest.approx(0, abs=1e-7)
    assert fm.pay.marginal(game).tolist() == [1, 0, 0]


AND = of(2, v12="1")
OR = of(2, v1="1", v2="1", v12="1")


@pytest.mark.parametrize("k", range(1, 7))
@pytest.mark.parametrize(
    ("worth", "work"), [*itertools.product(("and", "or"), ("shared", "copied"))]
)
def test_closed_forms_of_a_player_under_k_names(worth: str, work: str, k: int) -> None:
    """Player 1 joins under k names; player 0 is its one partner."""
    game = fm.pay.under_names(game_of(2, {"and": AND, "or": OR}[worth]), 1, k, work)
    together = (worth == "and") == (work == "shared")
    wanted = F(k, k + 1) if together else F(1, k + 1)
    table = {s: F(float(v)) for s, v in zip(coalitions(k + 1), game.all().tolist(), strict=True)}
    exact = enumerated(k + 1, table)
    assert sum(exact[1:]) == wanted
    assert close(fm.pay.shapley(game), exact)
    assert float(fm.banzhaf(game).values[1:].sum()) == pytest.approx(k / 2**k)
    # What all others miss: each name is needed, or none is.
    needed = {"and": F(1), "or": F(0)}[worth] if k == 1 or work == "shared" else F(0)
    assert fm.pay.marginal(game)[1:].tolist() == [float(needed)] * k


@pytest.mark.parametrize("seed", range(5))
def test_marginal_pay_of_parts_under_diminishing_returns(seed: int) -> None:
    """In a game of coverage, parts together never earn more than the whole."""
    chance = torch.Generator().manual_seed(seed)
    covers = torch.rand(5, 12, generator=chance) < 0.4

    def covered(s: torch.Tensor) -> torch.Tensor:
        return ((s.double() @ covers.double()) > 0).sum(1).double()

    whole = fm.Game(4, lambda s: covered(torch.cat([s, s[:, 3:]], 1)))
    parts = fm.Game(5, covered)
    assert fm.pay.marginal(parts)[3:].sum() <= fm.pay.marginal(whole)[3]


def test_leaving_is_the_game_of_the_others(make_game) -> None:
    game = make_game(4, 0)
    others = fm.pay.without(game, 1)
    for s in fm.all_coalitions(3):
        with_gap = torch.tensor([[s[0], False, s[1], s[2]]])
        assert others(s[None]) == game(with_gap)
    same = fm.pay.under_names(game, 3, 1)
    torch.testing.assert_close(same.all(), game.all())


def test_negative_values_floored_and_carried() -> None:
    months = torch.tensor([[3.0, -2.0], [-1.0, 1.0], [2.0, 4.0]])
    assert fm.pay.floored(months).sum() == 10  # three more than the 7 that there are
    paid, owed = fm.pay.carried(months)
    assert paid.tolist() == [[3, 0], [0, 0], [1, 3]]
    assert owed.tolist() == [0, 0]
    assert paid.sum() == months.sum()
    assert fm.pay.carried(months[:2])[1].tolist() == [1, 1]
    assert fm.pay.by_score(torch.tensor([3.0, -2.0, 1.0]), 100).tolist() == [75, 0, 25]
    assert fm.pay.by_score([-1.0, -2.0], 3).tolist() == [1.5, 1.5]


def test_models_as_reward() -> None:
    game = fm.additive([4.0, 2.0, 1.0])
    assert fm.pay.rho_shapley(game, 1).tolist() == [7, 3.5, 1.75]
    assert fm.pay.rho_shapley(game, 0).tolist() == [7, 7, 7]
    assert fm.pay.largest_rho(game) == pytest.approx(math.log(1 / 7) / math.log(1 / 4))
    assert fm.pay.alone_or_better(fm.pay.rho_shapley(game, 1.39), game).all()
    assert fm.pay.alone_or_better(fm.pay.rho_shapley(game, 1.9), game).tolist() == [
        True,
        False,
        False,
    ]
    update = torch.tensor([1.0, -4.0, 2.0, 0.5])
    assert fm.pay.sparsified(update, 0.5).tolist() == [0, -4, 2, 0]
    assert fm.pay.sparsified(update, 0).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: fm.pay.balance([1.0], fm.additive([1.0, 2.0])), "pay: expected"),
        (lambda: fm.pay.by_score([math.nan]), "scores: "),
        (lambda: fm.pay.core_gap(fm.additive([-1.0, 0.0])), "game: expected a gain above 0"),
        (lambda: fm.pay.under_names(fm.additive([1.0]), 1, 2), "player: "),
        (lambda: fm.pay.under_names(fm.additive([1.0]), 0, 2, "halved"), "work: "),
        (lambda: fm.pay.rho_shapley(fm.additive([1.0]), -1), "rho: "),
        (lambda: fm.pay.carried([1.0]), "values: "),
    ],
)
def test_what_is_wrong_is_named(call, named: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{named}"):
        call()


COOPGAME = os.environ.get("FEDLAB_COOPGAME_PYTHON")


@pytest.mark.oracle
@pytest.mark.skipif(not COOPGAME, reason="FEDLAB_COOPGAME_PYTHON names no interpreter with it")
def test_coopgame_agrees_on_every_game(make_game) -> None:
    """coopgame-py 0.3.0. Its nucleolus is the best *rational* pay, and refuses an empty set of
    them; ours is its prenucleolus, which may pay less than alone."""
    games = [game_of(3, worth) for worth, _ in NUCLEOLUS.values()]
    games += [make_game(n, seed) for n in (3, 4, 5) for seed in range(4)]
    toy = of(3, v1="60", v2="60", v3="30", v12="60", v13="84", v23="84", v123="90")
    games.append(game_of(3, toy))
    tables = [(game.all() - game.all()[0]).tolist() for game in games]
    script = Path(__file__).parent / "foreign" / "pay.py"
    done = subprocess.run(
        [COOPGAME, script], input=json.dumps(tables), capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    for game, answer in zip(games, told, strict=True):
        largest = float(game.all().abs().max())
        assert fm.pay.shapley(game).tolist() == pytest.approx(answer["shapley"], abs=1e-9 * largest)
        own = fm.pay.nucleolus(game).tolist()
        assert own == pytest.approx(answer["nucleolus"], abs=1e-6 * largest)
        assert core_shortfall(game) == pytest.approx(answer["epsilon"], abs=1e-6 * largest)
    assert told[-1]["rational"] is None  # the control: 60, 60 and 30 alone, 90 together
    assert told[0]["rational"] == pytest.approx(fm.pay.nucleolus(games[0]).tolist(), rel=1e-6)
