"""Data sets: what a Dataset holds, where files are found, what is checked, what fetch does."""

import gc
import gzip
import hashlib
import io
import re
import shutil
import threading
import warnings
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score

from fedlab_mini.command.data import main
from fedlab_mini.worlds.data import (
    CARDS,
    Dataset,
    DataUnavailable,
    fetch,
    folder,
    images,
    load,
    store,
)
from fedlab_mini.worlds.data.registry import Archive, Card, File
from fedlab_mini.worlds.data.text import LENGTH, read_sms, rows_of

CLASS_COUNTS = {
    "digits": [178, 182, 177, 183, 181, 182, 181, 179, 174, 180],
    "mnist5k": [500] * 10,
    "sms-synthetic": [4827, 747],
    "heart": [411, 509],
}
NOWHERE = "http://127.0.0.1:9/x"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- what a set holds ----------------------------------------------------------------------------


def test_a_dataset_completes_itself_and_is_cut():
    x, y = np.arange(12).reshape(6, 2), np.array([2, 0, 1, 2, 0, 2], dtype=np.uint8)
    data = Dataset(x, y, np.int64(3), shape=(1, 1, 2))
    assert (data.labels, data.y.dtype, len(data)) == (("0", "1", "2"), torch.int64, 6)
    assert data.subset([4, 0]).x.tolist() == [[8, 9], [0, 1]]
    few = replace(data, labels=("a", "b", "c")).only_classes([2, 0])
    assert (few.y.tolist(), few.labels, few.classes) == ([0, 1, 0, 1, 0], ("c", "a"), 2)
    assert few.x.equal(data.x[[0, 1, 3, 4, 5]])
    double = replace(data, x=data.x.double())
    marks = {d.sha256() for d in (data, double, data.subset([1, 0, 2, 3, 4, 5]))}
    assert len(marks) == 3
    assert Dataset(x.tolist(), y.tolist(), 3).sha256() == data.sha256()


@pytest.mark.parametrize("name", CLASS_COUNTS)
def test_embedded_sets_are_those_of_their_cards(name, capsys, monkeypatch):
    data, card = load(name, dtype=torch.float64), CARDS[name]
    assert (len(data), data.classes, data.labels) == (card.samples, len(card.labels), card.labels)
    assert (data.name, data.licence, data.shape) == (name, card.licence, card.shape)
    assert data.x.dtype == torch.float64
    assert name == "heart" or data.x.min() == 0
    assert card.shape is None or data.x.max() == 1
    assert data.y.bincount().tolist() == CLASS_COUNTS[name]
    assert main(["verify", name]) == 0  # the hashes of files, arrays or samples
    assert re.search("ok$", capsys.readouterr().out, re.M)
    if card.content:
        monkeypatch.setitem(CARDS, name, replace(card, content="0" * 64))
        assert main(["verify", name]) == 1


def test_patients_are_those_of_the_files_of_four_hospitals():
    data = load("heart", dtype=torch.float64)
    assert data.group_names == ("Cleveland", "Budapest", "Switzerland", "Long Beach")
    assert data.groups.bincount().tolist() == [303, 294, 123, 200]
    ill = [int(data.y[data.groups == hospital].sum()) for hospital in range(4)]
    assert ill == [139, 106, 115, 149]  # the counts of UCI's description
    # The files again, by another reader: Swiss cholesterol is 0 in every row, which means missing.
    files = sorted(path for path in (store.EMBEDDED / "heart").glob("*.data"))
    tables = [pd.read_csv(path, header=None, na_values="?") for path in files]
    table = pd.concat(tables, ignore_index=True)
    table[[3, 4]] = table[[3, 4]].replace(0, np.nan)
    assert data.missing.numpy().tolist() == table.iloc[:, :13].isna().to_numpy().tolist()
    assert data.missing[data.groups == 2, 4].all()
    assert data.missing.sum() == 1932
    measured = table[[0, 3, 4, 7, 9]]
    scaled = ((measured - measured.mean()) / measured.std(ddof=0)).fillna(0)
    assert np.allclose(data.x[:, :5], scaled)
    codes = [table[2] == kind for kind in (1, 2, 3, 4)] + [table[6] == 1, table[6] == 2]
    codes += [table[1] == 1, table[5] == 1, table[8] == 1]
    assert np.array_equal(data.x[:, 5:], np.stack(codes, 1))
    assert data.vocabulary[2:6] == (
        *("cholesterol", "highest heart rate", "ST depression"),
        "typical angina",
    )


def test_what_is_missing_tells_as_much_of_the_illness_as_the_hospital():
    data = load("heart")
    hospital = torch.nn.functional.one_hot(data.groups)
    folds = StratifiedKFold(10, shuffle=True, random_state=0)

    def right(columns) -> float:
        """The share of patients that a logistic regression puts right, in ten folds."""
        model = LogisticRegression(max_iter=1000)
        return cross_val_score(model, columns.numpy(), data.y.numpy(), cv=folds).mean()

    # data/README.md has these numbers.
    assert right(data.missing.float()) == pytest.approx(0.69, abs=0.01)
    assert right(hospital.float()) == pytest.approx(0.67, abs=0.01)
    assert right(data.x) == pytest.approx(0.79, abs=0.01)
    assert float(data.y.double().mean()) == pytest.approx(0.55, abs=0.005)


