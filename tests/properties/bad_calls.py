"""For every public name a call that is known to work, in which ``bad_input`` replaces arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench.show import leaderboard
from fedlab_mini.engine.outputs import parts
from fedlab_mini.gate import games as gate
from fedlab_mini.gate import networks
from fedlab_mini.gate.networks import cnn
from fedlab_mini.judge import evidence
from fedlab_mini.show import plots
from fedlab_mini.worlds import corrupt, partition
from fedlab_mini.worlds.corrupt import Backdoor, DeleteWords

# where public names live
ROOMS = (fb, fm, fm.methods, fm.attacks, corrupt, partition, networks, gate)
# what a call leaves behind, made by the package itself: nobody is asked to build one by hand
RECORDS = {"AAM", "Cost", "DataUnavailable", "Estimate", "FedCCEAResult", "History"}
# recorded rounds of somebody's system are checked where they are used, by the strategy; what a
# strategy makes of a round, by the training
GIVEN = {"Round", "Server", "Step"}


def samples(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """n samples of four features and three classes, every class among them."""
    chance = torch.Generator().manual_seed(seed)
    return torch.rand(n, 4, generator=chance), torch.arange(n) % 3


def small() -> fm.Federation:
    """Three clients with six samples each."""
    parts = [samples(6, k) for k in range(3)]
    return fm.Federation.from_datasets(parts, validation=samples(9, 3), test=samples(9, 4))


DATA = fm.Dataset(*samples(60), classes=3)
DIGITS = fm.load("digits").subset(torch.arange(300))
NET = fm.mlp(4, 3)
LOCAL = fm.LocalSGD(batch=3)
THETA = NET.init(0)
UPDATES = torch.rand(3, NET.P, generator=torch.Generator().manual_seed(1))


def trained(make: Callable[..., Any]) -> Callable[..., Any]:
    """A strategy is judged by a short training under it."""
    return lambda **given: fm.train(small(), NET, make(**given), rounds=2, local=LOCAL)


def dealt(make: Callable[..., Any]) -> Callable[..., Any]:
    """A split is judged by the federation that it deals."""
    return lambda **given: fm.federation(DATA, clients=3, split=make(**given), validation=9, test=9)


def spoilt(make: Callable[..., Any]) -> Callable[..., Any]:
    """A corruption or attack is judged by a training in which a client has it."""

    def call(**given: Any) -> Any:
        wrong = {1: make(**given)}
        data = DATA_OF_WORDS if make is DeleteWords else DATA
        fed = fm.federation(data, clients=3, corrupt=wrong, validation=9, test=9)
        return fed, fm.train(fed, fm.mlp(4, data.classes), fm.FedAvg(), rounds=2, local=LOCAL)

    return call


def several(given: Any) -> Sequence[Any]:
    """What stands behind a star: a list as it is, anything else as its one member."""
    return given if isinstance(given, list | tuple) else [given]


def played(make: Callable[..., Any]) -> Callable[..., Any]:
    """A game is judged by its exact values."""
    return lambda **given: fm.exact(make(**given))


def seen(make: Callable[..., Any]) -> Callable[..., Any]:
    """A model is judged by what it says of four features, or of a small picture."""

    def call(**given: Any) -> Any:
        net = make(**given)
        layers = parts(net).layers
        first = layers[0][0] if layers else 64 if make is cnn else 4
        return net.forward(net.init(0), torch.ones(2, first))

    return call


def calls() -> dict[str, tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]]:
    """For every public name: what is called, whose signature is read, arguments that work."""
    found: dict[str, tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = {}

    def add(public: str, call: Callable[..., Any], **given: Any) -> None:
        first, *parts = public.split(".")
        target: Any = next(getattr(room, first) for room in ROOMS if first in vars(room))
        for part in parts:
            target = getattr(target, part)
        found[public] = (call, target, given)

    def beside(room: str, call: Callable[..., Any], **given: Any) -> None:
        found[f"{room}.{call.__name__}"] = (call, call, given)

    game = fm.additive([1.0, 2.0, 3.0])
    for name in (*fm.methods.__all__, *fb.methods.__all__):
        kind = getattr(fb.methods if name in fb.methods.__all__ else fm.methods, name)
        if inspect.isclass(kind) and issubclass(kind, fm.FedAvg):
            add(name, trained(kind), **{"m": 2} if issubclass(kind, fm.SFedAvg) else {})
    for name in ("IID", "DirichletLabels", "DirichletSizes", "ByClass", "SortedShards"):
        add(name, dealt(getattr(partition, name)))
    for name in ("FreeRide", "NoisyReplay", "PredictedStep", "Replay", "SignFlip", "Withhold"):
        add(name, spoilt(getattr(fm.attacks, name)), **{"until": 2} if name == "Withhold" else {})
    for name in ("Against", "CopyOf"):
        add(name, spoilt(getattr(fm.attacks, name)), victim=1)
    add("Scale", spoilt(fm.attacks.Scale), factor=2.0)
    add("FlipLabels", spoilt(fm.FlipLabels), share=0.5)
    add("RelabelAs", spoilt(fm.RelabelAs), target=1)
    add("DeleteWords", spoilt(DeleteWords), share=0.5)
    add("Backdoor", spoilt(Backdoor), target=1, share=0.5, shape=(1, 2, 2), size=1)
    add("SwapLabels", spoilt(lambda pairs: fm.SwapLabels(*several(pairs))), pairs=[(0, 1)])
    add("beta_shapley", fb.beta_shapley, game=game, alpha=16.0, beta=1.0)
    for name in ("exact", "leave_one_out", "alone", "banzhaf"):
        add(name, getattr(fm, name), game=game)
    for name in ("core_shortfall", "least_core", "nucleolus"):
        add(name, getattr(gate, name), game=game)
    for name in ("permutation", "guided"):
        add(name, getattr(fm, name), game=game, samples=6)
    add("truncated", fm.truncated, game=game, samples=6, tolerance=0.0)
    add("kernel", fm.kernel, game=fm.additive([1.0, 2.0, 3.0, 4.0]), budget=10)
    add("additive", played(fm.additive), w=[1.0, 2.0])
    add("glove", played(fm.glove), left=1, right=2)
    add("quadratic", played(fm.quadratic), updates=torch.ones(3, 2), weights=torch.ones(3),
        g=torch.ones(2), H=torch.eye(2))  # fmt: skip
    add("Game", played(fm.Game), n=2, value=lambda s: s.sum(1))
    add("all_coalitions", fm.all_coalitions, n=3)
    round_ = {"net": NET, "theta": THETA, "updates": UPDATES}
    add("round_game", played(fm.round_game), **round_, x=samples(9)[0], y=samples(9)[1])
    add("classwise_shapley", fb.classwise_shapley, **round_, x=samples(9)[0], y=samples(9)[1])
    add("cosine_game", played(fm.cosine_game), updates=UPDATES)
    add("cosines", fm.cosines, updates=UPDATES, step=UPDATES.sum(0))
    training = {"fed": small(), "net": NET, "local": LOCAL}
    add("retraining_game", played(fm.retraining_game), **training, rounds=1)
    add("train", fm.train, **training, strategy=fm.FedAvg(), rounds=1)
    add("local_updates", fm.local_updates, **training, theta=THETA)
    add("simulate", fm.simulate, **training, participation=torch.ones(2, 1, 3))
    add("simulator", fm.methods.simulator, **training, simulations=2, rounds=1)
    add("fedccea", fm.fedccea, **training, simulations=5, rounds=1, steps=3)
    simulated = {"sizes": torch.ones(4, 2, 3), "accuracy": torch.rand(4, 2)}
    add("fit_aam", fm.methods.fit_aam, **simulated, steps=3)
    add("settle", fm.methods.settle, **simulated)
    add("removal_curves", fm.removal_curves, **training, scores=[1.0, 2, 3], rounds=1)
    by_class = fm.SFedAvg(2, by_class=True)
    history = fm.train(small(), NET, by_class, rounds=1, local=LOCAL)
    add("class_relevance", fm.class_relevance, history=history)
    for name in ("spearman", "kendall"):
        add(name, getattr(fm, name), a=[1.0, 2, 3], b=[1.0, 3, 2])
    recorded = {"updates": [UPDATES], "theta": THETA, "net": NET, "validation": samples(9)}
    add("records", fm.records, path=__file__)
    add("score", fm.score, **recorded, methods=[fm.exact])
    add("score_intervals", fm.score_intervals, **recorded, methods=[fm.exact], draws=2)
    add("compare", fb.compare, methods={"alone": fm.methods.RoundValue(fm.alone)},
        scenarios={"few": lambda data, seed: (small(), NET)}, seeds=[0], rounds=1)  # fmt: skip
    add("detection_auc", fm.detection_auc, scores=[1.0, 2, 3], bad=[0])
    add("contribution_index", fm.contribution_index, v=[1.0, 2, 3])
    add("mlp", seen(lambda widths: fm.mlp(*several(widths))), widths=[4, 3])
    add("logistic", seen(fm.logistic), inputs=4, classes=3)
    add("cnn", seen(cnn), shape=(1, 8, 8), channels=(2, 2), kernel=3, hidden=4)
    add("Model", seen(fm.Model), module=torch.nn.Linear(4, 3))
    add("LocalSGD", lambda **given: fm.train(
        small(), NET, fm.FedAvg(), rounds=2, local=fm.LocalSGD(**given)))  # fmt: skip
    add("Dataset", fm.Dataset, x=samples(6)[0], y=samples(6)[1], classes=3)
    add("Dataset.subset", DATA.subset, index=[0, 1])
    add("Dataset.only_classes", DATA.only_classes, classes=[0, 1])
    fed = small()
    parts = {name: getattr(fed, name) for name in ("x", "y", "sizes", "validation", "test")}
    add("Federation", fm.Federation, **parts, classes=3)
    add("Federation.from_datasets", fm.Federation.from_datasets,
        datasets=[samples(6)], validation=samples(6), test=samples(6))  # fmt: skip
    add("Federation.client", fed.client, k=1)
    add("Federation.server", fed.server, part="test")
    add("Federation.to", fed.to)
    add("federation", fm.federation, data=DATA, clients=3, validation=9, test=9)
    add("load", fm.load, name="digits")
    add("noisy_digits", fm.noisy_digits, data=DIGITS, samples=100, validation=50, test=50)
    add("skewed_digits", fm.skewed_digits, data=DIGITS, clients=5, validation=50, test=50)
    add("irrelevant_digits", fm.irrelevant_digits, data=DIGITS, relevant=2, irrelevant=1,
        validation=30, test=30)  # fmt: skip
    add("spam", fm.spam, data=DATA_OF_WORDS, clients=3, validation=9, test=9)
    add("six_clinics", fm.six_clinics)
    add("four_hospitals", fm.four_hospitals)
    x, y = samples(9)
    add("Model.init", NET.init, seed=0)
    add("Model.split", NET.split, theta=THETA)
    for method in ("forward", "predict"):
        add(f"Model.{method}", getattr(NET, method), theta=THETA, x=x)
    add("Model.evaluate", NET.evaluate, thetas=THETA[None], x=x, y=y)
    rooms(beside)
    return found


def rooms(beside: Callable[..., None]) -> None:
    """Functions that stand beside ``fm``: figures, tables, intervals."""
    line = torch.rand(3, 5, generator=torch.Generator().manual_seed(2))
    beside("plots", plots.curves, lines={"CGSV": line})
    beside("plots", plots.panels, lines={"sizes": {"CGSV": line}}, x=range(5), ylabel="AUC")
    beside("plots", plots.by_client, values=line)
    beside("plots", plots.holdings, fed=small())
    beside("plots", plots.scores, values={"CGSV": line[0]})
    beside("plots", plots.dots, values={"CGSV": [0.1, 0.2]}, xlabel="AUC")
    beside("plots", plots.confusion, tables={"client 0": torch.ones(3, 3)})
    beside("plots", plots.table, data={"CGSV": {"AUC": 0.5}}, caption="A table.")
    frame = fb.compare({"alone": fm.methods.RoundValue(fm.alone)},
        {"few": lambda data, seed: (small(), NET)}, seeds=[0, 1], rounds=1)  # fmt: skip
    for show in (leaderboard.summary, leaderboard.board, leaderboard.picture):
        beside("leaderboard", show, frame=frame)
    game, values_of = fm.additive([1.0, 2.0, 3.0]), torch.tensor([3.0, -1.0, 2.0])
    for rule in ("shapley", "marginal", "nucleolus", "least_core", "core_gap", "largest_rho"):
        beside("pay", getattr(fm.pay, rule), game=game)
    for check in ("balance", "alone_or_better", "shortfall"):
        beside("pay", getattr(fm.pay, check), pay=[1.0, 2.0, 3.0], game=game)
    beside("pay", fm.pay.by_score, scores=values_of)
    beside("pay", fm.pay.floored, values=values_of)
    beside("pay", fm.pay.carried, values=torch.ones(2, 3))
    beside("pay", fm.pay.rho_shapley, game=game)
    beside("pay", fm.pay.sparsified, update=values_of, share=0.5)
    beside("pay", fm.pay.under_names, game=game, player=0, names=2)
    beside("pay", fm.pay.without, game=game, player=0)
    beside("evidence", evidence.interval, values=[1.0, 2.0, 3.0])
    beside("evidence", evidence.paired, a=[1.0, 2.0, 3.0], b=[0.0, 2.0, 1.0])


DATA_OF_WORDS = fm.Dataset(
    torch.ones(60, 4), torch.arange(60) % 2, 2, labels=("ham", "spam"),
    vocabulary=("a", "b", "c", "d"),
)  # fmt: skip


CALLS = calls()
