"""The images of a project: linked or copied, found again, and compared with what they were."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from warpgauge.errors import InvalidInputError, WarpgaugeError, say
from warpgauge.geometry import Grid
from warpgauge.io.files import one_line, read_text, write_whole
from warpgauge.io.images import Image, read_image
from warpgauge.io.images.dicom_copy import copy_deidentified
from warpgauge.io.inside import copy_tree
from warpgauge.project.document import ImageRecord
from warpgauge.project.errors import ProjectError, StorageError

# Images that may lie elsewhere and be relinked. Others are part of the model: the project keeps its own copy of them.
RELINKED: tuple[str, ...] = ("fixed", "moving", "fixed_mask", "moving_mask")
_CACHE = Path("cache") / "images.json"
Spacing = float | Sequence[float] | None


def record_of(image: Image, path: str, copied: bool, spacing: Spacing, units: str | None) -> ImageRecord:
    """Describe an image as ``project.json`` keeps it."""
    return ImageRecord(
        path=path,
        copied=copied,
        content_hash=image.content_hash,
        grid=image.grid,
        spacing=tuple(map(float, spacing)) if isinstance(spacing, Sequence) else spacing,
        units=units,
        format=image.format,
        channels=image.channels,
        dtype=image.dtype.name,
        assumptions=tuple(image.assumptions),
    )


def relative_path(path: Path, folder: Path) -> str:
    """Path from the folder to the image, with ``/``; absolute where none exists (another drive)."""
    try:
        return PurePosixPath(Path(os.path.relpath(path.resolve(), folder.resolve()))).as_posix()
    except ValueError:
        return path.resolve().as_posix()


def copy_into(image: Image, folder: Path) -> str:
    """Copy the image, all its files, into the folder ``images`` and return its path relative to ``folder``.

    Slices of DICOM are copied without the personal data in their headers and under new names.
    """
    place = folder / "images"
    if image.format == "DICOM":
        aim = _free(place, "dicom")
        copy_deidentified(image.files, aim)
        return aim.relative_to(folder).as_posix()
    if image.path.is_dir():
        aim = _free(place, image.path.name)
        copy_tree(image.path, aim)
        return aim.relative_to(folder).as_posix()
    # A header names its data by a bare name beside it, so all files go into one folder under their own names.
    aim = _free(place, image.path.stem) if len(image.files) > 1 else place
    if (aim / image.path.name).exists():
        aim = _free(place, image.path.stem)
    aim.mkdir(parents=True, exist_ok=True)
    for file in image.files:
        shutil.copy2(file, aim / file.name)
    return (aim / image.path.name).relative_to(folder).as_posix()


def _free(place: Path, name: str) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    for number in range(1000):
        aim = place / (name if number == 0 else f"{name}-{number + 1}")
        if not aim.exists():
            return aim
    raise InvalidInputError(f"There are too many images named {name!r} in the project; rename some.")


def found_at(folder: Path, record: ImageRecord) -> Path:
    """Where the image of a record should be now."""
    return Path(os.path.normpath(folder / record.path))


def open_image(folder: Path, record: ImageRecord, role: str) -> Image:
    """Open an image of the project with its original options; an image that has changed is refused."""
    found = _opened(folder, record, role, thorough=False)
    if isinstance(found, str):
        raise ProjectError(found)
    return found


def image_problem(folder: Path, record: ImageRecord, role: str, *, thorough: bool = False) -> str | None:
    """Return in a sentence what is wrong with an image of the project, or None.

    Unless ``thorough``, files whose size and time of change are those of the last time are taken for unchanged.
    """
    found = _opened(folder, record, role, thorough)
    return found if isinstance(found, str) else None


def missing_image(folder: Path, record: ImageRecord, role: str) -> str | None:
    """Return in a sentence that an image of the project is not where it should be, or None; no file is opened."""
    path = found_at(folder, record)
    if path.exists():
        return None
    return (
        f"The {role.replace('_', ' ')} image is not at {str(path)!r}, where the project looks for it; put it there"
        f"{_or_relink(role, 'tell where it is', False)}."
    )


def _or_relink(role: str, words: str, accept: bool) -> str:
    if role not in RELINKED:
        return ""
    changed = f" {say('accept_changed')}" if accept else ""
    return f", or {words} with warpgauge verify PROJECT {say(role)} PATH{changed}"


def _opened(folder: Path, record: ImageRecord, role: str, thorough: bool) -> Image | str:
    """Open an image and compare it with its record: the image, or what is wrong with it."""
    name, path = role.replace("_", " "), found_at(folder, record)
    missing = missing_image(folder, record, role)
    if missing is not None:
        return missing
    try:
        image = read_image(path, spacing=record.spacing, units=record.units)
        print_now = _fingerprint(image)
        if not thorough and _cache(folder).get(role) == [print_now, record.content_hash]:
            return image
        content = image.content_hash
    except Exception as error:  # whatever its record and its file cause together
        return f"The {name} image at {str(path)!r} cannot be read any more: {one_line(error)}."
    if content != record.content_hash:
        return (
            f"The {name} image at {str(path)!r} has changed since the project was made, so that placements may no "
            f"longer fit it; put back the former file{_or_relink(role, 'accept the new one', True)}."
        )
    if not same_grid(image.grid, record.grid):
        return f"The {name} image at {str(path)!r} is read with another frame than when the project was made."
    _remember(folder, role, [print_now, content])
    return image


def same_grid(one: Grid, other: Grid) -> bool:
    """Return whether two frames are the same but for the last digits."""
    if one.size != other.size or one.units != other.units:
        return False
    return bool(np.allclose(one.affine, other.affine, rtol=1e-9, atol=1e-9 * float(one.spacing.min())))


def _fingerprint(image: Image) -> list[Any]:
    """Names, sizes and times of change of all files: cheap, and different after nearly every change."""
    found: list[tuple[str, os.stat_result]] = []
    for file in image.files:
        found += sorted(_below(str(file))) if file.is_dir() else [(str(file), file.stat())]
    if len(found) <= 20:
        return [[Path(path).name, status.st_size, status.st_mtime_ns] for path, status in found]
    sizes, times = zip(*((status.st_size, status.st_mtime_ns) for _, status in found), strict=True)
    return [len(found), sum(sizes), max(times)]


def _below(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield everything below a folder, by the system's own listing, as there may be tens of thousands of chunks."""
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.path, entry.stat()
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path)


