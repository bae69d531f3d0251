"""Cases: the federations that the book returns to, six invented clinics and four real hospitals.

*Methods* lists them. Each clinic has one property that is known, so a score can be judged by
what it says of a clinic. Nothing is known about the hospitals: they are the reality check. Builds
on data, deal and federation.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..parse import checks
from ..streams import stream
from .attacks import FreeRide
from .corrupt import FlipLabels
from .data import load
from .data.heart import HOSPITALS, restandardised
from .deal import Corruption
from .federation import Federation

CLINICS = ("Alder", "Birch", "Cedar", "Damson", "Elm", "Fir")
ALDER, BIRCH, CEDAR, DAMSON, ELM, FIR = range(6)
SERVER = 360  # samples for validation, and as many for the test


def six_clinics(
    seed: int = 0,
    *,
    alder: int = 300,
    damson: float = 0.5,
    elm_copies: bool = True,
    fir_trains: bool = False,
) -> Federation:
    """Six clinics read handwritten codes on forms; scikit-learn's digits stand in for the codes.

    Alder is large (300 samples), Birch small (60), and both are clean. Cedar is rare: 90 of its 150
    samples are eights and nines, which nobody else has. Damson is careless: half of its 150 labels
    are wrong. Elm holds a copy of Alder's first 150 samples. Fir is idle: it declares 150 samples,
    trains nothing, and sends noise of standard deviation 0.001.

    seed         decides who holds which samples; different seeds are different clinics
    alder        how many samples Alder holds, at least Elm's 150
    damson       share of Damson's labels that are wrong, in [0, 1]
    elm_copies   False: Elm holds 150 samples of its own, those that an idle Fir only declares
    fir_trains   True: Fir trains on its 150 samples, which are clean
    returns      ids 0..5 in the order of the alphabet; `names`, `notes` and `truth` say who is who;
                 360 validation and 360 test samples of all ten digits
    raises       ValueError or TypeError naming the argument

    The book's studies train 64-32-10 perceptrons with five local epochs a round, for 48 rounds.
    """
    copies, trains = checks.flag("elm_copies", elm_copies), checks.flag("fir_trains", fir_trains)
    damson = checks.number("damson", damson, 0, 1)
    if trains and not copies:
        raise ValueError(
            "elm_copies: expected True where fir_trains=True: the digits are too few for both"
        )
    data = load("digits")
    order = torch.randperm(len(data), generator=stream(seed, "clinics"))
    validation, test, others = order[:SERVER], order[SERVER : 2 * SERVER], order[2 * SERVER :]
    rare = others[data.y[others] >= 8]
    common = others[data.y[others] < 8]
    # Alder comes last, so that its size changes no other clinic's samples.
    small, few, careless, declared, rest = common.split([60, 60, 150, 150, len(common) - 420])
    alder = checks.whole("alder", alder, 150, len(rest))
    held = [
        rest[:alder],
        small,
        torch.cat([rare[:90], few]),
        careless,
        rest[:150] if copies else declared,
        declared,
    ]
    changed = Corruption([(data.x[ids], data.y[ids]) for ids in held], data.classes, seed)
    changed.apply({DAMSON: FlipLabels(damson)} | ({} if trains else {FIR: FreeRide(1e-3)}))
    fed = Federation.from_datasets(
        changed.samples,
        validation=(data.x[validation], data.y[validation]),
        test=(data.x[test], data.y[test]),
        classes=data.classes,
        name="six clinics",
    )
    notes = {
        ALDER: "large" if alder > 150 else "clean",
        BIRCH: "small",
        CEDAR: "rare: 90 eights and nines, which nobody else has",
        DAMSON: f"careless: {damson:.0%} of its labels are wrong" if damson else "clean",
        ELM: "a copy of Alder's first 150 samples" if copies else "clean",
        FIR: "clean" if trains else "idle: trains nothing, sends noise",
    }
    return replace(
        fed,
        truth=changed.truth,
        attacks=changed.attacks,
        noise=changed.noise,
        names=CLINICS,
        notes=notes,
    )


def four_hospitals(judged_by: str = "all", *, seed: int = 0) -> Federation:
    """Four real hospitals, as ``fm.load("heart")`` has them: who of their patients is ill?

    Each hospital trains on three fifths of its patients; a fifth of them may judge models during
    training, and a fifth after it. Measured columns have mean 0 and variance 1 over the patients
    that train; a value that is missing becomes 0, as if it were the mean.

    judged_by  whose patients the server holds for validation and for the test: "all", or one of
               "Cleveland", "Budapest", "Switzerland", "Long Beach"
    seed       decides which patients train and which judge
    returns    ids 0..3 in that order; 14 features, 2 classes; `notes` say what sets each apart
    raises     ValueError or TypeError naming the argument

    What a hospital did not record tells which one it is, and so how many of its patients are ill.
    """
    checks.choice("judged_by", judged_by, ("all", *HOSPITALS))
    data = load("heart", dtype=torch.float64)
    generator = stream(seed, "patients")
    dealt = []
    for hospital in range(len(HOSPITALS)):
        patients = (data.groups == hospital).nonzero()[:, 0]
        count = len(patients)
        shuffled = patients[torch.randperm(count, generator=generator)]
        dealt.append(shuffled.tensor_split([int(0.6 * count), int(0.8 * count)]))
    trains, validates, tests = zip(*dealt, strict=True)
    x = restandardised(data, torch.cat(trains)).float()

    def samples(ids: Tensor) -> tuple[Tensor, Tensor]:
        return x[ids], data.y[ids]

    judges = range(len(HOSPITALS)) if judged_by == "all" else [HOSPITALS.index(judged_by)]
    fed = Federation.from_datasets(
        [samples(ids) for ids in trains],
        validation=samples(torch.cat([validates[judge] for judge in judges])),
        test=samples(torch.cat([tests[judge] for judge in judges])),
        classes=data.classes,
        name="four hospitals" if judged_by == "all" else f"four hospitals, judged by {judged_by}",
    )
    notes = {}
    for client, ids in enumerate(trains):
        ill, missing = data.y[ids].double().mean(), data.missing[ids].double().mean()
        notes[client] = f"{ill:.0%} ill, {missing:.0%} of values missing"
    return replace(fed, names=HOSPITALS, notes=notes)
