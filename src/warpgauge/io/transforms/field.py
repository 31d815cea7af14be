"""Dense fields: a vector at every node of a grid, linear between the nodes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms.base import Description
from warpgauge.io.transforms.lattice import BORDER, LatticeTransform, Vectors

_BLOCK = 2**18


class DisplacementField(LatticeTransform):
    """A dense field, defined between its outer nodes.

    ITK also evaluates half a voxel beyond the outer nodes, with the value of the nearest node, and gives the identity
    further out; here all points beyond the outer nodes are masked, and so are points next to a value that is not
    finite.

    Parameters
    ----------
    vectors : (d, y, x) or (d, z, y, x) array
        World components x, y[, z] first: displacements, or positions where ``absolute``.
    grid : Grid
        Where the vectors stand.
    absolute : bool
        Whether the vectors are moving positions.
    order : {0, 1}
        Nearest or linear interpolation.
    description : Description, optional
        What is known of it.
    """

    def __init__(
        self,
        vectors: Vectors,
        grid: Grid,
        *,
        absolute: bool = False,
        order: int = 1,
        description: Description | None = None,
    ) -> None:
        if order not in (0, 1):
            raise InvalidInputError(f"A dense field is interpolated with order 0 or 1, got {order!r}.")
        super().__init__(
            vectors,
            grid,
            order=order,
            margin=0.0,
            absolute=absolute,
            description=description or field_description("memory", order=order),
        )
        if self._gaps:
            self._report_gaps()

    def _report_gaps(self) -> None:
        finite = np.isfinite(self.vectors).all(axis=0)
        count, total = int(np.count_nonzero(~finite)), self.grid.count
        name = self.description.source or "The field"
        if count == total:
            raise InvalidInputError(f"{name!r} has no finite vector (NaN or infinity everywhere), so it maps no point.")
        if count:
            sentence = f"{count} of {total} vectors are not finite; points next to them are masked."
            warnings.warn(f"{name}: {sentence}", SuspiciousDataWarning, stacklevel=4)
            self._description = self._description.assuming(sentence)


def field_description(
    file_format: str, *, order: int = 1, kind: str = "dense displacement field", **more: Any
) -> Description:
    """Describe a dense field."""
    return Description(
        format=file_format,
        kind=kind,
        interpolation="linear" if order == 1 else "nearest node",
        outside=(
            f"masked (NaN) beyond the outer nodes, index [0, n - 1] (within {BORDER:g} of the border counts as on it); "
            f"ITK would clamp for half a voxel and then jump to the identity"
        ),
        **more,
    )


def positions_from_index_displacements(vectors: Vectors, fixed: Grid, moving: Grid) -> tuple[Floats, bool]:
    """Turn displacements in voxels into world vectors.

    Parameters
    ----------
    vectors : (d, *fixed.shape) array
        Displacements along the index axes x, y[, z], from an index of ``fixed`` to an index of ``moving``.
    fixed, moving : Grid
        The grids of the two images.

    Returns
    -------
    vectors : (d, *fixed.shape) array
        World displacements where the grids are the same, else moving world positions.
    absolute : bool
        Which of the two.
    """
    flat = vectors.reshape(fixed.d, -1)
    world = np.empty(flat.shape)
    same = np.array_equal(fixed.affine, moving.affine)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is infinite, and so masked
        for start in range(0, fixed.count, _BLOCK):
            part = flat[:, start : start + _BLOCK].T.astype(np.float64)
            if same:
                world[:, start : start + _BLOCK] = ((part * fixed.spacing) @ fixed.direction.T).T
            else:
                index = fixed.world_to_index(fixed.points(start, start + _BLOCK))
                world[:, start : start + _BLOCK] = moving.index_to_world(index + part).T
    return world.reshape(vectors.shape), not same
