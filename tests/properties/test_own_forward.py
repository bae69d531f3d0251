"""Any module is trained and judged by its own forward: a table of kinds against a plain loop.

The loop makes the module anew for every question, so that nothing of the package's ways of copying,
stacking or remembering is in it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

import fedlab_mini as fm
from fedlab_mini.engine import plain
from fedlab_mini.engine.outputs import output_table
from fedlab_mini.streams import stream

SIZES, INPUTS, CLASSES, SEED, T = (9, 1, 14, 6), 12, 3, 5, 2
LOCAL = fm.LocalSGD(epochs=2, batch=5, lr=0.1)


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


def between(width: int, *layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(INPUTS, width), *layers, nn.Linear(width, CLASSES))


def headed(forward: Callable, width: int = INPUTS, **parts) -> nn.Module:
    """A forward of one's own that ends in a linear layer."""
    return Own(forward, head=nn.Linear(width, CLASSES), **parts)


def steps(x):
    return x.reshape(len(x), 3, 4)


def buffers() -> nn.Module:
    module = headed(lambda m, x: m.head((x - m.centre)[:, m.order]))
    module.register_buffer("centre", torch.linspace(-1, 1, INPUTS))
    module.register_buffer("order", torch.randperm(INPUTS))
    return module


def remembering() -> nn.Module:
    """Keeps its last outputs for whoever wants to look at them, and a constant that it needs."""

    def forward(m, x):
        if "order" not in m.found:
            m.found["order"] = torch.linspace(0, 1, INPUTS)
        m.last = m.head(x * m.found["order"])
        return m.last

    return headed(forward, found={}, last=None)


def counting() -> nn.Module:
    """Acts otherwise after its fourth call in a training, which every client begins anew."""

    def forward(m, x):
        m.calls += m.training
        return m.head(x) * (2 if m.calls > 4 else 1)

    return headed(forward, calls=0)


def tied() -> nn.Module:
    one, other = nn.Linear(INPUTS, INPUTS), nn.Linear(INPUTS, INPUTS)
    other.weight = one.weight
    return nn.Sequential(one, nn.ReLU(), other, nn.ReLU(), nn.Linear(INPUTS, CLASSES))


def hooked(way: str, hook: Callable, part: int = 2) -> nn.Module:
    module = between(6, nn.Tanh())
    if way == "gradient":
        module[part].weight.register_hook(hook)
    else:
        getattr(module[part], f"register_{way}_hook")(hook)
    return module


def replaced_forward() -> nn.Module:
    module = between(6, nn.ReLU())
    module[1].forward = torch.cos
    return module


def frozen(*layers: nn.Module) -> nn.Module:
    """Its first layer is a constant."""
    module = between(6, *layers)
    module[0].requires_grad_(False)
    return module


def adapted() -> nn.Module:
    """Two thin matrices beside a frozen base, as adapters of large models are."""
    module = headed(
        lambda m, x: m.head(x) + m.up(m.down(x)),
        down=nn.Linear(INPUTS, 2, bias=False),
        up=nn.Linear(2, CLASSES, bias=False),
    )
    module.head.requires_grad_(False)
    return module


KINDS: dict[str, Callable[[], nn.Module]] = {
    "normalised": lambda: between(8, nn.LayerNorm(8), nn.GELU()),
    "recurrent": lambda: headed(
        lambda m, x: m.head(m.body(steps(x))[0][:, -1]), 5, body=nn.GRU(4, 5, batch_first=True)
    ),
    "recurrent with a cell": lambda: headed(
        lambda m, x: m.head(m.body(steps(x))[0][:, -1]), 5, body=nn.LSTM(4, 5, batch_first=True)
    ),
    "remembers what it gave": remembering,
    "counts its calls": counting,
    "samples mix": lambda: headed(lambda m, x: m.head(x - x.mean(0))),
    "buffers": buffers,
    "dropped": lambda: between(8, nn.Sigmoid(), nn.Dropout(0.4)),
    "tied": tied,
    "hook": lambda: hooked("forward", lambda part, given, out: out * 3),
    "hook before": lambda: hooked("forward_pre", lambda part, given: (given[0] + 1,)),
    "hook on gradient": lambda: hooked("gradient", lambda g: g / (1 + g.norm()), 0),
    "hook backward": lambda: hooked("full_backward", lambda part, given, out: (given[0] * 3,)),
    "replaced forward": replaced_forward,
    "modes": lambda: headed(lambda m, x: m.head(x) * (2 if m.training else 1)),
    "skip": lambda: Skip(*between(6, nn.ReLU())),
    "a layer at two places": lambda: nn.Sequential(
        one := nn.Linear(INPUTS, INPUTS), nn.Tanh(), one, nn.Tanh(), nn.Linear(INPUTS, CLASSES)
    ),
    "frozen layer": lambda: frozen(nn.Tanh()),
    "frozen layer of a perceptron": lambda: frozen(nn.ReLU()),
    "frozen and dropped": lambda: frozen(nn.Sigmoid(), nn.Dropout(0.4)),
    "adapter": adapted,
}


