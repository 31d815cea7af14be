from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[Any]:
    """Two Dask workers on this machine, one cluster for all tests of a process."""
    pytest.importorskip("distributed", reason="Dask is not installed")
    from warpgauge.compute.cluster import DaskCluster

    with DaskCluster.local(2) as cluster:
        yield cluster
