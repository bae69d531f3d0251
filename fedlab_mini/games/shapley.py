"""Shapley estimators: ``Game -> Estimate(values, stderr, evaluations)``.

Chapter 2 derives each one. All of them ask the game for many coalitions at a time; what they count
is the distinct coalitions they needed, as if nothing had been evaluated before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from .. import checks
from ..engine.rounds import frame
from ..streams import stream
from .game import Game, all_coalitions, decode, encode

if TYPE_CHECKING:
    import pandas

CHUNK = 1 << 14  # coalitions asked for at a time


@dataclass(frozen=True)
class Estimate:
    """A value for every player.

    values, stderr [n]  the estimate and its standard error (0 for exact methods, NaN if unknown)
    evaluations         distinct coalitions that were needed
    client_epochs       what training them cost (0 for games without training)
    method              which estimator
    """

    values: Tensor
    stderr: Tensor
    evaluations: int
    client_epochs: float = 0.0
    method: str = ""

    def __repr__(self) -> str:
        pairs = zip(self.values.tolist(), self.stderr.tolist(), strict=True)
        text = ", ".join(f"{v:.4g}" if s == 0 else f"{v:.4g}±{s:.2g}" for v, s in pairs)
        return f"Estimate({self.method}: [{text}], {self.evaluations} evaluations)"

    def to_frame(self) -> pandas.DataFrame:
        """A pandas table: a row for every player 0..n-1, columns value and stderr."""
        return frame("player", value=self.values, stderr=self.stderr)


def _estimate(method: str, game: Game, run: Callable[[], tuple[Tensor, Tensor]]) -> Estimate:
    checks.instance("game", game, Game, "a Game")
    with game.tally() as codes:
        values, stderr = run()
    members = sum(int(code).bit_count() for code in codes)
    return Estimate(values, stderr, len(codes), members * game.client_epochs, method)


def exact(game: Game, *, by: str = "subsets") -> Estimate:
    """The Shapley value itself.

    by      "subsets": 2^n evaluations and no more (n <= 24); "permutations": the same value from
            all n! orders, to check the first (n <= 9)
    raises  ValueError if n is too large: use ``permutation`` or ``kernel`` then
    source  [Shapley 1953]; chapter 2
    """
    most = 24 if checks.choice("by", by, ("subsets", "permutations")) == "subsets" else 9
    if isinstance(game, Game) and game.n > most:
        raise ValueError(
            f"game: exact values by {by} need n <= {most}, got {game.n}; "
            "use permutation() or kernel()"
        )

    def subsets() -> tuple[Tensor, Tensor]:
        n = game.n
        return semivalue(game, np.array([1 / (n * math.comb(n - 1, s)) for s in range(n)]))

    def permutations() -> tuple[Tensor, Tensor]:
        total, count = torch.zeros(game.n, dtype=torch.float64), math.factorial(game.n)
        orders = itertools.permutations(range(game.n))
        while part := list(itertools.islice(orders, CHUNK)):
            total += _marginals(game, torch.tensor(part)).sum(0)
        return total / count, torch.zeros(game.n, dtype=torch.float64)

    return _estimate(f"exact by {by}", game, subsets if by == "subsets" else permutations)


def semivalue(game: Game, weight: np.ndarray) -> tuple[Tensor, Tensor]:
    """Marginal contributions [n] weighed by how many joined before, ``weight`` [n]; no errors."""
    n, v = game.n, game.all().numpy()
    size = np.bitwise_count(np.arange(1 << n, dtype=np.uint32))
    phi = []
    for i in range(n):
        pairs = v.reshape(-1, 2, 1 << i)  # [.., without / with i, ..]
        rest = size.reshape(-1, 2, 1 << i)[:, 0]  # |S| of the coalitions without i
        phi.append(float((weight[rest] * (pairs[:, 1] - pairs[:, 0])).sum()))
    return torch.tensor(phi, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)


def permutation(game: Game, samples: int, seed: int = 0, *, antithetic: bool = False) -> Estimate:
    """Mean marginal contribution over ``samples`` random orders of the players.

    antithetic  draw pairs of an order and its reverse (``samples`` even): exact after one pair when
                players interact in pairs only
    returns     unbiased values; standard errors from the spread of orders (of pairs)
    source      [Castro et al. 2009; Mitchell et al. 2022]; chapter 2
    """
    pairs = checks.flag("antithetic", antithetic)
    samples = checks.whole("samples", samples, 2 if pairs else 1)
    if antithetic and samples % 2:
        raise ValueError(f"samples: antithetic pairs need an even number, got {samples}")

    def run() -> tuple[Tensor, Tensor]:
        orders = _orders(game.n, samples // 2 if antithetic else samples, stream(seed, "orders"))
        found = _all_marginals(game, orders)
        if antithetic:
            found = (found + _all_marginals(game, orders.flip(1))) / 2
        return found.mean(0), _stderr(found)

    return _estimate("antithetic permutations" if antithetic else "permutations", game, run)


def truncated(
    game: Game, samples: int, tolerance: float = 0.0, seed: int = 0, *, burn_in: int = 0
) -> Estimate:
    """Truncated Monte Carlo: leave an order once |v(N) - v(S)| <= tolerance; the rest adds 0.

    tolerance  in units of v; 0 truncates nothing. With ``burn_in``, a share of the largest
               |v(N) - v(S)| on the orders of the burn-in
    burn_in    so many first orders are followed to their end, and later ones are left only at
               places from which on all of these stayed within the tolerance. Without it a worth
               that passes v(N) on its way is taken for one that has settled: values are biased, and
               their standard errors do not tell (a game whose gain is 0: all values 0)
    source     [Ghorbani & Zou 2019, Algorithm 1], which has no burn-in; chapter 3
    """
    samples, options = _truncation(samples, tolerance, burn_in)

    def run() -> tuple[Tensor, Tensor]:
        orders = _orders(game.n, samples, stream(seed, "orders"))
        found = _truncated_marginals(game, orders, *options)
        return found.mean(0), _stderr(found)

    return _estimate("truncated permutations", game, run)


def guided(
    game: Game, samples: int, tolerance: float = 0.0, seed: int = 0, *, burn_in: int = 0
) -> Estimate:
    """Random orders in sweeps of n: each player leads once a sweep; truncated as in ``truncated``.

    samples    number of orders (a last, incomplete sweep is allowed)
    source     [Liu et al. 2022, GTG-Shapley]; chapter 2
    """
    samples, options = _truncation(samples, tolerance, burn_in)

    def run() -> tuple[Tensor, Tensor]:
        n, generator = game.n, stream(seed, "guided orders")
        sweeps = -(-samples // n)
        leaders = _orders(n, sweeps, generator).flatten()[:samples]  # each player once a sweep
        orders = _orders(n, samples, generator)
        rest = orders[orders != leaders[:, None]].view(samples, n - 1)
        found = _truncated_marginals(game, torch.cat([leaders[:, None], rest], 1), *options)
        whole = samples // n
        if whole >= 2:
            return found.mean(0), _stderr(found[: whole * n].view(whole, n, n).mean(1))
        return found.mean(0), torch.full((n,), torch.nan, dtype=torch.float64)

    return _estimate("guided permutations", game, run)


def kernel(game: Game, budget: int, seed: int = 0) -> Estimate:
    """Paired KernelSHAP: weighted least squares on sampled coalitions and their complements.

    budget   the most distinct coalitions to evaluate, v(empty) and v(N) included (at least 2 n);
             2^n or more: all of them, and the exact value
    returns  values that sum to v(N) - v(empty); standard errors by the sandwich formula over pairs
    source   [Lundberg & Lee 2017; Covert & Lee 2021]; chapter 2
    """
    budget = checks.whole("budget", budget, 4)

    def run() -> tuple[Tensor, Tensor]:
        n = game.n
        if n < 3 or budget >= 1 << min(n, 62):
            return exact(game).values, torch.zeros(n, dtype=torch.float64)
        if budget < 2 * n:
            raise ValueError(f"budget: expected at least 2 n = {2 * n} evaluations, got {budget}")
        sets, times = _paired_sample(n, (budget - 2) // 2, stream(seed, "coalitions"))
        ends = game(torch.tensor([[False] * n, [True] * n]))
        worth = game(torch.cat([sets, ~sets])).view(2, -1) - ends[0]  # [2, pairs]
        return _least_squares(sets.double(), worth, times, float(ends[1] - ends[0]))

    return _estimate("paired kernel", game, run)


def leave_one_out(game: Game) -> Estimate:
    """v(N) - v(N without i): n + 1 evaluations; its sum is not the gain."""

    def run() -> tuple[Tensor, Tensor]:
        n = game.n
        v = game(torch.cat([torch.ones(1, n, dtype=torch.bool), ~torch.eye(n, dtype=torch.bool)]))
        return v[0] - v[1:], torch.zeros(n, dtype=torch.float64)

    return _estimate("leave one out", game, run)


def alone(game: Game) -> Estimate:
    """v({i}) - v(empty): n + 1 evaluations; its sum is not the gain."""

    def run() -> tuple[Tensor, Tensor]:
        n = game.n
        v = game(torch.cat([torch.zeros(1, n, dtype=torch.bool), torch.eye(n, dtype=torch.bool)]))
        return v[1:] - v[0], torch.zeros(n, dtype=torch.float64)

    return _estimate("alone", game, run)


def banzhaf(game: Game, samples: int | None = None, seed: int = 0) -> Estimate:
    """Mean marginal contribution over all coalitions, each equally likely.

    samples  None: exact, 2^n evaluations; else that many uniform coalitions, each used for every
             player (maximum sample reuse)
    source   [Banzhaf 1965; Wang & Jia 2023]; chapter 2
    """
    if samples is not None:
        samples = checks.whole("samples", samples, 2)
    seed = checks.whole("seed", seed, None)

    def run() -> tuple[Tensor, Tensor]:
        n = game.n
        if samples is None:
            sets = all_coalitions(n)
        else:
            sets = (
                torch.rand(samples, n, generator=stream(seed, "banzhaf"), dtype=torch.float64) < 0.5
            )
        v, member = game(sets), sets.double()
        inside, outside = member.sum(0), (1 - member).sum(0)
        with_i = v @ member / inside.clamp(min=1)
        without = v @ (1 - member) / outside.clamp(min=1)
        if samples is None:
            return with_i - without, torch.zeros(n, dtype=torch.float64)
        spread = (member * (v[:, None] - with_i) ** 2).sum(0) / inside / (inside - 1)
        spread += ((1 - member) * (v[:, None] - without) ** 2).sum(0) / outside / (outside - 1)
        seen = (inside > 0) & (outside > 0)  # else nothing is known: 0, with an error of NaN
        return (with_i - without).where(seen, 0), spread.sqrt()

    return _estimate("Banzhaf", game, run)


def _truncation(samples: int, tolerance: float, burn_in: int) -> tuple[int, tuple[float, int]]:
    found = checks.number("tolerance", tolerance, 0), checks.whole("burn_in", burn_in, 0)
    return checks.whole("samples", samples), found


def _orders(n: int, samples: int, generator: torch.Generator) -> Tensor:
    """``samples`` uniformly random orders of n players: [samples, n]."""
    return torch.rand(samples, n, generator=generator, dtype=torch.float64).argsort(1)


def _prefixes(orders: Tensor) -> Tensor:
    """The coalitions an order passes through, empty to full: [samples, n + 1, n] bool."""
    rank = orders.argsort(1)  # place of player i in the order
    return rank[:, None, :] < torch.arange(orders.shape[1] + 1)[None, :, None]


def _marginals(game: Game, orders: Tensor) -> Tensor:
    """Marginal contribution of every player in every order: [samples, n]."""
    samples, n = orders.shape
    v = game(_prefixes(orders).flatten(0, 1)).view(samples, n + 1)
    return torch.zeros(samples, n, dtype=torch.float64).scatter_(1, orders, v.diff(dim=1))


def _all_marginals(game: Game, orders: Tensor) -> Tensor:
    many = max(1, CHUNK // (game.n + 1))
    return torch.cat([_marginals(game, part) for part in orders.split(many)])


def _truncated_marginals(game: Game, orders: Tensor, tolerance: float, burn_in: int) -> Tensor:
    if tolerance == 0 or burn_in >= len(orders):
        return _all_marginals(game, orders)
    head, orders = orders[:burn_in], orders[burn_in:]
    done, settled = torch.zeros(0, game.n, dtype=torch.float64), 0
    if burn_in:
        done = _all_marginals(game, head)
        to_come = done.gather(1, head).flip(1).cumsum(1).flip(1)  # v(N) - v(S) at every place
        away = to_come.abs().amax(0)
        tolerance *= float(away.max())
        settled = int(((away > tolerance) * torch.arange(1, game.n + 1)).max())
    samples, n = orders.shape
    ends = game(torch.tensor([[False] * n, [True] * n]))
    before = ends[0].expand(samples).clone()
    found = torch.zeros(samples, n, dtype=torch.float64)
    rank = orders.argsort(1)
    alive = torch.ones(samples, dtype=torch.bool)  # orders still worth following
    for place in range(n):
        alive &= ((ends[1] - before).abs() > tolerance) | (place < settled)
        rows = alive.nonzero().flatten()
        if len(rows) == 0:
            break
        now = game(rank[rows] <= place)
        found[rows, orders[rows, place]] = now - before[rows]
        before[rows] = now
    return torch.cat([done, found])


def _stderr(samples: Tensor) -> Tensor:
    """Standard error of the mean over rows; NaN for a single row."""
    if len(samples) < 2:
        return torch.full_like(samples[0], torch.nan)
    return samples.std(0) / math.sqrt(len(samples))


def _paired_sample(n: int, pairs: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Distinct pairs {S, complement} by the Shapley kernel, and how often each was drawn."""
    sizes = torch.arange(1, n)
    chance = 1.0 / (sizes * (n - sizes)).double()
    seen: dict[int, int] = {}
    for _ in range(1000):  # gives up on pairs that are hardly ever drawn
        size = sizes[torch.multinomial(chance, 2 * pairs, replacement=True, generator=generator)]
        rank = (
            torch.rand(2 * pairs, n, generator=generator, dtype=torch.float64).argsort(1).argsort(1)
        )
        sets = rank < size[:, None]
        sets = torch.where(sets[:, :1], sets, ~sets)  # of the two, the one with player 0
        for code in encode(sets).tolist():
            if code not in seen and len(seen) == pairs:
                break
            seen[code] = seen.get(code, 0) + 1
        else:
            continue
        break
    codes = np.array(list(seen), dtype=np.int64 if n <= 62 else object)
    return decode(codes, n), torch.tensor(list(seen.values()), dtype=torch.float64)


