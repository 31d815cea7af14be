"""ITK transform files, text and HDF5, and the .mat files of ANTs, against SimpleITK, ITK and ANTsPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transform_tools import (
    DIRECTIONS,
    defined,
    itk_entry,
    itk_text,
    map_with_itk,
    need,
    points_within,
    random_grid,
    run_python,
)
from warpgauge.errors import AmbiguousFileError, FileFormatError, SuspiciousDataWarning
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import Chain, LandmarkSpline, read_transform

sitk = pytest.importorskip("SimpleITK")
_KERNEL = """
import json, sys
import itk
source, target, points = json.load(open(sys.argv[1]))
transform = itk.ThinPlateSplineKernelTransform[itk.D, 3].New()
PointSet = type(transform.GetSourceLandmarks())
for landmarks, put in ((source, transform.SetSourceLandmarks), (target, transform.SetTargetLandmarks)):
    listed = PointSet.New()
    for i, point in enumerate(landmarks):
        listed.SetPoint(i, point)
    put(listed)
transform.ComputeWMatrix()
values = {"parameters": transform.GetParameters(), "fixed": transform.GetFixedParameters()}
result = {key: [numbers[i] for i in range(3 * len(source))] for key, numbers in values.items()}
result["mapped"] = [list(transform.TransformPoint(point)) for point in points]
json.dump(result, open(sys.argv[2], "w"))
"""
_ANTS = """
import json, sys
import ants, pandas
def apply(d, points, names):
    axes = ["x", "y", "z"][:d]
    mapped = ants.apply_transforms_to_points(d, pandas.DataFrame(points, columns=axes), names)
    return mapped[axes].to_numpy().tolist()


folder, matrices, warp, points = json.load(open(sys.argv[1]))
result = {}
for name, (d, parameters, fixed, own) in matrices.items():
    transform = ants.new_ants_transform(precision="double", dimension=d, transform_type="AffineTransform")
    transform.set_parameters(parameters)
    transform.set_fixed_parameters(fixed)
    ants.write_transform(transform, f"{folder}/{name}.mat")
    result[name] = apply(d, own, [f"{folder}/{name}.mat"])
