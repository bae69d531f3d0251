"""Adversaries: which scores an attacker fools, what detectors name, and whom they accuse wrongly.

Chapter 13 reads these results. One client of eight attacks, with label mixes that are similar or
skewed; then one of the six clinics does. Scores and detectors see the same recorded rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

import fedlab_mini as fm
from fedlab_bench.compared import watcher
from fedlab_bench.dealing import SCENARIOS
from fedlab_bench.worlds import LOCAL, ROUNDS
from fedlab_mini.engine.rounds import Round, Server, State, Step
from fedlab_mini.judge.registry import SCORES
from fedlab_mini.judge.watch import Watch
from fedlab_mini.methods.defences import Defended, Detector
from fedlab_mini.worlds.attacks import UpdateAttack

from .adversaries_claims import OF_ATTACKS, OF_CLINICS, OF_CONTROLS, gained
from .cases import CLINICS as AS_CLINICS
from .protocols import study
from .study import Row

ATTACKER, OTHER = 2, 5  # who attacks, and who is copied or pushed against
SPLITS = {"similar": "alike", "skewed": "Dirichlet 0.5"}
READ = (
    *("Shapley", "Shapley, silent", "leave one out", "alone", "second order", "mean cosine"),
    *("class cosine", "trust cosine", "CGSV", "F-RCCE", "FLDVE", "S-FedAvg's relevance"),
)
BY_ROUND = ("Shapley", "Shapley, silent", "leave one out", "mean cosine")  # means over rounds


def attacks_of(other: int, rounds: int) -> dict[str, UpdateAttack]:
    """The attacks by name, in the order of what the attacker must know."""
    quiet, replay = fm.attacks.FreeRide(1e-3), fm.attacks.Replay()
    return {
        "zeros": fm.attacks.FreeRide(0.0),
        "sign flip": fm.attacks.SignFlip(),
        "scale x5": fm.attacks.Scale(5.0),
        "withheld": fm.attacks.Withhold(rounds // 2 + 1),
        "replay": replay,
        "replay, noisy": fm.attacks.NoisyReplay(),
        "predicted step": fm.attacks.PredictedStep(),
        "noise, median length": fm.attacks.AtMedianLength(quiet),
        "replay, median length": fm.attacks.AtMedianLength(replay),
        "disguise": fm.attacks.Disguise(),
        "copy": fm.attacks.CopyOf(other),
        "against another": fm.attacks.Against(other),
    }


NOISE = "noise, median length"
FLIPS = {f"labels, {share:.0%} wrong": share for share in (0.1, 0.3, 0.7)}
NAMES = {"two names, shared": "shared", "two names, copied": "copied"}
DETECTORS: dict[str, Detector] = {
    "last step": fm.defences.LastStep(),
    "duplicates": fm.defences.Duplicates(),
    "norms": fm.defences.Norms(),
    "server's gradient": fm.defences.ServersGradient(),
    "FoolsGold": fm.defences.FoolsGold(),
}


@dataclass(frozen=True)
class Attacked:
    """A federation and who in it are the attacker: one client, or several names of one."""

    fed: fm.Federation
    net: fm.Model
    local: fm.LocalSGD
    rounds: int
    who: tuple[int, ...] = ()

    @property
    def honest(self) -> Tensor:
        """Ids of all others."""
        return torch.tensor([k for k in range(self.fed.clients) if k not in self.who])

    def server(self, seed: int) -> Server:
        return Server(self.fed.clients, self.fed.classes, self.net, self.fed.validation, seed)

    def trained(
        self, seed: int, detector: Detector | None = None, rule: fm.FedAvg | None = None
    ) -> tuple[fm.History, list[Round]]:
        """A training run, maybe behind a detector that leaves out whom it names; and its rounds."""
        strategy = fm.FedAvg() if rule is None else rule
        behind = strategy if detector is None else Defended(strategy, detector)
        seen: list[Round] = []
        history = fm.train(
            self.fed, self.net, behind, rounds=self.rounds, local=self.local, seed=seed,
            watch=lambda round, step: seen.append(round),
        )  # fmt: skip
        return history, seen

    def scores(
        self, seen: Sequence[Round], seed: int, detector: Detector | None = None
    ) -> dict[str, Tensor]:
        """{score: [T, K] so far, after each round}; behind a detector, named rows score 0."""
        methods = {name: watcher(SCORES[name]) for name in READ}
        if detector is not None:
            methods = {name: Defended(own, detector) for name, own in methods.items()}
        watch = Watch(methods, self.server(seed))
        found: dict[str, list[Tensor]] = {name: [] for name in READ}
        for round in seen:
            watch(round)
            for name, scores in watch.scores().items():
                found[name].append(scores)
        return {name: torch.stack(scores) for name, scores in found.items()}

    def named(self, seen: Sequence[Round], detector: Detector, seed: int) -> Tensor:
        """Whom a detector names in each round, [T, K] bool, without any consequence."""
        server, state = self.server(seed), detector.init(self.server(seed))
        told = torch.zeros(len(seen), self.fed.clients, dtype=torch.bool)
        for row, round in zip(told, seen, strict=True):
            row[round.clients] = detector.suspects(server, state, round)
        return told


def outscored(scores: Tensor, who: int, others: Tensor) -> float:
    """The share of the others whose score is lower than that of ``who``; a tie counts half."""
    gap = scores[who] - scores[others]
    # Rounding must not tell equal scores apart.
    tied = gap.abs() <= 1e-9 * scores.abs().max()
    return float((((gap > 0) & ~tied).double() + tied / 2).mean())


def fooled(scenario: str, this: Attacked, found: Mapping[str, Tensor]) -> Iterator[Row]:
    """How far the attacker comes by each score, and what it is paid."""
    best = this.who[0]
    for name, scores in found.items():
        last = scores[-1]
        yield scenario, name, "honest outscored", outscored(last, best, this.honest)
        pay = fm.pay.by_score(last)
        yield scenario, name, "share of the pay", float(pay[list(this.who)].sum())
        if OTHER in this.honest:
            others = this.honest[this.honest != OTHER]
            yield scenario, name, "other outscores", outscored(last, OTHER, others)
        if name in BY_ROUND:
            counts = torch.arange(1, len(scores) + 1)[:, None]
            single = (scores * counts).diff(dim=0, prepend=torch.zeros_like(scores[:1]))
            shares = [outscored(row, best, this.honest) for row in single]
            yield scenario, name, "honest outscored, by round", sum(shares) / len(shares)


def accused(scenario: str, detector: str, this: Attacked, told: Tensor) -> Iterator[Row]:
    """Who is named in more than half of the rounds after the first, and how that is judged."""
    rounds = told[1:].double().mean(0)  # [K]
    guilty = rounds > 0.5
    wrong = float(guilty[this.honest].double().mean())
    yield scenario, detector, "honest accused", wrong
    yield scenario, detector, "honest rounds named", float(rounds[this.honest].mean())
    if this.who:
        who = list(this.who)
        right, others = float(guilty[who].sum()), float(guilty[this.honest].sum())
        yield scenario, detector, "F1", 2 * right / (2 * right + others + len(who) - right)
        yield scenario, detector, "attacker's rounds named", float(rounds[who].mean())


# --- eight clients -------------------------------------------------------------------------------


def attacked_feds(seed: int, scenario: str, rounds: int) -> Iterator[tuple[str, Attacked]]:
    """A federation of eight, and every attack on it by client 2."""
    fed, net = SCENARIOS[scenario]("digits", seed)
    honest = Attacked(fed, net, LOCAL, rounds)
    yield "nobody attacks", replace(honest, who=(ATTACKER,))
    for name, attack in attacks_of(OTHER, rounds).items():
        yield name, replace(honest, fed=fed.attacked({ATTACKER: attack}), who=(ATTACKER,))
    for name, share in FLIPS.items():
        yield name, replace(honest, fed=mislabelled(fed, share, seed), who=(ATTACKER,))
    for name, work in NAMES.items():
        both = fed.under_names(ATTACKER, 2, work)
        yield name, replace(honest, fed=both, who=(ATTACKER, fed.clients))


def mislabelled(fed: fm.Federation, share: float, seed: int) -> fm.Federation:
    """The attacker's labels, of which this share is wrong."""
    generator = torch.Generator().manual_seed(seed)
    _, y, _ = fm.FlipLabels(share)(*fed.client(ATTACKER), fed.classes, generator)
    labels = fed.y.clone()
    labels[slice(*fed.offsets[ATTACKER : ATTACKER + 2].tolist())] = y
    return replace(fed, y=labels, truth={ATTACKER: f"FlipLabels({share})"})


