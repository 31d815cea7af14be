"""Transforms of programs for histology: BigWarp, Warpy (QuPath) and DeeperHistReg."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import finite_numbers, read_text
from warpgauge.io.images import metaimage
from warpgauge.io.limits import check_parts
from warpgauge.io.transforms.lattice import DisplacementField, LandmarkSpline, Vectors
from warpgauge.io.transforms.meaning import Options, as_floats
from warpgauge.io.transforms.transform import AffineTransform, Chain, Transform


def read_bigwarp(path: Path, options: Options) -> Transform:
    """Return the thin-plate spline through the active landmarks of a BigWarp file."""
    from warpgauge.io.landmarks import read_landmarks

    pairs = read_landmarks(
        path, format="bigwarp", frame=options.frame, fixed_grid=options.reference, moving_grid=options.moving
    )
    if pairs.moving_points is None or int(pairs.active.sum()) < pairs.d + 1:
        raise FileFormatError(f"{path.name!r} has too few active pairs for a spline through them.")
    rows = pairs.active
    return LandmarkSpline(
        pairs.fixed_points[rows],
        pairs.moving_points[rows],
        "ThinPlateR2LogRSpline",
        units=pairs.units,
        notes=("BigWarp's spline takes fixed (target) to moving points.", *pairs.assumptions),
    )


_CORNER = 0.5  # QuPath's pixels count from the corner of the image, so that this is the centre of the first one
_DEEPEST = 20
_MARKS = (b"affinetransform3d", b"realTransform_0", b"wrappedTransform", b"ThinplateSplineTransform")
_WRAPPERS = (
    "Wrapped2DTransformAs3D",
    "InvertibleWrapped2DTransformAs3D",
    "WrappedIterativeInvertibleRealTransform",
)
_SEQUENCES = ("RealTransformSequence", "InvertibleRealTransformSequence")


def is_warpy(head: bytes, suffix: str) -> bool:
    """Return whether a file is a transform of Warpy."""
    return head.lstrip().startswith(b"{") and any(mark in head for mark in _MARKS)


def read_warpy(path: Path, options: Options) -> Transform:
    """Read a transform of Warpy (``transform_*.json``): a chain of BigDataViewer's, from pixels to pixels.

    Where the world of the images is not pixels, their grids at full resolution count.
    """
    reference = options.reference
    try:
        content = json.loads(read_text(path, "transform"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path.name!r} is not valid JSON, so it is not a Warpy transform.") from error
    members = _warpy_parts(content, path.name, 0)
    chain = Chain([_to_qupath(reference), *members, _to_qupath(options.moving).inverse()])
    notes = ["The file maps pixels of the fixed image at full resolution to pixels of the moving one, from the corner."]
    if reference is None:
        notes.append("No grid is given, so that the world is pixels, as of images without a spacing.")
    return chain.described(
        *notes, kind="chain of QuPath's", units=reference.units if reference else "px", format="memory", assumptions=()
    )


def _to_qupath(grid: Grid | None) -> AffineTransform:
    """Return the map from the world to QuPath's pixels of an image."""
    matrix = np.eye(3) if grid is None else np.linalg.inv(grid.affine)
    return AffineTransform(matrix[:2, :2], matrix[:2, 2] + _CORNER)


def _fail(name: str, problem: str) -> NoReturn:
    raise FileFormatError(f"{name!r}: {problem}.")


def _warpy_parts(entry: Any, name: str, depth: int) -> list[Transform]:
    """Return the members of a transform in the order of application, in 2D."""
    if not isinstance(entry, Mapping) or depth > _DEEPEST:
        _fail(name, "a transform within it is not a JSON object, or nested too deeply")
    kind = str(entry.get("type"))
    if kind in _SEQUENCES:
        count = entry.get("size")
        if not isinstance(count, int) or count < 1:
            _fail(name, "its sequence does not say its size")
        check_parts(name, count)
        members: list[Transform] = []
        for n in range(count):
            members += _warpy_parts(entry.get(f"realTransform_{n}"), name, depth + 1)
            check_parts(name, len(members))
        return members
    if kind in _WRAPPERS:
        return _warpy_parts(entry.get("wrappedTransform"), name, depth + 1)
    if kind == "AffineTransform3D":
        rows = finite_numbers(entry.get("affinetransform3d"), name, "affinetransform3d", 12).reshape(3, 4)
        if np.any(rows[:2, 2]):
            _fail(name, "an affine transform mixes z into x and y, which a 2D image does not have")
        return [AffineTransform(rows[:2, :2], rows[:2, 3])]
    if kind == "ThinplateSplineTransform":
        source = finite_numbers(entry.get("srcPts"), name, "srcPts")
        target = finite_numbers(entry.get("tgtPts"), name, "tgtPts")
        if source.ndim != 2 or source.shape[0] != 2 or source.shape != target.shape:
            _fail(name, "a spline needs srcPts and tgtPts, x and then y of the same number of points")
        return [LandmarkSpline(source.T, target.T, "ThinPlateR2LogRSpline")]
    _fail(name, f"it has a transform of type {kind!r}; affine and thin-plate spline transforms are read")


