"""Claims about attackers and defences, all the book's own, and the metrics derived for them.

Below: case_claims, results. Above: adversaries (the studies), chapter 13.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from .case_claims import says
from .results import HOLDS, Results
from .study import Claim

OUTSCORED, SHARE, NAMED = "honest outscored", "share of the pay", "rounds named"
GAINED = "share gained"
SCORES = (
    *("mean cosine", "class cosine", "CGSV", "trust cosine", "F-RCCE", "FLDVE"),
    *("S-FedAvg's relevance", "alone", "Shapley", "Shapley, silent", "second order"),
    "leave one out",
)
LISTED = (  # as figures list them
    *("nobody attacks", "zeros", "sign flip", "noise, median length", "replay"),
    *("replay, noisy", "replay, median length", "predicted step", "disguise", "copy"),
    *("scale x5", "withheld", "against another", "two names, shared", "two names, copied"),
    *(f"labels, {share} wrong" for share in ("10%", "30%", "70%")),
)
DETECTORS = ("last step", "norms", "duplicates", "server's gradient", "FoolsGold")
ATTACKED = {  # as tables of detectors head them
    "disguise": "disguise",
    "replay": "replay",
    "replay, noisy": "noisy replay",
    "noise, median length": "noise",
    "scale x5": "boost",
    "predicted step": "prediction",
    "copy": "copy",
    "two names, copied": "two names",
}
COLUMNS = ("mean cosine", "class cosine", "CGSV", "Shapley", "Shapley, silent", "leave one out")
ROWS = {  # as the chapter's figure lists them
    "nobody attacks": "nobody attacks",
    "zeros": "zeros",
    "noise, median length": "noise, median length",
    "replay": "replay",
    "predicted step": "prediction",
    "replay, median length": "replay, median length",
    "disguise": "disguise",
    "scale x5": "boost",
}
ACCUSED, MEAN, SILENT = "honest accused", "mean cosine", "Shapley, silent"
SPLITS = ("similar", "skewed")
LAST, GRADIENT, GOLD = "last step", "server's gradient", "FoolsGold"
NAMES = {"Elm twice": "Elm", "Alder as two": "Alder"}


def gained(results: Results) -> Iterator[tuple[str, str, str, Tensor]]:
    """What an attack adds to a share of the pay, beside the same run without the attack."""
    for scenario, method, metric in results.places:
        case, _, clinic = scenario.partition(", ")
        split, _, attack = scenario.partition(": ")
        before = f"Fir is idle, {clinic}" if NAMES.get(case) == clinic else ""
        if split in SPLITS and attack != "nobody attacks":
            before = f"{split}: nobody attacks"
        if metric == SHARE and before and results.has(SHARE, method, before):
            more = results.minus(SHARE, (method, scenario), (method, before))
            yield scenario, method, GAINED, more


def fools(attack: str, score: str, split: str, **bounds: float) -> Claim:
    """A claim about the share of honest clients that score less than the attacker."""
    told = f"By {score}, {attack} outscores"
    side = "more" if "above" in bounds else "less"
    bound = next(iter(bounds.values()))
    sentence = f"{told} {side} than {bound:g} of the honest clients, with {split} label mixes"
    return says(sentence, OUTSCORED, score, at=f"{split}: {attack}", **bounds)


OF_ATTACKS: dict[str, Claim] = {
    # What a free rider gets by looking busy.
    "replay, similar": fools("replay", MEAN, "similar", above=0.65),
    "replay, skewed": fools("replay", MEAN, "skewed", above=0.65),
    "replay, class": fools("replay", "class cosine", "skewed", above=0.65),
    "replay, CGSV": fools("replay", "CGSV", "skewed", above=0.65),
    "replay, trust": fools("replay", "trust cosine", "skewed", above=0.5),
    "replay, alone": fools("replay", "alone", "skewed", above=0.65),
    "replay, Shapley": fools("replay", "Shapley", "skewed", above=0.65),
    "replay, silent": says(
        "The silent Shapley value ranks a replay lower than the mean cosine does, skewed",
        OUTSCORED, SILENT, MEAN, "skewed: replay", below=-0.2,
    ),
    "replay, leave one out": says(
        "So does leave-one-out", OUTSCORED, "leave one out", MEAN, "skewed: replay", below=-0.3,
    ),
    "replay, silent, similar": says(
        "The silent Shapley value ranks a replay lower than the mean cosine does, similar",
        OUTSCORED, SILENT, MEAN, "similar: replay", below=-0.3,
    ),
    "longer, silent": says(
        "At the median length a replay rises by the silent Shapley value",
        OUTSCORED, (SILENT, "skewed: replay, median length"), (SILENT, "skewed: replay"),
        above=0.05,
    ),
    **{
        f"longer, {score}, {split}": fools("replay, median length", score, split, above=bound)
        for split, bound in (("similar", 0.65), ("skewed", 0.4))
        for score in (SILENT, "leave one out")
    },
    "prediction": says(
        "A predicted step ranks no higher than a replay by the silent Shapley value, skewed",
        OUTSCORED, (SILENT, "skewed: predicted step"), (SILENT, "skewed: replay"), below=0.05,
    ),
    "prediction, similar": says(
        "A predicted step ranks lower than a replay by the mean cosine, similar",
        OUTSCORED, (MEAN, "similar: predicted step"), (MEAN, "similar: replay"), below=-0.1,
    ),
    # No work at all.
    "zeros, Shapley": says(
        "Zeros rank higher by the Shapley value than by that of the silent game, skewed",
        OUTSCORED, "Shapley", SILENT, "skewed: zeros", above=0.2,
    ),
    "zeros, alone": fools("zeros", "alone", "skewed", above=0.65),
    "zeros, silent": fools("zeros", SILENT, "skewed", below=0.35),
    "zeros, leave one out": fools("zeros", "leave one out", "skewed", below=0.35),
    "noise, Shapley": says(
        "So does noise at the median length",
        OUTSCORED, "Shapley", SILENT, "skewed: noise, median length", above=0.2,
    ),
    "noise, silent": fools("noise, median length", SILENT, "skewed", below=0.35),
    "sign flip, Shapley": fools("sign flip", "Shapley", "skewed", below=0.35),
    # A client that works, and boosts its work.
    "boost, silent": fools("scale x5", SILENT, "similar", above=0.5),
    "boost, leave one out": fools("scale x5", "leave one out", "similar", above=0.5),
    "boost, Shapley": fools("scale x5", "Shapley", "similar", below=0.35),
    "boost, silent, skewed": fools("scale x5", SILENT, "skewed", below=0.4),
    "boost, mean, similar": fools("scale x5", MEAN, "similar", above=0.65),
    "boost, mean, skewed": fools("scale x5", MEAN, "skewed", above=0.5),
    "disguise, class": fools("disguise", "class cosine", "skewed", above=0.3),
    "disguise, trust": fools("disguise", "trust cosine", "skewed", below=0.5),
    # Detectors.
    **{
        f"{LAST}, {attack}": says(
            f"*Last step* names {attack}", "F1", LAST, at=f"skewed: {attack}", above=0.65
        )
        for attack in ("replay", "replay, noisy", "replay, median length")
    },
    "disguised": says(
        "*Last step* does not name a disguise", "F1", LAST, at="skewed: disguise", below=0.35
    ),
    "predicted": says(
        "*Last step* does not name a predicted step",
        "F1", LAST, at="skewed: predicted step", below=0.35,
    ),
    **{
        f"boost, norms, {split}": says(
            f"*Norms* names a boost, {split}", "F1", "norms", at=f"{split}: scale x5", above=bound
        )
        for split, bound in (("similar", 0.65), ("skewed", 0.4))
    },
    "copies, both": says(
        "*Duplicates* names a copy, and its original as well",
        "F1", "duplicates", at="skewed: copy", above=0.4, below=0.8,
    ),
    **{
        f"innocent, {detector}, {split}": says(
            f"*{detector}* accuses less than a third of the clients if nobody attacks, {split}",
            ACCUSED, detector, at=f"{split}: nobody attacks", below=0.35,
        )
        for detector in (LAST, "duplicates", "norms")
        for split in SPLITS
    },
    "gold, similar": says(
        "*FoolsGold* accuses honest clients with similar label mixes",
        ACCUSED, GOLD, at="similar: nobody attacks", above=0.02,
    ),
    "median costs": says(
        "Under label skew the median costs accuracy if nobody attacks",
        "accuracy", "median", "FedAvg", "skewed: nobody attacks", below=-0.05,
    ),
}  # fmt: skip

OF_CLINICS: dict[str, Claim] = {
    "busy, mean": says(
        "A replay earns Fir more than .3 of the pay by the mean cosine",
        SHARE, MEAN, at="Fir: replay, Fir", above=0.3,
    ),
    "busy, class": says(
        "And by the class cosine", SHARE, "class cosine", at="Fir: replay, Fir", above=0.3
    ),
    "busy, CGSV": says(
        "By CGSV it earns Fir more than .08", SHARE, "CGSV", at="Fir: replay, Fir", above=0.08
    ),
    "busy, silent": says(
        "By the silent Shapley value it earns Fir something, but less than .15",
        SHARE, SILENT, at="Fir: replay, Fir", above=0.02, below=0.15,
    ),
    "busy, leave one out": says(
        "By leave-one-out it earns Fir less than by the mean cosine",
        SHARE, "leave one out", MEAN, "Fir: replay, Fir", below=-0.3,
    ),
    "busier than work, silent": says(
        "By the silent Shapley value, too",
        SHARE, (SILENT, "Fir: replay, Fir"), (SILENT, "Fir trains, Fir"), above=0.02,
    ),
    "noisier than work": says(
        "By the mean cosine noise at the median length earns Fir more than honest work",
        SHARE, (MEAN, "Fir: noise, median length, Fir"), (MEAN, "Fir trains, Fir"), above=0.03,
    ),
    "idle, mean": says(
        "Idle, Fir earns less than .1 by the mean cosine",
        SHARE, MEAN, at="Fir is idle, Fir", below=0.1,
    ),
    "busier than work": says(
        "By the mean cosine a replay earns Fir more than honest work",
        SHARE, (MEAN, "Fir: replay, Fir"), (MEAN, "Fir trains, Fir"), above=0.1,
    ),
    "prediction, clinics": says(
        "A predicted step earns Fir no more than a replay by the mean cosine",
        SHARE, (MEAN, "Fir: predicted step, Fir"), (MEAN, "Fir: replay, Fir"), below=0.02,
    ),
    "momentum": says(
        "A replay at the median length makes the model better than an idle Fir does",
        "accuracy", ("FedAvg", "Fir: replay, median length"), ("FedAvg", "Fir is idle"),
        above=0.01,
    ),
    # The arms race.
    "move 2": says(
        "Behind *last step* a replay earns Fir less than before by the mean cosine",
        SHARE, (MEAN, "2: the trust looks at its last step, Fir"), (MEAN, "1: Fir replays, Fir"),
        below=-0.3,
    ),
    "move 3, noise": says(
        "With noise of half a step Fir earns more than .3 again",
        SHARE, MEAN, at="3: Fir adds noise, Fir", above=0.3,
    ),
    "move 3, disguise": says(
        "In a disguise Fir earns more than .2",
        SHARE, MEAN, at="3: Fir disguises itself, Fir", above=0.2,
    ),
    "disguise, last step": says(
        "*Last step* names a disguise in fewer rounds than a replay",
        NAMED, (LAST, "Fir: disguise, Fir"), (LAST, "Fir: replay, Fir"), below=-0.3,
    ),
    # Several names, and a push.
    "Elm twice, mean": says(
        "By the mean cosine a second name raises Elm's share by more than .1",
        GAINED, MEAN, at="Elm twice, Elm", above=0.1,
    ),
    "Elm twice, CGSV": says(
        "By CGSV, too", GAINED, "CGSV", at="Elm twice, Elm", above=0.1
    ),
    "Elm twice, duplicates": says(
        "*Duplicates* names both of Elm's names", "F1", "duplicates", at="Elm twice", above=0.65
    ),
    "Alder as two, duplicates": says(
        "*Duplicates* does not name both of Alder's names, or names others as well",
        "F1", "duplicates", at="Alder as two", below=0.8,
    ),
    "Alder as two, mean": says(
        "By the mean cosine a second name raises Alder's share",
        GAINED, MEAN, at="Alder as two, Alder", above=0.05,
    ),
    "the push fails": says(
        "Pushed by Elm, Cedar's share by the mean cosine does not fall",
        SHARE, (MEAN, "Elm pushes against Cedar, Cedar"), (MEAN, "Fir is idle, Cedar"),
        above=0.0,
    ),
    "the push harms": says(
        "Elm's push makes the model less accurate",
        "accuracy", ("FedAvg", "Elm pushes against Cedar"), ("FedAvg", "Fir is idle"),
        below=-0.01,
    ),
    # Who is accused when nobody attacks.
    **{
        f"gold, {clinic}": says(
            f"*FoolsGold* names honest {clinic} in most rounds",
            NAMED, GOLD, at=f"Fir trains, {clinic}", above=0.65,
        )
        for clinic in ("Alder", "Elm")
    },
    "norms, Damson": says(
        "*Norms* names careless Damson in most rounds",
        NAMED, "norms", at="Fir trains, Damson", above=0.5,
    ),
    "last step, Alder": says(
        "*Last step* names honest Alder in less than a fifth of the rounds",
        NAMED, LAST, at="Fir trains, Alder", below=0.2,
    ),
}  # fmt: skip
REPLAY, LONGER = ("FedAvg", "Fir: replay"), ("FedAvg", "Fir: replay, median length")
WITHOUT = ("FedAvg", "without Fir")
BY_ROUND = "honest outscored, by round"
ALL, OTHERS = "cosine with the mean of all", "cosine with the mean of the others"
OF_CONTROLS: dict[str, Claim] = {
    "idle costs": says(
        "With an idle Fir the model is less accurate than without Fir",
        "accuracy", ("FedAvg", "Fir is idle"), WITHOUT, below=-0.005,
    ),
    "a replay fills": says(
        "With a replay the model is as accurate as without Fir, within .01",
        "accuracy", REPLAY, WITHOUT, above=-0.01, below=0.01,
    ),
    "a longer replay adds": says(
        "At the median length a replay makes the model more accurate than without Fir",
        "accuracy", LONGER, WITHOUT, above=0.005,
    ),
    "longer steps add": says(
        "So do steps that are a fifth longer, without Fir",
        "accuracy", ("FedAvg", "without Fir, longer steps"), WITHOUT, above=0.0,
    ),
    **{
        f"own row, {split}": says(
            f"A boost outscores fewer by the cosine with the mean of the others, {split}",
            BY_ROUND, OTHERS, ALL, f"{split}: scale x5", below=-0.2,
        )
        for split in SPLITS
    },
    "own row, noise": says(
        "Noise at the median length outscores as many by that cosine, within .15, skewed",
        BY_ROUND, OTHERS, ALL, "skewed: noise, median length", above=-0.15, below=0.15,
    ),
    **{
        f"all digits, {clinic}": says(
            f"With samples of all digits, the server's gradient names {clinic} in most rounds",
            NAMED, GRADIENT, at=f"judged by all digits, {clinic}", above=0.65,
        )
        for clinic in ("Alder", "Birch", "Elm", "Fir")
    },
    **{
        f"0 to 7, {clinic}": says(
            f"Without eights and nines it names {clinic} in most rounds",
            NAMED, GRADIENT, at=f"judged by 0 to 7, {clinic}", above=0.65,
        )
        for clinic in ("Cedar", "Damson")
    },
    **{
        f"0 to 7, not {clinic}": says(
            f"Without eights and nines it does not name {clinic} in most rounds",
            NAMED, GRADIENT, at=f"judged by 0 to 7, {clinic}", below=0.35,
        )
        for clinic in ("Alder", "Elm")
    },
}  # fmt: skip
CLAIMS = OF_ATTACKS | OF_CLINICS | OF_CONTROLS


def broken(results: Results, *names: str) -> list[str]:
    """Those of the named claims that do not hold, with what was measured."""
    found = {name: results.judge(CLAIMS[name]) for name in names}
    return [f"{name}: {entry.measured}" for name, entry in found.items() if entry.verdict != HOLDS]
