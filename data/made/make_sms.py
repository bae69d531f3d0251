"""Make the embedded synthetic messages: our own wording, statistics of the SMS Spam Collection.

    python data/made/make_sms.py        writes the file in the package

Numbers, words and sentences stand in `sms_words.toml`. Telephone numbers come from the ranges that
the British regulator keeps free for drama. Each line is a label, a tab, a text, as in the real set.
"""

from __future__ import annotations

import gzip
import io
import re
import tomllib
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate, zip_longest
from pathlib import Path

import torch

HERE = Path(__file__).parent
FILE = HERE.parents[1] / "fedlab_mini" / "worlds" / "data" / "files" / "sms-synthetic.txt.gz"
GIVEN = tomllib.loads((HERE / "sms_words.toml").read_text(encoding="utf-8"))
WORDS = {name: [w.replace("_", " ") for w in t.split()] for name, t in GIVEN["words"].items()}

# Chosen by us, so that a bag-of-words classifier does as well here as on the real messages.
OTHER = {"ham": 0.014, "spam": 0.19}  # ham that sells, spam that sounds like a friend
RARE = 0.50  # words of open classes in an unusual form
OPEN = {"noun", "verb", "ving", "adj", "adv", "prize", "product"}
FAVOURITES = 0.16  # share of the repeats that repeat one of three texts
PHONES = ("07700900", "08081570", "09098790")  # and three digits more
ENDS = (". ", ". ", "! ", "... ", ", ", " ")


