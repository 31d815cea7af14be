"""Annotations on one spot: finite and sensible anywhere, and never without a word."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.errors import SuspiciousDataWarning

EXTENT = np.array([1000.0, 800.0])


def on_one_spot(place: tuple[float, float], count: int) -> wg.Annotations:
    rng = np.random.default_rng(0)
    fixed = np.tile(np.array(place), (count, 1))
    moving = fixed + np.array([5.0, 3.0]) + rng.normal(0, 0.5, (count, 2))
    return wg.Annotations(fixed, moving, np.tile(np.eye(2), (count, 1, 1)))


@pytest.mark.parametrize("place", [(500.0, 400.0), (10.0, 10.0), (990.0, 400.0)])
def test_many_annotations_on_one_spot(place: tuple[float, float]):
    """Near the spot the answer is known; elsewhere the uncertainty is finite and stays below the image's size."""
    with pytest.warns(SuspiciousDataWarning, match="annotate other places"):
        posterior = wg.default_posterior(on_one_spot(place, 300), EXTENT)
    x, y = np.meshgrid(np.linspace(0, 1000, 9), np.linspace(0, 800, 9))
    spread = posterior.standard_deviation(np.stack([x.ravel(), y.ravel()], axis=1))
    assert np.isfinite(spread).all()
    assert spread.max() < 300  # a third of the image: a wide prior, not an explosion
    assert posterior.standard_deviation(np.array([place]))[0] < 1.0
    np.testing.assert_allclose(posterior.mean(np.array([place]))[0] - place, [5.0, 3.0], atol=0.5)


def test_spread_annotations_are_not_warned_of():
    """Annotations that cover a part of the image, and few of them on one spot, pass silently."""
    rng = np.random.default_rng(1)
    fixed = rng.uniform(100, 300, (20, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wg.default_posterior(wg.Annotations(fixed, fixed + 2.0, np.tile(np.eye(2), (20, 1, 1))), EXTENT)
        wg.default_posterior(on_one_spot((500.0, 400.0), 3), EXTENT)
