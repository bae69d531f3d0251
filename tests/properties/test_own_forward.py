"""Any module is trained and judged by its own forward: forty drawn ones against a plain loop.

The loop makes the module anew for every question, so that nothing of the package's ways of copying,
stacking or remembering is in it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint

import fedlab_mini as fm
from fedlab_mini.engine import plain
from fedlab_mini.streams import stream

SIZES, INPUTS, CLASSES, SEED, T = (9, 1, 14, 6), 12, 3, 5, 2
LOCAL = fm.LocalSGD(epochs=2, batch=5, lr=0.1)
Draw = random.Random


class Own(nn.Module):
    """A forward given as a function of (self, x); parts by name."""

    def __init__(self, forward: Callable, **parts) -> None:
        super().__init__()
        self.call = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.call(self, x)


class Skip(nn.Sequential):
    """A stack whose own forward adds what came in."""

    def forward(self, x):
        return 0.5 * super().forward(x) + x[:, :CLASSES]


class Scaled(nn.Sequential):
    """A stack whose own forward scales what comes in."""

    def forward(self, x):
        return super().forward(x / 3)


class Halved(nn.Linear):
    """A layer that computes something else."""

    def forward(self, x):
        return super().forward(x) / 2


def smooth(draw: Draw) -> nn.Module:
    return draw.choice([nn.Tanh, nn.GELU, nn.Sigmoid, nn.SiLU, nn.PReLU, nn.ReLU])()


def between(width: int, *layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(INPUTS, width), *layers, nn.Linear(width, CLASSES))


def images(x):
    return x.reshape(len(x), 1, 3, 4)


def steps(x):
    return x.reshape(len(x), 3, 4)


def words(x):
    return (x * 3).round().clamp(-4, 4).long() + 4


def normalised(draw: Draw) -> nn.Module:
    norm = draw.choice([lambda: nn.LayerNorm(8), lambda: nn.GroupNorm(2, 8), lambda: nn.RMSNorm(8)])
    return between(8, norm(), smooth(draw))


def instance_norm(draw: Draw) -> nn.Module:
    norm = nn.InstanceNorm1d(3, affine=True)
    return Own(lambda m, x: m.head(m.norm(steps(x)).flatten(1)), norm=norm, head=nn.Linear(12, 3))


def embedded(draw: Draw) -> nn.Module:
    size = draw.choice([3, 5])
    parts = {"table": nn.Embedding(9, size), "head": nn.Linear(size, CLASSES)}
    return Own(lambda m, x: m.head(torch.tanh(m.table(words(x)).mean(1))), **parts)


def convolved(draw: Draw) -> nn.Module:
    maps, side = draw.choice([2, 4]), draw.choice([1, 3])
    layers = nn.Conv2d(1, maps, side, padding=side // 2), smooth(draw), nn.MaxPool2d(2)
    parts = {"body": nn.Sequential(*layers, nn.Flatten()), "head": nn.LazyLinear(CLASSES)}
    module = Own(lambda m, x: m.head(m.body(images(x))), **parts)
    module(torch.zeros(2, INPUTS))
    return module


def recurrent(draw: Draw) -> nn.Module:
    kind = draw.choice([nn.GRU, nn.LSTM, nn.RNN])
    parts = {"body": kind(4, 5, batch_first=True), "head": nn.Linear(5, CLASSES)}
    return Own(lambda m, x: m.head(m.body(steps(x))[0][:, -1]), **parts)


def attention(draw: Draw) -> nn.Module:
    body = nn.MultiheadAttention(4, draw.choice([1, 2]), batch_first=True)
    parts = {"body": body, "head": nn.Linear(12, CLASSES)}
    return Own(lambda m, x: m.head(m.body(*[steps(x)] * 3)[0].flatten(1)), **parts)


def encoder(draw: Draw) -> nn.Module:
    body = nn.TransformerEncoderLayer(
        4, 2, 6, dropout=draw.choice([0.0, 0.2]), batch_first=True, norm_first=draw.random() < 0.5
    )
    return Own(lambda m, x: m.head(m.body(steps(x)).flatten(1)), body=body, head=nn.Linear(12, 3))


def samples_mix(draw: Draw) -> nn.Module:
    if draw.random() < 0.5:
        return Own(lambda m, x: m.head(x - x.mean(0)), head=nn.Linear(INPUTS, CLASSES))
    parts = {"body": nn.GRU(4, 5), "head": nn.Linear(5, CLASSES)}  # not batch_first
    return Own(lambda m, x: m.head(m.body(steps(x))[0][:, -1]), **parts)


def buffers(draw: Draw) -> nn.Module:
    module = Own(lambda m, x: m.head((x - m.centre)[:, m.order]), head=between(6, smooth(draw)))
    module.register_buffer("centre", torch.linspace(-1, 1, INPUTS))
    module.register_buffer("order", torch.tensor(draw.sample(range(INPUTS), INPUTS)))
    return module


def dropped(draw: Draw) -> nn.Module:
    return between(8, smooth(draw), draw.choice([nn.Dropout, nn.AlphaDropout])(0.4))


def drops_unsaid(draw: Draw) -> nn.Module:
    head, rate = between(6, nn.ReLU()), draw.choice([0.1, 0.5])
    return Own(lambda m, x: m.head(functional.dropout(x, rate, m.training)), head=head)


def tied(draw: Draw) -> nn.Module:
    one, other = nn.Linear(INPUTS, INPUTS), nn.Linear(INPUTS, INPUTS)
    other.weight = one.weight
    return nn.Sequential(one, nn.ReLU(), other, nn.ReLU(), nn.Linear(INPUTS, CLASSES))


def used_twice(draw: Draw) -> nn.Module:
    one, act = nn.Linear(INPUTS, INPUTS), nn.ReLU()
    return nn.Sequential(one, act, one, act, nn.Linear(INPUTS, CLASSES))


def turned(draw: Draw) -> nn.Module:
    def forward(m, x):
        return m.head(torch.tanh(m.code(x)) @ m.code.weight)

    return Own(forward, head=nn.Linear(INPUTS, CLASSES), code=nn.Linear(INPUTS, 4))


def hook(draw: Draw) -> nn.Module:
    module = between(6, nn.ReLU())
    module[draw.choice([0, 2])].register_forward_hook(lambda part, given, out: out * 3)
    return module


def hook_before(draw: Draw) -> nn.Module:
    module = between(6, nn.ReLU())
    module[draw.choice([0, 2])].register_forward_pre_hook(lambda part, given: (given[0] + 1,))
    return module


def hook_backward(draw: Draw) -> nn.Module:
    module = between(6, nn.ReLU())
    module[2].register_full_backward_hook(lambda part, given, out: (given[0] * 3,))
    return module


def hook_on_gradient(draw: Draw) -> nn.Module:
    module = between(6, draw.choice([nn.ReLU, nn.Tanh])())
    module[0].weight.register_hook(lambda gradient: gradient / (1 + gradient.norm()))
    return module


def pruned(draw: Draw) -> nn.Module:
    module = between(6, nn.ReLU())
    prune.l1_unstructured(module[draw.choice([0, 2])], "weight", 0.5)
    return module


def weight_normed(draw: Draw) -> nn.Module:
    return nn.Sequential(parametrizations.weight_norm(nn.Linear(INPUTS, CLASSES)))


def replaced_forward(draw: Draw) -> nn.Module:
    module = between(6, nn.ReLU())
    module[1].forward = torch.cos
    return module


def subclassed_layer(draw: Draw) -> nn.Module:
    return nn.Sequential(Halved(INPUTS, 6), nn.ReLU(), nn.Linear(6, CLASSES))


def counting(draw: Draw) -> nn.Module:
    """What it says depends on how often it was asked."""

    def forward(m, x):
        m.calls += 1
        return m.head(x) * m.calls**0.5

    module = Own(forward, head=nn.Linear(INPUTS, CLASSES))
    module.calls = 0
    return module


def keeping(draw: Draw) -> nn.Module:
    """What it says depends on what it was asked first."""

    def forward(m, x):
        m.seen.append(x.detach().mean())
        return m.head(x + m.seen[0])

    module = Own(forward, head=nn.Linear(INPUTS, CLASSES))
    module.seen = []
    return module


def bounded(draw: Draw) -> nn.Module:
    """A forward that writes to its own parameters."""

    def forward(m, x):
        m.head.weight.data.clamp_(-0.2, 0.2)
        return m.head(x)

    return Own(forward, head=nn.Linear(INPUTS, CLASSES))


def branch(draw: Draw) -> nn.Module:
    head = nn.Linear(INPUTS, CLASSES)
    return Own(lambda m, x: m.head(x) if float(x.detach().sum()) > 0 else m.head(-x), head=head)


def modes(draw: Draw) -> nn.Module:
    return Own(lambda m, x: m.head(x) * (2 if m.training else 1), head=between(5, nn.ReLU()))


def forgetful(draw: Draw) -> nn.Module:
    """What is not kept for the gradient is computed again."""

    def forward(m, x):
        return m.head(checkpoint(m.body, x, use_reentrant=False))

    return Own(forward, body=nn.Linear(INPUTS, 5), head=nn.Linear(5, CLASSES))


def flattened(draw: Draw) -> nn.Module:
    return nn.Sequential(nn.Flatten(), *between(6, nn.ReLU()))


KINDS = [
    *(normalised, instance_norm, embedded, convolved, recurrent, attention, encoder, samples_mix),
    *(buffers, dropped, drops_unsaid, tied, used_twice, turned, hook, hook_before, hook_backward),
    *(hook_on_gradient, pruned, weight_normed, replaced_forward, subclassed_layer, counting),
    *(keeping, bounded, branch, modes, forgetful, flattened),
    *(lambda draw: Skip(*between(6, nn.ReLU())), lambda draw: Scaled(*between(6, nn.ReLU()))),
]
KINDS[-2].__name__, KINDS[-1].__name__ = "skip", "scaled"
# Kinds that draw most of their settings are drawn twice.
TWICE = (normalised, embedded, convolved, recurrent, attention, encoder, samples_mix, dropped, hook)
DRAWN = [(kind, 0) for kind in KINDS] + [(kind, 1) for kind in TWICE]
drawn = pytest.mark.parametrize(
    ("kind", "number"), DRAWN, ids=[f"{kind.__name__}-{number}" for kind, number in DRAWN]
)


def made(kind: Callable, number: int) -> nn.Module:
    """The module that a number draws, always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        return kind(Draw(f"{kind.__name__} {number}"))


