"""Registrations run in parallel, each in another process, so that a crash or a hang affects only one of them.

The settings that are run by default are in :mod:`warpgauge.registration.pipeline`.
"""

from __future__ import annotations

import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from warpgauge.compute import Executor, Outcome, ProcessPool
from warpgauge.errors import InvalidInputError
from warpgauge.io.files import replace_text
from warpgauge.registration.pipeline import STAGES, PipelineSetting

Progress = Callable[[int, int], None]


class RegistrationSetting(Protocol):
    """A way to register two images; picklable, so that it can cross to another process."""

    @property
    def name(self) -> str:
        """Name of the result."""
        ...

    def run(self, fixed: Path, moving: Path, folder: Path) -> Path:
        """Register and return the file of a transform that maps fixed to moving points."""
        ...


@dataclass(frozen=True)
class RegistrationResult:
    """Outcome of one registration: ``path`` on success, ``problem`` (a sentence) otherwise."""

    name: str
    path: Path | None
    seconds: float
    problem: str | None = None


@dataclass(frozen=True)
class _Inputs:
    """Data that all registrations share; the workers open the files by their paths."""

    fixed: Path
    moving: Path
    folder: Path


def run_registrations(
    fixed: Path,
    moving: Path,
    settings: Sequence[RegistrationSetting],
    folder: Path,
    *,
    jobs: int = 1,
    time_limit: float = 3600.0,
    progress: Progress | None = None,
    finished: Callable[[RegistrationResult], None] | None = None,
    prepared: Callable[[str, float], None] | None = None,
    watch: Callable[[str, float], None] | None = None,
    executor: Executor | None = None,
) -> list[RegistrationResult]:
    """Register two images in every setting and return the results in the order of the settings.

    Parameters
    ----------
    fixed, moving : Path
        Images that the registration program itself can read.
    settings : sequence of RegistrationSetting
        Their names must differ; each gets a folder of its own below ``folder``. They begin in this order: the longest
        should be the first. What several of them start from (`PipelineSetting.stages`) is made once.
    folder : Path
        Where transforms and logs go.
    jobs : int
        Processes at a time. Each runs several settings one after the other, since loading ITK takes seconds; one that
        crashed or was ended is replaced.
    time_limit : float
        Seconds after which a registration is ended and reported as failed; loading its program counts.
    progress : callable, optional
        Called with (finished, total).
    finished : callable, optional
        Called with each result as soon as it is there.
    prepared : callable, optional
        Called with the name and the seconds of each stage that settings share.
    watch : callable, optional
        Called with the name of a running setting or shared stage and the share of it that is done, from 0 to 1.
    executor : Executor, optional
        Where to run, instead of ``jobs`` processes of this machine. Workers on other machines need the same paths.
    """
    names = [setting.name for setting in settings]
    if len(set(names)) != len(names):
        raise InvalidInputError(f"Registration settings must have different names, got {', '.join(names)}.")
    if jobs < 1:
        raise InvalidInputError(f"run_registrations needs at least one job, got {jobs!r}.")
    shared = _Inputs(fixed.resolve(), moving.resolve(), folder.resolve())
    results: dict[str, RegistrationResult] = {}
    by_name = {setting.name: setting for setting in settings}
    # In other processes even where there is one job at a time: a crash must not end this one.
    with nullcontext(executor) if executor is not None else ProcessPool(jobs) as chosen, _stages(shared.folder):
        for stages in _shared_stages(settings):
            for made in chosen.run(_prepare, stages, shared, retries=0, time_limit=time_limit, watch=watch):
                # One that fails is made again, and reported, by every setting that needs it.
                if prepared is not None and made.problem is None:
                    prepared(made.id, made.seconds)
        # A registration program that has crashed would crash again, so nothing is retried.
        for outcome in chosen.run(_register, by_name, shared, retries=0, time_limit=time_limit, watch=watch):
            results[outcome.id] = one = _result(outcome, folder)
            if finished is not None:
                finished(one)
            if progress is not None:
                progress(len(results), len(settings))
    return [results[name] for name in names]


@contextmanager
def _stages(folder: Path) -> Iterator[None]:
    """Make the folder of the shared stages, empty: what lies there from before, or from others, is not believed."""
    place = folder / STAGES
    _remove(place)
    place.mkdir(parents=True)
    try:
        yield
    finally:
        _remove(place)


def _remove(place: Path) -> None:
    if place.is_symlink():
        place.unlink()
    elif place.exists():
        shutil.rmtree(place)


def _shared_stages(settings: Sequence[RegistrationSetting]) -> Iterator[dict[str, tuple[PipelineSetting, str]]]:
    """Yield what to make at a time: stages that more than one setting starts from, each after those before it."""
    every = [one for one in settings if isinstance(one, PipelineSetting)]
    used = Counter(stage for one in every for stage in one.stages)
    for depth in range(max((len(one.stages) for one in every), default=0)):
        yield {
            one.stages[depth]: (one, one.stages[depth])
            for one in every
            if depth < len(one.stages) and used[one.stages[depth]] > 1
        }


def _prepare(shared: _Inputs, job: tuple[PipelineSetting, str]) -> str:
    """Make one stage; called in the worker."""
    setting, stage = job
    return str(setting.prepare(stage, shared.fixed, shared.moving, shared.folder / STAGES))


def _register(shared: _Inputs, setting: RegistrationSetting) -> str:
    """Run one setting; called in the worker."""
    folder = shared.folder / setting.name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return str(setting.run(shared.fixed, shared.moving, folder))
    except BaseException as error:  # whatever it is, it must be reported
        replace_text(folder / "error.log", traceback.format_exc())
        words = str(error).strip().splitlines()
        raise _FailedRegistration(f"{type(error).__name__}: {words[-1] if words else ''}") from None


class _FailedRegistration(Exception):  # noqa: N818  # it never leaves this module
    """A registration program raised; the message says what."""


def _result(outcome: Outcome[str], folder: Path) -> RegistrationResult:
    if outcome.problem is not None:
        return RegistrationResult(outcome.id, None, outcome.seconds, str(outcome.problem))
    written = Path(outcome.result())
    inside = written.is_relative_to(folder.resolve())
    return RegistrationResult(
        outcome.id, folder / written.relative_to(folder.resolve()) if inside else written, outcome.seconds
    )
