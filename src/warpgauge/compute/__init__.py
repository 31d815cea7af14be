"""Running many independent jobs: in this process, in processes of this machine, or on a Dask cluster.

An `Executor` applies one function to many jobs and yields each outcome as soon as it is there. Data that all jobs need
are sent to each worker once. What a job is (a pair of a study, a shard of a map, a registration) is decided by the
callers in the layers above; nothing here knows images or projects.
"""

from __future__ import annotations

from warpgauge.compute.choice import choose_executor, given_or_local
from warpgauge.compute.executor import Executor, InProcess, Outcome, report_progress
from warpgauge.compute.pool import ProcessPool

__all__ = ["Executor", "InProcess", "Outcome", "ProcessPool", "choose_executor", "given_or_local", "report_progress"]
