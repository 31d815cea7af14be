"""Dense fields in image files and arrays, against SimpleITK and hand calculations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, map_coordinates, zoom

from transform_tools import DIRECTIONS, defined, map_with_itk, points_within, random_grid
from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import DisplacementField, as_transform, read_transform

sitk = pytest.importorskip("SimpleITK")
LPS = np.diag([-1.0, -1.0, 1.0, 1.0])


def sitk_image(grid: Grid, vectors: Floats) -> Any:
    """An ITK image of vectors given as (..., z, y, x, d)."""
    image = sitk.GetImageFromArray(vectors, isVector=True)
    image.SetOrigin(grid.origin.tolist())
    image.SetSpacing(grid.spacing.tolist())
    image.SetDirection(grid.direction.ravel().tolist())
    return image


def random_field(seed: int, d: int, kind: str, dtype: type = np.float64) -> tuple[Grid, Floats]:
    rng = np.random.default_rng(seed)
    grid = random_grid(rng, d, kind)
    return grid, rng.normal(0, 5, (*grid.shape, d)).astype(dtype)


@pytest.mark.parametrize("suffix", [".nii.gz", ".nii", ".nrrd", ".mha", ".mhd"])
@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize(("d", "dtype"), [(2, np.float64), (3, np.float64), (3, np.float32)])
def test_fields_that_itk_wrote_map_as_itk_reads_them(
    tmp_path: Path, d: int, dtype: type, kind: str, suffix: str
) -> None:
    """NIfTI (intent 1007), NRRD and MetaImage fields map as the transform that SimpleITK makes of the file."""
    grid, vectors = random_field(d, d, kind, dtype)
    file = tmp_path / f"field{suffix}"
    compress = suffix != ".nii" and kind in ("straight", "oblique")
    sitk.WriteImage(sitk_image(grid, vectors), str(file), compress)
    read_back = sitk.ReadImage(str(file), sitk.sitkVectorFloat64)
    reference = sitk.DisplacementFieldTransform(read_back)
    points = points_within(np.random.default_rng(1), grid, 60, 1e-4)
    transform = read_transform(file)
    np.testing.assert_allclose(transform.map(points), map_with_itk(reference, points), rtol=0, atol=1e-6)
    assert isinstance(transform, DisplacementField)
    assert defined(transform, points).all()


@pytest.mark.parametrize(("d", "intent"), [(3, 1006), (3, 1007), (2, 1007)])
def test_intent_decides_on_the_flip(tmp_path: Path, d: int, intent: int) -> None:
    """Vectors of intent 1006 are RAS and flipped by ITK, those of 1007 are not."""
    rng = np.random.default_rng(intent)
    file = _intent_file(tmp_path, rng.normal(0, 3, (7, 8, 9, 1, 3) if d == 3 else (7, 8, 1, 1, 2)), intent)
    reference = sitk.DisplacementFieldTransform(sitk.ReadImage(str(file), sitk.sitkVectorFloat64))
    transform = read_transform(file)
    points = points_within(rng, transform.support, 40, 1e-4)  # type: ignore[arg-type]
    np.testing.assert_allclose(transform.map(points), map_with_itk(reference, points), rtol=0, atol=1e-9)
    said = " ".join(transform.description.assumptions)
    assert ("vectors are RAS" in said) == (intent == 1006)
    turned = read_transform(file, frame="LPS" if intent == 1006 else "RAS").map(points)
    np.testing.assert_allclose((turned - points)[:, :2], -(transform.map(points) - points)[:, :2], atol=1e-9)


def test_intent_1006_in_two_dimensions_flips_both_components(tmp_path: Path) -> None:
    """By hand: ITK 5.4 flips two of every three stored numbers there, whatever they are, and so is no reference."""
    data = np.random.default_rng(1).normal(0, 3, (7, 8, 1, 1, 2))
    point = np.array([[-3.0, -6.0]])  # index (2, 3) at 1.5 and 2 mm, in LPS
    mapped = read_transform(_intent_file(tmp_path, data, 1006)).map(point)
    np.testing.assert_allclose(mapped - point, [-data[2, 3, 0, 0]], atol=1e-12)


def _intent_file(folder: Path, data: Floats, intent: int) -> Path:
    return nifti(folder / "field.nii.gz", data, np.diag([1.5, 2.0, 3.0, 1.0]), intent)


def nifti(file: Path, data: Floats, affine: Floats, intent: int = 0) -> Path:
    image = nibabel.Nifti1Image(data, affine)
    image.header["intent_code"] = intent
    image.header.set_xyzt_units("mm")
    image.set_sform(affine, 1)
    image.set_qform(affine, 1)
    nibabel.save(image, file)
    return file


@pytest.mark.parametrize(("shape", "intent"), [((5, 6, 7, 1, 3), 0), ((5, 6, 7, 3), 0), ((5, 6, 7, 3), 1007)])
def test_nifti_without_a_clear_intent_has_to_be_explained(tmp_path: Path, shape: tuple[int, ...], intent: int) -> None:
    """No intent, or a layout that ITK does not take for vectors: an error, until the caller says the frame."""
    rng = np.random.default_rng(0)
    data = rng.normal(0, 2, shape)
    file = nifti(tmp_path / "f.nii.gz", data, np.diag([2.0, 3.0, 4.0, 1.0]), intent)
    with pytest.raises(AmbiguousFileError, match="--frame LPS"):
        read_transform(file)
    vectors = data.reshape(5, 6, 7, 3)[2, 3, 4]
    point = np.array([[-4.0, -9.0, 16.0]])  # index (2, 3, 4) in LPS
    np.testing.assert_allclose(read_transform(file, frame="LPS").map(point) - point, [vectors], atol=1e-12)
    flip = np.array([-1, -1, 1])
    np.testing.assert_allclose(read_transform(file, frame="RAS").map(point) - point, [vectors * flip], atol=1e-12)
    # In voxels: index axes run along -x, -y, z of LPS with 2, 3, 4 mm.
    in_voxels = vectors * [-2, -3, 4]
    np.testing.assert_allclose(read_transform(file, frame="index").map(point) - point, [in_voxels], atol=1e-12)


def test_absolute_nifti_fields_hold_positions(tmp_path: Path) -> None:
    """convention="position" takes the vectors as moving positions."""
    rng = np.random.default_rng(0)
    data = rng.normal(0, 20, (5, 6, 7, 1, 3))
    file = nifti(tmp_path / "f.nii.gz", data, np.diag([2.0, 3.0, 4.0, 1.0]), 1007)
    point = np.array([[-4.0, -9.0, 16.0]])
    np.testing.assert_allclose(read_transform(file, convention="position").map(point), [data[2, 3, 4, 0]], atol=1e-12)


def test_nifti_scale_factors_apply(tmp_path: Path) -> None:
    """Integers with a slope and an intercept are scaled, as nibabel does (ITK itself ends with an error there)."""
    rng = np.random.default_rng(0)
    image = nibabel.Nifti1Image(rng.integers(-99, 99, (5, 6, 7, 1, 3)).astype(np.int16), np.diag([-2.0, -3.0, 4.0, 1]))
    image.header.set_intent(1007)
    image.set_sform(image.affine, 1)
    image.header.set_slope_inter(0.25, 1.5)
    nibabel.save(image, tmp_path / "f.nii.gz")
    stored = nibabel.load(tmp_path / "f.nii.gz")
    assert stored.dataobj.slope != 1
    point = np.array([[4.0, 9.0, 16.0]])  # index (2, 3, 4)
    expected = stored.get_fdata()[2, 3, 4, 0]
    np.testing.assert_allclose(read_transform(tmp_path / "f.nii.gz").map(point) - point, [expected], atol=1e-12)


def test_a_nifti_field_without_orientation_needs_a_reference(tmp_path: Path) -> None:
    """Neither sform nor qform: the nodes have no place until the caller gives a grid of the same size."""
    image = nibabel.Nifti1Image(np.ones((5, 6, 7, 1, 3)), None)
    image.header.set_intent(1007)
    nibabel.save(image, tmp_path / "f.nii")
    with pytest.raises(AmbiguousFileError, match="--fixed-image"):
        read_transform(tmp_path / "f.nii")
    grid = Grid((5, 6, 7), (2, 2, 2), (10, 20, 30), units="mm")
    assert read_transform(tmp_path / "f.nii", reference=grid).map([[10.0, 20, 30]]).tolist() == [[11.0, 21.0, 31.0]]
    with pytest.raises(InvalidInputError, match="5 x 6 x 7 nodes"):
        read_transform(tmp_path / "f.nii", reference=Grid((5, 6, 8)))


def test_nrrd_in_another_space_leaves_its_vectors_open(tmp_path: Path) -> None:
    """A NRRD in RAS has its grid in RAS; ITK does not turn the vectors, so the caller has to say what they are."""
    grid, vectors = random_field(1, 3, "straight")
    file = tmp_path / "f.nrrd"
    sitk.WriteImage(sitk_image(grid, vectors), str(file), False)
    file.write_bytes(file.read_bytes().replace(b"left-posterior-superior", b"right-anterior-superior"))
    with pytest.raises(AmbiguousFileError, match="--frame"):
        read_transform(file)
    turned = Grid(grid.size, grid.spacing, grid.origin * [-1, -1, 1], np.diag([-1.0, -1, 1]), "mm")
    point = turned.index_to_world([[2.0, 3.0, 4.0]])
    np.testing.assert_allclose(read_transform(file, frame="RAS").map(point) - point, [vectors[4, 3, 2] * [-1, -1, 1]])
    np.testing.assert_allclose(read_transform(file, frame="LPS").map(point) - point, [vectors[4, 3, 2]])


@pytest.mark.parametrize(
    ("suffix", "line", "other"),
    [
        (".mha", b"ElementSpacing", b"DistanceUnits = cm\nElementSpacing"),
        (".nrrd", b"encoding:", b'space units: "cm" "cm" "cm"\nencoding:'),
    ],
)
def test_lengths_that_are_no_millimetres_leave_the_unit_of_the_vectors_open(
    tmp_path: Path, suffix: str, line: bytes, other: bytes
) -> None:
    """The grid would be ten times as large as the file says, and its vectors as they are: refused."""
    grid, vectors = random_field(1, 3, "straight")
    file = tmp_path / f"f{suffix}"
    sitk.WriteImage(sitk_image(grid, vectors), str(file), False)
    file.write_bytes(file.read_bytes().replace(line, other, 1))
    with pytest.raises(FileFormatError, match="in a unit of 10 mm"):
        read_transform(file, convention="displacement", frame="LPS")


def test_a_field_of_another_image_is_named(tmp_path: Path) -> None:
    """Stated for an image of half or of twice the size, it covers too little of the fixed image, or far more."""
    grid, vectors = random_field(2, 3, "straight")
    sitk.WriteImage(sitk_image(grid, vectors), str(tmp_path / "f.mha"))
    read_transform(tmp_path / "f.mha", reference=grid)  # a warning would be an error
    for factor, share in ((2.0, "12%"), (0.5, "100%")):
        other = Grid(grid.size, grid.spacing * factor, grid.origin, grid.direction, "mm")
        with pytest.warns(SuspiciousDataWarning, match=f"covers {share} of the fixed image"):
            read_transform(tmp_path / "f.mha", reference=other)


def test_nan_vectors_are_masked_and_counted(tmp_path: Path) -> None:
    """Nodes of NaN mask the points next to them; a warning says how many; a field of NaN alone is refused."""
    grid, vectors = random_field(3, 3, "straight")
    vectors[2, 2, 2] = np.nan
    sitk.WriteImage(sitk_image(grid, vectors), str(tmp_path / "some.mha"))
    with pytest.warns(SuspiciousDataWarning, match=f"1 of {grid.count} vectors are not finite"):
        transform = read_transform(tmp_path / "some.mha")
    points = grid.index_to_world([[2.4, 2.0, 2.0], [1.5, 1.5, 1.5], [3.5, 3.5, 3.5]])
    assert defined(transform, points).tolist() == [False, False, True]
    assert np.isnan(transform.map(points)).all(axis=1).tolist() == [True, True, False]
    sitk.WriteImage(sitk_image(grid, np.full_like(vectors, np.nan)), str(tmp_path / "all.mha"))
    with pytest.raises(FileFormatError, match="no finite vector"):
        read_transform(tmp_path / "all.mha")


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("axes", ["zyx", "xyz"])
@pytest.mark.parametrize(
    ("convention", "first", "by_axes"),
    [("displacement", False, False), ("voxels", False, True), ("voxelmorph", True, True), ("monai", True, True)],
)
def test_arrays_are_read_by_the_name_of_their_convention(
    tmp_path: Path, d: int, axes: str, convention: str, first: bool, by_axes: bool
) -> None:
    """One field laid out by each convention, as .npy and .npz, and with a batch axis: it maps as ITK has it."""
    order = axes[3 - d :] if axes == "zyx" else axes[:d]
    grid, vectors = random_field(4, d, "oblique")
    steps = grid.direction * grid.spacing
    components = vectors @ np.linalg.inv(steps).T if by_axes else vectors
    names = order if by_axes else "xyz"[:d]
    listed = components[..., ["xyz".index(axis) for axis in names]]
    array = listed.transpose([*("zyx"[3 - d :].index(axis) for axis in order), d])
    np.save(tmp_path / "field.npy", np.moveaxis(array, -1, 0) if first else array)
    np.savez_compressed(tmp_path / "field.npz", np.load(tmp_path / "field.npy"))
    np.save(tmp_path / "batch.npy", np.load(tmp_path / "field.npy")[None])
    points = points_within(np.random.default_rng(5), grid, 20, 1e-4)
    expected = map_with_itk(sitk.DisplacementFieldTransform(sitk_image(grid, vectors)), points)
    for name in ("field.npy", "field.npz", "batch.npy"):
        transform = read_transform(tmp_path / name, reference=grid, convention=convention, axes=order)
        np.testing.assert_allclose(transform.map(points), expected, rtol=0, atol=1e-9)


def test_flow_of_scikit_image_is_read_by_its_name() -> None:
    """A shift by two rows and three columns, as optical_flow_tvl1 has it for the moving image."""
    registration = pytest.importorskip("skimage.registration")
    fixed = gaussian_filter(np.random.default_rng(1).normal(size=(60, 80)), 3)
    moving = np.roll(fixed, (2, 3), axis=(0, 1))
    flow = registration.optical_flow_tvl1(fixed / fixed.std(), moving / fixed.std())
    transform = as_transform(flow, convention="skimage", grid=Grid((80, 60)))
    assert np.median(transform.map(Grid((80, 60)).points()) - Grid((80, 60)).points(), axis=0) == pytest.approx(
        [3, 2], abs=0.1
    )


def test_vectors_in_ras_and_to_another_moving_grid(tmp_path: Path) -> None:
    """RAS world vectors change sign in x and y; voxels end in the grid of the moving image."""
    rng = np.random.default_rng(6)
    grid, other = random_grid(rng, 3, "oblique"), random_grid(rng, 3, "flipped")
    vectors = rng.normal(0, 2, (*grid.shape, 3))
    np.save(tmp_path / "f.npy", vectors)
    index = np.array([[2.0, 3.0, 1.0]])
    shift = vectors[1, 3, 2]
    options = {"reference": grid, "axes": "zyx"}
    ras = read_transform(tmp_path / "f.npy", convention="displacement", frame="RAS", **options)
    np.testing.assert_allclose(ras.map(grid.index_to_world(index)), grid.index_to_world(index) + shift * [-1, -1, 1])
    voxels = read_transform(tmp_path / "f.npy", convention="voxels", moving=other, **options)
    np.testing.assert_allclose(voxels.map(grid.index_to_world(index)), other.index_to_world(index + shift[::-1]))


def test_arrays_that_are_not_explained_are_refused(tmp_path: Path) -> None:
    """All that is open is asked for at once, axes only where two orders fit; other options are errors."""
    grid = Grid((4, 5, 6), units="mm")
    np.save(tmp_path / "f.npy", np.zeros((6, 5, 4, 3)))
    np.save(tmp_path / "cube.npy", np.zeros((4, 4, 4, 3)))
    (tmp_path / "m.txt").write_text("1 0 0\n0 1 0\n")
    read_transform(tmp_path / "f.npy", reference=grid, convention="displacement")
    cube: dict[str, Any] = {"reference": Grid((4, 4, 4), units="mm")}
    for name, options, asked in (
        ("f.npy", {}, "--fixed-image"),
        (
            "f.npy",
            {"reference": grid},
            r"give --convention displacement or position or voxels or grid_sample, for instance",
        ),
        (
            "cube.npy",
            {**cube, "convention": "displacement"},
            r"give --axes zyx or xyz, for instance .*--convention displacement --axes zyx",
        ),
        ("f.npy", {"reference": grid, "convention": "voxelmorph"}, r"holds an array of shape \(6, 5, 4, 3\)"),
        ("f.npy", {"reference": grid, "axes": "yx"}, "--axes of a 3D array is"),
        ("f.npy", {"reference": grid, "convention": "vxm"}, "--convention of NumPy transforms must be one of"),
        ("f.npy", {"reference": grid, "convention": "voxels", "frame": "RAS"}, "is for world vectors"),
        ("m.txt", {"axes": "yx"}, "--axes does not apply to .m.txt., which is read as matrix"),
    ):
        with pytest.raises((FileFormatError, InvalidInputError), match=asked):
            read_transform(tmp_path / name, **options)


class TestLearn2Reg:
    """Voxel displacements of the challenges, against their published evaluation code."""

    @staticmethod
    def _evaluated(displacements: Floats, points: Floats) -> Floats:
        """Add the displacement at voxel positions as the challenge does, here with linear interpolation."""
        shift = [map_coordinates(part, points.T, order=1) for part in displacements]
        return points + np.stack(shift, axis=1)

    @pytest.mark.parametrize("store", ["nii.gz", "npz"])
    def test_current_layout(self, tmp_path: Path, store: str) -> None:
        """(X, Y, Z, 3): voxels of the fixed image, in the axis order of nibabel."""
        rng = np.random.default_rng(1)
        grid = Grid((12, 10, 8), (1.75, 1.25, 1.5), (100, 50, -30), np.diag([-1.0, -1.0, 1.0]), "mm")
        displacements = rng.normal(0, 3, (12, 10, 8, 3)).astype(np.float32)
        file = tmp_path / f"disp.{store}"
        if store == "npz":
            np.savez(file, displacements)
        else:
            nifti(file, displacements, LPS @ grid.affine)
        index = rng.uniform(0, 7, (30, 3))
        expected = grid.index_to_world(self._evaluated(np.moveaxis(displacements, -1, 0), index))
        options = {"reference": grid} if store == "npz" else {}
        transform = read_transform(file, convention="learn2reg", **options)
        np.testing.assert_allclose(transform.map(grid.index_to_world(index)), expected, rtol=0, atol=1e-5)

    @pytest.mark.parametrize("half", [False, True])
    def test_layout_of_2020(self, tmp_path: Path, half: bool) -> None:
        """(3, X, Y, Z) in half precision, doubled with zoom(order=2) where it has half the resolution."""
        rng = np.random.default_rng(2)
        fixed = Grid((12, 10, 8), (1.75, 1.25, 1.5), units="mm")
        moving = Grid((12, 10, 8), (1.25, 1.0, 2.0), (5, 6, 7), units="mm")
        shape = (3, 6, 5, 4) if half else (3, 12, 10, 8)
        stored = rng.normal(0, 3, shape).astype(np.float16)
        np.savez_compressed(tmp_path / "disp.npz", stored)
        full = stored.astype(np.float32)
        if half:
            full = np.array([zoom(full[i], 2, order=2) for i in range(3)])
        index = rng.uniform(0, 7, (30, 3))
        expected = moving.index_to_world(self._evaluated(full, index))
        transform = read_transform(tmp_path / "disp.npz", convention="learn2reg-2020", reference=fixed, moving=moving)
        np.testing.assert_allclose(transform.map(fixed.index_to_world(index)), expected, rtol=0, atol=1e-4)
        assert any("half the resolution" in text for text in transform.description.assumptions) == half

    def test_the_layout_has_to_fit(self, tmp_path: Path) -> None:
        """The other layout, a missing grid: one sentence each."""
        np.savez(tmp_path / "d.npz", np.zeros((3, 4, 5, 6), np.float16))
        grid = Grid((4, 5, 6), units="mm")
        with pytest.raises(FileFormatError, match=r"has the shape \(4, 5, 6, 3\)"):
            read_transform(tmp_path / "d.npz", convention="learn2reg", reference=grid)
        with pytest.raises(AmbiguousFileError, match="--fixed-image"):
            read_transform(tmp_path / "d.npz", convention="learn2reg-2020")
        with pytest.raises(FileFormatError, match=r"an array of shape \(3, 4, 5, 6\)"):
            read_transform(tmp_path / "d.npz", convention="learn2reg-2020", reference=Grid((8, 10, 11)))
        nifti(tmp_path / "d.nii", np.zeros((4, 5, 6, 3)), np.eye(4))
        with pytest.raises(AmbiguousFileError, match="identity as its matrix"):
            read_transform(tmp_path / "d.nii", convention="learn2reg")
        for option, said in (
            ({"frame": "index"}, "--frame index is for world"),
            ({"axes": "zyx"}, "--axes does not apply"),
        ):
            with pytest.raises(InvalidInputError, match=said):
                read_transform(tmp_path / "d.nii", convention="learn2reg", reference=grid, **option)
        nifti(tmp_path / "first.nii", np.zeros((3, 4, 5, 6)), np.eye(4))
        with pytest.raises(FileFormatError, match="give --convention voxelmorph"):
            read_transform(tmp_path / "first.nii")


def test_axes_in_another_order_are_no_field_of_learn2reg(tmp_path: Path) -> None:
    """Components first and then z, y, x, as networks write: a shape that the convention does not have is refused."""
    np.savez(tmp_path / "network.npz", np.zeros((3, 12, 10, 8)))
    with pytest.raises(FileFormatError, match="shape"):
        read_transform(tmp_path / "network.npz", convention="learn2reg-2020", reference=Grid((8, 10, 12)))


def fsl_coordinates(index: Floats, affine_ras: Floats, size: tuple[int, ...]) -> Floats:
    """FSL's millimetres by its documentation: voxel times size, x counted from the other end where det > 0."""
    zooms = np.linalg.norm(affine_ras[:3, :3], axis=0)
    voxel = np.array(index, dtype=float)
    if np.linalg.det(affine_ras[:3, :3]) > 0:
        voxel[:, 0] = size[0] - 1 - voxel[:, 0]
    return voxel * zooms


