"""Integrity of a project: checks that report each problem in one sentence, and the rebuilding of a damaged log."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from warpgauge.display import counted
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import content_hash, one_line, sync_folder
from warpgauge.project import sqlite_schema as schema
from warpgauge.project.document import Document, read_document
from warpgauge.project.errors import ProjectError, UntrustedProjectError, project_content
from warpgauge.project.event_log import Row, entry_of, moment_of
from warpgauge.project.events import replay
from warpgauge.project.folder import load_foreground
from warpgauge.project.images import image_problem
from warpgauge.project.log_stores import open_log
from warpgauge.project.points import load
from warpgauge.project.postgres_connection import VARIABLE, address_in_force, shown_address, stored_address
from warpgauge.project.safeguards import EVENTS, Head, read_head, read_mirror, write_head
from warpgauge.project.sqlite_log import FILE as LOG
from warpgauge.project.sqlite_log import SqliteLog
from warpgauge.project.sqlite_schema import SELECT, put_aside
from warpgauge.project.state import State
from warpgauge.project.trust import check_trust
from warpgauge.project.values import chained

# Integrity checks of a project; each problem is reported in one sentence, and nothing is repaired.

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
    """

    problems: tuple[str, ...]
    checked: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


class _Verifier:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []
        self.checked: list[str] = []

    def run(self) -> VerifyReport:
        try:
            document = read_document(self.folder)
            self.checked.append("project.json was read.")
        except WarpgaugeError as error:
            return VerifyReport((str(error),), ())
        try:
            check_trust(self.folder, document, None)
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
        return VerifyReport(tuple(self.problems), tuple(self.checked))

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
            log = open_log(self.folder, document)
        except WarpgaugeError as error:
            self.problems.append(str(error))
            return None
        try:
            if log.project_id != document.id:
                self.problems.append("The annotation log belongs to another project than project.json.")
            found = log.integrity()
            self.problems += found.problems
            self.checked += found.checked
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
                    f"Event {row[0]} ({row[3]} by {row[2]}) is not what was written: its digest does not match; it or "
                    f"an earlier event was altered."
                )
                return
        self.checked.append(f"The digests of {counted(len(rows), 'event')} match.")

    def _replay(self, rows: list[Row], document: Document) -> State | None:
        try:
            with project_content("The annotation log"):
                state = replay((entry_of(row) for row in rows), document.images["fixed"].grid.d)
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
                f"Event {first[0]} ({first[3]} by {first[2]}) is dated {first[1]}, before there was such a log or in "
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
                path = self.folder / file
                if path.is_symlink() and not path.resolve().is_relative_to(self.folder.resolve()):
                    self.problems.append(f"The file {file!r} of the transform {record.name!r} is a link elsewhere.")
                elif not path.exists():
                    self.problems.append(f"The file {file!r} of the transform {record.name!r} is missing.")
                elif content_hash(path) != expected:
                    self.problems.append(f"The file {file!r} of the transform {record.name!r} has changed.")
        if state.transforms:
            self.checked.append(f"The files of {counted(len(state.transforms), 'transform')} were compared.")


def verify_project(folder: Path) -> VerifyReport:
    """Check the project in a folder."""
    return _Verifier(folder).run()


# Rebuilding a log that was damaged, cut or replaced: from what can still be read of it, and from a mirror.


@dataclass(frozen=True)
class Recovery:
    """Result of a recovery.

    Attributes
    ----------
    events : int
        In the log now.
    from_log, from_mirror : int
        Where they came from.
    lost : int
        Events that had been acknowledged and are in neither.
    kept : str
        Name of the former log, kept beside the new one; empty where there was nothing to do, and for a database.
    database : str
        The address, without a password, of the database that holds the log; empty for a file.
    """

    events: int
    from_log: int
    from_mirror: int
    lost: int
    kept: str
    database: str = ""


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
    if document.database is not None:
        return _in_database(folder, document, mirror)
    log = folder / LOG
    ours = readable_rows(log)
    theirs = [] if mirror is None else _mirror_rows(mirror, document.id)
    common = min(len(ours), len(theirs))
    if common and ours[common - 1][-1] != theirs[common - 1][-1]:
        common = next((i for i in range(common) if ours[i][-1] != theirs[i][-1]), common)
        ours = ours[:common]  # the log was replaced by another one: the mirror holds what was acknowledged
    rows = theirs if len(theirs) > len(ours) else ours
    _check_replay(rows, document)
    head = read_head(log)
    lost = _lost(head, rows)
    if lost and not accept_loss:
        raise ProjectError(
            f"{lost} acknowledged events (up to number {head.generation if head else 0}) are neither in the log nor in "
            f"the mirror; put back a newer copy, give --mirror, or accept the loss with --accept-loss."
        )
    if lost == 0 and _is_whole(log, rows):
        return Recovery(len(rows), len(rows), 0, 0, "")
    kept = _replaced(log, document.id, rows)
    last = rows[-1] if rows else (0, "", "")
    write_head(log, Head(int(last[0]), str(last[-1]), str(last[1])), backwards=True)
    return Recovery(len(rows), min(len(ours), len(rows)), max(0, len(rows) - len(ours)), lost, kept)


