"""The state of a long log, kept so that opening it costs what is new.

A snapshot is derived and may be deleted at any time. It is never in the project: it is a pickle, which can run code
when it is read, and a project may come from anywhere. It is in the folder of the person who replayed the log, for this
person only, and believed only where

- the folder and the file belong to this person, and nobody else may write to them;
- the code that would replay the log is the one that made it;
- the log has, at the snapshot's last event, the digest that the snapshot ends with. Digests are chained, so that this
  one stands for all events before it.

Opening reads the few fields that do not grow with the answers. The others are read when something asks for them first.

``warpgauge verify`` replays the whole log in any case.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle  # nosec B403  # only of files that this person alone can have written
import stat
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from warpgauge._version import __version__
from warpgauge.io.files import write_whole
from warpgauge.project.event_log import EventLog
from warpgauge.project.events import replay
from warpgauge.project.own_state import state_files
from warpgauge.project.state import State
from warpgauge.project.values import Entry

# Fewer events are replayed in less than 0.1 s.
FEWEST = 1000
_LONGEST_HEAD = 4096
# Fields that grow with the log, by the part in which they are kept. Records that several of them share are in one part.
_LATER = {
    "queries": ("queries",),
    "answers": (
        *("cells", "cells_at", "changed_at", "touched", "trails", "deferred", "removed"),
        *("done", "undone", "last_action", "proposals", "fit_marks"),
    ),
}
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


@cache
def _code() -> str:
    """Fingerprint of all that turns a log into a state."""
    found = hashlib.sha256(f"{__version__} {sys.version}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()


def _file(log: EventLog) -> Path:
    return state_files(f"snapshots/{hashlib.sha256(log.project_id.encode()).hexdigest()[:32]}")[0]


def _is_own(path: Path) -> bool:
    """Return whether a file or folder is this person's, and no link, and nobody else may write to it."""
    found = path.lstat()
    kind = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return kind and found.st_uid == os.getuid() and not found.st_mode & _OTHERS_MAY_WRITE


def restored(log: EventLog, d: int) -> tuple[State, list[Entry]]:
    """Return a state, and the entries of the log that follow it: all of them after an empty one."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        path = _file(log)
        if hasattr(os, "getuid") and _is_own(path.parent) and _is_own(path):
            kept = _Kept(os.open(path, os.O_RDONLY), log, d)
            entries = log.read(kept.generation - 1)
            if entries and (entries[0].generation, entries[0].digest) == (kept.generation, kept.digest):
                return State.begun(kept.part(""), kept.field), entries[1:]
    return State(), log.read()


class _Kept:
    """A snapshot that is open: a line that describes it, and parts of a state, each with its digest."""

    def __init__(self, descriptor: int, log: EventLog, d: int) -> None:
        self._descriptor, self._log, self._d = descriptor, log, d
        self._lock = threading.Lock()
        head = os.pread(descriptor, _LONGEST_HEAD, 0).partition(b"\n")[0]
        told = json.loads(head)
        if told["made"] != [_code(), d]:
            raise ValueError("Other code has made it.")
        self.generation, self.digest = int(told["generation"]), str(told["digest"])
        self._places: dict[str, tuple[int, int, str]] = {}
        start = len(head) + 1
        for name, length, digest in told["parts"]:
            self._places[name] = start, int(length), digest
            start += int(length)

    def __del__(self) -> None:
        os.close(self._descriptor)

    def part(self, name: str) -> dict[str, Any]:
        """Read some fields of the state; raise where they are not what was written."""
        start, length, digest = self._places[name]
        body = os.pread(self._descriptor, length, start)
        if hashlib.sha256(body).hexdigest() != digest:
            raise ValueError("It was changed.")
        collecting = gc.isenabled()
        gc.disable()  # it would look through all that was read so far, again and again
        try:
            return dict(pickle.loads(body))  # nosec B301  # written by `keep`, in a folder of this person's own
        finally:
            if collecting:
                gc.enable()

    def field(self, values: dict[str, Any], name: str) -> None:
        """Put a field that was left for later, and those kept with it, among the values of a state."""
        with self._lock:
            if name in values:
                return  # another thread was faster
            part = next(part for part, names in _LATER.items() if name in names)
            try:
                found = self.part(part)
            except (OSError, ValueError):  # the file was damaged since it was opened: the log still says it
                entries = [entry for entry in self._log.read() if entry.generation <= self.generation]
                found = vars(replay(entries, self._d))
            values.update({one: found[one] for one in _LATER[part] if one not in values})


def keep(log: EventLog, state: State, d: int, last: Entry) -> None:
    """Store the state after the last entry; where that fails, only time is lost."""
    values = vars(state.copy())
    later = {part: {name: values.pop(name) for name in names} for part, names in _LATER.items()}
    bodies = {name: pickle.dumps(part, protocol=5) for name, part in {"": values, **later}.items()}
    parts = [[name, len(body), hashlib.sha256(body).hexdigest()] for name, body in bodies.items()]
    head = json.dumps(
        {"made": [_code(), d], "generation": state.generation, "digest": last.digest, "parts": parts}
    ).encode()
    with suppress(OSError):
        path = _file(log)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if hasattr(os, "getuid") and _is_own(path.parent):
            write_whole(path, b"\n".join((head, b"".join(bodies.values()))))
