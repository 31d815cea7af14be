"""Adjustment for many tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import warpgauge as wg
from models import make
from warpgauge.errors import InvalidInputError
from warpgauge.maps import adjusted_significance, significance_map


def test_benjamini_hochberg_by_hand() -> None:
    """Five tests: 0.01 * 5/1, 0.02 * 5/2, 0.03 * 5/3 all 0.05; 0.04 * 5/4 = 0.05; 0.5; NaN counts for nothing."""
    p = [[0.03, np.nan, 0.5], [0.01, 0.02, 0.04]]
    np.testing.assert_allclose(adjusted_significance(p), [[0.05, np.nan, 0.5], [0.05, 0.05, 0.05]])
    # Steps: 0.001 * 3 = 0.003; 0.4 * 3/2 = 0.6 but the larger p has 0.45, so 0.45.
    np.testing.assert_allclose(adjusted_significance([0.4, 0.001, 0.45]), [0.45, 0.003, 0.45])


def test_significance_map_adjusts_the_p_values_of_the_defined_elements() -> None:
    """p of the whitened deviation by scipy's chi-square, adjusted over defined elements only; small p keep digits."""
    model = make(2, "wendland", False, "affine")
    posterior, grid = model.prior.condition(model.annotations), wg.Grid((8, 7), [8.0, 8.0], [-15.0, 0.0])

    def half(points: np.ndarray) -> np.ndarray:
        return np.where(points[:, :1] < 0, np.nan, points + points[:, 1:] / 3)

    points = grid.points()
    inside = points[:, 0] >= 0
    p = np.full(grid.count, np.nan)
    for row in np.flatnonzero(inside):
        gap = half(points[row : row + 1])[0] - posterior.mean(points[row : row + 1])[0]
        square = gap @ np.linalg.inv(posterior.covariance(points[row : row + 1])[0]) @ gap
        p[row] = stats.chi2.sf(square, 2)
    expected = np.full(grid.count, np.nan)
    expected[inside] = stats.false_discovery_control(p[inside])
    np.testing.assert_allclose(significance_map(posterior, half, grid).reshape(-1), expected, rtol=1e-8)
    assert np.nanmin(expected) < 1e-3


def test_numbers_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        adjusted_significance([0.5, 1.5])
