"""The choice of an executor from what a user asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from warpgauge.compute.executor import Executor, InProcess
from warpgauge.compute.pool import ProcessPool
from warpgauge.errors import InvalidInputError

_LOCAL = re.compile(r"local:([1-9][0-9]{0,3})")


def choose_executor(jobs: int = 1, *, scheduler: str | None = None, cluster: str | None = None) -> Executor:
    """Return the executor for some jobs at a time here, or on a Dask cluster.

    Parameters
    ----------
    jobs : int
        Processes of this machine; with 1 everything happens in this one.
    scheduler : str, optional
        Address of a Dask scheduler, or the path of its scheduler file.
    cluster : str, optional
        ``"local:N"``: a Dask cluster of N workers on this machine.
    """
    if int(jobs) != jobs or jobs < 1:
        raise InvalidInputError(f"The number of jobs must be a whole number of at least 1, got {jobs!r}.")
    if scheduler is not None and cluster is not None:
        raise InvalidInputError("Give --scheduler (a cluster that runs already) or --cluster (one to start), not both.")
    if scheduler is not None or cluster is not None:
        from warpgauge.compute.cluster import DaskCluster

        if scheduler is not None:
            return DaskCluster.at(scheduler)
        found = _LOCAL.fullmatch(cluster or "")
        if found is None:
            raise InvalidInputError(f"--cluster must be local:N with a number of workers N, got {cluster!r}.")
        return DaskCluster.local(int(found[1]))
    return InProcess() if jobs == 1 else ProcessPool(int(jobs))


@contextmanager
def given_or_local(executor: Executor | None, jobs: int) -> Iterator[Executor]:
    """Use the executor that was given, and leave it open; or some jobs at a time here, and close it at the end."""
    if executor is not None:
        yield executor
        return
    with choose_executor(jobs) as own:
        yield own
