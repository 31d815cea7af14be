"""Inverses: exact where there is a formula, else solved, with a residual that is measured and stated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from transform_tools import defined, points_within, random_grid
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import (
    AffineTransform,
    BSplineTransform,
    Chain,
    DisplacementField,
    FunctionTransform,
    LandmarkSpline,
    NumericalInverse,
    Transform,
)


def _smooth(rng: np.random.Generator, grid: Grid, size: float, sigma: float) -> Floats:
    noise = np.stack([gaussian_filter(rng.normal(size=grid.shape), sigma) for _ in range(grid.d)])
    return noise * size / np.abs(noise).max()


def _cases() -> dict[str, tuple[Transform, Floats]]:
    """Deformations without folds, and points whose images lie well inside."""
    rng = np.random.default_rng(3)
    cases: dict[str, tuple[Transform, Floats]] = {}
    for d in (2, 3):
        control = random_grid(rng, d, low=9, high=13)
        coefficients = rng.normal(0, 0.25 * control.spacing.min(), (d, *control.shape))
        bspline = BSplineTransform(coefficients, control)
        inner = points_within(rng, control, 300, 2.5)
        cases[f"B-spline {d}D"] = (bspline, inner)
        fine = Grid((40, 45, 38)[:d], (1.0, 1.5, 2.0)[:d], (-50, 20, -900)[:d], units="mm")
        field = DisplacementField(_smooth(rng, fine, 5.0, 5.0).astype(np.float32), fine)
        cases[f"field {d}D"] = (field, points_within(rng, fine, 300, 8))
        rough = DisplacementField(_smooth(rng, fine, 0.4, 0.7), fine)
        cases[f"rough field {d}D"] = (rough, points_within(rng, fine, 300, 3))
        positions = fine.points().T.reshape(d, *fine.shape) + field.vectors
        cases[f"positions {d}D"] = (DisplacementField(positions, fine, absolute=True), points_within(rng, fine, 300, 8))
        affine = AffineTransform(np.eye(d) + rng.normal(0, 0.01, (d, d)), rng.normal(0, 0.3, d))
        centre = fine.index_to_world((np.asarray(fine.size) - 1) / 2)
        about = AffineTransform(affine.matrix, centre - affine.matrix @ centre)
        cases[f"chain {d}D"] = (Chain([about, field, affine]), points_within(rng, fine, 300, 9))
    source = rng.uniform(0, 100, (20, 3))
    spline = LandmarkSpline(source, source + rng.normal(0, 2, source.shape))
    cases["landmark spline"] = (spline, rng.uniform(0, 100, (200, 3)))
    cases["function"] = (FunctionTransform(lambda p: p + np.sin(p / 10), 2), rng.normal(0, 50, (200, 2)))
    return cases


@pytest.mark.parametrize("name", list(_cases()))
def test_round_trips(name: str) -> None:
    """inverse(T(x)) is x, T(inverse(y)) is y to the tolerance, and the inverse of the inverse is T."""
    transform, points = _cases()[name]
    mapped = transform.map(points)
    assert np.isfinite(mapped).all()
    assert np.abs(mapped - points).max() > 0.1
    inverse = transform.inverse()
    back = inverse.map(mapped)
    np.testing.assert_allclose(back, points, rtol=0, atol=1e-5)
    np.testing.assert_allclose(transform.map(back), mapped, rtol=0, atol=1e-6)
    assert inverse.description.direction == "moving_to_fixed"
    np.testing.assert_allclose(inverse.inverse().map(points), mapped, rtol=0, atol=1e-9)


def test_points_that_nothing_maps_to_are_masked() -> None:
    """Beyond the image of the domain there is no inverse; at its border there is."""
    grid = Grid((10, 10), units="mm")
    field = DisplacementField(np.full((2, 10, 10), 2.0), grid)
    inverse = field.inverse()
    points = np.array([[6.0, 6.0], [1.0, 6.0], [11.5, 6.0], [np.nan, 1.0], [2.0, 2.0], [11.0, 11.0]])
    np.testing.assert_allclose(inverse.map(points)[[0, 4, 5]], [[4, 4], [0, 0], [9, 9]], atol=1e-6)
    assert defined(inverse, points).tolist() == [True, False, False, False, True, True]
    assert int(np.sum(~defined(inverse, points))) == 3


def test_a_fold_gives_one_of_the_solutions() -> None:
    """Where a field folds, the answer is a solution, if not the only one."""
    x = np.arange(60.0)
    shift = np.zeros((2, 60, 60))
    shift[0] = 12 * np.exp(-((x - 30) ** 2) / 20)[None]  # steep enough to turn back
    field = DisplacementField(shift, Grid((60, 60), units="mm"))
    line = np.stack([np.linspace(10, 55, 200), np.full(200, 30.0)], axis=1)
    assert (np.diff(field.map(line)[:, 0]) < 0).any()
    residual = np.linalg.norm(field.map(field.inverse().map(field.map(line))) - field.map(line), axis=1)
    assert np.nanmax(residual) <= 1e-6
    assert np.isfinite(residual).mean() > 0.9


def test_a_transform_without_inverse_is_refused() -> None:
    """A singular member, and a tolerance that is none."""
    field = DisplacementField(np.zeros((2, 5, 5)), Grid((5, 5)))
    with pytest.raises(InvalidInputError, match="singular"):
        Chain([field, AffineTransform(np.zeros((2, 2)), [0, 0])]).inverse()
    with pytest.raises(InvalidInputError, match="tolerance"):
        NumericalInverse(field, tolerance=0)
