"""`as_transform`: what is in memory maps as its own library maps it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import warpgauge as wg
from transform_tools import need
from warpgauge.errors import AmbiguousFileError, InvalidInputError, SuspiciousDataWarning, WarpgaugeError
from warpgauge.evaluation import Comparison, Scene, evaluate_comparison
from warpgauge.geometry import Floats, Grid

GRIDS = {
    2: Grid((24, 18), (0.5, 0.8), (3.0, -2.0), units="um"),
    3: Grid((14, 12, 10), (1.0, 1.5, 2.0), (-5.0, 4.0, 7.0), np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]), "mm"),
}
MOVING = {2: Grid((30, 22), (0.4, 0.7), (1.0, -3.0), units="um"), 3: Grid((16, 12, 9), (1.1, 1.4, 2.1), units="mm")}


def smooth(grid: Grid, seed: int = 0) -> Floats:
    """Displacements (z, y, x, d) in voxels of about one."""
    noise = np.random.default_rng(seed).normal(size=(*grid.shape, grid.d))
    return gaussian_filter(noise, (*[2.0] * grid.d, 0)) * 8


def inner(grid: Grid, count: int = 40) -> Floats:
    index = np.random.default_rng(1).uniform(1, np.array(grid.size) - 2, (count, grid.d))
    return grid.index_to_world(np.round(index))  # on nodes, so that no interpolation plays a part


def at_nodes(values: Floats, grid: Grid, points: Floats) -> Floats:
    rows = np.round(grid.world_to_index(points)).astype(int)
    return values[tuple(rows[:, ::-1].T)]


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("axes", ["array", "nibabel"])
def test_voxel_displacements_are_along_the_axes_of_the_array(d: int, axes: str) -> None:
    """As VoxelMorph warps: the fixed voxel i takes the moving voxel i + flow[:, i], axis by axis."""
    grid, moving = GRIDS[d], MOVING[d]
    flow = smooth(grid)  # components along x, y[, z], in voxels
    points = inner(grid)
    index = grid.world_to_index(points)
    expected = moving.index_to_world(index + at_nodes(flow, grid, points))
    tensor = np.moveaxis(flow[..., ::-1], -1, 0)[None]  # (1, d, z, y, x), component 0 along z
    if axes == "nibabel":  # (1, d, x, y, z), component 0 along x
        tensor = np.moveaxis(flow, -1, 0).transpose(0, *range(d, 0, -1))[None]
    order = "zyx"[3 - d :] if axes == "array" else "xyz"[:d]
    for convention in ("voxelmorph", "transmorph"):
        found = wg.as_transform(tensor, convention=convention, grid=grid, moving=moving, axes=order)
        np.testing.assert_allclose(found.map(points), expected, atol=1e-9)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("align_corners", [False, True])
def test_grid_sample_positions(d: int, align_corners: bool) -> None:
    """By the definition of torch: x = -1 and 1 are the outer edges of the image, or the outer centres."""
    grid, moving = GRIDS[d], MOVING[d]
    points = inner(grid)
    target = moving.world_to_index(grid.points()).reshape(*grid.shape, d) + smooth(grid)
    size = np.array(moving.size)
    tensor = 2 * target / (size - 1) - 1 if align_corners else (2 * target + 1) / size - 1
    found = wg.as_transform(
        tensor[None], convention="grid_sample", grid=grid, moving=moving, align_corners=align_corners
    )
    expected = moving.index_to_world(at_nodes(target, grid, points))
    np.testing.assert_allclose(found.map(points), expected, atol=1e-9)
    assert any(f"align_corners={align_corners}" in note for note in found.description.assumptions)


def test_unigradicon_positions() -> None:
    """0 and 1 are the centres of the outer voxels, component 0 is along the first axis of the array."""
    grid, moving = GRIDS[3], MOVING[3]
    points = inner(grid)
    target = moving.world_to_index(grid.points()).reshape(*grid.shape, 3) + smooth(grid)
    tensor = np.moveaxis((target / (np.array(moving.size) - 1))[..., ::-1], -1, 0)[None]
    found = wg.as_transform(tensor, convention="unigradicon", grid=grid, moving=moving)
    np.testing.assert_allclose(found.map(points), moving.index_to_world(at_nodes(target, grid, points)), atol=1e-9)


def test_objects_of_simpleitk_map_as_simpleitk_does() -> None:
    import SimpleITK as sitk  # noqa: N813

    grid = GRIDS[3]
    points = inner(grid)
    image = sitk.GetImageFromArray(smooth(grid), isVector=True)
    image.SetSpacing(grid.spacing.tolist())
    image.SetOrigin(grid.origin.tolist())
    image.SetDirection(grid.direction.ravel().tolist())
    euler = sitk.Euler3DTransform((1.0, 2.0, 3.0), 0.1, -0.2, 0.05, (4.0, 5.0, 6.0))
    field = sitk.DisplacementFieldTransform(sitk.Image(image))
    both = sitk.CompositeTransform([euler, field])  # the last is applied first
    for source in (euler, field, both):
        expected = [source.TransformPoint(point.tolist()) for point in points]
        np.testing.assert_allclose(wg.as_transform(source).map(points), expected, atol=1e-6)
    np.testing.assert_allclose(wg.as_transform(image).map(points), wg.as_transform(field).map(points), atol=1e-9)
    with pytest.raises(InvalidInputError, match="3 components in 3D"):
        wg.as_transform(sitk.Image(4, 4, 4, sitk.sitkFloat32))


ITK = """
import itk, numpy as np, warpgauge as wg
affine = itk.AffineTransform[itk.D, 2].New()
affine.Rotate2D(0.3)
affine.Translate([3.0, -4.0])
points = np.random.default_rng(0).uniform(-20, 20, (30, 2))
expected = [list(affine.TransformPoint(point.tolist())) for point in points]
np.testing.assert_allclose(wg.as_transform(affine).map(points), expected, atol=1e-9)
vectors = np.random.default_rng(1).normal(size=(8, 9, 2))
image = itk.image_from_array(vectors, is_vector=True)
image.SetSpacing([2.0, 3.0])
image.SetOrigin([5.0, -6.0])
field = wg.as_transform(image)
np.testing.assert_allclose(field.map([[5 + 2 * 4, -6 + 3 * 2]]), [vectors[2, 4] + [13.0, 0.0]])
"""


def test_objects_of_itk_map_as_itk_does() -> None:
    """In a process of its own: ITK and SimpleITK cannot share one."""
    need("itk")
    subprocess.run([sys.executable, "-c", ITK], check=True)


def test_results_of_antspy(tmp_path: Any) -> None:
    """The forward list of a registration, applied to points first entry first; and a transform object."""
    need("ants")
    import ants

    matrix = np.array([[1.0, 0.1], [-0.1, 0.9]])
    transform = ants.create_ants_transform(
        transform_type="AffineTransform", dimension=2, matrix=matrix, offset=np.array([2.0, -1.0])
    )
    points = inner(GRIDS[2])
    expected = points @ matrix.T + [2.0, -1.0]
    np.testing.assert_allclose(wg.as_transform(transform).map(points), expected, atol=1e-4)
    ants.write_transform(transform, str(tmp_path / "0GenericAffine.mat"))
    result = {"fwdtransforms": [str(tmp_path / "0GenericAffine.mat")], "invtransforms": []}
    np.testing.assert_allclose(wg.as_transform(result).map(points), expected, atol=1e-4)


def test_a_tensor_is_read_without_its_library_being_imported_here() -> None:
    """Anything of the module torch with detach, cpu and numpy is a tensor; torch itself is never imported."""
    module = type("Tensor", (), {"__module__": "torch"})
    tensor: Any = module()
    flow = np.moveaxis(smooth(GRIDS[2]), -1, 0)
    tensor.detach = lambda: tensor
    tensor.cpu = lambda: tensor
    tensor.numpy = lambda: flow
    found = wg.as_transform(tensor, convention="voxelmorph", grid=GRIDS[2])
    points = inner(GRIDS[2])
    by_array = wg.as_transform(flow, convention="voxelmorph", grid=GRIDS[2])
    np.testing.assert_array_equal(found.map(points), by_array.map(points))
    code = "import sys, warpgauge as wg; wg.as_transform(lambda x: x, d=2); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_functions_paths_lists_and_directions(tmp_path: Any) -> None:
    (tmp_path / "shift.txt").write_text("1 0 4\n0 1 -3\n0 0 1\n")
    points = inner(GRIDS[2])
    by = np.array([4.0, -3.0])
    shifted = points + by
    np.testing.assert_allclose(wg.as_transform(lambda x: x + by, d=2).map(points), shifted)
    np.testing.assert_allclose(wg.as_transform(tmp_path / "shift.txt").map(points), shifted)
    twice = wg.as_transform([tmp_path / "shift.txt", lambda x: 2 * x], d=2)
    np.testing.assert_allclose(twice.map(points), 2 * shifted)
    back = wg.as_transform(tmp_path / "shift.txt", direction="moving_to_fixed")
    np.testing.assert_allclose(back.map(shifted), points)


def test_objects_can_be_evaluated_and_mapped_as_they_are() -> None:
    """evaluate, judge and error_map take what as_transform takes without further words."""
    import SimpleITK as sitk  # noqa: N813

    grid = Grid((60, 50))
    fixed = np.random.default_rng(0).uniform(5, 45, (20, 2))
    prior = wg.TransformationPrior(wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=3, weight=4.0))
    posterior = prior.condition(wg.Annotations.isotropic(fixed, fixed + np.array([2.0, 1.0]), sd=0.3))
    right, wrong = sitk.TranslationTransform(2, (2.0, 1.0)), sitk.TranslationTransform(2, (-2.0, 1.0))
    result = wg.evaluate(posterior, {"right": right, "wrong": wrong}, fixed)
    assert result.ranking() == ["right", "wrong"]
    assert np.nanmean(wg.error_map(posterior, wrong, grid)) > np.nanmean(wg.error_map(posterior, right, grid))


def test_paths_and_chains_are_taken_by_evaluate_judge_error_map_and_a_project(tmp_path: Path) -> None:
    """What says by itself what it maps needs no as_transform: files, lists of files, and objects of SimpleITK."""
    import SimpleITK as sitk  # noqa: N813

    grid = Grid((60, 50))
    fixed = np.random.default_rng(0).uniform(5, 45, (20, 2))
    prior = wg.TransformationPrior(wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=3, weight=4.0))
    posterior = prior.condition(wg.Annotations.isotropic(fixed, fixed + np.array([2.0, 1.0]), sd=0.3))
    for name, by in (("half", (1.0, 0.5)), ("off", (-2.0, 1.0))):
        sitk.WriteTransform(sitk.TranslationTransform(2, by), str(tmp_path / f"{name}.tfm"))
    half, off = tmp_path / "half.tfm", str(tmp_path / "off.tfm")
    given = {"twice": [half, half], "once": half, "off": off, "object": sitk.TranslationTransform(2, (9.0, 0.0))}
    order = ["twice", "once", "off", "object"]
    assert wg.evaluate(wg.judge(posterior, given), given, fixed).ranking() == order
    compared = Comparison.of(given, fixed, posterior, scene=Scene(grid, grid.units))
    assert evaluate_comparison(compared, samples=50).ranking() == order
    assert np.nanmean(wg.error_map(posterior, [half, half], grid)) < np.nanmean(wg.error_map(posterior, off, grid))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "'mine' is an object of type NoneType"),
        (object(), "'mine' is an object of type object"),
        (np.zeros((50, 60, 2)), r"got \(50, 60, 2\); an array given as it is holds mapped targets"),
        (lambda points: None, "'mine' is a function that returns an object of type NoneType"),
        (lambda points: points[:3], r"'mine' is a function that gave shape \(3, 2\) for points of shape \(40, 2\)"),
        ("nowhere.tfm", "nowhere.tfm"),
    ],
)
def test_what_is_no_transform_is_one_sentence_of_evaluate(given: Any, words: str) -> None:
    fixed = np.random.default_rng(0).uniform(5, 45, (20, 2))
    prior = wg.TransformationPrior(wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=3, weight=4.0))
    posterior = prior.condition(wg.Annotations.isotropic(fixed, fixed, sd=0.3))
    with pytest.raises(WarpgaugeError, match=words) as caught:
        wg.evaluate(posterior, {"mine": given}, fixed)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_an_image_of_simpleitk_says_where_an_array_stands() -> None:
    """A field straight from an algorithm on two images of SimpleITK, one of them with turned axes."""
    import SimpleITK as sitk  # noqa: N813

    image = sitk.Image(GRIDS[3].size, sitk.sitkFloat32)
    image.SetSpacing(GRIDS[3].spacing.tolist())
    image.SetOrigin(GRIDS[3].origin.tolist())
    image.SetDirection(GRIDS[3].direction.ravel().tolist())
    values = smooth(GRIDS[3])
    found = wg.as_transform(values, convention="displacement", grid=image)
    vectors = sitk.GetImageFromArray(values, isVector=True)
    vectors.CopyInformation(image)
    points = inner(GRIDS[3])
    expected = sitk.DisplacementFieldTransform(vectors)
    assert found.map(points) == pytest.approx(np.array([expected.TransformPoint(p.tolist()) for p in points]))
    with pytest.raises(InvalidInputError, match="got an object of type str"):
        wg.as_transform(values, convention="displacement", grid="image.nii.gz")


def test_gaps_of_a_field_are_said_and_masked() -> None:
    """NaN in an array: points next to it are not mapped, and a field of nothing else is refused."""
    field = np.zeros((18, 24, 2))
    field[5, 7] = np.nan
    with pytest.warns(SuspiciousDataWarning, match="1 of 432 vectors are not finite; points next to them are masked"):
        found = wg.as_transform(field, convention="displacement", grid=GRIDS[2])
    points = GRIDS[2].index_to_world([[7.4, 5.4], [9.0, 9.0]])
    assert np.isfinite(found.map(points)).all(axis=1).tolist() == [False, True]
    with pytest.raises(InvalidInputError, match="The field has no finite vector"):
        wg.as_transform(np.full((18, 24, 2), np.nan), convention="displacement", grid=GRIDS[2])
    masked = np.ma.masked_array(np.zeros((18, 24, 2)), np.isnan(field))
    with pytest.warns(SuspiciousDataWarning, match="1 of 432 vectors are not finite"):
        found = wg.as_transform(masked, convention="displacement", grid=GRIDS[2])
    assert np.isfinite(found.map(points)).all(axis=1).tolist() == [False, True]


def test_a_composite_of_composites_maps_as_simpleitk_does() -> None:
    """ImageRegistrationMethod returns a composite, which is then put into another; files hold none such."""
    import SimpleITK as sitk  # noqa: N813

    rough = sitk.CompositeTransform([sitk.Euler2DTransform((3.0, 4.0), 0.2, (1.0, -2.0))])
    both = sitk.CompositeTransform([rough, sitk.TranslationTransform(2, (0.5, 7.0))])
    points = inner(GRIDS[2])
    expected = np.array([both.TransformPoint(point.tolist()) for point in points])
    np.testing.assert_allclose(wg.as_transform(both).map(points), expected, atol=1e-12)
    assert both.GetNumberOfTransforms() == 2
    assert both.GetNthTransform(0).GetTransformEnum() == sitk.sitkComposite  # what was given stays as it is


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"source": np.zeros((18, 24, 2))}, AmbiguousFileError, "give convention=, one of displacement"),
        ({"source": np.zeros((18, 24, 2)), "convention": "displacement"}, AmbiguousFileError, "give grid="),
        ({"source": np.zeros((24, 18, 2)), "convention": "displacement", "grid": GRIDS[2]}, InvalidInputError,
         r"has the shape \(18, 24, 2\)"),
        ({"source": np.zeros((18, 24, 2)), "convention": "guess", "grid": GRIDS[2]}, InvalidInputError, "must be one"),
        ({"source": 3.5}, InvalidInputError, "of type float"),
        ({"source": {"a": 1}}, InvalidInputError, "no 'fwdtransforms'"),
        ({"source": lambda x: x}, AmbiguousFileError, "give d=2 or d=3"),
        ({"source": lambda x: x, "d": 2, "convention": "voxelmorph"}, InvalidInputError, "leave convention= out"),
        ({"source": "field.nii.gz", "convention": "voxelmorph"}, InvalidInputError, "leave convention= out"),
        ({"source": wg.as_transform(lambda x: x, d=2), "grid": GRIDS[3]}, InvalidInputError, "is 2D, but grid= is 3D"),
    ],
)  # fmt: skip
def test_a_wrong_type_or_shape_is_one_sentence(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        wg.as_transform(**arguments)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
