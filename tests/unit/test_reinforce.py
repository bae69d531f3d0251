"""F-RCCE, FLDVE and removal: rewards by hand, baselines, what is read, and what is deployed."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import helpers
import pytest
import torch
from helpers import Played
from torch import Tensor, nn

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.methods.policy import scaled
from fedlab_mini.methods.reinforce import others, shortened

LEARNED = (fm.FRCCE, fm.FLDVE, fm.DVRLRemoval)
LN2 = math.log(2)


def a_server(clients: int, net: fm.Model | None = None, dtype=torch.float64) -> Server:
    """A server whose one sample is x = 1 of class 0."""
    net = fm.logistic(1, 2) if net is None else net
    x = torch.ones(1, net.layers[0][0] if net.layers else 6, dtype=dtype)
    return Server(clients, 2, net, (x, torch.tensor([0])), 0)


def started(strategy: fm.FRCCE, clients: int, net=None, dtype=torch.float64) -> Played:
    """The strategy before round 1."""
    return Played(strategy, a_server(clients, net, dtype))


def push(*sizes: float, dtype=torch.float64) -> Tensor:
    """Updates [m, 4] of ``logistic(1, 2)``: from theta = 0, a gives the loss log(1 + exp(-2 a))."""
    return torch.tensor([[a, -a, 0.0, 0.0] for a in sizes], dtype=dtype)


def loss_of(a: float) -> float:
    """Loss of the model (a, -a) on the sample x = 1 of class 0: scores a and -a."""
    return math.log(1 + math.exp(-2 * a))


def a_round(updates: Tensor, clients=None, t=1, sizes=10, theta: float = 0.0) -> Round:
    """A round with the given updates; theta is (theta, -theta, 0, 0), or zeros."""
    start = torch.zeros(updates.shape[1])
    start[:2] = torch.tensor([theta, -theta])
    return helpers.a_round(updates, sizes, clients, t=t, theta=start, dtype=updates.dtype)


class Bench(Played):
    """A strategy whose draws and logits are prescribed, and whose lessons are written down."""

    def __init__(self, strategy: fm.FRCCE, server: Server, learn: bool):
        super().__init__(strategy, server)
        self.lessons, policy_of = [], strategy.policy

        def policy(state):
            policy = policy_of(state)
            teach = policy.learn

            def note(logits, selections, advantages):
                self.lessons.append((logits.detach(), selections, advantages.double()))
                if learn:
                    teach(logits, selections, advantages)

            policy.learn = note
            return policy

        # In its dictionary, here and below, as a strategy takes no other attributes.
        vars(strategy)["policy"] = policy

    def draw(self, *selections: list[int]) -> Bench:
        """From now on these are the selections of every round."""
        table = torch.tensor(selections)
        vars(self.strategy)["draw"] = lambda server, omega, *_: table.to(omega)
        return self

    def omega(self, *omega: float) -> Bench:
        """From now on the policy says so."""
        said = torch.tensor(omega, dtype=torch.float64).logit()
        vars(self.strategy)["logits"] = lambda *_: said
        return self

    def advantages(self, round: Round) -> list[float]:
        """Play the round; reward minus baseline of every selection."""
        self.step(round)
        return self.lessons[-1][2].tolist()


def bench(strategy: fm.FRCCE, clients: int, *, learn: bool = False) -> Bench:
    """A strategy before round 1, on the bench."""
    return Bench(strategy, a_server(clients), learn)


# --- rewards by hand -----------------------------------------------------------------------------


def test_the_toy_is_as_its_formula_says():
    net = fm.logistic(1, 2)
    x, y = torch.ones(1, 1, dtype=torch.float64), torch.tensor([0])
    found = net.evaluate(push(0.5, -0.5, 0), x, y, "loss")
    assert found.tolist() == pytest.approx([loss_of(0.5), loss_of(-0.5), LN2], abs=1e-12)


@pytest.mark.parametrize("sign", ["gain", "printed"])
def test_rewards_against_everybody_by_hand(sign):
    """Everybody's mean of (.5, -.5) is 0 with loss ln 2; alone they have .3133 and 1.3133."""
    b = bench(fm.FRCCE(probes=4, baseline="aggregate", sign=sign), 2)
    b.draw([1, 0], [0, 1], [1, 1], [0, 0])
    found = b.advantages(a_round(push(0.5, -0.5)))
    wanted = [0.693147 - 0.313262, 0.693147 - 1.313262, 0.0, 0.0]
    wanted = wanted if sign == "gain" else [-w for w in wanted]
    assert found == pytest.approx(wanted, abs=1e-6)


