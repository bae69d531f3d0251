"""Ledger: what was changed, cut or reordered is found; what is there is only appended to."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from fedlab_flower import __main__ as command
from fedlab_flower import keys
from fedlab_flower.ledger import FORMAT, SIGNATURE, Entry, Ledger, Reader, digest, table
from fedlab_flower.page import DRAWN, Page
from fedlab_flower.standing import Standing

METHODS = ("CGSV", "step cosine")


def entry(t: int, nodes: int = 3, missing: int = 1, seed: int = 0) -> Entry:
    """A round; numbers of full length, of which no digit may be lost."""
    chance = random.Random(1000 * seed + t)
    names = [str(2**63 + 11 * k) for k in range(nodes)]
    return Entry(
        t,
        names,
        [chance.randrange(1, 99) for _ in names],
        [chance.lognormvariate(0, 9) for _ in names],
        {name: [chance.uniform(-1, 1) / 3 for _ in names] for name in METHODS},
        [f"{chance.getrandbits(256):064x}" for _ in names],
        {str(k): 'error: "no\ndisk"' for k in range(missing)},
    )


def written(path, rounds: int = 4, **options) -> Ledger:
    """A ledger of some rounds."""
    ledger = Ledger(path, METHODS, **options)
    list(ledger.replay())
    for t in range(ledger.past.t + 1, rounds + 1):
        ledger.append(entry(t))
    return ledger


def read(path, **options) -> list[Entry]:
    """All rounds; ValueError if the ledger does not hold."""
    reader = Reader(path, **options)
    held = list(reader.entries())
    reader.finish()
    return held


def test_what_was_written_comes_back_to_the_last_digit(tmp_path):
    written(tmp_path / "l")
    assert read(tmp_path / "l") == [entry(t) for t in range(1, 5)]


def test_it_is_appended_to_and_never_rewritten(tmp_path):
    path, before = tmp_path / "l", b""
    for rounds in range(5):
        written(path, rounds)  # started anew each time
        now = path.read_bytes()
        assert now.startswith(before)
        assert len(now) > len(before)
        assert len(now.splitlines()) == rounds + 1
        before = now
    for file in (path, tmp_path / "l.key"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_changed_bit_is_found_wherever_it_is(tmp_path):
    """Also in the last letter of a signature, of which base64 uses some bits only."""
    path = tmp_path / "l"
    written(path, 2)
    sound = path.read_bytes()
    for place in range(8 * len(sound)):
        damaged = bytearray(sound)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"line \d"):
            read(path)


def test_what_stands_behind_a_signature_says_nothing(tmp_path):
    """JSON's last word counts, and the signature covers the words before it."""
    path = tmp_path / "l"
    ledger = written(path, 3)
    lines = path.read_bytes().splitlines(True)
    forged = lines[2].replace(b'"}\n', b'","scores":{"CGSV":[9,9]},"node":["2","666"]}\n')
    for line in (forged, lines[2].replace(b'"}\n', b'" }\n')):
        path.write_bytes(b"".join([*lines[:2], line, *lines[3:]]))
        with pytest.raises(ValueError, match="line 3: the signature does not fit"):
            read(path, anchor=ledger.anchor)