def test_who_collected_samples_and_what_is_missing_stay_with_them():
    x, missing = torch.zeros(4, 1), torch.tensor([[True], [False], [False], [True]])
    groups = {"groups": [0, 1, 1, 0], "group_names": ("a", "b")}
    data = Dataset(x, [0, 1, 0, 2], 3, missing=missing, **groups)
    for few in (data.subset([3, 1]), data.only_classes([2, 1]).subset([1, 0])):
        assert (few.groups.tolist(), few.missing.tolist()) == ([0, 1], [[True], [False]])
    assert Dataset(x, [0] * 4, 1).groups.tolist() == [0] * 4
    assert Dataset(x, [0] * 4, 1).missing.shape == (4, 0)


def test_messages_become_counts_or_tokens_of_the_most_frequent_words():
    texts = ["See you at home, at home!", "WIN win at 08081570000", "home"]
    rows, words = rows_of(texts, "bag-of-words", 3)
    assert words == ["at", "home", "win"]
    assert rows.tolist() == [[2, 2, 0], [1, 0, 2], [0, 1, 0]]
    rows, _ = rows_of(texts, "tokens", 3)
    assert rows.shape == (3, LENGTH)
    assert rows[:, :5].tolist() == [[1, 2, 1, 2, 0], [3, 3, 1, 0, 0], [2, 0, 0, 0, 0]]
    assert not rows[:, 5:].any()
    assert (rows_of(["so good " * 200], "tokens")[0] > 0).all()
    assert load("sms-synthetic").x.shape == (5574, 500)
    assert load("sms-synthetic", features="tokens").x.max() == 1000


def card_of(folder: Path, contents: dict[str, bytes], **more) -> Card:
    """A card whose files lie in the folder."""
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    files = tuple(File(name, len(c), digest(c), NOWHERE) for name, c in contents.items())
    return Card("toy", {"train": 3, "test": 2}, ("0",), "none", "a test", files=files, **more)


@pytest.fixture
def to(tmp_path, monkeypatch):
    """The folder that FEDLAB_DATA names, which is not there yet."""
    monkeypatch.setenv("FEDLAB_DATA", str(tmp_path / "to"))
    return tmp_path / "to"


def test_sms_lines_are_split_at_the_first_tab(to):
    lines = [("ham", 'she said "come'), ("spam", "call\tnow"), ("ham", "more\u2028of it")]
    content = "".join(f"{label}\t{text}\n" for label, text in lines).encode()
    assert read_sms(card_of(to, {"toy": content})) == lines


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return gzip.compress(header + array.tobytes(), mtime=0)


def test_idx_files_and_transposed_letters(to, monkeypatch):
    train, test = np.arange(18, dtype=np.uint8).reshape(3, 2, 3), np.zeros((2, 2, 3), np.uint8)
    labels = np.array([1, 26, 2], np.uint8)
    contents = {"a": idx(train), "b": idx(labels), "c": idx(test), "d": idx(labels[:2])}
    card = card_of(to, contents)
    x, y = images.emnist_letters(card, "train")
    assert x[0].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert y.tolist() == [0, 25, 1]
    labels = tuple(map(str, range(27)))
    monkeypatch.setitem(CARDS, "mnist", replace(card, name="mnist", labels=labels, shape=(1, 2, 3)))
    data = load("mnist")
    assert torch.equal(data.x, torch.arange(18.0).view(3, 6) / 255)
    assert data.y.tolist() == [1, 26, 2]
    assert load("mnist", part="test").y.tolist() == [1, 26]
    assert load("mnist", part="all").y.tolist() == [1, 26, 2, 1, 26]


def test_cifar_batches_give_the_arrays_of_the_subset(to):
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.integers(0, 256, (3, 32, 32, 3), np.uint8),
        "y_train": np.array([6, 9, 0], np.uint8),
        "x_test": rng.integers(0, 256, (2, 32, 32, 3), np.uint8),
        "y_test": np.array([3, 8], np.uint8),
    }
    batches = {}
    for part in ("train", "test"):
        planes = arrays[f"x_{part}"].transpose(0, 3, 1, 2).reshape(-1, 3072)
        records = np.concatenate([arrays[f"y_{part}"][:, None], planes], 1)
        batches[f"{part}.bin"] = records.tobytes() + b"the records after those that are used"
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    subset = File("subset.npz", len(packed.getvalue()), digest(packed.getvalue()))
    card = card_of(to, batches, accepts=(subset,))
    card.arrays.update({name: digest(array.tobytes()) for name, array in arrays.items()})
    for _ in range(2):
        for part in ("train", "test"):
            x, y = images.cifar10(card, part)
            assert (x == arrays[f"x_{part}"].transpose(0, 3, 1, 2)).all()
            assert (y == arrays[f"y_{part}"]).all()
        (to / "subset.npz").write_bytes(packed.getvalue())


