"""The blended map: error coloured, transparent where too little is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.maps.colours import ERROR_COLOURS, coloured

_NATS = 0.5 * np.log(2 * np.pi * np.e)
# Shares of the kernel's own standard deviation: three quarters of its variance explained, and none of it. In between a
# map fades by the logarithm, so that half of the variance explained is half known.
_KNOWN, _UNKNOWN = 0.5, 1.0
# From this opacity on, the annotations say enough about a point.
HALF_KNOWN = 0.5
# The same in pixels: below one of them nobody calls a match unknown, however stiff the kernel was found to be.
_KNOWN_PIXELS, _UNKNOWN_PIXELS = 1.0, 3.0


def entropy_of_deviation(deviation: float, d: int) -> float:
    """Entropy in nats of an isotropic normal in d dimensions with this standard deviation in world units."""
    return float(d * (_NATS + np.log(deviation)))


def entropy_limits(posterior: Posterior, *, pixel: float | None = None) -> tuple[float, float]:
    """Entropies between which maps fade: wholly known up to the first, unknown from the second on.

    Both are absolute, so that a map on which nothing is known shows nothing. They are those of a half and of the whole
    of the standard deviation of the kernel alone, which is what is left at a point that no annotation reaches; and,
    where ``pixel`` gives the world length of a pixel, at least those of 1 and of 3 pixels: a kernel that was fitted to
    a nearly affine pair may know every match to less than that without any annotation.
    """
    d = posterior.d
    alone = float(np.sqrt(posterior.scale * posterior.prior.kernel.at_zero))
    known, unknown = _KNOWN * alone, _UNKNOWN * alone
    if pixel is not None:
        if not (np.isfinite(pixel) and pixel > 0):
            raise InvalidInputError(f"The pixel must be a positive length in world units, got {pixel!r}.")
        known, unknown = max(known, _KNOWN_PIXELS * pixel), max(unknown, _UNKNOWN_PIXELS * pixel)
    return entropy_of_deviation(known, d), entropy_of_deviation(unknown, d)


def known_points(posterior: Posterior, points: ArrayLike, *, pixel: float | None = None) -> NDArray[np.bool_]:
    """Whether the annotations say enough about each point: half known or more, as maps show it."""
    return np.asarray(known_share(posterior.entropy(points), entropy_limits(posterior, pixel=pixel)) >= HALF_KNOWN)


def known_share(entropy: ArrayLike, limits: tuple[float, float]) -> Floats:
    """Opacity in [0, 1]: 1 up to the first entropy, 0 from the second on, linear between; never rising in entropy."""
    low, high = limits
    if not low < high:
        raise InvalidInputError(f"The blended map fades between two ascending entropies, got {low!r} and {high!r}.")
    values = np.asarray(entropy, dtype=np.float64)
    return np.asarray(np.clip((high - values) / (high - low), 0.0, 1.0))


def blended_map(
    error: ArrayLike, entropy: ArrayLike, limits: tuple[float, float], *, colours: str = ERROR_COLOURS
) -> NDArray[np.uint8]:
    """Red, green, blue and opacity of an error map, faded where the entropy is high, in 0 to 255.

    Parameters
    ----------
    error : array
        Values in [0, 1], from `error_map` or `exceedance_map`; NaN (outside the transform's domain) is transparent.
    entropy : array
        From `entropy_map`, same shape.
    limits : (float, float)
        From `entropy_limits`.
    colours : {"plasma", "viridis", "magma"}
        A perceptually uniform colour scale.
    """
    values, nats = np.asarray(error, dtype=np.float64), np.asarray(entropy, dtype=np.float64)
    if values.shape != nats.shape:
        raise InvalidInputError(
            f"Error and entropy must lie on the same grid, got shapes {values.shape} and {nats.shape}."
        )
    result = np.zeros((*values.shape, 4), dtype=np.uint8)
    defined = ~np.isnan(values)
    result[..., :3] = coloured(np.where(defined, values, 0.0), 0.0, 1.0, colours)
    opacity = np.round(255 * known_share(nats, limits))
    result[..., 3] = np.where(defined, opacity, 0.0).astype(np.uint8)
    return result
