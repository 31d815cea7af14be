"""Transform files of FreeSurfer, AFNI, MNI, DICOM, BigWarp and bUnwarpJ, against their programs' files or readers."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator
from scipy.spatial.transform import Rotation

from warpgauge.errors import AmbiguousFileError, FileFormatError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import read_transform
from warpgauge.project.transforms import copy_transform

LPS = np.diag([-1.0, -1.0, 1.0, 1.0])


def _ras_matrix() -> Floats:
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_euler("xyz", [0.3, -0.2, 0.1]).as_matrix() * [1.1, 0.9, 1.0]
    matrix[:3, 3] = [4, -7, 2.5]
    return matrix


def _points(count: int = 30) -> Floats:
    return np.random.default_rng(0).uniform(-60, 60, (count, 3))


def _mapped(matrix: Floats, points_lps: Floats) -> Floats:
    """Map LPS points by a RAS matrix, the slow way: through RAS and back."""
    ras = points_lps * [-1, -1, 1]
    return (ras @ matrix[:3, :3].T + matrix[:3, 3]) * [-1, -1, 1]


def _rows(matrix: Floats) -> str:
    return "\n".join(" ".join(map(repr, row)) for row in matrix.tolist())


VOLUME = """{side} volume info
valid = 1  # volume info valid
filename = x.mgz
volume = {size}
voxelsize = {spacing}
xras   = -1 0 0
yras   = 0 0 -1
zras   = 0 1 0
cras   = {centre}
"""
_AXES = np.array([[-1.0, 0, 0], [0, 0, 1], [0, -1, 0]])


def _lta(kind: int, matrix: Floats) -> str:
    info = VOLUME.format(side="src", size="20 30 40", spacing="1 2 3", centre="5 6 7")
    info += VOLUME.format(side="dst", size="24 18 12", spacing="2 2 1", centre="-3 0 1")
    return f"type      = {kind}\nnxforms   = 1\nmean = 0 0 0\nsigma = 1\n1 4 4\n{_rows(matrix)}\n{info}"


def test_lta_of_ras_and_of_voxels(tmp_path: Path) -> None:
    """Both kinds of LTA go from source to destination, so that the map of fixed points is their inverse."""
    matrix, points = _ras_matrix(), _points()
    (tmp_path / "a.lta").write_text(_lta(1, matrix))
    expected = _mapped(np.linalg.inv(matrix), points)
    np.testing.assert_allclose(read_transform(tmp_path / "a.lta").map(points), expected, atol=1e-9)
    source, destination = np.eye(4), np.eye(4)
    source[:3, :3], destination[:3, :3] = _AXES * [1, 2, 3], _AXES * [2, 2, 1]
    source[:3, 3] = [5, 6, 7] - source[:3, :3] @ [10, 15, 20]
    destination[:3, 3] = [-3, 0, 1] - destination[:3, :3] @ [12, 9, 6]
    (tmp_path / "v.lta").write_text(_lta(0, np.linalg.inv(destination) @ matrix @ source))
    np.testing.assert_allclose(read_transform(tmp_path / "v.lta").map(points), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("type      = 0", "type      = 14"), "lta_convert"),
        (("nxforms   = 1", "nxforms   = 2"), "split it"),
        (("cras   = 5 6 7\n", ""), "no 'cras' of its src"),
        (("valid = 1", "valid = 0"), "not valid"),
        (("1 4 4", "1 4"), "4 x 4 matrix"),
    ],
)
def test_lta_that_cannot_be_read(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    (tmp_path / "a.lta").write_text(_lta(0, _ras_matrix()).replace(*change))
    with pytest.raises(FileFormatError, match=problem):
        read_transform(tmp_path / "a.lta")


SAMPLES = Path(os.environ.get("WARPGAUGE_DATA", "/nowhere")) / "transform-samples"
with_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="WARPGAUGE_DATA has no transform-samples")


@with_samples
@pytest.mark.parametrize("name", ["fsnative_to-bold", "fsnative_to-scanner", "scanner_to-bold", "scanner_to-fsnative"])
def test_files_of_freesurfer_itself(name: str) -> None:
    """LTA files of FreeSurfer's programs, RAS and voxels, against the ITK files that lta_convert made of them."""
    folder, points = SAMPLES / "regressions", _points()
    itk = read_transform(folder / f"from-{name}_mode-image.tfm").map(points)
    for file in sorted(folder.glob(f"from-{name}_mode-image*.lta")):
        np.testing.assert_allclose(read_transform(file).map(points), itk, atol=1e-4, err_msg=file.name)


