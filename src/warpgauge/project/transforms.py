"""Registration results that were added to a project: copied into it with their hashes, and read back from there.

What is stored with a transform (its options, and how many of its files are to be read) is known here only; everybody
else asks `Project.transform`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.geometry import Grid
from warpgauge.io.files import confined, content_hash, existing_file
from warpgauge.io.inside import Inside, file_name
from warpgauge.io.transforms import Transform, companion_files, read_transform
from warpgauge.project.errors import ProjectError, project_content
from warpgauge.project.events import SetTransform
from warpgauge.project.images import unwritable
from warpgauge.project.names import checked_name

# Stored among the options: how many of the files are to be read; the others are drawn in by those.
_SOURCES = "sources"
IDENTITY = "identity"


def copy_transform(
    folder: Path,
    name: str,
    files: str | Path | Sequence[str | Path],
    options: Mapping[str, Any],
    rater: str,
    reference: bool = False,
) -> tuple[Path, SetTransform]:
    """Copy the files, and those that they draw in, below ``transforms``; return their folder and the event."""
    label = checked_name(name, "The name of a transform")
    given = [files] if isinstance(files, str | Path) else list(files)
    main = [existing_file(file, "transform file") for file in given]
    drawn_in = {one.resolve(): one for file in main for one in companion_files(file)}
    given_too = {file.resolve() for file in main}
    sources = [*main, *(one for real, one in drawn_in.items() if real not in given_too)]
    if not main or len({source.name for source in sources}) < len(sources):
        raise InvalidInputError(f"The transform {label!r} needs one or more files with different names.")
    place = Inside(folder, f"transforms/{file_name(label, 'transform')}", "folder").path
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
    return aim, SetTransform(
        rater=rater,
        name=label,
        files=tuple(copy.relative_to(folder).as_posix() for copy in copies),
        hashes=tuple(content_hash(copy) for copy in copies),
        options={_SOURCES: len(main), **options},
        reference=reference,
    )


def read_record(
    folder: Path, record: SetTransform, fixed: Grid, moving: Grid, options: Mapping[str, Any] | None = None
) -> Transform:
    """Read a transform that was added, with the options stored then; further ``options`` replace stored ones."""
    if type(record.options.get(_SOURCES, 1)) is not int:
        raise ProjectError(f"The log does not say how many files the transform {record.name!r} has; it is damaged.")
    with project_content(f"The transform {record.name!r}", "add it again"), confined(folder):
        return _read(folder, record.files, {**record.options, **(options or {})}, fixed, moving)


def is_unchanged(folder: Path, record: SetTransform) -> bool:
    """Return whether the files of a transform have the hashes of those that were added."""
    try:
        with confined(folder):
            found = [content_hash(folder / file) for file in record.files]
    except (WarpgaugeError, OSError):  # a file that is gone
        return False
    return found == list(record.hashes)


def _read(folder: Path, names: Sequence[str], options: Mapping[str, Any], fixed: Grid, moving: Grid) -> Transform:
    told = dict(options)
    files = [Inside(folder, name, "transform file").path for name in names[: told.pop(_SOURCES, len(names))]]
    source = files[0] if len(files) == 1 else files
    return read_transform(source, **{"reference": fixed, "moving": moving, **told})


def refuse_reserved(name: str) -> None:
    """Refuse the reserved name of the identity."""
    if name == IDENTITY:
        raise InvalidInputError(
            f"The name {IDENTITY!r} stands for no transform at all, which every comparison has; choose another name."
        )


def check_copy(folder: Path, added: SetTransform, fixed: Grid, moving: Grid) -> None:
    """Refuse a copied transform that cannot be read, or that has another dimension than the project."""
    transform = _read(folder, added.files, added.options, fixed, moving)
    if transform.d != fixed.d:
        raise InvalidInputError(
            f"{Path(added.files[0]).name!r} is a {transform.d}D transform, but the project is {fixed.d}D; it was "
            f"not added."
        )
