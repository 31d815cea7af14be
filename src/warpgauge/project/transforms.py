"""Registration results that were added to a project: copied into it, with their hashes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warpgauge.errors import InvalidInputError
from warpgauge.io.files import content_hash, existing_file
from warpgauge.project.events import checked_name
from warpgauge.project.images import unwritable


def copy_transform(
    folder: Path, name: str, files: str | Path | Sequence[str | Path], options: Mapping[str, Any]
) -> tuple[Path, dict[str, Any]]:
    """Copy the files into a folder of their own below ``transforms``; give that folder and the event's payload."""
    label = checked_name(name, "The name of a transform")
    given = [files] if isinstance(files, str | Path) else list(files)
    sources = [existing_file(file, "transform file") for file in given]
    if not sources or len({source.name for source in sources}) < len(sources):
        raise InvalidInputError(f"The transform {label!r} needs one or more files with different names.")
    place = folder / "transforms" / (re.sub(r"[^\w.-]+", "_", label).strip("._") or "transform")
    number, aim = 1, place
    while aim.exists():
        number += 1
        aim = place.with_name(f"{place.name}-{number}")
    try:
        aim.mkdir(parents=True)
        copies = [Path(shutil.copy2(source, aim / source.name)) for source in sources]
    except OSError as error:
        shutil.rmtree(aim, ignore_errors=True)
        raise unwritable(folder, error) from error
    return aim, {
        "name": label,
        "files": [copy.relative_to(folder).as_posix() for copy in copies],
        "hashes": [content_hash(copy) for copy in copies],
        "options": dict(options),
    }