def attack_rows(
    seed: int, *, splits: Sequence[str] = tuple(SPLITS), rounds: int = ROUNDS
) -> Iterator[Row]:
    """Attack x score x split, and every detector on the same rounds.

    splits  "similar" and "skewed" label mixes
    """
    for split in splits:
        for attack, this in attacked_feds(seed, SPLITS[split], rounds):
            scenario = f"{split}: {attack}"
            history, seen = this.trained(seed)
            yield scenario, "FedAvg", "accuracy", float(history.accuracy[-1])
            yield from fooled(scenario, this, this.scores(seen, seed))
            # If nobody attacks, whoever is named is honest.
            judged = replace(this, who=()) if attack == "nobody attacks" else this
            for name, detector in DETECTORS.items():
                yield from accused(scenario, name, judged, this.named(seen, detector, seed))
            if attack in ("nobody attacks", "replay", "scale x5"):
                yield from defended(scenario, this, seed)


def defended(scenario: str, this: Attacked, seed: int) -> Iterator[Row]:
    """What a defence costs, or saves: accuracy if the named are left out, and by the median."""
    for name, detector in DETECTORS.items():
        history, _ = this.trained(seed, detector)
        yield scenario, name, "accuracy", float(history.accuracy[-1])
    history, _ = this.trained(seed, rule=fm.defences.Median())
    yield scenario, "median", "accuracy", float(history.accuracy[-1])


