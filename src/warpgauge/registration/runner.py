"""Several registrations in parallel, in other processes, so that a crash or a hang affects only one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path

from warpgauge.errors import InvalidInputError
from warpgauge.registration.workers import RegistrationResult, Setting, Worker

__all__ = ["Progress", "RegistrationResult", "Setting", "run_registrations"]

Progress = Callable[[int, int], None]


def run_registrations(
    fixed: Path,
    moving: Path,
    settings: Sequence[Setting],
    folder: Path,
    *,
    jobs: int = 1,
    time_limit: float = 3600.0,
    progress: Progress | None = None,
) -> list[RegistrationResult]:
    """Register two images in every setting and give the results in the order of the settings.

    Parameters
    ----------
    fixed, moving : Path
        Images that the registration program itself can read.
    settings : sequence of Setting
        Their names must differ; each gets a folder of its own below ``folder``.
    folder : Path
        Where transforms and logs go.
    jobs : int
        Processes at a time. Each runs several settings one after the other, since loading ITK takes seconds; one that
        crashed or was ended is replaced.
    time_limit : float
        Seconds after which a registration is ended and reported as failed; the first one of each process includes
        its start.
    progress : callable, optional
        Called with (finished, total).
    """
    names = [setting.name for setting in settings]
    if len(set(names)) != len(names):
        raise InvalidInputError(f"Registration settings must have different names, got {', '.join(names)}.")
    if jobs < 1:
        raise InvalidInputError(f"run_registrations needs at least one job, got {jobs!r}.")
    results: dict[str, RegistrationResult] = {}
    waiting, workers = list(settings), []  # type: tuple[list[Setting], list[Worker]]
    try:
        while len(results) < len(names):
            _hand_out(waiting, workers, fixed, moving, folder, jobs)
            wait([worker.connection for worker in workers if worker.name is not None], timeout=0.5)
            for worker in workers:
                finished = worker.result(time_limit)
                if finished is not None:
                    results[finished.name] = finished
                    if progress is not None:
                        progress(len(results), len(settings))
            workers = [worker for worker in workers if worker.usable]
    finally:
        for worker in workers:
            worker.dismiss()
    return [results[name] for name in names]


def _hand_out(
    waiting: list[Setting], workers: list[Worker], fixed: Path, moving: Path, folder: Path, jobs: int
) -> None:
    """Hand waiting jobs to free workers, and start workers where there are fewer than allowed."""
    while waiting:
        free = next((worker for worker in workers if worker.name is None), None)
        if free is None:
            if len(workers) >= jobs:
                return
            free = Worker(fixed, moving)
            workers.append(free)
        setting = waiting.pop(0)
        free.begin(setting, folder / setting.name)
