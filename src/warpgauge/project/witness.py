"""What the state folder of whoever writes knows about projects: the end of each log, and random draws about a pair.

`warpgauge.project.log_head` keeps the end of a log beside it. Whoever removes both from the project's folder, or puts
an older folder in its place, does not reach this one. Who draws questions in a copy of a project, or in another project
of the same images, leaves them here. All of it is known on this computer, to this person.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from warpgauge.io.files import write_whole
from warpgauge.project.log_head import Head
from warpgauge.project.own_state import is_private, private_folder, state_files

_LARGEST = 4096


class Witness:
    """What this person's state folder says about the log of one project in one folder.

    Parameters
    ----------
    folder : Path
        Of the project: a copy elsewhere has events of its own.
    project_id : str
    """

    def __init__(self, folder: Path, project_id: str) -> None:
        key = hashlib.sha256(json.dumps([project_id, str(folder.resolve())]).encode("utf-8", "surrogateescape"))
        self._files = state_files(f"heads/{key.hexdigest()}")
        self._known = -1

    def head(self) -> Head | None:
        """Return the last acknowledged event that was recorded here, or None where nothing was."""
        for file in self._files:
            try:
                if is_private(file.parent) and file.stat().st_size <= _LARGEST:
                    generation, digest, time = json.loads(file.read_text(encoding="ascii"))
                    return Head(int(generation), str(digest), str(time))
            except (OSError, ValueError, TypeError):
                continue
        return None

    def record(self, head: Head, *, backwards: bool = False) -> None:
        """Record an event unless a later one is; it is a second witness, so that not being able to is no error."""
        if not backwards:
            if self._known < 0:
                found = self.head()
                self._known = 0 if found is None else found.generation
            if head.generation <= self._known:
                return
        for file in self._files:
            try:
                if private_folder(file):
                    write_whole(file, json.dumps([head.generation, head.digest, head.time]).encode("ascii"))
                    self._known = head.generation
                    return
            except OSError:
                continue
