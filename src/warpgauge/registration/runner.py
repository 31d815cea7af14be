"""Several registrations side by side, each in a process of its own: one that crashes or hangs takes nothing with it."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Protocol

from warpgauge.errors import InvalidInputError

Progress = Callable[[int, int], None]


class Setting(Protocol):
    """A way to register two images; picklable, so that it can cross to another process."""

    @property
    def name(self) -> str:
        """Name of the result."""
        ...

    def run(self, fixed: Path, moving: Path, folder: Path) -> Path:
        """Register and give the file of a transform that maps fixed to moving points."""
        ...


@dataclass(frozen=True)
class RegistrationResult:
    """What became of one registration: ``path`` on success, ``problem`` (a sentence) otherwise."""

    name: str
    path: Path | None
    seconds: float
    problem: str | None = None


@dataclass
class _Running:
    process: SpawnProcess
    receiver: Connection
    started: float


def _work(setting: Setting, fixed: Path, moving: Path, folder: Path, sender: Connection) -> None:
    os.environ["ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS"] = "1"  # the processes share the cores among them
    try:
        sender.send(("done", str(setting.run(fixed, moving, folder))))
    except BaseException as error:  # whatever it is, the parent must hear of it
        (folder / "error.log").write_text(traceback.format_exc())
        sender.send(("failed", f"{type(error).__name__}: {str(error).strip().splitlines()[-1] if str(error) else ''}"))
    finally:
        sender.close()


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
        Processes at a time.
    time_limit : float
        Seconds after which a registration is ended and reported as failed.
    progress : callable, optional
        Called with (finished, total).
    """
    names = [setting.name for setting in settings]
    if len(set(names)) != len(names):
        raise InvalidInputError(f"Registration settings must have different names, got {', '.join(names)}.")
    if jobs < 1:
        raise InvalidInputError(f"run_registrations needs at least one job, got {jobs!r}.")
    context = multiprocessing.get_context("spawn")
    results: dict[str, RegistrationResult] = {}
    waiting, running = list(settings), {}  # type: tuple[list[Setting], dict[str, _Running]]
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                setting = waiting.pop(0)
                own = folder / setting.name
                own.mkdir(parents=True, exist_ok=True)
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(setting, fixed, moving, own, sender), daemon=True)
                process.start()
                sender.close()
                running[setting.name] = _Running(process, receiver, time.monotonic())
            wait([one.receiver for one in running.values()], timeout=0.5)
            for name, one in list(running.items()):
                finished = _finished(name, one, time_limit)
                if finished is not None:
                    results[name] = finished
                    del running[name]
                    if progress is not None:
                        progress(len(results), len(settings))
    finally:
        for one in running.values():
            one.process.kill()
    return [results[name] for name in names]


def _finished(name: str, one: _Running, time_limit: float) -> RegistrationResult | None:
    """Give the result of a process that has ended, or was ended for taking too long; None while it works."""
    seconds = time.monotonic() - one.started
    if one.receiver.poll():
        try:
            word, value = one.receiver.recv()
        except EOFError:
            one.process.join()
            problem = f"the process ended with code {one.process.exitcode} and no result"
            return RegistrationResult(name, None, seconds, problem)
        one.process.join()
        if word == "done":
            return RegistrationResult(name, Path(value), seconds)
        return RegistrationResult(name, None, seconds, value)
    if seconds > time_limit:
        one.process.kill()
        one.process.join()
        return RegistrationResult(name, None, seconds, f"not finished within {time_limit:g} s, and ended")
    return None