def test_rewards_against_the_loss_before_by_hand():
    """theta = (.2, -.2): loss before log(1 + exp(-.4)); selections add .5, -.5, 0."""
    b = bench(fm.FRCCE(probes=4, baseline="previous"), 2)
    b.draw([1, 0], [0, 1], [1, 1], [0, 0])
    before = 0.513015
    assert before == pytest.approx(loss_of(0.2), abs=1e-6)
    wanted = [before - loss_of(0.7), before - loss_of(-0.3), 0, 0]
    assert b.advantages(a_round(push(0.5, -0.5), theta=0.2)) == pytest.approx(wanted, abs=1e-6)


def test_rewards_against_the_other_probes_by_hand():
    """Losses of the selections a, b and both: each against the mean of the two others."""
    b = bench(fm.FRCCE(probes=3, baseline="probes"), 2)
    b.draw([1, 0], [0, 1], [1, 1])
    la, lb, both = 0.313262, 1.313262, 0.693147
    wanted = [(lb + both) / 2 - la, (la + both) / 2 - lb, (la + lb) / 2 - both]
    assert b.advantages(a_round(push(0.5, -0.5))) == pytest.approx(wanted, abs=1e-6)


def test_an_empty_probe_is_no_baseline_of_the_others():
    b = bench(fm.FRCCE(probes=3, baseline="probes"), 2)
    b.draw([1, 0], [0, 0], [0, 1])
    la, lb = 0.313262, 1.313262
    wanted = [lb - la, 0, la - lb]
    assert b.advantages(a_round(push(0.5, -0.5))) == pytest.approx(wanted, abs=1e-6)
    b.draw([0, 0], [0, 1], [0, 0])  # nobody to compare with
    assert b.advantages(a_round(push(0.5, -0.5))) == [0, 0, 0]


def test_others_by_hand():
    used = torch.tensor([True, True, False, True])
    found = others(torch.tensor([1.0, 2, 50, 6]), used)[used]
    assert found.tolist() == [4, 3.5, 1.5]


@pytest.mark.parametrize("window", [1, 4, 20])
@pytest.mark.parametrize("options", [{}, {"literal": True}], ids=["gain", "literal"])
def test_the_moving_average_by_a_plain_loop(window, options):
    """It starts at the loss before round 1, and a reward uses it before it moves."""
    strategy = fm.FRCCE(baseline="moving", window=window, **options)
    b = bench(strategy, 2)
    sign = -1 if options else 1
    choices = [[1, 0], [1, 1], [0, 1], [1, 0], [0, 0], [1, 0]]
    thetas, average = [0.1, 0.2, 0.0, 0.3, 0.6, 0.5], loss_of(0.1)
    for t, (choice, theta) in enumerate(zip(choices, thetas, strict=True), 1):
        found = b.draw(choice).advantages(a_round(push(0.4, -0.2), t=t, theta=theta))
        moved = {(1, 0): 0.4, (0, 1): -0.2, (1, 1): 0.1, (0, 0): 0.0}[tuple(choice)]
        loss = loss_of(theta + moved)
        wanted = sign * (average - loss) if any(choice) else 0
        assert found == pytest.approx([wanted], abs=1e-7)
        average = average + (loss - average) / window


