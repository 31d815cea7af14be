"""`read_transform`: the one door to files of transforms."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from warpgauge.errors import FileFormatError, InvalidInputError, say
from warpgauge.geometry import Grid
from warpgauge.io.files import existing_file, readable
from warpgauge.io.transforms import elastix
from warpgauge.io.transforms.formats import BY_NAME, FORMATS, Format, detect_format
from warpgauge.io.transforms.meaning import Options
from warpgauge.io.transforms.transform import Chain, Transform, scaled

PathLike = str | os.PathLike[str]
Direction = Literal["fixed_to_moving", "moving_to_fixed"]
_OPTIONS = ("convention", "axes", "frame")


def read_transform(
    source: PathLike | Sequence[PathLike],
    *,
    format: str | None = None,  # noqa: A002  # the word that users know
    direction: Direction = "fixed_to_moving",
    reference: Any = None,
    moving: Any = None,
    convention: str | None = None,
    axes: str | None = None,
    frame: str | None = None,
    scale: float | None = None,
) -> Transform:
    """Read a transform, so that ``map`` takes fixed world points to moving world points.

    Parameters
    ----------
    source : path, or list of paths
        A list is a chain **in the order of application to points** (the order of the ``fwdtransforms`` of ANTs).
    format : str, optional
        One of ``warpgauge.io.transforms.FORMATS``; by the content by default. ``"fsl"`` and ``"bigwarp"`` have to be
        named.
    direction : {"fixed_to_moving", "moving_to_fixed"}
        Which way the file maps. A file that maps moving to fixed points is inverted, numerically where it must be.
    reference, moving : Grid or image, optional
        Grids of the fixed and of the moving image; used only where a file does not say by itself what it needs.
    convention : str, optional
        What the vectors of a field are, where the file does not say: ``"displacement"`` or ``"position"``, and for
        arrays and NIfTI of networks the names that `as_transform` takes (``"voxelmorph"``, ``"learn2reg"``, ...).
    axes : str, optional
        Order of the spatial axes of an array, as in ``"zyx"``.
    frame : str, optional
        What world vectors are where the file does not say: ``"LPS"``, ``"RAS"``, or ``"index"`` (voxels).
    scale : float, optional
        Multiplies all coordinates of the transform, fixed and moving: 0.25 for a file that was made for images four
        times as large along each axis.

    Raises
    ------
    AmbiguousFileError
        Where the file can be read in several ways; the message names the option that settles it.
    FileFormatError
        Where the file is damaged, or of no kind that is read.
    """
    if direction not in ("fixed_to_moving", "moving_to_fixed"):
        raise InvalidInputError(f"{say('direction')} is 'fixed_to_moving' or 'moving_to_fixed', got {direction!r}.")
    if format is not None and format not in FORMATS:
        raise InvalidInputError(f"{say('format')} must be one of {', '.join(FORMATS)}, got {format!r}.")
    options = Options(_grid(reference, "reference"), _grid(moving, "moving"), convention, axes, frame)
    sources = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(sources, Sequence) or not all(isinstance(one, str | os.PathLike) for one in sources):
        raise InvalidInputError(
            f"read_transform takes a path, or a list of paths in the order of application to points, got "
            f"{type(source).__name__}; as_transform takes objects."
        )
    if not sources:
        raise InvalidInputError("read_transform was given an empty list of transforms.")
    files = [Path(one) for one in sources]
    entries = [BY_NAME[format or detect_format(file)] for file in files]
    _check_options(files, entries, options)
    if scale is not None:
        _refuse_reference_scale(files, entries)
    members = [_read(*pair, options, direction) for pair in zip(files, entries, strict=True)]
    _refuse_double_chains(files, entries)
    transform = members[0]
    given = {"direction": direction, "frame": frame, "convention": convention, "axes": axes, "scale": scale}
    read_with = {**transform.read_with, **{name: value for name, value in given.items() if value is not None}}
    if len(members) > 1:
        transform = Chain(members).described(
            "The list is in the order of application to points: its first entry is applied first."
        )
    if scale is not None:
        transform = scaled(transform, scale)
    if direction == "moving_to_fixed":
        transform = _inverted(transform)
    transform.read_with = read_with
    return transform


def _grid(value: Any, name: str) -> Grid | None:
    grid = getattr(value, "grid", value)
    if grid is not None and not isinstance(grid, Grid):
        raise InvalidInputError(f"{say(name)} must be a Grid or an image with a grid, got {type(value).__name__}.")
    return grid


def _check_options(files: Sequence[Path], entries: Sequence[Format], options: Options) -> None:
    """Refuse an option that applies to none of the files, and a value that none of their formats has."""
    for name in _OPTIONS:
        value = getattr(options, name)
        if value is None:
            continue
        takers = [entry for entry in entries if name in entry.takes]
        if not takers:
            raise InvalidInputError(
                f"{say(name)} does not apply to {files[-1].name!r}, which is read as {entries[-1].title}; leave it "
                f"out, or give {say('format')}."
            )
        for entry in takers:
            values = entry.takes[name]
            if values and value not in values:
                raise InvalidInputError(
                    f"{say(name)} of {entry.title} transforms must be one of {', '.join(values)}, got {value!r}."
                )


def _refuse_reference_scale(files: Sequence[Path], entries: Sequence[Format]) -> None:
    for file, entry in zip(files, entries, strict=True):
        if entry.on_reference:
            raise InvalidInputError(
                f"{file.name!r}: a field of format {entry.name!r} stands on the grid of the reference image, so it has "
                f"no scale of its own; leave {say('scale')} out."
            )


def _refuse_double_chains(files: Sequence[Path], entries: Sequence[Format]) -> None:
    """Refuse a list with an elastix file and the initial transform that this file already draws in."""
    places = {file.resolve() for file in files}
    for file, entry in zip(files, entries, strict=True):
        if len(files) == 1 or entry.name != "elastix":
            continue
        for initial in elastix.initial_files(file):
            if initial in places:
                raise InvalidInputError(
                    f"{file.name!r} already names {initial.name!r} as its initial transform, so a list with both "
                    f"would apply it twice; give {file.name!r} alone."
                )


def _read(path: Path, entry: Format, options: Options, direction: Direction) -> Transform:
    """Read one file: whatever its reader raises becomes one sentence, and format and source are stamped."""
    existing_file(path, "transform")
    try:
        with readable(path, f"a transform of format {entry.name!r}"), np.errstate(all="ignore"):
            transform = entry.read(path, options)
    except InvalidInputError as error:
        if repr(path.name) in str(error):  # what the caller gave does not go with the file
            raise
        raise FileFormatError(f"{path.name!r} holds no usable transform: {error}") from error
    about = transform.description
    stated = about.units if about.units != "unstated" else ("mm" if transform.d == 3 else "unstated")
    title = entry.title if set(about.format.split(" + ")) == {"memory"} else about.format
    transform = transform.described(format=title, source=path.name, units=stated)
    # A file that says that it maps the other way is inverted, unless the caller has the whole inverted.
    if about.direction == "moving_to_fixed" and direction == "fixed_to_moving":
        inverse = _inverted(transform)
        inverse.read_with = {**transform.read_with, "stated": True}
        return inverse
    return transform


def _inverted(transform: Transform) -> Transform:
    inverse = transform.inverse()
    return inverse.described("The file maps moving to fixed points; inverted.", direction="fixed_to_moving")
