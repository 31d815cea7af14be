"""Simulated sliding and tears: each part has its own flow, keeps to its boundary or leaves it, and is found again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import warpgauge as wg
from command_tools import ask, call
from warpgauge.candidates import LabelRegions
from warpgauge.errors import InvalidInputError
from warpgauge.simulate import random_sliding, warp_image

GRID = wg.Grid((64, 48), (2.0, 2.0), (10.0, -5.0), np.eye(2), "mm")


def halves(grid: wg.Grid = GRID) -> LabelRegions:
    labels = np.zeros(grid.shape, dtype=int)
    labels[..., grid.shape[-1] // 2 :] = 4
    return LabelRegions.of(labels, grid)


def jumps(deformation: object) -> np.ndarray:
    """Steps of the displacement across the boundary, x and y."""
    edge = 10.0 + 2.0 * 31.5
    rows = np.linspace(5, 70, 30)
    left, right = (np.stack([np.full(30, edge + side), rows], axis=1) for side in (-1e-3, 1e-3))
    return np.asarray((deformation.map(right) - right) - (deformation.map(left) - left))  # type: ignore[attr-defined]


def test_parts_slide_along_their_boundary_and_tear_across_it() -> None:
    """The step across a straight boundary is along it; with a tear it has both components."""
    drawn = {
        tear: np.mean(
            [np.abs(jumps(random_sliding(halves(), 4.0, 60.0, seed, tear=tear))) for seed in range(4)], (0, 1)
        )
        for tear in (False, True)
    }
    assert drawn[False][1] > 1
    assert drawn[False][0] < 0.1 * drawn[False][1]
    assert drawn[True][0] > 10 * drawn[False][0]


def test_without_a_share_of_their_own_parts_move_together() -> None:
    together = random_sliding(halves(), 4.0, 60.0, seed=3, own=0.0)
    assert np.abs(jumps(together)).max() < 1e-2


@pytest.mark.parametrize("grid", [GRID, wg.Grid((20, 18, 16), (3.0, 3.0, 4.0), (0, 0, 0), np.eye(3), "mm")])
def test_the_inverse_finds_every_visible_point_again(grid: wg.Grid) -> None:
    """Within a part to a millionth of a pixel; NaN in gaps; what another part covers belongs to that part."""
    regions = halves(grid)
    truth = random_sliding(regions, 2.0, 40.0, seed=1, tear=True, allow_folding=True)
    rng = np.random.default_rng(0)
    points = grid.index_to_world(rng.uniform(2, 13, (200, grid.d)))
    moved = truth.map(points)
    back = truth.inverse_map(moved)
    own = regions(np.nan_to_num(back, nan=1e9)) == regions(points)
    assert own.mean() > 0.9
    np.testing.assert_allclose(back[own], points[own], atol=1e-5)
    labels = warp_image(regions.labels, grid, truth, order=0, fill=9)
    assert set(np.unique(labels)) <= {0, 4, 9}


def test_too_many_parts_and_wrong_shares_are_refused() -> None:
    many = LabelRegions.of(np.arange(GRID.count).reshape(GRID.shape) % 40, GRID)
    with pytest.raises(InvalidInputError, match="merge some"):
        random_sliding(many, 1.0, 60.0, seed=0)
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        random_sliding(halves(), 1.0, 60.0, seed=0, own=1.5)


def test_the_command_slides_and_tears(tmp_path: Path) -> None:
    """The written truth has a step at the boundary; --tear alone is refused."""
    picture = np.random.default_rng(0).integers(0, 255, (12, 16), dtype=np.uint8).repeat(6, 0).repeat(6, 1)
    Image.fromarray(picture).save(tmp_path / "image.png")
    labels = np.zeros(picture.shape, dtype=np.uint8)
    labels[:, 48:] = 1
    Image.fromarray(labels).save(tmp_path / "labels.png")
    given = ("simulate", "deform", tmp_path / "image.png", tmp_path / "moved.tif", "--amplitude", 3, "--spacing", 60)
    facts = ask(*given, "--sliding", tmp_path / "labels.png", "--tear", "--truth", tmp_path / "truth.nrrd")
    assert facts["largest displacement"] > 1
    assert wg.read_image(tmp_path / "moved.tif").read().shape == picture.shape
    truth = wg.read_transform(tmp_path / "truth.nrrd", reference=wg.read_image(tmp_path / "image.png").grid)
    across = truth.map(np.array([[47.0, 40.0], [48.0, 40.0]])) - [[47.0, 40.0], [48.0, 40.0]]
    assert np.linalg.norm(across[1] - across[0]) > 0.5
    assert "--tear needs --sliding" in call(*given, "--tear", code=1)
