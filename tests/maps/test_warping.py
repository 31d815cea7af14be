"""The warped moving image and the deformed grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from models import make
from warpgauge.errors import InvalidInputError
from warpgauge.maps import error_map, warped_image, write_map


def test_simpleitk_resamples_to_the_same_image() -> None:
    """An affine map of a 3D volume between oblique frames, linear interpolation, inside the outer voxel centres."""
    sitk = pytest.importorskip("SimpleITK")
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    moving = wg.Grid((9, 10, 8), [1.0, 1.2, 2.0], [5.0, -3.0, 2.0], turn, "mm")
    fixed = wg.Grid((7, 6, 5), [1.1, 1.5, 2.0], moving.index_to_world([3.0, 3.0, 2.0]), np.eye(3), "mm")
    samples = rng.normal(size=moving.shape)
    matrix, offset = np.eye(3) + 0.1 * rng.normal(size=(3, 3)), rng.normal(size=3)
    transform = sitk.AffineTransform(3)
    transform.SetMatrix(matrix.ravel().tolist())
    transform.SetTranslation(offset.tolist())
    image = sitk.GetImageFromArray(samples)
    reference = sitk.GetImageFromArray(np.zeros(fixed.shape))
    for target, grid in ((image, moving), (reference, fixed)):
        target.SetSpacing(grid.spacing.tolist())
        target.SetOrigin(grid.origin.tolist())
        target.SetDirection(grid.direction.ravel().tolist())
    theirs = sitk.GetArrayFromImage(sitk.Resample(image, reference, transform, sitk.sitkLinear, 1e9))
    ours = warped_image((samples, moving), lambda x: x @ matrix.T + offset, fixed)
    np.testing.assert_array_equal(np.isnan(ours), theirs > 1e8)
    both = theirs < 1e8
    assert 20 < both.sum() < both.size
    np.testing.assert_allclose(ours[both], theirs[both], atol=1e-9)


def test_colour_levels_and_posterior_mean(tmp_path: Path) -> None:
    """A posterior warps by its mean; channels stay apart; an Image is read at the level that fits the grid."""
    model = make(2, "wendland", True, "identity")
    posterior = model.prior.condition(model.annotations)
    frame, grid = wg.Grid((80, 80), origin=[-10.0, -10.0]), wg.Grid((6, 6), [8.0, 8.0], [5.0, 5.0])
    x, y = frame.points().T
    ramps = np.stack([x, y, x + y], axis=1).reshape(80, 80, 3)
    found = warped_image((ramps, frame), posterior, grid)
    mean = posterior.mean(grid.points())
    np.testing.assert_allclose(found.reshape(-1, 3), np.column_stack([mean, mean.sum(axis=1)]), atol=1e-9)
    image = wg.read_image(write_map(ramps[..., 0].copy(), frame, tmp_path / "ramp.nrrd"))
    np.testing.assert_allclose(warped_image(image, posterior, grid).ravel(), mean[:, 0], atol=1e-6)


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("d", [2, 3])
def test_a_transform_equal_to_the_posterior_mean_has_no_error_anywhere(d: int, isotropic: bool) -> None:
    model = make(d, "wendland", isotropic, "affine")
    posterior = model.prior.condition(model.annotations)
    grid = wg.Grid((9, 8, 7)[:d], [9.0] * d, [-5.0] * d)
    assert np.all(error_map(posterior, posterior, grid) == 0)
    assert np.all(error_map(posterior, posterior.mean, grid) == 0)


def test_what_does_not_fit_is_refused() -> None:
    grid = wg.Grid((4, 5))
    with pytest.raises(InvalidInputError, match="does not fit its grid"):
        warped_image((np.zeros((4, 5)), grid), lambda x: x, grid)
    with pytest.raises(InvalidInputError, match="transform with map or a callable"):
        error_map(make(2, "wendland", True, "affine").prior.condition(wg.Annotations.empty(2)), 3, grid)
    with pytest.raises(InvalidInputError, match="one moving point for each"):
        warped_image((np.zeros((5, 4)), grid), lambda x: x[:, 0], grid)
