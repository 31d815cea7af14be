"""A second copy of the log in another folder: every event is appended there before it is acknowledged.

The copy is text, one event per line as JSON, with the chain of digests of the log, so that it can be read and checked
without SQLite. `warpgauge recover` rebuilds a damaged or lost log from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from warpgauge.errors import InvalidInputError
from warpgauge.io.files import one_line, write_whole
from warpgauge.io.inside import Inside, checked_id, own_file
from warpgauge.project.chain import chained
from warpgauge.project.errors import ProjectError, StorageError

EVENTS, UNSAVED = "events.jsonl", "unsaved.jsonl"
_COPIED = ("project.json", "candidates.npz", "targets.npz", "fixed_foreground.npz", "moving_foreground.npz")
_LONGEST_LINE = 4 * 2**20
Row = tuple[Any, ...]


class Mirror:
    """The second copy of one project's log.

    Parameters
    ----------
    folder : Path
        Of all mirrors; this project's is the folder in it named by the project's identifier.
    project_folder : Path
    project_id : str
    """

    def __init__(self, folder: Path, project_folder: Path, project_id: str) -> None:
        root = project_folder.resolve()
        if folder.resolve().is_relative_to(root) or root.is_relative_to(folder.resolve()):
            raise InvalidInputError("The mirror must lie outside the project's folder, best on another disk.")
        self.folder = Inside(folder, checked_id(project_id), "mirror").path
        self.path = self.folder / EVENTS
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            rows = read_mirror(self.path) if self.path.exists() else []
        except OSError as error:
            raise self._unwritable(error) from error
        self._take(rows)
        self._project_folder = project_folder

    def _take(self, rows: Sequence[Row]) -> None:
        self.generation = len(rows)
        self.digest = str(rows[-1][-1]) if rows else ""
        self._size = self.path.stat().st_size if self.path.exists() else 0

    def known(self) -> int:
        """Return the generation of the mirror's last event, whichever server of this project wrote it."""
        try:
            if (self.path.stat().st_size if self.path.exists() else 0) != self._size:
                self._take(read_mirror(self.path) if self.path.exists() else [])
        except OSError as error:
            raise self._unwritable(error) from error
        return self.generation

    def check(self, log_rows: Sequence[Row]) -> None:
        """Refuse a log that lacks events of the mirror, or has others in their place."""
        if self.generation > len(log_rows):
            raise ProjectError(
                f"The mirror {str(self.path)!r} has {self.generation} events but the log only {len(log_rows)}: events "
                f"of the log are lost; run warpgauge recover with --mirror."
            )
        if self.generation and log_rows[self.generation - 1][-1] != self.digest:
            raise ProjectError(
                f"The mirror {str(self.path)!r} has another event {self.generation} than the log: one of them was "
                f"replaced; run warpgauge verify, and give another --mirror folder to start a new copy."
            )

    def copy_files(self) -> None:
        """Copy what the project needs beside its log; only after `check`, as a copy of another project may be there."""
        try:
            for name in _COPIED:
                if (self._project_folder / name).is_file():
                    write_whole(self.folder / name, (self._project_folder / name).read_bytes())
        except OSError as error:
            raise self._unwritable(error) from error

    def settle(self, last: int) -> None:
        """Put aside what a server that was killed left here and not in the log, of which ``last`` is the last event.

        Only while no other server can write. Nothing is deleted: it goes to ``unsaved.jsonl`` beside the mirror.
        """
        try:
            known = min(self.known(), last)
            if not self.path.exists():
                return
            with self.path.open("rb") as stream:
                if known == self.generation:  # all but perhaps a line that was cut off
                    stream.seek(max(0, self._size - 1))
                    if stream.read(1) in (b"", b"\n"):
                        return
                    stream.seek(0)
                end = sum(len(stream.readline(_LONGEST_LINE)) for _ in range(known))
                stream.seek(end)
                surplus = stream.read()
            with os.fdopen(own_file(self.folder / UNSAVED, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab") as aside:
                aside.write(surplus.rstrip(b"\n") + b"\n")
                aside.flush()
                os.fsync(aside.fileno())
            os.truncate(self.path, end)
            self._take(read_mirror(self.path))
        except OSError as error:
            raise self._unwritable(error) from error

    def append(self, rows: Iterable[Row]) -> int:
        """Append rows, on the disk when this returns; return the size of the file before, for `cut`."""
        fresh = [row for row in rows if row[0] > self.generation]
        try:
            with os.fdopen(own_file(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab") as stream:
                size = stream.tell()
                for row in fresh:
                    stream.write(json.dumps(row, ensure_ascii=True).encode("ascii") + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
                self._size = stream.tell()
        except OSError as error:
            raise self._unwritable(error) from error
        self._before = (self.generation, self.digest)
        if fresh:
            self.generation, self.digest = int(fresh[-1][0]), str(fresh[-1][-1])
        return size

    def cut(self, size: int) -> None:
        """Remove the rows that were appended last, because the log did not accept them."""
        try:
            os.truncate(self.path, size)
            self.generation, self.digest = self._before
            self._size = size
        except OSError:
            pass  # an extra event in the mirror is found and reported at the next start

    def _unwritable(self, error: OSError) -> StorageError:
        return StorageError(
            f"The mirror in {str(self.folder)!r} cannot be written ({one_line(error)}), so the action was not saved; "
            f"make it writable, or serve without --mirror."
        )


def read_mirror(path: Path) -> list[Row]:
    """Read the events of a mirror; a last line that was cut off is left out, anything else wrong is an error."""
    rows: list[Row] = []
    digest = ""
    with path.open("rb") as stream:
        while line := stream.readline(_LONGEST_LINE):
            if not line.endswith(b"\n"):
                break
            try:
                row = tuple(json.loads(line))
                digest = chained(digest, row[:-1])
                good = len(row) == 9 and row[0] == len(rows) + 1 and row[-1] == digest
            except (ValueError, TypeError, RecursionError):
                good = False
            if not good:
                raise ProjectError(f"Line {len(rows) + 1} of the mirror {str(path)!r} is damaged; use another copy.")
            rows.append(row)
    return rows