class TestFsl:
    """FSL's own coordinates, by hand."""

    @pytest.mark.parametrize("absolute", [False, True])
    @pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
    def test_warps(self, tmp_path: Path, signs: tuple[int, int], absolute: bool) -> None:
        """A warp takes fixed to moving FSL millimetres, for images of either handedness."""
        rng = np.random.default_rng(1)
        fixed_affine, moving_affine = np.eye(4), np.eye(4)
        fixed_affine[:3, :3] = np.diag([2.0 * signs[0], 2.5, 3.0])
        moving_affine[:3, :3] = np.diag([1.0 * signs[1], 1.5, 2.0])
        fixed_affine[:3, 3], moving_affine[:3, 3] = [-10, -20, -30], [5, 6, -7]
        size, moving_size = (7, 8, 9), (20, 21, 22)
        moving = Grid.from_affine(LPS @ moving_affine, moving_size)
        moving_index = rng.uniform(0, 19, (*size, 3))
        target = fsl_coordinates(moving_index.reshape(-1, 3), moving_affine, moving_size)
        index = np.stack(np.meshgrid(*map(np.arange, size), indexing="ij"), axis=-1).reshape(-1, 3)
        warp = target if absolute else target - fsl_coordinates(index, fixed_affine, size)
        file = nifti(tmp_path / "warp.nii.gz", warp.reshape(*size, 3), fixed_affine, 2006)
        convention = "position" if absolute else "displacement"
        transform = read_transform(file, format="fsl", convention=convention, moving=moving)
        world = Grid.from_affine(LPS @ fixed_affine, size).index_to_world(index)
        expected = (np.c_[moving_index.reshape(-1, 3), np.ones(index.shape[0])] @ (LPS @ moving_affine).T)[:, :3]
        np.testing.assert_allclose(transform.map(world), expected, rtol=0, atol=1e-9)

    def test_flirt_matrices_map_moving_to_fixed(self, tmp_path: Path) -> None:
        """A flirt matrix takes moving to fixed FSL millimetres, so it is inverted."""
        rng = np.random.default_rng(2)
        fixed, moving = random_grid(rng, 3, "straight"), random_grid(rng, 3, "flipped")
        matrix = np.eye(4)
        matrix[:3] = [[1.1, 0.1, 0, 3], [-0.1, 0.9, 0.05, -4], [0, 0.02, 1, 5]]
        np.savetxt(tmp_path / "flirt.mat", matrix)
        index = rng.uniform(0, 5, (10, 3))
        start = fsl_coordinates(index, LPS @ moving.affine, moving.size)
        end = (np.c_[start, np.ones(10)] @ matrix.T)[:, :3]
        fixed_index = end / fixed.spacing
        if np.linalg.det(fixed.direction) > 0:
            fixed_index[:, 0] = fixed.size[0] - 1 - fixed_index[:, 0]
        transform = read_transform(tmp_path / "flirt.mat", format="fsl", reference=fixed, moving=moving)
        mapped = transform.map(fixed.index_to_world(fixed_index))
        np.testing.assert_allclose(mapped, moving.index_to_world(index), rtol=0, atol=1e-9)

    def test_what_fsl_files_do_not_say_is_asked_for(self, tmp_path: Path) -> None:
        """Convention and moving grid have to be given; coefficient files are refused."""
        file = nifti(tmp_path / "w.nii.gz", np.zeros((4, 5, 6, 3)), np.eye(4), 2006)
        grid = Grid((4, 5, 6), units="mm")
        with pytest.raises(AmbiguousFileError, match="--convention displacement"):
            read_transform(file, format="fsl", moving=grid)
        with pytest.raises(AmbiguousFileError, match="--moving"):
            read_transform(file, format="fsl", convention="displacement")
        nifti(file, np.zeros((4, 5, 6, 3)), np.eye(4), 2007)
        with pytest.raises(FileFormatError, match="coefficients"):
            read_transform(file, format="fsl", convention="displacement", moving=grid)