def _least_squares(
    sets: Tensor, worth: Tensor, times: Tensor, gain: float
) -> tuple[Tensor, Tensor]:
    """Fit worth(S) = sum of phi over S with sum(phi) = gain; sandwich errors clustered by pair.

    sets [p, n], worth [2, p] of the sets and their complements, times [p] how often each was drawn
    """
    n, last = sets.shape[1], sets.shape[1] - 1
    z = torch.stack([sets, 1 - sets])  # [2, p, n]
    free = z[..., :last] - z[..., last:]  # phi_n = gain - the others
    target = worth - z[..., last] * gain
    bread = torch.einsum("p,cpi,cpj->ij", times, free, free)
    inverse = torch.linalg.pinv(bread, hermitian=True)
    beta = inverse @ torch.einsum("p,cpi,cp->i", times, free, target)
    residual = target - free @ beta
    pull = torch.einsum("cpi,cp->pi", free, residual) @ inverse  # one pair's influence [p, n-1]
    cover = torch.einsum("p,pi,pj->ij", times, pull, pull)
    stderr = torch.cat([cover.diagonal(), cover.sum()[None]]).clamp(min=0).sqrt()
    count = float(times.sum())
    if len(sets) < n or torch.linalg.matrix_rank(bread, hermitian=True) < last:
        stderr = torch.full_like(stderr, torch.nan)  # nothing is left over to judge the fit by
    stderr = stderr * math.sqrt(count / max(count - n + 1, 1.0))
    return torch.cat([beta, (gain - beta.sum())[None]]), stderr
