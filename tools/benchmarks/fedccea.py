"""FedCCEA: its simulator beside a plain loop, and many fits of its model in one stack.

``fm.simulator`` against simulations, rounds and clients one after another on the same shares;
``fm.fit_aam`` with 32 starts against 32 fits as one would write them, and 32 calls of it.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

import fedlab_mini as fm
from fedlab_mini.engine import plain
from fedlab_mini.methods.fedccea import Simulations

from .engine import describe
from .loop import PlainLoop
from .timing import Result, cpu, interleave, ratios

NAME = "fedccea"
CLIENTS, SIMULATIONS, ROUNDS, STARTS, STEPS = 20, 100, 50, 32, 100
LOCAL = fm.LocalSGD(epochs=3, batch=32, lr=0.01)  # three epochs of 32, the paper's for MNIST
FITS = 5.0  # times less CPU is wanted of the stack of fits
WIDTHS = {  # samples a client, of the server; simulations, rounds; times less CPU that is wanted
    (64, 32, 10): (54, 359, 32, 5, 12.0),
    (784, 200, 10): (3000, 1000, 3, 1, 2.0),
    (784, 200, 200, 10): (3000, 1000, 3, 1, 2.0),
}


def random_federation(
    widths: tuple[int, ...], samples: int, server: int, dtype: torch.dtype = torch.float32
) -> fm.Federation:
    """Random inputs and labels: the time of a step does not depend on what is learnt."""
    generator = torch.Generator().manual_seed(0)

    def draw(n: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, widths[0], generator=generator, dtype=dtype)
        return x, torch.randint(0, widths[-1], (n,), generator=generator)

    datasets = [draw(samples) for _ in range(CLIENTS)]
    return fm.Federation.from_datasets(
        datasets, validation=draw(server), test=draw(1), classes=widths[-1]
    )


class SimulatorLoop(PlainLoop):
    """The simulator client by client: one module, one optimiser, one evaluation a round.

    A client uses the first of its samples, in a new order each round; which are first is decided
    once, so nothing is shuffled twice here.
    """

    def __init__(self, fed: fm.Federation, widths: tuple[int, ...], epochs: int = LOCAL.epochs):
        super().__init__(fed, fm.mlp(*widths).module, batch=LOCAL.batch, lr=LOCAL.lr)
        self.validation, self.epochs = fed.validation, epochs

    def client(self, t: int, k: int) -> None:
        """All epochs of a client."""
        for _ in range(self.epochs):
            super().client(t, k)

    def accuracy(self, parameters: list[Tensor]) -> Tensor:
        """Share of the server's samples that the global model gets right."""
        x, y = self.validation
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, parameters)
            return (self.model(x).argmax(1) == y).double().mean()

    def simulate(self, theta: Tensor, counts: Tensor) -> Tensor:
        """Accuracy [S, R] of trainings from ``theta`` on ``counts`` [S, R, K] samples."""
        curves = []
        for run in counts.tolist():
            parameters = self.split(theta)
            for t, self.sizes in enumerate(run, 1):
                parameters = self.round(parameters, t, range(len(self.data)))
                curves.append(self.accuracy(parameters))
        return torch.stack(curves).view(counts.shape[:2])


def counted(runs: Simulations, fed: fm.Federation) -> Tensor:
    """How many samples [S, R, K] the clients used."""
    return (runs.sizes * fed.sizes.double().mean()).round().long()


def check_equal(widths: tuple[int, ...], samples: int, server: int, simulations: int = 3) -> int:
    """Accuracies of the simulator are the loop's, two rounds in float64; how many were equal."""
    fed, net = random_federation(widths, samples, server, torch.float64), fm.mlp(*widths)
    local = replace(LOCAL, epochs=1, lr=0.1)
    runs = fm.simulator(fed, net, simulations, 2, local)
    loop = SimulatorLoop(fed, widths, 1)
    loop.optimiser.param_groups[0]["lr"] = local.lr
    loop.order = lambda t, k: torch.cat(plain.batches(fed, local, 0, t, k, loop.sizes[k]))
    found = loop.simulate(net.init(0, dtype=torch.float64), counted(runs, fed))
    assert torch.equal(found, runs.accuracy), f"{found} by the loop, {runs.accuracy} by simulator"
    return found.numel()


