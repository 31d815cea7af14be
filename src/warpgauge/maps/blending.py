"""The blended map: an error map that fades where the annotations say little."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.maps.dense import Progress, entropy_map, error_map

# Shares of the kernel's own standard deviation: three quarters of its variance explained, and none of it. In between a
# map fades by the logarithm, so that half of the variance explained is half known.
_KNOWN = 0.5
_UNKNOWN = 1.0
# The same in pixels: below one of them no match counts as unknown, however stiff the kernel was found to be.
_KNOWN_PIXELS = 1.0
_UNKNOWN_PIXELS = 3.0


def entropy_limits(posterior: Posterior, *, pixel: float | None = None) -> tuple[float, float]:
    """Entropies in nats between which maps fade: wholly known up to the first, unknown from the second on.

    Both are absolute, so that a map on which nothing is known shows nothing. They are those of a half and of the whole
    of the standard deviation of the kernel alone, which is what is left at a point that no annotation reaches; and,
    where ``pixel`` gives the world length of a pixel, at least those of 1 and of 3 pixels: a kernel that was fitted to
    a nearly affine pair may know every match to less than that without any annotation.
    """
    alone = float(np.sqrt(posterior.scale * posterior.prior.kernel.at_zero))
    deviations = np.array([_KNOWN * alone, _UNKNOWN * alone])
    if pixel is not None:
        if not (np.isfinite(pixel) and pixel > 0):
            raise InvalidInputError(f"The pixel must be a positive length in world units, got {pixel!r}.")
        deviations = np.maximum(deviations, [_KNOWN_PIXELS * pixel, _UNKNOWN_PIXELS * pixel])
    known, unknown = posterior.d * (0.5 * np.log(2 * np.pi * np.e) + np.log(deviations))
    return float(known), float(unknown)


def known_share(entropy: ArrayLike, limits: tuple[float, float]) -> Floats:
    """Opacity in [0, 1]: 1 up to the first entropy, 0 from the second on, linear between; never rising in entropy."""
    low, high = limits
    if not low < high:
        raise InvalidInputError(f"The blended map fades between two ascending entropies, got {low!r} and {high!r}.")
    return np.asarray(np.clip((high - np.asarray(entropy, dtype=np.float64)) / (high - low), 0.0, 1.0))


def blended_map(
    posterior: Posterior, transform: Any, grid: Grid, *, progress: Progress | None = None
) -> NDArray[np.uint8]:
    """Red, green, blue and opacity of a transform's error map, faded where the entropy is high, in 0 to 255.

    The colours are those of `error_map`, the opacity that of the entropy between `entropy_limits` for the pixel of the
    grid. What lies outside the transform's domain is transparent. Shape ``(*grid.shape, 4)``.

    Examples
    --------
    >>> import warpgauge as wg
    >>> prior = wg.TransformationPrior(wg.KernelBundle("wendland", scales=[20.0], weights=[100.0]))
    >>> posterior = prior.condition(wg.Annotations.isotropic([[5.0, 5.0]], [[6.0, 5.0]], sd=0.5))
    >>> picture = wg.blended_map(posterior, lambda points: points + [1.0, 0.0], wg.Grid((60, 10)))
    >>> picture[5, 5].tolist(), int(picture[5, 50, 3])  # known and dark, unknown
    ([12, 7, 134, 255], 0)
    """
    from warpgauge.maps.pictures import ERROR_COLOURS, matplotlib

    error = error_map(posterior, transform, grid, progress=progress)
    share = known_share(entropy_map(posterior, grid), entropy_limits(posterior, pixel=grid.pixel))
    colours = matplotlib().colormaps[ERROR_COLOURS](error, bytes=True)
    colours[..., 3] = np.where(np.isnan(error), 0.0, np.round(255 * share))
    return np.asarray(colours, dtype=np.uint8)
