"""NRRD's and MetaImage's own traps, on files written by hand and held against SimpleITK."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import nrrd
import numpy as np
import pytest

from warpgauge.errors import FileFormatError
from warpgauge.io.images import Image, read_image

sitk = pytest.importorskip("SimpleITK")

ARRAY = np.arange(24, dtype=np.int16).reshape(2, 3, 4) * 100 - 700  # [z, y, x]
AXES = "space directions: (1,0,0) (0,2,0) (0,0,3)\nspace origin: (10,20,30)\n"


def write_nrrd(file: Path, fields: str, data: bytes, sizes: str = "4 3 2", kind: str = "int16") -> Path:
    head = f"NRRD0004\n# by hand\ntype: {kind}\ndimension: {len(sizes.split())}\nsizes: {sizes}\n{fields}\n"
    file.write_bytes(head.encode() + data)
    return file


def write_meta(file: Path, fields: str, data: bytes) -> Path:
    file.write_bytes(f"ObjectType = Image\nNDims = 3\nDimSize = 4 3 2\n{fields}".encode() + data)
    return file


def assert_like_simpleitk(image: Image, file: Path) -> None:
    reference = sitk.ReadImage(str(file))
    np.testing.assert_allclose(image.grid.origin, reference.GetOrigin(), atol=1e-12)
    np.testing.assert_allclose(image.grid.spacing, reference.GetSpacing(), atol=1e-12)
    np.testing.assert_allclose(image.grid.direction.ravel(), reference.GetDirection(), atol=1e-12)
    np.testing.assert_array_equal(image.read(), sitk.GetArrayFromImage(reference))


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ("space: left-posterior-superior\n", None),
        ("space: LPS\n", None),
        ("space: right-anterior-superior\n", "turned into LPS"),
        ("space: RAS\n", "turned into LPS"),
        ("space: left-anterior-superior\n", "turned into LPS"),
        ("space: LAS\n", "turned into LPS"),
        ("space: scanner-xyz\n", "'scanner-xyz'; it is read as LPS"),
        ("space dimension: 3\n", "'not named'; it is read as LPS"),
    ],
)
def test_nrrd_spaces(tmp_path: Path, space: str, said: str | None):
    """Known worlds are turned into LPS, an unknown one is read as LPS and said so; always as SimpleITK does."""
    file = write_nrrd(tmp_path / "x.nrrd", space + AXES + "endian: little\nencoding: raw\n", ARRAY.tobytes())
    image = read_image(file)
    assert_like_simpleitk(image, file)
    assert any("LPS" in s for s in image.assumptions) == (said is not None)
    assert said is None or any(said in s for s in image.assumptions)


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("raw", bytes), ("gzip", gzip.compress), ("gz", gzip.compress)],
)
@pytest.mark.parametrize("endian", ["little", "big"])
def test_nrrd_encodings(tmp_path: Path, encoding: str, pack, endian: str):
    """Every encoding and byte order gives the same samples, equal to pynrrd's."""
    data = pack(ARRAY.astype(">i2" if endian == "big" else "<i2").tobytes())
    file = write_nrrd(tmp_path / "x.nrrd", f"space: LPS\n{AXES}endian: {endian}\nencoding: {encoding}\n", data)
    image = read_image(file)
    np.testing.assert_array_equal(image.read(), ARRAY)
    np.testing.assert_array_equal(image.read(), nrrd.read(str(file), index_order="C")[0])
    np.testing.assert_array_equal(image.plane(0, 3), ARRAY[:, :, 3])


def test_nrrd_without_spacing_is_pixels(tmp_path: Path):
    """No spacings and no directions: an explicit px."""
    image = read_image(write_nrrd(tmp_path / "x.nrrd", "endian: little\nencoding: raw\n", ARRAY.tobytes()))
    assert image.grid.units == "px"
    np.testing.assert_array_equal(image.grid.affine, np.eye(4))
    assert "The file has no physical spacing: spacing 1 and units px." in image.assumptions


