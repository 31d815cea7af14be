"""Atomic writing of the files of a report."""

from __future__ import annotations

import os
from pathlib import Path

from warpgauge.errors import InvalidInputError


def report_path(out_html: str | os.PathLike[str]) -> Path:
    """Check the name and the folder of a report."""
    file = Path(out_html)
    if file.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"A report is an HTML file, so {file.name!r} must end in .html.")
    if not file.parent.is_dir():
        raise InvalidInputError(f"There is no folder {str(file.parent)!r} to write {file.name!r} into; make it first.")
    return file
