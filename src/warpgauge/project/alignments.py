"""A picture of a project's rough alignment, by which a person accepts or refuses it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.geometry import Grid

if TYPE_CHECKING:
    from warpgauge.project.project import Project
    from warpgauge.registration.rough_alignment import Alignment

_LONGEST, _FIELDS = 480, 8  # pixels of the longest side of the picture, and fields of its checkerboard along it


def write_picture(project: Project, alignment: Alignment, path: Path) -> None:
    """Write a PNG: the fixed image, the moving one laid on it, a checkerboard of both; of a volume, middle planes."""
    from warpgauge.io.files import require
    from warpgauge.maps.warping import warped_image

    pictures = require("PIL.Image", "images")
    grid = project.fixed_grid
    grid = grid.coarsened(max(1.0, max(grid.size) / _LONGEST)) if grid.d == 2 else grid.coarsened(_cubes(grid))
    identity: Any = lambda points: points  # noqa: E731  # a function as the others are
    fixed, moving = (
        _brightness(warped_image(image, function, grid), grid.d)
        for image, function in ((project.image("fixed"), identity), (project.image("moving"), alignment.map))
    )
    rows = [
        np.concatenate([one, other, _checkerboard(one, other)], axis=1)
        for one, other in zip(_planes(fixed, grid), _planes(moving, grid), strict=True)
    ]
    width = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 0), (0, width - row.shape[1]))) for row in rows]
    pictures.fromarray((255 * np.concatenate(padded)).astype(np.uint8)).save(path)


def _cubes(grid: Grid) -> float:
    return max(1.0, max(grid.size) / 160)


def _brightness(values: NDArray[Any], d: int) -> NDArray[Any]:
    gray = values if values.ndim == d else np.mean(values, axis=-1)
    low, high = np.nanpercentile(gray, (0.5, 99.5))
    shown: NDArray[Any] = np.nan_to_num(np.clip((gray - low) / (high - low if high > low else 1.0), 0, 1), nan=0.5)
    return shown


def _planes(values: NDArray[Any], grid: Grid) -> list[NDArray[Any]]:
    if grid.d == 2:
        return [values]
    return [np.take(values, n // 2, axis) for axis, n in enumerate(grid.shape)]


def _checkerboard(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    field = max(1, max(one.shape) // _FIELDS)
    y, x = np.indices(one.shape) // field
    return np.where((y + x) % 2 == 0, one, other)
