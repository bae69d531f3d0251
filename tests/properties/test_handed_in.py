"""A teacher's table comes back from a spreadsheet, and files come under any name: nothing is lost.

Drawn are names of what a class hands in. No sheet is run here: what marks it is replaced.
"""

import csv
import io
import random
import re

import pytest

import grades
import handed_in
import marking

NAMES = ["Jörg Müller", "fay", "=1+1", "'=x", "-5", "Łódź; Maß", 'a "quoted" one', "a, b", "x\ny"]
SAVED = [(",", "utf-8", "\n"), (";", "utf-8-sig", "\r\n"), ("\t", "utf-16", "\r\n")]


def cells(row):
    return sorted((name, value) for name, value in row.items() if value)


@pytest.mark.parametrize(("between", "encoding", "ends"), SAVED)
def test_a_table_that_a_spreadsheet_has_saved_is_kept(between, encoding, ends, tmp_path):
    """With a remark of the teacher's, a point of another kind, columns and a line of their own."""
    path, first = tmp_path / "grades.csv", grades.Table(tmp_path, False)
    for name in NAMES:
        row = {"student": name, "file": f"{name}/04.ipynb", "status": "graded", "points": "3.0"}
        first.add(row | {"q1": "1.0", "sha256": f"hash of {name}"})
    later = grades.Table(tmp_path, False)  # what is saved while sheets are marked is kept too
    text = path.read_text("utf-8-sig")
    seen = [row | {"remark": "Größe 7,5"} for row in csv.DictReader(io.StringIO(text))]
    seen[0]["points"] = "7,5"
    names = sorted(seen[0], reverse=True)
    seen.append(dict.fromkeys(names, "") | {"student": "mean", "points": "5,1"})
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=between, lineterminator=ends)
    writer.writerows([names, *([row[name] for name in names] for row in seen)])
    path.write_bytes(text.getvalue().encode(encoding))
    later.add({"student": "new", "file": "new/04.ipynb", "lab": "04_cgsv", "sha256": "ab"})
    after = csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline=""), delimiter=between)
    new = [("file", "new/04.ipynb"), ("lab", "04_cgsv"), ("sha256", "sha-ab"), ("student", "new")]
    assert sorted(map(cells, after)) == sorted([new, *map(cells, seen)])
    again = grades.Table(tmp_path, False)
    assert again.knows("new/04.ipynb", "ab")
    assert all(again.rows[where] for where in first.rows)


def garbled(text: str) -> str:
    """UTF-8 read as if it was Windows-1252, as by a spreadsheet that sees no mark."""
    return text.encode().decode("cp1252", "replace")


KEPT = {  # what a spreadsheet makes of the table's text
    "as it was": lambda text: text.encode("utf-8-sig"),
    "no mark": lambda text: text.encode(),
    "semicolons": lambda text: text.replace(",", ";").encode("utf-8-sig"),
    "ANSI": lambda text: text.encode("cp1252", "replace"),
    "ANSI, semicolons": lambda text: text.replace(",", ";").encode("cp1252", "replace"),
    "UTF-16, tabs": lambda text: text.replace(",", "\t").encode("utf-16"),
    "read as ANSI, saved as UTF-8": lambda text: garbled(text).encode("utf-8-sig"),
    "read as ANSI, saved as ANSI": lambda text: garbled(text).encode("cp1252", "replace"),
    "read as ASCII": lambda text: text.encode("ascii", "replace"),
    "a cell for each line": lambda text: re.sub("(?m)^(.*7.5.*?)\r", r'"\1"\r', text).encode(),
}


@pytest.fixture
def class_of(tmp_path, monkeypatch):
    """Sheets of some names, and a function that marks them and gives the table."""
    one = {"points": {"q1": 1}, "possible": {"q1": 1}, "said": {"q1": ""}}
    monkeypatch.setattr(marking.autograder, "archive", lambda stem, path: path)
    monkeypatch.setattr(marking, "marked", lambda *_: marking.Marks("04_cgsv", **one))

    def hand_in(**content):
        for name, text in content.items():
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "04.ipynb").write_text(f'{{"nbformat": 4, "it": "{text}"}}')

    def table():
        marking.grade(tmp_path)
        text = (tmp_path / "grades.csv").read_text("utf-8-sig")
        between = next(mark for mark in ",;\t" if f"lab{mark}" in text)
        return {row["student"]: row for row in csv.DictReader(io.StringIO(text), delimiter=between)}

    return tmp_path / "grades.csv", hand_in, table


