"""Folders of DICOM slices against SimpleITK, and the reasons for which a folder is no volume."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, ImplicitVRLittleEndian, RLELossless
from scipy.spatial.transform import Rotation

from command_tools import call
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.io.images import read_image
from warpgauge.io.images.dicom_copy import KEPT
from warpgauge.io.landmarks import Landmarks, write_landmarks
from warpgauge.io.transforms import AffineTransform, write_transform
from warpgauge.project import Project
from warpgauge.session import Session

sitk = pytest.importorskip("SimpleITK")

RNG = np.random.default_rng(0)
VOLUME = RNG.integers(0, 4096, (6, 5, 7)).astype(np.uint16)
OBLIQUE = Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix()
SERIES = "1.2.826.0.1.3680043.8.498.1"


def write_slice(file: Path, array: np.ndarray, position: np.ndarray, direction: np.ndarray, **tags: Any) -> None:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = f"{SERIES}.{zlib.crc32(file.name.encode())}"
    meta.TransferSyntaxUID = tags.pop("syntax", ExplicitVRLittleEndian)
    data = FileDataset(str(file), {}, file_meta=meta, preamble=b"\0" * 128)
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    data.Modality, data.SeriesInstanceUID, data.StudyInstanceUID = "CT", SERIES, SERIES + ".9"
    data.Rows, data.Columns = array.shape
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated = data.BitsStored = 8 * array.dtype.itemsize
    data.HighBit, data.PixelRepresentation = data.BitsStored - 1, int(array.dtype.kind == "i")
    data.ImagePositionPatient = [f"{v:.9g}" for v in position]
    data.ImageOrientationPatient = [f"{v:.12g}" for v in direction[:, :2].T.ravel()]
    data.PixelSpacing = ["0.7", "0.5"]  # rows (y), columns (x)
    data.SliceThickness = "9"
    data.PixelData = array.tobytes()
    for key, value in tags.items():
        if value is None:
            delattr(data, key)
        else:
            setattr(data, key, value)
    if meta.TransferSyntaxUID == RLELossless:
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        data.compress(RLELossless, generate_instance_uid=False)
    data.save_as(file, enforce_file_format=True)


def write_series(
    folder: Path,
    volume: np.ndarray = VOLUME,
    direction: np.ndarray = OBLIQUE,
    along: np.ndarray | None = None,
    names: list[str] | None = None,
    **tags: Any,
) -> Path:
    """Write slices whose names have nothing to do with their order."""
    folder.mkdir(exist_ok=True)
    along = np.arange(len(volume)) * 2.5 if along is None else along
    names = names or [f"{(k * 5 + 3) % 7}.dcm" for k in range(len(volume))]
    for k, (name, distance) in enumerate(zip(names, along, strict=True)):
        position = np.array([10.0, -20.0, 30.0]) + direction[:, 2] * distance
        own = {key: value[k] if isinstance(value, tuple) else value for key, value in tags.items()}
        write_slice(folder / name, volume[k], position, direction, **own)
    return folder


def sitk_series(folder: Path) -> sitk.Image:
    reader = sitk.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(folder)))
    return reader.Execute()


@pytest.mark.parametrize("direction", ["identity", "oblique", "coronal"])
@pytest.mark.parametrize("dtype", ["uint16", "int16", "uint8"])
@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_series_lies_where_simpleitk_says(tmp_path: Path, direction: str, dtype: str, syntax: str):
    """Order, samples, origin, anisotropic spacing and direction are SimpleITK's, whatever the file names."""
    coronal = np.array([[1.0, 0, 0], [0, 0, 1.0], [0, -1.0, 0]])
    matrix = {"identity": np.eye(3), "oblique": OBLIQUE, "coronal": coronal}[direction]
    volume = (VOLUME % 256).astype(dtype)
    folder = write_series(tmp_path / "s", volume, matrix, syntax=syntax)
    image, reference = read_image(folder), sitk_series(folder)
    assert image.format == "DICOM"
    assert image.grid.size == reference.GetSize() == (7, 5, 6)
    assert image.grid.units == "mm"
    np.testing.assert_allclose(image.grid.spacing, reference.GetSpacing(), atol=1e-6)
    np.testing.assert_allclose(image.grid.spacing, [0.5, 0.7, 2.5], atol=1e-6)
    np.testing.assert_allclose(image.grid.origin, reference.GetOrigin(), atol=1e-9)
    np.testing.assert_allclose(image.grid.direction.ravel(), reference.GetDirection(), atol=1e-9)
    assert image.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(image.read(), sitk.GetArrayFromImage(reference))
    np.testing.assert_array_equal(image.read(), volume)