@with_samples
@pytest.mark.parametrize("axes", ["LAS", "LPS", "RAS", "oblique"])
def test_one_affine_of_four_programs(axes: str) -> None:
    """AFNI and NiTransforms' LTA give the points of the ITK file."""
    folder, points = SAMPLES / "affine", _points()
    itk = read_transform(folder / f"affine-{axes}.itk.tfm").map(points)
    np.testing.assert_allclose(read_transform(folder / f"affine-{axes}.afni").map(points), itk, atol=1e-9)
    np.testing.assert_allclose(read_transform(folder / f"affine-{axes}.fs.lta").map(points), itk, atol=1e-4)


def test_afni_matrices(tmp_path: Path) -> None:
    """12 numbers in LPS, base to input; a series is refused."""
    lps = LPS @ _ras_matrix() @ LPS
    row = " ".join(map(repr, lps[:3].ravel().tolist()))
    (tmp_path / "a.aff12.1D").write_text(f"# 3dAllineate matrices (DICOM-to-DICOM, row-by-row):\n{row}\n")
    points = _points()
    expected = _mapped(_ras_matrix(), points)
    np.testing.assert_allclose(read_transform(tmp_path / "a.aff12.1D").map(points), expected, atol=1e-9)
    (tmp_path / "b.aff12.1D").write_text(f"{row}\n{row}\n")
    with pytest.raises(FileFormatError, match="row of one volume"):
        read_transform(tmp_path / "b.aff12.1D")


