"""Data sets: what a Dataset holds, where files are found, what is checked, what fetch does."""

import gc
import gzip
import hashlib
import io
import json
import re
import shutil
import threading
import warnings
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

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
    text_dataset,
)
from fedlab_mini.worlds.data.registry import Archive, Card, File
from fedlab_mini.worlds.data.text import LENGTH, read_sms

ROOT = Path(__file__).resolve().parents[2]
EMBEDDED = ["digits", "mnist5k", "sms-synthetic"]
NOWHERE = "http://127.0.0.1:9/x"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- what a set holds ----------------------------------------------------------------------------


def test_a_dataset_completes_itself_and_is_cut():
    x, y = np.arange(12).reshape(6, 2), np.array([2, 0, 1, 2, 0, 2], dtype=np.uint8)
    data = Dataset(x, y, np.int64(3), shape=(1, 1, 2))
    assert repr(data) == "Dataset(data: 6 samples, 2 features = 1x1x2, 3 classes, float32)"
    assert (data.labels, data.y.dtype, len(data)) == (("0", "1", "2"), torch.int64, 6)
    assert data.subset([4, 0]).x.tolist() == [[8, 9], [0, 1]]
    assert data.subset(data.y == 2).y.tolist() == [2, 2, 2]
    few = replace(data, labels=("a", "b", "c")).only_classes([2, 0])
    assert (few.y.tolist(), few.labels, few.classes) == ([0, 1, 0, 1, 0], ("c", "a"), 2)
    assert few.x.equal(data.x[[0, 1, 3, 4, 5]])
    for classes, words in (([1], "classes: no sample"), ([0, 0], "classes: expected different")):
        with pytest.raises(ValueError, match=words):
            few.subset([0]).only_classes(classes)
    double = data.to(dtype=torch.float64)
    assert (double.x.dtype, double.y.dtype) == (torch.float64, torch.int64)
    marks = {d.sha256() for d in (data, double, data.subset([1, 0, 2, 3, 4, 5]))}
    assert len(marks) == 3
    assert Dataset(x.tolist(), y.tolist(), 3).sha256() == data.sha256()


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_are_those_of_their_cards(name, capsys, monkeypatch):
    data, card = load(name, dtype=torch.float64), CARDS[name]
    assert (len(data), data.classes, data.labels) == (card.samples, len(card.labels), card.labels)
    assert (data.name, data.licence, data.shape) == (name, card.licence, card.shape)
    assert (data.x.dtype, float(data.x.min())) == (torch.float64, 0)
    assert card.shape is None or data.x.max() == 1
    assert data.y.bincount().tolist() == CLASS_COUNTS[name, None]
    assert main(["verify", name]) == 0  # the hashes of files, arrays or samples
    assert re.search("ok$", capsys.readouterr().out, re.M)
    if card.content:
        monkeypatch.setitem(CARDS, name, replace(card, content="0" * 64))
        assert main(["verify", name]) == 1
        assert "expected SHA-256 000" in capsys.readouterr().out


MESSAGES = [
    ("ham", "See you at home, at home!"),
    ("spam", "WIN win at 08081570000"),
    ("ham", "home"),
]