def test_packed_slices_are_unpacked(tmp_path: Path):
    """Slices packed by RLE give the samples that were packed."""
    folder = write_series(tmp_path / "s", syntax=RLELossless)
    assert pydicom.dcmread(folder / "3.dcm").file_meta.TransferSyntaxUID == RLELossless
    np.testing.assert_array_equal(read_image(folder).read(), VOLUME)


def test_the_normal_decides_the_order(tmp_path: Path):
    """Slices written with falling positions are sorted along the normal, so the grid stays right-handed."""
    folder = write_series(tmp_path / "s", along=-np.arange(6) * 2.5)
    image = read_image(folder)
    np.testing.assert_array_equal(image.read(), VOLUME[::-1])
    assert np.linalg.det(image.grid.direction) == pytest.approx(1)


@pytest.mark.parametrize(
    ("slope", "intercept", "dtype"), [("1", "-1024", "int32"), ("2", "0", "int32"), ("0.5", "-3.25", "float32")]
)
def test_rescale_is_applied(tmp_path: Path, slope: str, intercept: str, dtype: str):
    """Samples are slope * stored + intercept as in SimpleITK, and the image says so."""
    folder = write_series(tmp_path / "s", RescaleSlope=slope, RescaleIntercept=intercept)
    image = read_image(folder)
    assert image.dtype == image.read().dtype == np.dtype(dtype)
    np.testing.assert_array_equal(image.read(), sitk.GetArrayFromImage(sitk_series(folder)))
    np.testing.assert_array_equal(image.plane(2, 3), VOLUME[3] * float(slope) + float(intercept))
    assert any(f"{float(slope):g} * sample + {float(intercept):g}" in s for s in image.assumptions)


def test_rescale_may_differ_by_slice(tmp_path: Path):
    """PET scales each slice on its own."""
    slopes = tuple(f"{0.5 + k}" for k in range(6))
    folder = write_series(tmp_path / "s", RescaleSlope=slopes, RescaleIntercept="0")
    expected = VOLUME * (0.5 + np.arange(6))[:, None, None]
    np.testing.assert_allclose(read_image(folder).read(), expected, rtol=1e-7)


def test_missing_slices_are_counted(tmp_path: Path):
    """Two slices taken away from the middle: the sentence has their number, the gap and the neighbours."""
    folder = write_series(tmp_path / "s", names=[f"{k}.dcm" for k in range(6)])
    (folder / "2.dcm").unlink()
    (folder / "3.dcm").unlink()
    with pytest.raises(
        FileFormatError, match=r"lacks 2 slices: between '1\.dcm'.*'4\.dcm'.*7\.500 mm instead of 2\.500"
    ):
        read_image(folder)


def test_unequal_spacing_is_refused(tmp_path: Path):
    """A gap that is no multiple of the others is named with the extremes."""
    folder = write_series(tmp_path / "s", along=np.array([0, 2.5, 5, 7.9, 10.4, 12.9]))
    with pytest.raises(FileFormatError, match=r"unequally spaced, from 2\.500 to 2\.900 mm"):
        read_image(folder)


def test_duplicates_are_refused(tmp_path: Path):
    """Two slices at one place, as of two time points, are named."""
    folder = write_series(tmp_path / "s", along=np.array([0, 2.5, 2.5, 5, 7.5, 10]), names=list("abcdef"))
    with pytest.raises(FileFormatError, match="1 slices at the place of another, first 'b' and 'c'"):
        read_image(folder)


def test_mixed_series_are_listed(tmp_path: Path):
    """Two series in one folder are refused with a file and the count of each, and not with what their headers say."""
    uids = (SERIES, SERIES, SERIES, SERIES, SERIES + ".2", SERIES + ".2")
    names = ("lung", "lung", "lung", "lung", "scout", "scout")
    folder = write_series(tmp_path / "s", SeriesInstanceUID=uids, SeriesDescription=names)
    with pytest.raises(FileFormatError, match=r"mixes 2 series \(that of .* with 4 files; .* with 2 files") as caught:
        read_image(folder)
    assert "lung" not in str(caught.value)