def _cache(folder: Path) -> dict[str, Any]:
    """Return what is known of the images by role; nothing where the file is missing or damaged."""
    try:
        return dict(json.loads(read_text(folder / _CACHE, "cache", 2**20)))
    except (OSError, ValueError, TypeError, RecursionError, WarpgaugeError):
        return {}


def _remember(folder: Path, role: str, entry: list[Any]) -> None:
    """Store the result in the cache; if that cannot be written, only time is lost."""
    path = folder / _CACHE
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        write_whole(path, json.dumps({**_cache(folder), role: entry}).encode())


def relinked(folder: Path, record: ImageRecord, role: str, path: Path, accept_changed: bool) -> ImageRecord:
    """Return the record of an image that was moved; changed content is refused unless accepted."""
    image = read_image(path, spacing=record.spacing, units=record.units)
    changed = image.content_hash != record.content_hash
    if changed and not accept_changed:
        raise InvalidInputError(
            f"{str(path)!r} is not the {role.replace('_', ' ')} image of the project: its content differs; if it is "
            f"meant all the same, pass {say('accept_changed', True)}."
        )
    if not same_grid(image.grid, record.grid):
        raise InvalidInputError(
            f"{str(path)!r} has another frame (size {image.grid.size}, spacing {image.grid.spacing.tolist()} "
            f"{image.grid.units}) than the {role.replace('_', ' ')} image of the project, so no placement would fit it."
        )
    inside = isinstance(path, Path) and path.resolve().is_relative_to(folder.resolve())
    return record_of(image, relative_path(path, folder), inside, record.spacing, record.units)


def unwritable(folder: Path, error: OSError) -> StorageError:
    """Report that something could not be written into the project's folder."""
    return StorageError(f"Nothing could be written in {str(folder)!r}: {one_line(error)}; free space or change rights.")


def overview_file(folder: Path, content_hash: str) -> Path:
    """Return the file of a project that keeps the overview of an image without coarse levels."""
    return folder / "cache" / f"overview-{hashlib.sha256(content_hash.encode()).hexdigest()[:16]}.npy"
