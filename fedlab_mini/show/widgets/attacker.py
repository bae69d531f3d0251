"""AttackerExplorer: Fir does no work. What is it paid, and who is named? Chapter 13 shows it."""

from __future__ import annotations

import torch
import traitlets
from torch import Generator, Tensor, nn

from ...engine.model import Model
from ...engine.rounds import Round, Server
from ...games.round_tables import round_table
from ...games.shapley import exact
from ...methods.cgsv import cosines
from ...methods.defences import Detector, Duplicates, LastStep, Norms, ServersGradient
from ...methods.fedccea import contribution_index
from ...methods.numerics import median_sent
from ...worlds.attacks import AtMedianLength, CopyOf, Disguise, FreeRide, Known, Replay
from .base import Explorer, Numbers, by_name, floats, program, style

NAMES = ["Alder", "Birch", "Cedar", "Damson", "Elm", "Fir"]
FIR = 5
OWN = "own arrow"
F64 = torch.float64
ATTACKS = {
    "zeros": FreeRide(0.0),
    "replay": Replay(),
    "replay, median length": AtMedianLength(Replay()),
    "copy of Alder": CopyOf(0),
    "disguise": Disguise(),
}
DETECTORS = ["last step", "duplicates", "norms", "server's gradient"]
SIDE = 1  # a seed: of the two sides that a disguise has in a plane, the left one


class AttackerExplorer(Explorer):
    """The six clinics' updates in a plane: Fir does no work, and chooses what it sends.

    sends    an attack by its name, such as "replay" or "disguise", or "own arrow"
    arrow    [2]  what Fir sends as its own arrow
    watched  [4]  which detectors name clients: last step, duplicates, norms, server's gradient
    limits   [4]  their limits
    updates  [5, 2] of Alder to Elm; sizes [6]; last_step [2] of the server; target [2]: the loss is
             half the squared distance from it, and the model stands at 0
    """

    _esm = program("kit", "attacker")
    _css = style("kit") + style("attacker")
    hides = ("named by", "honest named", "named with Fir")
    sends = traitlets.Enum([*ATTACKS, OWN], "disguise").tag(sync=True)
    arrow = floats(0.9, 0.42)
    watched = traitlets.List(traitlets.Bool(), [True, False, False, False]).tag(sync=True)
    limits = floats(0.95, 0.99, 3.0, 0.0)
    # Made up: Alder long, Birch short, Cedar sideways, Damson off, and Elm close to Alder.
    updates = traitlets.List(
        traitlets.List(traitlets.Float()),
        [[0.97, -0.39], [0.26, -0.31], [0.26, 1.22], [-0.5, 0.07], [0.52, -0.34]],
    ).tag(sync=True)
    sizes = floats(300, 60, 150, 150, 150, 150)
    last_step = floats(0.5, 0)
    target = floats(0.026, 0.3)

    def round(self) -> Round:
        """The round of all six, with what Fir sends."""
        step = torch.tensor(self.last_step, dtype=F64)
        rows = torch.tensor([*self.updates, [0.0, 0.0]], dtype=F64)
        rows[FIR] = torch.tensor(self.arrow, dtype=F64)
        clients, nothing = torch.arange(len(NAMES)), torch.zeros_like(step)
        if self.sends != OWN:
            generator = Generator().manual_seed(SIDE)
            known = Known(2, FIR, nothing, step, clients, rows, rows, clients, {}, generator)
            rows[FIR] = ATTACKS[self.sends].sends(known)
        return Round(2, nothing, clients, torch.tensor(self.sizes, dtype=F64), rows)

    def server(self) -> Server:
        """A server with two samples, on which the squared error of a linear model is the loss."""
        net = Model(nn.Linear(2, 1, bias=False), loss=nn.MSELoss())
        samples = torch.eye(2, dtype=F64), torch.tensor(self.target, dtype=F64)[:, None]
        return Server(len(NAMES), 0, net, samples, 0)

    def detectors(self) -> list[Detector]:
        """The four detectors with their limits."""
        last, pair, factor, down = self.limits
        return [LastStep(last), Duplicates(pair), Norms(factor), ServersGradient(down)]

    def suspicion(self, round: Round) -> Tensor:
        """How suspicious each client is to each detector, [4, 6]; who exceeds a limit is named."""
        rows, step = round.updates, torch.tensor(self.last_step, dtype=F64)
        pairs = torch.stack([cosines(rows, row) for row in rows]).fill_diagonal_(-1)
        lengths = rows.norm(dim=1)
        ratios = lengths / median_sent(lengths)
        down = cosines(rows, torch.tensor(self.target, dtype=F64))
        return torch.stack(
            [cosines(rows, step), pairs.amax(1), torch.maximum(ratios, 1 / ratios), -down]
        )

    def numbers(self) -> Numbers:
        round, server = self.round(), self.server()
        whole = round.sizes / round.sizes.sum() @ round.updates
        before = {"theta": round.theta - torch.tensor(self.last_step, dtype=F64)}
        # [4, 6]
        named = torch.stack([
            detector.suspects(server, dict(before), round) & watched
            for detector, watched in zip(self.detectors(), self.watched, strict=True)
        ])  # fmt: skip
        accused = named[:, :FIR].double().sum(1)
        accused[~torch.tensor(self.watched)] = torch.nan
        suspicion, table = self.suspicion(round), round_table(round, server, "loss", "silent")
        # The tolerance is for a disguise, which is as suspicious as one of the others.
        before_fir = suspicion[:, :FIR] >= suspicion[:, FIR:] - 1e-9
        shares = {
            "mean cosine": contribution_index(cosines(round.updates, whole)),
            "silent Shapley": contribution_index(exact(table).values),
            "size": contribution_index(round.sizes),
        }
        return {
            **by_name(NAMES, {**shares, "named by": named.double().sum(0)}),
            **by_name(DETECTORS, {
                "limit": self.limits, "honest named": accused,
                "named with Fir": before_fir.double().sum(1),
            }),
        }  # fmt: skip
