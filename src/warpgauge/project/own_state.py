"""A person's own state folder: what is recorded about projects outside them, where who sends a project cannot write.

Trust in projects that reach outside their folder is recorded here by `warpgauge.project.permission`, and the last
acknowledged event of each log by `Witness`: whoever cuts off the end of a log, or puts an older folder in its place,
does not reach this one.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from warpgauge.io.files import write_whole

_LARGEST = 4096


def state_files(name: str) -> list[Path]:
    """Return the files to record something in: in the person's state folder, and in a private temporary one."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    bases = [Path(tempfile.gettempdir()) / f"warpgauge-{user}"]
    if os.environ.get("XDG_STATE_HOME"):
        bases.insert(0, Path(os.environ["XDG_STATE_HOME"]) / "warpgauge")
    else:
        with suppress(RuntimeError):  # no home is known
            bases.insert(0, Path.home() / ".local" / "state" / "warpgauge")
    return [base / name for base in bases]


def private_folder(file: Path) -> bool:
    """Make the folder of a file, and return whether it is this person's own: others can make one in a shared place."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return is_private(file.parent)


def is_private(folder: Path) -> bool:
    """Return whether a folder is this person's own: in a shared temporary folder anyone could have made it."""
    return not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()


class LastEvent(NamedTuple):
    """The last event of a log that was read, written or acknowledged."""

    generation: int
    digest: str
    time: str


class Witness:
    """What this person's state folder says about the log of one project in one folder: its last acknowledged event.

    A copy of the project elsewhere has events of its own.
    """

    def __init__(self, folder: Path, project_id: str) -> None:
        key = hashlib.sha256(json.dumps([project_id, str(folder.resolve())]).encode("utf-8", "surrogateescape"))
        self._files = state_files(f"heads/{key.hexdigest()}")

    def last_event(self) -> LastEvent | None:
        """Return the last acknowledged event that was recorded here, or None where nothing was."""
        for file in self._files:
            try:
                if is_private(file.parent) and file.stat().st_size <= _LARGEST:
                    generation, digest, time = json.loads(file.read_text(encoding="ascii"))
                    return LastEvent(int(generation), str(digest), str(time))
            except (OSError, ValueError, TypeError):
                continue
        return None

    def record(self, event: LastEvent, *, backwards: bool = False) -> None:
        """Record an event, unless a later one is recorded; not being able to is no error, as this is a second witness.

        ``backwards`` records it in any case: only for a recovery that accepted a loss.
        """
        recorded = None if backwards else self.last_event()
        if recorded is not None and recorded.generation >= event.generation:
            return
        for file in self._files:
            try:
                if private_folder(file):
                    write_whole(file, json.dumps(event).encode("ascii"))
                    return
            except OSError:
                continue