def test_messages_become_counts_or_tokens_of_the_most_frequent_words():
    data = text_dataset(MESSAGES, vocabulary=3)
    assert data.vocabulary == ("at", "home", "win")
    assert data.x.tolist() == [[2, 2, 0], [1, 0, 2], [0, 1, 0]]
    assert data.y.tolist() == [0, 1, 0]
    data = text_dataset(MESSAGES, features="tokens", vocabulary=3)
    assert data.x.shape == (3, LENGTH)
    assert data.x[:, :5].tolist() == [[1, 2, 1, 2, 0], [3, 3, 1, 0, 0], [2, 0, 0, 0, 0]]
    assert not data.x[:, 5:].any()
    assert (text_dataset([("ham", "so good " * 200)], features="tokens").x > 0).all()
    assert load("sms-synthetic").x.shape == (5574, 500)
    assert load("sms-synthetic", features="tokens").x.max() == 1000
    for strange in ([], [("junk", "hello you")], [("ham", 3)], ["ham"], None, [("ham", "a b")]):
        with pytest.raises((TypeError, ValueError), match=r"^messages: "):
            text_dataset(strange)


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
    content = 'ham\tshe said "come\nspam\tcall\tnow\nham\tmore\u2028of it\n'.encode()
    assert read_sms(card_of(to, {"toy": content})) == [
        ("ham", 'she said "come'),
        ("spam", "call\tnow"),
        ("ham", "more\u2028of it"),
    ]


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
    both = load("mnist", part="all")
    assert torch.equal(both.x[:3], data.x)
    assert (both.y.tolist(), both.part) == ([1, 26, 2, 1, 26], "all")


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
    from_batches = [images.cifar10(card, part) for part in ("train", "test")]
    (to / "subset.npz").write_bytes(packed.getvalue())
    from_subset = [images.cifar10(card, part) for part in ("train", "test")]
    for (x, y), (again_x, again_y) in zip(from_batches, from_subset, strict=True):
        assert x.shape[1:] == (3, 32, 32)
        assert (x == again_x).all()
        assert (y == again_y).all()
    card.arrays["y_test"] = "0" * 64
    with pytest.raises(DataUnavailable, match="y_test"):
        images.cifar10(card, "test")


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
        told, embedded = str(caught.value), name in EMBEDDED
        place = empty_machine / ("package" if embedded else "cache")
        for part in (card.files[0].path, card.files[0].sha256, str(place)):
            assert part in told
        assert ("FEDLAB_DATA" in told) == (f"fetch {name}" in told) == (not embedded)
        assert ("install the package anew" in told) == embedded
        assert f'load("{card.instead}")' in told or card.instead is None
    assert not (empty_machine / "cache").exists()  # looking writes nothing
    assert folder() == empty_machine / "cache" / "fedlab_mini"
    assert main(["list"]) == 0
    assert len(re.findall("absent$", capsys.readouterr().out, re.M)) == 6
    assert main(["verify"]) == 1
    assert re.search("mnist5k: .*mnist5k.npz not found", capsys.readouterr().out)


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
    assert shown.out.count(f"{address}/") == shown.out.count(", 0.0 MB") == len(wanted)
    assert str(to / "toy/a.bin") in shown.out
    assert "%" in shown.err  # the progress bar
    assert everything_in(to) == {f"toy/{name}": content for name, content in TWO.items()}
    assert fetch("toy") == [to / "toy/a.bin", to / "toy/b.bin"]
    assert asked == wanted  # nothing is downloaded twice
    (to / "toy/a.bin").unlink()
    assert main(["verify", "toy"]) == 1
    assert "toy/a.bin not found" in capsys.readouterr().out
    fetch("toy")
    assert asked == wanted + wanted[:1]
    assert main(["verify", "toy"]) == 0
    (to / "toy/b.bin").write_bytes(b"damaged")  # and is left alone
    assert main(["verify", "toy"]) == main(["fetch", "toy"]) == 1
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert digest(b"damaged") in text
        assert digest(TWO["b.bin"]) in text
    assert (to / "toy/b.bin").read_bytes() == b"damaged"
    assert store.verified(card, card.files[0]) == to / "toy/a.bin"


@pytest.mark.parametrize(
    ("packed", "change"),
    [("", "content"), ("", "gone"), ("", "no folder"), ("both.zip", "content")]
    + [(packed, "member") for packed in ARCHIVES],
)
def test_what_is_not_the_right_file_is_not_kept(packed, change, served, monkeypatch, to):
    card, (folder, asked, _) = on_offer(served, monkeypatch, packed), served
    path, told = folder / (packed or "inside/a.bin"), [digest(TWO["a.bin"]), "a.bin"]
    if change == "content":
        told = [digest(path.read_bytes()), digest(b"changed")]
        path.write_bytes(b"changed")
    elif change == "gone":
        path.unlink()
        told = ["404"]
    elif change == "member":
        file = replace(card.files[0], sha256="0" * 64)
        monkeypatch.setitem(CARDS, "toy", replace(card, files=(file,)))
        told.append("0" * 64)
    else:
        to.write_bytes(b"")
        told = [str(to)]
    with pytest.raises(DataUnavailable) as caught:
        fetch("toy")
    assert all(part in str(caught.value) for part in told)
    assert not to.is_dir() or everything_in(to) == {}
    assert bool(asked) == (change != "no folder")


