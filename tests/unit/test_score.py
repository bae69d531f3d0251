"""Score: recorded rounds in, a table out, the same as the training that was recorded."""

from __future__ import annotations

import functools
import pickle
import weakref

import numpy as np
import pandas as pd
import pytest
import torch

import fedlab_mini as fm

NET = fm.mlp(64, 8, 10)
LOCAL = fm.LocalSGD(epochs=1, batch=32, lr=0.3)
BOTH = [fm.CGSV(), fm.exact]


@pytest.fixture(scope="module")
def fed():
    digits, split = fm.load("digits"), fm.DirichletLabels(0.5)
    return fm.federation(digits, clients=5, split=split, corrupt={3: fm.FlipLabels(0.9)})


@pytest.fixture(scope="module")
def rounds(fed):
    """Four recorded rounds of three clients each."""
    seen, parts = [], ("theta", "updates", "sizes", "clients")

    def keep(round, step):
        seen.append({part: getattr(round, part) for part in parts})

    fm.train(fed, NET, fm.FedAvg(per_round=3), rounds=4, local=LOCAL, watch=keep)
    return seen


def scored(rounds, fed, methods=(fm.leave_one_out,), **given):
    return fm.score(rounds, net=NET, validation=fed.validation, methods=methods, **given)


def test_a_strategy_scores_as_in_its_own_training_and_an_estimator_has_its_mean(fed, rounds):
    history = fm.train(fed, NET, fm.FedAvg(per_round=3), rounds=4, local=LOCAL)
    total = torch.zeros(5, dtype=torch.float64)
    for r in rounds:
        game = fm.round_game(
            NET, r["theta"], r["updates"], *fed.validation, metric="loss", weights=r["sizes"]
        )
        total[r["clients"]] += fm.exact(game).values
    table = scored(rounds, fed, [fm.FedAvg(), fm.exact])
    np.testing.assert_allclose(table["FedAvg"], history.scores[-1])
    np.testing.assert_allclose(table["exact"], total / 4)
    assert list(table.index) == list(range(5))
    accuracy = scored(rounds, fed, [fm.exact], metric="accuracy")
    assert not np.allclose(accuracy["exact"], table["exact"])


def test_every_form_of_a_round_gives_the_same_scores(fed, rounds, tmp_path):
    def by_name(vector):
        counted = {"0.running_mean": torch.ones(2)}
        return dict(zip(NET.shapes, NET.split(vector), strict=True)) | counted

    def without(r, name):
        return {part: value for part, value in r.items() if part != name}

    paths = [tmp_path / f"round_{t}.npz" for t in range(4)]
    for t, r in enumerate(rounds):
        np.savez(paths[t], t=t, **{k: v.numpy() for k, v in r.items()})
    forms = [
        [dict(r, theta=by_name(r["theta"]), updates=[*map(by_name, r["updates"])]) for r in rounds],
        [{k: v.numpy() for k, v in r.items()} for r in rounds],
        paths,
        (r for r in rounds),  # is read once
        [rounds[0], *(without(r, "theta") for r in rounds[1:])],  # the recorder averaged as FedAvg
    ]
    expected = scored(rounds, fed, BOTH)
    for records in forms:
        pd.testing.assert_frame_equal(scored(records, fed, BOTH, clients=range(5)), expected)
    models = [without(r, "updates") | {"models": r["theta"] + r["updates"]} for r in rounds]
    np.testing.assert_allclose(scored(models, fed, BOTH), expected, atol=1e-5)
    rows = ("clients", "updates", "sizes")
    turned = [r | {part: r[part].flip(0) for part in rows} for r in rounds]
    np.testing.assert_allclose(scored(turned, fed, BOTH), expected, atol=1e-6)
    words = np.array(["north", "east", "south", "west", "hill"])
    named = [dict(r, clients=words[r["clients"]]) for r in rounds]
    found = scored(named, fed, BOTH, clients=list(words))
    np.testing.assert_array_equal(found, expected)
    assert list(found.index) == list(words)
    with pytest.raises(TypeError, match=r"^clients: "):  # a generator is read once
        scored((r for r in rounds), fed)


