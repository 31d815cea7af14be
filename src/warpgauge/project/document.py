"""``project.json``: images with their frames and hashes, and settings; written atomically."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.files import one_line, read_text, write_whole
from warpgauge.io.inside import checked_id, name_problem
from warpgauge.project.errors import ProjectError, StorageError, project_content
from warpgauge.project.settings import Settings

FILE = "project.json"
VERSION = 5
# The version that an image of this role needs; a project without them is one that an older program can open.
_NEEDED = {"regions": 4, "missing": 5}
_PLAIN = 3
KIND = "warpgauge project"


class _Record:
    """What ``project.json`` keeps of a file: the fields of a dataclass, its grid and tuples as plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        plain: dict[type, Callable[[Any], Any]] = {Grid: grid_to_dict, tuple: list}
        return {name: plain.get(type(value), lambda same: same)(value) for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read plain values."""
        made: dict[str, Callable[[Any], Any]] = {"grid": grid_from_dict, "assumptions": tuple}
        return cls(**{name: made[name](value) if name in made else value for name, value in values.items()})


@dataclass(frozen=True)
class ImageRecord(_Record):
    """An image of the project.

    Attributes
    ----------
    path : str
        Relative to the project's folder, with ``/``.
    copied : bool
        Whether the file lies in the project's folder.
    content_hash : str
        Of the file or files.
    grid : Grid
        The frame, as it was read (and told) when the project was made.
    spacing, units
        What the reader was told beside the file, to be told again.
    format, channels, dtype, assumptions
        What the reader said.
    """

    path: str
    copied: bool
    content_hash: str
    grid: Grid
    spacing: float | list[float] | None
    units: str | None
    format: str
    channels: int
    dtype: str
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class PointsRecord(_Record):
    """A stored set of points.

    Attributes
    ----------
    file, content_hash, count
        Where it is stored, and what it holds.
    method : str
        How it was made, in a sentence for people.
    covers_candidates : bool
        Whether it represents a region that holds all candidates.
    region : {"domain", "foreground", "mask", "labels", "file", "corners", "given"}
        What it was made from.
    """

    file: str
    content_hash: str
    count: int
    method: str
    covers_candidates: bool
    region: str


@dataclass(frozen=True)
class ForegroundRecord(_Record):
    """A stored foreground: its file and hash, the frame of its mask, and where it came from.

    Attributes
    ----------
    share : float
        Of the image, 0 to 1.
    source : {"image", "mask"}
        Whether it was found in the image or taken from a mask of the project.
    method : str
        How, in a sentence.
    """

    file: str
    content_hash: str
    grid: Grid
    share: float
    source: str
    method: str


@dataclass(frozen=True)
class Document:
    """The content of ``project.json``.

    ``foregrounds`` has ``fixed`` and ``moving``, or lacks them where none was wanted or an older warpgauge made it.
    ``database`` is the address of the PostgreSQL database that holds the log, without a password; None for a log in
    the project's folder.
    """

    id: str
    created: str
    program: str
    images: Mapping[str, ImageRecord]
    candidates: PointsRecord
    targets: PointsRecord
    settings: Settings
    foregrounds: Mapping[str, ForegroundRecord] = field(default_factory=dict)
    database: str | None = None
    draw_seed: int = 0

    def to_text(self) -> str:
        """Write it as JSON."""
        content = {
            "kind": KIND,
            "version": max(_NEEDED.get(role, _PLAIN) for role in self.images),
            "id": self.id,
            "created": self.created,
            "program": self.program,
            "images": {name: record.to_dict() for name, record in self.images.items()},
            "candidates": self.candidates.to_dict(),
            "targets": self.targets.to_dict(),
            "foregrounds": {name: record.to_dict() for name, record in self.foregrounds.items()},
            "settings": self.settings.to_dict(),
            "draw_seed": self.draw_seed,
        }
        if self.database is not None:
            content["database"] = self.database
        return json.dumps(content, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Document:
        """Read JSON of this or an older version."""
        try:
            content = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise ProjectError(f"{FILE!r} is not JSON ({one_line(error)}); put back a copy of it.") from error
        if not isinstance(content, dict) or content.get("kind") != KIND:
            raise ProjectError(f"{FILE!r} does not describe a warpgauge project.")
        with project_content(repr(FILE)):
            content = _migrated(content)
            document = cls(
                checked_id(content["id"]),
                _text(content, "created"),
                _text(content, "program"),
                {name: ImageRecord.from_dict(record) for name, record in content["images"].items()},
                PointsRecord.from_dict(content["candidates"]),
                PointsRecord.from_dict(content["targets"]),
                Settings.from_dict(content["settings"]),
                {name: ForegroundRecord.from_dict(record) for name, record in content.get("foregrounds", {}).items()},
                _text(content, "database") if content.get("database") is not None else None,
                int(content["draw_seed"]),
            )
            _check(document)
        return document


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _text(values: Mapping[str, Any], key: str) -> str:
    text = values[key]
    if not isinstance(text, str) or len(text) > 4096:
        raise InvalidInputError(f"{key!r} must be text of at most 4096 characters, got {str(text)[:40]!r}")
    try:
        os.fsencode(text)  # any name of a file can be written, but not every text that JSON can hold
    except UnicodeEncodeError:
        raise InvalidInputError(f"{key!r} has characters that no name of a file has") from None
    if any(unicodedata.category(one) == "Cc" for one in text):
        raise InvalidInputError(f"{key!r} must be text without control characters")
    return text


def _check(document: Document) -> None:
    """Refuse what has the right keys but not the right kinds of values."""
    for role in ("fixed", "moving"):
        if role not in document.images:
            raise InvalidInputError(f"it names no {role} image")
    dimensions = {record.grid.d for record in document.images.values()}
    dimensions |= {record.grid.d for record in document.foregrounds.values()}
    if len(dimensions) != 1:
        raise InvalidInputError("its images have different dimensions")
    for image in document.images.values():
        for key in ("path", "content_hash", "format", "dtype"):
            _text(vars(image), key)
        if image.units is not None:
            _text(vars(image), "units")
        told = image.spacing if isinstance(image.spacing, list) else [image.spacing]
        if image.spacing is not None and not all(type(value) in (int, float) for value in told):
            raise InvalidInputError("the spacing of an image is not made of numbers")
        if not all(isinstance(sentence, str) for sentence in image.assumptions):
            raise InvalidInputError("the assumptions of an image are not text")
    for record in (document.candidates, document.targets, *document.foregrounds.values()):
        name = _text(vars(record), "file")
        if "/" in name or name_problem(name) is not None:
            raise InvalidInputError(f"the file {name[:60]!r} does not lie in the project's folder")
        _text(vars(record), "content_hash")
        _text(vars(record), "method")
    for points in (document.candidates, document.targets):
        _text(vars(points), "region")


_LATTICE = re.compile(r"\d+ points? of a lattice over the foreground of the fixed image")
_FROM = re.compile(r"\d+ points? from (domain|mask|labels|file)\b")


def _with_region(points: Mapping[str, Any]) -> dict[str, Any]:
    """Add to a record of versions 1 and 2 what its points were made from, which only its sentence said."""
    method = str(points["method"])
    found = _FROM.match(method)
    region = "foreground" if _LATTICE.match(method) else "given" if found is None else found[1]
    return {"covers_candidates": False, **points, "region": region}


def _with_sources(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, **{name: _with_region(content[name]) for name in ("candidates", "targets")}}


# From each version of the document to the next. Version 2 may name a database; version 3 says what points were made
# from; version 4 may have an image of regions, version 5 one of what has no match.
_STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: lambda content: content,
    2: _with_sources,
    3: lambda content: content,
    4: lambda content: content,
}


def _migrated(content: dict[str, Any]) -> dict[str, Any]:
    version = content.get("version")
    if not isinstance(version, int) or version < 1:
        raise ProjectError(f"{FILE!r} has the version {version!r}, which is invalid; put back a copy of it.")
    if version > VERSION:
        raise ProjectError(
            f"{FILE!r} was written by a newer warpgauge (project version {version}, this one knows up to {VERSION}); "
            f"install the newer warpgauge to open this project."
        )
    for step in range(version, VERSION):
        content = _STEPS[step](content)
    return content


def read_document(folder: Path) -> Document:
    """Read the document of the project in a folder."""
    if not folder.is_dir():
        raise ProjectError(f"There is no project at {str(folder)!r}: it is not a folder; check the path.")
    if not (folder / FILE).is_file():
        raise ProjectError(
            f"{str(folder)!r} is not a warpgauge project: it has no {FILE}; make one with Project.create."
        )
    return Document.from_text(read_text(folder / FILE, "project file"))


def write_document(folder: Path, document: Document) -> None:
    """Replace the document in one step, so that a reader sees the old or the new one, whole."""
    try:
        write_whole(folder / FILE, document.to_text().encode(), durable=True)
    except OSError as error:
        raise StorageError(
            f"{FILE!r} in {str(folder)!r} could not be written ({one_line(error)}); the former one is still there."
        ) from error


def grid_to_dict(grid: Grid) -> dict[str, Any]:
    """Return a grid as plain values."""
    return {
        "size": list(grid.size),
        "spacing": grid.spacing.tolist(),
        "origin": grid.origin.tolist(),
        "direction": grid.direction.tolist(),
        "units": grid.units,
    }


def grid_from_dict(values: Mapping[str, Any]) -> Grid:
    """Read a grid from plain values."""
    return Grid(
        tuple(values["size"]),
        np.array(values["spacing"]),
        np.array(values["origin"]),
        np.array(values["direction"]),
        values["units"],
    )
