"""NIfTI's own traps: two matrices, units, scales, pairs, byte orders."""

from __future__ import annotations

import gzip
from pathlib import Path

import nibabel
import numpy as np
import pytest

from warpgauge.errors import FileFormatError, SuspiciousDataWarning
from warpgauge.io.images import read_image

sitk = pytest.importorskip("SimpleITK")

ARRAY = np.arange(60, dtype=np.int16).reshape(3, 4, 5)  # [z, y, x]


def nifti(file: Path, array: np.ndarray = ARRAY, affine: np.ndarray | None = None, **fields: object) -> Path:
    """Write a NIfTI file byte by byte as asked, without nibabel's corrections."""
    image = nibabel.Nifti1Image(array.T, np.eye(4) if affine is None else affine)
    raw = bytearray(image.to_bytes())
    for key, value in fields.items():  # after to_bytes, which sets matrices and scale anew
        image.header[key] = value
    raw[:348] = image.header.binaryblock
    raw[344:348] = b"n+1\0"
    raw[108:112] = np.float32(352).tobytes()
    file.write_bytes(gzip.compress(bytes(raw)) if file.name.endswith(".gz") else bytes(raw))
    return file


def with_forms(file: Path, sform: np.ndarray, scode: int, qform: np.ndarray, qcode: int, units: int = 2) -> Path:
    image = nibabel.Nifti1Image(ARRAY.T, None)
    image.header.set_qform(qform, qcode)
    image.header.set_sform(sform, scode)
    image.header["qform_code"], image.header["sform_code"] = qcode, scode
    image.header.set_xyzt_units(units)
    file.write_bytes(image.to_bytes())
    return file


def moved(by: float, scale: float = 2.0) -> np.ndarray:
    matrix = np.diag([scale, scale, scale, 1.0])
    matrix[:3, 3] = by
    return matrix


