"""Heart: 920 patients of four hospitals as rows of numbers, with what each hospital left out."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .dataset import Dataset
from .registry import Card
from .store import verified

# In the order of the card's files. University hospitals of Zurich and Basel form one group.
HOSPITALS = ("Cleveland", "Budapest", "Switzerland", "Long Beach")
# The columns of the files that describe a patient; a last one grades the disease, 0 for none.
COLUMNS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"),
    *("thalach", "exang", "oldpeak", "slope", "ca", "thal"),
)
MEASURED = ("age", "trestbps", "chol", "thalach", "oldpeak")
# Each measured column, then columns that are 1 where the file has that number, else 0.
FEATURES = (
    *("age", "resting blood pressure", "cholesterol", "highest heart rate", "ST depression"),
    *("typical angina", "atypical angina", "other chest pain", "no chest pain"),
    *("ST-T abnormality", "ventricular hypertrophy"),
    *("male", "fasting blood sugar above 120 mg/dl", "angina on exercise"),
)
CODES = (
    *(("cp", kind) for kind in (1, 2, 3, 4)),
    *(("restecg", 1), ("restecg", 2), ("sex", 1), ("fbs", 1), ("exang", 1)),
)


def heart(card: Card, dtype: torch.dtype) -> Dataset:
    """The patients of all hospitals: 14 features, ill or healthy, `groups` and `missing`.

    Columns slope, ca and thal are left out, because three hospitals hardly recorded them.
    """
    tables = [
        np.genfromtxt(verified(card, file), delimiter=",", missing_values="?")
        for file in card.files
    ]
    values = torch.from_numpy(np.concatenate(tables))
    patients, grade = values[:, :-1], values[:, -1]
    for column in ("trestbps", "chol"):
        # Nobody has a cholesterol or a blood pressure of 0: it was not measured.
        measured = patients[:, COLUMNS.index(column)]
        measured[measured == 0] = torch.nan
    indicators = [patients[:, COLUMNS.index(column)] == code for column, code in CODES]
    numbers = patients[:, [COLUMNS.index(column) for column in MEASURED]]
    x = torch.cat([_standardised(numbers, numbers), torch.stack(indicators, 1).double()], 1)
    return card.dataset(
        x.to(dtype),
        (grade > 0).long(),
        vocabulary=FEATURES,
        groups=torch.arange(4).repeat_interleave(torch.tensor([len(table) for table in tables])),
        group_names=HOSPITALS,
        missing=patients.isnan(),
    )


def restandardised(data: Dataset, clients: Tensor) -> Tensor:
    """The inputs of `heart`, whose measured columns have mean 0 and variance 1 among ``clients``.

    clients [n]    positions of the rows that count
    returns [N, 14]
    """
    measured = [COLUMNS.index(column) for column in MEASURED]
    known = data.x[:, : len(measured)].masked_fill(data.missing[:, measured], torch.nan)
    return torch.cat([_standardised(known, known[clients]), data.x[:, len(measured) :]], 1)


def _standardised(known: Tensor, clients: Tensor) -> Tensor:
    """Columns of mean 0 and variance 1 among the rows ``clients``; NaN, a missing value, is 0."""
    centre = clients.nanmean(0)
    spread = (clients - centre).square().nanmean(0).sqrt()
    return ((known - centre) / spread).nan_to_num(0)
