"""What stands at the head of every lab check: a check says what it found, never what is right.

otter-grader shows a traceback and the line of a check that failed, and that line often compares
with the answer. Here it shows a sentence, and a hint to unfold once something has been answered.
`labs.py` copies the text into sheets.
"""

import base64
import dis
import fractions
import functools
import hashlib
import html
import re

from otter.test_files.exception_test import ExceptionTestFile

STILL = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
TRIES = 3  # at a question of choice; then it is explained
EMPTY = "not answered yet, or its cell has not been run to the end: "
why = ""  # of a question of choice, coded; `labs.py` fills it in


class NotYet(Exception):
    """Says what was found."""


def blank(value):
    """Whether nothing was written: no value, dots, an empty list, dots as a function's body."""
    if isinstance(value, (list, tuple, set, dict, str)):
        return not value or any(item is ... for item in value)
    if hasattr(value, "__code__"):
        return {step.opname for step in dis.get_instructions(value)} <= STILL
    return value is None or value is ...


def plain(value):
    """The same answer in its usual form: "3", 3.0 and tensor(3) are 3; "2/5" and "40 %" are 0.4."""
    if isinstance(value, (list, tuple, set)):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return number(value)
    if hasattr(value, "tolist") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    elif type(value).__module__ == "numpy":
        value = value.tolist()
    if isinstance(value, fractions.Fraction):
        value = float(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def number(text):
    """The number that a text writes, or the text."""
    bare, share = re.subn(r"\s*(%|per ?cent)$", "", text.strip().replace("\u2212", "-"))
    try:
        found = fractions.Fraction(re.sub(r"^([-+]?\d+),(\d+)$", r"\1.\2", bare))
    except (ValueError, ZeroDivisionError):
        return text
    found = float(found / 100 if share else found)
    return int(found) if found.is_integer() else found


def chosen(given, key):
    """Refuse other letters than those of the key; the last try is explained."""
    parts = given if isinstance(given, (list, tuple, set, frozenset)) else [given]
    words = re.sub(r"\band\b|[^a-z]", "", " ".join(map(str, parts)).lower())
    letters = "".join(sorted({*words}))
    if hashlib.sha256(f"lab {letters}".encode()).hexdigest()[:16] == key:
        return
    tried = ExceptionTestFile.__dict__.get("tried", {})
    tried.setdefault(why, set()).add(letters)
    ExceptionTestFile.tried = tried
    count = len(tried[why])
    said = f"{', '.join(letters) or 'this'} is not it"
    if count < TRIES:
        raise NotYet(f"{said}; {count} of {TRIES} tries")
    raise NotYet(f"{said}. After {TRIES} tries, the answer: {explained(why)}")


def explained(coded):
    return base64.b64decode(coded).decode()


def quiet(check):
    """The same check on answers in their usual form; every failure becomes a sentence."""

    @functools.wraps(check)
    def run(**given):
        empty = [name for name, value in given.items() if blank(value)]
        said = f"{EMPTY}{', '.join(empty)}"
        if not empty:
            try:
                return check(**{name: plain(value) for name, value in given.items()})
            except (AssertionError, NotYet) as found:
                said = str(found)
            except Exception as found:
                said = f"this answer cannot be used as it stands: {type(found).__name__}, {found}"
        raise NotYet(said)

    return run


def shown(results):
    """A question's results as a reader sees them."""
    question = f"Question {results.name.removeprefix('q')}"
    if results.passed_all:
        # the newest check of any question has put this function here: each has a reason of its own
        coded = results.test_cases[0].body.test_func.__globals__.get("why")
        reason = f"<p>{paragraph(explained(coded))}</p>" if coded else ""
        return f"<p><strong>{question}: passed.</strong></p>{reason}"
    told = [f"<p><strong>{question}: not yet.</strong></p>"]
    failed = [case for case in results.test_case_results if not case.passed]
    for case in failed:
        said = case.message.split("\n", 1)[1]
        told.append(f"<p>{paragraph(said)}</p>")
        if not said.startswith(EMPTY):
            hint = paragraph(case.test_case.failure_message or "")
            told.append(f"<details><summary>A hint</summary>{hint}</details>")
    return "".join(dict.fromkeys(told))


def paragraph(text):
    """Text with **bold** and `code`, as HTML."""
    bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(text, quote=False))
    return re.sub(r"`(.+?)`", r"<code>\1</code>", bold)


ExceptionTestFile._generate_error_message = lambda self, found, context=0: str(found)
ExceptionTestFile._repr_html_ = shown
