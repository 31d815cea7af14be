"""Candidates and targets of volumes that are never loaded whole: the same points as in one piece."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

import warpgauge as wg
from command_tools import ask
from warpgauge.candidates import find_candidates, foreground_from_mask, targets_from_labels, targets_from_mask
from warpgauge.io.images import SlicedImage
from warpgauge.maps import write_map
from warpgauge.project import points as project_points

GRID = wg.Grid((90, 80, 70), [1.0, 1.2, 1.5], units="mm")


def noise(seed: int, width: float) -> np.ndarray:
    return ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=GRID.shape), width)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A volume, a mask and labels as OME-Zarr."""
    place = tmp_path_factory.mktemp("volumes")
    write_map((20000 * noise(0, 1.5)).astype(np.int16), GRID, place / "fixed.zarr")
    write_map((noise(1, 5) > 0).astype(np.uint8), GRID, place / "mask.zarr")
    write_map(np.digitize(noise(2, 5), [0.0, 0.03]).astype(np.uint8), GRID, place / "labels.zarr")
    return place


def sliced(file: Path) -> SlicedImage:
    return SlicedImage(wg.read_image(file))


def test_blocks_have_the_points_of_the_whole_image(folder: Path) -> None:
    """Blocks with overlap, read from the files, against the whole arrays in memory."""
    image, mask = (wg.read_image(folder / name).read() for name in ("fixed.zarr", "mask.zarr"))
    whole = find_candidates(image, GRID, mask=mask, count=150)
    files = sliced(folder / "fixed.zarr"), sliced(folder / "mask.zarr")
    found = find_candidates(files[0], GRID, mask=files[1], count=150, memory=12 * 2**20)
    np.testing.assert_array_equal(found.points_world, whole.points_world)
    np.testing.assert_array_equal(found.strengths, whole.strengths)
    assert found.method == whole.method


def test_targets_of_large_masks_and_labels(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read slab by slab from the file, the points and the foreground are those of the arrays."""
    mask, labels = (wg.read_image(folder / name).read() for name in ("mask.zarr", "labels.zarr"))
    expected = targets_from_mask(mask, GRID, 300, seed=3), targets_from_labels(labels, GRID, 1, count=200, seed=3)
    whole = foreground_from_mask(mask, GRID, "mask")
    monkeypatch.setattr("warpgauge.candidates.structure._SLAB_ELEMENTS", 3 * 80 * 90)
    monkeypatch.setattr(wg.io.images.Image, "read", None)
    found = sliced(folder / "mask.zarr"), sliced(folder / "labels.zarr")
    np.testing.assert_array_equal(targets_from_mask(found[0], GRID, 300, seed=3), expected[0])
    np.testing.assert_array_equal(targets_from_labels(found[1], GRID, 1, count=200, seed=3), expected[1])
    parts = foreground_from_mask(found[0], GRID, "mask")
    np.testing.assert_array_equal(parts.mask, whole.mask)
    assert parts.method == whole.method


def test_a_project_with_a_mask_too_large_to_load(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line gives the same candidates and targets, whether the mask is read whole or in parts."""
    options = ("--fixed", folder / "fixed.zarr", "--moving", folder / "fixed.zarr", "--fixed-mask",
               folder / "mask.zarr", "--candidates", 40, "--targets", 100)  # fmt: skip
    ask("new", tmp_path / "whole", *options)
    monkeypatch.setattr(project_points, "_LARGEST_ARRAY", 1000)
    ask("new", tmp_path / "parts", *options)
    with wg.Project.open(tmp_path / "whole") as one, wg.Project.open(tmp_path / "parts") as other:
        np.testing.assert_array_equal(one.candidates, other.candidates)
        np.testing.assert_array_equal(one.targets, other.targets)
        assert one.document.foregrounds["fixed"].content_hash == other.document.foregrounds["fixed"].content_hash
