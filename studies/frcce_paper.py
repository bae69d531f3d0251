"""F-RCCE's own figures and table: removal by a fixed evaluator, many clients, sizes, time.

[zhao2021efficient, Sections 3.1 to 3.5]; chapters 5 and 14 read these results. Beside: frcce.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fedlab_mini.engine.local import LocalSGD
from fedlab_mini.engine.model import logistic
from fedlab_mini.engine.rounds import Round
from fedlab_mini.engine.train import train
from fedlab_mini.games.shapley import leave_one_out
from fedlab_mini.games.training_games import retraining_game
from fedlab_mini.judge.metrics import detection_auc, spearman
from fedlab_mini.methods.fedavg import FedAvg
from fedlab_mini.methods.reinforce import FRCCE, scaled
from fedlab_mini.worlds.corrupt import delete_words
from fedlab_mini.worlds.data import load
from fedlab_mini.worlds.federation import Federation
from fedlab_mini.worlds.scenarios import spam

Rows = Iterator[tuple[str, str, float]]
LOCAL = LocalSGD(epochs=1, batch=64, lr=0.1)
WORDS = {"sms-synthetic": 200, "sms": 500}  # of the bag of words
EVALUATORS: dict[str, dict] = {"ours": {}, "as printed": {"literal": True}}
LOOKS = (20, 50, 100)  # rounds of a retraining at which the model is tested
CURVE = (20, 50, 100, 200, 500, 1000)  # of a training
REMOVED = 0.3
RIVALS = ("F-RCCE", "leave-one-out")
PAPER_GROWTH = 66.9 / 62.6  # of the seconds of Table 1
NOISE_ROUNDS, MANY_ROUNDS = 300, 200  # instead of the 1,000 of the paper
DEGREES = {"20 % of the words": 0.2, "80 % of the words": 0.8}


@dataclass(eq=False, kw_only=True)
class Removal(FedAvg):
    """The plain mean of a round's updates without those that are valued highest, or lowest.

    value  a round -> what each of its m updates is worth, [m]; its mean over rounds is the score
    end    "highest", "lowest" or "nobody"
    """

    value: Callable[[Round], Tensor]
    end: str = "nobody"
    weighting: str = "uniform"

    def aggregate(self, round: Round) -> Tensor:
        """The new global model [P]; see `FedAvg`."""
        worth = self.value(round)
        order, cut = worth.argsort(), int(REMOVED * len(worth))
        kept = {"highest": order[: len(order) - cut], "lowest": order[cut:], "nobody": order}
        weights = torch.zeros_like(worth, dtype=round.updates.dtype)
        weights[kept[self.end]] = 1 / len(kept[self.end])
        self.record(round, weights, worth)
        return round.theta + weights @ round.updates


def fixed(evaluator: FRCCE, round: Round) -> Tensor:
    """Selection probabilities [m] by an evaluator that learns no more."""
    rows = scaled(round.updates[:, -evaluator.read :], evaluator.scaling)
    return evaluator.policy.logits(rows).detach().sigmoid()


def fixed_scores(scores: Tensor, round: Round) -> Tensor:
    """Scores [m] of a round's clients that are the same in every round."""
    return scores[round.clients]


def messages(seed: int, clients: int = 50, source: str = "sms", **given: object) -> Federation:
    """The federation of a study: text messages, nobody corrupted unless asked for."""
    data = load(source, vocabulary=WORDS[source], dtype=torch.float64)
    floor = 5 if clients <= 50 else 2
    given = {"share": 0.0, **given}
    return spam(data, clients=clients, floor=floor, seed=seed, **given)  # type: ignore[arg-type]


def removal_rows(
    seed: int,
    fed: Federation,
    names: tuple[str, ...],
    note: str = "",
    plain: int = LOOKS[-1],
    trained: int = CURVE[-1],
) -> Rows:
    """Train evaluators and leave-one-out, then retrain without the highest and the lowest.

    names  of the evaluators; note  what is appended to variants; plain, trained  rounds
    of FedAvg and of the evaluators
    """
    net = logistic(fed.x.shape[1], 2)
    values: dict[str, Callable[[Round], Tensor]] = {}
    rule = FedAvg(weighting="uniform")
    histories = {"FedAvg": train(fed, net, rule, rounds=plain, local=LOCAL, seed=seed)}
    for name in names:
        rule = FRCCE(**EVALUATORS[name])
        history = train(fed, net, rule, rounds=trained, local=LOCAL, seed=seed)
        histories[f"{name}, while training"] = history
        values[name] = partial(fixed, history.strategy)
        if fed.corrupted:
            auc = detection_auc(history.scores[-1], fed.corrupted)
            yield f"{name}, while training{note}", "AUC", auc
    loo = leave_one_out(retraining_game(fed, net, 50, LOCAL, "loss", seed)).values
    values["leave-one-out"] = partial(fixed_scores, loo)
    if fed.corrupted:
        yield f"leave-one-out{note}", "AUC", detection_auc(loo, fed.corrupted)
    for name, history in histories.items():
        for t in (t for t in CURVE if t < len(history.accuracy)):
            yield f"{name}{note}", f"test accuracy @ {t}", float(history.accuracy[t])
            yield f"{name}{note}", f"test loss @ {t}", float(history.loss[t])
    for name, value in values.items():
        for end in ("highest", "lowest"):
            rule = Removal(value=value, end=end)
            history = train(fed, net, rule, rounds=LOOKS[-1], local=LOCAL, seed=seed)
            for t in LOOKS:
                variant = f"{name}, {end} removed{note}"
                yield variant, f"test accuracy @ {t}", float(history.accuracy[t])
                yield variant, f"test loss @ {t}", float(history.loss[t])