# --- six clinics ---------------------------------------------------------------------------------

ALDER, CEDAR, ELM, FIR = 0, 2, 4, 5
MOVES = {  # of the arms race: what Fir sends, and what the trust does about it
    "1: Fir replays": (fm.attacks.Replay(), None),
    "2: the trust looks at its last step": (fm.attacks.Replay(), fm.defences.LastStep()),
    "3: Fir adds noise": (fm.attacks.NoisyReplay(0.5), fm.defences.LastStep()),
    "3: Fir disguises itself": (fm.attacks.Disguise(), fm.defences.LastStep()),
}


def clinic_rows(seed: int, *, rounds: int = 48) -> Iterator[Row]:
    """What the clinics are paid, by every score, if one of them attacks."""
    fed, net = fm.six_clinics(seed), fm.mlp(64, 32, 10)

    def of(fed: fm.Federation, *who: int) -> Attacked:
        return Attacked(fed, net, AS_CLINICS, rounds, who)

    cases = {"Fir is idle": of(fed, FIR), "Fir trains": of(fm.six_clinics(seed, fir_trains=True))}
    # Fir's data are those that it declares; nobody but a client that trains reads them.
    for name, attack in attacks_of(ALDER, rounds).items():
        if name not in ("against another", "withheld", "scale x5", "sign flip"):
            cases[f"Fir: {name}"] = of(fed.attacked({FIR: attack}), FIR)
    pushes = fed.attacked({ELM: fm.attacks.Against(CEDAR)})
    cases["Elm pushes against Cedar"] = of(pushes, ELM)
    cases["Elm twice"] = of(fed.under_names(ELM, 2, "copied"), ELM, 6)
    cases["Alder as two"] = of(fed.under_names(ALDER), ALDER, 6)
    for scenario, this in cases.items():
        history, seen = this.trained(3 * seed + 2)
        yield scenario, "FedAvg", "accuracy", float(history.accuracy[-1])
        yield from shares(scenario, this, this.scores(seen, seed))
        for name, detector in DETECTORS.items():
            told = this.named(seen, detector, seed)
            yield from accused(scenario, name, this, told)
            for clinic, rounds_named in zip(fed.names, told[1:].double().mean(0), strict=False):
                yield f"{scenario}, {clinic}", name, "rounds named", float(rounds_named)
    for move, (attack, watching) in MOVES.items():
        this = of(fed.attacked({FIR: attack}), FIR)
        history, seen = this.trained(3 * seed + 2, watching)
        yield move, "FedAvg", "accuracy", float(history.accuracy[-1])
        yield from shares(move, this, this.scores(seen, seed, watching))


