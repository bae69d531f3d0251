"""The code at the start of every lab check: a check says what it found, never the right answer.

otter-grader shows a traceback and the line of a failed check, and that line often contains
the answer. Here it shows a sentence, and after each wrong try the next folded hint of
the check. `labs.py` copies this text into sheets.
"""

import base64
import dis
import fractions
import functools
import hashlib
import html
import os
import re
from unittest import mock

import numpy
import torch
from IPython import get_ipython
from otter.test_files.exception_test import ExceptionTestFile

STILL = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
TRIES = 3  # of a choice question; then it is explained
EMPTY = "not answered yet, or its cell has not been run to the end: "
UNCHANGED = "not changed yet: "
HINT = "\nHint "  # beginning of a hint, after the sentence
why = ""  # of a choice question, encoded; `labs.py` fills it in
given = ""  # the sheet's answer cell, if it defines something; also filled in


class NotYet(Exception):
    """Says what was found, and after how many tries, if these are already counted."""


class Form(Exception):
    """Says in which form an answer is wanted; that is no try."""


def blank(value):
    """Whether there is no answer: no value, dots, an empty list, dots as a function's body."""
    if isinstance(value, (list, tuple, set, dict, str)):
        return not value or any(
            item is ... for item in [*value, *getattr(value, "values", tuple)()]
        )
    if hasattr(value, "__code__"):
        return {step.opname for step in dis.get_instructions(value)} <= STILL
    return value is None or value is ...


def untouched(value):
    """Whether a function is still the one of the sheet, with its bug."""
    code = getattr(value, "__code__", None)
    return code is not None and code in compile(given, "cell", "exec").co_consts


def plain(value):
    """The same answer in its usual form: "3", 3.0 and tensor(3) are 3; "2/5" and "40 %" are 0.4.

    A function then returns float64 tensors, even if it makes lists, arrays or float32 tensors.
    """
    if hasattr(value, "__code__"):
        return functools.wraps(value)(lambda *given, **named: doubled(value(*given, **named)))
    if isinstance(value, (list, tuple, set)) and not hasattr(value, "_fields"):
        alone = [*value] if len(value) == 1 else [[]]
        return (
            plain(*alone)
            if isinstance(*alone, (int, float, str))
            else type(value)(map(plain, value))
        )
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return number(value)
    if hasattr(value, "tolist") and tuple(getattr(value, "shape", (0,))) in ((), (1,)):
        value = value.item()
    elif type(value).__module__ == "numpy":
        value = value.tolist()
    if isinstance(value, fractions.Fraction):
        value = float(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def doubled(value):
    """Numbers in a list, array, tensor or dict by id as a float64 tensor; else nothing changes."""
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if type(value) is dict and {*value} == {*range(len(value))}:
        value = [value[k] for k in range(len(value))]
    if type(value) not in (list, tuple, numpy.ndarray):
        return value
    try:
        return torch.tensor(numpy.array(value, dtype=float))
    except (TypeError, ValueError, RuntimeError):
        return value


def number(text):
    """The number in a text, or the text."""
    bare, share = re.subn(r"\s*(%|per ?cent)$", "", text.strip().replace("\u2212", "-"))
    try:
        found = fractions.Fraction(re.sub(r"^([-+]?\d+),(\d+)$", r"\1.\2", bare))
    except (ValueError, ZeroDivisionError):
        return text
    found = float(found / 100 if share else found)
    return int(found) if found.is_integer() else found


# The annotation of a check's argument names the form of the answer: it makes the usual form of
# every form with the same meaning, and refuses one that has no meaning here.


def named(name):
    """A name as its letters and digits: "Client 0", "0" and 0 are one name."""
    if isinstance(name, (tuple, frozenset)):
        return "".join(sorted(map(named, name)))
    bare = re.sub(r"client|clinic|hospital|[^a-z0-9.]", "", str(name).lower())
    return str(number(bare))


def items(value):
    """What a list, array, tensor or text holds, or None."""
    if isinstance(value, str):
        bare = value.strip(" ()[]{}").removesuffix(".")
        return [*map(number, re.split(r"\s*[,;]\s*|\s+and\s+|\s+(?=[-+\d])", bare))]
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (range, type({}.keys()), type({}.values()))):
        value = [*value]
    if not isinstance(value, (list, tuple)):
        return None
    rows = [item.tolist() if hasattr(item, "tolist") else item for item in value]
    if len(rows) == 1 and isinstance(rows[0], (list, tuple)):
        return [*rows[0]]
    single = all(isinstance(row, (list, tuple)) and len(row) == 1 for row in rows)
    return [row[0] for row in rows] if single else rows


