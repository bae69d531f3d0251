"""Check the truth of prose: results are glued, a claim stands beside a check, a cause by a control.

All are rules of thumb. Where one errs, a comment in or after the sentence says why, and the reason
may not be empty: <!-- typed: reason -->, <!-- unchecked: reason -->, <!-- cause: what rules the
rival out -->. For the caption of a figure the same words are keys in the cell's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nbformat import NotebookNode

from lint_prose import Heading, Paragraph, Piece, pieces

WORKED = {"Exercises", "Quiz", "References"}  # worked by hand, or about other people's numbers
SUMS_UP = {"Summary"}  # repeats claims that are checked above
ASIDE = ("exercise", "solution", "prf:")

COUNT = (
    r"(?:\d[\d,.]*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty"
    r"|forty|fifty|sixty|seventy|eighty|ninety|(?:a |one )?(?:hundred|thousand|dozen))"
)
FREE = r"(?<![\w.,/-])[-+−±]?"
# numbers that a chapter has measured, whatever the sentence is about
MEASURED = re.compile(
    rf"\b(?:about|nearly|almost|roughly|around|approximately) {FREE}\d[\d.,]*"
    rf"|{FREE}\d*\.\d+(?: ?%| per ?cent\b| of the\b)|{FREE}\d[\d,.]* times\b"
    rf"|{FREE}{COUNT}[ -](?:seconds|minutes|milliseconds|ms)\b"
    rf"|{FREE}{COUNT}[ -](?:times|fold) (?:as|more|less|fewer|faster|slower|higher|lower|better"
    r"|worse|cheaper|larger|smaller|the (?:accuracy|cost|error|loss|price|time|variance))\b"
    rf"|\b(?:one|{COUNT}) (?:out )?of (?:the )?{COUNT} (?:seeds|runs|draws|cases|trainings)\b",
    re.IGNORECASE,
)
# numbers that are measured where the sentence speaks of an outcome
NUMBER = re.compile(
    rf"{FREE}(?:\d*\.\d+|\d[\d,]*(?=\s?%| per ?cent\b))|{FREE}{COUNT}[ -]points\b",
    re.IGNORECASE,
)
OUTCOME = re.compile(
    r"\b(?:accurac(?:y|ies)|AUC|F1|correlat\w+|(?<!standard )errors?|loss(?:es)?|recall|precision"
    r"|gaps?|shares?|faster|slower|variance|spread|gain(?:s|ed)?|gini|detect(?:s|ed|ion)"
    r"|explain(?:s|ed)|costs?|scores?|probability|probabilities|chances?|repairs?|earns?"
    r"|(?:rise|fall|drop|grow|shrink|lower|raise|increase|decrease|improve)s?)\b",
    re.IGNORECASE,
)
# what stands before a number that somebody chose; "at 0.02", but not "ends at 0.02"
CHOSEN = (
    r"\b(?:temperature|learning rate|step size|step|alpha|dirichlet|noise|margin|tolerance|memory"
    r"|momentum|decay|clamp|the range|threshold|quota|seed|scaled|remov\w+|delete\w*|flip\w*)"
    r"(?: (?:of|is|to|by|with|the|from))*",
    r"(?<!ends )(?<!stays )(?<!stands )(?<!settles )(?<!remains )(?<!is )(?<!lies )\bat(?: an?)?",
    r"\bke(?:eps?|pt)\b[^.,;]*? (?:between|in|below|above)",
    r"\b[a-z] =",
)
SETTING = re.compile(
    rf"(?:{'|'.join(CHOSEN)}) (?:[\d.]+(?: ?%| per ?cent)?(?:,| and| or| to) )*$", re.IGNORECASE
)
SET_AFTER = re.compile(r"(?: ?%| per ?cent)? (?:label )?(?:noise|wrong labels)\b")

CLAIMS = (
    r"in (?:every|each|all)(?: one)? (?:of|seeds?|runs?|draws?|cases?|sets?|federations?)",
    r"always|never|no longer|(?:nearly|almost) (?:all|every|always|no|none)",
    r"(?:all|none|each|every one|most) of (?:them|the|these|those)",
    r"(?:above|below) (?:every|all|any)",
    r"no \w+ (?:is|has|can|does|survives?|beats|scores?|ranks?)",
    r"(?<!a )(?:better|worse|higher|lower|larger|smaller|faster|slower|earlier|stronger|weaker)",
    r"(?!other|rather|whether|either)\w+er than|(?<!no )(?:more|less|fewer)\b[^.,;:()]* than",
    r"beats?|loses to|wins?|outperforms?|exceeds?|survives?|agrees?|equals|(?:is|are) equal to",
    r"(?:does|do) as well",
    r"(?:is|are) (?:not |nearly |about )?as (?:good|bad|high|low|large|small) as",
    r"(?:is|are|has|have|comes?|ranks?|lies) (?:the |clearly |by far )*"
    r"(?:best|worst|lowest|highest|largest|smallest|last|first)",
)
CLAIM = re.compile(
    rf"\b(?:{'|'.join(CLAIMS)})\b"
    r"|^(?:All|Both|Everybody|None|Neither)\b(?: \w+)? (?:pass|find|fall|fail|rise|lose|gain|earn)",
    re.IGNORECASE,
)
NO_CLAIM = re.compile(
    r"[?:]$|^(?:if|suppose|let|guess|we (?:note|want|ask|look|count|compare|test|measure))\b",
    re.IGNORECASE,
)
CHECK = re.compile(
    r"^\s*assert\b|\btell\(.*?\b(?:above|below|within|undecided)=|\btesting\.assert|\braises\(",
    re.MULTILINE | re.DOTALL,
)

# a reason that is given for an outcome
CAUSE = re.compile(
    r"\b(?:because|misled|misleads|due to|the (?:cause|reason)|causes?|that is why|thanks to"
    r"|since (?!the\b|then\b|round\b|chapter\b))\b",
    re.IGNORECASE,
)
CONTROL = re.compile(r"control|rival", re.IGNORECASE)


def typed_number(sentence: str, code: bool = True) -> str | None:
    """The first number that looks like a measured result; on pages without code, of an outcome."""
    if sentence.endswith("?") or "{cite" in sentence:
        return None
    for clause in sentence.split(";"):
        found = [*MEASURED.finditer(clause)] if code else []
        if OUTCOME.search(clause):
            found += NUMBER.finditer(clause)
        for number in found:
            before, after = clause[: number.start()], clause[number.end() :]
            if not SETTING.search(before) and not SET_AFTER.match(after):
                return number[0].strip()
    return None


def claim(sentence: str) -> str | None:
    """The words that make a sentence a comparative or universal claim."""
    found = None if NO_CLAIM.search(sentence) else CLAIM.search(sentence)
    return found and found[0]


def cause(sentence: str) -> str | None:
    """The words that explain an outcome, which wants the control that rules out another cause."""
    if sentence.endswith("?") or not OUTCOME.search(sentence):
        return None
    found = CAUSE.search(sentence)
    return found and found[0]


def checks(cell: NotebookNode, control: bool = False) -> bool:
    """Whether a code cell can fail over what it computes; with ``control`` only if it names one."""
    if control and not CONTROL.search(cell.source):
        return False
    announced = "raises-exception" in cell.metadata.get("tags", [])
    return announced or bool(CHECK.search(cell.source))


def is_checked(page: Sequence[Piece], index: int, control: bool = False) -> bool:
    """Whether the cell before a paragraph, or one of the two after it, can fail (with a control).

    The next heading, or an admonition apart, ends the search.
    """
    around = "admonition" in page[index].inside
    for pieces_there, most in ((page[:index][::-1], 1), (page[index + 1 :], 2)):
        for piece in pieces_there:
            if isinstance(piece, Paragraph):
                if "admonition" in piece.inside and not around:
                    break
            elif isinstance(piece, Heading) or not most:
                break
            elif checks(piece, control):
                return True
            else:
                most -= 1
    return False


def alone_cause(page: Sequence[Piece], index: int) -> bool:
    """Whether a cause stands where its control should be near, and is not."""
    return page[index].section not in SUMS_UP and not is_checked(page, index, control=True)


def claim_faults(cells: Sequence[NotebookNode], code: bool = True) -> Iterator[str]:
    """Typed results and unchecked claims of a page; the latter where the page has code."""
    page = pieces(cells)
    for index, piece in enumerate(page):
        if not isinstance(piece, Paragraph) or piece.section in WORKED:
            continue
        if (code and piece.opening) or any(name.startswith(ASIDE) for name in piece.inside):
            continue
        by_hand = piece.section.startswith("By hand")
        alone = code and piece.section not in SUMS_UP and not is_checked(page, index)
        for sentence, marks in zip(piece.sentences, piece.marks, strict=True):
            number, words = typed_number(sentence, code), claim(sentence)
            why = cause(sentence) if code else None
            shown = sentence if len(sentence) <= 90 else sentence[:87] + "..."
            for mark, reason in marks.items():
                if not reason:
                    yield f"a mark without a reason; write <!-- {mark}: why -->: {shown}"
                if not {"typed": number, "unchecked": words, "cause": why}[mark]:
                    yield f"the mark `{mark}` excuses nothing; remove it: {shown}"
            if number and not by_hand and "typed" not in marks:
                advice = "glue it, say it without the number, or add <!-- typed: reason -->"
                yield f"a typed result, {number}: {shown} -- {advice}"
            if words and alone and "unchecked" not in marks:
                advice = "assert it in the cell before or in the next two"
                advice += ", or add <!-- unchecked: reason -->"
                yield f"a claim ({words}) and no check near it: {shown} -- {advice}"
            if why and alone_cause(page, index) and "cause" not in marks:
                advice = "let a check near it name its `control`, or `rival`"
                advice += ", or add <!-- cause: what rules the rival out -->"
                yield f"a cause ({why}) and no control near it: {shown} -- {advice}"