def clean_rows(seed: int) -> Rows:
    """Fig. 2a: nobody is corrupted."""
    yield from removal_rows(seed, messages(seed), tuple(EVALUATORS), plain=CURVE[-1])


def noise_rows(seed: int) -> Rows:
    """Fig. 2b: a fifth of the clients lose a fifth of the words of all messages; then four."""
    for name, share in DEGREES.items():
        fed = messages(seed, share=0.2, corrupt=delete_words(share))
        evaluators = tuple(EVALUATORS) if share < 0.5 else ("ours",)
        yield from removal_rows(seed, fed, evaluators, f"; {name}", trained=NOISE_ROUNDS)


def clients_rows(seed: int) -> Rows:
    """Fig. 2c: the same messages over more clients."""
    for K in (50, 200, 500):
        fed = messages(seed, clients=K)
        net = logistic(fed.x.shape[1], 2)
        trained = train(fed, net, FRCCE(), rounds=MANY_ROUNDS, local=LOCAL, seed=seed)
        value = partial(fixed, trained.strategy)
        for end in ("nobody", "highest", "lowest"):
            rule = Removal(value=value, end=end)
            history = train(fed, net, rule, rounds=LOOKS[-1], local=LOCAL, seed=seed)
            for t in LOOKS:
                yield f"{K} clients, {end} removed", f"test accuracy @ {t}", history.accuracy[t]
                yield f"{K} clients, {end} removed", f"test loss @ {t}", history.loss[t]


def size_rows(seed: int) -> Rows:
    """Fig. 2d: contribution by a fixed evaluator over 50 rounds against the number of samples."""
    fed = messages(seed)
    net = logistic(fed.x.shape[1], 2)
    rules = {name: FRCCE(**options) for name, options in EVALUATORS.items()}
    rules["ours, mean weighted by size"] = FRCCE(weighting="size")
    for name, rule in rules.items():
        trained = train(fed, net, rule, rounds=1000, local=LOCAL, seed=seed)
        again = Removal(value=partial(fixed, trained.strategy))
        history = train(fed, net, again, rounds=50, local=LOCAL, seed=seed)
        yield name, "rank correlation", spearman(history.scores[-1], fed.sizes)
        yield name, "rank correlation, while training", spearman(trained.scores[-1], fed.sizes)


def bill_rows(seed: int) -> Rows:
    """Table 1: work counted exactly, seconds measured, 100 to 500 clients in turns."""
    feds = {K: messages(seed, K, "sms-synthetic") for K in (100, 200, 300, 400, 500)}
    net = logistic(WORDS["sms-synthetic"], 2)
    taken: dict[int, list[float]] = {K: [] for K in feds}
    for _ in range(5):
        for K, fed in feds.items():
            start = time.process_time()
            one = train(fed, net, FRCCE(), rounds=10, local=LOCAL, seed=seed)
            taken[K].append((time.process_time() - start) / 10)
            assert one.cost.client_epochs == 10 * K
    for K, fed in feds.items():
        all_of_them, passes = len(fed.y), retraining_game(fed, net, 50, LOCAL, "loss", seed)
        leave_one_out_epochs = passes.client_epochs * K**2  # everybody, then K times K - 1
        yield f"{K} clients", "client epochs, F-RCCE", 1000.0 * K
        yield f"{K} clients", "client epochs, leave-one-out", leave_one_out_epochs
        yield f"{K} clients", "messages a round, F-RCCE", all_of_them
        yield f"{K} clients", "messages a round, leave-one-out", float(K * all_of_them)
        yield f"{K} clients", "seconds, F-RCCE", 1000 * float(torch.tensor(taken[K]).median())
    for K in (100, 500):
        start = time.process_time()
        leave_one_out(retraining_game(feds[K], net, 1, LOCAL, "loss", seed))
        yield f"{K} clients", "seconds, leave-one-out", 50 * (time.process_time() - start)