def made(kind: str) -> nn.Module:
    """A module of this kind, always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return KINDS[kind]()


def moving(module: nn.Module) -> list[nn.Parameter]:
    """What is trained."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def loaded(kind: str, theta: torch.Tensor) -> nn.Module:
    module = made(kind).double()
    nn.utils.vector_to_parameters(theta.clone(), moving(module))
    return module


def looped(module: nn.Module, theta: torch.Tensor, fed: fm.Federation, k: int) -> torch.Tensor:
    """A client's update by an optimiser of PyTorch's."""
    (x, y), optimiser = fed.client(k), torch.optim.SGD(moving(module), lr=LOCAL.lr)
    module.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(SEED, "dropout", T, k).initial_seed())
        for batch in plain.batches(fed, LOCAL, SEED, T, k):
            optimiser.zero_grad()
            functional.cross_entropy(module(x[batch]), y[batch]).backward()
            optimiser.step()
    return nn.utils.parameters_to_vector(moving(module)).detach() - theta


def condition(module: nn.Module) -> list:
    """What must stay as it was: numbers, flags, hooks, attributes, gradients, chance."""
    parts = [
        (part.training, {key: str(value) for key, value in vars(part).items() if key != "call"})
        for part in module.modules()
    ]
    gradients = [parameter.grad for parameter in module.parameters()]
    return [repr(module.state_dict()), parts, gradients, torch.get_rng_state().tolist()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_is_trained_and_judged_as_it_says_itself(make_fed, make_table_game, kind):
    fed = make_fed(SIZES, inputs=INPUTS, classes=CLASSES, server=23)
    module = made(kind)
    before, net, (x, y) = condition(module), fm.Model(module), fed.validation
    theta = net.theta().double()
    updates = fm.local_updates(fed, net, theta, local=LOCAL, seed=SEED, t=T)
    wanted = [looped(loaded(kind, theta), theta, fed, k) for k in range(fed.clients)]
    torch.testing.assert_close(updates, torch.stack(wanted), rtol=0, atol=1e-9)

    members = fm.all_coalitions(fed.clients)
    means = members.double() @ updates / members.sum(1, keepdim=True).clamp(min=1)
    with torch.no_grad():
        answers = [loaded(kind, theta + mean).eval()(x.clone()) for mean in means]
    losses = torch.stack([functional.cross_entropy(answer, y) for answer in answers])
    found = net.evaluate(theta + means, x, y, "loss")
    torch.testing.assert_close(found, losses, rtol=0, atol=1e-9)
    torch.testing.assert_close(net.forward(theta, x), answers[0], rtol=0, atol=1e-9)
    assert torch.equal(net.predict(theta, x), answers[0].argmax(1))
    if hasattr(module, "head") and kind != "adapter":  # declared first, asked last
        assert output_table(net, x) == "head.weight"

    rounds = [{"theta": theta, "updates": updates}]
    table = fm.score(rounds, net=net, validation=(x, y), methods=[fm.exact])
    truth = fm.exact(make_table_game(-losses)).values
    assert table["exact"].tolist() == pytest.approx(truth.tolist(), abs=1e-9)
    assert condition(module) == before
