"""Structure tensors at points, against gradients known by construction."""

from __future__ import annotations

import numpy as np
import pytest

from warpgauge.candidates import structure_tensors
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid


@pytest.mark.parametrize("d", [2, 3])
def test_a_ramp_has_the_outer_square_of_its_world_gradient(d: int) -> None:
    """On a rotated grid with unequal spacing, everywhere but at the edge, whatever the window."""
    angle = 0.4
    direction = np.eye(d)
    direction[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    grid = Grid((30, 26, 22)[:d], spacing=np.array([0.5, 1.25, 2.0])[:d], origin=np.full(d, 7.0), direction=direction)
    gradient = np.array([2.0, -1.0, 0.5])[:d]
    image = (grid.points() @ gradient).reshape(grid.shape)
    points = grid.index_to_world(np.array([[12.3, 11.0, 9.8], [14.0, 13.5, 11.2]])[:, :d])
    for sigma in (None, 1.0):
        found = structure_tensors(image, grid, points, sigma)
        np.testing.assert_allclose(
            found, np.broadcast_to(np.outer(gradient, gradient), (2, d, d)), rtol=1e-9, atol=1e-9
        )


def test_the_window_is_a_gaussian_about_the_point() -> None:
    """A kink of slope 1 on one side: the share of the Gaussian on that side, summed by hand."""
    grid = Grid((60, 60))
    x = np.arange(60.0)
    image = np.broadcast_to(np.maximum(x - 30, 0), (60, 60))
    slopes = np.gradient(np.maximum(x - 30, 0))
    weights = np.exp(-0.5 * ((x - 31.4) / 3) ** 2)
    weights[np.abs(x - 31.4) > 4 * 3 + 2] = 0
    found = structure_tensors(image, grid, [[31.4, 30.0]], sigma=3.0)[0]
    assert found[0, 0] == pytest.approx(np.sum(weights * slopes**2) / weights.sum(), rel=1e-4)
    np.testing.assert_allclose(found.reshape(-1)[1:], 0, atol=1e-12)


def test_points_outside_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"Point 1 .* outside"):
        structure_tensors(np.zeros((9, 9)), Grid((9, 9)), [[3.0, 3.0], [9.0, 3.0]])
