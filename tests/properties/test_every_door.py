"""What is wrong is refused in the same words at every door, and what is right is taken at each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas
import pytest
import torch
from sklearn.metrics import r2_score
from torch import Tensor, nn

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.methods.round_scores import RoundValue
from fedlab_mini.show import plots

CLIENTS = 3


def numbers(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """n samples of four features, and what is to be predicted of them."""
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))
    return x, x @ torch.tensor([1.0, 2, 3, 4])


def classes(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """n samples of four features and three classes."""
    return numbers(n, seed)[0], torch.arange(n) % 3


def squares(outputs: Tensor, y: Tensor) -> Tensor:
    return nn.functional.mse_loss(outputs.squeeze(1), y)


class Counts:
    """The share of right answers among all that it was ever asked."""

    def __init__(self) -> None:
        self.right, self.asked = 0, 0

    def __call__(self, outputs: Tensor, y: Tensor) -> float:
        self.right += int((outputs.argmax(1) == y).sum())
        self.asked += len(y)
        return self.right / self.asked


def all_pairs(outputs: Tensor, y: Tensor) -> Tensor:
    return -((outputs - y) ** 2).mean()


WRONG_METRICS: dict[str, tuple[Any, Callable[..., Any], str]] = {
    "arguments exchanged": (r2_score, numbers, "its first argument is y_true"),
    "all pairs": (all_pairs, numbers, "does not pair outputs and labels"),
    "a loss": (nn.functional.cross_entropy, classes, "higher values must be better"),
    "a loss module": (nn.CrossEntropyLoss(), classes, "higher values must be better"),
    "a squared error": (squares, numbers, "higher values must be better"),
    "a memory": (Counts(), classes, "remembers earlier calls"),
}


def doors(samples: Callable[..., Any]) -> dict[str, Callable[[Any], Any]]:
    """Every public call that takes a metric."""
    is_number = samples is numbers
    module = nn.Linear(4, 1 if is_number else 3)
    given: dict[str, Any] = {"loss": squares} if is_number else {}
    net = fm.Model(module, **given)
    parts = {"validation": samples(9, 8), "test": samples(9, 9)}
    of_clients = [samples(6, k) for k in range(CLIENTS)]
    fed = fm.Federation.from_datasets(of_clients, **parts, classes=0 if is_number else 3)
    theta = net.init(0)
    updates = torch.randn(CLIENTS, net.P, generator=torch.Generator().manual_seed(1))
    scored: dict[str, Any] = {"theta": theta, "methods": [fm.exact], **parts}
    del scored["test"]
    everybody = torch.ones(1, 1, CLIENTS)
    return {
        "Model": lambda metric: fm.train(
            fed, fm.Model(module, metric=metric, **given), fm.FedAvg(), rounds=1
        ),
        "evaluate": lambda metric: net.evaluate(theta[None], *fed.validation, metric),
        "round_game": lambda metric: fm.exact(
            fm.round_game(net, theta, updates, *fed.validation, metric=metric)
        ),
        "retraining_game": lambda metric: fm.exact(fm.retraining_game(fed, net, 1, metric=metric)),
        "simulate": lambda metric: fm.simulate(fed, net, everybody, metric=metric),
        "fedccea": lambda metric: fm.fedccea(fed, net, 12, 1, metric=metric),
        "removal_curves": lambda metric: fm.removal_curves(
            fed, net, [1.0, 2, 3], rounds=1, metric=metric
        ),
        "score": lambda metric: fm.score([updates], net=net, metric=metric, **scored),
        "score_intervals": lambda metric: fm.score_intervals(
            [updates], net=net, metric=metric, draws=2, **scored
        ),
        "RoundValue": lambda metric: fm.train(fed, net, RoundValue(metric=metric), rounds=1),
        "SFedAvg": lambda metric: fm.train(fed, net, fm.SFedAvg(2, metric=metric), rounds=1),
    }


@pytest.mark.parametrize("door", doors(classes))
@pytest.mark.parametrize("kind", WRONG_METRICS)
def test_a_wrong_metric_is_refused_at_every_door(kind, door):
    metric, samples, says = WRONG_METRICS[kind]
    with pytest.raises(ValueError, match=rf"^metric: .*{says}"):
        doors(samples)[door](metric)


RIGHT_METRICS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "accuracy": (lambda o, y: (o.argmax(1) == y).float().mean(), classes),
    "minus a loss": (lambda o, y: -nn.functional.cross_entropy(o, y), classes),
    "recall of a class": (lambda o, y: (o.argmax(1)[y == 1] == 1).float().sum(), classes),
    "r2": (lambda o, y: r2_score(y, o.squeeze(1)), numbers),
    "minus squares": (lambda o, y: -squares(o, y), numbers),
}


@pytest.mark.parametrize("door", doors(classes))
@pytest.mark.parametrize("kind", RIGHT_METRICS)
@pytest.mark.filterwarnings("ignore")
def test_a_right_metric_is_taken_at_every_door(kind, door):
    metric, samples = RIGHT_METRICS[kind]
    doors(samples)[door](metric)


BASES = {
    "FedAvg": (fm.FedAvg, {}),
    "CGSV": (fm.CGSV, {}),
    "SFedAvg": (fm.SFedAvg, {"m": 4}),
    "RoundScore": (fm.RoundScore, {}),
    "Taylor": (fm.methods.Taylor, {}),
    "FRCCE": (fm.FRCCE, {"weighting": "size"}),
}
FORMS: dict[str, Callable[[Tensor], Any]] = {
    "float64": Tensor.double,
    "a list": Tensor.tolist,
    "NumPy": Tensor.numpy,
}


def weighing(base: Any, settings: dict[str, Any], form: Callable[[Tensor], Any]) -> Any:
    """A strategy of one's own: the base, with equal weights in some form."""

    @dataclass(frozen=True, eq=False, kw_only=True)
    class Mine(base):
        def weights(self, server, state, round):
            return form(torch.full((len(round.clients),), 1 / len(round.clients)))

    return Mine(**settings)


