"""The policy gradient by enumeration: three ways to one gradient, baselines, and Adam's steps."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import numbers
from torch import Tensor
from torch.distributions import Bernoulli

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server, copied
from fedlab_mini.methods.policy import PULL, Policy, log_probability

D = 3  # inputs of the policy


def a_policy(seed: int = 0, *, lr: float = 0.01, clamp: float = 0.0) -> Policy:
    """A small policy in float64."""
    policy = Policy(D, 1, (4, 3), lr, clamp)
    policy.start(seed, torch.zeros(1, dtype=torch.float64))
    return policy


def chances(logits: Tensor, selections: Tensor) -> Tensor:
    """p(s) [Q] as a product of omega or 1 - omega over the clients."""
    omega = 1 / (1 + torch.exp(-logits))
    return torch.where(selections.bool(), omega, 1 - omega).prod(1)


def all_selections(n: int) -> Tensor:
    """All 2^n selections, in float64."""
    return fm.all_coalitions(n).double()


# --- probabilities -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 5])
def test_log_probabilities_are_those_of_coin_flips(n):
    logits, selections = 3 * numbers(n, seed=n), all_selections(n)
    wanted = Bernoulli(logits=logits).log_prob(selections).sum(1)
    torch.testing.assert_close(log_probability(logits, selections), wanted)
    unlikely = torch.tensor([-800.0, 800.0, 0.0], dtype=torch.float64)
    found = log_probability(unlikely, torch.tensor([[1.0, 0, 1], [0, 1, 0]]))
    assert found.tolist() == pytest.approx([-1600 - math.log(2), -math.log(2)])


def test_rows_are_read_by_one_network(plain):
    policy, inputs = a_policy(1), numbers(6, D, seed=2)
    module = plain.module(policy.net, policy.phi.detach())
    torch.testing.assert_close(policy.logits(inputs), module(inputs)[:, 0])


# --- the gradient --------------------------------------------------------------------------------


def test_learning_from_all_selections_follows_the_enumerated_gradient():
    """``learn`` takes a mean over Q selections: advantages Q p(s) r(s) give the gradient of J."""
    n = 5
    policy, inputs, rewards = a_policy(3), numbers(n, D, seed=4), numbers(2**n, seed=5)
    selections, logits = all_selections(n), policy.logits(inputs)
    expected = chances(policy.logits(inputs), selections) @ rewards  # J(phi)
    exact = torch.autograd.grad(expected, policy.phi)[0]
    advantages = 2**n * chances(logits.detach(), selections) * rewards
    policy.learn(logits, selections, advantages)
    direction = -policy.first / (1 - 0.9)  # what Adam saw in its first step
    torch.testing.assert_close(direction, exact, rtol=1e-9, atol=1e-12)


def test_selections_are_drawn_as_often_as_their_chances_say():
    """20,000 as the strategy draws them: every one within 5 standard errors."""
    n, draws = 5, 20_000
    strategy = fm.FRCCE(probes=draws)
    x = torch.zeros(1, 2, dtype=torch.float64)
    server = Server(n, 2, fm.mlp(2, 2), (x, torch.tensor([0])), 3)
    logits = a_policy(6).logits(numbers(n, D, seed=7)).detach()
    omega = logits.sigmoid()
    selections = strategy.draw(server, omega, 1)
    code = (selections @ 2.0 ** torch.arange(n, dtype=torch.float64)).long()

    wanted = chances(logits, all_selections(n))
    count = torch.bincount(code, minlength=2**n)
    z = (count - draws * wanted) / (draws * wanted * (1 - wanted)).sqrt()
    assert float(z.abs().max()) < 5


# --- baselines -----------------------------------------------------------------------------------


class Enumerator:
    """One round of a strategy, replayed with any selections; nothing is learned."""

    def __init__(self, strategy: fm.FRCCE, clients: int, monkeypatch: pytest.MonkeyPatch):
        net = fm.logistic(2, 2)
        x, y = numbers(12, 2, seed=1), torch.arange(12) % 2
        self.samples, self.strategy = (x, y), strategy
        self.server = Server(clients, 2, net, (x, y), 0)
        self.state = strategy.init(self.server)
        self.theta, updates = numbers(net.P, seed=2), 0.3 * numbers(clients, net.P, seed=3)
        ids, sizes = torch.arange(clients), torch.full((clients,), 5)
        self.round = Round(1, self.theta, ids, sizes, updates)
        self.logits = torch.zeros(clients)

        def note(policy, logits, selections, advantages):
            self.logits, self.advantages = logits.detach(), advantages

        monkeypatch.setattr(Policy, "learn", note)

    def advantages_of(self, selections: Tensor, monkeypatch: pytest.MonkeyPatch) -> Tensor:
        """What the strategy makes of these selections [Q, m]: advantages [Q]."""
        # In its dictionary, as a strategy takes no other attributes.
        own = vars(self.strategy)
        monkeypatch.setitem(own, "draw", lambda server, omega, *_: selections.to(omega))
        self.strategy.step(self.server, copied(self.state), self.round)
        return self.advantages

    def losses(self, selections: Tensor) -> Tensor:
        """Loss of the mean of each selection's updates, by PyTorch; the empty one has the old."""
        found = []
        for s in selections.bool():
            update = self.round.updates[s].mean(0) if s.any() else 0 * self.theta
            parts = self.theta + update
            scores = self.samples[0] @ parts[:4].view(2, 2).T + parts[4:]
            found.append(torch.nn.functional.cross_entropy(scores, self.samples[1]))
        return torch.stack(found)


