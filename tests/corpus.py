"""One specimen of every readable kind of file, with the truth that it holds.

A new format is a new row; what is promised of all files then holds for it (``io/test_reading.py``,
``io/test_damage.py``). The truth is the same for all rows of a kind: one volume or plane, four pairs of points, one
affine map. Every file is written by hand or by the library of another program, never by warpgauge.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import scipy.io
import tifffile
import zarr
from numpy.typing import NDArray
from PIL import Image as Pillow
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

import warpgauge as wg
from warpgauge.errors import SuspiciousDataWarning, WarpgaugeError
from warpgauge.study import read_study

Floats = NDArray[np.float64]
LONGEST = 480  # characters of a refusal


@dataclass(frozen=True)
class Specimen:
    """A file that can be read, what it says and how it may be harmed.

    ``make`` writes it into a folder and returns its path; ``say`` reads a path and returns the numbers in it.
    ``part`` names the file that is harmed where the specimen is a folder or several files. ``open_ended``: a cut may
    leave another valid file. ``rows``: a cut may leave fewer whole rows, the last of them cut within its last number.
    ``absurd`` holds pairs of bytes: a size in the header, and one beyond all memory.
    ``options`` are those that a transform needs to be read.
    """

    name: str
    make: Callable[[Path], Path]
    say: Callable[[Path], Floats]
    expected: Floats
    part: str = ""
    atol: float = 1e-6
    open_ended: bool = False
    rows: bool = False
    absurd: tuple[bytes, bytes] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def harmed(self, path: Path) -> Path:
        """Return the file that is cut and damaged."""
        if not self.part:
            return path
        return (path if path.is_dir() else path.parent) / self.part


class Refused(Exception):  # noqa: N818  # it is an answer, not an error
    """A file was refused as it should be: the sentence."""


def answer(one: Specimen, path: Path) -> Floats:
    """Return what a file says, or raise `Refused` with one sentence; anything else is a failure of the program."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SuspiciousDataWarning)
        try:
            return one.say(path)
        except WarpgaugeError as error:
            sentence = str(error)
            broken = "\n" in sentence or not sentence.endswith(".") or not sentence.isprintable()
            if broken or len(sentence) > LONGEST or isinstance(error.__cause__, MemoryError):
                raise AssertionError(f"{one.name}: not one sentence: {sentence!r}") from error
            raise Refused(sentence) from error


def same(one: Specimen, found: Floats) -> bool:
    """Whether what was read is what the specimen says."""
    return found.shape == one.expected.shape and bool(np.allclose(found, one.expected, rtol=1e-6, atol=one.atol))


def plain(name: str, data: bytes | str, others: dict[str, bytes] | None = None) -> Callable[[Path], Path]:
    """Return a maker that writes one file, and those beside it."""

    def make(folder: Path) -> Path:
        for other, content in (others or {}).items():
            (folder / other).write_bytes(content)
        path = folder / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return make


# ---- images: one plane and one volume whose numbers are all different ------------------------------------------------

PLANE = (3 * np.arange(63, dtype=np.uint8)).reshape(7, 9)
VOLUME = np.linspace(-3, 3, 60, dtype=np.float32).reshape(3, 4, 5)
SPACING, ORIGIN = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])
FLIP = np.diag([-1.0, -1.0, 1.0])
TURNED = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # columns are the directions of x, y and z


def say_image(path: Path) -> Floats:
    """All samples, and where the first pixel and its neighbours lie in the world."""
    image = wg.read_image(path)
    if image.grid.count > 10**6:
        return np.array([image.grid.count])
    corners = np.vstack([np.zeros(image.grid.d), np.eye(image.grid.d)])
    return np.concatenate([np.ravel(image.read()).astype(float), np.ravel(image.grid.index_to_world(corners))])


def picture(samples: NDArray[Any], spacing: Floats, origin: Floats, direction: Floats) -> Floats:
    """What `say_image` has to return."""
    corners = np.vstack([origin, origin + (direction * spacing).T])
    return np.concatenate([np.ravel(samples).astype(float), np.ravel(corners)])


FLAT = picture(PLANE, np.ones(2), np.zeros(2), np.eye(2))
SOLID = picture(VOLUME, SPACING, ORIGIN, np.eye(3))