@pytest.mark.parametrize("base", BASES)
def test_weights_of_an_own_strategy_have_any_form(base, make_fed):
    fed, net = make_fed((6, 6, 6, 6), inputs=5, classes=3, dtype=torch.float32), fm.mlp(5, 3)

    def model(form: Callable[[Tensor], Any]) -> Tensor:
        return fm.train(fed, net, weighing(*BASES[base], form), rounds=2).theta

    plain = model(lambda weights: weights)
    for form in FORMS.values():
        assert torch.equal(model(form), plain)
    for broken in (lambda weights: weights[:3], lambda weights: weights[:, None]):
        with pytest.raises(ValueError, match=r"^Mine.weights: expected an array \[4\], got"):
            model(broken)


BIG = torch.tensor([[16_777_216], [16_777_217], [1_700_000_000], [1_700_000_060]])
LABELS = torch.tensor([0, 1, 0, 1])
TAKES_SAMPLES: dict[str, Callable[[], Any]] = {
    "a client": lambda: fm.Federation.from_datasets(
        [(BIG, LABELS)], validation=(LABELS[:, None], LABELS), test=(LABELS[:, None], LABELS)
    ),
    "the server": lambda: fm.Federation.from_datasets(
        [(LABELS[:, None], LABELS)], validation=(BIG, LABELS), test=(LABELS[:, None], LABELS)
    ),
    "a data set": lambda: fm.Dataset(BIG, LABELS, classes=2),
    "evaluate": lambda: fm.mlp(1, 2).evaluate(fm.mlp(1, 2).init(0)[None], BIG, LABELS),
    "forward": lambda: fm.mlp(1, 2).forward(fm.mlp(1, 2).init(0), BIG),
}


@pytest.mark.parametrize("door", TAKES_SAMPLES)
def test_whole_numbers_are_not_rounded(door):
    with pytest.raises(ValueError, match=r"expected whole numbers that float32 holds exactly"):
        TAKES_SAMPLES[door]()


FIRST = pandas.Series([1.0, 2, 3], index=[0, 1, 2])
AGAIN = pandas.Series([3.0, 2, 1], index=[2, 1, 0])  # the same, client by client
OTHER = pandas.Series([3.0, 2, 1], index=[2, 1, 5])
MATCHES: dict[str, Callable[[Any, Any], bool]] = {
    "kendall": lambda a, b: fm.kendall(a, b) == 1,
    "spearman": lambda a, b: fm.spearman(a, b) == pytest.approx(1),
    "paired": lambda a, b: fm.evidence.paired(a, b).mean == 0,
    "scores": lambda a, b: (
        plots.drawn(plots.scores({"first": a, "second": b}))["second"] == [1, 2, 3]
    ),
    "slopes": lambda a, b: (
        plots.slopes(a, {"second": b}, name="first").axes[0].get_xlabel().startswith("0 of")
    ),
}