def test_the_moving_average_is_that_of_the_model_that_goes_out():
    """FLDVE weighs (.4, -.2) with .75 and .25: .25; its probes are the single clients."""
    b = bench(fm.FLDVE(probes=2, baseline="moving", window=4), 2).omega(0.9, 0.3)
    b.draw([1, 0], [0, 1])
    average = loss_of(0.1)
    for t, theta in enumerate([0.1, 0.3, 0.2], 1):
        found = b.advantages(a_round(push(0.4, -0.2), t=t, theta=theta))
        wanted = [average - loss_of(theta + 0.4), average - loss_of(theta - 0.2)]
        assert found == pytest.approx(wanted, abs=1e-7)
        average = average + (loss_of(theta + 0.25) - average) / 4


def test_an_absurd_selection_counts_at_most_one():
    """Losses of about 0 and 80 against ln 2: the gap of 79 nats counts as 1."""
    b = bench(fm.FRCCE(probes=2), 2).draw([1, 0], [0, 1])
    assert b.advantages(a_round(push(40, -40))) == pytest.approx([LN2, -1], abs=1e-6)
    literal = bench(fm.FRCCE(literal=True, baseline="previous"), 2).draw([0, 1])
    assert literal.advantages(a_round(push(40, -40))) == pytest.approx([80 - LN2], abs=1e-5)


def test_a_model_that_overflows_is_as_bad_as_can_be():
    """Client 1 alone, and everybody's mean, have an infinite loss: both as bad as can be."""
    b = bench(fm.FRCCE(probes=2, limit=None), 2).draw([1, 0], [0, 1])
    assert b.advantages(a_round(push(0.5, -1e308))) == [1, 0]


@pytest.mark.parametrize("scaling", ["client", "none"])
def test_a_huge_update_without_a_limit_does_not_end_the_learning(scaling):
    strategy = started(fm.FRCCE(scaling=scaling, limit=None), 3, dtype=torch.float32)
    for t in range(1, 6):
        huge = 1e30 if t == 2 else 0.3
        strategy.step(a_round(push(0.2, 0.1, huge, dtype=torch.float32), t=t))
        assert torch.isfinite(strategy.state["omega"]).all()
    assert torch.isfinite(strategy.state["phi"]).all()


@pytest.mark.parametrize(("sign", "better"), [("gain", 1), ("printed", -1)])
def test_one_lesson_moves_the_selection_in_the_rewards_direction(sign, better):
    """Client 0 alone beats everybody's mean: after a lesson {0} is likelier, or less likely."""
    b = bench(fm.FRCCE(sign=sign, clamp=0.0), 2, learn=True).draw([1, 0])
    updates = torch.tensor([[0.5, -0.5, 0.1, 0.2], [-0.5, 0.5, 0.3, -0.1]], dtype=torch.float64)
    chance = []
    for t in (1, 2):
        b.step(a_round(updates, t=t))
        omega = b.lessons[-1][0].sigmoid()
        chance.append(float(omega[0] * (1 - omega[1])))
    assert better * (chance[1] - chance[0]) > 0


@pytest.mark.parametrize("make", LEARNED)
@pytest.mark.parametrize("sign", ["gain", "printed"])
def test_the_sign_of_the_reward_decides_who_is_trusted(make, sign):
    """Three clients lower the loss and one raises it; the printed sign trusts the wrong one."""
    strategy = started(make(lr=3e-3, probes=6, baseline="probes", sign=sign), 4)
    generator = torch.Generator().manual_seed(1)
    trusted = []
    for t in range(1, 201):
        noise = 0.1 * torch.randn(4, 4, generator=generator, dtype=torch.float64)
        strategy.step(a_round(push(0.4, 0.5, 0.3, -0.5) + noise, t=t))
        trusted.append(strategy.state["omega"])
    first, last = trusted[0], trusted[-1]
    if sign == "gain":
        assert (last[:3] > last[3]).all()
        assert float(last[3]) < float(first[3])
    else:
        assert (last[:3] < last[3]).all()
        assert float(last[3]) > float(first[3])


# --- nobody is selected --------------------------------------------------------------------------


