"""Scenarios: the settings of the papers as functions, for chapters, labs, tests and replication.

Each function returns a `Federation`. Its ``fed.corrupted`` and ``fed.noise`` say which clients are
corrupted and how much, for judging only. Builds on data, corrupt, partition and federation.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch

from ..parse import checks
from ..streams import stream
from .corrupt import DataCorruption, FlipLabels, RelabelAs
from .data import Dataset, load
from .data.text import FORMS
from .deal import Corruption, check_deal
from .federation import Federation, federation
from .partition import IID, ByClass, DirichletSizes, SortedShards, Split

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5)  # label noise of FLDVE's second set
# FedCCEA's three splits.
SKEWS = {"iid": IID(), "weak": ByClass(5), "strong": ByClass(2)}


def irrelevant_digits(
    data: str | Dataset = "digits",
    relevant: int = 6,
    irrelevant: int = 4,
    *,
    split: Split | None = None,
    corrupt: DataCorruption | None = None,
    validation: int | None = None,
    test: int | None = None,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Federation:
    """S-FedAvg's setting: the task is even digits; some clients hold odd ones with even labels.

    relevant, irrelevant  how many clients hold even digits, and how many hold odd digits with the
               labels of one random bijection odd -> even; the seed decides their ids
    split      how each group's samples are dealt; default ``SortedShards(1)``, as in the paper: a
               client holds one or two classes
    corrupt    a corruption of one relevant client, which the seed chooses among those it changes:
               with ``SwapLabels((1, 2))``, as in the paper, the client's labels 2 and 4 are
               exchanged (classes 0..4 are 0, 2, 4, 6, 8)
    validation, test  how many even digits the server keeps; by default the paper's 1,000 and
               4,000 if there are 14,000 or more, else a fifth each
    returns    5 classes; `truth` and `noise` name the irrelevant clients and the corrupted one
    raises     ValueError naming the argument       [Nagalapatti & Narayanam 2021, Experiments]
    """
    data = _loaded(data, dtype)
    check_deal(data, 1)
    if data.classes != 10:
        raise checks.refusal("data", "the ten digits", f"{data.classes} classes")
    even_digits, odd_digits = (data.only_classes(range(first, 10, 2)) for first in (0, 1))
    relevant = checks.whole("relevant", relevant, 1, len(even_digits))
    irrelevant = checks.whole("irrelevant", irrelevant, 0, len(odd_digits))
    split = SortedShards(1) if split is None else split
    # Full MNIST gets the paper's numbers, and a smaller set gets a fixed share.
    large, fifth = len(even_digits) >= 14_000, len(even_digits) // 5
    validates, tests = (1_000, 4_000) if large else (fifth, fifth)
    fed = federation(
        even_digits,
        clients=relevant,
        split=split,
        validation=validates if validation is None else validation,
        test=tests if test is None else test,
        seed=seed,
    )
    changed = Corruption([fed.client(client) for client in range(relevant)], 5, seed)
    if corrupt is not None:
        with warnings.catch_warnings():
            # No warning of a client that it does not change, because the next one is tried.
            warnings.simplefilter("ignore")
            for client in range(relevant):
                if not changed.truth:
                    changed.apply({client: corrupt})
        if not changed.truth:
            warnings.warn(f"corrupt: {corrupt!r} changes no relevant client", stacklevel=2)
    # All irrelevant clients share one map, so together they could teach it to the model.
    new_label = torch.randperm(5, generator=stream(seed, "odd to even"))
    labels = new_label[odd_digits.y]
    groups = split(labels, irrelevant, stream(seed, "irrelevant split")) if irrelevant else []
    samples = changed.samples + [(odd_digits.x[group], labels[group]) for group in groups]
    said = f"odd digits named as even, mapping={new_label.tolist()}"
    truth = changed.truth | dict.fromkeys(range(relevant, len(samples)), said)
    noise = torch.cat([changed.noise, torch.ones(irrelevant)])
    # Group i is client ids[i], at random, so that no method can tell groups apart by their order.
    ids = _random_ids(len(samples), seed, "who is irrelevant")
    group_of = sorted(range(len(ids)), key=ids.__getitem__)
    fed = Federation.from_datasets(
        [samples[group] for group in group_of],
        validation=fed.validation,
        test=fed.test,
        classes=5,
        name=data.name,
    )
    return replace(
        fed,
        truth={ids[group]: done for group, done in truth.items()},
        noise=noise[group_of],
        attacks={ids[group]: attack for group, attack in changed.attacks.items()},
    )


def skewed_digits(
    data: str | Dataset = "digits",
    skew: str = "strong",
    *,
    clients: int = 20,
    noise: float = 0.0,
    corrupt: DataCorruption | None = None,
    share: float = 0.2,
    samples: int | None = None,
    validation: int | Dataset | None = None,
    test: int | Dataset | None = None,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Federation:
    """FedCCEA's setting: clients with all, half or two of the classes, a fifth of them corrupted.

    skew       "iid"; "weak": five classes per client; "strong": two classes per client
    noise      share of wrong labels at the corrupted clients, see `FlipLabels`
    corrupt    another corruption instead, e.g. `Backdoor`
    share      share of the clients that are corrupted, rounded; the seed decides which ones
    samples, validation, test  numbers of samples; by default a fifth of the data each for
               validation and test, at most 5,000, and all other samples for the clients
    raises     ValueError naming the argument                          [FedCCEA, Section 4.1]
    """
    data = _loaded(data, dtype)
    clients = check_deal(data, clients)
    noise = checks.number("noise", noise, 0, 1)
    checks.choice("skew", skew, list(SKEWS))
    share = checks.number("share", share, 0, 1)
    corruption = FlipLabels(noise) if corrupt is None else corrupt
    clean = corrupt is None and noise == 0
    corrupted = 0 if clean else round(share * clients)
    # A larger share includes the corrupted clients of a smaller one, so curves over it are paired.
    noisy_ids = sorted(_random_ids(clients, seed)[:corrupted])
    server_size = min(len(data) // 5, 5_000)
    return federation(
        data,
        clients=clients,
        split=SKEWS[skew],
        corrupt=dict.fromkeys(noisy_ids, corruption),
        samples=samples,
        validation=server_size if validation is None else validation,
        test=server_size if test is None else test,
        seed=seed,
    )


def noisy_digits(
    data: str | Dataset = "digits",
    noise_set: int = 1,
    *,
    clients: int = 5,
    samples: int | None = None,
    validation: int | Dataset | None = None,
    test: int | Dataset | None = None,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Federation:
    """FLDVE's setting: equal IID clients and one of three kinds of label noise.

    noise_set  1: a random half of one client's labels is wrong; 2: the five clients have 10, 20,
               30, 40 and 50 % wrong labels; 3: 90 % of one client's labels become class 9
    samples, validation, test  numbers of samples; by default the paper's 10,000, 2,000 and 2,000
               if the data have 14,000 or more, else three fifths, a fifth and a fifth
    seed       also decides which client has which noise
    raises     ValueError naming the argument                          [FLDVE, Section 4.1]
    """
    data = _loaded(data, dtype)
    clients = check_deal(data, clients)
    noise_set = checks.whole("noise_set", noise_set, 1, 3)
    if noise_set == 2 and clients != len(LEVELS):
        raise ValueError(f"clients: set 2 has noise levels for {len(LEVELS)} clients")
    # Full MNIST gets the paper's numbers, and a smaller set gets a fixed share.
    large = len(data) >= 14_000
    client_samples = 10_000 if large else None
    server_size = 2_000 if large else len(data) // 5
    client_ids = _random_ids(clients, seed)
    # All three are defined, even if the number of clients does not fit the second.
    corruptions: dict[int, dict[int, DataCorruption]] = {
        1: {client_ids[0]: FlipLabels(0.5)},
        2: {client: FlipLabels(level) for client, level in zip(client_ids, LEVELS, strict=False)},
        3: {client_ids[0]: RelabelAs(9, 0.9)},
    }
    return federation(
        data,
        clients=clients,
        corrupt=corruptions[noise_set],
        samples=client_samples if samples is None else samples,
        validation=server_size if validation is None else validation,
        test=server_size if test is None else test,
        seed=seed,
    )


def spam(
    data: str | Dataset = "sms-synthetic",
    *,
    clients: int = 50,
    corrupt: DataCorruption | None = None,
    share: float = 0.2,
    features: str = "bag-of-words",
    alpha: float = 0.5,
    floor: int = 5,
    validation: int = 572,
    test: int = 572,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Federation:
    """F-RCCE's setting: text messages over many clients of unequal size, some of them corrupted.

    data         "sms-synthetic", "sms" (the real collection, if installed) or a Dataset
    corrupt      the corruption of the corrupted clients; default: every label is flipped
    share        share of the clients that are corrupted, rounded; the seed decides which ones
    alpha, floor  sizes are Dirichlet(alpha), with at least ``floor`` messages per client
    validation, test  how many messages the server keeps; the paper has 572 for validation
    features     "bag-of-words" (word counts) or "tokens" (as in the paper: word ids in order; after
                 the corruption, each column is standardised by the clients' messages)
    raises       ValueError naming the argument                            [F-RCCE, Section 3.1]
    """
    checks.choice("features", features, list(FORMS))
    share = checks.number("share", share, 0, 1)
    checks.floating("dtype", dtype)
    if isinstance(data, str):
        data = load(data, dtype=dtype, features=features)
    clients = check_deal(data, clients)
    # With two classes, flipping every label is the strongest possible label noise.
    corruption = FlipLabels(1.0) if corrupt is None else corrupt
    corrupted_ids = sorted(_random_ids(clients, seed)[: round(share * clients)])
    fed = federation(
        data,
        clients=clients,
        split=DirichletSizes(alpha, floor=floor),
        corrupt=dict.fromkeys(corrupted_ids, corruption),
        validation=validation,
        test=test,
        seed=seed,
    )
    return standardised(fed) if features == "tokens" else fed


def standardised(fed: Federation) -> Federation:
    """The same federation with mean 0 and variance 1 in every input column of its clients."""
    # Only the clients' columns count, as for a server that knows only their sums.
    centre, spread = fed.x.mean(0), fed.x.std(0, correction=0)
    # A constant column becomes 0, not NaN.
    spread = torch.where(spread > 0, spread, 1)

    x, validation_x, test_x = (
        (inputs - centre) / spread for inputs in (fed.x, fed.validation[0], fed.test[0])
    )
    return replace(
        fed, x=x, validation=(validation_x, fed.validation[1]), test=(test_x, fed.test[1])
    )


def _loaded(data: str | Dataset, dtype: torch.dtype) -> Dataset:
    checks.floating("dtype", dtype)
    return load(data, dtype=dtype) if isinstance(data, str) else data


def _random_ids(clients: int, seed: int, purpose: str = "who is noisy") -> list[int]:
    """All client ids, in an order drawn from the seed."""
    return torch.randperm(clients, generator=stream(seed, purpose)).tolist()
