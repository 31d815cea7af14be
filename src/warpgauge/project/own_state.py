"""A person's own state folder: what is recorded about projects outside them, where who sends a project cannot write."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


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
