"""Integrity checks of a project; each problem is reported in one sentence, and nothing is repaired."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from warpgauge.display import counted
from warpgauge.errors import WarpgaugeError
from warpgauge.io.files import content_hash, one_line
from warpgauge.io.inside import Inside
from warpgauge.project.document import Document, read_document
from warpgauge.project.errors import ProjectError, UntrustedProjectError, project_content
from warpgauge.project.events import moment_of, read_events, replay
from warpgauge.project.foregrounds import load_foreground
from warpgauge.project.images import image_problem
from warpgauge.project.log import MEND, Log, Row, lost_end, unbroken
from warpgauge.project.permission import check_permission
from warpgauge.project.points import load
from warpgauge.project.state import State
from warpgauge.project.stores import open_log

_FIRST = datetime(2020, 1, 1, tzinfo=UTC)
_NO_WITNESS = (
    "Whether the end of the log was removed: your state folder has no record of this log in this folder. It gets one "
    "when you write to the project; a mirror is a witness, too."
)
_DATABASE = (
    "Whether the database was put back to an earlier state: only a mirror can tell (annotate --mirror); warpgauge "
    "verify --mend compares it."
)


@dataclass(frozen=True)
class VerifyReport:
    """Result of `Project.verify`: one sentence each."""

    problems: tuple[str, ...]
    """Empty when all is well."""
    checked: tuple[str, ...]
    """What was checked, with numbers."""
    unchecked: tuple[str, ...] = ()
    """What could not be checked here, and why."""

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


@dataclass
class _Findings:
    """What has been found until now, one sentence each."""

    problems: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def report(self) -> VerifyReport:
        return VerifyReport(tuple(self.problems), tuple(self.checked), tuple(self.unchecked))

    @contextmanager
    def noting(self, checked: str = "") -> Iterator[None]:
        """Note as a problem what a check raises, once, else what was checked."""
        try:
            yield
            self.checked += [checked] if checked else []
        except WarpgaugeError as error:
            if str(error) not in self.problems:
                self.problems.append(str(error))


def verify_project(folder: Path) -> VerifyReport:
    """Check the project in a folder: its hashes, the log, its chain, and that it can be replayed."""
    findings = _Findings()
    try:
        document = read_document(folder)
        findings.checked.append("project.json was read.")
    except WarpgaugeError as error:
        return VerifyReport((str(error),), ())
    try:
        check_permission(folder, document, None)
        _check_images(folder, document, findings)
    except UntrustedProjectError as error:
        findings.problems.append(str(error))
    except ProjectError as error:
        return VerifyReport((str(error),), tuple(findings.checked))
    for what, record in (("candidates", document.candidates), ("targets", document.targets)):
        with findings.noting(f"The {record.count} {what} are unchanged."):
            load(folder, record, what)
    for side, foreground in document.foregrounds.items():
        with findings.noting(f"The {side} image's foreground is unchanged."):
            load_foreground(folder, foreground)
    with findings.noting():
        _check_log(folder, document, findings)
    return findings.report()


def _check_images(folder: Path, document: Document, findings: _Findings) -> None:
    for role, record in document.images.items():
        problem = image_problem(folder, record, role, thorough=True)
        if problem:
            findings.problems.append(problem)
        else:
            findings.checked.append(f"The {role.replace('_', ' ')} image is unchanged ({record.content_hash[:19]}...).")


def _check_log(folder: Path, document: Document, findings: _Findings) -> None:
    """Check the log as its store sees it, its chain, and what its events say."""
    log = open_log(folder, document)
    if log.project_id != document.id:
        findings.problems.append("The annotation log belongs to another project than project.json.")
    problems = log.problems()
    rows = log.read()
    log.close()
    findings.problems += problems
    if not problems:
        findings.checked.append(f"{log.name} reports no errors in the log.")
    _check_end(log, rows, findings)
    _check_chain(rows, findings)
    with project_content("The annotation log"):
        state = replay(read_events(rows), document.images["fixed"].grid.d)
    _check_times(rows, findings)
    findings.checked.append(f"{counted(len(rows), 'event')} replayed: {counted(len(state.queries), 'query')}.")
    _check_transforms(folder, state, findings)
    _check_queries(state, load(folder, document.candidates, "candidates"), findings)


def _check_end(log: Log, rows: list[Row], findings: _Findings) -> None:
    if log.witness is None:
        findings.unchecked.append(_DATABASE)
        return
    acknowledged = log.witness.last_event()
    problem = lost_end(acknowledged, rows)
    if problem is not None:
        findings.problems.append(f"{problem} Put back the log, or {MEND}.")
    elif acknowledged is not None:
        findings.checked.append("The log holds all events that were acknowledged.")
    else:
        findings.unchecked.append(_NO_WITNESS)


def _check_chain(rows: list[Row], findings: _Findings) -> None:
    good = len(list(unbroken(rows)))
    if good == len(rows):
        findings.checked.append(f"The digests of {counted(good, 'event')} match.")
    elif rows[good][0] != good + 1:
        findings.problems.append(f"The log has no event {good + 1}, but {rows[good][0]}: events were taken out.")
    else:
        findings.problems.append(
            f"Event {_named(rows[good])} is not what was written: its digest does not match; it or an earlier event "
            f"was altered."
        )


def _check_times(rows: list[Row], findings: _Findings) -> None:
    """Report the first event with an impossible time; the log is still read."""
    latest = datetime.now(UTC) + timedelta(days=1)  # clocks of several hosts may differ
    wrong = [row for row in rows if not _FIRST <= moment_of(row[1], row[0]) <= latest]
    if wrong:
        first = wrong[0]
        findings.problems.append(
            f"Event {_named(first)} is dated {first[1]}, before there was such a log or in "
            f"the future{f', and so are {len(wrong) - 1} more' if wrong[1:] else ''}: the clock of the computer "
            f"was wrong, or the log was made up."
        )


def _check_queries(state: State, candidates: np.ndarray, findings: _Findings) -> None:
    for query in state.queries:
        index = query.candidate
        if index is not None and not (index < len(candidates) and np.array_equal(candidates[index], query.point)):
            findings.problems.append(f"Query {query.number} does not lie at candidate {index}, from which it came.")


def _check_transforms(folder: Path, state: State, findings: _Findings) -> None:
    for record in state.transforms.values():
        for file, expected in zip(record.files, record.hashes, strict=True):
            with findings.noting():
                path = Inside(folder, file, f"file of the transform {record.name!r}").path
                if not path.exists():
                    findings.problems.append(f"The file {file!r} of the transform {record.name!r} is missing.")
                elif content_hash(path) != expected:
                    findings.problems.append(f"The file {file!r} of the transform {record.name!r} has changed.")
    if state.transforms:
        findings.checked.append(f"The files of {counted(len(state.transforms), 'transform')} were compared.")


def _named(row: Row) -> str:
    """Return the number, kind and rater of an event, whatever stands there, in a few words."""
    number, kind, rater = (one_line(Exception(str(value)), 60) for value in (row[0], row[3], row[2]))
    return f"{number} ({kind} by {rater})"