@pytest.mark.parametrize(
    ("unit", "units", "factor"), [("um", "um", 1), ("mm", "mm", 1), ("cm", "mm", 10), ("nm", "um", 1e-3)]
)
def test_nrrd_units(tmp_path: Path, unit: str, units: str, factor: float):
    """The header's unit of length is used; other lengths are converted."""
    said = " ".join([f'"{unit}"'] * 3)
    fields = f"space: LPS\n{AXES}space units: {said}\nendian: little\nencoding: raw\n"
    grid = read_image(write_nrrd(tmp_path / "x.nrrd", fields, ARRAY.tobytes())).grid
    assert grid.units == units
    np.testing.assert_allclose(grid.spacing, np.array([1, 2, 3]) * factor)
    np.testing.assert_allclose(grid.origin, np.array([10, 20, 30]) * factor)


def test_nrrd_detached_and_skips(tmp_path: Path):
    """A detached header, with bytes to skip, and 'byte skip: -1' for data at the end."""
    (tmp_path / "x.raw").write_bytes(b"xyz" + ARRAY.tobytes())
    fields = "endian: little\nencoding: raw\nbyte skip: 3\ndata file: x.raw\n"
    np.testing.assert_array_equal(read_image(write_nrrd(tmp_path / "a.nhdr", fields, b"")).read(), ARRAY)
    fields = "endian: little\nencoding: raw\nbyte skip: -1\ndata file: x.raw\n"
    np.testing.assert_array_equal(read_image(write_nrrd(tmp_path / "b.nhdr", fields, b"")).read(), ARRAY)


@pytest.mark.parametrize(
    ("fields", "sizes", "reason"),
    [
        ("endian: little\nencoding: raw\ndata file: ../x.raw\n", "4 3 2", "plain name of a file next to the header"),
        ("endian: little\nencoding: raw\ndata file: /etc/passwd\n", "4 3 2", "plain name of a file next to the header"),
        ("endian: little\nencoding: raw\ndata file: LIST\n", "4 3 2", "several files"),
        ("endian: little\nencoding: raw\ndata file: x%03d.raw 1 9 1\n", "4 3 2", "several files"),
        ("endian: little\nencoding: hex\n", "4 3 2", "encoding 'hex'"),
        ("encoding: raw\n", "4 3 2", "does not say endian"),
        ("endian: little\n", "4 3 2", "no field 'encoding'"),
        ("endian: little\nencoding: raw\n", "24", "2 or 3 are read"),
        ("endian: little\nencoding: raw\n", "4 3 2 1 1", "2 or 3 are read"),
        ("endian: little\nencoding: raw\n", "4 3 -2", "positive whole numbers"),
        ("endian: little\nencoding: raw\nkinds: domain domain time\n", "4 3 2", "2 numbers at a voxel"),
        ("endian: little\nencoding: raw\nspacings: 1 0 1\n", "4 3 2", "positive numbers"),
        ("endian: little\nencoding: raw\nspacings: 1 1\n", "4 3 2", "3 numbers are expected"),
        ("endian: little\nencoding: raw\nspace: LPS\nspace directions: (1,0,0) (1,2,0) (0,0,3)\n", "4 3 2", "sheared"),
        ("endian: little\nencoding: raw\nspace: LPS\nspace directions: (1,0) (0,2)\n", "4 3 2", "3 vectors"),
        ("endian: little\nencoding: raw\nspace: LPS\nspace directions: (nan,0,0) (0,2,0) (0,0,3)\n", "4 3 2", "finite"),
        ("no colon here\n", "4 3 2", "'field: value' is expected"),
        ("endian: little\nencoding: raw\nkinds: domain domain\n", "4 3 2", "2 kinds for 3 axes"),
        ("endian: little\nencoding: raw\nspacings: a b c\n", "4 3 2", "3 numbers are expected"),
        ("endian: little\nencoding: raw\nspace: LPS\nspace directions: (a,b,c) (0,2,0) (0,0,3)\n", "4 3 2", "vectors"),
        ("endian: little\nencoding: raw\nspace: LPS\n" + AXES.replace("10,20,30", "1"), "4 3 2", "space origin"),
        ("endian: little\nencoding: raw\nbyte skip: -7\n", "4 3 2", "a whole number is expected"),
        ("endian: little\nencoding: raw\nline skip: 99\n", "4 3 2", "line skip"),
        ("endian: little\nencoding: raw\nbyte skip: -1\n", "40 30 20", "promises 48000 bytes"),
        ("endian: little\nencoding: text\n", "4 3 2", "raw and gzip are read"),
        ("endian: little\nencoding: raw\nspacings: 1 1 1\naxis mins: 1 2 3\n", "4 3 2", "'axis mins'"),
    ],
)
def test_nrrd_refusals(tmp_path: Path, fields: str, sizes: str, reason: str):
    """Each thing that cannot be read is refused with its reason."""
    file = write_nrrd(tmp_path / "x.nrrd", fields, ARRAY.tobytes(), sizes)
    with pytest.raises(FileFormatError, match=reason):
        read_image(file)


