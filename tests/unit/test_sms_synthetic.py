"""The synthetic messages follow the recorded statistics of the real collection.

data/sms-statistics.json holds the recorded numbers; no real message is stored or printed.
"""

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from make_sms import FILE, GIVEN, PHONES, WORDS, packed, synthetic_sms
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score

from fedlab_mini.worlds.data import DataUnavailable, load
from fedlab_mini.worlds.data.registry import card
from fedlab_mini.worlds.data.text import read_sms

ROOT = Path(__file__).resolve().parents[2]
REAL = json.loads((ROOT / "data" / "sms-statistics.json").read_text())
WORD = re.compile(r"(?u)\b\w\w+\b")


def statistics(messages):
    """What the card tells of a collection of (label, text): numbers only."""
    texts = [text for _, text in messages]
    words = [WORD.findall(text.lower()) for text in texts]
    counts = Counter(word for row in words for word in row)
    ranked = sorted(counts.values(), reverse=True)
    found = {
        "messages": len(texts),
        "spam_share": round(np.mean([label == "spam" for label, _ in messages]), 4),
        "repeats": len(texts) - len(set(texts)),
        "words": sum(ranked),
        "vocabulary": len(ranked),
        "words_once": ranked.count(1),
        "vocabulary_of_first_1000": len({w for row in words[:1000] for w in row}),
        "vocabulary_of_first_4000": len({w for row in words[:4000] for w in row}),
        "share_of_10_words": round(sum(ranked[:10]) / sum(ranked), 3),
        "share_of_500_words": round(sum(ranked[:500]) / sum(ranked), 3),
        "accuracy": round(accuracy(texts, [label for label, _ in messages]), 3),
    }
    for name in ("ham", "spam"):
        mine = [k for k, (label, _) in enumerate(messages) if label == name]
        characters = np.array([len(texts[k]) for k in mine])
        digits = np.array([sum(c.isdigit() for c in texts[k]) for k in mine])
        tokens = np.array([len(words[k]) for k in mine])
        found |= {
            f"{name}_repeats": len(mine) - len({texts[k] for k in mine}),
            f"{name}_characters_mean": round(characters.mean(), 1),
            f"{name}_characters_sd": round(characters.std(), 1),
            f"{name}_characters_median": float(np.median(characters)),
            f"{name}_characters_95": round(np.quantile(characters, 0.95), 1),
            f"{name}_digits_mean": round(digits.mean(), 2),
            f"{name}_digits_sd": round(digits.std(), 2),
            f"{name}_no_digit": round(np.mean(digits == 0), 3),
            f"{name}_words_mean": round(tokens.mean(), 2),
            f"{name}_words_sd": round(tokens.std(), 2),
        }
    return {key: value.item() if hasattr(value, "item") else value for key, value in found.items()}


def accuracy(texts, labels):
    """Five-fold accuracy of logistic regression on the 500 most frequent words."""
    counts = CountVectorizer(max_features=500).fit_transform(texts)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = LogisticRegression(max_iter=1000)
    return cross_val_score(model, counts, np.array(labels) == "spam", cv=folds).mean()


# (absolute, relative) tolerance of every statistic: the larger of the two counts.
TOLERANCE = {
    "messages": (0, 0),
    "spam_share": (0.0001, 0),
    "repeats": (0, 0),
    "ham_repeats": (0, 0),
    "spam_repeats": (0, 0),
    "words": (0, 0.07),
    "vocabulary": (0, 0.05),
    "words_once": (0, 0.08),
    "vocabulary_of_first_1000": (0, 0.15),
    "vocabulary_of_first_4000": (0, 0.08),
    "share_of_10_words": (0.03, 0),
    "share_of_500_words": (0.07, 0),
    "accuracy": (0.006, 0),
    "ham_characters_mean": (0, 0.04),
    "ham_characters_sd": (0, 0.15),
    "ham_characters_median": (2, 0),
    "ham_characters_95": (0, 0.06),
    "spam_characters_mean": (0, 0.03),
    "spam_characters_sd": (0, 0.12),
    "spam_characters_median": (4, 0),
    "spam_characters_95": (0, 0.04),
    "ham_digits_mean": (0.08, 0),
    "ham_digits_sd": (0.35, 0),
    "ham_no_digit": (0.02, 0),
    "spam_digits_mean": (0, 0.08),
    "spam_digits_sd": (0, 0.08),
    "spam_no_digit": (0.03, 0),
    "ham_words_mean": (0, 0.07),
    "ham_words_sd": (0, 0.1),
    "spam_words_mean": (0, 0.06),
    "spam_words_sd": (0, 0.1),
}


