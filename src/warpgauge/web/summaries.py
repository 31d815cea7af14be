"""What the table of all pairs says about each: counted from its log alone, and again only where the log has changed.

No image is opened and no model is made for it. A pair that cannot be read has its sentence instead.
"""

from __future__ import annotations

import logging
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation import AuditWatch
from warpgauge.project import Project, Skip, State
from warpgauge.project.log import Log
from warpgauge.session.fused_annotations import standing_marks
from warpgauge.session.queries import placed_count
from warpgauge.web.catalogue import Pair
from warpgauge.web.shelf import Shelf

logger = logging.getLogger("warpgauge.web")
_ELSEWHERE_SECONDS = 60.0


@dataclass(frozen=True)
class Work:
    """What one rater has done in one pair."""

    placed: int = 0
    skipped: int = 0
    last: str | None = None


@dataclass(frozen=True)
class Summary:
    """One pair in numbers.

    Attributes
    ----------
    work : mapping of rater to Work
    budget : int or None
        Landmarks that each rater is to place.
    shared : int
        Locations with the marks of several raters, sealed ones left out.
    distance : float or None
        Median over these of the largest distance between two raters, in ``units``.
    transforms : int
    certificate : str or None
        What the audit shows of the transforms so far; None without an audit.
    certified : bool
        Whether it names the best one.
    problem : str or None
        Why the pair cannot be used.
    """

    work: Mapping[str, Work] = field(default_factory=dict)
    budget: int | None = None
    units: str = ""
    shared: int = 0
    distance: float | None = None
    transforms: int = 0
    certificate: str | None = None
    certified: bool = False
    problem: str | None = None


def summary_of(project: Project, *, audit: bool) -> Summary:
    """Return the summary of an open project; what its audit shows, for which transforms are mapped, only on demand."""
    with project.lock:
        state = project.state
        apart = [_largest(marks) for marks in standing_marks(state).values() if len(marks) > 1]
        work = {name: _work(state, name) for name in state.who_answered()}
        audited, transforms = audit and bool(state.audits), len(state.transforms)
        budget = project.settings.budget
        problems = project.missing_images()
    found = AuditWatch(project).verdict() if audited and transforms > 1 else None
    return Summary(
        work,
        budget,
        project.units,
        len(apart),
        statistics.median(apart) if apart else None,
        transforms,
        None if found is None else found.sentence,
        found is not None and found.best is not None,
        problems[0] if problems else None,
    )


def _largest(marks: Iterable[Any]) -> float:
    from scipy.spatial.distance import pdist

    return float(np.max(pdist([mark.placement.moving for mark in marks])))


def _work(state: State, name: str) -> Work:
    skipped = sum(isinstance(state.answer(name, query), Skip) for query in state.trails.get(name, ()))
    last = state.last_action.get(name)
    return Work(placed_count(state, name), skipped, None if last is None else last.time)


@dataclass(frozen=True)
class _Known:
    """A summary, the stamp of the log that it was counted from, whether with the audit, when, and a log elsewhere."""

    stamp: object
    summary: Summary
    audit: bool
    time: float
    log: Log | None = None


class Summaries:
    """Summaries of pairs, kept until a log changes.

    Parameters
    ----------
    shelf : Shelf
        A project that is open there is not opened once more.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._counting = threading.Lock()
        self._known: dict[str, _Known] = {}

    def known(self, key: str) -> Summary | None:
        """Return what was last counted of a pair; None where nothing was yet."""
        found = self._known.get(key)
        return None if found is None else found.summary

    def now(self, pair: Pair, *, audit: bool = False) -> Summary:
        """Return the summary of a pair as its log is now; what its audit shows only on demand, since that is slow."""
        found, log = self._known.get(pair.key), None
        try:
            stamp = _stamp(pair.folder, None if found is None or found.log is None else found.log.last_generation)
            known = found is not None and found.stamp == stamp is not None and found.summary.problem is None
            if found is not None and known and found.audit >= audit:
                return found.summary
            summary, log, generation = self._counted(pair, audit)
            stamp = stamp or _stamp(pair.folder, lambda: generation)
        except WarpgaugeError as error:
            stamp, summary = None, Summary(problem=str(error))
        except Exception:
            logger.exception("The pair %s cannot be summarised", pair.name)
            stamp, summary = None, Summary(problem="This pair cannot be read; the server's log says more.")
        self._known[pair.key] = _Known(stamp, summary, audit, time.monotonic(), log)
        return summary

    def _counted(self, pair: Pair, audit: bool) -> tuple[Summary, Log, int]:
        """Return the summary, the log, and the last event that it surely counts."""
        desk = self._shelf.taken_if_open(pair)
        if desk is None:
            with Project.open(pair.folder, check_images=False) as project:
                generation = project.known.generation
                return summary_of(project, audit=audit), project.log, generation
        try:
            generation = desk.project.state.generation
            return summary_of(desk.project, audit=audit), desk.project.log, generation
        finally:
            self._shelf.give_back(pair)

    def follow(self, pairs: Iterable[Pair]) -> None:
        """Count the pairs whose logs have changed, in the background, unless that is under way already."""
        if self._counting.acquire(blocking=False):
            threading.Thread(target=self._follow, args=(list(pairs),), name="warpgauge-table", daemon=True).start()

    def _follow(self, pairs: list[Pair]) -> None:
        try:
            for pair in pairs:
                found = self._known.get(pair.key)
                # Whether a log elsewhere has changed is known only once it is asked: those are looked at now and then.
                old = found is None or time.monotonic() - found.time > _ELSEWHERE_SECONDS
                if old or _stamp(pair.folder) is not None:
                    self.now(pair, audit=True)
        finally:
            self._counting.release()


def _stamp(folder: Path, last: Callable[[], int] | None = None) -> object:
    """Return what changes with every event of a project's log; ``last`` tells the last event of one elsewhere."""
    document, log = (_status(folder / name) for name in ("project.json", "annotations.sqlite"))
    if log is not None:
        return document, log
    return None if last is None else (document, last())


def _status(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
