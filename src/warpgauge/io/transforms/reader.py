"""`read_transform`: detect the format of a file, and read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from warpgauge.errors import AmbiguousFileError, InvalidInputError, say
from warpgauge.geometry import Grid
from warpgauge.io.files import existing_file, readable
from warpgauge.io.transforms import elastix
from warpgauge.io.transforms.base import FunctionTransform, Options, Transform
from warpgauge.io.transforms.chain import Chain, scaled
from warpgauge.io.transforms.registry import CALLABLE, FORMATS, READERS, detect_format

PathLike = str | os.PathLike[str]
Source = PathLike | Transform | Callable[..., Any] | Sequence[Any]
Direction = Literal["fixed_to_moving", "moving_to_fixed"]


def read_transform(
    source: Source,
    *,
    format: str | None = None,  # noqa: A002  # the word that users know
    direction: Direction = "fixed_to_moving",
    reference: Any = None,
    moving: Any = None,
    layout: str | None = None,
    components: str | None = None,
    convention: str | None = None,
    frame: str | None = None,
    d: int | None = None,
    scale: float | None = None,
) -> Transform:
    """Read a transform, so that ``map`` takes fixed world points to moving world points.

    Parameters
    ----------
    source : path, list, callable or Transform
        A file, a function of (n, d) points, or a list of these **in the order of application to points** (the order
        of the ``fwdtransforms`` of ANTs).
    format : str, optional
        One of ``warpgauge.io.transforms.FORMATS``; told from the content by default. ``"learn2reg"`` and ``"fsl"`` have
        to be said.
    direction : {"fixed_to_moving", "moving_to_fixed"}
        Which way the file maps. A file that maps moving to fixed points is inverted, numerically where it must be.
    reference, moving : Grid or image, optional
        Grids of the fixed and of the moving image; used only where a file does not say by itself what it needs.
    layout : str, optional
        Axes of a NumPy array, as in ``"zyxc"``; ``"current"`` or ``"2020"`` for Learn2Reg.
    components : str, optional
        Order of the components of a NumPy array, as in ``"xyz"``.
    convention : {"relative", "absolute"}, optional
        Whether vectors are displacements or positions; FSL files need it.
    frame : {"LPS", "RAS", "index"}, optional
        What vectors are where the file does not say.
    d : int, optional
        Dimension of a function.
    scale : float, optional
        Multiplies all coordinates of the transform, fixed and moving: 0.25 for a file that was made for images four
        times as large along each axis.

    Returns
    -------
    Transform
        With ``map``, ``domain``, ``inverse`` and a ``description`` of all that was assumed.

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
    options = Options(
        _grid(reference, "reference"), _grid(moving, "moving"), layout, components, convention, frame, d, direction
    )
    taken: set[str] = set()
    transform = _read(source, format, options, taken)
    unused = sorted(options.given() - taken)
    if unused:
        raise InvalidInputError(
            f"{say(unused[0])} does not apply to {transform.description.format} transforms; leave it out, or give "
            f"{say('format')}."
        )
    if scale is not None:
        _refuse_reference_scale(source, format)
        transform = scaled(transform, scale)
    if direction == "moving_to_fixed":
        return _inverted(transform)
    return transform


def _refuse_reference_scale(source: Source, format_name: str | None) -> None:
    members = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    for one in members:
        if isinstance(one, str | os.PathLike):
            found = format_name or detect_format(Path(one))
            if found in READERS and READERS[found].on_reference:
                raise InvalidInputError(
                    f"{Path(one).name!r}: a field of format {found!r} stands on the grid of the reference image, so it "
                    f"has no scale of its own; leave {say('scale')} out."
                )


def _grid(value: Any, name: str) -> Grid | None:
    grid = getattr(value, "grid", value)
    if grid is not None and not isinstance(grid, Grid):
        raise InvalidInputError(f"{say(name)} must be a Grid or an image with a grid, got {type(value).__name__}.")
    return grid


def _read(source: Source, format_name: str | None, options: Options, taken: set[str]) -> Transform:
    if isinstance(source, Transform):
        return source
    if isinstance(source, str | os.PathLike):
        return _read_path(Path(source), format_name, options, taken)
    if isinstance(source, Sequence):
        return _read_list(source, format_name, options, taken)
    if callable(source):
        taken.add("d")
        dimension = options.d or (options.reference.d if options.reference else None)
        if dimension is None:
            raise AmbiguousFileError(f"A function does not say its dimension; give d=2 or d=3, or {say('reference')}.")
        return FunctionTransform(source, dimension)
    raise InvalidInputError(
        f"read_transform takes a path, a list of paths in the order of application to points, or a function, got "
        f"{type(source).__name__}."
    )


def _read_list(sources: Sequence[Any], format_name: str | None, options: Options, taken: set[str]) -> Transform:
    if not sources:
        raise InvalidInputError("read_transform was given an empty list of transforms.")
    members = [_read(source, format_name, options, taken) for source in sources]
    _refuse_double_chains(sources, members)
    if len(members) == 1:
        return members[0]
    chain = Chain(members)
    note = "The list is in the order of application to points: its first entry is applied first."
    return chain.described(assumptions=(note, *chain.description.assumptions))


def _refuse_double_chains(sources: Sequence[Any], members: Sequence[Transform]) -> None:
    """Refuse a list with an elastix file and the initial transform that this file already draws in."""
    files = {Path(source).resolve(): Path(source) for source in sources if isinstance(source, str | os.PathLike)}
    for file, given in files.items():
        if not file.is_file() or detect_format(given) != "elastix":
            continue
        for initial in elastix.initial_files(given):
            if initial in files and initial != file:
                raise InvalidInputError(
                    f"{given.name!r} already names {initial.name!r} as its initial transform, so a list with both "
                    f"would apply it twice; give {given.name!r} alone."
                )


def _read_path(path: Path, format_name: str | None, options: Options, taken: set[str]) -> Transform:
    found = format_name or detect_format(path)
    if found == CALLABLE:
        raise InvalidInputError(f"{say('format', 'callable')} is for Python functions, but {path.name!r} is a path.")
    existing_file(path, "transform")
    taken |= READERS[found].takes
    with readable(path, f"a transform of format {found!r}"):
        transform = READERS[found].read(path, options)
    if transform.description.direction == "moving_to_fixed" and options.direction == "fixed_to_moving":
        return _inverted(transform)
    return transform


def _inverted(transform: Transform) -> Transform:
    inverse = transform.inverse()
    words = ("The file maps moving to fixed points; inverted.", *inverse.description.assumptions)
    return inverse.described(direction="fixed_to_moving", assumptions=words)
