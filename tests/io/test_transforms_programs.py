"""Transform files of FreeSurfer, AFNI, MNI and BigWarp, against their programs' files or readers."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import struct
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator
from scipy.spatial.transform import Rotation

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError
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


def test_a_series_of_afni_matrices_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.aff12.1D").write_text(f"{' '.join(['1'] * 12)}\n" * 2)
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
    with pytest.raises(FileFormatError, match="format 'afni'"):
        read_transform(tmp_path / "warp+orig.HEAD")


XFM = (
    "MNI Transform File\n% made by a test; Transform_Type = none\n\nTransform_Type = Linear;\nLinear_Transform =\n{};\n"
)


def test_xfm_of_mni(tmp_path: Path) -> None:
    """A linear xfm goes from source to target in RAS; parts follow each other; splines are refused."""
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
        "MNI Transform File\nTransform_Type = Thin_Plate_Spline_Transform;\nNumber_Dimensions = 3;\n"
    )
    with pytest.raises(FileFormatError, match="type 'Thin_Plate_Spline_Transform'"):
        read_transform(tmp_path / "c.xfm")


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


_SIDES = {  # size, spacing, centre of the source and of the target
    "source": ((20, 24, 18), (1.5, 1.2, 2.0), (4.0, -3.0, 7.0)),
    "target": ((12, 10, 14), (2.0, 2.5, 1.8), (1.0, 2.0, 3.0)),
}


def _volume(side: str) -> tuple[bytes, Floats]:
    """Bytes of a volume's geometry, axes as of a conformed image, and its matrix from voxels to RAS."""
    size, spacing, centre = _SIDES[side]
    matrix = np.eye(4)
    matrix[:3, :3] = _AXES * spacing
    matrix[:3, 3] = centre - matrix[:3, :3] @ (np.array(size) / 2)
    return struct.pack(">4i15f512s", 1, *size, *spacing, *_AXES.T.ravel(), *centre, b"x.mgz"), matrix


def _warped(index: Floats) -> tuple[Floats, Floats, Floats]:
    """RAS of voxels of the target, the RAS that they go to, and that in voxels of the source."""
    source, target = _volume("source")[1], _volume("target")[1]
    ras = index @ target[:3, :3].T + target[:3, 3]
    moved = ras + np.stack([0.05 * ras[:, 1], 1 - 0.03 * ras[:, 2], 0.1 * ras[:, 0]], axis=1)
    return ras, moved, (moved - source[:3, 3]) @ np.linalg.inv(source[:3, :3]).T


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_warps_of_freesurfer(tmp_path: Path, kind: int) -> None:
    """The four kinds of .mgz, laid out as FreeSurfer and surfa do."""
    count = _SIDES["target"][0]
    index = np.stack(np.meshgrid(*(np.arange(n) for n in count), indexing="ij"), axis=-1).reshape(-1, 3)
    ras, moved, voxels = _warped(index.astype(float))
    geometry = struct.pack(">i", 10) + _volume("source")[0] + _volume("target")[0]
    values = [voxels, voxels - index, moved, moved - ras][kind]
    content = struct.pack(">7i", (3 << 8) | 1, *count, 3, 3, 1) + bytes(256)
    content += values.reshape(*count, 3).astype(">f4").tobytes(order="F") + bytes(20)
    content += struct.pack(">iq", 41, 7) + b"UNKNOWN" + geometry + struct.pack(">iqiif", 13, 12, kind, 1, 0.0)
    path = tmp_path / "a.mgz"
    path.write_bytes(gzip.compress(content))
    np.testing.assert_allclose(read_transform(path).map(ras * [-1, -1, 1]), moved * [-1, -1, 1], atol=1e-4)
    invalid = geometry[:4] + bytes(4) + geometry[8:]
    for broken, problem in ((content[:-700], "truncated"), (content.replace(geometry, invalid), "not valid")):
        path.write_bytes(gzip.compress(broken))
        with pytest.raises(FileFormatError, match=problem):
            read_transform(path)


def test_a_morph_of_freesurfer_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "talairach.m3z"
    path.write_bytes(gzip.compress(struct.pack(">f4if", 1.0, 4, 4, 4, 1, 20.0) + bytes(64 * 36)))
    with pytest.raises(FileFormatError, match="mri_warp_convert"):
        read_transform(path)


def _of_deeperhistreg(folder: Path) -> Path:
    """Write a field of x + 0.1 and y + 0.05 x - 0.02 in shares of half the padded image, as its savers do.

    A source of 300 x 200 and a target of 260 x 240 pixels were loaded at a half, padded to 150 x 120, and halved.
    """
    _, x = np.mgrid[:60, :75]
    across = (2 * x + 1) / 75 - 1
    field = np.stack([np.full(x.shape, 0.1) * 75 / 2, (0.05 * across - 0.02) * 60 / 2]).astype("<f4")
    header = "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
    header += "TransformMatrix = 1 0 0 0 1 0 0 0 1\nOffset = 0 0 0\nElementSpacing = 1 1 1\nDimSize = 75 60 2\n"
    header += "ElementType = MET_FLOAT\nElementDataFile = LOCAL\n"
    (folder / "displacement_field.mha").write_bytes(header.encode() + field.tobytes())
    record = {"pad_1": [[10, 10], [0, 0]], "pad_2": [[0, 0], [10, 10]], "source_resample_ratio": 0.5}
    record |= {"target_resample_ratio": 0.5, "initial_resampling": True, "initial_resample_ratio": 2.0}
    (folder / "postprocessing_params.json").write_text(json.dumps(record))
    return folder / "displacement_field.mha"