def test_tilted_gantry_is_refused(tmp_path: Path):
    """Slices that drift sideways form a sheared volume."""
    (tmp_path / "s").mkdir()
    for k in range(6):
        write_slice(tmp_path / "s" / f"{k}", VOLUME[k], np.array([0.0, k * 0.4, k * 2.5]), np.eye(3))
    with pytest.raises(FileFormatError, match=r"drift sideways by 2\.000 mm"):
        read_image(tmp_path / "s")


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ({"ImagePositionPatient": None}, "ImagePositionPatient must be 3 numbers, but are 0"),
        ({"ImageOrientationPatient": None}, "ImageOrientationPatient must be 6 numbers"),
        ({"PixelSpacing": None}, "PixelSpacing must be 2 numbers"),
        ({"PixelSpacing": ["0", "0"]}, "not positive"),
        ({"ImageOrientationPatient": ["1", "0", "0", "1", "0", "0"]}, "right angle"),
        ({"NumberOfFrames": "3"}, "3 frames"),
        ({"SamplesPerPixel": 3}, "colour slice"),
        ({"RescaleSlope": "0", "RescaleIntercept": "1"}, "rescale slope 0"),
        ({"BitsAllocated": 64}, "64 bits"),
        ({"PixelSpacing": (["0.7", "0.5"],) * 5 + (["0.7", "0.6"],)}, "the slices of one volume must agree"),
        ({"PixelRepresentation": (0, 0, 0, 0, 0, 1)}, "several types"),
        ({"Rows": 4000, "Columns": 4000}, "truncated: its header promises 32000000 bytes"),
    ],
)
def test_slices_that_form_no_volume(tmp_path: Path, tags: dict[str, Any], reason: str):
    """Each missing or wrong tag is refused with its name."""
    folder = write_series(tmp_path / "s", **tags)
    with pytest.raises(FileFormatError, match=reason):
        read_image(folder)


def test_other_files_are_ignored_and_named_and_one_file_is_not_a_volume(tmp_path: Path):
    """Notes beside the slices do no harm; one slice by itself is refused with what to do."""
    folder = write_series(tmp_path / "s")
    before = read_image(folder).content_hash
    (folder / "readme.txt").write_text("hello")
    image = read_image(folder)
    np.testing.assert_array_equal(image.read(), VOLUME)
    assert any("readme.txt" in s for s in image.assumptions)
    assert image.content_hash == before  # of the slices, not of what lies beside them
    with pytest.raises(InvalidInputError, match="give the folder that holds all slices"):
        read_image(folder / "3.dcm")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileFormatError, match="no DICOM file directly in it"):
        read_image(tmp_path / "empty")


def test_a_single_slice_has_its_thickness(tmp_path: Path):
    """One slice is a volume of one, as thick as it says."""
    image = read_image(write_series(tmp_path / "s", VOLUME[:1]))
    assert image.grid.size == (7, 5, 1)
    np.testing.assert_allclose(image.grid.spacing, [0.5, 0.7, 9])
    assert any("one slice only" in s for s in image.assumptions)


def test_inverted_display_directories_and_damaged_slices(tmp_path: Path):
    """MONOCHROME1 is said and not inverted, a DICOMDIR is passed over, and a slice without pixels is refused."""
    image = read_image(write_series(tmp_path / "a", PhotometricInterpretation="MONOCHROME1"))
    np.testing.assert_array_equal(image.read(), VOLUME)
    assert any("MONOCHROME1" in s for s in image.assumptions)
    folder = write_series(tmp_path / "b")
    data = pydicom.dcmread(folder / "3.dcm")
    data.SOPClassUID = "1.2.840.10008.1.3.10"
    data.save_as(folder / "DICOMDIR", enforce_file_format=True)
    assert any("DICOMDIR" in s for s in read_image(folder).assumptions)
    with pytest.raises(FileFormatError, match="no pixels"):
        read_image(write_series(tmp_path / "c", Rows=0))
    with pytest.raises(FileFormatError, match="one slice and no SliceThickness"):
        read_image(write_series(tmp_path / "d", VOLUME[:1], SliceThickness=None))


PERSONAL = {
    "PatientName": "Doe^Jane", "PatientID": "MRN-0815", "PatientBirthDate": "19500102",
    "PatientAddress": "Elm Street 1",
    "InstitutionName": "St. Elsewhere", "ReferringPhysicianName": "House^Gregory", "StudyDate": "20200304",
    "StudyDescription": "Jane's lungs", "SeriesDescription": "Doe lung", "AccessionNumber": "ACC.77.1",
    "StationName": "CT_99.1",
    "DeviceSerialNumber": "SN.4711", "ImageComments": "for Jane Doe", "OperatorsName": "Nurse^Nancy",
    "FrameOfReferenceUID": "1.2.3.99.5", "SeriesInstanceUID": "1.2.3.99.6", "StudyInstanceUID": "1.2.3.99.7",
    "SOPInstanceUID": "1.2.3.99.8",
}  # fmt: skip
SECRETS = (b"Doe^Jane", b"Doe_", b"Doe,", b"Doe lung", b"Jane's", b"Jane Doe", b"of Jane", b"MRN-0815", b"19500102",
           b"Elm Street", b"Elsewhere", b"House^", b"20200304", b"ACC.77", b"CT_99", b"SN.4711", b"Nurse^", b"secret ",
           b"1.2.3.99")  # fmt: skip