def test_rounds_are_counted_and_means_are_over_them(fed, rounds):
    """One update in four rounds or in one: a missed round counts 0, or does not count."""
    first = {**rounds[0], "clients": [0, 1, 2]}
    two = {name: first[name][:2] for name in ("updates", "sizes")} | {"clients": [0, 1]}
    broken = {**first, "updates": first["updates"].clone()}
    broken["updates"][2] = torch.nan
    log = [first, first | two, {"theta": first["theta"], **two}, broken]
    methods = [fm.exact, "second order", fm.FedAvg(), fm.CGSV(), lambda round, server: round.sizes]
    told = {"methods": dict(zip("abcde", methods, strict=True)), "clients": range(4)}
    with pytest.warns(UserWarning, match="round 4: the update of"):
        table, by_round = (scored(log, fed, per=per, **told) for per in ("record", "round"))
    assert table["rounds"].tolist() == [4, 4, 1, 0]
    alone = scored([first], fed, **told)
    np.testing.assert_allclose(by_round.loc[2, list("abce")], alone.loc[2, list("abce")])
    shares = table["rounds"].clip(lower=1) / 4
    for name in "abce":
        np.testing.assert_allclose(by_round[name] * shares, table[name], atol=1e-12)
    assert by_round["d"].equals(table["d"])  # CGSV's weights are no mean over rounds


def test_every_kind_of_method_has_its_column_and_name(fed, rounds):
    def loud(round, server):
        return round.updates.norm(dim=1)

    drawn = functools.partial(fm.permutation, samples=20)
    names = ["second order", "Shapley, silent", "permutation", "loud", "rounds"]
    table = scored(rounds, fed, [*names[:2], drawn, loud])
    assert list(table) == names
    silent = fm.methods.RoundValue(fm.exact, absent="silent")
    wanted = scored(rounds, fed, {"Second_order": fm.methods.Taylor(), "Shapley, silent": silent})
    np.testing.assert_array_equal(table[names[:2]], wanted.iloc[:, :2])
    length = torch.zeros(5, dtype=torch.float64)
    for r in rounds:
        length[r["clients"]] += r["updates"].norm(dim=1)
    np.testing.assert_allclose(table["loud"], length / len(rounds), rtol=1e-6)


class Vandal(fm.RoundScore):
    """Writes into all that it is shown, in every way that torch and NumPy know."""

    def init(self, server):
        server.validation[0].zero_()
        server.validation[1].data.zero_()
        return super().init(server)

    def score(self, server, state, round):
        self.table(server, round)(torch.ones(1, len(round.clients), dtype=torch.bool))
        round.updates.zero_()
        round.theta.data.fill_(7)
        round.sizes.numpy()[:] = 1
        return torch.zeros(len(round.clients))


def spoiling(game):
    """A value that writes into the game it is asked about."""
    game.value.updates.zero_()
    game.value.x.zero_()
    return fm.exact(game)


@pytest.mark.parametrize("guest", [Vandal(), spoiling])
def test_no_member_spoils_a_rivals_round(fed, rounds, guest):
    rivals = {"value": fm.exact, "CGSV": fm.CGSV(), "second": fm.methods.Taylor()}
    before = [{k: v.clone() for k, v in r.items()} for r in rounds]
    validation = tuple(part.clone() for part in fed.validation)
    wanted = scored(rounds, fed, rivals)
    beside = scored(rounds, fed, {"guest": guest} | rivals)
    pd.testing.assert_frame_equal(beside.drop(columns="guest"), wanted)
    assert all(map(torch.equal, fed.validation, validation))
    for r, kept in zip(rounds, before, strict=True):
        assert all(torch.equal(r[key], kept[key]) for key in kept)


def test_a_bad_record_and_a_pickled_file_are_refused_by_name(fed, rounds, tmp_path):
    first = rounds[0]
    for message, records in {
        "theta: holds NaN": [dict(first, theta=first["theta"] * torch.nan)],
        "t: 3 after 3": [dict(first, t=3), dict(first, t=3)],
        "clients: the id 1 appears twice": [dict(first, clients=[1, 1, 2])],
    }.items():
        with pytest.raises(ValueError, match=message):
            scored(records, fed, clients=range(5))
    path = tmp_path / "round_7.npz"
    path.write_bytes(pickle.dumps({"updates": np.zeros((2, NET.P))}))
    with pytest.raises(ValueError, match=r"^updates\[0\]: cannot read .*_7\.npz .*pickle"):
        scored([path], fed)


