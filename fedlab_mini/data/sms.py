"""Synthetic SMS: invented messages whose statistics follow the SMS Spam Collection.

The numbers below were measured on the real collection; sentences and words (`words.py`) are ours.
Telephone numbers come from the ranges that the British regulator keeps free for drama.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate, zip_longest

import torch

from .words import HAM, HAM_NUMBER, HAM_SHORT, SLOTS, SPAM, SPAM_NUMBER, SPAM_SLOTS

# Measured on the 5,574 real messages. Quantiles: (share of messages, value), linear in between.
SPAM_SHARE = 747 / 5574
REPEATS = {"ham": 309 / 4827, "spam": 94 / 747}  # messages that repeat an earlier text
_LEVELS = (
    0,
    0.01,
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    0.95,
    0.98,
    0.99,
    0.995,
    0.999,
    1,
)
CHARACTERS = {
    "ham": (
        _LEVELS,
        (2, 9, 22, 24, 30, 36, 44, 52, 65, 82, 110, 147, 159, 210, 289, 338, 588, 910),
    ),
    "spam": (
        _LEVELS,
        (13, 37, 72, 100, 124, 136, 144, 149, 153, 156, 158, 160, 162, 166, 175, 181, 197, 223),
    ),
}
DIGITS = {
    "ham": (
        (0, 0.843, 0.843, 0.942, 0.942, 0.970, 0.970, 0.983, 0.983, 0.990, 0.990, 0.995, 0.999, 1),
        (0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 8, 11, 23),
    ),
    "spam": (_LEVELS, (0, 0, 0, 3, 8, 12, 14, 16, 18, 21, 23, 26, 29, 34, 37, 40, 41, 47)),
}

# Chosen by us, so that a bag-of-words classifier does as well here as on the real messages.
CHATTY_SPAM = 0.19  # spam that sounds like a friend
SELLING_HAM = 0.014  # ham that sounds like an advertisement
RARE = 0.50  # content words in an unusual form
_OPEN = {"noun", "verb", "ving", "adj", "adv", "prize", "product"}
_FAVOURITES = 0.16  # share of the repeats that repeat one of three texts
HAM_SIZES = {1: 8, 2: 2, 3: 1, 4: 1, 11: 20}  # how often numbers of so many digits occur
SPAM_SIZES = {1: 4, 2: 3, 3: 3, 4: 3, 5: 4, 11: 20}
_PHONES = ("07700900", "08081570", "09098790")  # and three digits more: kept free for drama
_ENDS = (". ", ". ", "! ", "... ", ", ", " ")


def synthetic_sms(messages: int = 5574, seed: int = 0) -> list[tuple[str, str]]:
    """Invented messages as (label, text), label "ham" or "spam", in random order.

    13.4 % are spam, rounded; length, digits, repeats and vocabulary follow the real collection.
    raises  ValueError if ``messages`` is no integer of at least 1
    """
    if isinstance(messages, bool) or not isinstance(messages, int) or messages < 1:
        raise ValueError(f"messages: expected an integer of at least 1, got {messages!r}")
    dice = _Dice(seed)
    spam = round(SPAM_SHARE * messages)
    written = [("ham", text) for text in _class_texts("ham", messages - spam, dice)]
    written += [("spam", text) for text in _class_texts("spam", spam, dice)]
    return [written[k] for k in dice.order(len(written))]


class _Dice:
    """Uniform numbers from one torch stream, drawn in blocks because single draws are slow."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._block: list[float] = []

    def __call__(self) -> float:
        if not self._block:
            self._block = torch.rand(
                1 << 16, generator=self._generator, dtype=torch.float64
            ).tolist()
        return self._block.pop()

    def below(self, n: int) -> int:
        return int(self() * n)

    def order(self, n: int) -> list[int]:
        return torch.randperm(n, generator=self._generator).tolist()

    def weighted(self, running: Sequence[float]) -> int:
        """A position, with probability in proportion to the steps of the running sums."""
        return bisect(running, self() * running[-1])

    def quantile(self, table: tuple[Sequence[float], Sequence[float]]) -> int:
        levels, values = table
        u = self()
        k = min(bisect(levels, u), len(levels) - 1)
        low, high = levels[k - 1], levels[k]
        return round(values[k - 1] + (u - low) / (high - low) * (values[k] - values[k - 1]))


class _Words:
    """Word lists with falling frequencies, and the pool of rare forms."""

    def __init__(self, label: str) -> None:
        lists = SLOTS | SPAM_SLOTS
        self.lists = {
            name: [w.replace("_", " ") for w in text.split()] for name, text in lists.items()
        }
        pool = rare_forms()
        self.lists["rare"] = pool if label == "ham" else pool[::-1]
        self.running = {
            name: list(
                accumulate(
                    1 / (rank + (1000 if name == "rare" else 60)) for rank in range(len(words))
                )
            )
            for name, words in self.lists.items()
        }

    def fill(self, sentence: str, dice: _Dice) -> str:
        def word(match: re.Match[str]) -> str:
            name = match.group(1)
            if name in _OPEN and dice() < RARE:
                name = "rare"
            return self.lists[name][dice.weighted(self.running[name])]

        return re.sub(r"\{(\w+)\}", word, sentence)


