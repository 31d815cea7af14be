"""Structure tensors of an image at given points: how well a location is defined in each direction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.candidates.gray import to_gray
from warpgauge.candidates.harris import TRUNCATE
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid


def structure_tensors(image_array: Any, grid: Grid, points_world: ArrayLike, sigma: float | None = None) -> Floats:
    """Return the mean of ``g g^T`` over a Gaussian window about each point, g the gradient per world unit.

    Only a window about each point is read, so that a memory map or a Zarr array is never loaded whole.

    Parameters
    ----------
    image_array : array
        ``[y, x]`` or ``[z, y, x]``, colour as a last axis of 3 or 4.
    grid : Grid
        Of the image.
    points_world : (n, d) array
        Inside the image.
    sigma : float, optional
        Width of the window in world units; twice the (geometric) mean spacing by default, as for candidates.

    Returns
    -------
    (n, d, d) array
        World axes, squared grey values per squared world unit.
    """
    points = np.asarray(points_world, dtype=np.float64)
    outside = ~grid.contains(points)
    if outside.any():
        raise InvalidInputError(
            f"Point {int(np.argmax(outside))} at {points[int(np.argmax(outside))].tolist()} lies outside the image; "
            "structure tensors need points inside it."
        )
    width = 2.0 * grid.pixel if sigma is None else float(sigma)
    if not 0 < width < np.inf:
        raise InvalidInputError(f"sigma must be a positive length in world units, got {sigma!r}.")
    # A gradient goes with the inverse transpose of the map that points go with.
    to_world = np.asarray(np.linalg.inv(grid.affine[: grid.d, : grid.d]).T, dtype=np.float64)
    places = grid.world_to_index(points)[:, ::-1]  # array order
    return np.array([_tensor(image_array, grid, place, width, to_world) for place in places]).reshape(
        -1, grid.d, grid.d
    )


def _tensor(image: Any, grid: Grid, place: Floats, sigma: float, to_world: Floats) -> Floats:
    spacing = grid.spacing[::-1]
    reach = np.ceil(TRUNCATE * sigma / spacing).astype(int) + 1
    low = np.maximum(np.floor(place).astype(int) - reach, 0)
    high = np.minimum(np.ceil(place).astype(int) + reach + 1, np.array(grid.shape))
    window = np.asarray(image[tuple(slice(a, b) for a, b in zip(low, high, strict=True))])
    gray = to_gray(window, grid.d)[0].astype(np.float64)
    if min(gray.shape) < 2 or not np.isfinite(gray).all():
        raise InvalidInputError(
            f"The image about index {place[::-1].tolist()} is too thin for a gradient or not finite."
        )
    gradients = np.stack(np.gradient(gray)[::-1], axis=-1).reshape(-1, grid.d) @ to_world.T
    weights = np.ones(())
    for axis in range(grid.d):
        steps = (np.arange(low[axis], high[axis]) - place[axis]) * spacing[axis] / sigma
        weights = np.multiply.outer(weights, np.exp(-0.5 * steps**2))
    flat = weights.reshape(-1)
    return np.asarray((gradients * flat[:, None]).T @ gradients / flat.sum())
