"""Command lines: bad words end in one clear sentence, and no console or pipe loses a file."""

import io
import os
import re
import shlex
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

import fedlab_bench.__main__ as bench_command
import studies.__main__ as study_command
from fedlab_mini.__main__ import main
from fedlab_mini.command import matched

LINES = ("", "nothing", "data", "data nothing", "data fetch nothing")
BENCH = (
    "",
    "nothing",
    "compare --method os",
    "compare --seeds 0",
    "compare --figure out.xyz",
    "compare --beside nothing --csv out.csv",
    "judge broken.csv",
    "judge nothing",
    "judge no_module:NAME --seeds 1",
    "judge size --csv no/folder/out.csv",
)
STUDIES = ("nothing", "show nothing", "run nothing", "run cgsv-odd --seeds x")


EARLY = (  # what cannot end well; nothing is trained for it
    "compare --metric AUC --scenarios alike",
    "compare --metric 'rank gained'",
    "compare --cache broken.npz/cache",
    "rounds --to broken.npz/rounds",
    "truth --to broken.npz",
    "judge size --seeds 200-201",
    "judge size --scenarios sizes --metric AUC",
)


@pytest.mark.parametrize("line", EARLY)
def test_what_cannot_end_well_is_refused_before_computing(line, folder, capsys, monkeypatch):
    for name in ("fedlab_bench.worlds.World.made", "fedlab_mini.train"):
        monkeypatch.setattr(name, lambda *_, **__: pytest.fail("something was computed"))
    with pytest.raises(SystemExit) as left:
        sys.exit(bench_command.main(shlex.split(line)))
    assert left.value.code not in (0, None)
    assert re.search(r"[a-z]{4}", "".join(capsys.readouterr()))
    assert {path.name for path in folder.iterdir()} == {"broken.npz", "broken.csv"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with broken files, in which the command is called."""
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04" + b"\0" * 40)
    (tmp_path / "broken.csv").write_text("what no bench can read")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "line"),
    [
        *((main, line) for line in LINES),
        *((bench_command.main, line) for line in BENCH),
        *((study_command.main, line) for line in STUDIES),
    ],
)
def test_a_command_refuses_and_leaves_nothing(command, line, folder, capsys):
    with pytest.raises(SystemExit) as left:
        sys.exit(command(line.split()))
    out, said = capsys.readouterr()
    said = f"{out}{said}{left.value.code}"
    assert left.value.code not in (0, None), said
    assert re.search(r"[a-z]{4}", said), "it says nothing"
    assert "Traceback" not in said
    assert {path.name for path in folder.iterdir()} == {"broken.npz", "broken.csv"}


ALL = [main, bench_command.main, study_command.main]


@pytest.mark.parametrize("command", ALL)
def test_any_letter_and_an_interruption(command, monkeypatch, capsys):
    def interrupted(*given):
        print("Łódź")
        raise KeyboardInterrupt

    console = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(ArgumentParser, "parse_args", interrupted)
    monkeypatch.setattr(sys, "stdout", console)
    with pytest.raises(SystemExit) as left:
        command([])
    assert console.buffer.getvalue().decode("cp1252").strip() == r"\u0141ód\u017a"
    assert (capsys.readouterr().err, left.value.code) == ("interrupted\n", 130)


WORK = {
    "judge": "judge size --scenarios alike --alone --csv out.csv --page o.html "
    "--scores-to to.csv --figure o.svg",
    "compare": "compare --seeds 1 --rounds 1 --scenarios alike --beside size --csv out.csv "
    "--figure o.svg",
}


@pytest.mark.parametrize("line", WORK.values(), ids=WORK)
def test_files_are_written_though_nobody_reads_the_table(line, folder, monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", buffering=1, encoding="utf-8") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        with pytest.raises(SystemExit) as left:
            bench_command.main(line.split())
    said = re.sub("^1 cells, .*\n", "", capsys.readouterr().err)
    assert (said, left.value.code) == ("", 141)
    wanted = {word for word in line.split() if re.search(r"^(o|out|to)\.", word)}
    assert wanted < {path.name for path in folder.iterdir()}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a pipe that has a name")
def test_no_file_takes_the_place_of_a_device(folder, capsys):
    os.mkfifo("out.csv")
    with pytest.raises(SystemExit):
        bench_command.main(WORK["judge"].split())
    assert "--csv: expected a plain file" in capsys.readouterr().err
    assert Path("out.csv").is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_behind_the_table(folder, monkeypatch):
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit, match="cannot print: No space left"):
            bench_command.main(WORK["judge"].split())
    assert Path("out.csv").is_file()


NAMES = ["r_1.npz", "r_2.npz", "._r_1.npz", "a[1].npz", "a1.npz", "ö x[b]/r_3.npz"]
PATTERNS = {
    "r_*.npz": ["r_1.npz", "r_2.npz"],
    "r_?.npz": ["r_1.npz", "r_2.npz"],
    "r_[2-9].npz": ["r_2.npz"],
    "a[1].npz": ["a[1].npz"],  # a file of this name comes first
    "ö x[b]/r_*.npz": ["ö x[b]/r_3.npz"],
    "ö*/*.npz": ["ö x[b]/r_3.npz"],
    "gone.npz": ["gone.npz"],  # said by who reads it
    "gone_*.npz": "rounds: expected files, got gone_*.npz, which matches none",
}


@pytest.mark.parametrize(("pattern", "wanted"), PATTERNS.items(), ids=PATTERNS)
def test_a_pattern_that_the_shell_left(pattern, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    try:
        found = [path.as_posix() for path in matched("rounds", [Path(pattern)])]
    except ValueError as refusal:
        found = str(refusal)
    assert found == wanted


def test_commands_resolve_patterns(folder, capsys):
    Path("mine_1.csv").write_text("what no bench can read")
    with pytest.raises(SystemExit):
        bench_command.main(["judge", "mine_*.csv"])
    assert "mine_1.csv" in capsys.readouterr().err