result["list"] = apply(3, points, [warp, f"{folder}/three.mat"])
json.dump(result, open(sys.argv[2], "w"))
"""
CLOSE = 1e-9  # the requirement is 1e-6; float64 gives much better


def _kinds() -> dict[str, tuple[int, list[float], list[float]]]:
    rng = np.random.default_rng(7)

    def small(n: int = 3) -> list[float]:
        return rng.uniform(-0.3, 0.3, n).tolist()

    def far(n: int) -> list[float]:
        return rng.normal(0, 20, n).tolist()

    def near_eye(d: int) -> list[float]:
        return (np.eye(d) + rng.normal(0, 0.2, (d, d))).ravel().tolist()

    scales = [1.1, 0.8, 1.3]
    return {
        "IdentityTransform": (3, [], []),
        "TranslationTransform": (3, far(3), []),
        "ScaleTransform": (3, scales, far(3)),
        "AffineTransform": (3, near_eye(3) + far(3), far(3)),
        "MatrixOffsetTransformBase": (3, near_eye(3) + far(3), far(3)),
        "Rigid2DTransform": (2, [0.3, *far(2)], far(2)),
        "Euler2DTransform": (2, [0.3, *far(2)], far(2)),
        "Similarity2DTransform": (2, [1.3, 0.3, *far(2)], far(2)),
        "Euler3DTransform": (3, small() + far(3), far(3)),
        "VersorTransform": (3, small(), far(3)),
        "VersorRigid3DTransform": (3, small() + far(3), far(3)),
        "Similarity3DTransform": (3, [*small(), *far(3), 1.2], far(3)),
        "ScaleVersor3DTransform": (3, small() + far(3) + scales, far(3)),
        "ScaleSkewVersor3DTransform": (3, small() + far(3) + scales + small(6), far(3)),
    }


def test_linear_kinds_map_as_itk(tmp_path: Path) -> None:
    """Every linear transform that ITK reads from files maps points as ITK does; so do both orders of Euler angles."""
    kinds = _kinds()
    for zyx in (0, 1):
        kinds[f"Euler3DTransform {zyx}"] = (3, [0.5, -0.7, 0.9, 1, 2, 3], [4, 5, 6, zyx])
    rng = np.random.default_rng(1)
    for kind, (d, parameters, fixed) in kinds.items():
        file = tmp_path / f"{kind}.tfm"
        file.write_text(itk_text(kind.split()[0], d, parameters, fixed))
        points = rng.normal(0, 50, (20, d))
        expected = map_with_itk(sitk.ReadTransform(str(file)), points)
        transform = read_transform(file)
        np.testing.assert_allclose(transform.map(points), expected, rtol=0, atol=CLOSE, err_msg=kind)
        np.testing.assert_allclose(transform.inverse().map(expected), points, rtol=0, atol=1e-8, err_msg=kind)
    (tmp_path / "rare.tfm").write_text(itk_text("QuaternionRigidTransform", 3, [0.1, 0.2, 0.3, 0.8, 1, 2, 3], [0] * 3))
    with pytest.raises(FileFormatError, match="save it again as AffineTransform"):
        read_transform(tmp_path / "rare.tfm")


def _sitk_bspline(rng: np.random.Generator, d: int, order: int, kind: str) -> tuple[Any, Grid]:
    grid = random_grid(rng, d, kind)
    images = []
    for _ in range(d):
        image = sitk.GetImageFromArray(rng.normal(0, 5, grid.shape))
        _place(image, grid)
        images.append(image)
    return sitk.BSplineTransform(images, order), grid


def _place(image: Any, grid: Grid) -> None:
    image.SetOrigin(grid.origin.tolist())
    image.SetSpacing(grid.spacing.tolist())
    image.SetDirection(grid.direction.ravel().tolist())


def _sitk_field(rng: np.random.Generator, d: int, kind: str) -> tuple[Any, Grid]:
    grid = random_grid(rng, d, kind)
    image = sitk.GetImageFromArray(rng.normal(0, 5, (*grid.shape, d)), isVector=True)
    _place(image, grid)
    return sitk.DisplacementFieldTransform(image), grid


@pytest.mark.parametrize("suffix", [".tfm", ".h5"])
@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("d", [2, 3])
def test_bsplines_map_as_simpleitk(tmp_path: Path, d: int, order: int, kind: str, suffix: str) -> None:
    """B-splines of order 1 to 3 on straight, flipped, swapped and oblique grids map as SimpleITK does."""
    rng = np.random.default_rng(100 * d + order)
    transform, grid = _sitk_bspline(rng, d, order, kind)
    file = tmp_path / f"b{suffix}"
    sitk.WriteTransform(transform, str(file))
    points = points_within(rng, grid, 40, (order - 1) / 2 + 1e-6)
    ours = read_transform(file)
    np.testing.assert_allclose(ours.map(points), map_with_itk(transform, points), rtol=0, atol=CLOSE)
    assert defined(ours, points).all()


@pytest.mark.parametrize("suffix", [".tfm", ".h5"])
@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize("d", [2, 3])
def test_displacement_fields_map_as_simpleitk(tmp_path: Path, d: int, kind: str, suffix: str) -> None:
    """Dense fields inside ITK files map as SimpleITK does between the outer nodes."""
    rng = np.random.default_rng(d)
    transform, grid = _sitk_field(rng, d, kind)
    file = tmp_path / f"f{suffix}"
    sitk.WriteTransform(transform, str(file))
    points = np.vstack([points_within(rng, grid), grid.points()])
    inner = points_within(rng, grid, 40, 1e-6)
    ours = read_transform(file)
    np.testing.assert_allclose(ours.map(inner), map_with_itk(transform, inner), rtol=0, atol=CLOSE)
    assert defined(ours, points).all()  # the outer nodes themselves are inside


def test_field_border_is_masked_where_itk_clamps(tmp_path: Path) -> None:
    """Within half a voxel beyond the outer nodes ITK takes the nearest value, further out the identity; here NaN."""
    rng = np.random.default_rng(1)
    transform, grid = _sitk_field(rng, 3, "oblique")
    sitk.WriteTransform(transform, str(tmp_path / "f.h5"))
    index = np.array([[-0.3, 2.0, 2.0], [0.0, 2.0, 2.0], [-0.6, 2.0, 2.0]])
    points = grid.index_to_world(index)
    expected = map_with_itk(transform, points) - points
    np.testing.assert_allclose(expected[0], expected[1], atol=1e-9)
    np.testing.assert_allclose(expected[2], 0, atol=1e-9)
    mapped = read_transform(tmp_path / "f.h5").map(points)
    np.testing.assert_allclose(mapped[1] - points[1], expected[1], atol=CLOSE)
    assert np.isnan(mapped[[0, 2]]).all()


def _composite(rng: np.random.Generator) -> tuple[Any, Floats]:
    field, grid = _sitk_field(rng, 3, "oblique")
    centre = grid.index_to_world((np.asarray(grid.size) - 1) / 2)
    euler = sitk.Euler3DTransform(centre.tolist(), 0.02, -0.01, 0.03, (0.1, 0.2, -0.1))
    affine = sitk.AffineTransform(3)
    affine.SetMatrix((np.eye(3) + rng.normal(0, 0.3, (3, 3))).ravel().tolist())
    affine.SetTranslation((5, 6, 7))
    composite = sitk.CompositeTransform([affine, field, euler])
    return composite, points_within(rng, grid, 30, 2.0)


@pytest.mark.parametrize("suffix", [".tfm", ".h5"])
def test_composites_apply_the_last_stored_first(tmp_path: Path, suffix: str) -> None:
    """A composite of three maps as SimpleITK does, and in the reversed order it does not."""
    composite, points = _composite(np.random.default_rng(9))
    file = tmp_path / f"c{suffix}"
    sitk.WriteTransform(composite, str(file))
    ours = read_transform(file)
    expected = map_with_itk(composite, points)
    np.testing.assert_allclose(ours.map(points), expected, rtol=0, atol=CLOSE)
    assert isinstance(ours, Chain)
    assert "last stored transform first" in ours.description.assumptions[0]
    turned = Chain(ours.transforms[::-1]).map(points)
    assert not np.allclose(turned, expected, atol=1e-3)


def test_old_hdf5_spelling_is_read(tmp_path: Path) -> None:
    """Old versions of ITK wrote TranformParameters and TranformFixedParameters."""
    import h5py

    composite, points = _composite(np.random.default_rng(10))
    sitk.WriteTransform(composite, str(tmp_path / "c.h5"))
    with h5py.File(tmp_path / "c.h5", "a") as store:
        for member in store["TransformGroup"].values():
            for name in ("TransformParameters", "TransformFixedParameters"):
                if name in member:
                    member.move(name, name.replace("Transform", "Tranform", 1))
    mapped = read_transform(tmp_path / "c.h5").map(points)
    np.testing.assert_allclose(mapped, map_with_itk(composite, points), rtol=0, atol=CLOSE)


def test_single_precision_and_compression_in_hdf5(tmp_path: Path) -> None:
    """A float32 field in compressed chunks, as ANTs composites have it, is read."""
    import h5py

    rng = np.random.default_rng(11)
    grid = random_grid(rng, 3)
    vectors = rng.normal(0, 5, (*grid.shape, 3)).astype(np.float32)
    with h5py.File(tmp_path / "f.h5", "w") as store:
        member = store.create_group("TransformGroup/0")
        member["TransformType"] = np.array(["DisplacementFieldTransform_float_3_3"], dtype="S")
        fixed = np.concatenate([grid.size, grid.origin, grid.spacing, grid.direction.ravel()])
        member["TransformFixedParameters"] = fixed
        member.create_dataset("TransformParameters", data=vectors.ravel(), compression="gzip", chunks=(100,))
    image = sitk.GetImageFromArray(vectors.astype(np.float64), isVector=True)
    _place(image, grid)
    points = points_within(rng, grid, 30, 1e-6)
    expected = map_with_itk(sitk.DisplacementFieldTransform(image), points)
    np.testing.assert_allclose(read_transform(tmp_path / "f.h5").map(points), expected, rtol=0, atol=CLOSE)


def test_several_transforms_without_a_composite_are_ambiguous(tmp_path: Path) -> None:
    """A file that lists transforms does not say their order."""
    entry = itk_entry("TranslationTransform", 3, [1, 2, 3], [])
    (tmp_path / "t.tfm").write_text(f"#Insight Transform File V1.0\n{entry}{entry}")
    with pytest.raises(AmbiguousFileError, match="order of application"):
        read_transform(tmp_path / "t.tfm")


def test_thin_plate_splines_have_the_source_as_parameters(tmp_path: Path) -> None:
    """ITK's kernel transforms, which Slicer stores, keep the source in the parameters, the target in the fixed ones."""
    need("itk")
    rng = np.random.default_rng(12)
    source = rng.uniform(0, 50, (8, 3))
    target = source + rng.normal(0, 3, source.shape)
    points = rng.uniform(0, 50, (20, 3))
    found = run_python(tmp_path, _KERNEL, [source.tolist(), target.tolist(), points.tolist()])
    stored = itk_text("ThinPlateSplineKernelTransform", 3, found["parameters"], found["fixed"])
    (tmp_path / "t.tfm").write_text(stored)
    ours = read_transform(tmp_path / "t.tfm")
    assert isinstance(ours, LandmarkSpline)
    np.testing.assert_allclose(ours.map(points), found["mapped"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours.map(source), target, rtol=0, atol=1e-8)


def test_mat_files_and_lists_map_as_antspy(tmp_path: Path) -> None:
    """Files that ANTsPy wrote map as there, and a list [warp, affine] applies its first entry to points first.

    ANTsPy computes in single precision, so the world is kept within 2 mm of the origin, where that is 1e-7 mm.
    """
    need("ants")
    rng = np.random.default_rng(5)
    turned = random_grid(rng, 3, low=9, high=13)
    grid = Grid(turned.size, turned.spacing / 20, [-0.2, 0.1, 0.3], turned.direction, "mm")
    image = sitk.GetImageFromArray(rng.normal(0, 0.2, (*grid.shape, 3)).astype(np.float32), isVector=True)
    _place(image, grid)
    warp = tmp_path / "warp.nii.gz"
    sitk.WriteImage(image, str(warp))
    matrices = {
        name: (
            d,
            (np.eye(d) + rng.normal(0, 0.2, (d, d))).ravel().tolist() + rng.normal(0, 0.3, d).tolist(),
            rng.normal(0, 0.4, d).tolist(),
            rng.uniform(-1, 1, (20, d)).tolist(),
        )
        for name, d in (("two", 2), ("three", 3))
    }
    points = points_within(rng, grid, 25, 1e-3)
    expected = run_python(tmp_path, _ANTS, [str(tmp_path), matrices, str(warp), points.tolist()])
    for name, (_, _, _, own) in matrices.items():
        transform = read_transform(tmp_path / f"{name}.mat")
        assert transform.description.format == "ANTs .mat"
        np.testing.assert_allclose(transform.map(own), expected[name], rtol=0, atol=1e-6)
    names = [str(warp), str(tmp_path / "three.mat")]
    np.testing.assert_allclose(read_transform(names).map(points), expected["list"], rtol=0, atol=1e-6)
    assert not np.allclose(read_transform(names[::-1]).map(points), expected["list"], atol=0.01)


def test_numbers_that_do_not_fit_the_kind_are_refused(tmp_path: Path) -> None:
    """The error names file, kind and counts."""
    file = tmp_path / "t.tfm"
    file.write_text(itk_text("Euler3DTransform", 3, [1, 2, 3], [0, 0, 0]))
    with pytest.raises(FileFormatError, match=r"'t.tfm': its Euler3DTransform is not valid: it needs 6 parameters"):
        read_transform(file)
    file.write_text(itk_text("VersorTransform", 3, [1, 2, 3], [0, 0, 0]))
    with pytest.raises(FileFormatError, match="longer than 1"):
        read_transform(file)
    file.write_text(itk_text("XTransform", 3, [1], []))
    with pytest.raises(FileFormatError, match="'XTransform', which warpgauge does not read"):
        read_transform(file)
    file.write_text("#Insight Transform File V1.0\nTransform: AffineTransform_double_2_2\nParameters: 1 0 0 1 2 3\n")
    with pytest.raises(FileFormatError, match="no fixed parameters of its AffineTransform_double_2_2; it is truncated"):
        read_transform(file)
    file.write_text(itk_text("TranslationTransform", 2, [1, 2], []).rstrip("\n"))
    with pytest.warns(SuspiciousDataWarning, match="last number may be cut"):
        read_transform(file)