class Quiet(list):
    """A list that a failing test does not print: real people wrote what it holds."""

    def __repr__(self):
        return f"{len(self)} messages"


@pytest.fixture(scope="module", params=[0, 1])
def made(request):
    return statistics(synthetic_sms(seed=request.param))


@pytest.fixture(scope="module")
def real_messages():
    try:
        return Quiet(read_sms(card("sms")))
    except DataUnavailable:
        pytest.skip(
            "real SMS set not on this machine; `python -m fedlab_mini data fetch sms` gets it"
        )


def test_a_tolerance_for_every_recorded_number():
    assert TOLERANCE.keys() == REAL.keys()


@pytest.mark.parametrize("name", TOLERANCE)
def test_the_statistic_follows_the_real_collection(name, made):
    absolute, relative = TOLERANCE[name]
    assert made[name] == pytest.approx(REAL[name], abs=absolute, rel=relative)


def test_the_recorded_numbers_are_those_of_the_real_collection(real_messages):
    assert statistics(real_messages) == REAL


@pytest.mark.parametrize("name", ["ham", "spam"])
def test_the_tables_are_those_of_the_real_collection(name, real_messages):
    texts = Quiet(text for label, text in real_messages if label == name)
    count, repeats = len(texts), len(texts) - len(set(texts))
    levels, values = GIVEN["characters"][name]
    lengths = [len(text) for text in texts]
    assert np.quantile(lengths, levels, method="nearest").tolist() == list(values)
    digits = np.array([sum(c.isdigit() for c in text) for text in texts])
    levels, values = GIVEN["digits"][name]
    if name == "spam":
        assert np.quantile(digits, levels, method="nearest").tolist() == list(values)
    else:
        steps = dict(zip(values, levels, strict=True))
        for most in (0, 1, 2, 3):  # the share of messages with at most so many digits
            assert np.mean(digits <= most) == pytest.approx(steps[most], abs=0.001)
    assert count == GIVEN["messages"][name]
    assert repeats == GIVEN["repeats"][name]


def test_no_synthetic_message_is_a_real_one(real_messages):
    real = Quiet(text.strip().lower() for _, text in real_messages)
    made = {text.strip().lower() for _, text in read_sms(card("sms-synthetic"))}
    longest = max((len(text.split()) for text in made.intersection(real)), default=0)
    assert longest <= 3, "a text of more than three words coincides"


def test_the_embedded_file_is_what_the_generator_makes():
    made = synthetic_sms()
    assert read_sms(card("sms-synthetic")) == made
    assert packed(made) == packed(made)
    assert gzip.decompress(packed(made)) == gzip.decompress(FILE.read_bytes())


def test_the_seed_decides_everything():
    assert synthetic_sms(200, seed=5) == synthetic_sms(200, seed=5)
    assert synthetic_sms(200, seed=5) != synthetic_sms(200, seed=6)


@pytest.mark.parametrize("messages", [1, 2, 3, 10, 1000])
def test_any_number_of_messages(messages):
    made = synthetic_sms(messages)
    assert len(made) == messages
    assert sum(label == "spam" for label, _ in made) == round(747 / 5574 * messages)
    assert all(text.strip() for _, text in made)


def test_the_order_is_random():
    labels = [label for label, _ in synthetic_sms(2000)]
    assert 70 <= labels[:1000].count("spam") <= 200


def test_long_numbers_are_free_for_drama():
    messages = read_sms(card("sms-synthetic"))
    long = {n for _, text in messages for n in re.findall(r"\d{6,}", text)}
    assert len(long) > 200
    assert PHONES == ("07700900", "08081570", "09098790")
    assert {n[:8] for n in long} == set(PHONES)
    assert {len(n) for n in long} == {11}


def test_every_slot_of_a_sentence_has_a_list():
    named = set(re.findall(r"\{(\w+)\}", "".join(GIVEN["sentences"].values())))
    assert named - {"rare"} <= WORDS.keys()


def test_loading_it():
    bag = load("sms-synthetic")
    assert bag.x.shape == (5574, 500)
    assert bag.y.sum() == 747
    assert bag.labels == ("ham", "spam")
    assert bag.shape is None
