"""The AAM as plain PyTorch writes it: padded inputs, nn.Linear layers, torch.optim.Adam."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import fedlab_mini as fm

NODES = 10
every_form = pytest.mark.parametrize("form", ["linear", "hidden"])


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Uniform numbers in (0, 1), float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


def random_parts(fits: int, rounds: int, clients: int, seed: int = 0) -> list[Tensor]:
    """omega, w1, b1, w2, b2 of random AAMs, of either sign."""
    shapes = ((fits, clients), (fits, NODES, rounds), (fits, NODES), (fits, NODES), (fits,))
    return [3 * drawn(*shape, seed=9 * seed + i) - 1.5 for i, shape in enumerate(shapes)]


def padded(sizes: Tensor) -> Tensor:
    """Every round of every simulation [S, R, K] as an input of its own [S * R, R, K]."""
    simulations, rounds, clients = sizes.shape
    rows = []
    for s in range(simulations):
        for r in range(rounds):
            row = torch.zeros(rounds, clients, dtype=sizes.dtype)
            row[: r + 1] = sizes[s, : r + 1]
            rows.append(row)
    return torch.stack(rows)


class PlainAAM(nn.Module):
    """One AAM in plain PyTorch: padded inputs [N, R, K] -> accuracy [N]."""

    def __init__(self, model: fm.methods.AAM, f: int):
        super().__init__()
        clients, rounds = model.omega.shape[1], model.w1.shape[2]
        self.form = model.form
        self.quality = nn.Linear(clients, 1, bias=False)
        self.first, self.last = nn.Linear(rounds, NODES), nn.Linear(NODES, 1)
        self.double()
        given = (model.omega, model.w1, model.b1, model.w2, model.b2)
        for own, part in zip(self.parameters(), given, strict=True):
            own.data.copy_(part[f])

    def forward(self, rows: Tensor) -> Tensor:
        x = self.quality(rows)[:, :, 0]  # X [N, R]
        if self.form == "linear":
            return self.last(self.first(x.sigmoid()))[:, 0]
        return self.last(self.first(x).sigmoid())[:, 0]


def fit_plainly(
    plain: PlainAAM, sizes: Tensor, accuracy: Tensor, steps: int, lr: float
) -> list[float]:
    """Adam on the mean squared error, omega clamped after every step; the loss of every step."""
    rows, targets = padded(sizes), accuracy.flatten()
    optimiser, losses = torch.optim.Adam(plain.parameters(), lr=lr), []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(plain(rows), targets)
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            plain.quality.weight.clamp_(min=0)
        losses.append(loss.item())
    return losses


# --- the function --------------------------------------------------------------------------------


@every_form
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 6, 4)])
def test_the_aam_is_linear_layers_on_padded_inputs(form, shape):
    sizes = 2 * drawn(*shape)
    model = fm.methods.AAM(*random_parts(3, *shape[1:]), form=form)
    found = model(sizes)
    for f in range(3):
        wanted = PlainAAM(model, f)(padded(sizes)).detach().view(shape[:2])
        torch.testing.assert_close(found[f], wanted, rtol=0, atol=1e-10)


# --- linear nodes collapse -----------------------------------------------------------------------


def test_linear_nodes_collapse_to_one_number_a_round():
    """A guess is c plus a_r times the sigmoid of round r's sizes, above one half."""
    sizes = 2 * drawn(6, 5, 3)
    model = fm.methods.AAM(*random_parts(2, 5, 3), form="linear")
    a, c = model.collapsed()
    x = torch.einsum("src,fc->fsr", sizes, model.omega)
    centred = 1 / (1 + (-x).exp()) - 0.5
    wanted = c[:, None, None] + (a[:, None] * centred).cumsum(2)
    torch.testing.assert_close(model(sizes), wanted, rtol=0, atol=1e-12)


# --- slope ---------------------------------------------------------------------------------------


@every_form
def test_slope_times_quality_is_what_one_more_unit_brings(form):
    omega, *above = random_parts(2, 4, 3)
    omega = omega.abs()
    omega[0, 1] = 0
    model = fm.methods.AAM(omega, *above, form=form)
    nobody = fm.methods.AAM(0 * omega, *above, form=form)
    assert not nobody.slope(drawn(5, 4, 3)).any()
    sizes, h = drawn(5, 4, 3), 1e-5
    last, slope = (lambda x: model(x)[..., -1].mean(1)), model.slope(sizes)
    for k in range(3):
        gained = torch.zeros(2, dtype=torch.float64)
        for r in range(4):
            more = torch.zeros_like(sizes)
            more[..., r, k] = h
            gained += (last(sizes + more) - last(sizes - more)) / (2 * h) / 4
        torch.testing.assert_close(slope * omega[:, k], gained, rtol=0, atol=1e-8)


# --- fitting -------------------------------------------------------------------------------------


@every_form
@pytest.mark.parametrize("start", ["random", "equal"])
def test_a_stack_of_fits_is_plain_adam_on_each_ones_simulations(form, start):
    sizes = 2 * drawn(8, 4, 3)
    accuracy = 0.5 + 0.1 * (sizes @ torch.tensor([0.8, 0.3, -0.8]).double()).cumsum(1)
    used = torch.ones(3, 8)
    used[1, 5:], used[2, [0, 3, 4]] = 0, 0
    options = {"form": form, "start": start, "used": used, "seed": 5}
    # before all steps
    begun = fm.methods.fit_aam(sizes, accuracy, steps=1, lr=1e-300, **options).model
    fit = fm.methods.fit_aam(sizes, accuracy, steps=60, lr=0.05, every=1, **options)
    for f in range(3):
        plain, seen = PlainAAM(begun, f), used[f].bool()
        losses = fit_plainly(plain, sizes[seen], accuracy[seen], 60, 0.05)
        model = fit.model
        found = (model.omega, model.w1, model.b1, model.w2, model.b2)
        for mine, other in zip(found, plain.parameters(), strict=True):
            torch.testing.assert_close(mine[f], other.detach().view_as(mine[f]), rtol=0, atol=1e-9)
        assert fit.loss[:, f].tolist() == pytest.approx(losses, abs=1e-9)
        assert torch.equal(fit.omega[-1, f], fit.model.omega[f])
    assert float(fit.omega.min()) == 0  # more of the third client's data lowers the accuracy
    assert not torch.equal(begun.w1[0], begun.w1[1])
