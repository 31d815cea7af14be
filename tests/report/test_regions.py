"""Regions in pictures and reports: their boundaries are drawn, and no map bleeds over one."""

from __future__ import annotations

import numpy as np
import pytest

import warpgauge as wg
from models import EXTENT, halves, make
from warpgauge.maps import Picture, map_picture, region_labels
from warpgauge.report.maps import spread_over

GRID = wg.Grid((60, 60), (1.0, 1.0), (0.5, 0.5), np.eye(2), "px")


def test_a_picture_shows_the_boundaries_and_says_so() -> None:
    """A boundary's line, by its colour, lies where the labels change; without regions nothing is drawn."""
    model = make(2, "wendland", True, "identity", divided=True)
    posterior = model.prior.condition(model.annotations)
    labels = region_labels(posterior, GRID)
    assert labels is not None
    assert np.array_equal(labels, halves(GRID.points()).reshape(GRID.shape))
    values = wg.entropy_map(posterior, GRID)
    figure = map_picture(Picture({"map": values}, GRID, "entropy", labels=labels))
    assert any("boundary of a region" in text.get_text() for text in figure.legends[0].get_texts())
    paths = [
        path.vertices
        for one in figure.axes[0].collections
        for path in one.get_paths()
        if len(path.vertices) and "LineCollection" not in type(one).__name__
    ]
    drawn = np.concatenate(paths)
    assert np.isclose(drawn[:, 0], EXTENT / 2, atol=0.6).any()
    plain = make(2, "wendland", True, "identity").prior.condition(model.annotations)
    assert region_labels(plain, GRID) is None


def test_interpolation_keeps_to_the_regions() -> None:
    """A step between regions stays a step; without labels it is a slope of the coarse grid's width."""
    coarse = GRID.coarsened(10)
    left = coarse.points()[:, 0] < EXTENT / 2
    values = np.where(left, 1.0, 5.0)
    fine = GRID.points()[:, 0] < EXTENT / 2
    labels = [np.where(part, 0, 1).reshape(grid.shape) for part, grid in ((left, coarse), (fine, GRID))]
    kept = spread_over(coarse, GRID, *labels, values)
    np.testing.assert_allclose(kept, np.where(fine, 1.0, 5.0).reshape(GRID.shape))
    bled = spread_over(coarse, GRID, None, None, values)
    assert bled.reshape(-1)[fine].max() > 2.5


def test_a_region_that_the_coarse_grid_misses_is_interpolated_over() -> None:
    """A speck between the coarse points has no values of its own, and gets those around it."""
    coarse = GRID.coarsened(20)
    speck = np.zeros(GRID.shape, dtype=int)
    speck[18:21, 18:21] = 3
    found = spread_over(coarse, GRID, np.zeros(coarse.shape, dtype=int), speck, np.arange(9.0))
    assert np.isfinite(found).all()
    assert found[19, 19] == pytest.approx(spread_over(coarse, GRID, None, None, np.arange(9.0))[19, 19])