@pytest.mark.parametrize("baseline", ["aggregate", "previous"])
def test_a_reward_is_the_baseline_minus_the_loss(monkeypatch, baseline):
    """What it learns from a selection is baseline - loss; the empty one teaches nothing."""
    bench = Enumerator(fm.FRCCE(baseline=baseline, limit=None), 3, monkeypatch)
    selections = all_selections(3)
    found = torch.cat([bench.advantages_of(s[None], monkeypatch) for s in selections])
    losses = bench.losses(selections)
    start = losses[-1] if baseline == "aggregate" else losses[0]
    rewards = (start - losses) * selections.any(1)
    torch.testing.assert_close(found, rewards, rtol=0, atol=1e-8)


def test_two_probes_climb_the_expected_reward_of_selections_that_choose_somebody(monkeypatch):
    """Over all 64 pairs: minus the gradient of E[loss | not empty], times P(not empty)^2.

    A pair with an empty selection teaches nothing: the other one has nothing to compare with.
    """
    bench = Enumerator(fm.FRCCE(probes=2, baseline="probes", limit=None), 3, monkeypatch)
    selections, total = all_selections(3), 0
    pairs = [(i, j) for i in range(8) for j in range(8)]
    found = [bench.advantages_of(selections[[i, j]], monkeypatch) for i, j in pairs]
    logits = bench.logits.clone().requires_grad_()
    logp, p = log_probability(logits, selections), chances(bench.logits, selections)
    for (i, j), advantage in zip(pairs, found, strict=True):
        total = total + p[i] * p[j] * (advantage[0] * logp[i] + advantage[1] * logp[j]) / 2
    estimate = torch.autograd.grad(total, logits)[0]
    some, losses = selections.any(1), bench.losses(selections)
    p = chances(logits, selections)
    expected = (p * losses)[some].sum() / p[some].sum()
    exact = -torch.autograd.grad(expected, logits)[0] * p[some].sum().detach() ** 2
    assert float(exact.abs().max()) > 1e-4
    torch.testing.assert_close(estimate, exact, rtol=0, atol=1e-10)


# --- Adam ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("clamp", [0.0, 0.1])
@pytest.mark.parametrize(("shift", "lr"), [(-4.0, 0.05), (0.0, 1e-3), (4.0, 0.05)])
def test_learning_is_adam_on_the_sampled_objective(plain, clamp, shift, lr):
    """Five steps; where the mean of omega leaves [clamp, 1 - clamp] it is drawn back, PULL-fold."""
    policy = a_policy(4, lr=lr, clamp=clamp)
    policy.phi.data[-1] += shift  # the bias of the output
    module = plain.module(policy.net, policy.phi.detach())
    adam = torch.optim.Adam(module.parameters(), lr=lr, maximize=True)
    for t in range(5):
        inputs, advantages = numbers(4, D, seed=t), numbers(6, seed=20 + t)
        selections = (numbers(6, 4, seed=40 + t) > 0).double()
        policy.learn(policy.logits(inputs), selections, advantages)

        omega = torch.sigmoid(module(inputs)[:, 0])
        objective = (advantages * Bernoulli(omega).log_prob(selections).sum(1)).mean()
        if clamp:
            assert t > 0 or (0.1 < float(omega.detach().mean()) < 0.9) == (shift == 0)
            outside = torch.relu(clamp - omega.mean()) + torch.relu(omega.mean() - (1 - clamp))
            objective = objective - PULL * outside
        adam.zero_grad()
        objective.backward()
        adam.step()
        wanted = torch.nn.utils.parameters_to_vector(module.parameters()).detach()
        torch.testing.assert_close(policy.phi.detach(), wanted, rtol=0, atol=1e-10)
