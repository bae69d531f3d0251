"""Pay: from scores to money and to models, and what each rule promises. Chapter 14 derives it.

A rule takes a game, or one score per player, and gives the pay of each player [n] in the unit of
the game's worth. A check takes a pay and the game, and says what is left of a promise. No rule
keeps all promises. Below: games. Beside: gate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from .games.game import Game, all_coalitions
from .gate import games as _games
from .gate.gated import documented_by, gated
from .parse.checks import choice, in_order, instance, number, reals, whole

__all__ = ["alone_or_better", "balance", "by_score", "carried", "core_gap", "floored"]
__all__ += ["largest_rho", "least_core", "marginal", "nucleolus", "rho_shapley", "shapley"]
__all__ += ["shortfall", "sparsified", "under_names", "without"]

Check = TypeVar("Check", bound=Callable[..., object])

HAIR = 1e-9  # of the largest worth: smaller differences are rounding

# --- rules ---------------------------------------------------------------------------------------


def shapley(game: Game) -> Tensor:
    """The Shapley value as pay [n]: it pays out the gain v(N) - v(empty), no more and no less.

    source  [Shapley 1953]; chapters 2 and 14
    """
    return _games.exact(game).values


def marginal(game: Game) -> Tensor:
    """What each player adds to all others, v(N) - v(N without i), as pay [n].

    The sum is not the gain: where players replace each other, less is paid out, where they need
    each other, more                                                    source  [chapters 3 and 14]
    """
    return _games.leave_one_out(game).values


def nucleolus(game: Game) -> Tensor:
    """The pay [n] whose least satisfied coalitions are as satisfied as they can be.

    raises  ValueError for more than 12 players             source  [Schmeidler 1969; chapter 14]
    """
    return _games.nucleolus(game).values


def least_core(game: Game) -> Tensor:
    """The shortest pay [n] in the least core, see ``core_gap``.

    raises  ValueError for more than 12 players
    """
    return _games.least_core(game).values


def by_score(scores: Tensor, pot: float = 1.0) -> Tensor:
    """The pot [n] in proportion to the scores' positive parts; equal shares if all become 0.

    scores  [n], such as sizes, or values of a game; a negative one counts as 0
    """
    positive = scores.double().clamp(min=0)
    total = positive.sum()
    return pot * (positive / total if total > 0 else torch.full_like(positive, 1 / len(positive)))


def floored(values: Tensor) -> Tensor:
    """Negative values cut to 0, the others paid in full: this pays more than there is.

    values  [n], or [T, n] with a row per month; returns the same shape
    """
    return values.double().clamp(min=0)


def carried(values: Tensor) -> tuple[Tensor, Tensor]:
    """Monthly pay where a negative value is a debt, which later months pay back first.

    values  [T, n]; returns pay [T, n], at least 0, and what each still owes after the last month
    """
    paid = torch.zeros_like(values, dtype=torch.float64)
    debt = torch.zeros(values.shape[1], dtype=torch.float64)
    for month, value in enumerate(values.double()):
        due = value - debt
        paid[month], debt = due.clamp(min=0), (-due).clamp(min=0)
    return paid, debt


def rho_shapley(game: Game, rho: float = 1.0) -> Tensor:
    """Models as reward: the worth [n] above v(empty) of the model that each player gets.

    (phi_i / max phi)^rho (v(N) - v(empty)); a value of at most 0 earns the untrained model. All may
    get v(N) at once, because a model can be copied. With rho = 0 every positive value earns all
    source  [Sim et al. 2020, Eq. 1; chapter 14]
    """
    phi, gain = shapley(game), _gain(game)
    share = phi.clamp(min=0) / phi.max().clamp(min=1e-300)
    return torch.where(share > 0, share.pow(rho) * gain, 0.0)


def largest_rho(game: Game) -> float:
    """The largest rho for which each player with a positive value gets at least what it has alone.

    Infinite if rho does not matter; 0 if no rho above 0 suffices
    """
    phi, gain, own = shapley(game), _gain(game), _games.alone(game).values
    bounds = [
        math.log(have / gain) / math.log(share)
        for share, have in zip((phi / phi.max()).tolist(), own.tolist(), strict=True)
        if 0 < share < 1 and 0 < have < gain
    ]
    enough = bool((own[phi > 0] <= gain + _hair(game)).all())
    return min(bounds, default=math.inf) if enough else 0.0


def sparsified(update: Tensor, share: float) -> Tensor:
    """The update [P] with only this share of its entries, the largest in size; the others are 0.

    source  [Xu et al. 2021, section 3.3; chapter 14]
    """
    kept = math.ceil(share * len(update))
    sparse = torch.zeros_like(update)
    largest = update.abs().topk(kept).indices
    sparse[largest] = update[largest]
    return sparse


# --- promises ------------------------------------------------------------------------------------


def balance(pay: Tensor, game: Game) -> float:
    """What is paid out beyond the gain: 0 if the pay balances, above 0 if somebody must add."""
    return float(pay.sum()) - _gain(game)


def alone_or_better(pay: Tensor, game: Game) -> Tensor:
    """Individual rationality [n]: does each player get at least what it is worth alone?"""
    return pay >= _games.alone(game).values - _hair(game)


def shortfall(pay: Tensor, game: Game) -> float:
    """The most that a coalition, smaller than all, could have more by itself: max v(S) - pay(S).

    At most 0 if and only if no coalition has a reason to leave
    """
    if game.n == 1:
        return 0.0
    worth, members = game.all(), all_coalitions(game.n).double()
    return float((worth - worth[0] - members @ pay)[1:-1].max())


def core_gap(game: Game) -> float:
    """The least core's epsilon as a share of the gain; above 0 if and only if the core is empty.

    However the gain is divided, some coalition falls short by at least this much
    raises  ValueError for more than 12 players, or if the gain is not positive
    """
    gain = _gain(game)
    if gain <= 0:
        raise ValueError(f"game: expected a gain above 0 to divide, got {gain:g}")
    return _games.core_shortfall(game) / gain


# --- what a player can do ------------------------------------------------------------------------


def under_names(game: Game, player: int, names: int, work: str = "shared") -> Game:
    """The game in which a player joins under several names; they come last, [n - 1 + names].

    work  "shared": all names together do what the player did, fewer do nothing;
          "copied": each name alone does what the player did, more add nothing
    """
    player = whole("player", player, 0, game.n - 1)
    return Game(game.n - 1 + names, _Named(game, player, names, work), name=f"{names} names")


def without(game: Game, player: int) -> Game:
    """The game of the others [n - 1], if a player leaves."""
    player = whole("player", player, 0, game.n - 1)
    return Game(game.n - 1, _Named(game, player, 0, "shared"), name=f"without {player}")


@dataclass(frozen=True)
class _Named:
    """The worth of a coalition in which the last columns are names of one player."""

    game: Game
    player: int
    names: int
    work: str

    def __call__(self, coalitions: Tensor) -> Tensor:
        others, own = coalitions.split([self.game.n - 1, self.names], dim=1)
        if self.names == 0:
            present = torch.zeros(len(own), dtype=torch.bool)
        else:
            present = own.all(1) if self.work == "shared" else own.any(1)
        before, behind = others[:, : self.player], others[:, self.player :]
        return self.game(torch.cat([before, present[:, None], behind], dim=1))


def _gain(game: Game) -> float:
    ends = torch.tensor([[False], [True]]).expand(2, game.n).contiguous()
    nothing, everything = game(ends).tolist()
    return everything - nothing


def _hair(game: Game) -> float:
    return HAIR * float(game.all().abs().max())


# --- the gate: what people bring -----------------------------------------------------------------


def _promise(check: Check) -> Check:
    """A check whose pay is parsed: one number for each player of a game."""

    @documented_by(check)
    def public(pay: Tensor, game: Game) -> object:
        instance("game", game, Game, "a Game")
        return check(reals("pay", in_order("pay", pay), [game.n], dtype=torch.float64).cpu(), game)

    return public  # type: ignore[return-value]


def _scores(name: str, value: object) -> Tensor:
    return reals(name, in_order(name, value), ["n"], dtype=torch.float64).cpu()


def _months(name: str, value: object) -> Tensor:
    return reals(name, value, ["T", "n"], dtype=torch.float64).cpu()


def _values_of(name: str, value: object) -> Tensor:
    several = getattr(value, "ndim", 1) == 2
    return _months(name, value) if several else _scores(name, value)


_player, _names = partial(whole, low=0), partial(whole, low=1)
_work = partial(choice, accepted=("shared", "copied"))
balance, shortfall = _promise(balance), _promise(shortfall)
alone_or_better = _promise(alone_or_better)
by_score = gated(by_score, scores=_scores, pot=number)
floored, carried = gated(floored, values=_values_of), gated(carried, values=_months)
rho_shapley = gated(rho_shapley, rho=partial(number, low=0))
largest_rho, core_gap = gated(largest_rho), gated(core_gap)
sparsified = gated(
    sparsified, update=partial(reals, shape=["P"]), share=partial(number, low=0, high=1)
)
under_names = gated(under_names, player=_player, names=_names, work=_work)
without = gated(without, player=_player)