def test_when_nobody_is_selected_model_and_policy_stay():
    b = bench(fm.FRCCE(clamp=0.0), 3, learn=True).draw([0, 0, 0])
    phi = b.state["phi"]
    done = b.step(a_round(push(0.5, 0.2, -0.1), theta=0.3))
    assert torch.equal(done.theta, a_round(push(0.5), theta=0.3).theta)
    assert b.lessons[0][2].tolist() == [0]
    assert torch.equal(b.state["phi"], phi)
    assert not done.weights.any()
    assert (b.scores > 0).all()  # they were judged, though


def test_draws_depend_on_the_round_and_the_seed():
    omega, server = torch.full((60,), 0.5, dtype=torch.float64), a_server(60)
    drawn = [fm.FRCCE().draw(server, omega, t) for t in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    other = fm.FRCCE().draw(replace(server, seed=1), omega, 1)
    assert not torch.equal(drawn[0], other)


# --- what goes out -------------------------------------------------------------------------------


def test_frcce_deploys_the_first_selection():
    b = bench(fm.FRCCE(probes=3), 4)
    b.draw([1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1])
    done = b.step(a_round(push(0.1, 0.2, 0.3, 0.4)))
    torch.testing.assert_close(done.theta, push(0.2)[0], rtol=0, atol=1e-7)
    assert done.weights.tolist() == [0.5, 0, 0.5, 0]


def test_the_selected_may_weigh_by_their_samples():
    b = bench(fm.FRCCE(weighting="size"), 3).draw([1, 0, 1])
    done = b.step(a_round(push(0.1, 0.2, 0.3), sizes=[30, 7, 10]))
    assert done.weights.tolist() == pytest.approx([0.75, 0, 0.25])


def test_fldve_weighs_in_proportion_to_omega():
    b = bench(fm.FLDVE(probes=2), 3).omega(0.9, 0.3, 0.6).draw([0, 1, 0], [1, 0, 0])
    done = b.step(a_round(push(0.1, 0.2, 0.4)))
    assert done.weights.tolist() == pytest.approx([0.5, 1 / 6, 1 / 3], abs=1e-7)
    wanted = push(0.05 + 0.2 / 6 + 0.4 / 3)[0]
    torch.testing.assert_close(done.theta, wanted, rtol=0, atol=1e-7)
    done = b.step(a_round(push(0.1, 0.2, 0.4), sizes=[1, 50, 9], t=2))
    assert done.weights.tolist() == pytest.approx([0.5, 1 / 6, 1 / 3], abs=1e-7)


def test_removal_drops_who_is_below_one_half():
    b = bench(fm.DVRLRemoval(probes=2), 4).draw([0, 1, 0, 0], [1, 0, 0, 0])
    done = b.omega(0.9, 0.49, 0.5, 0.51).step(a_round(push(0.1, 0.2, 0.4, 0.5)))
    assert done.weights.tolist() == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3], abs=1e-7)
    done = b.omega(0.1, 0.49, 0.2, 0.3).step(a_round(push(0.1, 0.2, 0.4, 0.5), t=2))
    assert done.weights.tolist() == [0.25] * 4


@pytest.mark.parametrize("clients", [3, 7, 10])
def test_equal_weights_are_exact_in_float64(clients):
    this = a_round(push(*[0.1] * clients))
    weights = fm.FRCCE().weights(a_server(clients), {}, this)
    assert weights.tolist() == pytest.approx([1 / clients] * clients, rel=1e-14)


@pytest.mark.parametrize("make", [fm.FLDVE, fm.DVRLRemoval])
def test_what_fldve_rewards_are_the_probes_not_the_deployed_model(make):
    b = bench(make(probes=2, baseline="previous"), 2).omega(0.8, 0.6)
    found = b.draw([1, 0], [0, 1]).advantages(a_round(push(0.5, -0.5)))
    assert found == pytest.approx([LN2 - loss_of(0.5), LN2 - loss_of(-0.5)], abs=1e-6)


