"""How distinctive a place of an image is: whether anything around it could be taken for it."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from warpgauge.core.arrays import Ints
from warpgauge.geometry import Floats


def distinctiveness(gray: Floats, places: Ints, half: int) -> Floats:
    r"""Return how much each place differs from the place in sight that is most like it.

    For the patch :math:`P_c` of side ``2 half + 1`` about a place :math:`c`,

    .. math:: \min_{x :\, \lVert x - c \rVert_\infty > half} \frac{\lVert P_x - P_c \rVert^2}{n_P \, \mathrm{Var}}

    with the variance of all values: 0 where a copy is in sight or nothing is to be seen, about 2 where the patch is
    like nothing else. Squared differences, unlike correlations, do not take the noise of an empty patch for unique.

    Parameters
    ----------
    gray : array
        Values of the neighbourhood, ``[y, x]`` or ``[z, y, x]``, at least as large as a patch.
    places : (n, d) int array
        Elements of it, in the order of its axes, at least ``half`` from its border.
    half : int
    """
    from scipy import signal  # takes longer to load than all of the core

    d, side = gray.ndim, 2 * half + 1
    values = gray - gray.mean()
    variance = float(np.square(values).mean())
    if variance == 0:
        return np.zeros(len(places))
    inner = (slice(half, -half),) * d  # where a whole patch fits
    squares = ndimage.uniform_filter(np.square(values), side, mode="constant")[inner]
    found = np.empty(len(places))
    for k, place in enumerate(places):
        patch = values[tuple(slice(at - half, at + half + 1) for at in place)]
        cross = signal.fftconvolve(values, patch[(slice(None, None, -1),) * d], mode="valid") / patch.size
        difference = squares - 2 * cross + np.square(patch).mean()
        # What overlaps the place by more than half is the place itself.
        difference[tuple(slice(max(0, at - 2 * half), at + 1) for at in place)] = np.inf
        found[k] = max(0.0, float(difference.min())) / variance
    return np.where(np.isfinite(found), found, 0.0)