def test_deeperhistreg_with_its_padding(tmp_path: Path) -> None:
    """The images as they were given, and at a third of their size: the same places of the same picture."""
    path = _of_deeperhistreg(tmp_path)
    pixels = np.random.default_rng(4).uniform([60, 30], [200, 200], (20, 2))
    padded = (pixels + 0.5) / 2 + [10, 0]  # from the edge
    shares = 2 * padded / [150, 120] - 1
    moved = shares + np.stack([np.full(20, 0.1), 0.05 * shares[:, 0] - 0.02], axis=1)
    expected = ((moved + 1) / 2 * [150, 120] - [0, 10]) * 2 - 0.5
    found = read_transform(path, reference=Grid((260, 240)), moving=Grid((300, 200)))
    np.testing.assert_allclose(found.map(pixels), expected, atol=1e-4)
    small = read_transform(path, reference=Grid((87, 80)), moving=Grid((100, 67)))
    third = (small.map((pixels + 0.5) / 3 - 0.5) + 0.5) * 3 - 0.5
    assert np.abs(third - expected).max() < 2  # a field's node has 4 pixels, of which one may be cut off at the end
    with pytest.raises(InvalidInputError, match="the fixed image has 240 x 260"):
        read_transform(path, reference=Grid((240, 260)), moving=Grid((300, 200)))
    with pytest.raises(AmbiguousFileError, match="padded"):
        read_transform(path)
    (tmp_path / "postprocessing_params.json").write_text('{"pad_1": [[0, 0], [0, 0]]}')
    with pytest.raises(FileFormatError, match="damaged"):
        read_transform(path, reference=Grid((260, 240)), moving=Grid((300, 200)))
    (tmp_path / "postprocessing_params.json").unlink()
    with pytest.raises(FileFormatError, match="copy that file there"):
        read_transform(path, reference=Grid((260, 240)), moving=Grid((300, 200)))


@pytest.mark.parametrize("kind", ["hdr", "mhd", "nhdr", "deeperhistreg"])
def test_both_files_of_a_transform_come_into_a_project(tmp_path: Path, kind: str) -> None:
    """A field in two files is read from its copy, also when the files that were given are gone."""
    given, folder, grid = tmp_path / "given", tmp_path / "project", Grid((9, 8, 7), units="mm")
    given.mkdir()
    folder.mkdir()
    values = np.zeros((7, 8, 9, 3), dtype="<f4")
    values[...] = [1.5, -2.0, 0.5]
    if kind == "deeperhistreg":
        path, grid = _of_deeperhistreg(given), Grid((260, 240))
    elif kind == "hdr":
        pair = nib.Nifti1Pair(values.transpose(2, 1, 0, 3)[:, :, :, None], np.diag([-1, -1, 1, 1]))
        pair.header.set_intent(1007, name="warpgauge")
        nib.save(pair, path := given / "field.hdr")
    else:
        (given / "field.raw").write_bytes(values.tobytes())
        text = {
            "mhd": "ObjectType = Image\nNDims = 3\nDimSize = 9 8 7\nElementSpacing = 1 1 1\n"
            "ElementNumberOfChannels = 3\nElementType = MET_FLOAT\nElementDataFile = field.raw\n",
            "nhdr": "NRRD0004\ntype: float\ndimension: 4\nsizes: 3 9 8 7\nkinds: vector domain domain domain\n"
            "space: left-posterior-superior\nspace directions: none (1,0,0) (0,1,0) (0,0,1)\nspace origin: (0,0,0)\n"
            "endian: little\nencoding: raw\ndata file: field.raw\n",
        }[kind]
        (path := given / f"field.{kind}").write_text(text)
    _, added = copy_transform(folder, "field", path, {}, "ada")
    expected = read_transform(path, reference=grid, moving=Grid((300, 200)) if grid.d == 2 else grid)
    shutil.rmtree(given)
    assert len(added.files) == 2
    copied = read_transform(folder / added.files[0], reference=grid, moving=Grid((300, 200)) if grid.d == 2 else grid)
    points = np.random.default_rng(1).uniform(1, 5, (10, grid.d)) + (100 if grid.d == 2 else 0)
    moved = copied.map(points)
    np.testing.assert_array_equal(moved, expected.map(points))
    if grid.d == 3:
        np.testing.assert_allclose(moved - points, np.broadcast_to([1.5, -2.0, 0.5], points.shape), atol=1e-6)
