"""Every mutant of the book fits its file, and those of what has changed are found."""

import mutants


def test_every_mutant_of_the_book_fits_its_file(tmp_path):
    """The text that is replaced stands once in its file, and a chapter or a test must notice."""
    for mutant in mutants.read():
        target = tmp_path / mutant.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((mutants.chapters.ROOT / mutant.file).read_bytes())
        mutant.apply(tmp_path)
        assert bool(mutant.chapter) != bool(mutant.test), mutant.claim


def test_mutants_of_what_has_changed_are_found_and_spread_evenly(monkeypatch):
    said = {"diff": ["fedlab_mini/a.py", "book/chapters/02_x.md"], "ls-files": ["t.py"]}
    monkeypatch.setattr(mutants, "git", lambda *words: said.get(words[0], []))
    places = [("fedlab_mini/a.py", "01", ""), ("b.py", "02", ""), ("b.py", "", "t.py::test_a")]
    places += [("b.py", "01", ""), ("b.py", "", "u.py::test_a")]
    more = {"claim": "", "find": "", "replace": ""}
    made = [mutants.Mutant(file=f, chapter=c, test=t, **more) for f, c, t in places]
    assert mutants.changed(made) == made[:3]
    assert mutants.spread(list("abcdef"), 3) == ["a", "c", "e"]
    assert mutants.spread(list("abcde"), 12) == list("abcde")
