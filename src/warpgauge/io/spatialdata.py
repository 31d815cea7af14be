"""Landmarks and alignments to and from SpatialData objects (extra ``spatialdata``).

SpatialData keeps landmarks as point shapes and aligns elements by transformations between named coordinate systems.
Points are (x, y[, z]) on both sides, so nothing is reordered; a landmark's name is the index of its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError
from warpgauge.io.files import require
from warpgauge.io.landmarks import Landmarks
from warpgauge.io.transforms.base import Transform
from warpgauge.io.transforms.ngff import linear_parts

GLOBAL = "global"


def landmarks_from_spatialdata(
    sdata: Any, fixed: str, moving: str, *, coordinate_system: str = GLOBAL, units: str = "px"
) -> Landmarks:
    """Return landmarks from two elements of points, both in the same coordinate system.

    Parameters
    ----------
    sdata : spatialdata.SpatialData
    fixed, moving : str
        Names of the elements, shapes or points; rows correspond by their index where both have the same, else by order.
    coordinate_system : str
        Where the points are taken: their transformations to it are applied.
    units : {"px", "um", "mm"}
        What one unit of that coordinate system is.
    """
    require("spatialdata", "spatialdata")
    sides = [_points(sdata, name, coordinate_system) for name in (fixed, moving)]
    (fixed_names, fixed_points), (moving_names, moving_points) = sides
    if len(fixed_points) != len(moving_points):
        raise InvalidInputError(
            f"{fixed!r} has {counted(len(fixed_points), 'point')}, but {moving!r} has {len(moving_points)}; each needs "
            "its match."
        )
    if set(fixed_names) == set(moving_names) and len(set(fixed_names)) == len(fixed_names):
        order = [moving_names.index(name) for name in fixed_names]
        moving_points, how = moving_points[order], "by their index"
    else:
        how = "by their order"
    note = f"Points of {fixed!r} and {moving!r} in the coordinate system {coordinate_system!r} correspond {how}."
    return Landmarks(
        fixed_points, moving_points, names=tuple(fixed_names), units=units, assumptions=(note,), format="spatialdata"
    )


def _points(sdata: Any, name: str, coordinate_system: str) -> tuple[list[str], Floats]:
    spatialdata = require("spatialdata", "spatialdata")
    if name not in sdata:
        known = ", ".join(repr(element) for _, element, _ in sdata.gen_elements())
        raise InvalidInputError(f"The SpatialData object has no element {name!r}; it has {known or 'none'}.")
    moved = spatialdata.transform(sdata[name], to_coordinate_system=coordinate_system)
    if hasattr(moved, "geometry"):
        kinds = set(moved.geometry.geom_type)
        if kinds != {"Point"}:
            raise InvalidInputError(f"The element {name!r} holds {', '.join(sorted(kinds))}; landmarks are points.")
        three = bool(moved.geometry.has_z.all())
        columns = [moved.geometry.x, moved.geometry.y, *([moved.geometry.z] if three else [])]
        values = np.stack([np.asarray(one, dtype=np.float64) for one in columns], axis=1)
    else:
        frame = moved.compute() if hasattr(moved, "compute") else moved
        moved = frame
        values = np.stack([np.asarray(frame[axis], dtype=np.float64) for axis in "xyz" if axis in frame], axis=1)
    return [str(one) for one in moved.index], values


def spatialdata_points(
    landmarks: Landmarks, side: Literal["fixed", "moving"], *, coordinate_system: str = GLOBAL, radius: float = 1.0
) -> Any:
    """Return the points of one side as shapes, for ``sdata["landmarks"] = ...`` and for SpatialData's own alignment."""
    models = require("spatialdata.models", "spatialdata")
    transformations = require("spatialdata.transformations", "spatialdata")
    if side not in ("fixed", "moving"):
        raise InvalidInputError(f"side must be 'fixed' or 'moving', got {side!r}.")
    points = landmarks.fixed_points if side == "fixed" else landmarks.moving_points
    if points is None:
        raise InvalidInputError("These landmarks have no moving points.")
    made = models.ShapesModel.parse(
        np.array(points), geometry=0, radius=radius,
        transformations={coordinate_system: transformations.Identity()},
    )  # fmt: skip
    made.index = list(landmarks.names) if landmarks.names else [str(n + 1) for n in range(len(points))]
    return made


def spatialdata_alignment(transform: Transform) -> Any:
    """Return a linear transform as SpatialData's ``Affine`` that takes the **moving** element onto the fixed one.

    SpatialData moves elements, whereas transforms here map fixed to moving points; so this is the inverse.
    """
    transformations = require("spatialdata.transformations", "spatialdata")
    parts = linear_parts(transform)
    if not parts:
        raise InvalidInputError(
            f"SpatialData aligns by linear transformations, but this is a {transform.description.kind}."
        )
    matrix = np.eye(transform.d + 1)
    for part in parts:
        one = np.eye(transform.d + 1)
        one[:-1, :-1], one[:-1, -1] = part.matrix, part.offset
        matrix = one @ matrix
    axes: Sequence[str] = tuple("xyz"[: transform.d])
    return transformations.Affine(np.linalg.inv(matrix), input_axes=axes, output_axes=axes)