def simulations(
    repetitions: int,
    widths: tuple[int, ...],
    samples: int,
    server: int,
    count: int,
    rounds: int,
    target: float,
) -> Result:
    """The simulator against the loop for one model."""
    equal = check_equal(widths, samples, server)
    print(f"{describe(widths)}: float64, 2 rounds: {equal} accuracies equal", flush=True)
    fed, net = random_federation(widths, samples, server), fm.mlp(*widths)
    theta, loop = net.init(0), SimulatorLoop(fed, widths)
    counts = counted(fm.simulator(fed, net, count, rounds, LOCAL), fed)
    sides = {
        "simulator": cpu(lambda: fm.simulator(fed, net, count, rounds, LOCAL)),
        "loop": cpu(lambda: loop.simulate(theta, counts)),
    }
    seconds = interleave(sides, repetitions)
    each = {name: 1e3 * min(taken) / count / rounds for name, taken in seconds.items()}
    print(", ".join(f"{name} {ms:.3g} ms a round" for name, ms in each.items()), flush=True)
    what = f"{describe(widths)}, {CLIENTS} clients x {samples} samples: loop / simulator"
    return Result(NAME, what, ratios(seconds["loop"], seconds["simulator"]), target)


def fit_plainly(sizes: Tensor, accuracy: Tensor, steps: int) -> None:
    """One fit as one would write it: modules, autograd, ``torch.optim.Adam``, omega clamped."""
    rounds, clients = sizes.shape[1:]
    omega = nn.Linear(clients, 1, bias=False, dtype=sizes.dtype)
    layers = nn.Sequential(
        nn.Linear(rounds, 10, dtype=sizes.dtype), nn.Linear(10, 1, dtype=sizes.dtype)
    )
    seen = torch.ones(rounds, rounds, dtype=sizes.dtype).tril()  # round r sees rounds 1..r
    adam = torch.optim.Adam([*omega.parameters(), *layers.parameters()], lr=0.01)
    for _ in range(steps):
        adam.zero_grad()
        x = omega(sizes)[:, None, :, 0] * seen  # [S, R, R], padded with zeros
        guess = layers(x.sigmoid())[..., 0]
        (guess - accuracy).square().mean().backward()
        adam.step()
        with torch.no_grad():
            omega.weight.clamp_(min=0)


def fits(
    repetitions: int,
    simulations: int = SIMULATIONS,
    rounds: int = ROUNDS,
    starts: int = STARTS,
    steps: int = STEPS,
) -> list[Result]:
    """One stack of fits against as many single ones, for both forms of the AAM."""
    generator = torch.Generator().manual_seed(0)
    sizes = 2 * torch.rand(simulations, rounds, CLIENTS, generator=generator, dtype=torch.float64)
    quality = torch.rand(CLIENTS, generator=generator, dtype=torch.float64)
    accuracy = 1 - 0.9 * torch.exp(-(sizes @ quality).cumsum(1) / CLIENTS)
    results = []
    for form in ("linear", "hidden"):

        def stack(form: str = form) -> Tensor:
            return fm.fit_aam(sizes, accuracy, starts=starts, form=form, steps=steps).model.omega

        def single(form: str = form) -> Tensor:
            return fm.fit_aam(sizes, accuracy, form=form, steps=steps).model.omega

        def plain() -> None:
            fit_plainly(sizes, accuracy, steps)

        difference = float((stack()[0] - single()[0]).abs().max())  # the first starts are the same
        assert difference < 1e-9, f"stack and single fit differ by {difference}"
        sides = {"stack": cpu(stack), "fit_aam": cpu(single, starts)}
        if form == "linear":
            sides["torch.optim"] = cpu(plain, starts)
        seconds = interleave(sides, repetitions)
        for name, wanted in (("torch.optim", FITS), ("fit_aam", None)):
            if name in seconds:
                what = f"AAM, {form}, {starts} starts: {name} one by one / in one stack"
                found = ratios(seconds[name], seconds["stack"])
                results.append(Result(NAME, what, found, wanted))
    return results


def run(repetitions: int) -> list[Result]:
    """The simulator against the loop, three models; 32 fits in a stack against one by one."""
    found = [simulations(repetitions, widths, *how) for widths, how in WIDTHS.items()]
    return found + fits(repetitions)