def _check_replay(rows: list[Row], document: Document) -> None:
    with project_content("The recovered log", "use another copy"):
        replay((entry_of(row) for row in rows), document.images["fixed"].grid.d)


def _in_database(folder: Path, document: Document, mirror: Path | None) -> Recovery:
    """Add to a database the events that it lacks and the mirror has; those that it holds are never changed."""
    if mirror is None:
        raise InvalidInputError(
            "The log of this project is in a database: give --mirror with the folder of annotate --mirror, or put a "
            "backup of the database back."
        )
    check_trust(folder, document, None)
    from warpgauge.project.postgres_schema import store_rows, stored_rows

    address = address_in_force(stored_address(str(document.database)))
    where = shown_address(address)
    ours, theirs = stored_rows(address, document.id), _mirror_rows(mirror, document.id)
    for one, other in zip(ours, theirs, strict=False):
        if one[-1] != other[-1]:
            raise ProjectError(
                f"Event {one[0]} in the database {where} is another one than in the mirror, so nothing was changed: "
                f"name an empty database in {VARIABLE} to rebuild the log of the mirror there."
            )
    if len(theirs) <= len(ours):
        return Recovery(len(ours), len(ours), 0, 0, "", where)
    _check_replay(theirs, document)
    store_rows(address, document.id, theirs)
    return Recovery(len(theirs), len(ours), len(theirs) - len(ours), 0, "", where)


def _lost(head: Head | None, rows: list[Row]) -> int:
    if head is None or head.generation == 0:
        return 0
    if len(rows) < head.generation:
        return head.generation - len(rows)
    return 0 if rows[head.generation - 1][-1] == head.digest else 1


def _mirror_rows(mirror: Path, project_id: str) -> list[Row]:
    for file in (mirror / project_id / EVENTS, mirror / EVENTS):
        if file.is_file():
            return read_mirror(file)
    raise InvalidInputError(f"There is no mirror of this project in {str(mirror)!r}; check the path.")


def readable_rows(log: Path) -> list[Row]:
    """Return the events from the first on that can be read and whose digests fit; none where the file is lost."""
    rows: list[Row] = []
    if not log.is_file():
        return rows
    connection = sqlite3.connect(f"{log.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
    digest = ""
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        schema.version(connection, log.name)
        while True:
            row = connection.execute(f"{SELECT} WHERE generation = ?", (len(rows) + 1,)).fetchone()
            if row is None:
                break
            digest = chained(digest, row[:-1])
            if digest != row[-1]:
                break
            rows.append(row)
    except (sqlite3.Error, WarpgaugeError, TypeError, ValueError):
        pass  # what was read until here is what can be read
    finally:
        connection.close()
    return rows


def _is_whole(log: Path, rows: list[Row]) -> bool:
    try:
        opened = SqliteLog(log)
    except WarpgaugeError:
        return False
    try:
        with opened.reading() as connection:
            sound = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(1)")] == ["ok"]
            count = connection.execute("SELECT COUNT(*) FROM events").fetchone()[0]
        return sound and count == len(rows)
    except WarpgaugeError:
        return False
    finally:
        opened.close()


def _replaced(log: Path, project_id: str, rows: list[Row]) -> str:
    """Write a new log beside the old one, and exchange them at the end."""
    fresh = log.with_name(f"{log.name}.new")
    try:
        SqliteLog.create(fresh, project_id, rows)
        kept = put_aside(log)
        fresh.rename(log)
        sync_folder(log.parent)
    except (OSError, sqlite3.Error) as error:
        raise ProjectError(f"The log could not be rebuilt ({one_line(error)}); nothing was deleted.") from error
    return kept
