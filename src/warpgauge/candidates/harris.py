"""The Harris strength: where the grey values change in every direction, in 2D and 3D, per world unit."""

from __future__ import annotations

import numpy as np

from warpgauge.errors import MissingExtraError
from warpgauge.extras import install_advice
from warpgauge.geometry import Floats

TRUNCATE = 4.0  # of the Gaussian in skimage.feature.structure_tensor, in units of sigma
_SHARE = 0.2


def sensitivity(d: int) -> float:
    """Return k of det A - k (trace A)^d.

    The determinant is at most (trace / d)^d, where all eigenvalues are equal. k is the same share of that in every
    dimension: the usual 0.05 in 2D, 0.0074 in 3D.
    """
    return float(_SHARE / d**d)


def harris_strength(image: Floats, spacing: Floats, sigma: float) -> Floats:
    """Return det A - k (trace A)^d of the structure tensor A of gradients per world unit; negative along edges.

    Parameters
    ----------
    image : array
        Grey values, float64.
    spacing : (d,) array
        In the order of the array's axes.
    sigma : float
        Width of the window in world units.
    """
    try:
        from skimage.feature import structure_tensor
    except ImportError as error:
        raise MissingExtraError(
            f"Finding corners needs scikit-image, which is not installed; {install_advice('saliency')}."
        ) from error
    d = image.ndim
    elements = structure_tensor(image, sigma=tuple(sigma / spacing), mode="nearest", order="rc")
    # Sobel sums 4^(d-1) differences over two pixels each; divided by that and the spacing it is a gradient.
    scale = 1.0 / (2.0 * 4.0 ** (d - 1) * spacing)
    place = 0
    for a in range(d):
        for b in range(a, d):
            elements[place] *= scale[a] * scale[b]
            place += 1
    if d == 2:
        rr, rc, cc = elements
        determinant, trace = rr * cc - rc * rc, rr + cc
    else:
        pp, pr, pc, rr, rc, cc = elements
        determinant = pp * (rr * cc - rc * rc) - pr * (pr * cc - rc * pc) + pc * (pr * rc - rr * pc)
        trace = pp + rr + cc
    trace **= d
    trace *= sensitivity(d)
    determinant -= trace
    return np.asarray(determinant)