def test_warps_of_afni(tmp_path: Path) -> None:
    """Displacements of a dataset that AFNI wrote (nibabel's sample), with new values: LPS mm at the base's nodes."""
    sample = Path(nib.__file__).parent / "tests" / "data" / "example4d+orig.HEAD"
    if not sample.is_file():
        pytest.skip("this nibabel comes without its samples")
    affine, shape = nib.load(sample).affine, nib.load(sample).shape
    assert shape[3] == 3
    text = re.sub(r"(name = BRICK_TYPES\s+count = 3\s+)[0-9 ]+", r"\g<1>3 3 3\n", sample.read_text())
    text = re.sub(r"(name = BRICK_FLOAT_FACS\s+count = 3\s+)[0-9. e+-]+", r"\g<1>0 0 0\n", text)
    (tmp_path / "warp+orig.HEAD").write_text(text)
    index = np.indices(shape[:3]).reshape(3, -1).T
    nodes = nib.affines.apply_affine(LPS @ affine, index)
    moved = nodes @ np.array([[0.02, 0.01, 0.0], [0.0, -0.03, 0.02], [0.01, 0.0, 0.04]]) + [1.0, -2.0, 3.0]
    values = moved.astype("<f4").reshape(*shape[:3], 3)
    order = "<" if "LSB_FIRST" in text else ">"
    (tmp_path / "warp+orig.BRIK").write_bytes(values.astype(f"{order}f4").tobytes(order="F"))
    points = nodes[len(nodes) // 2 + np.arange(5)] + 0.3 * (nodes[-1] - nodes[0]) / np.array(shape[:3])
    expected = points + points @ np.array([[0.02, 0.01, 0.0], [0.0, -0.03, 0.02], [0.01, 0.0, 0.04]]) + [1, -2, 3]
    for name in ("warp+orig.HEAD", "warp+orig.BRIK"):
        found = read_transform(tmp_path / name)
        np.testing.assert_allclose(found.map(points), expected, atol=1e-4)
        assert found.description.format == "AFNI"
    (tmp_path / "project").mkdir()
    _, added = copy_transform(tmp_path / "project", "warp", tmp_path / "warp+orig.HEAD", {}, "ada")
    assert sorted(Path(one).suffix for one in added.files) == [".BRIK", ".HEAD"]
    for place, new in ((5, "\0"), (6, "\x1b["), (8, "\0\0")):
        (tmp_path / "broken+orig.HEAD").write_text(text[:place] + new + text[place + 1 :])
        with pytest.raises(FileFormatError) as caught:
            read_transform(tmp_path / "broken+orig.HEAD", format="afni")
        assert str(caught.value).isprintable()
    (tmp_path / "warp+orig.BRIK").write_bytes(b"\0" * 100)
    with pytest.raises(FileFormatError, match="dataset of AFNI"):
        read_transform(tmp_path / "warp+orig.HEAD")


XFM = (
    "MNI Transform File\n% made by a test; Transform_Type = none\n\nTransform_Type = Linear;\nLinear_Transform =\n{};\n"
)


def test_xfm_of_mni(tmp_path: Path) -> None:
    """A linear xfm goes from source to target in RAS; parts follow each other; grids are refused."""
    matrix, points = _ras_matrix(), _points()
    (tmp_path / "a.xfm").write_text(XFM.format(_rows(matrix[:3])))
    expected = _mapped(np.linalg.inv(matrix), points)
    np.testing.assert_allclose(read_transform(tmp_path / "a.xfm").map(points), expected, atol=1e-9)
    twice = XFM.format(_rows(matrix[:3])) + XFM.format(_rows(np.eye(4)[:3] * 2)).partition("none\n")[2]
    (tmp_path / "b.xfm").write_text(twice)
    total = np.diag([2.0, 2.0, 2.0, 1.0]) @ matrix
    expected = _mapped(np.linalg.inv(total), points)
    np.testing.assert_allclose(read_transform(tmp_path / "b.xfm").map(points), expected, atol=1e-9)
    (tmp_path / "c.xfm").write_text(
        "MNI Transform File\nTransform_Type = Grid_Transform;\nDisplacement_Volume = a.mnc;\n"
    )
    with pytest.raises(FileFormatError, match="Grid_Transform"):
        read_transform(tmp_path / "c.xfm")


def _dicom(path: Path, matrix: Floats | None, field: tuple[Grid, Floats] | None = None) -> Path:
    """Write a spatial registration with pydicom: a matrix, or a matrix before, a grid, and a matrix after."""
    pydicom = pytest.importorskip("pydicom")
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, generate_uid

    def registration(values: Floats) -> Dataset:
        one = Dataset()
        one.FrameOfReferenceTransformationMatrix = [float(f"{x:.10g}") for x in values.ravel()]
        one.FrameOfReferenceTransformationMatrixType = "AFFINE"
        return one

    data, item = Dataset(), Dataset()
    kind = "1.2.840.10008.5.1.4.1.1.66.1" if field is None else "1.2.840.10008.5.1.4.1.1.66.3"
    data.SOPClassUID, data.SOPInstanceUID = kind, generate_uid()
    if field is None:
        other = Dataset()
        for one, values in ((item, matrix), (other, np.eye(4))):
            holder = Dataset()
            holder.MatrixSequence = [registration(values)]
            one.MatrixRegistrationSequence = [holder]
        data.RegistrationSequence = [other, item]
    else:
        grid, vectors = field
        nodes = Dataset()
        nodes.ImagePositionPatient = grid.origin.tolist()
        nodes.ImageOrientationPatient = [*grid.direction[:, 0].tolist(), *grid.direction[:, 1].tolist()]
        nodes.GridDimensions, nodes.GridResolution = list(grid.size), grid.spacing.tolist()
        nodes.VectorGridData = np.moveaxis(vectors, 0, -1).astype("<f4").tobytes()
        item.DeformableRegistrationGridSequence = [nodes]
        item.PreDeformationMatrixRegistrationSequence = [registration(matrix)]
        item.PostDeformationMatrixRegistrationSequence = [registration(np.linalg.inv(matrix))]
        data.DeformableRegistrationSequence = [item]
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPClassUID, data.file_meta.MediaStorageSOPInstanceUID = kind, data.SOPInstanceUID
    pydicom.dcmwrite(path, data, enforce_file_format=True)
    return path


def test_dicom_registration_objects(tmp_path: Path) -> None:
    """The matrix is inverted; a deformation is matrix, grid, matrix from the registered system to the source."""
    lps = LPS @ _ras_matrix() @ LPS
    points = _points()
    inverse = np.linalg.inv(lps)
    rigid = read_transform(_dicom(tmp_path / "REG.dcm", lps))
    np.testing.assert_allclose(rigid.map(points), points @ inverse[:3, :3].T + inverse[:3, 3], atol=1e-6)
    grid = Grid((9, 8, 7), (20, 20, 25), (-80, -70, -70), np.eye(3), "mm")
    shift = np.array([3.0, -2.0, 1.0])
    vectors = np.broadcast_to(shift.reshape(3, 1, 1, 1), (3, *grid.shape))
    some = points[:10] / 3
    found = read_transform(_dicom(tmp_path / "DEF.dcm", lps, (grid, vectors))).map(some)
    before = some @ lps[:3, :3].T + lps[:3, 3]
    np.testing.assert_allclose(found, (before + shift) @ inverse[:3, :3].T + inverse[:3, 3], atol=1e-5)


def test_a_dicom_file_that_registers_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="registers 0 images"):
        read_transform(_dicom(tmp_path / "REG.dcm", np.eye(4)))


