"""The lint of prose finds typed results and unchecked claims, and lets settings and marks pass."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

import lint_claims
from lint_prose import Paragraph, pieces

RESULTS = [
    "The accuracy rises to 0.93 after ten rounds.",
    "Its AUC is .97, well above chance.",
    "The error falls by 12 per cent.",
    "The recall of nines is 40 %.",
    "The loss ends at 0.31.",
    "It takes 3.2 seconds.",
    "The stack is twenty times faster than the loop.",
    "One pass is twenty times the cost.",
    "The score costs five points of accuracy.",
    "In four of five seeds it is above FedAvg.",
    "Ten orders meet about 24 coalitions.",
    "The chances range from 0.1 to 0.9.",
    "At temperature 0.02 the accuracy is 0.91.",
    "The largest client holds 17 times the data of the smallest.",
    "The rule repairs in 0.75 of the seeds.",
    "The number of irrelevant clients falls from 2.0 to 1.8.",
    "Under FedAvg 5.3 per cent of the digits are called nine.",
]
NO_RESULTS = [
    "The accuracy rises to {glue:text}`end:.2f` after ten rounds.",
    "At 0.02 the share rises, and so does the accuracy.",
    "With a temperature of 0.02 the accuracy rises.",
    "At Dirichlet 0.5 and 0.1 the error falls.",
    "With learning rate 0.3 the loss falls.",
    "With 40 % noise the accuracy falls.",
    "The accuracy moves in steps of 1/360.",
    "The network 784-32-10 has the lower error.",
    "{cite:t}`someone2020` report an accuracy of 0.93.",
    "Is the accuracy above 0.9?",
    "The weights are 0.6 and 0.8.",
    "The clamp keeps the mean probability between 0.1 and 0.9.",
    "The chance of renaming a group (p = .95) against the margin.",
    "An update twenty times too long has a large error.",
    "The error is $\\tfrac12 \\cdot 0.5 = 0.25$, and `0.25` in code.",
    "The gap is 0.5 here. <!-- typed: follows from the definition -->",
    "The gap is 0.5 here.\n<!-- typed: follows from the definition -->",
]
CLAIMS = [
    "Ours is above the other in every seed.",
    "The score never finds it.",
    "Nearly all of them are found.",
    "The weights are larger than before.",
    "It does better.",
    "FLDVE beats FedAvg.",
    "All three agree.",
    "Removal is as good as weighing.",
    "The noisy client comes last.",
    "No method survives it.",
    "Both find the noise.",
]
NO_CLAIMS = [
    "We train for twenty rounds.",
    "Is it better than before?",
    "Guess which curve is higher.",
    "We ask whether the score is better.",
    "The better of two updates, in order:",
    "It wins. <!-- unchecked: times differ between machines -->",
]
ASSERT, PLAIN = "assert accuracy > base", "print(accuracy)"


def chapter(*parts):
    """Cells from texts; what starts with > is code."""
    return [
        new_code_cell(part[1:]) if part.startswith(">") else new_markdown_cell(part)
        for part in ("# A chapter\n\n## A part", *parts)
    ]


def faults(*parts, code=True):
    return list(lint_claims.claim_faults(chapter(*parts), code))


@pytest.mark.parametrize("sentence", RESULTS)
def test_typed_result_is_found(sentence):
    found = faults(sentence, ">" + ASSERT)
    assert len(found) == 1
    assert "a typed result" in found[0]
    assert "glue it" in found[0]


@pytest.mark.parametrize("sentence", NO_RESULTS)
def test_settings_glued_values_and_marked_numbers_pass(sentence):
    assert faults(sentence, ">" + ASSERT) == []


@pytest.mark.parametrize("sentence", CLAIMS)
def test_claim_without_a_check_is_found(sentence):
    found = faults(sentence, ">" + PLAIN)
    assert len(found) == 1
    assert "no check near it" in found[0]
    assert faults(sentence, ">" + ASSERT) == []


@pytest.mark.parametrize("sentence", NO_CLAIMS)
def test_what_claims_nothing_needs_no_check(sentence):
    assert faults(sentence, ">" + PLAIN) == []


CLAIM, RESULT = "FLDVE beats FedAvg.", "The accuracy is 0.93."


@pytest.mark.parametrize(
    "parts",
    [
        (">" + ASSERT, CLAIM),
        (CLAIM, ">" + PLAIN, "More.", ">" + ASSERT),
        (CLAIM, ">torch.testing.assert_close(a, b)"),
        (CLAIM, ">with pytest.raises(ValueError):\n    f()"),
        (CLAIM, ">tell('gain', study.paired('AUC', 'a', 'b'), above=0)"),
        (CLAIM, ">tell(\n    'gain',\n    study.paired('AUC', 'a', 'b'),\n    undecided=0,\n)"),
        (":::{admonition} Paper versus code\n" + CLAIM + "\n:::", ">" + ASSERT),
        ("## Summary\n\n- " + CLAIM,),
        (":::{exercise}\n:label: ex-one\n\n" + CLAIM + "\n:::",),
        (":::{prf:proof}\n" + CLAIM + "\n:::",),
    ],
)
def test_check_before_or_soon_after_is_enough(parts):
    assert faults(*parts) == []


@pytest.mark.parametrize(
    "parts",
    [
        (CLAIM,),
        (CLAIM, "## Next", ">" + ASSERT),
        (">" + ASSERT, "## Next", CLAIM),
        (CLAIM, ">a", "b", ">c", "d", ">" + ASSERT),
        (">" + ASSERT, "b", ">c", CLAIM),
        (CLAIM, ":::{admonition} Break it\nTry.\n:::", ">" + ASSERT),
        ("- " + CLAIM, ">a"),
    ],
)
def test_check_out_of_reach_does_not_count(parts):
    assert len(faults(*parts)) == 1


REASON = "The AUC falls, because the server is misled."


@pytest.mark.parametrize(
    ("parts", "number"),
    [
        ((REASON,), 1),
        ((REASON, ">" + ASSERT), 1),
        ((REASON, ">control = train()\n" + ASSERT), 0),
        ((REASON, ">control = train()"), 1),
        ((REASON.replace(", because", ":"),), 1),
        (("The server waits, because it must.",), 0),
        (("Does the AUC fall because the server is misled?",), 0),
        ((REASON + " <!-- cause: by definition -->",), 0),
        (("## Summary\n\n- " + REASON,), 0),
        (("By hand. <!-- cause: by definition -->",), 1),
    ],
)
def test_a_reason_for_an_outcome_wants_its_control(parts, number):
    assert len(faults(*parts)) == number


def test_a_number_that_is_told_without_a_bound_is_no_check():
    assert len(faults(CLAIM, ">tell('gain', study.paired('AUC', 'a', 'b'))")) == 1


def test_an_announced_error_is_a_check():
    cells = chapter(CLAIM, ">f()")
    cells[-1].metadata["tags"] = ["raises-exception"]
    assert list(lint_claims.claim_faults(cells)) == []


@pytest.mark.parametrize(
    ("part", "number"),
    [
        ("## By hand: two clients\n\n" + RESULT, 0),
        ("## Part one\n\n### By hand: two clients\n\n" + RESULT, 0),
        ("## Part one\n\n### By hand: two\n\nTwo.\n\n### The game\n\n" + RESULT, 1),
        ("## Summary\n\n" + RESULT, 1),
        ("## Quiz\n\n" + RESULT, 0),
        (":::{solution} ex-one\n:class: dropdown\n\n" + RESULT + "\n:::", 0),
        (":::{admonition} Paper versus code\n:class: a\n\n" + RESULT + "\n:::", 1),
        ("| method | accuracy |\n|---|---|\n| ours | 0.93 |", 1),
        ("## A heading with an accuracy of 0.93", 0),
    ],
)
def test_where_results_may_be_typed(part, number):
    assert len(faults(part)) == number


def test_opening_of_a_chapter_is_free_and_that_of_a_page_is_not():
    cells = [new_markdown_cell("# A page\n\n" + RESULT)]
    assert list(lint_claims.claim_faults(cells)) == []
    assert len(list(lint_claims.claim_faults(cells, code=False))) == 1


def test_a_page_without_code_needs_no_checks_and_may_say_how_long_and_large():
    assert faults(CLAIM, code=False) == []
    assert faults("Installing takes about 20 minutes and about 1.5 GB.", code=False) == []


def captioned(caption, **metadata):
    cell = new_code_cell("draw()")
    cell.metadata.update({"mystnb": {"figure": {"caption": caption}}, **metadata})
    return list(lint_claims.claim_faults([*chapter("Look."), cell]))


def test_captions_are_prose_and_marked_in_the_metadata():
    assert "a typed result, 0.93" in captioned(RESULT)[0]
    assert "a claim (beats)" in captioned(CLAIM)[0]
    assert captioned("Look. " + RESULT, typed="by definition") == []
    assert captioned(CLAIM, unchecked="a drawing") == []
    assert "without a reason" in captioned(RESULT, typed="")[0]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (RESULT + " <!-- typed: -->", "without a reason"),
        (RESULT + " <!-- typed -->", "without a reason"),
        (CLAIM + " <!-- unchecked:  -->", "without a reason"),
        ("Nothing here. <!-- typed: by hand -->", "excuses nothing"),
        ("Nothing here. <!-- unchecked: by hand -->", "excuses nothing"),
        (RESULT + " <!-- unchecked: by hand -->", "a typed result"),
        (RESULT + " <!-- typd: by hand -->", "a typed result"),
    ],
)
def test_marks_need_a_reason_and_something_to_excuse(text, fault):
    found = faults(text, ">" + ASSERT)
    assert any(fault in line for line in found), found


def test_a_mark_excuses_one_sentence_only():
    marked = "The gap is 0.5. <!-- typed: by definition --> "
    assert len(faults(marked + RESULT)) == 1
    assert len(faults(RESULT + " " + marked)) == 1


def test_sentences_keep_words_and_name_the_rest():
    text = "The *{term}`gap <gaps>`* of {glue:text}`x` and $y$ is\n`z`. Next one? Yes (e.g. 3.5)."
    (paragraph,) = [p for p in pieces([new_markdown_cell(text)]) if isinstance(p, Paragraph)]
    assert paragraph.sentences == (
        "The gap of {glue:text} and {math} is {code}.",
        "Next one?",
        "Yes (e.g. 3.5).",
    )
