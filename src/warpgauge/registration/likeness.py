"""Similarity of two images under a transform, to compare a registration with no registration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.geometry import Floats, Grid
from warpgauge.maps import warped_image

_SMOOTHING = 1.5
_FEWEST = 0.1  # share of the fixed image that must be covered


class Likeness:
    """Correlation of the edges of two images where they overlap.

    Parameters
    ----------
    fixed, moving : (array, Grid)
        Grey values of the two images, of a size for which a second is enough.
    """

    def __init__(self, fixed: tuple[NDArray[Any], Grid], moving: tuple[NDArray[Any], Grid]) -> None:
        self._fixed, self._grid = _edges(fixed[0]), fixed[1]
        self._moving = _edges(moving[0]), moving[1]

    def __call__(self, transform: Any) -> float:
        """Return the correlation under a transform; NaN where the images barely overlap."""
        moved = warped_image(self._moving, transform, self._grid)
        inside = np.isfinite(moved)
        if inside.mean() < _FEWEST:
            return float("nan")
        return float(np.corrcoef(moved[inside], self._fixed[inside])[0, 1])


def _edges(gray: NDArray[Any]) -> Floats:
    strength = ndimage.gaussian_gradient_magnitude(np.asarray(gray, dtype=np.float64), _SMOOTHING)
    return np.asarray(np.log1p(strength / max(float(np.median(strength)), 1e-12)))
