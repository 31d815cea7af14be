"""Written transforms, read back here and by SimpleITK."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest

from transform_tools import DIRECTIONS, defined, map_with_itk, points_within, random_grid
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Grid
from warpgauge.io.transforms import (
    AffineTransform,
    BSplineTransform,
    Chain,
    DisplacementField,
    read_transform,
    write_transform,
)

sitk = pytest.importorskip("SimpleITK")


@pytest.mark.parametrize("suffix", [".tfm", ".txt"])
@pytest.mark.parametrize("d", [2, 3])
def test_linear_transforms_are_written_exactly(tmp_path: Path, d: int, suffix: str) -> None:
    """One matrix, and a chain of three as a composite, map in SimpleITK and here as before."""
    rng = np.random.default_rng(d)
    parts = [AffineTransform(np.eye(d) + rng.normal(0, 0.3, (d, d)), rng.normal(0, 20, d)) for _ in range(3)]
    points = rng.normal(0, 50, (20, d))
    for transform in (parts[0], Chain(parts), Chain([parts[0], Chain(parts[1:])])):
        file = write_transform(transform, tmp_path / f"t{suffix}")
        expected = transform.map(points)
        np.testing.assert_allclose(map_with_itk(sitk.ReadTransform(str(file)), points), expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(read_transform(file).map(points), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("suffix", [".nii.gz", ".nii", ".nrrd"])
@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize("d", [2, 3])
def test_fields_are_sampled_and_read_back(tmp_path: Path, d: int, kind: str, suffix: str) -> None:
    """A field written on its own grid maps, read by SimpleITK and here, as it did before."""
    rng = np.random.default_rng(d)
    grid = random_grid(rng, d, kind)
    field = DisplacementField(rng.normal(0, 5, (d, *grid.shape)), grid)
    file = write_transform(field, tmp_path / f"f{suffix}")
    points = points_within(rng, grid, 40, 1e-3)
    expected = field.map(points)
    # The header of NIfTI has single precision: positions of nodes are off by up to 4e-5 mm, and a steep field by more.
    close = 1e-3 if suffix.startswith(".nii") else 1e-9
    reference = sitk.DisplacementFieldTransform(sitk.ReadImage(str(file), sitk.sitkVectorFloat64))
    np.testing.assert_allclose(map_with_itk(reference, points), expected, rtol=0, atol=close)
    mapped = read_transform(file).map(points)
    np.testing.assert_allclose(mapped, expected, rtol=0, atol=close)
    np.testing.assert_allclose(mapped, map_with_itk(reference, points), rtol=0, atol=1e-6)


def test_nifti_fields_have_the_intent_that_itk_does_not_flip(tmp_path: Path) -> None:
    """Intent 1007 in (X, Y, Z, 1, 3) with LPS vectors and both orientation codes set."""
    grid = Grid((4, 5, 6), (1, 2, 3), units="mm")
    vectors = np.zeros((3, 6, 5, 4))
    vectors[0, 3, 2, 1] = 7.0
    file = write_transform(DisplacementField(vectors, grid), tmp_path / "f.nii.gz")
    image = nibabel.load(file)
    assert image.shape == (4, 5, 6, 1, 3)
    assert int(image.header["intent_code"]) == 1007
    assert int(image.header["sform_code"]) == int(image.header["qform_code"]) == 1
    assert image.get_fdata()[1, 2, 3, 0].tolist() == [7.0, 0.0, 0.0]


def test_a_bspline_is_sampled_on_the_grid_of_the_image(tmp_path: Path) -> None:
    """At the nodes the written field equals the spline; nodes outside its domain are NaN, with a count."""
    rng = np.random.default_rng(1)
    control = Grid((9, 9, 9), (10, 10, 10), (-20, -20, -20), units="mm")
    spline = BSplineTransform(rng.normal(0, 2, (3, 9, 9, 9)), control)
    inner = Grid((11, 12, 13), (3, 3, 3), (0, 0, 0), units="mm")
    file = write_transform(spline, tmp_path / "s.nrrd", grid=inner)
    np.testing.assert_allclose(read_transform(file).map(inner.points()), spline.map(inner.points()), atol=1e-9)
    larger = Grid((11, 12, 13), (3, 3, 3), (-13, 0, 0), units="mm")
    outside = int(np.sum(~defined(spline, larger.points())))
    assert outside == 12 * 13
    with pytest.warns(SuspiciousDataWarning, match=f"{outside} of {larger.count} nodes lie outside"):
        write_transform(spline, tmp_path / "s.nrrd", grid=larger)
    far = Grid((3, 3, 3), (1, 1, 1), (500, 0, 0), units="mm")
    with pytest.raises(InvalidInputError, match="defined at none"):
        write_transform(spline, tmp_path / "s.nrrd", grid=far)


def test_micrometres_survive(tmp_path: Path) -> None:
    """Units other than mm are written where the format can say them."""
    grid = Grid((4, 5, 6), (1, 2, 3), units="um")
    field = DisplacementField(np.ones((3, 6, 5, 4)), grid)
    for suffix in (".nii.gz", ".nrrd"):
        read_back = read_transform(write_transform(field, tmp_path / f"f{suffix}"))
        assert read_back.description.units == "um", suffix
        assert read_back.map([[1.0, 2.0, 3.0]]).tolist() == [[2.0, 3.0, 4.0]]


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A field as .tfm, an unknown ending, no grid, no folder; a failed write leaves the old file."""
    field = DisplacementField(np.zeros((2, 4, 4)), Grid((4, 4)))
    affine = AffineTransform(np.eye(2), [1, 2])
    for transform, name, said in (
        (Chain([affine, field]), "t.tfm", "linear transforms only"),
        (affine, "t.xyz", "must end in"),
        (affine, "t.nii.gz", "needs --fixed-image"),
        (affine, "no/such/t.tfm", "no folder"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            write_transform(transform, tmp_path / name)
    with pytest.raises(InvalidInputError, match="grid is 3D"):
        write_transform(affine, tmp_path / "t.nrrd", grid=Grid((3, 3, 3)))
    (tmp_path / "t.tfm").write_text("old")
    with pytest.raises(InvalidInputError):
        write_transform(field, tmp_path / "t.tfm")
    assert [file.name for file in tmp_path.iterdir()] == ["t.tfm"]
    assert (tmp_path / "t.tfm").read_text() == "old"