def rare_forms() -> list[str]:
    """Unusual forms of the listed words: endings, lost vowels, stretched and swapped letters."""
    words = sorted(
        {w for slot in ("noun", "verb", "adj", "ving", "adv") for w in SLOTS[slot].split()}
    )
    words = [w for w in words if "_" not in w and len(w) > 3]
    kinds = (
        [w + "s" for w in words],
        [re.sub("(?<=.)[aeiou]", "", w) for w in words],
        [w + "y" for w in words],
        [w + w[-1] * 2 for w in words],
        [w + "ish" for w in words],
        [w[:-3] + w[-2] + w[-3] + w[-1] for w in words],
        [w + "less" for w in words],
        [w[:-1] for w in words],
        [w[:2] + w[1] + w[2:] for w in words],
        [w + "er" for w in words],
        [w[:-2] + w[-1] for w in words],
        [w + "in" for w in words],
        [w[0] + w[2:] for w in words],
        [w[:3] for w in words],
        [w + "ette" for w in words],
    )
    forms = dict.fromkeys(w for row in zip_longest(*kinds) for w in row if len(w) > 2)
    known = set(words)
    forms = [form for form in forms if form not in known]
    order = torch.randperm(len(forms), generator=torch.Generator().manual_seed(1)).tolist()
    return [forms[k] for k in order]


def _class_texts(label: str, count: int, dice: _Dice) -> list[str]:
    """``count`` texts of one class, of which the measured share repeats others."""
    words, fresh = _Words(label), {}
    repeats = round(REPEATS[label] * count)
    while len(fresh) < count - repeats:
        fresh[_message(label, words, dice)] = None
    texts = list(fresh)
    few, some = min(3, len(texts)), len(texts) // 8 + 1
    again = [texts[dice.below(few if dice() < _FAVOURITES else some)] for _ in range(repeats)]
    return texts + again


def _message(label: str, words: _Words, dice: _Dice) -> str:
    length = dice.quantile(CHARACTERS[label])
    digits = min(dice.quantile(DIGITS[label]), int(0.45 * length))
    other = dice() < (SELLING_HAM if label == "ham" else CHATTY_SPAM)
    selling = (label == "spam") != other
    numbers = [_number_phrase(selling, size, dice) for size in _sizes(selling, digits, dice)]
    room = length - sum(len(phrase) + 2 for phrase in numbers)
    sentences = _sentences(selling, room, words, dice)
    for phrase in numbers:
        sentences.insert(dice.below(len(sentences) + 1), phrase)
    return _joined(sentences, dice)


def _sentences(selling: bool, room: int, words: _Words, dice: _Dice) -> list[str]:
    """Sentences that fill ``room`` characters; the last is cut at a word's end."""
    if room < 12:
        short = HAM_SHORT.strip().split("\n")
        wanted = room > 0 or not selling
        return [words.fill(short[dice.below(len(short))].strip(), dice)] if wanted else []
    source = (SPAM if selling else HAM).strip().split("\n")
    sentences: list[str] = []
    while room > 3:
        sentence = words.fill(source[dice.below(len(source))].strip(), dice)
        if len(sentence) > room:
            sentence = sentence[: room + 1].rsplit(" ", 1)[0][:room]
        sentences.append(sentence)
        room -= len(sentence) + 2
    return sentences


def _joined(sentences: list[str], dice: _Dice) -> str:
    text = ""
    for sentence in sentences:
        ended = not text or text.endswith((". ", "! ", "... "))
        text += (sentence[0].upper() + sentence[1:] if ended else sentence) + _ENDS[dice.below(6)]
    return text.rstrip(" ,")


def _sizes(selling: bool, digits: int, dice: _Dice) -> list[int]:
    """Split a number of digits into numbers of 1, 2, 3, 4, 5 or 11 digits."""
    sizes = []
    while digits > 0:
        fit = {
            size: often
            for size, often in (SPAM_SIZES if selling else HAM_SIZES).items()
            if size <= digits
        }
        sizes.append(list(fit)[dice.weighted(list(accumulate(fit.values())))])
        digits -= sizes[-1]
    return sizes


def _number_phrase(selling: bool, size: int, dice: _Dice) -> str:
    phrases = (SPAM_NUMBER if selling else HAM_NUMBER)[size].split("|")
    phrase = phrases[dice.below(len(phrases))]
    if size == 11:
        number = _PHONES[dice.below(3)] + f"{dice.below(1000):03d}"
    elif size == 5:
        number = f"0{dice.below(10_000):04d}"  # no real short code begins with 0
    else:
        number = str(10 ** (size - 1) + dice.below(9 * 10 ** (size - 1)))
    minute = f"{dice.below(60):02d}"
    return phrase.format(
        n=number, h=f"{1 + dice.below(9)}:{minute}", hh=f"{10 + dice.below(3)}:{minute}"
    )
