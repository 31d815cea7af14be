"""`read_transform`: detect the format of a file, and read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.files import existing_file
from warpgauge.io.transforms import ants, array_field, dense_files, elastix, fsl, itk, learn2reg
from warpgauge.io.transforms.base import FunctionTransform, Transform
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.detect import FORMATS, detect_format, is_text
from warpgauge.io.transforms.linear import read_matrix
from warpgauge.io.transforms.mapped_points import read_mapped_points
from warpgauge.io.transforms.scaled import scaled

PathLike = str | os.PathLike[str]
Source = PathLike | Transform | Callable[..., Any] | Sequence[Any]
Direction = Literal["fixed_to_moving", "moving_to_fixed"]


@dataclass(frozen=True)
class _Options:
    """What the caller says where files are silent."""

    reference: Grid | None = None
    moving: Grid | None = None
    layout: str | None = None
    components: str | None = None
    convention: str | None = None
    frame: str | None = None
    d: int | None = None

    def given(self) -> set[str]:
        names = {field.name for field in fields(self)} - {"reference", "moving"}
        return {name for name in names if getattr(self, name) is not None}


# Which options each format takes beside the grids; any other that is given is an error, never ignored.
_TAKES: dict[str, frozenset[str]] = {
    "nifti": frozenset({"convention", "frame"}),
    "nrrd": frozenset({"convention", "frame"}),
    "metaimage": frozenset({"convention", "frame"}),
    "numpy": frozenset({"layout", "components", "convention", "frame"}),
    "zarr": frozenset({"layout", "components", "convention", "frame"}),
    "learn2reg": frozenset({"layout"}),
    "fsl": frozenset({"convention"}),
    "matrix": frozenset({"frame"}),
    "callable": frozenset({"d"}),
}
# Formats whose vectors stand on the reference grid, so that their scale is that of the project.
_ON_REFERENCE = ("numpy", "zarr", "learn2reg", "fsl")


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
        A file (a folder for Zarr), a function of (n, d) points, or a list of these **in the order of application to
        points** (the order of the ``fwdtransforms`` of ANTs).
    format : str, optional
        One of ``warpgauge.io.transforms.FORMATS``; told from the content by default. ``"learn2reg"`` and ``"fsl"`` have
        to be said.
    direction : {"fixed_to_moving", "moving_to_fixed"}
        Which way the file maps. A file that maps moving to fixed points is inverted, numerically where it must be.
    reference, moving : Grid or image, optional
        Grids of the fixed and of the moving image; used only where a file does not say by itself what it needs.
    layout : str, optional
        Axes of a NumPy or Zarr array, as in ``"zyxc"``; ``"current"`` or ``"2020"`` for Learn2Reg.
    components : str, optional
        Order of the components of a NumPy or Zarr array, as in ``"xyz"``.
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
        raise InvalidInputError(f"direction= is 'fixed_to_moving' or 'moving_to_fixed', got {direction!r}.")
    if format is not None and format not in FORMATS:
        raise InvalidInputError(f"format= must be one of {', '.join(FORMATS)}, got {format!r}.")
    options = _Options(_grid(reference, "reference"), _grid(moving, "moving"), layout, components, convention, frame, d)
    taken: set[str] = set()
    transform = _read(source, format, options, taken)
    unused = sorted(options.given() - taken)
    if unused:
        raise InvalidInputError(
            f"{unused[0]}= does not apply to {transform.description.format} transforms; leave it out, or give format=."
        )
    if scale is not None:
        _refuse_reference_scale(source, format)
        transform = scaled(transform, scale)
    if direction == "moving_to_fixed":
        inverse = transform.inverse()
        words = ("The file maps moving to fixed points; inverted.", *inverse.description.assumptions)
        return inverse.described(direction="fixed_to_moving", assumptions=words)
    return transform


def _refuse_reference_scale(source: Source, format_name: str | None) -> None:
    members = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    for one in members:
        if isinstance(one, str | os.PathLike):
            found = format_name or detect_format(Path(one))
            if found in _ON_REFERENCE:
                raise InvalidInputError(
                    f"{Path(one).name!r}: a field of format {found!r} stands on the grid of the reference image, so it "
                    f"has no scale of its own; leave scale= out."
                )


def _grid(value: Any, name: str) -> Grid | None:
    grid = getattr(value, "grid", value)
    if grid is not None and not isinstance(grid, Grid):
        raise InvalidInputError(f"{name}= must be a Grid or an image with a grid, got {type(value).__name__}.")
    return grid


def _read(source: Source, format_name: str | None, options: _Options, taken: set[str]) -> Transform:
    if isinstance(source, Transform):
        return source
    if isinstance(source, str | os.PathLike):
        return _read_path(Path(source), format_name, options, taken)
    if isinstance(source, Sequence):
        return _read_list(source, format_name, options, taken)
    if callable(source):
        taken |= _TAKES["callable"]
        dimension = options.d or (options.reference.d if options.reference else None)
        if dimension is None:
            raise AmbiguousFileError("A function does not say its dimension; give d=2 or d=3, or reference=.")
        return FunctionTransform(source, dimension)
    raise InvalidInputError(
        f"read_transform takes a path, a list of paths in the order of application to points, or a function, got "
        f"{type(source).__name__}."
    )


def _read_list(sources: Sequence[Any], format_name: str | None, options: _Options, taken: set[str]) -> Transform:
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


def read_itk(path: Path) -> Transform:
    """Read an ITK transform file, text or HDF5 by its content, or the MATLAB form of ANTs."""
    found = detect_format(path)
    if found not in ("itk", "ants"):
        raise FileFormatError(f"{path.name!r} is no ITK transform file; its content looks like {found}.")
    return _itk(path, _Options())


def _itk(path: Path, options: _Options) -> Transform:
    from warpgauge.io.files import read_head

    head = read_head(path, 64)
    if head.startswith(itk.HDF5_SIGNATURE):
        return itk.read_itk_hdf5(path)
    if ants.looks_like_mat4(head):
        return ants.read_mat(path)
    return itk.read_itk_text(path)


def _elastix(path: Path, options: _Options) -> Transform:
    return elastix.read_elastix(path, options.reference, options.moving)


def _dense(path: Path, options: _Options) -> Transform:
    stored = dense_files.with_reference(dense_files.load_field(path), options.reference)
    frame = dense_files.choose_frame(
        stored,
        options.frame,
        "give frame='LPS', 'RAS' or 'index', or format='learn2reg' or 'fsl' where it is one of those",
    )
    absolute = dense_files.choose_convention(stored.name, options.convention, "relative")
    return dense_files.finish_field(stored, frame, absolute=absolute, moving=options.moving)


def _array(path: Path, options: _Options) -> Transform:
    return array_field.read_array_field(
        path,
        reference=options.reference,
        moving=options.moving,
        layout=options.layout,
        components=options.components,
        frame=options.frame,
        convention=options.convention,
    )


def _learn2reg(path: Path, options: _Options) -> Transform:
    return learn2reg.read_learn2reg(path, layout=options.layout, reference=options.reference, moving=options.moving)


def _fsl(path: Path, options: _Options) -> Transform:
    text = is_text(existing_file(path, "FSL transform"))
    if text and options.convention is not None:
        raise InvalidInputError(
            f"convention= is for FSL warp fields, but {path.name!r} is text, as flirt matrices are; leave it out."
        )
    return fsl.read_fsl(
        path, convention=options.convention, reference=options.reference, moving=options.moving, text=text
    )


def _matrix(path: Path, options: _Options) -> Transform:
    return read_matrix(path, options.frame)


def _points(path: Path, options: _Options) -> Transform:
    return read_mapped_points(path)


_READERS: dict[str, Callable[[Path, _Options], Transform]] = {
    "elastix": _elastix,
    "itk": _itk,
    "ants": _itk,
    "nifti": _dense,
    "nrrd": _dense,
    "metaimage": _dense,
    "numpy": _array,
    "zarr": _array,
    "learn2reg": _learn2reg,
    "fsl": _fsl,
    "matrix": _matrix,
    "points": _points,
}


def _read_path(path: Path, format_name: str | None, options: _Options, taken: set[str]) -> Transform:
    found = format_name or detect_format(path)
    if found == "callable":
        raise InvalidInputError(f"format='callable' is for Python functions, but {path.name!r} is a path.")
    if not path.is_dir():
        existing_file(path, "transform")
    elif found != "zarr":
        raise InvalidInputError(f"{path.name!r} is a folder, but a transform of format {found!r} is a file.")
    taken |= _TAKES.get(found, frozenset())
    return _READERS[found](path, options)