def shares(scenario: str, this: Attacked, found: Mapping[str, Tensor]) -> Iterator[Row]:
    """Everybody's share of the pay; several names of a clinic are paid together."""
    for name, scores in found.items():
        pay = fm.pay.by_score(scores[-1])
        for extra in this.who[1:]:
            pay[this.who[0]] += pay[extra]
        for clinic, share in zip(this.fed.names[:6], pay.tolist(), strict=False):
            yield f"{scenario}, {clinic}", name, "share of the pay", share


# --- controls ------------------------------------------------------------------------------------


class WithoutFir(fm.FedAvg):
    """Five clinics train."""

    def select(self, server: Server, state: State, t: int) -> Tensor:
        """All but Fir."""
        return torch.arange(FIR)


class LongerSteps(WithoutFir):
    """Five clinics train, and the server's steps are a fifth longer, as without Fir's weight."""

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The step of federated averaging, times 1.2."""
        done = super().step(server, state, round)
        return done._replace(theta=round.theta + 1.2 * (done.theta - round.theta))


def control_rows(seed: int, *, rounds: int = 48) -> Iterator[Row]:
    """Is a replay better than no Fir at all? Does the server's gradient follow its own samples?"""
    fed, net = fm.six_clinics(seed), fm.mlp(64, 32, 10)
    replay = fm.attacks.Replay()
    longer = fm.attacks.AtMedianLength(replay)
    cases: dict[str, tuple[fm.Federation, fm.FedAvg]] = {
        "Fir is idle": (fed, fm.FedAvg()),
        "without Fir": (fed, WithoutFir()),
        "without Fir, longer steps": (fed, LongerSteps()),
        "Fir: replay": (fed.attacked({FIR: replay}), fm.FedAvg()),
        "Fir: replay, median length": (fed.attacked({FIR: longer}), fm.FedAvg()),
    }
    for scenario, (changed, rule) in cases.items():
        this = Attacked(changed, net, AS_CLINICS, rounds)
        history, _ = this.trained(3 * seed + 2, rule=rule)
        yield scenario, "FedAvg", "accuracy", float(history.accuracy[-1])
    yield from of_own_rows(seed)
    honest = fm.six_clinics(seed, fir_trains=True)
    inputs, labels = honest.validation
    kept = labels < 8
    judges = {"all digits": honest.validation, "0 to 7": (inputs[kept], labels[kept])}
    _, seen = Attacked(honest, net, AS_CLINICS, rounds).trained(3 * seed + 2)
    for judge, samples in judges.items():
        this = Attacked(replace(honest, validation=samples), net, AS_CLINICS, rounds)
        # The first judge's gradients are stored beside the rounds.
        fresh = [one.copy() for one in seen]
        told = this.named(fresh, fm.defences.ServersGradient(), seed)[1:].double().mean(0)
        for clinic, share in zip(honest.names, told.tolist(), strict=True):
            yield f"judged by {judge}, {clinic}", "server's gradient", "rounds named", share


def of_own_rows(seed: int) -> Iterator[Row]:
    """Is an attacker lifted by its own row in the mean with which its cosine is taken?"""
    for split, attack in (("similar", "scale x5"), ("skewed", "scale x5"), ("skewed", NOISE)):
        fed, net = SCENARIOS[SPLITS[split]]("digits", seed)
        fed = fed.attacked({ATTACKER: attacks_of(OTHER, ROUNDS)[attack]})
        this = Attacked(fed, net, LOCAL, ROUNDS, (ATTACKER,))
        shares: dict[str, list[float]] = {"mean of all": [], "mean of the others": []}
        for round in this.trained(seed)[1]:
            total = round.updates.sum(0)
            others = torch.cat([fm.cosines(row[None], total - row) for row in round.updates])
            found = {"mean of all": fm.cosines(round.updates, total), "mean of the others": others}
            for mean, cosines in found.items():
                shares[mean].append(outscored(cosines, ATTACKER, this.honest))
        for mean, single in shares.items():
            place = (f"{split}: {attack}", f"cosine with the {mean}")
            yield *place, "honest outscored, by round", sum(single) / len(single)


STUDIES = (
    study(
        "adversaries",
        attack_rows,
        OF_ATTACKS.values(),
        derived=gained,
        probe={"splits": ("skewed",), "rounds": 2},
    ),
    study("adversaries-controls", control_rows, OF_CONTROLS.values(), probe={"rounds": 2}),
    study(
        "adversaries-clinics",
        clinic_rows,
        OF_CLINICS.values(),
        derived=gained,
        probe={"rounds": 2},
    ),
)
