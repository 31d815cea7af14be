"""The head of the log, kept beside it: the last acknowledged event, so that a truncated log is noticed.

``annotations.head`` has two slots of one line each, written in turn and put on the disk before an event is
acknowledged. A line that was torn by a power cut fails its check, and the other one still stands.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from dataclasses import dataclass
from pathlib import Path

from warpgauge.io.files import locked

FILE = "annotations.head"
_SLOT = 160


@dataclass(frozen=True)
class Head:
    """The last acknowledged event: its generation, digest and time."""

    generation: int
    digest: str
    time: str = ""


def head_path(log: Path) -> Path:
    """Return where the head of a log is kept."""
    return log.with_name(FILE)


def read_head(log: Path) -> Head | None:
    """Return the stored head, or None where none can be read."""
    path = head_path(log)
    try:
        if not path.is_file() or path.stat().st_size > 8 * _SLOT:
            return None
        return _newest(path.read_bytes())
    except OSError:
        return None


def _newest(data: bytes) -> Head | None:
    return newest(*(_parsed(data[at : at + _SLOT]) for at in (0, _SLOT)))


def _parsed(slot: bytes) -> Head | None:
    parts = slot.decode("ascii", "replace").split()
    if len(parts) != 4 or not parts[0].isdigit() or f"{zlib.crc32(' '.join(parts[:3]).encode()):08x}" != parts[3]:
        return None
    return Head(int(parts[0]), parts[1], parts[2])


def write_head(log: Path, head: Head, *, backwards: bool = False) -> None:
    """Store a head, on the disk when this returns; a head older than the stored one is ignored.

    Parameters
    ----------
    backwards : bool
        Keep it also where it is older: only for a recovery that accepted a loss.
    """
    line = f"{head.generation} {head.digest or '-'} {head.time or '-'}"
    slot = f"{line} {zlib.crc32(line.encode()):08x}".ljust(_SLOT - 1).encode("ascii") + b"\n"
    # Without locks two processes may write in the other order; the newer head is then kept a moment later.
    with locked(head_path(log)) as handle:
        kept = _newest(os.pread(handle, 2 * _SLOT, 0))
        if backwards:
            os.ftruncate(handle, 0)
        elif kept is not None and kept.generation >= head.generation:
            return
        if os.fstat(handle).st_size < 2 * _SLOT:
            os.pwrite(handle, b" " * (2 * _SLOT), 0)
        # Over the older of the two: the other one stands until this one is on the disk.
        first = _parsed(os.pread(handle, _SLOT, 0))
        at = _SLOT if first is not None and kept is not None and first.generation == kept.generation else 0
        os.pwrite(handle, slot, at)
        os.fsync(handle)


def _missing(first: int, last: int) -> str:
    """Return which events are missing: one, or from the first to the last."""
    return "it is missing" if first == last else f"{last - first + 1} events are missing (numbers {first} to {last})"


def newest(*heads: Head | None) -> Head | None:
    """Return the latest of several heads, some of which may be missing."""
    return max((head for head in heads if head is not None), key=lambda head: head.generation, default=None)


def head_problem(head: Head | None, connection: sqlite3.Connection) -> str | None:
    """Return a sentence about acknowledged events that a log lacks, or None.

    Parameters
    ----------
    head : Head or None
        The last acknowledged event, as far as it is known.
    connection : sqlite3.Connection
        To the log.
    """
    if head is None or head.generation == 0:
        return None
    row = connection.execute("SELECT digest FROM events WHERE generation = ?", (head.generation,)).fetchone()
    if row is not None and row[0] == head.digest:
        return None
    last = connection.execute("SELECT MAX(generation) FROM events").fetchone()[0] or 0
    if row is None:
        return (
            f"The log ends at event {last}, but event {head.generation} was acknowledged at {head.time}: "
            f"{_missing(last + 1, head.generation)}."
        )
    return (
        f"Event {head.generation} of the log is not the one that was acknowledged at {head.time}: the log was replaced "
        f"by another one."
    )