def ordered(names, words="", wide=0):
    """A list with a number for each name; or one of some words, or a list of so many numbers."""
    what = f"{len(names)} lists of {wide} numbers" if wide else f"{len(names)} numbers"
    what = f"{len(names)} of the words {words}" if words else what
    wanted = f"expected a list of {what}, in the order {', '.join(map(str, names))}"

    def form(value):
        if isinstance(value, dict):
            by = {named(name): item for name, item in value.items()}
            found = [by.get(named(name)) for name in names] if len(by) == len(names) else None
        else:
            found = items(value)
        if isinstance(value, (set, frozenset)):
            raise Form(f"{wanted}; a set has no order")
        if found is None or len(found) != len(names):
            raise Form(f"{wanted}; got {'no list' if found is None else len(found)}")
        if wide:
            return [ordered(range(wide))(row) for row in found]
        found = [plain(item) for item in found]
        if words:
            found = [str(word).strip(" .'\"").lower() for word in found]
        if not all(
            word in words.split(", ") if words else isinstance(word, (int, float)) for word in found
        ):
            raise Form(f"{wanted}; got {found}")
        return found

    return form


worths = ordered(["nobody", "A", "B", "AB", "C", "AC", "BC", "ABC"])


def members(count):
    """A set of ids; a mask, a dict of yes and no, a list and a text also say who is in it."""
    wanted = f"expected ids from 0 to {count - 1}, such as {{0, 1}}"

    def form(value):
        if isinstance(value, dict):
            if not all(plain(item) in (0, 1) for item in value.values()):
                raise Form(f"{wanted}; got a dict of other values than True and False")
            inside = [name for name, item in value.items() if plain(item)]
            return {int(named(k)) if named(k).isdigit() else k for k in inside}
        found = [value] if isinstance(plain(value), int) else items(value)
        found = [*value] if isinstance(value, (set, frozenset)) else found
        if found is None:
            raise Form(wanted)
        found = [plain(item) for item in found]
        if len(found) == count and {*found} <= {0, 1} and len({*found}) < count:
            return {k for k, inside in enumerate(found) if inside}
        return {*found}

    return form


def member(count):
    """An id, or a client's name; a mask and a set of one say it, too."""

    def form(value):
        found = [*members(count)(value)] if not isinstance(value, str) else [plain(value)]
        if len(found) != 1:
            raise Form(f"expected one id from 0 to {count - 1}; got {len(found)}")
        return found[0]

    return form


def switches(count):
    """A list of True and False for each id."""

    def form(value):
        inside = members(count)(value)
        if strange := sorted(map(str, inside - {*range(count)})):
            said = f"expected a list of {count} values, True or False, or ids from 0"
            raise Form(f"{said} to {count - 1}; got {', '.join(strange)}")
        return [k in inside for k in range(count)]

    return form


def table(*names):
    """A dict with these keys; a list has its values in their order."""

    def form(value):
        found = items(value)
        if found is not None and len(found) == len(names):
            value = dict(zip(names, found, strict=True))
        if not isinstance(value, dict):
            raise Form(f"expected a dict with the keys {', '.join(map(repr, names))}")
        right = {named(name): name for name in names}
        value = {right.get(named(name), name): plain(item) for name, item in value.items()}
        if lacking := [name for name in names if name not in value]:
            raise Form(f"expected a dict with the keys {', '.join(map(repr, lacking))}, too")
        return value

    return form


def formed(check, answer):
    """The answers in their usual form, by the annotations of the check."""
    made = {}
    for name, value in answer.items():
        try:
            made[name] = check.__annotations__.get(name, plain)(value)
        except Form as wrong:
            raise Form(f"{name}: {wrong}") from None
    return made


def chosen(given, key):
    """Refuse letters that differ from the key; the last try shows the explanation."""
    parts = given if isinstance(given, (list, tuple, set, frozenset)) else [given]
    words = re.sub(r"\band\b|[^a-z]", "", " ".join(map(str, parts)).lower())
    letters = "".join(sorted({*words}))
    if hashlib.sha256(f"lab {letters}".encode()).hexdigest()[:16] == key:
        return
    count = tries(why, letters)
    said = f"{', '.join(letters) or 'this'} is not it"
    if count < TRIES:
        raise NotYet(f"{said}; {count} of {TRIES} tries", count)
    raise NotYet(f"{said}. After {TRIES} tries, the answer: {explained(why)}", count)


def yes(given):
    """Whether the answer is True; a word that is neither True nor False is refused."""
    word = str(given).strip().lower()
    assert word in ("true", "yes", "1", "false", "no", "0"), f"expected True or False, got {given}"
    return word in ("true", "yes", "1")