def test_ras_becomes_lps(tmp_path: Path):
    """A hand-written RAS matrix has x and y of the world negated, in origin and in directions."""
    affine = np.array([[0, -3.0, 0, 7], [2.0, 0, 0, -8], [0, 0, 4.0, 9], [0, 0, 0, 1]])
    grid = read_image(nifti(tmp_path / "x.nii", affine=affine)).grid
    np.testing.assert_array_equal(grid.origin, [-7, 8, 9])
    np.testing.assert_array_equal(grid.spacing, [2, 3, 4])
    np.testing.assert_array_equal(grid.direction, [[0, 1, 0], [-1, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize("scode", [0, 1, 2, 4])
@pytest.mark.parametrize("qcode", [0, 1, 2, 4])
def test_the_matrix_of_two_that_itk_takes(tmp_path: Path, scode: int, qcode: int):
    """Where sform and qform differ the choice is that of SimpleITK, with a warning that has the distance."""
    file = with_forms(tmp_path / "x.nii", moved(3), scode, moved(7), qcode)
    if scode and qcode:
        with pytest.warns(SuspiciousDataWarning, match=r"a corner 6\.93 apart; the .form is used"):
            image = read_image(file)
    else:
        image = read_image(file)
    np.testing.assert_array_equal(image.grid.origin, sitk.ReadImage(str(file)).GetOrigin())
    word = {0: "Neither"}.get(scode + qcode, "form")
    assert any(word in sentence for sentence in image.assumptions)


def test_a_sheared_sform_is_refused(tmp_path: Path):
    """A shear cannot be a Grid: one sentence, with the cosine."""
    sheared = moved(3)
    sheared[0, 1] = 2.0
    file = with_forms(tmp_path / "x.nii", sheared, 2, moved(3), 0)
    with pytest.raises(FileFormatError, match=r"'x\.nii' has sheared axes \(two of them have a cosine of 0\.707"):
        read_image(file)


def test_a_sheared_sform_beside_a_good_qform_gives_way(tmp_path: Path):
    """As in ITK the qform is used then, with a warning."""
    sheared = moved(3)
    sheared[0, 1] = 2.0
    file = with_forms(tmp_path / "x.nii", sheared, 1, moved(7), 1)
    with pytest.warns(SuspiciousDataWarning, match="the qform is used"):
        grid = read_image(file).grid
    np.testing.assert_array_equal(grid.origin, sitk.ReadImage(str(file)).GetOrigin())


@pytest.mark.parametrize(
    ("code", "units", "spacing"), [(0, "mm", 2.0), (1, "mm", 2000.0), (2, "mm", 2.0), (3, "um", 2.0)]
)
def test_units_of_length(tmp_path: Path, code: int, units: str, spacing: float):
    """Metres become mm, microns stay um, and an unknown unit is said to be taken as mm."""
    image = read_image(with_forms(tmp_path / "x.nii", moved(3), 1, moved(3), 1, code))
    assert image.grid.units == units
    np.testing.assert_allclose(image.grid.spacing, spacing)
    np.testing.assert_allclose(image.grid.origin, np.array([-3, -3, 3]) * spacing / 2)
    assert any("does not say the unit" in s for s in image.assumptions) == (code == 0)


def test_no_matrix_and_no_unit_is_pixels(tmp_path: Path):
    """Neither form, no unit and pixdim 1: pixels, not a silent 1 mm."""
    file = nifti(tmp_path / "x.nii", qform_code=0, sform_code=0, xyzt_units=0)
    image = read_image(file)
    assert image.grid.units == "px"
    np.testing.assert_array_equal(image.grid.affine, np.eye(4))
    assert "The file has no physical spacing: spacing 1 and units px." in image.assumptions


def test_no_matrix_but_pixdim_is_stated(tmp_path: Path):
    """Neither form but a pixdim: SimpleITK's frame, and a sentence that says what was assumed."""
    pixdim = [1, 0.5, 0.75, 3, 1, 1, 1, 1]
    file = nifti(tmp_path / "x.nii", qform_code=0, sform_code=0, xyzt_units=2, pixdim=pixdim)
    image, reference = read_image(file), sitk.ReadImage(str(file))
    np.testing.assert_array_equal(image.grid.spacing, reference.GetSpacing())
    np.testing.assert_array_equal(image.grid.origin, reference.GetOrigin())
    np.testing.assert_array_equal(image.grid.direction.ravel(), reference.GetDirection())
    assert any(s.startswith("Neither sform nor qform is set") for s in image.assumptions)


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
@pytest.mark.parametrize(
    ("slope", "intercept", "dtype"), [(0.5, 3.0, "float32"), (2.0, -1000.0, "int32"), (1.0, 5.0, "int32")]
)
def test_scale_of_the_header_is_applied(tmp_path: Path, ending: str, slope: float, intercept: float, dtype: str):
    """Samples are slope * stored + intercept, as in SimpleITK and nibabel, and the image says so."""
    file = nifti(tmp_path / f"x{ending}", scl_slope=slope, scl_inter=intercept)
    image = read_image(file)
    assert image.dtype == image.read().dtype == np.dtype(dtype)
    np.testing.assert_array_equal(image.read(), sitk.GetArrayFromImage(sitk.ReadImage(str(file))))
    np.testing.assert_array_equal(image.read(), nibabel.load(file).get_fdata().T)
    np.testing.assert_array_equal(image.plane(2, 1), slope * ARRAY[1] + intercept)
    assert any("rescaled" in s for s in image.assumptions)


@pytest.mark.parametrize(
    ("stored", "slope", "intercept", "expected"),
    [
        ("uint8", 1, -1024, "int16"),
        ("uint16", 1, -1024, "int32"),
        ("int32", 0.5, 0, "float64"),
        ("float32", 0.5, 0, "float32"),
        ("uint32", 1, -1, "int64"),
    ],
)
def test_rescaled_types_hold_every_value(tmp_path: Path, stored: str, slope: float, intercept: float, expected: str):
    """Whole scales give the smallest integers that hold the range of the stored type, others floats."""
    file = nifti(tmp_path / "x.nii", ARRAY.astype(stored), scl_slope=slope, scl_inter=intercept)
    assert read_image(file).read().dtype == np.dtype(expected)


@pytest.mark.parametrize(("slope", "intercept"), [(0.0, 5.0), (np.nan, np.nan), (1.0, 0.0)])
def test_no_scale_leaves_the_samples(tmp_path: Path, slope: float, intercept: float):
    """A slope of 0 or NaN means none, by the standard."""
    image = read_image(nifti(tmp_path / "x.nii", scl_slope=slope, scl_inter=intercept))
    assert image.dtype == np.int16
    np.testing.assert_array_equal(image.read(), ARRAY)


def test_big_endian_pair_and_nifti2(tmp_path: Path):
    """The other byte order, a .hdr/.img pair and NIfTI-2 give the same samples and frame."""
    affine = moved(3)
    big = nibabel.Nifti1Image(ARRAY.T, affine, nibabel.Nifti1Header(endianness=">"))
    big.to_filename(tmp_path / "big.nii")
    assert (tmp_path / "big.nii").read_bytes()[:4] == b"\0\0\x01\\"
    nibabel.Nifti1Pair(ARRAY.T, affine).to_filename(tmp_path / "pair.hdr")
    nibabel.Nifti2Image(ARRAY.T, affine).to_filename(tmp_path / "two.nii.gz")
    for name in ("big.nii", "pair.hdr", "pair.img", "two.nii.gz"):
        image = read_image(tmp_path / name)
        np.testing.assert_array_equal(image.read(), ARRAY)
        np.testing.assert_array_equal(image.grid.origin, [-3, -3, 3])
    (tmp_path / "pair.img").unlink()
    with pytest.raises(FileFormatError, match=r"'pair\.img' is not next to it"):
        read_image(tmp_path / "pair.hdr")


def test_a_plain_file_is_mapped_and_not_read_whole(tmp_path: Path):
    """A plane of a plain NIfTI comes from a memory map: no array of the size of the volume is allocated."""
    import tracemalloc

    shape = (64, 256, 256)
    data = np.zeros(shape, np.float32)
    data[40] = 7
    nifti(tmp_path / "big.nii", data)
    image = read_image(tmp_path / "big.nii")
    tracemalloc.start()
    plane = image.plane(2, 40)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(plane, 7)
    assert peak < 4 * plane.nbytes < data.nbytes / 10


def test_a_single_4d_volume_is_read_and_several_are_not(tmp_path: Path):
    """A fourth axis of 1 is no matter; one of 2 is refused with what to do."""
    one = nifti(tmp_path / "one.nii", ARRAY[None])
    np.testing.assert_array_equal(read_image(one).read(), ARRAY)
    two = nifti(tmp_path / "two.nii", np.stack([ARRAY, ARRAY]))
    with pytest.raises(FileFormatError, match=r"several volumes or vectors \(2 numbers at a voxel\).*save one volume"):
        read_image(two)


def test_a_volume_of_one_slice_stays_a_volume(tmp_path: Path):
    """A file that says three dimensions is 3D, as in SimpleITK, even with one slice."""
    file = nifti(tmp_path / "x.nii", ARRAY[:1])
    assert read_image(file).grid.size == sitk.ReadImage(str(file)).GetSize() == (5, 4, 1)


def test_a_tilted_2d_file_is_refused(tmp_path: Path):
    """A 2D image whose plane leaves the x-y plane of the world has no 2D points."""
    tilted = np.array([[1.0, 0, 0, 0], [0, 0, -1.0, 0], [0, 1.0, 0, 0], [0, 0, 0, 1]])
    file = nifti(tmp_path / "x.nii", ARRAY[0], tilted)
    with pytest.raises(FileFormatError, match="tilted out of the x-y plane"):
        read_image(file)


def test_analyze_is_refused(tmp_path: Path):
    """A header without NIfTI's mark has no direction that can be trusted."""
    nibabel.AnalyzeImage(ARRAY.T, np.eye(4)).to_filename(tmp_path / "a.hdr")
    with pytest.raises(FileFormatError, match=r"'a\.hdr' is named as NIfTI, but its content is not"):
        read_image(tmp_path / "a.hdr")


def test_complex_samples_are_refused(tmp_path: Path):
    """Complex samples are no intensities."""
    file = nifti(tmp_path / "x.nii", ARRAY.astype(np.complex64))
    with pytest.raises(FileFormatError, match="complex64"):
        read_image(file)


def test_a_truncated_gzip_is_found_on_opening_and_members_are_joined(tmp_path: Path):
    """A cut file of many blocks is refused on opening; one of two gzip members, whose trailer tells less, is read."""
    noise = np.random.default_rng(0).normal(size=(20, 30, 40)).astype(np.float32)
    file = nifti(tmp_path / "x.nii.gz", noise)
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(FileFormatError, match=r"'x\.nii\.gz' cannot be read as NIfTI: .*end"):
        read_image(file)
    raw = gzip.decompress(data)
    file.write_bytes(gzip.compress(raw[:50_000]) + gzip.compress(raw[50_000:]))
    np.testing.assert_array_equal(read_image(file).read(), noise)
    file.write_bytes(gzip.compress(raw[:-1000]))  # a whole gzip file of too few samples
    with pytest.raises(FileFormatError, match="its packed samples end after 95000 of 96000 bytes"):
        read_image(file)


def test_headers_that_describe_no_image(tmp_path: Path):
    """Impossible dimensions, colours and a pixdim without a unit each get their own words."""
    with pytest.raises(FileFormatError, match=r"dimensions \[3, 5, -4, 3, .*which no image has"):
        read_image(nifti(tmp_path / "x.nii", dim=[3, 5, -4, 3, 1, 1, 1, 1]))
    with pytest.raises(FileFormatError, match="1 dimension"):
        read_image(nifti(tmp_path / "x.nii", np.zeros(7, np.float32)))
    with pytest.raises(FileFormatError, match="holds colours"):
        read_image(nifti(tmp_path / "x.nii", datatype=128, bitpix=24))
    spacing = [1, 0.5, 0.75, 3, 1, 1, 1, 1]
    image = read_image(nifti(tmp_path / "x.nii", qform_code=0, sform_code=0, xyzt_units=0, pixdim=spacing))
    assert image.grid.units == "mm"
    assert any("taken to be mm" in s for s in image.assumptions)