RECORD = "postprocessing_params.json"
_PADS = {"source": "pad_1", "target": "pad_2"}
# One file of two slices with one number each is no image, and no field of another program.
_MARK = re.compile(rb"^NDims = 3\r?$.*^DimSize = [0-9]+ [0-9]+ 2\r?$", re.MULTILINE | re.DOTALL)
# Of a side: more says that the images are not those that were registered.
_TOLERANCE = 0.02


def is_deeperhistreg(head: bytes, suffix: str) -> bool:
    """Return whether a file is a field of DeeperHistReg."""
    return metaimage.looks_like_metaimage(head) and _MARK.search(head) is not None


def record_file(path: Path) -> list[Path]:
    """Return the record of padding beside a field of DeeperHistReg."""
    record = path.with_name(RECORD)
    return [record] if record.is_file() else []


def read_deeperhistreg(path: Path, options: Options) -> Transform:
    """Read ``displacement_field.mha`` with the record of padding beside it, for the images at any scale.

    The program resamples both images, pads them to one size, and registers them, perhaps resampled once more. Its field
    covers the padded images from edge to edge, in pixels of the field, first all of x and then all of y.
    """
    fixed = options.reference
    moving = options.moving
    if fixed is None or moving is None or fixed.d != 2 or moving.d != 2:
        raise AmbiguousFileError(
            f"{path.name!r} covers two padded images; give {say('reference')} and {say('moving')}, their 2D grids."
        )
    vectors = _padded_vectors(path)
    record = _record(path)
    size = vectors.shape[:0:-1]
    padded = (np.array(size) + 0.5) * record.ratio  # what did not fill a last node was left out
    enter = _to_padded(path, fixed, padded, record, "target")
    leave = _to_padded(path, moving, padded, record, "source").inverse()
    # Padded pixels from the edge to nodes of the field, whose first lies half a node from the edge.
    nodes = AffineTransform(np.eye(2) / record.ratio, np.full(2, -0.5))
    field = DisplacementField(vectors, Grid(size), name=path.name)
    chain = Chain([enter, nodes, field, nodes.inverse(), leave])
    return chain.described(
        "DeeperHistReg's field takes target (fixed) to source (moving) points of the padded images.",
        f"Padding and resampling are those of {RECORD}; the images are taken to show all that was registered.",
        kind=field.description.kind,
        units=fixed.units,
        format="memory",
        assumptions=(),
    )


def _padded_vectors(path: Path) -> Vectors:
    volume = metaimage.open_metaimage(path)
    if volume.count != 1 or volume.frame.size[2:] != (2,):
        raise FileFormatError(f"{path.name!r} has the sizes {volume.sizes}; such a field has W x H x 2.")
    return as_floats(volume.values(), path.name)


@dataclass(frozen=True)
class _Record:
    """Ratios of the first resampling by side and of the second, and the padding [x, y][before, after] by side."""

    first: dict[str, float]
    ratio: float
    pads: dict[str, Floats]


def _record(path: Path) -> _Record:
    beside = path.with_name(RECORD)
    if not beside.is_file():
        raise FileFormatError(
            f"{path.name!r} is a field of DeeperHistReg, which needs its {RECORD} beside it; copy that file there."
        )
    try:
        content: Any = json.loads(read_text(beside, "record of DeeperHistReg"))
        ratio = float(content["initial_resample_ratio"]) if content["initial_resampling"] else 1.0
        first = {side: float(content[f"{side}_resample_ratio"]) for side in _PADS}
        pads = {side: np.array(content[key], dtype=np.float64).reshape(2, 2)[::-1] for side, key in _PADS.items()}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{RECORD!r} beside {path.name!r} lacks pad_1, pad_2 or the resampling; it is damaged."
        ) from error
    numbers = np.array([ratio, *first.values(), *(1 + value for pad in pads.values() for value in pad.ravel())])
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise FileFormatError(
            f"{RECORD!r} beside {path.name!r} has a padding or a ratio that cannot be; it is damaged."
        )
    return _Record(first, ratio, pads)


def _to_padded(path: Path, grid: Grid, padded: Floats, record: _Record, side: str) -> AffineTransform:
    """Return the map from the world of an image to pixels of the padded one, counted from its edge."""
    pad = record.pads[side]
    size = np.asarray(grid.size, dtype=np.float64)
    image = padded - pad.sum(axis=1)
    scale = record.first[side]
    if (np.abs(size * scale - image) > record.ratio / 2 + 1.5).any():  # not the file itself, but perhaps a smaller one
        if (image < 1).any() or abs(image[0] / size[0] * size[1] / image[1] - 1) > _TOLERANCE:
            raise InvalidInputError(
                f"{path.name!r} was made for a {side} of {image[0]:.0f} x {image[1]:.0f} pixels, at any scale, "
                f"but the {'fixed' if side == 'target' else 'moving'} image has {size[0]:.0f} x {size[1]:.0f}; give "
                f"the images that were registered."
            )
        scale = float(np.sqrt(np.prod(image / size)))
    to_index = np.linalg.inv(grid.affine)
    return AffineTransform(scale * to_index[:2, :2], scale * (to_index[:2, 2] + 0.5) + pad[:, 0])
