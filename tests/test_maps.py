from __future__ import annotations

import numpy as np
import pytest

import warpgauge as wg
from models import make
from warpgauge.errors import InvalidInputError
from warpgauge.maps import standard_deviation_map

GRIDS = {
    2: wg.Grid((7, 5), [2.0, 3.0], [4.0, -1.0], [[0.0, -1.0], [1.0, 0.0]]),
    3: wg.Grid((4, 5, 3), [3.0, 2.0, 6.0], [1.0, 2.0, 3.0], np.diag([-1.0, 1.0, -1.0]), "mm"),
}


class Half:
    """Shifts by one; undefined where x < 0."""

    def map(self, points: np.ndarray) -> np.ndarray:
        mapped = points + 1.0
        mapped[points[:, 0] < 0] = np.nan
        return mapped


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("isotropic", [True, False])
def test_maps_hold_the_values_of_the_posterior_at_each_element(d: int, isotropic: bool) -> None:
    """Element by element, on a turned and a flipped grid: array index reversed gives the world point."""
    model = make(d, "wendland", isotropic, "affine")
    posterior, grid = model.prior.condition(model.annotations), GRIDS[d]
    mean, entropy = wg.mean_map(posterior, grid), wg.entropy_map(posterior, grid)
    sd, error = standard_deviation_map(posterior, grid), wg.error_map(posterior, Half(), grid)
    undefined = 0
    for index in np.ndindex(grid.shape):
        world = grid.origin + grid.direction @ (grid.spacing * np.array(index[::-1]))
        np.testing.assert_allclose(mean[index], posterior.mean([world])[0] - world, atol=1e-9)
        assert entropy[index] == pytest.approx(posterior.entropy([world])[0], abs=1e-9)
        assert sd[index] == pytest.approx(posterior.standard_deviation([world])[0], abs=1e-9)
        if world[0] < 0:
            undefined += 1
            assert np.isnan(error[index])
        else:
            assert error[index] == pytest.approx(wg.error_score(posterior, [world], [world + 1.0])[0], abs=1e-9)
    assert 0 < undefined < grid.count


def test_progress_reaches_the_end_and_a_callable_serves_as_transform() -> None:
    model = make(2, "wendland", True, "identity")
    posterior = model.prior.condition(model.annotations)
    seen: list[tuple[int, int]] = []
    grid = wg.Grid((700, 500))
    error = wg.error_map(posterior, posterior.mean, grid, progress=lambda done, total: seen.append((done, total)))
    assert error.max() == 0.0
    assert [done for done, _ in seen] == [262144, 350000]
    assert {total for _, total in seen} == {350000}


def test_a_grid_of_another_dimension_is_refused() -> None:
    model = make(2, "wendland", True, "identity")
    with pytest.raises(InvalidInputError, match="3D grid cannot map a 2D posterior"):
        wg.entropy_map(model.prior.condition(model.annotations), GRIDS[3])
