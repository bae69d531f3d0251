"""Text: turn messages into rows of numbers, as a bag of words or as a sequence of word ids."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...parse import checks
from .dataset import Dataset
from .registry import Card
from .store import verified

Messages = list[tuple[str, str]]  # (label, text)
FORMS = {"bag-of-words": 500, "tokens": 1000}  # default size of the vocabulary
LENGTH = 150  # word ids of a token row [F-RCCE, Section 4]


def read_sms(card: Card) -> Messages:
    """A set of messages from a file, compressed or not: each line has a label, a tab and a text.

    Lines are split at the first tab. A CSV reader would take a quotation mark in one real message
    as the start of a field, and find 5,572 messages instead of 5,574.
    """
    path = verified(card, card.files[0])
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    # Not splitlines, which also splits at rare characters that a message may contain.
    lines = (line.partition("\t") for line in content.decode().split("\n") if line)
    return [(label, message) for label, _, message in lines]


def messages(
    card: Card, features: str | None, vocabulary: int | None, dtype: torch.dtype
) -> Dataset:
    """A set of messages as a `Dataset`; labels "ham" 0 and "spam" 1."""
    labels, texts = zip(*read_sms(card), strict=True)
    rows, words = rows_of(texts, "bag-of-words" if features is None else features, vocabulary)
    y = torch.tensor([card.labels.index(label) for label in labels])
    return card.dataset(torch.from_numpy(rows).to(dtype), y, vocabulary=tuple(words))


def rows_of(
    texts: Sequence[str], features: str, vocabulary: int | None = None
) -> tuple[np.ndarray, list[str]]:
    """The rows of texts, and the words that they count or number.

    features    "bag-of-words": rows [N, V] of counts, column j for the j-th most frequent word;
                "tokens": rows [N, 150] of word ids 1..V in the order of the text, 0 after its end
    vocabulary  V, how many of the most frequent words are kept, without use of the labels; default
                500 for a bag, 1000 for tokens; fewer if the messages have fewer words
    Words are runs of two or more letters or digits, in lower case. Other words are left out.
    """
    checks.choice("features", features, list(FORMS))
    size = FORMS[features] if vocabulary is None else checks.whole("vocabulary", vocabulary)
    words = frequent_words(texts, size)
    if features == "bag-of-words":
        return _word_counter(vocabulary=words).transform(texts).toarray(), words
    return _word_ids(texts, words), words


def frequent_words(texts: Sequence[str], size: int) -> list[str]:
    """The most frequent words, most frequent first, and ties in alphabetical order."""
    split_words = _word_counter().build_analyzer()
    counts: Counter[str] = Counter()
    for message in texts:
        counts.update(split_words(message))
    # Alphabetical order in ties gives the same vocabulary on every machine.
    return sorted(counts, key=lambda word: (-counts[word], word))[:size]


def _word_ids(texts: Sequence[str], words: list[str]) -> np.ndarray:
    split_words = _word_counter().build_analyzer()
    # Ids begin at 1, because 0 fills the rest of a row after the end of its text.
    word_ids = {word: number for number, word in enumerate(words, start=1)}
    matrix = np.zeros((len(texts), LENGTH), dtype=np.int64)
    for message_row, message in zip(matrix, texts, strict=True):
        ids = [word_ids[word] for word in split_words(message) if word in word_ids][:LENGTH]
        message_row[: len(ids)] = ids
    return matrix


def _word_counter(**options: Any) -> Any:
    """scikit-learn's counter of words."""
    # Imported here, because it takes a second.
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(**options)