class Dice:
    """Uniform numbers from one torch stream, drawn in blocks because single draws are slow."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.block: list[float] = []

    def __call__(self) -> float:
        if not self.block:
            drawn = torch.rand(1 << 16, generator=self.generator, dtype=torch.float64)
            self.block = drawn.tolist()
        return self.block.pop()

    def below(self, n: int) -> int:
        return int(self() * n)

    def order(self, n: int) -> list[int]:
        return torch.randperm(n, generator=self.generator).tolist()

    def weighted(self, weights: Sequence[float]) -> int:
        """A position, with probability in proportion to the steps of the running sums."""
        return bisect(weights, self() * weights[-1])

    def quantile(self, levels: Sequence[float], values: Sequence[float]) -> int:
        u = self()
        k = min(bisect(levels, u), len(levels) - 1)
        share = (u - levels[k - 1]) / (levels[k] - levels[k - 1])
        return round(values[k - 1] + share * (values[k] - values[k - 1]))


def rare_forms() -> list[str]:
    """Unusual forms of the listed words: endings, lost vowels, stretched and swapped letters."""
    names = ("noun", "verb", "adj", "ving", "adv")
    words = sorted({w for name in names for w in WORDS[name] if " " not in w and len(w) > 3})
    kinds = [[re.sub(before, after, w) for w in words] for before, after in GIVEN["rare"]]
    forms = dict.fromkeys(w for row in zip_longest(*kinds) for w in row if len(w) > 2)
    unknown = [form for form in forms if form not in set(words)]
    return [unknown[k] for k in Dice(1).order(len(unknown))]


class Writer:
    """Writes messages of one class, "ham" or "spam"."""

    def __init__(self, label: str, dice: Dice) -> None:
        self.label, self.dice = label, dice
        rare = rare_forms()
        self.lists = WORDS | {"rare": rare if label == "ham" else rare[::-1]}
        self.running = {
            name: list(
                accumulate(1 / (k + (1000 if name == "rare" else 60)) for k in range(len(w)))
            )
            for name, w in self.lists.items()
        }

    def texts(self, count: int) -> list[str]:
        """``count`` texts, of which the measured share repeats others."""
        repeats = round(GIVEN["repeats"][self.label] / GIVEN["messages"][self.label] * count)
        fresh: dict[str, None] = {}
        while len(fresh) < count - repeats:
            fresh[self.message()] = None
        texts, dice = list(fresh), self.dice
        few, some = min(3, len(texts)), len(texts) // 8 + 1
        again = [dice.below(few if dice() < FAVOURITES else some) for _ in range(repeats)]
        return texts + [texts[k] for k in again]

    def message(self) -> str:
        dice = self.dice
        length = dice.quantile(*GIVEN["characters"][self.label])
        digits = min(dice.quantile(*GIVEN["digits"][self.label]), int(0.45 * length))
        style = self.label
        if dice() < OTHER[self.label]:
            style = {"ham": "spam", "spam": "ham"}[style]
        numbers = self.numbers(style, digits)
        sentences = self.sentences(style, length - sum(len(phrase) + 2 for phrase in numbers))
        for phrase in numbers:
            sentences.insert(dice.below(len(sentences) + 1), phrase)
        text = ""
        for sentence in sentences:
            ended = not text or text.endswith((". ", "! ", "... "))
            text += (sentence[0].upper() + sentence[1:] if ended else sentence) + self.one(ENDS)
        return text.rstrip(" ,")

    def one(self, things: Sequence[str]) -> str:
        return things[self.dice.below(len(things))]

    def numbers(self, style: str, digits: int) -> list[str]:
        """Phrases with numbers of 1, 2, 3, 4, 5 or 11 digits, so many digits together."""
        kinds = {int(size): kind for size, kind in GIVEN["numbers"][style].items()}
        sizes: list[int] = []
        while digits > sum(sizes):
            fit = [size for size in kinds if size <= digits - sum(sizes)]
            weights = list(accumulate(kinds[size]["often"] for size in fit))
            sizes.append(fit[self.dice.weighted(weights)])
        return [self.number(kinds[size]["phrases"], size) for size in sizes]

    def number(self, phrases: Sequence[str], size: int) -> str:
        phrase, below = self.one(phrases), self.dice.below
        if size == 11:
            number = PHONES[below(3)] + f"{below(1000):03d}"
        elif size == 5:
            number = f"0{below(10_000):04d}"  # no real short code begins with 0
        else:
            number = str(10 ** (size - 1) + below(9 * 10 ** (size - 1)))
        minute = f"{below(60):02d}"
        return phrase.format(n=number, h=f"{1 + below(9)}:{minute}", hh=f"{10 + below(3)}:{minute}")

    def sentences(self, style: str, room: int) -> list[str]:
        """Sentences that fill ``room`` characters; the last is cut at a word's end."""
        if room < 12:
            short = GIVEN["sentences"]["short"].splitlines()
            return [self.filled(self.one(short))] if room > 0 or style == "ham" else []
        source, sentences = GIVEN["sentences"][style].splitlines(), []
        while room > 3:
            sentence = self.filled(self.one(source))
            if len(sentence) > room:
                sentence = sentence[: room + 1].rsplit(" ", 1)[0][:room]
            sentences.append(sentence)
            room -= len(sentence) + 2
        return sentences

    def filled(self, sentence: str) -> str:
        def word(match: re.Match[str]) -> str:
            name = match.group(1)
            if name in OPEN and self.dice() < RARE:
                name = "rare"
            return self.lists[name][self.dice.weighted(self.running[name])]

        return re.sub(r"\{(\w+)\}", word, sentence)


def synthetic_sms(messages: int = 5574, seed: int = 0) -> list[tuple[str, str]]:
    """Invented messages as (label, text) in random order; 13.4 % are spam, rounded."""
    dice, real = Dice(seed), GIVEN["messages"]
    spam = round(real["spam"] / sum(real.values()) * messages)
    written = [("ham", text) for text in Writer("ham", dice).texts(messages - spam)]
    written += [("spam", text) for text in Writer("spam", dice).texts(spam)]
    return [written[k] for k in dice.order(len(written))]


def packed(messages: list[tuple[str, str]]) -> bytes:
    """The messages as a compressed text, without a date: the same zlib gives the same bytes."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0) as stream:
        stream.write("".join(f"{label}\t{text}\n" for label, text in messages).encode())
    return out.getvalue()


if __name__ == "__main__":
    FILE.write_bytes(packed(synthetic_sms()))