def test_one_round_is_in_memory_at_a_time(fed, rounds):
    shown = []

    def stream():
        for r in rounds:
            assert not [ref for ref in shown if ref() is not None], "a round before is held"
            updates = r["updates"].clone()
            shown.append(weakref.ref(updates))
            record = {"updates": updates, "theta": r["theta"]}
            del updates
            yield record
            del record

    scored(stream(), fed, [fm.FedAvg(), fm.exact], clients=range(3))


def test_intervals_are_those_of_other_validation_samples(fed, rounds):
    """A score that is a mean over samples moves by their spread over the root of their number."""
    words = fed.validation[0].numpy(), fed.validation[1].tolist()
    methods = {
        "mean": lambda round, server: server.validation[1].double().mean().expand(3),
        "CGSV": fm.CGSV(),
    }
    given = {"net": NET, "validation": words, "methods": methods, "clients": range(5)}
    table = fm.score_intervals(rounds[:1], draws=200, **given)
    pd.testing.assert_frame_equal(table[["mean", "CGSV", "rounds"]], fm.score(rounds[:1], **given))
    seen, spread = rounds[0]["clients"][0].item(), fed.validation[1].double().std().item()
    low, high = table.loc[seen, ["mean, low", "mean, high"]]
    assert (high - low) / 2 == pytest.approx(1.97 * spread / len(words[1]) ** 0.5, rel=0.15)
    assert (low + high) / 2 == pytest.approx(table["mean"][seen])
    assert table[["CGSV, low", "CGSV, high"]].isna().to_numpy().all()
    again = fm.score_intervals(rounds[:1], draws=2, **given)
    pd.testing.assert_frame_equal(again, fm.score_intervals(rounds[:1], draws=2, **given))
    with pytest.raises(TypeError, match=r"^updates: .* read 3 times"):
        fm.score_intervals(iter(rounds), draws=2, **given)


def test_the_files_of_a_folder_are_read_by_their_numbers(fed, rounds, tmp_path):
    numbers = [1, 2, 10, 11]
    for t, r in zip(numbers, rounds, strict=True):
        torch.save(r, tmp_path / f"round_{t}.pt")
    for other in ("server.npz", "notes_3.txt", "._round_4.pt"):
        (tmp_path / other).touch()
    files = fm.records(tmp_path)
    assert [file.name for file in files] == [f"round_{t}.pt" for t in numbers]
    pd.testing.assert_frame_equal(scored(files, fed, BOTH), scored(rounds, fed, BOTH))
    assert fm.records(files[1]) == [files[1]]
    for nothing in (tmp_path / "gone", tmp_path / "gone.npz"):
        with pytest.raises(ValueError, match=r"^path: expected a folder .* round_1\.npz, got "):
            fm.records(nothing)


def test_one_masked_client_has_the_best_cosine_and_moves_every_other_score():
    fed, net, local = fm.six_clinics(), fm.mlp(64, 32, 10), fm.LocalSGD(epochs=5, batch=32, lr=0.1)
    theta = fm.train(fed, net, fm.FedAvg(), rounds=3, local=local).theta
    plain = fm.local_updates(fed, net, theta, t=4, local=local)
    masked = plain.clone()
    masked[1] += 10 * torch.randn(len(theta), generator=torch.Generator().manual_seed(0))

    def scores(updates):
        one_round = [{"theta": theta, "updates": updates, "sizes": fed.sizes}]
        given = {"net": net, "validation": fed.validation, "methods": ["CGSV", fm.leave_one_out]}
        found = fm.score(one_round, **given)
        return fm.cosines(updates, fed.sizes.float() @ updates), found["leave_one_out"]

    cosine, honest = scores(plain)
    with pytest.warns(UserWarning, match=r"^round 1: the updates of \[1\] are over 100 times"):
        hidden, moved = scores(masked)
    assert cosine.argmax() != 1
    assert hidden.argmax() == 1
    assert hidden[1] > 0.9
    others = [0, 2, 3, 4, 5]
    assert ((moved - honest).abs() > 5 * honest.abs())[others].all()
    assert masked.norm(dim=1)[1] > 20 * masked.norm(dim=1).median()
