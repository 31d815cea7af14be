"""Writing the files of a report: whole or not at all."""

from __future__ import annotations

import os
import tempfile
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


def replace_text(file: Path, text: str) -> None:
    """Write a text file, which is replaced only when the new one is complete."""
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(name).chmod(0o644)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InvalidInputError(f"{file.name!r} cannot be written: {error.strerror or error}.") from error