@pytest.mark.parametrize("door", MATCHES)
def test_columns_are_matched_by_their_index(door):
    assert MATCHES[door](FIRST, AGAIN)
    assert MATCHES[door](AGAIN, FIRST)
    with pytest.raises(ValueError, match=r"expected an index of the ids"):
        MATCHES[door](FIRST, OTHER)
    plt.close("all")


def test_parameters_of_a_frame_come_in_the_order_of_their_numbers():
    torch.manual_seed(0)
    net = fm.Model(nn.Linear(4, 3))
    updates, samples = 0.3 * torch.randn(4, net.P), classes(40)
    given: dict[str, Any] = {"net": net, "theta": net.init(0), "validation": samples}

    def scored(rows: Any) -> Any:
        return fm.score([rows], methods=[fm.exact], **given)["exact"].to_numpy()

    right = scored(updates)
    for prefix in ("p", "", "layer.0 "):
        names = [f"{prefix}{i}" for i in range(net.P)]
        frame = pandas.DataFrame(updates.numpy(), columns=names)
        assert np.allclose(scored(frame), right)
        with pytest.raises(ValueError, match=r"^updates\[0\]: .*its columns, .*not in their order"):
            scored(frame[sorted(names)])


ROWS = [
    (seed, "wrong labels", method, "tau", value)
    for method, values in {"first": (0.2, 0.6, 0.1), "second": (0.5, 0.5, 0.6)}.items()
    for seed, value in enumerate(values)
]
TABLE = pandas.DataFrame(ROWS, columns=["seed", "scenario", "method", "metric", "value"])


@pytest.mark.parametrize("door", [fb.summary, fb.picture, fb.board])
def test_a_row_counts_once(door):
    door(TABLE)
    with pytest.raises(ValueError, match=r"^frame: expected each row once, got several of seed 0"):
        door(pandas.concat([TABLE, TABLE]))
    plt.close("all")


def test_a_summary_says_how_many_seeds_count():
    assert "over 3 seeds" in repr(fb.summary(TABLE))
    assert "over 2 to 3 seeds" in repr(fb.summary(TABLE.drop(index=4)))
    unknown = TABLE.assign(value=TABLE.value.where(TABLE.index != 4))
    assert repr(fb.summary(unknown)) == repr(fb.summary(TABLE.drop(index=4)))


@pytest.mark.parametrize("width", [1, 3])
def test_intervals_take_the_labels_that_scores_take(width):
    torch.manual_seed(0)
    x, y = torch.randn(40, 4), (torch.rand(40, width) > 0.5).float()
    net = fm.Model(nn.Linear(4, width), loss=nn.BCEWithLogitsLoss())
    updates = 0.3 * torch.randn(3, net.P)
    given: dict[str, Any] = {"theta": net.init(0), "validation": (x, y), "methods": [fm.exact]}
    found = fm.score_intervals([updates], net=net, draws=3, **given)
    assert (found["exact, low"] < found["exact"]).all()


FRAME = pandas.DataFrame(numbers(40)[0].numpy(), columns=list("abcd"))
KINDS = pandas.Series(np.arange(40) % 3)
NET = fm.mlp(4, 3)
SHUFFLED = KINDS.sample(frac=1, random_state=0)
WITH_LABELS: dict[str, Callable[[Any, Any], Any]] = {
    "a client": lambda x, y: (
        fm.Federation.from_datasets([(x, y)], validation=(FRAME, KINDS), test=(FRAME, KINDS)).y
    ),
    "the server": lambda x, y: fm.Federation.from_datasets(
        [(FRAME, KINDS)], validation=(x, y), test=(FRAME, KINDS)
    ).validation[1],
    "a data set": lambda x, y: fm.Dataset(x, y, classes=3).y,
    "evaluate": lambda x, y: NET.evaluate(NET.init(0)[None], x, y),
    "round_game": lambda x, y: (
        fm.exact(fm.round_game(NET, NET.init(0), torch.ones(2, NET.P), x, y)).values
    ),
    "score": lambda x, y: fm.score(
        [torch.ones(2, NET.P)], net=NET, theta=NET.init(0), validation=(x, y), methods=[fm.exact]
    )["exact"].to_numpy(),
    "score_intervals": lambda x, y: fm.score_intervals(
        [torch.ones(2, NET.P)], net=NET, theta=NET.init(0), validation=(x, y), methods=[fm.exact]
    )["exact, low"].to_numpy(),
}