def pillow(kind: str, array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    Pillow.fromarray(array).save(stream, kind)
    return stream.getvalue()


def tiff(array: NDArray[Any], **options: Any) -> bytes:
    stream = io.BytesIO()
    tifffile.imwrite(stream, array, **options)
    return stream.getvalue()


def nifti(array: NDArray[Any], kind: type = nibabel.Nifti1Image) -> bytes:
    """A volume whose axes run along R, A and S."""
    affine = np.diag([*SPACING, 1.0])
    affine[:3, 3] = ORIGIN
    return bytes(kind(array.T, affine).to_bytes())


RAS_SOLID = picture(VOLUME, SPACING, FLIP @ ORIGIN, FLIP)


def nrrd_head(lines: str, encoding: str = "raw", more: str = "") -> bytes:
    return f"NRRD0004\n{lines}endian: little\nencoding: {encoding}\n{more}\n".encode()


NRRD_VOLUME = (
    "type: float\ndimension: 3\nspace: left-posterior-superior\nsizes: 5 4 3\n"
    "space directions: (1,0,0) (0,2,0) (0,0,3)\nspace origin: (10,20,30)\nkinds: domain domain domain\n"
)
META_VOLUME = (
    "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
    "TransformMatrix = 0 1 0 1 0 0 0 0 1\nOffset = 10 20 30\nElementSpacing = 1 2 3\nDimSize = 5 4 3\n"
    "{more}ElementType = MET_FLOAT\nElementDataFile = {file}\n"
)
META_SOLID = picture(VOLUME, SPACING, ORIGIN, TURNED)


def dicom(folder: Path) -> Path:
    series = folder / "series"
    series.mkdir()
    for k in range(4):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, f"1.2.{k + 1}"
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        data = FileDataset("x", {}, file_meta=meta, preamble=b"\0" * 128)
        data.SOPClassUID, data.SOPInstanceUID, data.SeriesInstanceUID = CTImageStorage, f"1.2.{k + 1}", "1.2"
        data.Modality, data.Rows, data.Columns = "CT", *PLANE.shape
        data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
        data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 8, 8, 7, 0
        data.ImagePositionPatient, data.ImageOrientationPatient = [10, 20, 30 + 3 * k], [1, 0, 0, 0, 1, 0]
        data.PixelSpacing, data.RescaleSlope, data.RescaleIntercept = [2, 1], 2, -5
        data.PixelData = (PLANE + k).astype(np.uint8).tobytes() + b"\0"
        data.save_as(series / f"{k}.dcm", enforce_file_format=True)
    return series


CT = picture(2.0 * np.stack([PLANE, PLANE + 1, PLANE + 2, PLANE + 3]) - 5, SPACING, ORIGIN, np.eye(3))


def ome_zarr(version: int) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        root = folder / "image.ome.zarr"
        group = zarr.open_group(root, mode="w", zarr_format=version)
        group.create_array("0", data=VOLUME, chunks=(3, 4, 5))
        steps = [
            {"type": "scale", "scale": [3.0, 2.0, 1.0]},
            {"type": "translation", "translation": [30.0, 20.0, 10.0]},
        ]
        axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
        datasets = [{"path": "0", "coordinateTransformations": steps}]
        content = {"multiscales": [{"version": "0.4", "axes": axes, "datasets": datasets}]}
        group.attrs.update(content if version == 2 else {"ome": {"version": "0.5", **content}})
        return root

    return make


def image(name: str, make: bytes | Callable[[Path], Path], expected: Floats, **more: Any) -> Specimen:
    maker = make if callable(make) else plain(name, make)
    return Specimen(name, maker, say_image, expected, **more)


OME_SIZES = {"PhysicalSizeX": 1.0, "PhysicalSizeY": 2.0, "PhysicalSizeZ": 3.0}
GRADIENT = np.add.outer(8 * np.arange(16), 4 * np.arange(24)).astype(np.uint8)
# A tag of a TIFF: the width, one number of 32 bits.
WIDTH_TAGS = (struct.pack("<HHII", 256, 4, 1, 9), struct.pack("<HHII", 256, 4, 1, 2**31))
IMAGES = (
    image("plane.png", pillow("PNG", PLANE), FLAT, absurd=(struct.pack(">II", 9, 7), struct.pack(">II", 2**30, 2**30))),
    image(
        "plane.jpg",
        pillow("JPEG", GRADIENT),
        picture(GRADIENT, np.ones(2), np.zeros(2), np.eye(2)),
        atol=8,
        absurd=(struct.pack(">HH", 16, 24), struct.pack(">HH", 65535, 65535)),
    ),
    image("plane.tif", tiff(PLANE), FLAT, absurd=WIDTH_TAGS),
    image("tiled.tif", tiff(PLANE, tile=(16, 16), compression="zlib", predictor=True), FLAT, absurd=WIDTH_TAGS),
    image(
        "volume.ome.tif",
        tiff(VOLUME, ome=True, photometric="minisblack", metadata={"axes": "ZYX", **OME_SIZES}),
        picture(VOLUME, SPACING, np.zeros(3), np.eye(3)),
        open_ended=True,
    ),
    image(
        "volume.nii",
        nifti(VOLUME),
        RAS_SOLID,
        absurd=(struct.pack("<4h", 3, 5, 4, 3), struct.pack("<4h", 3, *[32000] * 3)),
    ),
    image("volume2.nii", nifti(VOLUME, nibabel.Nifti2Image), RAS_SOLID),
    image(
        "volume.nii.gz",
        gzip.compress(nifti(VOLUME), mtime=0),
        RAS_SOLID,
        absurd=(struct.pack("<4h", 3, 5, 4, 3), struct.pack("<4h", 3, *[32000] * 3)),
    ),
    image(
        "volume.nrrd",
        nrrd_head(NRRD_VOLUME) + VOLUME.tobytes(),
        SOLID,
        absurd=(b"sizes: 5 4 3", b"sizes: 500000 400000 3"),
    ),
    image(
        "packed.nrrd",
        nrrd_head(NRRD_VOLUME, "gzip") + gzip.compress(VOLUME.tobytes(), mtime=0),
        SOLID,
        absurd=(b"sizes: 5 4 3", b"sizes: 500000 400000 3"),
    ),
    image(
        "volume.nhdr",
        plain("volume.nhdr", nrrd_head(NRRD_VOLUME, more="data file: volume.raw\n"), {"volume.raw": VOLUME.tobytes()}),
        SOLID,
    ),
    image(
        "volume.mha",
        META_VOLUME.format(more="CompressedData = False\n", file="LOCAL").encode() + VOLUME.tobytes(),
        META_SOLID,
        absurd=(b"DimSize = 5 4 3", b"DimSize = 500000 400000 3"),
    ),
    image(
        "packed.mha",
        META_VOLUME.format(more="CompressedData = True\n", file="LOCAL").encode() + zlib.compress(VOLUME.tobytes()),
        META_SOLID,
        absurd=(b"DimSize = 5 4 3", b"DimSize = 500000 400000 3"),
    ),
    image(
        "volume.mhd",
        plain("volume.mhd", META_VOLUME.format(more="", file="volume.raw"), {"volume.raw": VOLUME.tobytes()}),
        META_SOLID,
        part="volume.raw",
    ),
    image("dicom", dicom, CT, part="1.dcm"),
    image("zarr2 description", ome_zarr(2), SOLID, part=".zattrs"),
    image("zarr2 array", ome_zarr(2), SOLID, part="0/.zarray", absurd=(b"5", b"5000000")),
    image("zarr2 chunk", ome_zarr(2), SOLID, part="0/0.0.0"),
    image("zarr3 description", ome_zarr(3), SOLID, part="zarr.json"),
    image("zarr3 array", ome_zarr(3), SOLID, part="0/zarr.json", absurd=(b"5", b"5000000")),
    image("zarr3 chunk", ome_zarr(3), SOLID, part="0/c/0/0/0"),
)

# ---- transforms: the same affine map in every file -------------------------------------------------------------------

GRID = wg.Grid((4, 5, 6), (2.0, 1.0, 1.5), (3.0, -4.0, 5.0), units="mm")
FLAT_GRID = wg.Grid((8, 9), (2.0, 3.0), (-4.0, 5.0), units="px")
MATRIX = np.array([[1.02, 0.1, -0.03], [-0.05, 1.04, 0.02], [0.01, -0.02, 0.94]])
SHIFT = np.array([1.5, -2.25, 0.75])


def true_map(points: Floats) -> Floats:
    """The map from fixed to moving points that every transform of the corpus holds; in 2D the first two components."""
    d = points.shape[-1]
    return points @ MATRIX[:d, :d].T + SHIFT[:d]


PROBES = GRID.index_to_world([[1, 1, 1], [2, 3, 4], [0.5, 2.25, 3.5], [2, 1, 3]])
FLAT_PROBES = FLAT_GRID.index_to_world([[3, 3], [4, 5], [3.5, 4.25], [2.25, 2.5]])


def numbers(values: Any) -> str:
    return " ".join(repr(float(x)) for x in np.ravel(values))


def homogeneous(matrix: Floats, shift: Floats) -> Floats:
    whole = np.eye(len(matrix) + 1)
    whole[:-1, :-1], whole[:-1, -1] = matrix, shift
    return whole


LPS = homogeneous(MATRIX, SHIFT)
RAS = homogeneous(FLIP @ MATRIX @ FLIP, FLIP @ SHIFT)
CENTRE = np.array([1.0, 2.0, 3.0])
CENTRED = SHIFT - CENTRE + MATRIX @ CENTRE  # the translation of a map about this centre


def elastix(kind: str, d: int, parameters: Any, more: str = "") -> str:
    values = np.ravel(parameters)
    return (
        f'(Transform "{kind}")\n(NumberOfParameters {len(values)})\n(TransformParameters {numbers(values)})\n'
        f'(InitialTransformParametersFileName "NoInitialTransform")\n(HowToCombineTransforms "Compose")\n'
        f"(FixedImageDimension {d})\n(MovingImageDimension {d})\n"
        f'(UseDirectionCosines "true")\n{more}\n'
    )


def control_grid(grid: wg.Grid) -> str:
    return (
        f"(GridSize {' '.join(map(str, grid.size))})\n(GridIndex {' '.join(['0'] * grid.d)})\n"
        f"(GridSpacing {numbers(grid.spacing)})\n(GridOrigin {numbers(grid.origin)})\n"
        f"(GridDirection {numbers(grid.direction.T)})\n(BSplineTransformSplineOrder 3)\n"
    )


def displacements(grid: wg.Grid) -> Floats:
    """Displacement of every node, (z, y, x, 3) or (y, x, 2); B-splines of any order and linear fields agree on it."""
    nodes = grid.points()
    return (true_map(nodes) - nodes).reshape(*grid.shape, grid.d)


def itk(kind: str, d: int, parameters: Any, fixed: Any) -> str:
    return f"Transform: {kind}_double_{d}_{d}\nParameters: {numbers(parameters)}\nFixedParameters: {numbers(fixed)}\n"


ITK_HEAD = "#Insight Transform File V1.0\n#Transform 0\n"
AFFINE = [*MATRIX.ravel(), *CENTRED]


def itk_h5(folder: Path) -> Path:
    with h5py.File(folder / "itk.h5", "w") as store:
        member = store.create_group("TransformGroup/0")
        member["TransformType"] = np.array(["AffineTransform_double_3_3"], dtype="S")
        member["TransformParameters"] = np.array(AFFINE)
        member["TransformFixedParameters"] = CENTRE
    return folder / "itk.h5"


def ants_mat(folder: Path) -> Path:
    content = {"AffineTransform_double_3_3": np.array(AFFINE)[:, None], "fixed": CENTRE[:, None]}
    scipy.io.savemat(folder / "ants.mat", content, format="4")
    return folder / "ants.mat"


def nifti_field(vectors: Floats, code: int, name: str = "", flat: bool = False) -> bytes:
    """A field on `GRID`, whose axes run along -x, -y and z of the RAS that NIfTI states."""
    affine = homogeneous(FLIP @ np.diag(GRID.spacing), FLIP @ GRID.origin)
    values = vectors.transpose(2, 1, 0, 3)
    made = nibabel.Nifti1Image(values if flat else values[:, :, :, None], affine)
    made.header.set_intent(code, (), name, allow_unknown=True)
    made.header.set_xyzt_units("mm")
    made.set_sform(affine, 1)
    return bytes(made.to_bytes())


VECTORS = displacements(GRID)
POSITIONS_RAS = true_map(GRID.points()).reshape(*GRID.shape, 3) @ FLIP
RAW = VECTORS.astype("<f8").tobytes()
NRRD_FIELD = (
    "type: double\ndimension: 4\nspace: left-posterior-superior\nsizes: 3 4 5 6\n"
    "space directions: none (2,0,0) (0,1,0) (0,0,1.5)\nkinds: vector domain domain domain\nspace origin: (3,-4,5)\n"
)
META_FIELD = (
    "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\nCompressedData = False\n"
    "TransformMatrix = 1 0 0 0 1 0 0 0 1\nOffset = 3 -4 5\nElementSpacing = 2 1 1.5\nDimSize = 4 5 6\n"
    "ElementNumberOfChannels = 3\nElementType = MET_DOUBLE\nElementDataFile = {file}\n"
)


def fsl_field() -> bytes:
    """Relative displacements in FSL's coordinates: mm along the voxel axes, x turned for right-handed axes."""

    def coordinates(points: Floats) -> Floats:
        index = GRID.world_to_index(points)  # axes along -x, -y, z of RAS: right-handed, so that FSL turns x
        index[:, 0] = GRID.size[0] - 1 - index[:, 0]
        return index * GRID.spacing

    nodes = GRID.points()
    moved = coordinates(true_map(nodes)) - coordinates(nodes)
    return nifti_field(moved.reshape(*GRID.shape, 3), 2006, flat=True)


def lta() -> str:
    rows = "\n".join(map(numbers, np.linalg.inv(RAS)))  # from source (moving) to destination (fixed)
    side = "{} volume info\nvalid = 1\nfilename = x.mgz\nvolume = 20 30 40\nvoxelsize = 1 2 3\n"
    side += "xras   = -1 0 0\nyras   = 0 0 -1\nzras   = 0 1 0\ncras   = 5 6 7\n"
    head = f"type      = 1\nnxforms   = 1\nmean = 0 0 0\nsigma = 1\n1 4 4\n{rows}\n"
    return head + side.format("src") + side.format("dst")


def mgz_warp() -> bytes:
    """A warp of FreeSurfer's: RAS positions at each voxel, between two volumes that lie as `GRID` does."""
    axes = FLIP
    centre = FLIP @ GRID.index_to_world([np.array(GRID.size) / 2])[0]
    volume = struct.pack(">4i15f512s", 1, *GRID.size, *GRID.spacing, *axes.T.ravel(), *centre, b"x.mgz")
    geometry = struct.pack(">i", 10) + volume + volume
    head = struct.pack(">7i", (3 << 8) | 1, *GRID.size, 3, 3, 1) + bytes(256)
    body = POSITIONS_RAS.transpose(2, 1, 0, 3).astype(">f4").tobytes(order="F") + bytes(20)
    tags = struct.pack(">iq", 41, 7) + b"UNKNOWN" + geometry + struct.pack(">iqiif", 13, 12, 2, 1, 0.0)
    return gzip.compress(head + body + tags, mtime=0)


def bigwarp_rows(moving: Floats, fixed: Floats) -> str:
    rows = [
        [f"Pt-{n}", "true", *map(repr, m), *map(repr, f)]
        for n, (m, f) in enumerate(zip(moving.tolist(), fixed.tolist(), strict=True))
    ]
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def warpy() -> str:
    """Pixels from the corner to pixels from the corner, as QuPath counts."""
    rows = np.eye(3, 4)
    rows[:2, :2] = MATRIX[:2, :2]
    rows[:2, 3] = SHIFT[:2] + 0.5 - MATRIX[:2, :2] @ [0.5, 0.5]
    member = {"type": "AffineTransform3D", "affinetransform3d": rows.ravel().tolist()}
    return json.dumps({"type": "RealTransformSequence", "size": 1, "realTransform_0": member})


def numpy_file(array: NDArray[Any], packed: bool = False) -> bytes:
    stream = io.BytesIO()
    if packed:
        np.savez_compressed(stream, array)
    else:
        np.save(stream, array)
    return stream.getvalue()


ANCHORS = np.array([[0.0, 0.0], [30.0, 2.0], [3.0, 41.0], [33.0, 39.0], [15.0, 18.0]])
WIDE = wg.Grid((9, 10), (2.0, 3.0), (-6.0, 2.0), units="px")  # control points around FLAT_GRID's probes
SAID = {"reference": GRID, "convention": "displacement", "axes": "zyx"}
IN_VOXELS = (VECTORS / GRID.spacing).transpose(2, 1, 0, 3)
PAIRED = "".join(
    f"{','.join(map(repr, [*f, *m]))}\n" for f, m in zip(PROBES.tolist(), true_map(PROBES).tolist(), strict=True)
)


def transform(name: str, make: bytes | str | Callable[[Path], Path], flat: bool = False, **more: Any) -> Specimen:
    options = more.get("options", {})
    probes = FLAT_PROBES if flat else PROBES

    def say(path: Path) -> Floats:
        return np.asarray(wg.read_transform(path, **options).map(probes))

    maker = make if callable(make) else plain(name, make)
    return Specimen(name, maker, say, true_map(probes), **more)


TRANSFORMS = (
    transform("affine.txt", elastix("AffineTransform", 3, AFFINE, f"(CenterOfRotationPoint {numbers(CENTRE)})")),
    transform(
        "bspline.txt",
        elastix("BSplineTransform", 2, np.moveaxis(displacements(WIDE), -1, 0), control_grid(WIDE)),
        flat=True,
        absurd=(b"(GridSize 9 10)", b"(GridSize 900000 1000000)"),
    ),
    transform(
        "kernel.txt",
        elastix(
            "SplineKernelTransform",
            2,
            true_map(ANCHORS),
            f'(SplineKernelType "ThinPlateSpline")\n(FixedImageLandmarks {numbers(ANCHORS)})',
        ),
        flat=True,
        open_ended=True,
    ),
    transform(
        "affine.toml",
        'Transform = "AffineTransform"\nNumberOfParameters = 12\nFixedImageDimension = 3\nMovingImageDimension = 3\n'
        f"TransformParameters = {list(map(float, AFFINE))}\nCenterOfRotationPoint = {CENTRE.tolist()}\n",
    ),
    transform("affine.tfm", ITK_HEAD + itk("AffineTransform", 3, AFFINE, CENTRE), open_ended=True),
    transform(
        "composite.tfm",  # the last is applied first
        ITK_HEAD
        + "Transform: CompositeTransform_double_3_3\n"
        + itk("TranslationTransform", 3, SHIFT, [])
        + itk("AffineTransform", 3, [*MATRIX.ravel(), *(MATRIX @ CENTRE - CENTRE)], CENTRE),
        open_ended=True,
    ),
    transform("itk.h5", itk_h5),
    transform("ants.mat", ants_mat, absurd=(struct.pack("<2i", 12, 1), struct.pack("<2i", 2**31 - 1, 1))),
    transform("matrix.txt", "\n".join(map(numbers, LPS)) + "\n", open_ended=True),
    transform("points.csv", f"fixed_x,fixed_y,fixed_z,moving_x,moving_y,moving_z\n{PAIRED}", open_ended=True),
    transform(
        "outputpoints.txt",
        "".join(
            f"Point\t{n}\t; InputPoint = [ {numbers(a)} ]\t; OutputPoint = [ {numbers(b)} ]\n"
            for n, (a, b) in enumerate(zip(PROBES, true_map(PROBES), strict=True))
        ),
        open_ended=True,
    ),
    transform(
        "field.nii",
        nifti_field(VECTORS, 1007),
        absurd=(struct.pack("<4h", 5, 4, 5, 6), struct.pack("<4h", 5, *[32000] * 3)),
    ),
    transform(
        "field.nii.gz",
        gzip.compress(nifti_field(VECTORS, 1007), mtime=0),
        absurd=(struct.pack("<4h", 5, 4, 5, 6), struct.pack("<4h", 5, *[32000] * 3)),
    ),
    transform("y_spm.nii", nifti_field(POSITIONS_RAS, 1007, "Mapping")),
    transform("niftyreg.nii", nifti_field(POSITIONS_RAS, 1007, "NREG_TRANS")),
    transform(
        "fsl.nii",
        fsl_field(),
        options={"format": "fsl", "convention": "displacement", "moving": GRID, "reference": GRID},
        absurd=(struct.pack("<4h", 4, 4, 5, 6), struct.pack("<4h", 4, *[32000] * 3)),
    ),
    transform("field.nrrd", nrrd_head(NRRD_FIELD) + RAW, absurd=(b"sizes: 3 4 5 6", b"sizes: 3 400000 500000 6")),
    transform(
        "packedfield.nrrd",
        nrrd_head(NRRD_FIELD, "gzip") + gzip.compress(RAW, mtime=0),
        absurd=(b"sizes: 3 4 5 6", b"sizes: 3 400000 500000 6"),
    ),
    transform(
        "field.mha",
        META_FIELD.format(file="LOCAL").encode() + RAW,
        absurd=(b"DimSize = 4 5 6", b"DimSize = 400000 500000 6"),
    ),
    transform(
        "field.mhd", plain("field.mhd", META_FIELD.format(file="field.raw"), {"field.raw": RAW}), part="field.raw"
    ),
    transform("field.npy", numpy_file(VECTORS), options=SAID, absurd=(b"(6, 5, 4, 3)", b"(6000000, 5000000, 4, 3)")),
    transform("field.npz", numpy_file(VECTORS, packed=True), options=SAID),
    transform(
        "learn2reg.npz",
        numpy_file(IN_VOXELS, packed=True),
        options={"convention": "learn2reg", "reference": GRID},
    ),
    transform("affine.lta", lta(), open_ended=True),
    transform(
        "affine.aff12.1D",
        f"# 3dAllineate matrices (DICOM-to-DICOM, row-by-row):\n{numbers(LPS[:3])}\n",
        open_ended=True,
    ),
    transform(
        "affine.xfm",
        "MNI Transform File\n% made by hand\n\nTransform_Type = Linear;\nLinear_Transform =\n"
        + "\n".join(map(numbers, np.linalg.inv(RAS)[:3]))
        + ";\n",
    ),
    transform("warp.mgz", mgz_warp(), atol=1e-4, open_ended=True),
    transform(
        "bigwarp.csv",
        bigwarp_rows(true_map(ANCHORS), ANCHORS),
        flat=True,
        options={"format": "bigwarp"},
        open_ended=True,
    ),
    transform("transform_1_2.json", warpy(), flat=True),
)

# ---- landmarks: the same four points, or pairs of points, in every file ----------------------------------------------

FIXED = np.array([[12.5, 7.25, 3.5], [40.0, 21.5, 8.0], [5.75, 33.0, 17.25], [28.5, 14.0, 22.75]])
MOVING = np.round(true_map(FIXED), 3)
VOXELS = np.array([[12.0, 7, 3], [40, 21, 8], [5, 33, 17], [28, 14, 22]])
LPS_TO_RAS = np.array([-1.0, -1.0, 1.0])
FLAT_FIXED, FLAT_MOVING = FIXED[:, :2], MOVING[:, :2]


def table(header: str, rows: Any, blank: str = ",", number: int | None = None, tail: str = "") -> str:
    lines = [blank.join(map(repr, map(float, row))) + tail for row in rows]
    if number is not None:
        lines = [f"{n + number}{blank}{line}" for n, line in enumerate(lines)]
    return "\n".join([*([header] if header else []), *lines, ""])


def say_landmarks(**options: Any) -> Callable[[Path], Floats]:
    """All fixed points, then all moving points where the file has them."""

    def say(path: Path) -> Floats:
        found = wg.read_landmarks(path, **options)
        sides = [found.fixed_points] if found.moving_points is None else [found.fixed_points, found.moving_points]
        return np.hstack(sides)

    return say


def landmarks(name: str, text: str, *sides: Floats, rows: bool = True, **options: Any) -> Specimen:
    return Specimen(name, plain(name, text), say_landmarks(**options), np.hstack(sides), rows=rows)


def slicer_json() -> str:
    points = [{"label": f"F-{n}", "position": row, "positionStatus": "defined"} for n, row in enumerate(FIXED.tolist())]
    markup = {"type": "Fiducial", "coordinateSystem": "LPS", "coordinateUnits": "mm", "controlPoints": points}
    return json.dumps({"@schema": "x", "markups": [markup]})


def geojson() -> str:
    def feature(point: list[float]) -> dict[str, Any]:
        corner = [x + 0.5 for x in point]  # QuPath counts pixels from the corner
        return {"type": "Feature", "geometry": {"type": "Point", "coordinates": corner}, "properties": {"name": "a"}}

    return json.dumps({"type": "FeatureCollection", "features": list(map(feature, FLAT_FIXED.tolist()))})


FCSV = (
    "# Markups fiducial file version = 4.13\n# CoordinateSystem = LPS\n"
    "# columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n"
)
LANDMARKS = (
    landmarks(
        "pairs.csv",
        table("fixed_x,fixed_y,fixed_z,moving_x,moving_y,moving_z", np.hstack([FIXED, MOVING])),
        FIXED,
        MOVING,
    ),
    landmarks("anhir.csv", table(",X,Y", FLAT_FIXED, number=1), FLAT_FIXED),
    landmarks("brats.csv", table("Landmark,X,Y,Z", FIXED, number=1), FIXED),
    landmarks("learn2reg.csv", table("", VOXELS), VOXELS, format="learn2reg", units="px"),
    landmarks("case1_xyz.txt", table("", VOXELS + 1, "\t").replace(".0", ""), VOXELS, units="px"),
    landmarks(
        "points.tag",
        "MNI Tag Point File\nVolumes = 2;\n\nPoints =\n"
        + "\n".join(
            f' {numbers(f * LPS_TO_RAS)} {numbers(m * LPS_TO_RAS)} "a"' for f, m in zip(FIXED, MOVING, strict=True)
        )
        + ";\n",
        FIXED,
        MOVING,
    ),
    landmarks("bigwarp_points.csv", bigwarp_rows(FLAT_MOVING, FLAT_FIXED), FLAT_FIXED, FLAT_MOVING),
    landmarks("points.mrk.json", slicer_json(), FIXED, rows=False),
    landmarks(
        "points.fcsv",
        FCSV + "".join(f"{n},{','.join(map(repr, p))},0,0,0,1,1,1,0,F-{n},,\n" for n, p in enumerate(FIXED.tolist())),
        FIXED,
    ),
    landmarks("point.txt", table("point\n4", FIXED, " "), FIXED),
    landmarks("ants.csv", table("x,y,z,t,label,comment", np.hstack([FIXED, np.zeros((4, 1))]), tail=",1,a"), FIXED),
    landmarks("napari.csv", table("index,axis-0,axis-1", FLAT_FIXED[:, ::-1], number=0), FLAT_FIXED),
    landmarks("points.geojson", geojson(), FLAT_FIXED, rows=False),
)

# ---- studies --------------------------------------------------------------------------------------------------------


def say_study(path: Path) -> Floats:
    """Numbers that stand for the names of pairs and methods, and the standard deviation."""
    found = read_study(path)
    names = [*(pair.name for pair in found.pairs), *(method.name for method in found.methods)]
    return np.array([*(zlib.crc32(name.encode()) for name in names), found.settings.sd])


STUDY = (
    '[settings]\nsd = 0.3\n\n[[pair]]\nname = "case1"\nlandmarks = "case1.csv"\nfixed = "fixed.png"\n\n'
    '[[method]]\nname = "near"\ntransform = "{method}/{pair}.tfm"\n'
)
STUDIES = (
    Specimen(
        "STUDY.toml",
        plain("STUDY.toml", STUDY, {"case1.csv": LANDMARKS[0].name.encode()}),
        say_study,
        np.array([zlib.crc32(b"case1"), zlib.crc32(b"near"), 0.3]),
        open_ended=True,
    ),
)
ALL = (*IMAGES, *TRANSFORMS, *LANDMARKS, *STUDIES)