@pytest.mark.parametrize("d", [2, 3])
def test_bigwarp_is_the_spline_through_its_landmarks(tmp_path: Path, d: int) -> None:
    """Against scipy's thin-plate spline of the same landmarks; inactive ones are left out."""
    rng = np.random.default_rng(d)
    fixed = rng.uniform(0, 100, (12, d))
    moving = fixed + rng.normal(0, 4, (12, d))
    rows = [[f"Pt-{n}", "true", *m, *f] for n, (f, m) in enumerate(zip(fixed.tolist(), moving.tolist(), strict=True))]
    rows.append(["Pt-12", "false", *[90] * d, *[50] * d])
    (tmp_path / "l.csv").write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows) + "\n")
    points = rng.uniform(0, 100, (20, d))
    expected = RBFInterpolator(fixed, moving, kernel="thin_plate_spline", degree=1)(points)
    found = read_transform(tmp_path / "l.csv", format="bigwarp")
    np.testing.assert_allclose(found.map(points), expected, atol=1e-6)
    np.testing.assert_allclose(found.map(fixed), moving, atol=1e-6)


def _cubic(t: float) -> float:
    """The centred cubic B-spline."""
    t = abs(t)
    return 2 / 3 - t * t + t**3 / 2 if t < 1 else (2 - t) ** 3 / 6 if t < 2 else 0.0


def test_bunwarpj_against_the_sum_of_its_splines(tmp_path: Path) -> None:
    """A pixel u has the knot u * intervals / (width - 1) + 1; its position is the sum over the knots."""
    rng, intervals, size = np.random.default_rng(1), 4, (41, 31)
    n = intervals + 3
    coefficients = rng.uniform(0, 30, (2, n, n))
    text = f"Intervals={intervals}\n\n"
    for letter, part in zip("XY", coefficients, strict=True):
        text += f"{letter} Coeffs -----------------------------------\n{_rows(part)}\n\n"
    path = tmp_path / "source_direct_transf.txt"
    path.write_text(text)
    with pytest.raises(AmbiguousFileError, match="reference="):
        read_transform(path)
    fixed, moving = Grid(size, (0.5, 0.5), units="um"), Grid((50, 40), (0.25, 0.25), units="um")
    pixels = rng.uniform(0, np.array(size) - 1, (15, 2))
    found = read_transform(path, reference=fixed, moving=moving).map(pixels * 0.5)
    knots = pixels * intervals / (np.array(size) - 1) + 1
    weights = [[[_cubic(k[axis] - i) for i in range(n)] for k in knots] for axis in (0, 1)]
    expected = np.einsum("cji,pi,pj->pc", coefficients, *weights) * 0.25
    np.testing.assert_allclose(found, expected, atol=1e-9)