@pytest.mark.parametrize("door", WITH_LABELS)
def test_labels_are_matched_by_the_index_of_their_samples(door):
    read = WITH_LABELS[door]
    right = read(FRAME.to_numpy(), KINDS.to_numpy())
    assert np.array_equal(read(FRAME, SHUFFLED), right)
    later = FRAME.set_axis(range(5, 45))  # its labels have no index of their own
    assert np.array_equal(read(later, KINDS.reset_index(drop=True)), right)
    with pytest.raises(ValueError, match=r"expected an index of the ids \[5, 6, 7"):
        read(later, KINDS.set_axis(range(100, 140)))


def test_columns_of_frames_are_matched_by_their_names():
    server = {"validation": (FRAME[list("badc")], KINDS), "test": (FRAME, KINDS)}
    clients = [(FRAME, KINDS), (FRAME[list("dcba")], KINDS)]
    fed = fm.Federation.from_datasets(clients, **server)
    assert torch.equal(fed.x[:40], fed.x[40:])
    assert torch.equal(fed.validation[0], fed.test[0])
    numbered = FRAME.set_axis(range(4), axis=1)
    for given, other in (
        (FRAME, FRAME.rename(columns={"a": "e"})),
        (numbered, numbered.rename(columns=str)),
    ):
        with pytest.raises(ValueError, match=r"^datasets\[1\]: x: expected the columns \["):
            fm.Federation.from_datasets([(given, KINDS), (other, KINDS)], **server)


UPDATES = 0.3 * torch.randn(4, NET.P, generator=torch.Generator().manual_seed(3))
SCORED: dict[str, Any] = {"net": NET, "theta": NET.init(0), "validation": (FRAME, KINDS)}


def test_a_method_that_fails_costs_its_own_column():
    class Fails(fm.RoundScore):
        def score(self, server, state, round):
            raise RuntimeError("no kernel")

    alone = fm.score([UPDATES], methods=["CGSV"], **SCORED)
    with pytest.warns(UserWarning, match="^methods: bad fails, .*: no kernel"):
        table = fm.score([UPDATES], methods={"bad": Fails(), "CGSV": "CGSV"}, **SCORED)
    assert table["bad"].isna().all()
    assert table["CGSV"].equals(alone["CGSV"])
    with pytest.raises(RuntimeError, match="no kernel"):
        fm.score([UPDATES], methods=[Fails()], **SCORED)
    with pytest.raises(ValueError, match=r"partial\(permutation, samples=\.\.\.\), not"):
        fm.score([UPDATES], methods=[fm.permutation], **SCORED)


def test_a_masked_update_is_named():
    masked = UPDATES.clone()
    masked[2] += 1_000
    with pytest.warns(UserWarning, match=r"^round 1: the updates of \[2\] are over 100 times"):
        fm.score([masked], methods=["CGSV"], **SCORED)


def test_a_quantised_update_is_refused():
    small = (100 * UPDATES).to(torch.int8)
    for record in (small, {"updates": [*small]}, {"models": small, "theta": NET.init(0)}):
        with pytest.raises(TypeError, match="multiply what was quantised by its scale"):
            fm.score([record], methods=["CGSV"], **SCORED)


def test_files_come_in_the_order_of_their_rounds(tmp_path):
    files = [str(tmp_path / f"round_{t}.npz") for t in range(1, 12)]
    for file in files:
        np.savez(file, updates=UPDATES.numpy())
    fm.score(files, methods=["CGSV"], **SCORED)
    with pytest.raises(ValueError, match=r"^updates: .*sort them by the number of the round"):
        fm.score(sorted(files), methods=["CGSV"], **SCORED)
