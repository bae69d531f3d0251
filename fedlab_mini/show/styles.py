"""Styles: how a label is drawn, the same in every chapter.

Each method has one colour and one marker, an entry of ``METHODS``, and each client one colour.
Vermilion means corrupted clients and noise, black the exact value, and grey anything that is not a
method. All pairs of methods are distinct with normal sight, deuteranopia and protanopia. Markers
and line styles also distinguish them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import NamedTuple

EXACT, CORRUPTED = "#000000", "#D55E00"
SETTINGS = ("#5A5F6E", "#AFAAA0", "#85807B")  # greys; clean clients have the first
CLIENTS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9"),
    *("#8C564B", "#6A3D9A", "#7F7F7F", "#B2DF8A", "#000000"),
)
# The usual label of every method with its own colour, with this colour and a marker.
METHODS = {
    "leave-one-out": ("#E69F00", "D"),
    "exact": (EXACT, "s"),
    "Banzhaf": ("#4B2D5A", "p"),
    "CGSV": ("#CC79A7", "P"),
    "F-RCCE": ("#691E78", "8"),
    "FedAvg": ("#0072B2", "o"),
    "truncated": ("#009E73", "^"),
    "permutation": ("#B41EA5", "v"),
    "guided": ("#5A0096", "<"),
    "kernel": ("#0078FF", ">"),
    "FLDVE": ("#3C4BC3", "v"),
    "removal": ("#874B00", "d"),
    "FedCCEA": ("#56B4E9", "h"),
    "S-FedAvg": ("#78003C", "*"),
    "label standardisation": ("#A5B469", ">"),
    "uniform": ("#3C693C", "H"),
    "random": ("#3C3C0F", "p"),
    "own loss": ("#2DC3D2", "<"),
    "oracle": ("#6996FF", "|"),
}
# Other words for some of them.
ALSO = {
    "LOO": "leave-one-out",
    "Shapley": "exact",
    "TMC": "truncated",
    "orders": "permutation",
    "orderings": "permutation",
    "AAM": "FedCCEA",
}
ROLES = {"corrupted": (CORRUPTED, "X"), "sound": (SETTINGS[0], "o")}
SPOILT = (
    *("corrupted", "corruption", "noisy", "noise", "irrelevant"),
    *("exchanged", "wrong", "flipped", "scaled"),
)
SOUND = ("clean", "sound", "healthy", "relevant", "no corruption", "no noise")
METHOD_WORDS = {label: label for label in METHODS} | ALSO
# A method has priority over a role: "CGSV, 80 % noise" has the colour of CGSV.
WORDS = (METHOD_WORDS, dict.fromkeys(SPOILT, "corrupted"), dict.fromkeys(SOUND, "sound"))
MARKERS, LINES = "sD^v<>dohp8H*P", ("-", "--", "-.", ":")


class Style(NamedTuple):
    """How a label is drawn."""

    colour: str
    marker: str
    line: str = "-"


def client_colour(k: int) -> str:
    """The colour of client ``k``; clients k and k + 10 have the same colour."""
    return CLIENTS[k % len(CLIENTS)]


def meant(label: str) -> str | None:
    """The method that a label names as a whole word, else the role of clients, or else None."""
    whole_word = r"(?<![\w-])(?<!\bno )(?<!\bwithout )({})(?![\w-])"
    for by_word in WORDS:
        hits = {word: re.search(whole_word.format(word), label, re.I) for word in by_word}
        # The first word counts; if several begin there, the longest counts.
        places = [(hit.start(), -len(word), by_word[word]) for word, hit in hits.items() if hit]
        if places:
            return min(places)[2]
    return None


def styles(labels: Iterable[str]) -> dict[str, Style]:
    """The style of each label of a figure.

    A label that names a method, or corrupted or clean clients, has the colour of what it names.
    The bare name, or else the first such label, also has its marker, and a solid line. Further
    labels have other markers and lines. Labels without such a name are grey
    """
    labels = list(dict.fromkeys(labels))
    bare_names = {word.lower() for word in METHOD_WORDS}
    labels_by_name: dict[str | None, list[str]] = {}
    # Bare names come first, so that no variant of a method takes its marker and solid line.
    for label in sorted(labels, key=lambda label: label.lower() not in bare_names):
        labels_by_name.setdefault(meant(label), []).append(label)
    named_looks = {name: look for name, look in (METHODS | ROLES).items() if name in labels_by_name}
    taken = {marker for _, marker in named_looks.values()}
    # Other labels get no marker of a method or role in this figure, unless no other is left.
    free_markers = itertools.cycle([marker for marker in MARKERS if marker not in taken] or MARKERS)
    # If clean clients have the first grey, settings begin with the second.
    greys = SETTINGS[1:] + SETTINGS[:1] if "sound" in labels_by_name else SETTINGS
    chosen_styles = {}
    for name, group_labels in labels_by_name.items():
        for label_index, label in enumerate(group_labels):
            colour, marker = named_looks.get(name or "", (greys[label_index % len(greys)], ""))
            own_marker = marker if marker and label_index == 0 else next(free_markers)
            chosen_styles[label] = Style(colour, own_marker, LINES[label_index % len(LINES)])
    # In the order of the figure, because its legend has this order.
    return {label: chosen_styles[label] for label in labels}
