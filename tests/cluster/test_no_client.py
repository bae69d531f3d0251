"""Dask's backend without a Dask: the error reaches the user."""

from __future__ import annotations

import joblib
import pytest
import torch

import fedlab_mini as fm


def test_without_a_client_dask_says_what_is_missing(make_fed):
    pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")
    wanted = pytest.raises(ValueError, match="first create a Dask Client")
    with wanted, joblib.parallel_config("dask"):
        fm.simulate(make_fed([5, 5]), fm.mlp(6, 3), torch.ones(1, 1, 2))
