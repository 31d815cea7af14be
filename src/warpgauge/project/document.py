"""``project.json``: images with their frames and hashes, and settings; written atomically."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, PlainSerializer, model_validator

from warpgauge.geometry import Grid
from warpgauge.io.files import one_line, read_text, write_whole
from warpgauge.io.inside import checked_id, name_problem
from warpgauge.project.errors import ProjectError, StorageError, project_content
from warpgauge.project.settings import Settings
from warpgauge.project.values import Flag, Number, Value, Whole

FILE = "project.json"
VERSION: Final = 6
KIND: Final = "warpgauge project"


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


def _checked_words(text: str) -> str:
    try:
        os.fsencode(text)  # any name of a file can be written, but not every text that JSON can hold
    except UnicodeEncodeError:
        raise ValueError("it has characters that no name of a file has") from None
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise ValueError("it has control characters")
    return text


def _checked_file(name: str) -> str:
    if "/" in name or name_problem(name) is not None:
        raise ValueError(f"the file {name[:60]!r} does not lie in the project's folder")
    return name


_Words = Annotated[str, Field(max_length=4096), AfterValidator(_checked_words)]
_OwnFile = Annotated[_Words, AfterValidator(_checked_file)]
_Frame = Annotated[
    InstanceOf[Grid],
    BeforeValidator(lambda grid: grid if isinstance(grid, Grid) else grid_from_dict(grid)),
    PlainSerializer(grid_to_dict),
]


class ImageRecord(Value):
    """An image of the project."""

    path: _Words
    """Relative to the project's folder, with ``/``."""
    copied: Flag
    """Whether the file lies in the project's folder."""
    content_hash: _Words
    """Of the file or files."""
    grid: _Frame
    """The frame, as it was read (and told) when the project was made."""
    spacing: Number | tuple[Number, ...] | None
    units: _Words | None
    """What the reader was told beside the file, to be told again."""
    format: _Words
    channels: Whole
    dtype: _Words
    assumptions: tuple[str, ...]
    """What the reader said."""


class PointsRecord(Value):
    """A stored set of points."""

    file: _OwnFile
    content_hash: _Words
    count: Whole
    method: _Words
    """How it was made, in a sentence for people."""
    covers_candidates: Flag
    """Whether it represents a region that holds all candidates."""
    region: _Words
    """What it was made from: domain, foreground, mask, labels, file, corners or given."""


class ForegroundRecord(Value):
    """A stored foreground: its file and hash, the frame of its mask, and where it came from."""

    file: _OwnFile
    content_hash: _Words
    grid: _Frame
    share: Number
    """Of the image, 0 to 1."""
    source: Literal["image", "mask"]
    """Whether it was found in the image or taken from a mask of the project."""
    method: _Words


class Document(Value):
    """The content of ``project.json``."""

    kind: Literal["warpgauge project"] = KIND
    version: Literal[6] = VERSION
    id: Annotated[str, AfterValidator(checked_id)]
    created: _Words
    program: _Words
    images: dict[str, ImageRecord]
    candidates: PointsRecord
    targets: PointsRecord
    settings: Settings
    foregrounds: dict[str, ForegroundRecord]
    """``fixed`` and ``moving``; they are missing where none was wanted."""
    database: _Words | None = None
    """Address of the PostgreSQL database that holds the log, without a password; None for a file of the folder."""
    draw_seed: Whole
    """Secret seed of where drawn questions, controls and repeats fall."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for role in ("fixed", "moving"):
            if role not in self.images:
                raise ValueError(f"it names no {role} image")
        dimensions = {record.grid.d for record in self.images.values()}
        dimensions |= {record.grid.d for record in self.foregrounds.values()}
        if len(dimensions) != 1:
            raise ValueError("its images have different dimensions")
        return self


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def read_document(folder: Path) -> Document:
    """Read the document of the project in a folder."""
    if not folder.is_dir():
        raise ProjectError(f"There is no project at {str(folder)!r}: it is not a folder; check the path.")
    if not (folder / FILE).is_file():
        raise ProjectError(
            f"{str(folder)!r} is not a warpgauge project: it has no {FILE}; make one with Project.create."
        )
    text = read_text(folder / FILE, "project file")
    try:
        content = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ProjectError(f"{FILE!r} is not JSON ({one_line(error)}); put back a copy of it.") from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise ProjectError(f"{FILE!r} does not describe a warpgauge project.")
    if content.get("version") != VERSION:
        raise ProjectError(
            f"{FILE!r} was written by another version of warpgauge (project version {content.get('version')!r:.20}, "
            f"this one reads {VERSION}); open it with that version, or put back a copy of the file."
        )
    with project_content(repr(FILE)):
        return Document(**content)


def write_document(folder: Path, document: Document) -> None:
    """Replace the document in one step, so that a reader sees the old or the new one, whole."""
    try:
        write_whole(folder / FILE, f"{document.model_dump_json(indent=1)}\n".encode(), durable=True)
    except OSError as error:
        raise StorageError(
            f"{FILE!r} in {str(folder)!r} could not be written ({one_line(error)}); the former one is still there."
        ) from error