def personal_series(folder: Path, syntax: str) -> Path:
    """A series with personal data at every place that a file has for them, the names of folder and files included."""
    names = [f"Doe_Jane_{number}.dcm" for number in range(len(VOLUME))]
    made = write_series(folder / "Doe, Jane MRN-0815", names=names, syntax=syntax, **PERSONAL)
    for file in made.iterdir():
        data = pydicom.dcmread(file)
        block = data.private_block(0x0019, "secret maker", create=True)
        block.add_new(0x01, "LO", "secret of Jane")
        item = pydicom.Dataset()
        item.PatientName = "Doe^Jane"
        data.RequestAttributesSequence = pydicom.Sequence([item])
        data.preamble = b"secret of Jane Doe".ljust(128, b"\0")
        data.file_meta.SourceApplicationEntityTitle = "secret"
        data.file_meta.PrivateInformationCreatorUID, data.file_meta.PrivateInformation = SERIES, b"secret"
        data.save_as(file, enforce_file_format=True)
    return made


def points_of(series: Path, folder: Path) -> list[object]:
    """Options with candidates and targets, which are not found in noise."""
    index = np.array([[x, y, z] for x in (1.0, 3.0, 5.0) for y in (1.0, 3.0) for z in (1.0, 4.0)])
    marks = Landmarks(read_image(series).grid.index_to_world(index), frame="LPS", units="mm")
    write_landmarks(marks, folder / "points.csv")
    return ["--candidates", folder / "points.csv", "--targets", folder / "points.csv", "--foreground", "none"]


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian, RLELossless])
def test_a_copy_has_the_image_and_no_personal_data(tmp_path: Path, syntax: str):
    """Names, dates, numbers, private elements, preambles and names of files do not get into the project."""
    series = personal_series(tmp_path, syntax)
    said = call(
        "new", tmp_path / "project", "--fixed", series, "--moving", series, "--copy", *points_of(series, tmp_path)
    )
    assert "personal data" in said
    with Project.open(tmp_path / "project") as project:
        image, original = project.image("fixed"), read_image(series)
        np.testing.assert_array_equal(image.read(), original.read())
        np.testing.assert_array_equal(image.grid.affine, original.grid.affine)
        assert project.verify().ok
    files = [path for path in (tmp_path / "project").rglob("*") if path.is_file()]
    assert len([path for path in files if path.suffix == ".dcm"]) == 2 * len(VOLUME)
    for path in files:
        assert not [one for one in SECRETS if one in path.read_bytes() + str(path.relative_to(tmp_path)).encode()]
    copied = pydicom.dcmread(next(path for path in files if path.suffix == ".dcm"))
    assert (copied.PatientIdentityRemoved, copied.PatientName) == ("YES", "")
    uids = {str(pydicom.dcmread(path).SeriesInstanceUID) for path in files if path.suffix == ".dcm"}
    assert len(uids) == 2  # one for each copy
    assert all(uid.startswith("2.25.") for uid in uids)


def test_what_headers_of_linked_slices_say_stays_there(tmp_path: Path):
    """Of a linked series neither project, log, export nor report quote the headers."""
    series = personal_series(tmp_path, ExplicitVRLittleEndian)
    series = series.rename(tmp_path / "series")
    for number, file in enumerate(sorted(series.iterdir())):
        file.rename(series / f"{number}.dcm")
    call("new", tmp_path / "project", "--fixed", series, "--moving", series, *points_of(series, tmp_path))
    with Project.open(tmp_path / "project") as project:
        session = Session(project, rater="ada")
        for _ in range(3):
            asked = session.next_query()
            session.place(asked, asked.point, radius=1.0)
        write_transform(AffineTransform(np.eye(3), [0.1, 0.0, 0.0]), tmp_path / "one.tfm")
        project.add_transform("one", tmp_path / "one.tfm")
    call("export", tmp_path / "project", tmp_path / "project" / "marks.csv")
    call("report", tmp_path / "project")
    for path in (tmp_path / "project").rglob("*"):
        if path.is_file():
            assert not [one for one in SECRETS if one in path.read_bytes()], path.name


def test_the_kept_list_holds_nothing_that_the_basic_profile_removes():
    """Of the elements that PS3.15 Table E.1-1 removes, empties or replaces, those of the sample are not on the list."""
    removed = {
        *PERSONAL,
        "AcquisitionDate",
        "ContentDate",
        "InstanceCreationDate",
        "PatientAge",
        "PatientSex",
        "ProtocolName",
    }
    assert not set(KEPT) & removed
    assert not [name for name in KEPT if name.endswith(("Date", "Time", "Name", "Description", "Comments"))]
    assert [name for name in KEPT if name.endswith("Number")] == ["InstanceNumber"]
    assert [name for name in KEPT if name.endswith("UID")] == ["SOPClassUID"]