def test_literal_fldve_rewards_the_deployed_model_and_never_moves():
    """omega in place of an action: A sum(omega log omega + ...), whose gradient is A (w - w)."""
    b = bench(fm.FLDVE(literal=True), 2).omega(0.8, 0.2)
    found = b.advantages(a_round(push(0.5, -0.5), theta=0.1))
    assert found == pytest.approx([loss_of(0.1) - loss_of(0.1 + 0.8 * 0.5 - 0.2 * 0.5)], abs=1e-6)

    for dtype in (torch.float64, torch.float32):
        strategy, seen = started(fm.FLDVE(literal=True), 3, dtype=dtype), []
        for t in range(1, 301):
            strategy.step(a_round(push(0.5, 0.3, -0.4, dtype=dtype), t=t))
            seen.append(strategy.state["omega"])
        torch.testing.assert_close(seen[-1], seen[0], rtol=0, atol=1e-4)


def test_fldve_learns_where_the_literal_text_does_not():
    strategy, seen = started(fm.FLDVE(), 3), []
    for t in range(1, 101):
        strategy.step(a_round(push(0.5, 0.3, -0.4), t=t))
        seen.append(strategy.state["omega"])
    assert float((seen[-1] - seen[0]).abs().max()) > 0.02


# --- scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", LEARNED)
def test_scores_are_means_over_all_rounds_and_quality_over_the_clients_own(make):
    strategy = started(make(), 5)
    turns, total, last = torch.zeros(5), torch.zeros(5).double(), torch.zeros(5).double()
    for t, ids in enumerate([[4, 1], [0, 4], [1, 4, 0], [4]], 1):
        strategy.step(a_round(push(*[0.1 * (k - 1.5) for k in ids]), ids, t))
        turns[ids] += 1
        omega = strategy.state["omega"]
        total[ids] += omega[ids]
        last[ids] = omega[ids]
        assert torch.equal(omega, last)
        torch.testing.assert_close(strategy.scores, total / t)
        torch.testing.assert_close(
            strategy.strategy.quality(strategy.state), total / turns.clamp(min=1).double()
        )
    assert turns.tolist() == [2, 2, 0, 0, 4]
    assert (
        strategy.scores[2:4].tolist()
        == strategy.strategy.quality(strategy.state)[2:4].tolist()
        == [0, 0]
    )
    assert ((omega[[0, 1, 4]] > 0) & (omega[[0, 1, 4]] < 1)).all()


def test_omega_is_what_the_policy_said_before_the_lesson():
    b = bench(fm.FRCCE(), 3).omega(0.9, 0.3, 0.6)
    b.step(a_round(push(0.1, 0.2, 0.4)))
    assert b.state["omega"].tolist() == pytest.approx([0.9, 0.3, 0.6], abs=1e-7)
    assert b.scores.tolist() == pytest.approx([0.9, 0.3, 0.6], abs=1e-7)


@pytest.mark.parametrize(
    ("make", "options", "count"),
    [
        (fm.FRCCE, {}, 1 + 1),  # the probe, which goes out, and everybody
        (fm.FRCCE, {"baseline": "previous"}, 1 + 1),  # and the model before
        (fm.FRCCE, {"baseline": "moving"}, 1),
        (fm.FRCCE, {"probes": 4, "baseline": "probes"}, 4),
        (fm.FRCCE, {"probes": 4}, 4 + 1),
        (fm.FLDVE, {}, 8 + 1),  # and what goes out
        (fm.FLDVE, {"literal": True}, 1 + 1),
    ],
)
def test_models_are_counted(make, options, count):
    strategy = started(make(**options), 3)
    strategy.step(a_round(push(0.1, 0.2, 0.3)))
    assert strategy.step(a_round(push(0.1, 0.2, 0.3), t=2)).evaluated == count


# --- what the policy reads -----------------------------------------------------------------------


def test_scaling_per_client_gives_mean_square_one():
    rows = torch.tensor([[3.0, 4], [0, 0], [-1e-3, 0], [1e6, 1e6]], dtype=torch.float64)
    wanted = [[3 / 12.5**0.5, 4 / 12.5**0.5], [0, 0], [-(2**0.5), 0], [1, 1]]
    torch.testing.assert_close(scaled(rows, "client"), torch.tensor(wanted, dtype=torch.float64))