def loaded(kind: Callable, number: int, theta: torch.Tensor) -> nn.Module:
    module = made(kind, number).double()
    nn.utils.vector_to_parameters(theta.clone(), module.parameters())
    return module


def looped(module: nn.Module, theta: torch.Tensor, fed: fm.Federation, k: int) -> torch.Tensor:
    """A client's update by an optimiser of PyTorch's."""
    (x, y), optimiser = fed.client(k), torch.optim.SGD(module.parameters(), lr=LOCAL.lr)
    module.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(SEED, "dropout", T, k).initial_seed())
        for batch in plain.batches(fed, LOCAL, SEED, T, k):
            optimiser.zero_grad()
            functional.cross_entropy(module(x[batch]), y[batch]).backward()
            optimiser.step()
    return nn.utils.parameters_to_vector(module.parameters()).detach() - theta


def losses(kind: Callable, number: int, thetas: torch.Tensor, x, y) -> torch.Tensor:
    with torch.no_grad():
        answers = [loaded(kind, number, theta).eval()(x.clone()) for theta in thetas]
    return torch.stack([functional.cross_entropy(answer, y) for answer in answers])


def condition(module: nn.Module) -> list:
    """What must stay as it was: numbers, flags, hooks, attributes, gradients, chance."""
    numbers = [tensor.clone() for tensor in module.state_dict().values()]
    parts = [
        (part.training, {key: str(value) for key, value in vars(part).items() if key != "call"})
        for part in module.modules()
    ]
    gradients = [parameter.grad for parameter in module.parameters()]
    chance = torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())  # noqa: NPY002
    return [[tensor.tolist() for tensor in numbers], parts, gradients, chance]


