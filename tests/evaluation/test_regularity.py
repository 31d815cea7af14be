from __future__ import annotations

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.regularity import default_step, jacobian_determinants, regularity

MATRIX = np.array([[1.2, 0.3, 0.0], [-0.1, 0.9, 0.2], [0.0, 0.4, 1.1]])


@pytest.mark.parametrize("d", [2, 3])
def test_an_affine_map_has_a_constant_determinant(d: int) -> None:
    matrix = MATRIX[:d, :d]
    points = np.random.default_rng(0).uniform(-50, 50, (100, d))
    found = regularity(lambda x: x @ matrix.T + 5.0, points)
    assert jacobian_determinants(lambda x: x @ matrix.T, points, 0.5) == pytest.approx(np.linalg.det(matrix))
    assert found.folding == 0
    assert found.sd_log_jacobian == pytest.approx(0, abs=1e-9)
    assert default_step(points) == pytest.approx(1e-3 * np.linalg.norm(np.ptp(points, axis=0)))


def test_a_mirror_folds_everywhere_and_has_no_logarithm() -> None:
    found = regularity(lambda x: x * [-1.0, 1.0], np.random.default_rng(0).uniform(0, 1, (20, 2)))
    assert found.folding == 1
    assert found.sd_log_jacobian is None


def test_a_folding_map_against_its_derivative() -> None:
    """phi(x, y) = (x + 3 sin x, y) has the determinant 1 + 3 cos x, negative on a known part of the circle."""
    grid = wg.Grid((720, 5), spacing=(2 * np.pi / 720, 1.0))
    found = regularity(lambda p: np.stack([p[:, 0] + 3 * np.sin(p[:, 0]), p[:, 1]], axis=1), grid.points(), step=1e-4)
    x = np.arange(720) * 2 * np.pi / 720
    determinant = 1 + 3 * np.cos(x)
    assert found.folding == pytest.approx(np.mean(determinant <= 0))
    assert found.folding == pytest.approx(1 - 2 * np.arccos(-1 / 3) / (2 * np.pi), abs=2 / 720)
    assert found.sd_log_jacobian == pytest.approx(np.log(determinant[determinant > 0]).std(), rel=1e-4)


def test_points_next_to_the_border_are_undefined() -> None:
    def inside(points: np.ndarray) -> np.ndarray:
        mapped = 2 * points
        mapped[points[:, 0] > 9.0] = np.nan
        return mapped

    grid = wg.Grid((10, 10))
    assert default_step(grid) == 1.0
    found = jacobian_determinants(inside, grid.points(), default_step(grid))
    assert np.isnan(found).sum() == 10  # the last column: its right neighbours lie beyond
    assert found[np.isfinite(found)] == pytest.approx(4)


def test_what_cannot_be_differentiated_is_refused() -> None:
    points = np.zeros((3, 2))
    with pytest.raises(InvalidInputError, match="not an array of mapped points"):
        regularity(points, points)
    with pytest.raises(InvalidInputError, match="step of the Jacobian"):
        regularity(lambda x: x, points, step=0.0)