def tries(check, answer):
    """The number of different wrong answers to a check in this kernel, with this one."""
    tried = ExceptionTestFile.__dict__.get("tried", {})
    tried.setdefault(check, set()).add(answer)
    ExceptionTestFile.tried = tried
    return len(tried[check])


def trace(value):
    """A value that differs if two answers do: the code of a function, or else its usual form."""
    return getattr(value, "__code__", None) or re.sub(r" at 0x\w+", "", repr(plain(value)))


def explained(coded):
    return base64.b64decode(coded).decode()


def raised(names, question):
    """The error of the newest cell that sets one of the names, or of the question's own cell."""
    shell = get_ipython()
    history = shell.history_manager if shell else None
    cells = history.input_hist_raw if history else []
    errors = getattr(history, "exceptions", {})
    for name in names:
        sets = re.compile(rf"^\s*(def {name}\b|[^=(#\n]*\b{name}\b[^=(<>!\n]*=(?!=))", re.M)
        found = [k for k, cell in enumerate(cells) if sets.search(cell)]
        if found and found[-1] in errors:
            return f"the cell that sets {name} raised {ended(errors[found[-1]])}"
    if "init_grading_mode(" in "".join(cells[:2]) and f'check("{question}")' in cells[-1]:
        # In marking, cells run in order; the question's own cells are between two checks.
        for k in range(len(cells) - 2, 0, -1):
            if "grader.check(" in cells[k]:
                break
            if k in errors:
                return f"its cell raised {ended(errors[k])}"
    return ""


def ended(error):
    """The error that ended a cell, as half a line."""
    message = re.sub(r" \(\S*, line (\d+)\)$", r" (line \1)", error["evalue"])
    return f"{error['ename']}: {' '.join(message.split())[:150]}".rstrip(": ")


def quiet(*hints):
    """The check on answers in their usual form; every failure becomes a sentence.

    hints  one for each wrong try; the last one also for all later tries
    """

    def quieted(check):
        @functools.wraps(check)
        def run(**answer):
            empty = [name for name, value in answer.items() if blank(value)]
            said, count = f"{EMPTY}{', '.join(empty)}", 0
            if not empty:
                try:
                    with mock.patch.dict(os.environ, TQDM_DISABLE="1"):  # no bars in a check
                        return check(**formed(check, answer))
                except Form as found:
                    raise NotYet(str(found)) from None
                except NotYet as found:
                    said, count = found.args
                except AssertionError as found:
                    said = str(found)
                except Exception as found:
                    kind = type(found).__name__
                    said = f"this answer cannot be used as it stands: {kind}, {found}"
                    if "dtype" in said:
                        said += ". Here numbers are float64: write .double() behind what is not"
                    if not hasattr(next(iter(answer.values())), "__code__"):
                        raise NotYet(f"{said}. Another form is wanted") from None
            question = check.__globals__.get("name")
            if error := raised(answer, question):
                raise NotYet(error)
            if empty:
                raise NotYet(said)
            if any(map(untouched, answer.values())):
                said = f"{UNCHANGED}{said}"
            else:
                which = question, check.__name__
                count = count or tries(which, tuple(map(trace, answer.values())))
                if not why or count < TRIES:
                    place = min(count, len(hints))
                    said += f"{HINT}{place} of {len(hints)}: {hints[place - 1]}"
            raise NotYet(said)

        return run

    return quieted


def shown(results):
    """A question's results as shown to a reader."""
    question = f"Question {results.name.removeprefix('q')}"
    if results.passed_all:
        # the newest check of any question has put this function here, but each has its own reason
        coded = results.test_cases[0].body.test_func.__globals__.get("why")
        reason = f"<p>{paragraph(explained(coded))}</p>" if coded else ""
        return f"<p><strong>{question}: passed.</strong></p>{reason}"
    told = [f"<p><strong>{question}: not yet.</strong></p>"]
    failed = [case for case in results.test_case_results if not case.passed]
    for case in failed:
        said, _, hint = case.message.split("\n", 1)[1].partition(HINT)
        told.append(f"<p>{paragraph(said)}</p>")
        if hint:
            place, _, text = hint.partition(": ")
            folded = f"<summary>Hint {place}</summary>{paragraph(text)}"
            told.append(f"<details>{folded}</details>")
    return "".join(dict.fromkeys(told))


def paragraph(text):
    """Text with **bold** and `code`, as HTML."""
    bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(text, quote=False))
    return re.sub(r"`(.+?)`", r"<code>\1</code>", bold)


ExceptionTestFile._generate_error_message = lambda self, found, context=0: str(found)
ExceptionTestFile._repr_html_ = shown