# --- where files are, and that they are checked --------------------------------------------------


@pytest.fixture
def empty_machine(tmp_path, monkeypatch):
    """No FEDLAB_DATA, an empty cache, a package without its files: nothing is found."""
    monkeypatch.delenv("FEDLAB_DATA", raising=False)
    monkeypatch.setattr(store, "EMBEDDED", tmp_path / "package" / "files")
    monkeypatch.setattr(store.pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    return tmp_path


def test_a_missing_set_names_the_file_the_hash_and_the_ways_out(empty_machine, capsys):
    for name, card in CARDS.items():
        if not card.files:
            continue
        with pytest.raises(DataUnavailable) as caught:
            load(name)
        told, embedded = str(caught.value), name in CLASS_COUNTS
        assert card.files[0].path in told
        assert (f"fetch {name}" in told) == (not embedded)
    assert not (empty_machine / "cache").exists()  # looking writes nothing
    assert folder() == empty_machine / "cache" / "fedlab_mini"
    assert main(["list"]) == 0
    assert len(re.findall("absent$", capsys.readouterr().out, re.M)) == 7
    assert main(["verify"]) == 1


# --- fetch, from a server on this machine --------------------------------------------------------


TWO = {"a.bin": b"a" * 5000, "b.bin": b"b" * 7000}
ARCHIVES = {"both.zip": "zip", "both.tar.gz": "gztar"}


@pytest.fixture
def served(empty_machine, to, monkeypatch):
    """The folder of a server that offers two files and their archives, and what it was asked."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("FEDLAB_DATA", str(to))
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            asked.append(self.path.rpartition("/")[2])

    folder = empty_machine / "served"
    (folder / "inside").mkdir(parents=True)
    for name, content in TWO.items():
        (folder / "inside" / name).write_bytes(content)
    for kind in ARCHIVES.values():
        shutil.make_archive(str(folder / "both"), kind, folder, "inside")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield folder, asked, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
    with warnings.catch_warnings():  # requests leaves a refused answer open until it is collected
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def on_offer(served, monkeypatch, packed: str = "") -> Card:
    """A card in the registry whose two files are served, alone or in that archive."""
    folder, _, address = served
    archive = None
    if packed:
        content = (folder / packed).read_bytes()
        archive = Archive(f"{address}/{packed}", len(content), digest(content))
    files = []
    for name, content in TWO.items():
        url = f"{address}/{packed or f'inside/{name}'}"
        member = f"inside/{name}" if packed else None
        files.append(File(f"toy/{name}", len(content), digest(content), url, member))
    card = Card("toy", {"all": 1}, ("0",), "CC0", "a test", files=tuple(files), archive=archive)
    monkeypatch.setitem(CARDS, "toy", card)
    return card


def everything_in(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}


@pytest.mark.parametrize("packed", ["", *ARCHIVES])
def test_fetch_puts_checked_files_in_place(packed, served, monkeypatch, to, capsys):
    (_, asked, address), wanted = served, [packed] if packed else [*TWO]
    card = on_offer(served, monkeypatch, packed)
    assert main(["fetch", "toy"]) == 0
    shown = capsys.readouterr()
    assert "licence: CC0" in shown.out
    assert shown.out.count(f"{address}/") == len(wanted)
    assert everything_in(to) == {f"toy/{name}": content for name, content in TWO.items()}
    assert fetch("toy") == [to / "toy/a.bin", to / "toy/b.bin"]
    assert asked == wanted  # nothing is downloaded twice
    (to / "toy/a.bin").unlink()
    fetch("toy")
    assert asked == wanted + wanted[:1]
    assert main(["verify", "toy"]) == 0
    (to / "toy/b.bin").write_bytes(b"damaged")  # and is left alone
    assert main(["verify", "toy"]) == main(["fetch", "toy"]) == 1
    shown = capsys.readouterr()
    assert all(digest(b"damaged") in text for text in shown)
    assert (to / "toy/b.bin").read_bytes() == b"damaged"
    assert store.verified(card, card.files[0]) == to / "toy/a.bin"


@pytest.mark.parametrize("packed", ["", "both.zip"])
def test_what_is_not_the_right_file_is_not_kept(packed, served, monkeypatch, to):
    on_offer(served, monkeypatch, packed)
    path = served[0] / (packed or "inside/a.bin")
    told = [digest(path.read_bytes()), digest(b"changed")]
    path.write_bytes(b"changed")
    with pytest.raises(DataUnavailable) as caught:
        fetch("toy")
    assert all(part in str(caught.value) for part in told)
    assert everything_in(to) == {}
