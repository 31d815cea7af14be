"""Integrity checks of a project; each problem is reported in one sentence, and a damaged log is rebuilt on demand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from warpgauge.display import counted
from warpgauge.errors import WarpgaugeError
from warpgauge.io.files import content_hash, one_line
from warpgauge.io.inside import Inside
from warpgauge.project.chain import Row, chained
from warpgauge.project.document import Document, read_document
from warpgauge.project.errors import ProjectError, UntrustedProjectError, project_content
from warpgauge.project.events import moment_of, read_events, replay
from warpgauge.project.foregrounds import load_foreground
from warpgauge.project.images import image_problem
from warpgauge.project.permission import check_permission
from warpgauge.project.points import load
from warpgauge.project.recovery import Lost, Recovery, mirror_rows
from warpgauge.project.state import State
from warpgauge.project.stores import store_of

_FIRST = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class VerifyReport:
    """Result of `Project.verify`.

    Attributes
    ----------
    problems : tuple of str
        One sentence each; empty when all is well.
    checked : tuple of str
        What was checked, with numbers.
    unchecked : tuple of str
        What could not be checked here, and why.
    """

    problems: tuple[str, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


class _Verifier:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []
        self.checked: list[str] = []
        self.unchecked: list[str] = []

    def run(self) -> VerifyReport:
        try:
            document = read_document(self.folder)
            self.checked.append("project.json was read.")
        except WarpgaugeError as error:
            return VerifyReport((str(error),), ())
        try:
            check_permission(self.folder, document, None)
            self._images(document)
        except UntrustedProjectError as error:
            self.problems.append(str(error))
        except ProjectError as error:
            return VerifyReport((str(error),), tuple(self.checked))
        candidates = self._points(document)
        self._foregrounds(document)
        rows = self._log(document)
        if rows is not None:
            self._chain(rows)
            state = self._replay(rows, document)
            if state is not None:
                self._queries(state, candidates)
                self._transforms(state)
        return VerifyReport(tuple(self.problems), tuple(self.checked), tuple(self.unchecked))

    def _images(self, document: Document) -> None:
        for role, record in document.images.items():
            problem = image_problem(self.folder, record, role, thorough=True)
            if problem:
                self.problems.append(problem)
            else:
                self.checked.append(f"The {role.replace('_', ' ')} image is unchanged ({record.content_hash[:19]}...).")

    def _points(self, document: Document) -> np.ndarray | None:
        candidates = None
        for what, record in (("candidates", document.candidates), ("targets", document.targets)):
            try:
                points = load(self.folder, record, what)
                self.checked.append(f"The {len(points)} {what} are unchanged.")
                candidates = points if what == "candidates" else candidates
            except WarpgaugeError as error:
                self.problems.append(str(error))
        return candidates

    def _foregrounds(self, document: Document) -> None:
        for side, record in document.foregrounds.items():
            try:
                if load_foreground(self.folder, record) is None:
                    self.checked.append(f"The {side} image's foreground is not stored; it is found again when needed.")
                else:
                    self.checked.append(f"The {side} image's foreground is unchanged.")
            except WarpgaugeError as error:
                self.problems.append(str(error))

    def _log(self, document: Document) -> list[Row] | None:
        """Check the log as its store sees it, and read its rows."""
        try:
            log = store_of(document).open(self.folder, document.id)
        except WarpgaugeError as error:
            self.problems.append(str(error))
            return None
        try:
            if log.project_id != document.id:
                self.problems.append("The annotation log belongs to another project than project.json.")
            found = log.integrity()
            self.problems += found.problems
            self.checked += found.checked
            self.unchecked += found.unchecked
            return log.rows()
        except WarpgaugeError as error:
            self.problems.append(str(error))
            return None
        finally:
            log.close()

    def _chain(self, rows: list[Row]) -> None:
        digest = ""
        for expected, row in enumerate(rows, start=1):
            if row[0] != expected:
                self.problems.append(f"The log has no event {expected}, but {row[0]}: events were taken out.")
                return
            try:
                digest = chained(digest, row[:-1])
            except (TypeError, ValueError):
                digest = ""
            if digest != row[-1]:
                self.problems.append(
                    f"Event {_named(row)} is not what was written: its digest does not match; it or "
                    f"an earlier event was altered."
                )
                return
        self.checked.append(f"The digests of {counted(len(rows), 'event')} match.")

    def _replay(self, rows: list[Row], document: Document) -> State | None:
        try:
            with project_content("The annotation log"):
                state = replay(read_events(rows), document.images["fixed"].grid.d)
        except ProjectError as error:
            self.problems.append(str(error))
            return None
        self._times(rows)
        self.checked.append(f"{counted(len(rows), 'event')} replayed: {counted(len(state.queries), 'query')}.")
        return state

    def _times(self, rows: list[Row]) -> None:
        """Report the first event with an impossible time; the log is still read."""
        latest = datetime.now(UTC) + timedelta(days=1)  # clocks of several hosts may differ
        wrong = [row for row in rows if not _FIRST <= moment_of(row[1], row[0]) <= latest]
        if wrong:
            first = wrong[0]
            self.problems.append(
                f"Event {_named(first)} is dated {first[1]}, before there was such a log or in "
                f"the future{f', and so are {len(wrong) - 1} more' if wrong[1:] else ''}: the clock of the computer "
                f"was wrong, or the log was made up."
            )

    def _queries(self, state: State, candidates: np.ndarray | None) -> None:
        if candidates is None:
            return
        for query in state.queries:
            index = query.candidate
            if index is not None and not (index < len(candidates) and np.array_equal(candidates[index], query.point)):
                self.problems.append(f"Query {query.number} does not lie at candidate {index}, from which it came.")

    def _transforms(self, state: State) -> None:
        for record in state.transforms.values():
            for file, expected in zip(record.files, record.hashes, strict=True):
                try:
                    path = Inside(self.folder, file, f"file of the transform {record.name!r}").path
                    if not path.exists():
                        self.problems.append(f"The file {file!r} of the transform {record.name!r} is missing.")
                    elif content_hash(path) != expected:
                        self.problems.append(f"The file {file!r} of the transform {record.name!r} has changed.")
                except WarpgaugeError as error:
                    self.problems.append(str(error))
        if state.transforms:
            self.checked.append(f"The files of {counted(len(state.transforms), 'transform')} were compared.")


def _named(row: Row) -> str:
    """Return the number, kind and rater of an event, whatever stands there, in a few words."""
    number, kind, rater = (one_line(Exception(str(value)), 60) for value in (row[0], row[3], row[2]))
    return f"{number} ({kind} by {rater})"


def verify_project(folder: Path) -> VerifyReport:
    """Check the project in a folder."""
    return _Verifier(folder).run()


def recover_project(folder: Path, mirror: Path | None = None, *, accept_loss: bool = False) -> Recovery:
    """Rebuild the log of a project; nothing is deleted, the former log stays beside the new one.

    A log in a database gets what it lacks from the mirror; an empty database gets all of it.

    Parameters
    ----------
    folder : Path
        Of the project.
    mirror : Path, optional
        The folder that was given to ``annotate --mirror``, or one project's folder in it.
    accept_loss : bool
        Go on where acknowledged events are in neither; otherwise that is an error and nothing is changed.
    """
    document = read_document(folder)
    log = store_of(document)
    check_permission(folder, document, None)
    mirrored = None if mirror is None else mirror_rows(mirror, document.id)

    def check(rows: list[Row]) -> None:
        with project_content("The recovered log", "use another copy"):
            replay(read_events(rows), document.images["fixed"].grid.d)

    return log.recover(Lost(folder, document.id, mirrored, accept_loss, check))