@pytest.mark.parametrize(
    "fields",
    [
        {"node": ["1"]},
        {"node": 3},
        {"size": [1, 2]},
        {"scores": {"other": [1.0]}},
        {"scores": {name: [1.0] for name in (*METHODS, "more")}},
        {"scores": {name: [] for name in METHODS}},
        {"missing": []},
    ],
)
def test_a_strangers_ledger_is_refused_by_its_line(fields, tmp_path, capsys):
    """Signed, and yet without the columns of a round."""
    path = tmp_path / "l"
    key = keys.load(tmp_path / "l.key", make=True)
    head = {"ledger": FORMAT, "methods": METHODS, "key": keys.public(key)}
    start = json.dumps(head).encode() + b"\n"
    sound = {"node": ["1"], "size": [1], "norm": [1.0], "reply": [""], "missing": {}}
    sound |= {"scores": {name: [1.0] for name in METHODS}, "round": 1, "before": digest(start)}
    broken = sound | fields if fields != {"node": ["1"]} else {**fields, "round": 1}
    broken["before"] = digest(start)
    content = json.dumps(broken)[:-1].encode()
    signature = keys.sign(key, digest(content).encode())
    path.write_bytes(start + content + SIGNATURE + b'"' + signature.encode() + b'"}\n')
    with pytest.raises(ValueError, match="line 2: expected a place per node"):
        read(path)
    assert command.main(["page", str(path), str(tmp_path / "page.html")]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_reader_notices_that_a_ledger_was_cut(tmp_path):
    path = tmp_path / "l"
    written(path, 3)
    reader = Reader(path)
    assert len(list(reader.entries())) == 3
    os.truncate(path, path.stat().st_size - 10)
    with pytest.raises(ValueError, match="shorter than it was, at round 3: cut"):
        list(reader.entries())


def lines_changed(change):
    """Damage as a function of the lines."""
    return lambda path: path.write_bytes(b"".join(change(path.read_bytes().splitlines(True))))


DAMAGE = {
    "reordered": (lines_changed(lambda x: [x[0], x[2], x[1], x[3], x[4]]), "line 2"),
    "one missing": (lines_changed(lambda x: [*x[:2], *x[3:]]), "line 3"),
    "twice": (lines_changed(lambda x: [*x[:3], *x[2:]]), "line 4"),
    "cut within a line": (lines_changed(lambda x: [*x[:4], x[4][:-9]]), "line 5: the line is not"),
    "added": (lines_changed(lambda x: [*x, x[1]]), "line 6"),
    "no head": (lines_changed(lambda x: x[1:]), "line 1: expected the head"),
    "empty": (lambda path: path.write_bytes(b""), "line 1: expected JSON"),
    "no text": (lambda path: path.write_bytes(os.urandom(999)), "line 1: expected JSON"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_and_its_line_named(name, tmp_path):
    change, said = DAMAGE[name]
    path = tmp_path / "l"
    written(path)
    change(path)
    with pytest.raises(ValueError, match=re.escape(said)):
        read(path)


def test_a_line_of_another_ledger_of_the_same_key_is_found(tmp_path):
    """Its round and its signature fit: only the hash of the line before does not."""
    key = curve_key(tmp_path / "server.key")
    for name in ("one", "other"):
        ledger = Ledger(tmp_path / name, METHODS, key)
        list(ledger.replay())
        for t in (1, 2, 3):
            ledger.append(entry(t, seed=len(name)))
    other = (tmp_path / "other").read_bytes().splitlines(True)
    lines_changed(lambda x: [*x[:2], other[2], *x[3:]])(tmp_path / "one")
    with pytest.raises(ValueError, match=r"line 3: it does not follow"):
        read(tmp_path / "one")


def test_a_tail_that_was_cut_off_shows_by_an_anchor_only(tmp_path):
    path = tmp_path / "l"
    anchor = written(path).anchor
    assert read(path, anchor=anchor)
    lines_changed(lambda x: x[:-1])(path)
    assert len(read(path)) == 3  # every line that is there holds
    with pytest.raises(ValueError, match="ends with round 3, not with 4"):
        read(path, anchor=anchor)
    written(path)  # the same round once more: another time, another line
    with pytest.raises(ValueError, match="line 5: it is not the one of the anchor"):
        read(path, anchor=f"4:{'0' * 64}")
    for wrong in ("4", "x:" + "0" * 64, "4:12"):
        with pytest.raises(ValueError, match=r"^anchor: "):
            read(path, anchor=wrong)


def test_a_ledger_that_was_written_anew_shows_by_the_key_only(tmp_path):
    path = tmp_path / "l"
    key = written(path).past.fingerprint
    path.unlink()
    (tmp_path / "l.key").unlink()
    written(path)  # an enemy, with a key of their own
    assert len(read(path)) == 4
    with pytest.raises(ValueError, match="line 1: the key is"):
        read(path, key=key)


def curve_key(path, kind=None):
    """A private key as TLS has it."""
    made = kind or ec.generate_private_key(ec.SECP384R1())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(made.private_bytes(encoding, form, serialization.NoEncryption()))
    return path


def test_the_servers_tls_key_signs(tmp_path):
    key = curve_key(tmp_path / "server.key")
    ledger = written(tmp_path / "l", key=key)
    assert len(read(tmp_path / "l", key=ledger.past.fingerprint)) == 4
    assert not (tmp_path / "l.key").exists()
    with pytest.raises(ValueError, match="signed with another key"):
        written(tmp_path / "l")
    wrong = curve_key(tmp_path / "rsa", rsa.generate_private_key(65537, 1024))
    with pytest.raises(ValueError, match=r"^key: expected a private EC or Ed25519 key"):
        written(tmp_path / "m", key=wrong)
    with pytest.raises(ValueError, match=r"^key: expected a private EC or Ed25519 key"):
        written(tmp_path / "m", key=tmp_path / "l")


def test_other_scores_are_refused(tmp_path):
    written(tmp_path / "l")
    with pytest.raises(ValueError, match="holds CGSV, step cosine"):
        Ledger(tmp_path / "l", ["CGSV"])


def test_half_a_line_of_a_server_that_was_killed_is_cut_off(tmp_path, caplog):
    path = tmp_path / "l"
    written(path)
    sound = path.read_bytes()
    path.write_bytes(sound + b'{"round":5,"no')
    ledger = written(path)
    assert "half a line is cut off" in caplog.text
    assert path.read_bytes() == sound
    ledger.append(entry(5))
    assert len(read(path)) == 5


def test_two_servers_on_one_ledger(tmp_path):
    one, other = written(tmp_path / "l"), written(tmp_path / "l")
    one.append(entry(5))
    with pytest.raises(ValueError, match=r"^ledger: .* has \d+ bytes, not"):
        other.append(entry(5))
    assert len(read(tmp_path / "l")) == 5
    with pytest.raises(ValueError, match=r"^t: expected"):
        one.append(entry(9))
    with pytest.raises(ValueError, match=r"^norm: holds NaN"):
        one.append(Entry(6, ["1"], [1], [float("nan")], {name: [0.0] for name in METHODS}, [""]))


def test_a_full_disk_leaves_what_was_there(tmp_path):
    """A limit on the size of files, in a process of its own; the line is cut in its middle."""
    path = tmp_path / "l"
    written(path)
    sound = path.read_bytes()
    code = (
        "import resource, runpy, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(sound) + 100}, {len(sound) + 100}))\n"
        f"runpy.run_path({__file__!r})['written']({str(path)!r}, 5)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"OSError: ledger: cannot write {path}" in done.stderr
    assert os.strerror(errno.EFBIG) in done.stderr
    assert path.read_bytes() == sound
    written(path, 5)
    assert len(read(path)) == 5


def test_a_reader_goes_on_as_the_ledger_grows(tmp_path):
    path = tmp_path / "l"
    ledger = written(path)
    reader = Reader(path)
    assert len(list(reader.entries())) == 4
    with open(path, "ab") as file:
        file.write(b'{"round":5,')
    assert list(reader.entries()) == []
    assert reader.loose
    os.truncate(path, reader.end)
    ledger.append(entry(5))
    assert list(reader.entries()) == [entry(5)]
    reader.finish()


def test_the_table_is_tidy(tmp_path):
    written(tmp_path / "l", 2)
    rows = table(tmp_path / "l")
    columns = ["round", "node", "size", "weight", "norm", *METHODS, "reply", "missing"]
    assert list(rows.columns) == columns
    assert list(rows["round"]) == [1] * 4 + [2] * 4
    first = entry(1)
    assert list(rows["node"][:4]) == [*first.nodes, "0"]
    np.testing.assert_array_equal(rows["CGSV"][:3], first.scores["CGSV"])
    np.testing.assert_allclose(rows["weight"][:3], np.array(first.sizes) / sum(first.sizes))
    assert rows["missing"].isna().tolist() == [True, True, True, False] * 2


def run(*words: object) -> int:
    return command.main([str(word) for word in words])


def test_the_command_line_checks_and_tells(tmp_path, capsys):
    path = tmp_path / "l"
    ledger = written(path)
    key, anchor = ledger.past.fingerprint, ledger.anchor
    assert run("verify", path) == 0
    out = capsys.readouterr().out
    assert "4 rounds, 4 nodes" in out
    assert anchor in out
    assert "cut off shows by --anchor only" in out
    found = tmp_path / "found.csv"
    assert run("verify", path, "--key", key, "--anchor", anchor, "--csv", found) == 0
    assert len(pd.read_csv(found)) == 4 * 4
    assert "--anchor only" not in capsys.readouterr().out
    damaged = path.read_bytes().replace(b'"round":2', b'"round":3', 1)
    path.write_bytes(damaged)
    assert run("verify", path) == 1
    assert "line 3" in capsys.readouterr().err
    assert run("verify", tmp_path / "nothing") == 1
    with pytest.raises(SystemExit, match="2"):
        run("nonsense")


def test_the_command_runs_by_its_name(tmp_path):
    written(tmp_path / "l")
    words = [sys.executable, "-m", "fedlab_flower", "verify", str(tmp_path / "l")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{tmp_path / 'l'}: 4 rounds")


class Tags(HTMLParser):
    """Counts the tags of a page, and keeps its words."""

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.words = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def test_what_a_node_is_called_is_no_markup(tmp_path):
    path = tmp_path / "l"
    ledger = Ledger(path, METHODS)
    names = ["</title><script>alert(1)</script>", '" onload="alert(2)']
    for t in (1, 2):
        ledger.append(Entry(t, names, [1, 1], [1.0, 1.0], {m: [0.1, 0.2] for m in METHODS}, "ab"))
    Page(Reader(path)).write(tmp_path / "page.html")
    tags = Tags((tmp_path / "page.html").read_text()).tags
    assert "script" not in {name for name, _ in tags}
    assert not any("onload" in attributes for _, attributes in tags)


def test_the_page_draws_the_ends_and_lists_all(tmp_path):
    ledger = Ledger(tmp_path / "l", METHODS)
    list(ledger.replay())
    for t in range(1, 8):
        ledger.append(entry(t, nodes=4 + 3 * t))
    assert run("page", tmp_path / "l", tmp_path / "l.html") == 0
    page = Tags((tmp_path / "l.html").read_text())
    assert page.count("svg") == len(METHODS)
    assert page.count("polyline") == len(METHODS) * 2 * DRAWN
    standing = Standing(METHODS)
    for held in read(tmp_path / "l"):
        standing.add(held)
    assert page.count("tr") == 1 + len(standing.place) == 1 + 26
    assert page.count("meta") == 1
    for node, score in standing.scores()["step cosine"].items():
        assert node in page.words
        assert f"{score:.4g}" in page.words
    points = {len(a["points"].split()) for tag, a in page.tags if tag == "polyline"}
    assert points == {7}


def test_a_page_that_loads_itself_anew_follows_the_ledger(tmp_path):
    path, shown = tmp_path / "l", tmp_path / "l.html"
    ledger = written(path, 0)
    page = Page(Reader(path), every=5)
    assert page.write(shown)  # nobody yet
    assert not page.write(shown)
    for t in range(1, 451):
        ledger.append(entry(t))
        if t % 50 == 0 or t in (201, 301):  # the rounds after which every second one is dropped
            assert page.write(shown)
            assert page.rounds[-1] == t
    tags = Tags(shown.read_text())
    assert ("meta", {"http-equiv": "refresh", "content": "5"}) in tags.tags
    assert "after round 450" in tags.words
    assert len(page.history) <= 200


def test_the_command_goes_on_until_it_is_stopped(tmp_path):
    path, shown = tmp_path / "l", tmp_path / "l.html"
    ledger = written(path, 1)
    words = [sys.executable, "-m", "fedlab_flower", "page", str(path), str(shown)]
    with subprocess.Popen(
        [*words, "--every", "1"],
        stderr=subprocess.PIPE,
        text=True,
        # a shell lets what it starts in the background ignore an interrupt, and so would this one
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            wait_for(shown, "after round 1")
            ledger.append(entry(2))
            wait_for(shown, "after round 2")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0, process.stderr.read()
        finally:
            process.kill()  # nothing, if it has ended


def wait_for(path, words: str, seconds: float = 120) -> None:
    """Until a file holds some words."""
    import time

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and words in path.read_text():
            return
        time.sleep(0.2)
    raise TimeoutError(words)


def test_no_key_leaves_its_file(tmp_path):
    written(tmp_path / "l")
    secret = (tmp_path / "l.key").read_text().splitlines()[1]
    assert secret not in (tmp_path / "l").read_text()
    head = json.loads((tmp_path / "l").read_text().splitlines()[0])
    assert sorted(head) == ["key", "ledger", "methods"]
