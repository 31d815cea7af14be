"""QuPath's transforms of Warpy (``transform_*.json``): sequences of affine and thin-plate spline transforms.

Warpy keeps a chain of BigDataViewer's transforms that takes pixels of one image to pixels of another. QuPath's pixels
count from the corner of the image, so that 0.5 is the centre of the first one; here it is 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.errors import FileFormatError
from warpgauge.geometry import Grid
from warpgauge.io.files import read_text
from warpgauge.io.limits import check_parts
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Description, Format, Options, Transform
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.linear import AffineTransform
from warpgauge.io.transforms.splines import KernelSpline

TITLE = "Warpy"
MARKS = (b"affinetransform3d", b"realTransform_0", b"wrappedTransform", b"ThinplateSplineTransform")
_CORNER = 0.5
_DEEPEST = 20
_WRAPPERS = (
    "Wrapped2DTransformAs3D", "InvertibleWrapped2DTransformAs3D", "WrappedIterativeInvertibleRealTransform",
)  # fmt: skip
_SEQUENCES = ("RealTransformSequence", "InvertibleRealTransformSequence")


def read_warpy(path: Path, options: Options) -> Transform:
    """Read a transform of Warpy; where the world of the images is not pixels, their grids at full resolution count."""
    reference, moving = options.reference, options.moving
    try:
        content = json.loads(read_text(path, "transform"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path.name!r} is not valid JSON, so it is not a Warpy transform.") from error
    parts = _parts(content, path.name, 0)
    ends = [_pixels(grid) for grid in (reference, moving)]
    chain = Chain([AffineTransform(*ends[0]), *parts, AffineTransform(*ends[1]).inverse()])
    about = Description(
        format=TITLE, kind="chain of QuPath's", frame="world", units=reference.units if reference else "px",
        source=path.name,
    )  # fmt: skip
    words = ["The file maps pixels of the fixed image at full resolution to pixels of the moving one, from the corner."]
    if reference is None:
        words.append("No grid is given, so that the world is pixels, as of images without a spacing.")
    return chain.described(**{**vars(about), "assumptions": tuple(words)})


def _pixels(grid: Grid | None) -> tuple[Floats, Floats]:
    """Return matrix and offset from world to QuPath's pixels of an image."""
    matrix: Floats = np.eye(3) if grid is None else np.asarray(np.linalg.inv(grid.affine), dtype=np.float64)
    return matrix[:2, :2], matrix[:2, 2] + _CORNER


def _fail(name: str, problem: str) -> NoReturn:
    raise FileFormatError(f"{name!r}: {problem}.")


def _parts(entry: Any, name: str, depth: int) -> list[Transform]:
    """Return the members of a transform in the order of application, in 2D."""
    if not isinstance(entry, Mapping) or depth > _DEEPEST:
        _fail(name, "a transform within it is not a JSON object, or nested too deeply")
    kind = str(entry.get("type"))
    if kind in _SEQUENCES:
        count = entry.get("size")
        if not isinstance(count, int) or count < 1:
            _fail(name, "its sequence does not say its size")
        members: list[Transform] = []
        check_parts(name, count)
        for n in range(count):
            members += _parts(entry.get(f"realTransform_{n}"), name, depth + 1)
            check_parts(name, len(members))
        return members
    if kind in _WRAPPERS:
        return _parts(entry.get("wrappedTransform"), name, depth + 1)
    if kind == "AffineTransform3D":
        return [_affine(entry, name)]
    if kind == "ThinplateSplineTransform":
        return [_spline(entry, name)]
    _fail(name, f"it has a transform of type {kind!r}; affine and thin-plate spline transforms are read")


def _numbers(values: Any, name: str, what: str) -> Floats:
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.size == 0 or not np.isfinite(found).all():
        _fail(name, f"{what} are not finite numbers")
    return found


def _affine(entry: Mapping[str, Any], name: str) -> AffineTransform:
    rows = _numbers(entry.get("affinetransform3d"), name, "its affine numbers")
    if rows.size != 12:
        _fail(name, f"an affine transform has 12 numbers, not {rows.size}")
    rows = rows.reshape(3, 4)
    if np.any(rows[:2, 2]):
        _fail(name, "an affine transform mixes z into x and y, which a 2D image does not have")
    return AffineTransform(rows[:2, :2], rows[:2, 3])


def _spline(entry: Mapping[str, Any], name: str) -> KernelSpline:
    source, target = (_numbers(entry.get(key), name, f"the {key} of a spline") for key in ("srcPts", "tgtPts"))
    if source.ndim != 2 or source.shape[0] != 2 or source.shape != target.shape:
        _fail(name, "a spline needs srcPts and tgtPts, x and then y of the same number of points")
    return KernelSpline(source.T, target.T, "ThinPlateR2LogRSpline")


def _recognise(head: bytes, suffix: str) -> int:
    return BY_SIGNATURE if head.lstrip().startswith(b"{") and any(mark in head for mark in MARKS) else NO


FORMAT = Format("warpy", read_warpy, _recognise)