# --- command line --------------------------------------------------------------------------------


def test_list_names_every_set(capsys):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    for card in CARDS.values():
        assert re.search(rf"^{card.name} +{card.samples:,} +{len(card.labels)} .*", shown, re.M)
    assert "in the package" in shown


# --- the cards ------------------------------------------------


CLASS_COUNTS = {
    ("digits", None): [178, 182, 177, 183, 181, 182, 181, 179, 174, 180],
    ("mnist5k", None): [500] * 10,
    ("sms-synthetic", None): [4827, 747],
    ("mnist", "train"): [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    ("mnist", "test"): [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ("cifar10", "train"): [396, 366, 420, 384, 422, 393, 414, 385, 407, 413],
    ("cifar10", "test"): [103, 89, 100, 103, 90, 86, 112, 102, 106, 109],
}


README = (ROOT / "data" / "README.md").read_text(encoding="utf-8")


def test_the_table_of_cards_is_that_of_the_registry():
    rows = re.findall(r"^\| `([\w-]+)` \| ([\d, +]+) \| (\d+) \| (.+?) \| (.+?) \|$", README, re.M)
    assert [row[0] for row in rows] == list(CARDS)
    for name, counts, classes, licence, where in rows:
        card = CARDS[name]
        assert [int(n.replace(",", "")) for n in counts.split("+")] == list(card.counts.values())
        assert (int(classes), licence) == (len(card.labels), card.licence)
        megabytes = sum(file.size for file in card.accepts or card.files) / 1e6
        assert f"{megabytes:.1f}" in where or card.embedded
        assert f"\n## {name}\n" in README
    told = " ".join(README.split())
    for (name, part), counts in CLASS_COUNTS.items():
        assert sum(counts) == CARDS[name].counts[part or "all"]
        assert " ".join(map(str, counts)) in told or len(set(counts)) == 1 or part is None
    licence = (store.EMBEDDED / "mnist5k.LICENSE.txt").read_text()
    assert "Attribution-ShareAlike 3.0" in licence


def test_the_statistics_of_messages_in_the_card_are_those_of_the_file():
    """The real collection's were recorded; no real message is stored."""
    recorded = json.loads((ROOT / "data" / "sms-statistics.json").read_text())
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \|$", README, re.M)
    assert len(rows) == 16
    assert all(float(in_reality) == recorded[name] for name, in_reality, _ in rows)
    messages = read_sms(CARDS["sms-synthetic"])
    texts = [text for _, text in messages]
    words = [re.findall(r"\b\w\w+\b", text.lower()) for text in texts]
    found = {"messages": len(texts), "repeats": len(texts) - len(set(texts))}
    found |= {"words": sum(map(len, words)), "vocabulary": len(set().union(*words))}
    for kind in ("ham", "spam"):
        mine = [k for k, (label, _) in enumerate(messages) if label == kind]
        digits = [sum(c.isdigit() for c in texts[k]) for k in mine]
        found[f"{kind}_characters_mean"] = round(np.mean([len(texts[k]) for k in mine]), 1)
        found[f"{kind}_digits_mean"] = round(np.mean(digits), 2)
        found[f"{kind}_words_mean"] = round(np.mean([len(words[k]) for k in mine]), 2)
    told = {name: float(synthetic) for name, _, synthetic in rows}
    assert {name: told[name] for name in found} == pytest.approx(found)
    long = {n for text in texts for n in re.findall(r"\d{6,}", text)}  # numbers free for drama
    assert {n[:8] for n in long} == {"07700900", "08081570", "09098790"}