def test_nrrd_with_an_unknown_spacing_is_pixels(tmp_path: Path):
    """NaN is how NRRD says that a spacing is not known: then none is used, and said."""
    fields = "spacings: 1 nan 1\nendian: little\nencoding: raw\n"
    image = read_image(write_nrrd(tmp_path / "x.nrrd", fields, ARRAY.tobytes()))
    assert image.grid.units == "px"
    assert any("not known along every axis" in s for s in image.assumptions)


@pytest.mark.parametrize("matrix", ["TransformMatrix", "Rotation", "Orientation"])
@pytest.mark.parametrize("origin", ["Offset", "Position", "Origin"])
def test_metaimage_matrix_is_by_rows_of_axes(tmp_path: Path, matrix: str, origin: str):
    """Each row of the text is the direction of one axis; a reading by columns would be caught here."""
    fields = (
        f"{matrix} = 0 1 0 0 0 1 1 0 0\n{origin} = 10 20 30\nElementSpacing = 0.5 2 3\nElementType = MET_SHORT\n"
        "ElementDataFile = LOCAL\n"
    )
    file = write_meta(tmp_path / "x.mha", fields, ARRAY.tobytes())
    image = read_image(file)
    assert_like_simpleitk(image, file)
    np.testing.assert_array_equal(image.grid.direction[:, 0], [0, 1, 0])
    np.testing.assert_array_equal(image.grid.index_to_world([1, 0, 0]), [10, 20.5, 30])


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("key", ["BinaryDataByteOrderMSB", "ElementByteOrderMSB"])
@pytest.mark.parametrize("big", [True, False])
def test_metaimage_bytes(tmp_path: Path, packed: bool, key: str, big: bool):
    """Both byte orders, plain and compressed, as SimpleITK reads them."""
    data = ARRAY.astype(">i2" if big else "<i2").tobytes()
    data = zlib.compress(data) if packed else data
    fields = (
        f"BinaryData = True\n{key} = {big}\nCompressedData = {packed}\nCompressedDataSize = {len(data)}\n"
        f"ElementSpacing = 1 1 1\nElementType = MET_SHORT\nElementDataFile = LOCAL\n"
    )
    if not packed:
        fields = fields.replace(f"CompressedDataSize = {len(data)}\n", "")
    file = write_meta(tmp_path / "x.mha", fields, data)
    image = read_image(file)
    np.testing.assert_array_equal(image.read(), ARRAY)
    assert_like_simpleitk(image, file)


