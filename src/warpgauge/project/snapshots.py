"""The state of a long log, kept so that opening it costs what is new.

A snapshot is derived and may be deleted at any time. It is never in the project: it is a pickle, which can run code
when it is read, and a project may come from anywhere. It is in the folder of the person who replayed the log, for this
person only, and believed only where

- the folder and the file belong to this person, and nobody else may write to them;
- the code that would replay the log is the one that made it;
- the log has, at the snapshot's last event, the digest that the snapshot ends with. Digests are chained, so that this
  one stands for all events before it.

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
from contextlib import suppress
from functools import cache
from pathlib import Path

from warpgauge._version import __version__
from warpgauge.io.files import write_whole
from warpgauge.project.event_log import EventLog
from warpgauge.project.own_state import state_files
from warpgauge.project.state import State
from warpgauge.project.values import Entry

# Fewer events are replayed in less than 0.1 s.
FEWEST = 1000
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
        found = _believed(log, d)
        if found is not None:
            return found
    return State(), log.read()


def _believed(log: EventLog, d: int) -> tuple[State, list[Entry]] | None:
    path = _file(log)
    if not hasattr(os, "getuid") or not (_is_own(path.parent) and _is_own(path)):
        return None
    head, _, body = path.read_bytes().partition(b"\n")
    told = json.loads(head)
    if told["made"] != [_code(), d, hashlib.sha256(body).hexdigest()]:
        return None
    entries = log.read(int(told["generation"]) - 1)
    if not entries or (entries[0].generation, entries[0].digest) != (told["generation"], told["digest"]):
        return None
    collecting = gc.isenabled()
    gc.disable()  # it would look through all that was read so far, again and again
    try:
        state = pickle.loads(body)  # nosec B301  # written by `keep`, in a folder of this person's own
    finally:
        if collecting:
            gc.enable()
    return (state, entries[1:]) if isinstance(state, State) and state.generation == told["generation"] else None


def keep(log: EventLog, state: State, d: int, last: Entry) -> None:
    """Store the state after the last entry; where that fails, only time is lost."""
    body = pickle.dumps(state.copy(), protocol=5)
    made = [_code(), d, hashlib.sha256(body).hexdigest()]
    head = json.dumps({"made": made, "generation": state.generation, "digest": last.digest})
    with suppress(OSError):
        path = _file(log)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if hasattr(os, "getuid") and _is_own(path.parent):
            write_whole(path, head.encode() + b"\n" + body)
