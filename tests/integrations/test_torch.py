"""Tensors of torch itself: a deformation that grid_sample applies is the transform that is evaluated."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates

import warpgauge as wg


@pytest.mark.parametrize("align_corners", [False, True])
def test_the_transform_is_where_grid_sample_reads(align_corners: bool) -> None:
    """The image warped by torch has, at each pixel, the moving image's value at the point that the transform gives."""
    grid, moving = wg.Grid((40, 30), [2.0, 3.0], units="mm"), wg.Grid((36, 44), [1.5, 2.5], [4.0, 1.0], units="mm")
    rows, columns = np.mgrid[0 : moving.shape[0], 0 : moving.shape[1]]
    image = np.sin(columns / 5.0) + np.cos(rows / 7.0)
    theta = torch.tensor([[[0.8, 0.1, 0.05], [-0.1, 0.7, 0.0]]], dtype=torch.float64)
    tensor = torch.nn.functional.affine_grid(theta, [1, 1, *grid.shape], align_corners=align_corners)
    tensor = tensor + 0.02 * torch.sin(5 * tensor.flip(-1))
    tensor.requires_grad_(True)
    source = torch.tensor(image)[None, None]
    warped = torch.nn.functional.grid_sample(source, tensor, align_corners=align_corners)[0, 0].detach().numpy()
    found = wg.as_transform(tensor, convention="grid_sample", grid=grid, moving=moving, align_corners=align_corners)
    points = found.map(grid.points())
    expected = map_coordinates(image, moving.array_coordinates(points), order=1).reshape(grid.shape)
    inner = np.ones(len(points), bool)
    inner &= (np.abs(moving.world_to_index(points) / (np.array(moving.size) - 1) - 0.5) < 0.49).all(axis=1)
    keep = inner.reshape(grid.shape)
    assert keep.mean() > 0.5
    assert warped[keep] == pytest.approx(expected[keep], abs=1e-9)


def test_voxelmorphs_displacements_are_voxels_along_the_axes_of_the_array() -> None:
    grid = wg.Grid((20, 16, 12), [1.0, 2.0, 3.0], units="mm")
    flow = torch.zeros((1, 3, *grid.shape))
    flow[0, 0], flow[0, 2] = 2.0, -1.0
    found = wg.as_transform(flow, convention="voxelmorph", grid=grid)
    points = grid.index_to_world([[5.0, 5.0, 5.0]])
    assert found.map(points) - points == pytest.approx(np.array([[-1.0, 0.0, 6.0]]))


def test_a_tensor_without_a_convention_is_one_sentence() -> None:
    with pytest.raises(wg.errors.WarpgaugeError, match="convention"):
        wg.as_transform(torch.zeros((1, 2, 8, 8)), grid=wg.Grid((8, 8)))


def test_half_precisions_are_read_and_a_module_is_not_a_tensor() -> None:
    """NumPy has no bfloat16, which networks trained in mixed precision return."""
    grid = wg.Grid((20, 16, 12), [1.0, 2.0, 3.0], units="mm")
    flow = torch.zeros((1, 3, *grid.shape), dtype=torch.bfloat16, requires_grad=True)
    points = grid.index_to_world([[5.0, 5.0, 5.0]])
    assert wg.as_transform(flow + 2.0, convention="voxelmorph", grid=grid).map(points) - points == pytest.approx(
        np.array([[2.0, 4.0, 6.0]])
    )
    with pytest.raises(wg.errors.WarpgaugeError, match="give d=2 or d=3"):
        wg.as_transform(torch.nn.Linear(2, 2))


def test_a_tensor_given_to_evaluate_as_it_is_names_as_transform() -> None:
    fixed = np.random.default_rng(0).uniform(0, 100, (12, 2))
    posterior = wg.default_posterior(wg.Annotations.isotropic(fixed, fixed, sd=0.5), extent=[100.0, 100.0])
    for tensor in (torch.zeros((1, 2, 8, 8)), torch.zeros((1, 2, 8, 8), requires_grad=True)):
        with pytest.raises(wg.errors.WarpgaugeError, match="as_transform"):
            wg.evaluate(posterior, {"net": tensor}, fixed)
