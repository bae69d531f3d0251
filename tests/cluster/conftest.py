"""Two workers, each a process of one thread, of Dask and of Ray; left out where not installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def dask():
    """A client of a Dask cluster."""
    why = "Dask is not installed: pip install distributed"
    distributed = pytest.importorskip("distributed", reason=why)
    given = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(protocol="tcp", **given) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def ray():
    """Ray, started."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # what Ray recommends in a warning
    # Ray's own 15 makes its workers wait for minutes beside other tests.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    from ray.util.joblib import register_ray

    register_ray()
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(num_cpus=2, object_store_memory=200 << 20, **quiet)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def cluster(request):
    """The name of a backend whose workers are up."""
    os.environ["PYTHONPATH"] = f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"
    request.getfixturevalue(request.param)
    return request.param