@pytest.mark.parametrize("how", KEPT)
def test_a_changed_mark_stays_on_its_students_only_line(how, class_of):
    """Names beyond ASCII and beyond Windows-1252, and two that become one when they are garbled."""
    path, hand_in, table = class_of
    names = ["Jörg", "Jürg", "Łódź", "ann", "blank", "empty"]
    hand_in(**{name: "the same" if len(name) == 5 else name for name in names})
    before = table()
    assert sorted(before) == sorted(names)
    text = path.read_text("utf-8-sig")
    for name in ("Jörg", "Łódź", "ann"):
        line = next(line for line in text.splitlines() if f",{name}," in line)
        text = text.replace(line, line.replace(",1,", ",7.5,", 1))
    text = text.replace("\n", "\r\n")
    path.write_bytes(KEPT[how](text))
    for _ in range(2):
        after = table()
        assert sorted(after) == sorted(names)
        changed = [name for name in names if after[name]["points"] == "7.5"]
        assert changed == ["Jörg", "Łódź", "ann"]
        assert {n: row["sha256"] for n, row in after.items()} == {
            n: row["sha256"] for n, row in before.items()
        }
    assert path.read_bytes().startswith(b"\xef\xbb\xbflab")


def test_a_sheet_that_is_moved_or_handed_in_again_takes_its_line_along(class_of):
    """But a line whose student has left is nobody else's, also if another did the same."""
    path, hand_in, table = class_of
    hand_in(Jörg="first", ann="second", old="third", zoe="third")
    table()
    text = path.read_text("utf-8-sig").replace("sha256", "sha256,note").replace("Jörg", "J?rg")
    lines = text.splitlines()
    path.write_text("\n".join([lines[0], *(f"{x},note {k}" for k, x in enumerate(lines[1:]))]))
    (path.parent / "ann").rename(path.parent / "Ann Meyer")
    (path.parent / "old" / "04.ipynb").unlink()
    hand_in(Jörg="another")
    after = table()
    assert {name: row["note"] for name, row in after.items()} == {
        "Jörg": "note 0", "Ann Meyer": "note 1", "old": "note 2", "zoe": "note 3",
    }  # fmt: skip


def test_a_line_that_is_there_twice_is_refused(class_of):
    """As older versions have written it: one with a garbled name, one without."""
    path, hand_in, table = class_of
    hand_in(Jörg="first")
    table()
    head, line = path.read_text("utf-8-sig").splitlines()
    path.write_text("\n".join([head, line, garbled(line)]), encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"two lines for the sheet Jörg/04\.ipynb, one .* JÃ¶rg"):
        table()
    assert path.read_bytes() == before


WRONG = {
    "no encoding": b"student,file,sha256\nJ\x81rg,a.ipynb,aa\n",
    "two lines for a file": b"student,file,sha256\na,a.ipynb,aa\nb,a.ipynb,bb\n",
    "an open quote": b'student,file,sha256\na,"a.ipynb,aa\n',
}


@pytest.mark.parametrize("what", WRONG)
def test_a_table_that_could_lose_something_is_refused_before_anything_is_written(
    what, tmp_path, monkeypatch
):
    monkeypatch.setattr(marking, "marked", lambda *_: pytest.fail("a sheet was run"))
    (tmp_path / "grades.csv").write_bytes(WRONG[what])
    (tmp_path / "a.ipynb").write_text("{}")
    with pytest.raises(ValueError, match=r"grades\.csv"):
        marking.grade(tmp_path)
    assert (tmp_path / "grades.csv").read_bytes() == WRONG[what]
    assert {path.name for path in tmp_path.iterdir()} == {"grades.csv", "a.ipynb"}


ENDS = [".ipynb", ".IPYNB", ".ipynb.txt", ".html", ".json", "", ".csv"]
STEMS = [*NAMES, "grades", "J\udcf6rg", "back\\slash", "x" * 200, "ümlaut"]
SHEET = b'{"nbformat": 4}'


@pytest.mark.parametrize("seed", range(8))
def test_every_file_has_a_line_and_is_left_as_it_was(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(marking.autograder, "archive", lambda stem, path: path)
    monkeypatch.setattr(marking, "marked", lambda *_: marking.Marks(lab="04_cgsv"))
    draw, given = random.Random(seed), {}
    for k in range(draw.randint(1, 8)):
        stem, end = draw.choice(STEMS), draw.choice(ENDS)
        folder = draw.choice(["", "ann/", "ann/deep/er/", f"{k}/"])
        name = f"{stem}{end}"
        if f"{folder}{name}" != "grades.csv":
            given[f"{folder}{name}"] = draw.choice([SHEET, b"<html>mine</html>", b"", b"%PDF"])
        given[f"{folder}{name}.marks.html"] = b"<html>an export, called as a page</html>"
    for name, content in given.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / ".DS_Store").write_bytes(SHEET)  # what a Mac leaves has no line
    for again in (False, False, True):
        rows = marking.grade(tmp_path, again)
        assert {row["file"] for row in rows} == set(map(handed_in.shown, given))
        assert len(rows) == len(given)
        assert all((tmp_path / name).read_bytes() == content for name, content in given.items())
        assert set(grades.Table(tmp_path).rows) == {row["file"] for row in rows}