def test_no_scaling_reads_the_update_itself():
    rows = torch.tensor([[1.0, 5, 7], [3, 5, 9]])
    assert torch.equal(scaled(rows, "none"), rows)


def omegas(strategy: Played, updates: Tensor, **of_round) -> Tensor:
    """Selection probabilities of a fresh policy on these updates."""
    strategy.step(a_round(updates, **of_round))
    return strategy.state["omega"]


@pytest.mark.parametrize(("scaling", "same"), [("client", True), ("none", False)])
def test_lengths_do_not_matter_if_scaled_per_client(scaling, same):
    updates = push(0.5, -0.3, 0.2) + torch.tensor([0.1, 0, 0.2, -0.4], dtype=torch.float64)
    longer = updates * torch.tensor([[1.0], [3], [0.5]], dtype=torch.float64)
    one = omegas(started(fm.FRCCE(scaling=scaling, limit=None), 3), updates)
    other = omegas(started(fm.FRCCE(scaling=scaling, limit=None), 3), longer)
    assert torch.allclose(one, other, rtol=0, atol=1e-9) == same


def deep() -> fm.Model:
    """Two layers: 3 inputs, 4 hidden units, 2 classes; 16 parameters, then 8 + 2."""
    return fm.mlp(3, 4, 2)


@pytest.mark.parametrize("scaling", ["client", "none"])
def test_the_last_layer_is_all_that_is_read(scaling):
    generator = torch.Generator().manual_seed(0)
    updates = torch.randn(3, 26, generator=generator, dtype=torch.float64)
    other, third = updates.clone(), updates.clone()
    other[1, :16] += 0.3
    third[1, 16] += 0.3
    last = {"layer": "last", "scaling": scaling, "limit": None}
    found = [omegas(started(fm.FRCCE(**last), 3, deep()), rows) for rows in (updates, other, third)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    every = {**last, "layer": "all"}
    found = [omegas(started(fm.FRCCE(**every), 3, deep()), rows) for rows in (updates, other)]
    assert not torch.allclose(found[0], found[1])


def size_of(*widths: int) -> int:
    """Parameters of a stack of linear layers."""
    return sum((a + 1) * b for a, b in itertools.pairwise(widths))


@pytest.mark.parametrize(
    ("options", "inputs"), [({}, 10), ({"layer": "all"}, 26), ({"literal": True}, 26)]
)
def test_the_policy_has_the_printed_widths(options, inputs):
    strategy = started(fm.FRCCE(**options), 3, deep())
    assert len(strategy.state["phi"]) == size_of(inputs, 64, 32, 16, 1)


def test_a_linear_model_has_one_layer():
    strategy = started(fm.FRCCE(layer="last"), 3)
    assert len(strategy.state["phi"]) == size_of(4, 64, 32, 16, 1)


def test_a_last_layer_without_a_bias_is_read_alone():
    net = fm.Model(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2, bias=False)))
    strategy = started(fm.FRCCE(), 3, net)
    assert len(strategy.state["phi"]) == size_of(8, 64, 32, 16, 1)


# --- long updates --------------------------------------------------------------------------------


def test_long_updates_are_shortened_by_hand():
    """Lengths 1, 2, 3, 100, 4: the median is 3, and 100 becomes 2 * 3."""
    updates = torch.tensor([[1.0, 0], [0, 2], [-3, 0], [60, 80], [0, -4]])
    found = shortened(updates, 2.0)
    assert torch.equal(found[[0, 1, 2, 4]], updates[[0, 1, 2, 4]])
    assert found[3].tolist() == pytest.approx([3.6, 4.8])
    assert torch.equal(shortened(updates, 50.0), updates)


