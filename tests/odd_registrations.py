"""Registrations that go wrong in every way, importable from the processes that run them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Odd:
    """Does what its name says."""

    name: str

    def run(self, fixed: Path, moving: Path, folder: Path) -> Path:
        (folder / "process").write_text(str(os.getpid()))
        if self.name == "crashes":
            os._exit(3)
        if self.name == "raises":
            raise ValueError("no overlap")
        if self.name == "hangs":
            time.sleep(600)
        path = folder / "affine.txt"
        path.write_text("1 0 2\n0 1 3\n0 0 1\n")
        return path