def test_metaimage_header_size(tmp_path: Path):
    """HeaderSize skips bytes of the data file, and -1 takes its end."""
    (tmp_path / "x.raw").write_bytes(b"junk!" + ARRAY.tobytes())
    for skip in ("5", "-1"):
        fields = f"HeaderSize = {skip}\nElementType = MET_SHORT\nElementDataFile = x.raw\n"
        file = write_meta(tmp_path / "x.mhd", fields, b"")
        np.testing.assert_array_equal(read_image(file).read(), ARRAY)
        np.testing.assert_array_equal(sitk.GetArrayFromImage(sitk.ReadImage(str(file))), ARRAY)


def test_metaimage_without_spacing_is_pixels(tmp_path: Path):
    """No ElementSpacing: px, and the unused Offset is named."""
    fields = "Offset = 1 2 3\nElementType = MET_SHORT\nElementDataFile = LOCAL\n"
    image = read_image(write_meta(tmp_path / "x.mha", fields, ARRAY.tobytes()))
    assert image.grid.units == "px"
    np.testing.assert_array_equal(image.grid.affine, np.eye(4))
    assert any("Offset and TransformMatrix are not used" in s for s in image.assumptions)


def test_metaimage_units(tmp_path: Path):
    """DistanceUnits is used where it is there; otherwise mm is assumed and said."""
    fields = "ElementSpacing = 1 2 3\n{}ElementType = MET_SHORT\nElementDataFile = LOCAL\n"
    said = read_image(write_meta(tmp_path / "a.mha", fields.format("DistanceUnits = um\n"), ARRAY.tobytes()))
    assert said.grid.units == "um"
    assumed = read_image(write_meta(tmp_path / "b.mha", fields.format(""), ARRAY.tobytes()))
    assert assumed.grid.units == "mm"
    assert any("taken to be mm" in s for s in assumed.assumptions)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("ElementType = MET_SHORT\nElementDataFile = ../x.raw\n", "plain name of a file next to the header"),
        ("ElementType = MET_SHORT\nElementDataFile = /etc/passwd\n", "plain name of a file next to the header"),
        ("ElementType = MET_SHORT\nElementDataFile = LIST\n", "several files"),
        ("BinaryData = False\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "written as text"),
        ("ElementType = MET_SHORT\nElementDataFile = x%02d.raw 1 2 1\n", "several files"),
        ("ElementType = MET_SHORT\nElementDataFile = gone.raw\n", "not next to it"),
        ("ElementType = MET_BLOB\nElementDataFile = LOCAL\n", "ElementType = 'MET_BLOB'"),
        ("ElementType = MET_SHORT\n", "'Key = Value'"),
        ("ElementSpacing = 1 nan 1\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "Spacing are not finite"),
        ("ElementSpacing = 1 -1 1\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "positive numbers"),
        (
            "ElementSpacing = 1 1 1\nTransformMatrix = 1 0 0 1 1 0 0 0 1\nElementType = MET_SHORT\n"
            "ElementDataFile = LOCAL\n",
            "length 1",
        ),
        (
            "ElementSpacing = 1 1 1\nTransformMatrix = 1 0 0 0.6 0.8 0 0 0 1\nElementType = MET_SHORT\n"
            "ElementDataFile = LOCAL\n",
            "sheared",
        ),
        ("NDims = 4\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "4 dimensions"),
        ("DimSize = 4 3\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "DimSize"),
        ("ElementNumberOfChannels = 3\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "3 numbers at a voxel"),
        ("ObjectType = Tube\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "'Tube', not an Image"),
        ("\nDimSize = 4 3 2.5\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "positive whole numbers"),
        ("ElementSpacing = a b c\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "Spacing are not numbers"),
        ("HeaderSize = -1\nDimSize = 40 30 20\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "promises 48000"),
        ("HeaderSize = x\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "whole number"),
        ("just words\nElementType = MET_SHORT\nElementDataFile = LOCAL\n", "'Key = Value'"),
    ],
)
def test_metaimage_refusals(tmp_path: Path, fields: str, reason: str):
    """Each thing that cannot be read is refused with its reason."""
    with pytest.raises(FileFormatError, match=reason):
        read_image(write_meta(tmp_path / "x.mha", fields, ARRAY.tobytes()))
