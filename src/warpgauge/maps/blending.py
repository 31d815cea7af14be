"""The blended map: error coloured, transparent where too little is known. Unknown is not good."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.maps.colours import ERROR_COLOURS, coloured

_NATS = 0.5 * np.log(2 * np.pi * np.e)
_KNOWN, _UNKNOWN = 1 / 3, 0.9  # shares of the kernel's own standard deviation


def entropy_of_deviation(deviation: float, d: int) -> float:
    """Entropy in nats of an isotropic normal in d dimensions with this standard deviation in world units."""
    return float(d * (_NATS + np.log(deviation)))


def entropy_limits(posterior: Posterior, tolerance: float | None = None) -> tuple[float, float]:
    """Entropies between which the blended map fades: wholly known up to the first, unknown from the second on.

    Both are absolute, so that a map on which nothing is known shows nothing. With a tolerance (world units) they are
    the entropies of a standard deviation of half the tolerance and of twice the tolerance. Without one they are those
    of a third and of nine tenths of the standard deviation of the kernel alone, which is what is left at a point that
    no annotation reaches.
    """
    d = posterior.d
    if tolerance is not None:
        if not (np.isfinite(tolerance) and tolerance > 0):
            raise InvalidInputError(f"The tolerance must be a positive length in world units, got {tolerance!r}.")
        return entropy_of_deviation(tolerance / 2, d), entropy_of_deviation(2 * tolerance, d)
    alone = float(np.sqrt(posterior.scale * posterior.prior.kernel.at_zero))
    return entropy_of_deviation(_KNOWN * alone, d), entropy_of_deviation(_UNKNOWN * alone, d)


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
    """Red, green, blue and opacity of an error map, faded where the entropy is high, (*shape, 4) of 0 to 255.

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
