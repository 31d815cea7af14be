"""Ranks with ties, against SciPy."""

from __future__ import annotations

import numpy as np
from scipy import stats

from warpgauge.core.arrays import tied_ranks


def test_equal_values_share_the_mean_of_their_ranks():
    """The same as SciPy's, for rows with many ties."""
    values = np.random.default_rng(0).integers(0, 5, (40, 9)).astype(float)
    np.testing.assert_array_equal(tied_ranks(values), stats.rankdata(values, axis=-1))
