"""A transform that was made for images of another scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms.base import Bools, Transform
from warpgauge.io.transforms.linear import AffineTransform

_SMALLEST, _LARGEST = 1e-9, 1e9


class ScaledTransform(Transform):
    """``x -> s T(x / s)``: every coordinate of ``T``, fixed and moving, multiplied by ``s``.

    Parameters
    ----------
    transform : Transform
        The transform ``T``.
    scale : float
        The factor ``s``: 0.25 for a transform of images four times as large along each axis.
    """

    def __init__(self, transform: Transform, scale: float) -> None:
        sentence = f"All coordinates of the transform, fixed and moving, were multiplied by {scale:g}."
        super().__init__(transform.description.assuming(sentence))
        self.transform, self.scale = transform, float(scale)

    @property
    def d(self) -> int:
        """Dimension, 2 or 3."""
        return self.transform.d

    @property
    def support(self) -> Grid | None:
        """The grid of the transform, scaled."""
        grid = self.transform.support
        if grid is None:
            return None
        return replace(grid, spacing=grid.spacing * self.scale, origin=grid.origin * self.scale)

    def _map(self, points: Floats) -> Floats:
        return np.asarray(self.transform._map(points / self.scale) * self.scale)

    def _extended(self, points: Floats) -> Floats:
        return np.asarray(self.transform._extended(points / self.scale) * self.scale)

    def _domain(self, points: Floats) -> Bools:
        return self.transform._domain(points / self.scale)


def scaled(transform: Transform, scale: float) -> Transform:
    """Return the transform with all its coordinates, fixed and moving, multiplied by ``scale``."""
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not _SMALLEST <= scale <= _LARGEST:
        raise InvalidInputError(f"scale must be a number between {_SMALLEST:g} and {_LARGEST:g}, got {scale!r}.")
    wrapped = ScaledTransform(transform, scale)
    if isinstance(transform, AffineTransform):
        return AffineTransform(transform.matrix, transform.offset * scale, wrapped.description)
    return wrapped