@drawn
def test_a_module_is_trained_and_judged_as_it_says_itself(make_fed, kind, number):
    fed = make_fed(SIZES, inputs=INPUTS, classes=CLASSES, server=23)
    module = made(kind, number)
    before = condition(module)
    net = fm.Model(module)
    theta = net.theta().double()
    updates = fm.local_updates(fed, net, theta, local=LOCAL, seed=SEED, t=T)
    wanted = torch.stack(
        [looped(loaded(kind, number, theta), theta, fed, k) for k in range(fed.clients)]
    )
    torch.testing.assert_close(updates, wanted, rtol=0, atol=1e-9)

    x, y = fed.validation
    members = torch.tensor(list(itertools.product([False, True], repeat=fed.clients)))
    means = members.double() @ wanted / members.sum(1, keepdim=True).clamp(min=1)
    worths = -losses(kind, number, theta + means, x, y)
    found = net.evaluate(theta + means, x, y, "loss")
    torch.testing.assert_close(found, -worths, rtol=0, atol=1e-9)
    scores = loaded(kind, number, theta).eval()(x.clone()).detach()
    torch.testing.assert_close(net.forward(theta, x), scores, rtol=0, atol=1e-9)
    assert torch.equal(net.predict(theta, x), scores.argmax(1))

    game = fm.round_game(net, theta, updates, x, y, metric="loss")
    torch.testing.assert_close(game(members), worths, rtol=0, atol=1e-9)
    codes = 2 ** torch.arange(fed.clients).flip(0)
    truth = fm.exact(fm.Game(fed.clients, lambda coalitions: worths[coalitions.long() @ codes]))
    table = fm.score(
        [{"theta": theta, "updates": updates}], net=net, validation=(x, y), methods=[fm.exact]
    )
    assert table["exact"].tolist() == pytest.approx(truth.values.tolist(), abs=1e-9)
    assert condition(module) == before