@pytest.mark.parametrize("huge", [1e20, 1e30, 3e38])
def test_lengths_that_overflow_are_shortened_too(huge):
    updates = torch.tensor([[1.0, 0], [0, 2], [-3, 0], [0.6 * huge, -0.8 * huge], [0, 0]])
    found = shortened(updates, 2.0)  # median 2
    assert found[3].tolist() == pytest.approx([2.4, -3.2], rel=1e-5)
    assert torch.equal(found[[0, 1, 2, 4]], updates[[0, 1, 2, 4]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_very_short_updates_keep_their_proportions(dtype):
    updates = torch.tensor([[1e-9, 0], [0, 2e-9], [-3e-9, 0], [6e-7, 8e-7], [0, 0]], dtype=dtype)
    found = shortened(updates, 5.0)[3] / 1e-9
    assert found.tolist() == pytest.approx([6, 8], rel=1e-5)  # 5 times the median 2


def test_the_limit_acts_on_what_goes_out_and_on_what_is_rewarded():
    updates = push(0.1, 0.1, 0.1, 30.0)
    b = bench(fm.FRCCE(limit=5.0, baseline="previous"), 4).draw([0, 0, 0, 1])
    assert b.advantages(a_round(updates)) == pytest.approx([LN2 - loss_of(0.5)], abs=1e-6)
    theta = b.step(a_round(updates, t=2)).theta
    torch.testing.assert_close(theta, push(0.5)[0], rtol=0, atol=1e-7)
    free = bench(fm.FRCCE(limit=None), 4).draw([0, 0, 0, 1])
    torch.testing.assert_close(free.step(a_round(updates)).theta, push(30.0)[0])


def test_the_literal_text_shortens_nothing():
    b = bench(fm.FRCCE(literal=True), 3).draw([0, 0, 1])
    theta = b.step(a_round(push(0.1, 0.1, 30.0))).theta
    torch.testing.assert_close(theta, push(30.0)[0])


def test_a_round_is_left_as_it_was():
    updates = push(0.1, 0.1, 0.1, 30.0)
    copy = updates.clone()
    started(fm.FRCCE(), 4).step(a_round(updates))
    assert torch.equal(updates, copy)


# --- options -------------------------------------------------------------------------------------


def test_defaults_and_what_literal_changes():
    ours, printed = fm.FRCCE(), fm.FRCCE(literal=True)
    names = ("lr", "sign", "baseline", "scaling", "layer", "clamp", "limit", "probes", "window")
    assert [getattr(ours, n) for n in names] == [
        1e-3, "gain", "aggregate", "client", "last", 0.1, 5.0, 1, 20
    ]  # fmt: skip
    assert [getattr(printed, n) for n in names] == [
        1e-5, "printed", "moving", "none", "all", 0, None, 1, 20
    ]  # fmt: skip
    ours, printed = fm.FLDVE(), fm.FLDVE(literal=True)
    names = ("lr", "sign", "baseline", "scaling", "probes")
    assert [getattr(ours, n) for n in names] == [1e-3, "gain", "probes", "client", 8]
    assert [getattr(printed, n) for n in names] == [1e-5, "gain", "previous", "none", 1]
    assert fm.FLDVE(probes=1).baseline == "previous"
    assert fm.DVRLRemoval().probes == 8


def test_the_printed_text_samples_nothing():
    for make in (fm.FLDVE, fm.DVRLRemoval):
        with pytest.raises(ValueError, match=r"^probes: the printed text samples nothing"):
            make(literal=True, probes=4)


def test_probes_need_others_to_be_compared_with():
    for make in LEARNED:
        with pytest.raises(ValueError, match=r"^probes: "):
            make(probes=1, baseline="probes")


def test_a_strategy_learns_where_gradients_are_switched_off():
    one, other = (started(fm.FRCCE(scaling="none"), 3) for _ in range(2))
    theta = one.step(a_round(push(1.0, 2.0, -1.0))).theta
    with torch.no_grad():
        assert torch.equal(other.step(a_round(push(1.0, 2.0, -1.0))).theta, theta)
    assert torch.equal(one.state["phi"], other.state["phi"])
