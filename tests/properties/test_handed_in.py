"""A teacher's table comes back from a spreadsheet, and files come under any name: nothing is lost.

Drawn are names of what a class hands in. No sheet is run here: what marks it is replaced.
"""

import csv
import io
import random

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
    seen = [row | {"remark": "Größe 7,5"} for row in csv.DictReader(io.StringIO(path.read_text()))]
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


WRONG = {
    "cp1252": "student,file,sha256\nJörg,a.ipynb,aa\n".encode("cp1252"),
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
