"""Real images, where they are at hand: brains, lungs and histology against SimpleITK, Pillow and their landmarks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpgauge.io.images import read_image

VOLUMES = [
    "afids/colin27_T1.nii.gz",
    "afids/mni152_6asym_T1.nii.gz",
    "afids/mni152_6asym_aal.nii.gz",
    "elastix-lung/3DCT_lung_baseline_mask.mha",
    "elastix-lung/3DCT_lung_followup_mask.mha",
    "elastix-lung/3DCT_lung_baseline_small.mha",
    "copdgene/copd1_iBHCT_mask.nii.gz",
]


def existing(data_dir: Path, name: str) -> Path:
    path = data_dir / name
    if not path.exists():
        pytest.skip(f"{name} is not among the real data")
    return path


@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_like_simpleitk(data_dir: Path, name: str):
    """Frame and samples of real volumes are SimpleITK's."""
    sitk = pytest.importorskip("SimpleITK")
    path = existing(data_dir, name)
    image, reference = read_image(path), sitk.ReadImage(str(path))
    assert image.grid.size == reference.GetSize()
    assert image.grid.units == "mm"
    np.testing.assert_allclose(image.grid.spacing, reference.GetSpacing(), rtol=1e-9)
    np.testing.assert_allclose(image.grid.origin, reference.GetOrigin(), rtol=1e-9)
    np.testing.assert_allclose(image.grid.direction.ravel(), reference.GetDirection(), atol=1e-9)
    expected = sitk.GetArrayFromImage(reference)
    np.testing.assert_array_equal(image.read(), expected)
    middle = [n // 2 for n in image.grid.size]
    np.testing.assert_array_equal(image.plane(0, middle[0]), expected[:, :, middle[0]])
    np.testing.assert_array_equal(image.plane(2, middle[2]), expected[middle[2]])


def test_landmarks_of_the_lung_lie_in_its_mask(data_dir: Path):
    """The 51 world points (LPS) of the baseline scan all fall into its mask, and no other orientation does that."""
    path = existing(data_dir, "elastix-lung/3DCT_lung_baseline_mask.mha")
    lines = (data_dir / "elastix-lung/CT_3D_lung_fixed_point_set_corrected.txt").read_text().split("\n")
    points = np.array([[float(v) for v in line.split()] for line in lines[2:] if line.strip()])
    assert points.shape == (51, 3)
    image = read_image(path)
    assert np.all(image.grid.contains(points))
    index = np.round(image.grid.world_to_index(points)).astype(int)
    array = image.read()
    hits = [array[:: -1 if z else 1, :: -1 if y else 1, :: -1 if x else 1][tuple(index.T[::-1])].mean()
            for z in (0, 1) for y in (0, 1) for x in (0, 1)]  # fmt: skip
    assert hits[0] == 1
    assert max(hits[1:]) < 0.95  # with any axis read the wrong way round some points miss the lung
