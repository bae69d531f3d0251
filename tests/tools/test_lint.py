"""The lint finds each of its kinds of fault, and none in a sound chapter."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

import chapters
import lint
import reading

ASSERT, PLAIN, CONTROL = ">assert accuracy > base", ">print(accuracy)", ">control = 1\nassert x"
CLAIM, RESULT = "FLDVE beats FedAvg.", "The accuracy is 0.93."
REASON = "The AUC falls, because the server is misled."
TYPED, UNCHECKED, CAUSE = "a typed result", "and no check near it", "and no control near it"
PROSE = [  # parts of a chapter, > before code; at the end, what is said of them
    ("The accuracy rises to 0.93 after ten rounds.", TYPED),
    ("One pass is twenty times the cost.", TYPED),
    ("In four of five seeds it is found.", TYPED),
    ("| method | accuracy |\n|---|---|\n| ours | 0.93 |", TYPED),
    ("The accuracy rises to {glue:text}`end:.2f`.", ""),
    ("The clamp keeps the mean probability between 0.1 and 0.9.", ""),
    ("The gap is 0.5 here.\n<!-- typed: follows from the definition -->", ""),
    ("## By hand: two clients\n\n" + RESULT, ""),
    (CLAIM, PLAIN, UNCHECKED),
    (ASSERT, "b", PLAIN, CLAIM, UNCHECKED),
    (ASSERT, CLAIM, ""),
    (CLAIM, ">tell(\n    'gain',\n    study.paired('AUC', 'a', 'b'),\n    undecided=0,\n)", ""),
    ("## Summary\n\n- " + CLAIM, ""),
    ("It wins. <!-- unchecked: times differ between machines -->", ""),
    (REASON, ASSERT, CAUSE),
    (REASON, CONTROL, ""),
    (REASON + " <!-- cause: by definition -->", ""),
    (RESULT + " <!-- typed: -->", "without a reason"),
    ("Nothing here. <!-- unchecked: by hand -->", "excuses nothing"),
    ("The gap is 0.5. <!-- typed: by definition --> " + RESULT, TYPED + ", 0.93"),
    ("Guess first: a?\n\nIt is b.", "fold the answer"),
    ("Guess first: a?\n\n:::{admonition} Answer\n:class: dropdown\n\nb\n:::", ""),
    ("Guess first: a?", ">plots.curves(x, title='It is b')", "a title may give away"),
    (":::{admonition} Look\n- ![](a.png)\n:::", "no alt text"),
    (":::{figure} a.svg\n:width: 80%\n\nA caption.\n:::", "no alt text"),
    ("Look: ![A rising line.](a.png), and `![](a.png)`.", ""),
    ("word " * 5001, "5,007 words"),
    (" ".join("{glue:text}`" + name + "`" for name in "abcd"), "4 numbers in a paragraph"),
    *(("```{figure} a.svg\n:alt: A.\n```",) * k + ("11 figures" * (k > 10),) for k in (10, 11)),
    (*("Guess before you look: why?", PLAIN) * 3, "3 guesses"),
    ("Words.", ">" + 30 * "x\n" + "x", "cell of 31 lines"),
    (f"```python\n{77 * 'x'}\n```", "line of 77 columns"),
    (PLAIN, PLAIN, "no sentence before"),
    ("```{prf:theorem}\nx\n```", "directive in backticks"),
]


@pytest.mark.parametrize("case", PROSE, ids=lambda case: case[0][:40])
def test_a_planted_fault_is_found_and_what_is_sound_passes(case):
    cells = [new_markdown_cell("# A chapter\n\n## A part")]
    for part in case[:-1]:
        cells.append(new_code_cell(part[1:]) if part[0] == ">" else new_markdown_cell(part))
    looks = (lint.prose_faults, lint.guess_faults, lint.image_faults, lint.length_faults)
    found = [fault for look in (*looks, lint.code_faults) for fault in look(cells)]
    assert bool(found) == bool(case[-1]), found
    assert any(case[-1] in fault for fault in found) or not found, found


EDITS = [  # which file of a chapter: its text or its notebook; what is said of it
    (0, "", "", ""),
    (0, "seed = 0", "seed = 1", "hold other code"),
    (0, "\n# ", "\n\n\n# ", "canonical form"),
    (1, " ", "  ", "not what text and outputs give"),
    (0, 'scale = "fast"', 'scale = "paper"', "no cell tagged"),
    (0, "  image:\n", "  picture:\n", "without mystnb.image.alt"),
]


@pytest.mark.parametrize(("file", "old", "new", "said"), EDITS)
def test_text_and_notebooks_that_are_edited_alone_are_found(
    tmp_path, monkeypatch, file, old, new, said
):
    source = chapters.numbered()[2]
    for path in (source, *reading.places(source)):
        copy = tmp_path / path.relative_to(path.parents[1 + (path.parent.name == "solutions")])
        chapters.write_atomic(copy, path.read_text(encoding="utf-8"))
    monkeypatch.setattr(chapters, "NOTEBOOKS", tmp_path / "notebooks")
    copied = tmp_path / "chapters" / source.name
    edited = [copied, *reading.places(source)][file]
    text = edited.read_text(encoding="utf-8")
    assert old in text
    edited.write_text(text.replace(old, new, 1), encoding="utf-8")
    found = lint.faults(copied)
    assert any(said in fault for fault in found) if said else found == []
