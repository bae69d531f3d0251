"""Local training: what the clients of a round send, as many trained at once as the model allows.

``plain.py`` is the readable twin, one client after another; one training and many at once take this
same way. Perceptrons train in a stack by hand, each step one operation on all models, as chapter 1
derives; other modules in a stack by ``vmap``, and those that ``probe`` says must be asked alone one
by one. Minibatches are padded to one width (``Plan``); a padding sample weighs 0. Longer than other
files, so that all of a round's local work is read in one. Below: minibatches, model, alone. Above:
train, simulate.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..checks import reals
from ..streams import LOCK, no_denormals, one_thread, stream
from ..worlds.federation import Federation
from .alone import Alone
from .minibatches import LocalSGD, Plan, Shuffles
from .model import CACHE, Model

__all__ = ["LocalSGD", "Shuffles", "finite_rows", "train_rows"]

STACK = 5 << 20  # bytes of parameters trained in one stack: they stay in the cache
# Minibatch places whose tables are made at a time: all steps of most stacks.
TABLE = 1 << 20
TOO_LONG = 1e3  # an update is, at this many times the first model's length, or of 1 if that is less


def limit_of(theta: Tensor) -> float:
    """The greatest length of a usable update in a training that begins with ``theta`` [P]."""
    return TOO_LONG * max(1.0, float(torch.linalg.vector_norm(theta)))


def usable(updates: Tensor, limit: float) -> Tensor | None:
    """Which of some updates [m, P] count, [m] bool: finite, and no longer than ``limit``.

    None: all of them. No update is judged by those of other clients, of whom most may lie.
    """
    numbers = updates.flatten()
    # One fast pass over all of them; a NaN is below nothing.
    if float(numbers @ numbers) <= limit**2:
        return None
    lengths = torch.linalg.vector_norm(updates, dim=1, dtype=torch.float64).cpu()
    return None if (lengths <= limit).all() else lengths <= limit


class Participants(NamedTuple):
    """Who trains in a round: client ``client[i]`` of run ``run[i]``, on ``samples[i]``; all [R]."""

    run: Tensor
    client: Tensor
    samples: Tensor


def samples_used(fed: Federation, shares: Tensor) -> Tensor:
    """How many samples [..., K] the clients use at these shares [..., K]: rounded up, 0 for 0."""
    # A tenth of ten samples is one, in float32 too, where 0.1 is a little more than a tenth.
    fractional_counts = shares.double() * fed.sizes * (1 - 1e-7)
    counts = torch.ceil(fractional_counts).clamp_(max=fed.sizes).long()
    # A share of 1 is all; of more than ten million samples the factor above takes some away.
    counts = torch.where(shares >= 1, fed.sizes, counts)
    # A share above 0 is at least one sample, however small the client.
    counts[(shares > 0) & (counts == 0)] = 1
    counts[..., sorted(fed.unusable)] = 0
    return counts


def client_updates(
    fed: Federation,
    net: Model,
    thetas: Tensor,
    participants: Participants,
    shuffles: Shuffles,
    t: int,
    last_steps: Tensor,
    out: Tensor | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """What the participants [R] send in round ``t``, attacks included, one stack after another.

    thetas, last_steps [B, P]  the model of every run, and what its server added to it last
    out     [R, P] where the updates go; without it the next stack overwrites them, so that memory
            is bounded by a stack
    yields  (positions [rows] among the participants, updates [rows, P])
    """
    run, client, samples = participants
    if len(client) == 0:
        return
    pairs = torch.stack([client, samples], 1)
    entry = torch.arange(len(pairs))
    if len(thetas) > 1:  # many runs share a client's minibatches
        pairs, entry = torch.unique(pairs, dim=0, return_inverse=True)
    plan = shuffles.plan(t, *pairs.numpy().T)
    # Rows with equally many steps side by side leave no gaps in a stack; lexsort is stable.
    stack_order = torch.from_numpy(
        np.lexsort((-samples.numpy(), -plan.steps[entry].numpy()))
    )
    run, client, entry = run[stack_order], client[stack_order], entry[stack_order]
    in_order = torch.equal(stack_order, torch.arange(len(stack_order)))
    # Stacks write into slices of ``out``; in another order, rows are copied to their places below.
    place = out if in_order else None
    lr = shuffles.local.rate(t)
    stacks = train_rows(
        fed, net, thetas, run, entry, plan, lr, out=place, shuffles=shuffles
    )
    for stack_rows, updates in stacks:
        # In place, and before anything is copied: nobody sees what an attacker has trained.
        if fed.attacks:
            rows_of = client[stack_rows], last_steps, run[stack_rows]
            attack(fed, updates, *rows_of, shuffles.seed, t)
        if out is not None and not in_order:
            out[stack_order[stack_rows]] = updates
        yield stack_order[stack_rows], updates


def round_updates(
    fed: Federation,
    net: Model,
    theta: Tensor,
    ids: Tensor,
    shuffles: Shuffles,
    t: int,
    last_step: Tensor,
    memory: UpdateMemory | None = None,
) -> Tensor:
    """What the clients ``ids`` [m] send in round ``t`` of one training: updates [m, P]."""
    sizes = torch.from_numpy(shuffles.sizes[ids.numpy()])
    everybody = Participants(torch.zeros_like(ids), ids, sizes)
    # [m, P], filled stack by stack while the loop below runs the generator to its end
    updates = (memory or UpdateMemory()).lend(len(ids), theta)
    given = fed, net, theta[None], everybody, shuffles, t, last_step[None]
    with one_thread():
        for _ in client_updates(*given, out=updates):
            pass
    return updates


class UpdateMemory:
    """Memory for a round's updates; it serves again once nobody holds those of the round before.

    Fresh pages would cost a training of 100 clients a twentieth of its time
    """

    def __init__(self) -> None:
        self.rows = torch.empty(0, 0)
        self.lent: Callable[[], object] = lambda: None

    def lend(self, count: int, like: Tensor) -> Tensor:
        """Memory [count, P] for rows like ``like`` [P]."""
        # NumPy, whose array tells below who still holds the memory, has none on other devices.
        if like.device.type != "cpu" or like.dtype not in (torch.float32, torch.float64):
            return like.new_empty(count, len(like))
        fits = len(self.rows) >= count and self.rows.shape[1] == len(like)
        if self.lent() is not None or not fits:
            self.rows = like.new_empty(count, len(like))
        # Whatever views a strategy keeps, torch holds the array as long as one of them lives.
        array = self.rows[:count].numpy()
        self.lent = weakref.ref(array)
        return torch.from_numpy(array)


def attack(
    fed: Federation,
    updates: Tensor,
    ids: Tensor,
    last_steps: Tensor,
    run: Tensor,
    seed: int,
    t: int,
) -> None:
    """Let the attackers among the clients ``ids`` [m] change their rows of ``updates``, in place.

    run [m]  of which run each is, whose last step among ``last_steps`` [B, P] it knows
    """
    for client_id, attacker in fed.attacks.items():
        for row in (ids == client_id).nonzero().flatten().tolist():
            # Copies: an attack of anybody's own may work in place.
            honest, last_step = updates[[row]], last_steps[run[[row]]]
            # One stream a client and round: the same noise in every run.
            sent = attacker(honest, last_step, stream(seed, "attack", t, client_id))
            attack_name, shape = f"attack of client {client_id}", list(honest.shape)
            updates[row] = reals(
                attack_name, sent, shape, dtype=updates.dtype, finite=False
            )[0]


def train_rows(
    fed: Federation,
    net: Model,
    thetas: Tensor,
    run: Tensor,
    entry: Tensor,
    plan: Plan,
    lr: float,
    *,
    out: Tensor | None = None,
    shuffles: Shuffles | None = None,
) -> Iterator[tuple[slice, Tensor]]:
    """Train R rows, row r from ``thetas[run[r]]`` on the minibatches of entry ``entry[r]``.

    thetas [B, P]; run, entry [R], entries with more steps, then more samples first; lr step size
    out       [R, P] where the updates go; shuffles  whose working memory serves again
    yields    (slice of rows, updates [rows, P]) stack by stack; without ``out`` the next stack
              overwrites the updates, so memory is bounded by a stack, not by R
    """
    with no_denormals():
        at_once = rows_at_once(fed, net, plan, len(run))
        stack = shuffles.stack if shuffles else None
        if stack is None or stack.net is not net or stack.most < at_once:
            stack = new_stack(fed, net, thetas, plan, at_once)
        if shuffles:
            shuffles.stack = stack
        stack.begin_round(plan, lr)
        for low in range(0, len(run), at_once):
            rows = slice(low, low + at_once)
            part = None if out is None else out[rows]
            yield rows, stack.train(thetas, run[rows], entry[rows], part)


def rows_at_once(fed: Federation, net: Model, plan: Plan, rows: int) -> int:
    """How many of the rows the cache holds: their parameters, and what a step keeps."""
    number = fed.x.element_size()
    fitting = STACK // (net.P * number)
    # Autograd keeps activations until the backward pass, and the cache has to hold them as well.
    by_hand = net.layers and net.objective.given_loss is None
    if not by_hand and (kept := net.numbers_per_sample(fed.x, training=True)):
        batch = plan.blocks.shape[1]
        fitting = min(fitting, CACHE // (kept * batch * number))
    # One at least: a model may be larger than the cache.
    return min(rows, max(1, fitting))


def new_stack(
    fed: Federation, net: Model, like: Tensor, plan: Plan, most: int
) -> Stack | Alone:
    """Working memory for ``most`` rows, of the kind that the model needs."""
    batch = plan.blocks.shape[1]
    # By hand is the gradient of cross-entropy.
    if net.layers and net.objective.given_loss is None:
        return PerceptronStack(net, fed, like, most, batch)
    if net.numbers_per_sample(fed.x, training=True):
        return ModuleStack(net, fed, like, most, batch)
    return Alone(net, fed, like, most)


def finite_rows(updates: Tensor) -> Tensor:
    """Which rows [m] of updates [m, P] hold no NaN and no infinite value."""
    if updates.numel() == 0:
        return torch.ones(len(updates), dtype=torch.bool)
    # a finite sum has finite terms: one fast pass
    finite = torch.isfinite(updates.sum(1))
    if not finite.all():  # a sum may overflow: look again at every value
        # Minimum and maximum of a row with a NaN are NaN, so the two ends tell of all values.
        finite = torch.isfinite(updates.amin(1)) & torch.isfinite(updates.amax(1))
    return finite


class Stack:
    """Working memory in which up to ``most`` models of a kind are trained at once.

    A subclass says what a step does with some of the rows. ``parameters`` holds one tensor
    [most, *shape] for each of the module's, as products want them.
    """

    def __init__(self, net: Model, fed: Federation, like: Tensor, most: int, batch: int):
        self.net, self.most = net, most
        self.x, self.y = fed.x, fed.y
        self.flat = like.new_empty(most, net.P)
        self.parameters = [like.new_empty(most, *shape) for shape in net.shapes.values()]

    def begin_round(self, plan: Plan, lr: float) -> None:
        """Go on with the minibatches of another round."""
        self.plan, self.blocks = plan, plan.blocks.to(self.x.device)
        is_real = torch.arange(plan.blocks.shape[1]) < plan.fill[:, None]
        # [S, batch]: lr / b for each of the b samples of a minibatch. The gradient of the losses,
        # weighed by these and summed, is that of their mean times lr: the whole step.
        # The step size of every sample, 0 for padding.
        step_sizes = is_real / plan.fill[:, None].double() * lr
        self.step_sizes = step_sizes.to(self.flat)

    @torch.no_grad()
    def train(
        self, thetas: Tensor, run: Tensor, entry: Tensor, out: Tensor | None
    ) -> Tensor:
        """All SGD steps from ``thetas[run]`` on the plan's entries; returns updates [rows, P].

        out  [rows, P] where the updates go; None: to memory that the next call overwrites
        """
        updates = self.flat[: len(run)] if out is None else out
        # The memory of the updates holds the starts, until the last loop subtracts them there.
        if len(thetas) > 1:
            thetas = torch.index_select(thetas, 0, run.to(thetas.device), out=updates)
        starts = self.net.parts.split(thetas)  # one row for all, or one each
        pairs = zip(self.parameters, starts, strict=True)
        # [1 or R, *shape] -> [R, *shape]: a copy for every row, in memory that is used again
        trained = [parameter[: len(run)].copy_(start) for parameter, start in pairs]
        prepared: dict[tuple[int, int], Any] = {}
        for low, high, tables in self._steps(
            self.plan.first[entry], self.plan.steps[entry]
        ):
            if (low, high) not in prepared:
                prepared[low, high] = self.prepare([part[low:high] for part in trained])
            self.step(prepared[low, high], *tables)
        for end, start, update in zip(
            trained, starts, self.net.parts.split(updates), strict=True
        ):
            torch.sub(end, start, out=update)
        return updates

    def prepare(self, parameters: list[Tensor]) -> Any:
        """What a step needs of the parameters [rows, *shape] of some rows: views, made once."""
        raise NotImplementedError

    def step(
        self, prepared: Any, index: Tensor, labels: Tensor, step_sizes: Tensor
    ) -> None:
        """One minibatch of some rows: samples, their labels and step sizes, each [rows, batch]."""
        raise NotImplementedError

    def _steps(
        self, first: Tensor, steps: Tensor
    ) -> Iterator[tuple[int, int, list[Tensor]]]:
        """Which rows (low, high) step next, and the three tables of their minibatches."""
        rows, batch = len(first), self.blocks.shape[1]
        window = max(1, TABLE // (rows * batch))
        # The first row has most steps.
        for step in torch.arange(int(steps[0])).split(window):
            # A row that is done repeats its last block here, and takes no step with it.
            at = first + torch.minimum(step[:, None], steps - 1)  # [s, R]
            # Rows with more steps come first, so that a count tells which of them still step.
            active = (steps > step[:, None]).sum(1).tolist()
            runs = runs_of_steps(self.plan.fill[at].numpy(), active)
            at = at.flatten().to(self.x.device)
            index = self.blocks.index_select(0, at)  # [s * R, batch]
            labels = self.y.index_select(0, index.flatten())
            labels = labels.unflatten(0, index.shape)
            step_sizes = self.step_sizes.index_select(0, at)
            # [s * R, batch, ...] -> s tables [R, batch, ...], one a step
            tables = [
                table.unflatten(0, (len(step), rows)).unbind()
                for table in (index, labels, step_sizes)
            ]
            for runs_of_step, *of_step in zip(runs, *tables, strict=True):
                for low, high, width in runs_of_step:
                    everything = high - low == rows and width == batch
                    cut = (
                        of_step
                        if everything
                        else [part[low:high, :width] for part in of_step]
                    )
                    yield low, high, cut


class PerceptronStack(Stack):
    """Stacks of Linear and ReLU layers, by hand: gradient and step are one product, W -= g' h.

    Hidden layers lie sample by sample, [R, b, out]; the class scores lie class by class,
    [R, classes, b]: products and softmax are faster so.
    """

    def __init__(self, net: Model, fed: Federation, like: Tensor, most: int, batch: int):
        super().__init__(net, fed, like, most, batch)
        self.x = fed.x.flatten(1)
        # [most * batch, d]: every step gathers its samples into the same memory
        self.inputs = like.new_empty(most * batch, self.x.shape[1])

    def prepare(self, parameters: list[Tensor]) -> list[tuple[Tensor, ...]]:
        """Of each layer: weight [R, out, in] and turned, bias [R, out, 1] and [R, 1, out]."""
        pairs = zip(parameters[0::2], parameters[1::2], strict=True)
        return [
            (weight, weight.transpose(1, 2), bias[:, :, None], bias[:, None, :])
            for weight, bias in pairs
        ]

    def step(
        self, layers: Any, index: Tensor, labels: Tensor, step_sizes: Tensor
    ) -> None:
        rows, batch = index.shape
        # [R, b] -> [R * b], and [R, b] -> [R, 1, b] against the classes of g
        index, step_sizes = index.reshape(-1), step_sizes[:, None]
        inputs = torch.index_select(self.x, 0, index, out=self.inputs[: len(index)])
        h = [inputs.view(rows, batch, -1)]
        *hidden, (weight, _, bias, _) = layers
        for _, turned, _, bias_row in hidden:
            h.append(torch.baddbmm(bias_row, h[-1], turned).relu_())  # [R, b, out]
        # [R, classes, b]
        g = torch.baddbmm(bias, weight, h[-1].transpose(1, 2)).softmax(1)
        # The derivative of a cross-entropy by the scores is softmax - one-hot, here times lr / b.
        g.mul_(step_sizes).scatter_add_(1, labels[:, None], -step_sizes)
        for (weight, _, bias, _), below in zip(layers[::-1], h[::-1], strict=True):
            # Before the weight moves: the chain rule wants it as it was in the forward pass.
            back = None if below is h[0] else torch.bmm(g.transpose(1, 2), weight)
            # [R, out, b] @ [R, b, in] -> [R, out, in], the sum over the minibatch
            weight.baddbmm_(g, below, alpha=-1)
            bias.sub_(g.sum(2, keepdim=True))
            if back is not None:
                # Back through ReLU: where it put out 0, its slope is 0.
                torch.ops.aten.threshold_backward.grad_input(
                    back, below, 0, grad_input=back
                )
                g = back.transpose(1, 2)


class ModuleStack(Stack):
    """Any module that ``vmap`` can ask in a stack: forward by ``vmap``, gradients by autograd.

    The gradient of the rows' summed losses holds every row's own gradient: no row's loss depends on
    another row's parameters. So one backward pass, outside of ``vmap``, serves them all.
    """

    def train(
        self, thetas: Tensor, run: Tensor, entry: Tensor, out: Tensor | None
    ) -> Tensor:
        # For all steps: between two, another thread could put the shared module into eval mode.
        with LOCK:
            self.net.module.train()
            return super().train(thetas, run, entry, out)

    def prepare(self, parameters: list[Tensor]) -> list[Tensor]:
        """Leaves for autograd that share their memory with the parameters."""
        return [parameter.detach().requires_grad_() for parameter in parameters]

    def step(
        self, leaves: Any, index: Tensor, labels: Tensor, step_sizes: Tensor
    ) -> None:
        # The step itself is no part of the graph, so autograd is on for the losses only.
        with torch.enable_grad():
            outputs = self.net.stacked_scores(leaves, self.x[index])  # [R, b, ...]
            loss = self.net.objective.step_loss(outputs, labels, step_sizes)
            # A parameter that no score depends on gets zeros, and without the option None.
            gradients = torch.autograd.grad(loss, leaves, materialize_grads=True)
        for leaf, gradient in zip(leaves, gradients, strict=True):
            leaf.sub_(gradient)


def runs_of_steps(
    fill: np.ndarray, active: list[int]
) -> list[list[tuple[int, int, int]]]:
    """Of every step the runs of rows (low, high, width) that take it together.

    fill [s, R]  samples of each row's minibatch; active [s]  how many rows, from the first, take it
    """
    if (fill == fill[0, 0]).all():
        return [[(0, rows, int(fill[0, 0]))] for rows in active]
    return [alike(row[:rows]) for row, rows in zip(fill, active, strict=True)]


def alike(
    fill: np.ndarray, least: int = 16, grain: int = 8
) -> list[tuple[int, int, int]]:
    """Cut rows into runs (low, high, width) of similarly full minibatches.

    fill [R]  samples of each row's minibatch; a run's width is the largest of its rows, so short
    minibatches of small clients are not computed at full length; runs have ``least`` rows or more
    """
    # Filled places are counted in grains, rounded up: not every sample more begins a run.
    cuts = np.flatnonzero(np.diff(-(-fill // grain))) + 1
    runs, low = [], 0
    for cut in [*cuts.tolist(), len(fill)]:
        if cut == len(fill) or (cut - low >= least and len(fill) - cut >= least):
            runs.append((low, cut, int(fill[low:cut].max())))
            low = cut
    return runs
