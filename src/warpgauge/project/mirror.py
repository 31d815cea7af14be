"""A second copy of the log in another folder, to which every event is appended before it is acknowledged.

The copy is text, one event per line as JSON, with the chain of digests of the log, so that it can be read and checked
without SQLite. It is written after the log: it may lack the last events of a server that was killed, and gets them with
the next write. ``warpgauge verify --mend`` rebuilds a damaged or lost log from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from warpgauge.errors import InvalidInputError
from warpgauge.io.files import locked, one_line, write_whole
from warpgauge.io.inside import Inside, checked_id
from warpgauge.project.errors import ProjectError, StorageError
from warpgauge.project.log import COLUMNS, MEND, Row, chained

EVENTS = "events.jsonl"
_COPIED = ("project.json", "candidates.npz", "targets.npz", "fixed_foreground.npz", "moving_foreground.npz")
_LONGEST_LINE = 4 * 2**20


class Mirror:
    """The second copy of one project's log.

    ``folder`` is that of all mirrors; this project's is the folder in it named by the project's identifier. Several
    servers of the project may share it.
    """

    def __init__(self, folder: Path, project_folder: Path, project_id: str) -> None:
        root = project_folder.resolve()
        if folder.resolve().is_relative_to(root) or root.is_relative_to(folder.resolve()):
            raise InvalidInputError("The mirror must lie outside the project's folder, best on another disk.")
        self.folder = Inside(folder, checked_id(project_id), "mirror").path
        self.path = self.folder / EVENTS
        self._project_folder = project_folder
        # What was checked of the file: its length, and the number and digest of the event that ends there.
        self._size, self._generation, self._digest = 0, 0, ""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error

    def follow(self, rows_after: Callable[[int], Sequence[Row]]) -> None:
        """Append what the log has and the mirror lacks, on the disk when this returns.

        ``rows_after`` reads the rows of the log with a generation above the one it is given.
        """
        try:
            with locked(self.path) as handle:
                self._look(handle)
                rows = rows_after(max(0, self._generation - 1))
                if self._generation:
                    self._check(rows)
                fresh = [row for row in rows if row[0] > self._generation]
                if fresh:
                    self._write(handle, fresh)
        except OSError as error:
            raise self._unwritable(error) from error

    def copy_files(self) -> None:
        """Copy what the project needs beside its log; only after `follow`, as another project's copy may be there."""
        try:
            for name in _COPIED:
                if (self._project_folder / name).is_file():
                    write_whole(self.folder / name, (self._project_folder / name).read_bytes())
        except OSError as error:
            raise self._unwritable(error) from error

    def _look(self, handle: int) -> None:
        """Check the lines that others have appended since, or all of a file that became shorter."""
        if os.fstat(handle).st_size < self._size:
            self._size, self._generation, self._digest = 0, 0, ""
        with os.fdopen(os.dup(handle), "rb") as stream:
            stream.seek(self._size)
            for row, size in _lines(stream, self._generation, self._digest, self.path):
                self._size += size
                self._generation, self._digest = int(row[0]), str(row[-1])

    def _check(self, rows: Sequence[Row]) -> None:
        """Refuse a log that lacks the last event of the mirror, or has another in its place."""
        if not rows:
            raise ProjectError(
                f"The mirror {str(self.path)!r} has {self._generation} events but the log fewer: events of the log are "
                f"lost; {MEND}, with --mirror."
            )
        if rows[0][-1] != self._digest:
            raise ProjectError(
                f"The mirror {str(self.path)!r} has another event {self._generation} than the log: one of them was "
                f"replaced; run warpgauge verify, and give another --mirror folder to start a new copy."
            )

    def _write(self, handle: int, rows: Sequence[Row]) -> None:
        os.ftruncate(handle, self._size)  # a line that was cut off: its event is in the log
        with os.fdopen(os.dup(handle), "r+b") as stream:
            stream.seek(self._size)
            for row in rows:
                stream.write(json.dumps(row, ensure_ascii=True).encode("ascii") + b"\n")
            size = stream.tell()
        os.fsync(handle)
        self._size, self._generation, self._digest = size, int(rows[-1][0]), str(rows[-1][-1])

    def _unwritable(self, error: OSError) -> StorageError:
        return StorageError(
            f"The mirror in {str(self.folder)!r} cannot be written ({one_line(error)}), so the action counts as not "
            f"saved, although it may be in the log; make the mirror writable, or serve without --mirror."
        )


def _lines(stream: BinaryIO, generation: int, digest: str, path: Path) -> Iterator[tuple[Row, int]]:
    """Yield the events that follow, each with the length of its line; a last line that was cut off is left out."""
    while (line := stream.readline(_LONGEST_LINE)).endswith(b"\n"):
        generation += 1
        try:
            row = tuple(json.loads(line))
            digest = chained(digest, row[:-1])
            good = len(row) == len(COLUMNS.split()) and row[0] == generation and row[-1] == digest
        except (ValueError, TypeError, RecursionError):
            good = False
        if not good:
            raise ProjectError(f"Line {generation} of the mirror {str(path)!r} is damaged; use another copy.")
        yield row, len(line)


def read_mirror(mirror: Path, project_id: str) -> list[Row]:
    """Return the rows of a project's mirror, in a folder of mirrors or in its own."""
    for path in (Inside(mirror, f"{project_id}/{EVENTS}", "mirror").path, mirror / EVENTS):
        if path.is_file():
            with path.open("rb") as stream:
                return [row for row, _ in _lines(stream, 0, "", path)]
    raise InvalidInputError(f"There is no mirror of this project in {str(mirror)!r}; check the path.")
