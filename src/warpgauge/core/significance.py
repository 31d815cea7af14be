"""Many tests at once: the adjustment of Benjamini and Hochberg."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError


def adjusted_significance(p_values: ArrayLike) -> Floats:
    """Benjamini-Hochberg-adjusted p-values, NaN where the p-value is NaN; the shape stays.

    With m defined p-values in ascending order, ``q_(i) = min over j >= i of p_(j) m / j``: calling everything with
    ``q <= 0.05`` significant keeps the expected share of false calls at 5 % (false discovery rate), for tests that are
    independent or positively dependent, as those of neighbouring elements are.
    """
    p = np.asarray(p_values, dtype=np.float64)
    defined = ~np.isnan(p)
    known = p[defined]
    if known.size and (known.min() < 0 or known.max() > 1):
        raise InvalidInputError("p-values lie between 0 and 1; adjusted_significance got others.")
    order = np.argsort(known, kind="stable")
    adjusted = known[order]
    adjusted *= known.size / np.arange(1, known.size + 1)
    # From the largest down: an adjusted value is never above that of a larger p. The largest is its own p, at most 1.
    adjusted = np.minimum.accumulate(adjusted[::-1])[::-1]
    known[order] = adjusted
    result = np.full(p.shape, np.nan)
    result[defined] = known
    return result
