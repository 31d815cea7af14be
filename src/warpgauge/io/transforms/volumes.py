"""Fields in files of volumes: NIfTI, NRRD, MetaImage, datasets of AFNI and warps of FreeSurfer.

What the vectors of a NIfTI file are follows from its intent: one row of `NAMED` for every meaning that a program
writes. NRRD fields are written by ITK and Slicer, MetaImage fields by ITK and elastix.
"""

from __future__ import annotations

import gzip
import re
import struct
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, say, warn_suspicious
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import quiet, read_head
from warpgauge.io.images.frame import Frame, frame_from_affine, resolve_grid
from warpgauge.io.images.metaimage import looks_like_metaimage, open_metaimage
from warpgauge.io.images.nifti import RAS_TO_LPS, open_nifti
from warpgauge.io.images.nrrd import open_nrrd
from warpgauge.io.images.samples import GZIP
from warpgauge.io.images.volume import Volume
from warpgauge.io.limits import INFLATION, check_memory, check_room, size_on_disk
from warpgauge.io.transforms.arrays import ARRAYS, field_of_file
from warpgauge.io.transforms.lattice import BSplineTransform, Vectors
from warpgauge.io.transforms.meaning import (
    DISPLACEMENT,
    POSITION,
    RAS_SIGNS,
    Options,
    StoredField,
    as_floats,
    field_of,
    on_reference,
    read_as_asked,
)
from warpgauge.io.transforms.transform import Transform

OWN_NAME = "warpgauge"  # intent name of the fields that warpgauge writes: displacements in the frame of the intent
_HEAD = 4096


class Named(NamedTuple):
    """A meaning that the intent of a NIfTI file names: by name, code and first parameter; None stands for any.

    ``order`` is that of a B-spline of control points; ``advice`` says what to do with a file that is not read.
    ``sure``: nothing needs to be asked of the values.
    """

    name: str | None
    code: int | None
    kind: float | None
    program: str
    frame: str = ""
    absolute: bool = False
    order: int = 1
    sure: bool = True
    advice: str = ""


_FLOW = "it is not a deformation yet; write one with Batch > SPM > Util > Deformations"
NAMED: tuple[Named, ...] = (
    Named("NREG_TRANS", None, 0, "NiftyReg", "RAS", absolute=True),  # deformation
    Named("NREG_TRANS", None, 1, "NiftyReg", "RAS"),  # displacement
    Named("NREG_TRANS", None, 2, "NiftyReg", "RAS", absolute=True, order=3),  # control points
    Named("NREG_TRANS", None, 6, "NiftyReg", "RAS", absolute=True),  # control points, linear
    Named("NREG_TRANS", None, None, "NiftyReg", advice="turn it into a deformation field with reg_transform -def"),
    Named("Mapping", None, None, "SPM", "RAS", absolute=True),
    *(Named(name, None, None, "SPM", advice=_FLOW) for name in ("Velocity", "Flow Field", "Momentum")),
    *(
        Named(None, code, None, "FNIRT", advice="turn these spline coefficients into a field with fnirtfileutils")
        for code in (2007, 2008, 2009, 2017, 2018, 2019)
    ),
    Named(OWN_NAME, 1006, None, "NIfTI", "RAS"),
    Named(OWN_NAME, 1007, None, "NIfTI", "LPS"),
    Named(None, 1006, None, "NIfTI", "RAS", sure=False),  # NIFTI_INTENT_DISPVECT, which ITK flips
    Named(None, 1007, None, "NIfTI", "LPS", sure=False),  # NIFTI_INTENT_VECTOR
)


def open_volume(path: Path) -> Volume:
    """Read the header of a NIfTI, NRRD or MetaImage file, by its content."""
    head = read_head(path, _HEAD)
    if head.startswith(b"NRRD"):
        return open_nrrd(path)
    return open_metaimage(path) if looks_like_metaimage(head) else open_nifti(path)


def data_files(path: Path) -> list[Path]:
    """Return the file of the samples where a header has one of its own."""
    return [file for file in open_volume(path).files if file != path]


def read_volume(path: Path, options: Options) -> Transform:
    """Read a field in NIfTI, NRRD or MetaImage, by its content."""
    volume = open_volume(path)
    if volume.format == "NRRD":
        return read_as_asked(_nrrd_field(volume), options)
    if volume.format == "MetaImage":
        # ITK's vectors are in the world of the image.
        stored = _stored(volume, "LPS")
        stored.placed = "ElementSpacing" in volume.header or "ElementSize" in volume.header
        return read_as_asked(stored, options)
    if options.convention not in (None, DISPLACEMENT, POSITION):
        return _read_network(volume, options)
    stored, row = nifti_field(volume)
    if row is None:
        return read_as_asked(stored, options)
    if row.order > 1:
        nodes = stored.grid.points(0, stored.grid.count).T.reshape(stored.vectors.shape)
        signs = RAS_SIGNS[: stored.grid.d].reshape(-1, *([1] * stored.grid.d))
        # A cubic B-spline reproduces a linear function from its samples, so coefficients of positions less the nodes
        # are coefficients of the displacements.
        coefficients = stored.vectors.astype(np.float64) * signs - nodes
        return BSplineTransform(coefficients, stored.grid, row.order, notes=stored.notes).described(format=row.program)
    return read_as_asked(stored, options).described(format=row.program)


def _stored(volume: Volume, frame: str | None) -> StoredField:
    """Load the vectors of a volume, which has as many numbers at a node as dimensions."""
    d = len(volume.frame.size)
    if volume.count != d:
        sizes = " x ".join(map(str, volume.sizes))
        advice = ""
        if volume.format == "NIfTI" and len(volume.sizes) == 4 and volume.sizes[0] == 3:
            advice = f" Fields of 3 x X x Y x Z are of voxelmorph and others: give {say('convention', 'voxelmorph')}."
        raise FileFormatError(
            f"{volume.path.name!r} has the dimensions {sizes} and {volume.count} numbers at a node, but a field in "
            f"{d}D has {d}.{advice}"
        )
    if volume.frame.factor != 1:
        raise FileFormatError(
            f"{volume.path.name!r} has lengths in a unit of {volume.frame.factor:g} {volume.frame.units}, which leaves "
            f"the unit of its vectors open; write it in mm."
        )
    for sentence in volume.suspicions:
        warn_suspicious(sentence)
    notes = [*volume.notes]
    grid = _grid(volume.frame, volume.path, notes)
    return StoredField(volume.path.name, as_floats(volume.values(), volume.path.name), grid, frame, notes=notes)


def nifti_field(volume: Volume) -> tuple[StoredField, Named | None]:
    """Load vectors, grid and meaning of a NIfTI file.

    The vectors are the fifth dimension, (X, Y, Z, 1, d), as ITK, ANTs and most programs write them, or the fourth,
    (X, Y, Z, 3), whose intent ITK does not heed.
    """
    header = volume.header
    code = int(header["intent_code"])
    name = bytes(np.asarray(header["intent_name"]).item()).partition(b"\0")[0].decode("ascii", "replace").strip()
    kind = float(header["intent_p1"])
    rows = [row for row in NAMED if row.name in (None, name) and row.code in (None, code) and row.kind in (None, kind)]
    row = next((row for row in rows if row.name or row.advice or len(volume.sizes) == 5), None)
    if row is not None and row.advice:
        what = f"of kind {kind:g}" if row.name == "NREG_TRANS" else f"({name or code})"
        name = volume.path.name
        raise FileFormatError(f"{name!r} is a file of {row.program} {what} that is not read: {row.advice}.")
    stored = _stored(volume, None)
    stored.placed = int(header["sform_code"]) > 0 or int(header["qform_code"]) > 0
    if row is None:
        return stored, None
    kinds = "positions" if row.absolute else "displacements"
    if row.sure:
        stored.notes.append(f"The intent {name!r} of {row.program} says that these are {kinds} in {row.frame}.")
    else:
        stored.notes.append(f"NIfTI intent {code}: ITK-based programs take its vectors as {row.frame}.")
    stored.frame = row.frame
    stored.absolute = row.absolute
    stored.named = row.sure
    return stored, row


def nifti_array(volume: Volume) -> Vectors:
    """Return the values of a NIfTI file with its dimensions as axes, x first."""
    sizes = volume.sizes
    if len(sizes) == 5 and sizes[3] == 1:  # between space and vectors NIfTI has the axis of time
        sizes = (*sizes[:3], sizes[4])
    values = as_floats(volume.values(), volume.path.name).reshape(sizes[::-1])
    return values.transpose(range(values.ndim - 1, -1, -1))


def _read_network(volume: Volume, options: Options) -> Transform:
    """Read a NIfTI as the array that a network saved, whose header may say where it lies, and nothing else."""
    path = volume.path
    if options.reference is None and not ARRAYS[str(options.convention)].first:
        stored = on_reference(nifti_field(volume)[0], None)
        if np.array_equal(np.abs(stored.grid.affine), np.eye(stored.grid.d + 1)):
            raise AmbiguousFileError(
                f"{path.name!r} has the identity as its matrix, as fields saved without a header have; give "
                f"{say('reference')}, the fixed grid."
            )
        options = replace(options, reference=stored.grid)
    return field_of_file(nifti_array(volume), path.name, options, axes="xyz")


def _grid(frame: Frame, path: Path, notes: list[str]) -> Grid:
    grid, more = resolve_grid(frame, path, None, None)
    notes += more
    return grid


_LPS = ("left-posterior-superior", "lps")
_WAYS = {"resampling": "fixed_to_moving", "modeling": "moving_to_fixed"}  # Slicer's words


def _nrrd_field(volume: Volume) -> StoredField:
    """Load vectors and grid of a NRRD file.

    The vectors are in the space that the file names. ITK takes their components as they are, so only LPS (and 2D)
    files are clear; another space leaves the frame of the vectors open.
    """
    name = volume.path.name
    fields = volume.header
    if "space directions" not in fields:
        raise FileFormatError(f"{name!r} has no space directions, so it does not say where its vectors lie.")
    way = fields.get("displacement field type:=", "resampling")
    if way not in _WAYS:
        raise FileFormatError(
            f"{name!r} has displacement field type:={way[:40]}, but 'resampling' (fixed to moving points) or "
            f"'modeling' (moving to fixed points) is expected."
        )
    d = len(volume.frame.size)
    clear = d == 2 or fields.get("space", "").lower() in _LPS
    if "measurement frame" in fields:
        words = re.findall(r"[-+0-9.eE]+", fields["measurement frame"])
        clear = clear and [_number(word) for word in words] == np.eye(d).ravel().tolist()
    stored = _stored(volume, "LPS" if clear else None)
    stored.direction = _WAYS[way]
    return stored


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def read_afni_warp(path: Path) -> Transform:
    """Read three bricks of displacements at the nodes of the base image, as 3dQwarp and 3dNwarpCat write them."""
    from nibabel.brikhead import AFNIImage  # slow to import

    with quiet():
        image = AFNIImage.from_filename(path)
    size = image.shape[:3]
    if len(image.shape) != 4 or image.shape[3] != 3 or min(image.shape) < 1:
        raise FileFormatError(
            f"{path.name!r} has the dimensions {' x '.join(map(str, image.shape))}, but a warp of AFNI has three "
            f"bricks: X x Y x Z x 3."
        )
    bricks = Path(image.file_map["image"].filename)
    check_memory(path.name, 8 * int(np.prod(image.shape, dtype=object)), lambda: size_on_disk(bricks))
    vectors = np.ascontiguousarray(as_floats(np.asarray(image.dataobj), path.name).T)
    notes = ["AFNI's warp holds displacements from base (fixed) to source (moving) in DICOM order, which is LPS."]
    grid = _grid(frame_from_affine(path, RAS_TO_LPS @ image.affine, size, "mm"), path, notes)
    return field_of(StoredField(path.name, vectors, grid, "LPS", notes=notes))


MGZ_WARP = bytes([0, 0, 3, 1])  # version 1 and intent 3, a warp
_MGH_DATA = 284  # bytes before the values
_GEOMETRY, _META = 10, 13
_WITHOUT_LENGTH = (11, 12, 1, 2, 20)  # tags after which nothing can be skipped
_VOLUME = struct.Struct(">4i15f512x")
# What the numbers of an .mgz are, by its code: whether positions, and their frame.
_MGZ_KINDS = {0: (True, "index"), 1: (False, "index"), 2: (True, "RAS"), 3: (False, "RAS")}


def read_mgz(path: Path, options: Options) -> Transform:
    """Read a warp of FreeSurfer (``.mgz``, ``.mgh``): it stands on the atlas (fixed) and holds places of the image.

    All numbers are big-endian; tags with the geometry of both images follow the nodes.
    """
    packed = read_head(path, 2) == GZIP
    with gzip.open(path) if packed else path.open("rb") as stream:
        if stream.read(4) != MGZ_WARP:
            raise FileFormatError(f"{path.name!r} is not a warp in .mgz; write a morph as one with mri_warp_convert.")
        return _read_mgh(_Mgh(path, stream))


@dataclass(frozen=True)
class _Mgh:
    """A stream that is read so many bytes at a time, of which a file that lies about its size has too few."""

    path: Path
    stream: gzip.GzipFile | BufferedReader

    def take(self, count: int) -> bytes:
        size = self.path.stat().st_size
        check_room(self.path.name, count, size * INFLATION, "its nodes")
        check_memory(self.path.name, 4 * count, size)
        data = self.stream.read(count)
        if len(data) < count:
            raise FileFormatError(f"{self.path.name!r} is truncated: {count} bytes were to follow, {len(data)} do.")
        return data


def _read_mgh(file: _Mgh) -> Transform:
    name = file.path.name
    *size, frames, kind, _ = struct.unpack(">6i", file.take(24))
    file.take(_MGH_DATA - 28)
    if min(size) < 1 or frames != 3 or kind != 3:
        raise FileFormatError(f"{name!r} has {frames} numbers of type {kind} at a voxel; a warp has 3 floats.")
    values = np.frombuffer(file.take(4 * 3 * int(np.prod(size, dtype=object))), ">f4")
    file.take(20)  # parameters of the scan
    sides: list[Grid] = []
    meaning = None
    while len(tag := file.stream.read(4)) == 4 and (code := int.from_bytes(tag, "big")):
        if code == _GEOMETRY:
            sides = [_mgz_side(file, "source", None), _mgz_side(file, "target", tuple(size))]
        elif code in _WITHOUT_LENGTH:
            break
        else:
            content = file.take(int.from_bytes(file.take(8), "big"))
            if code == _META:
                meaning = int.from_bytes(content[:4], "big")
    if meaning not in _MGZ_KINDS:
        raise FileFormatError(f"{name!r} does not say what its numbers are; write it with mri_warp_convert.")
    if not sides:
        raise FileFormatError(f"{name!r} has no geometry of its images; write it again with mri_warp_convert.")
    moving, nodes = sides
    absolute, frame = _MGZ_KINDS[meaning]
    vectors = values.reshape(3, *size[::-1]).astype(np.float32)
    notes = ["FreeSurfer's warp stands on the target (fixed) and holds places of the source (moving)."]
    return field_of(StoredField(name, vectors, nodes, frame, absolute, notes), moving)


def _mgz_side(file: _Mgh, side: str, size: tuple[int, ...] | None) -> Grid:
    """Return the grid of the image (moving) or of the atlas (fixed), the latter with the size of the field."""
    valid, *numbers = _VOLUME.unpack(file.take(_VOLUME.size))
    if valid != 1:
        raise FileFormatError(f"{file.path.name!r} says that the geometry of its {side} is not valid, which is needed.")
    extent = np.array(numbers[:3])
    values = np.array(numbers[3:])
    matrix = RAS_TO_LPS @ voxels_to_ras(extent, values[:3], values[3:12].reshape(3, 3).T, values[12:])
    frame = frame_from_affine(file.path, matrix, size or tuple(int(n) for n in extent), "mm")
    return _grid(frame, file.path, [])


def voxels_to_ras(size: Floats, spacing: Floats, axes: Floats, centre: Floats) -> Floats:
    """Return the matrix from voxels to RAS of an image of FreeSurfer, whose centre is the voxel half its size."""
    matrix = np.eye(4)
    matrix[:3, :3] = axes * spacing
    matrix[:3, 3] = centre - matrix[:3, :3] @ (size / 2)
    return matrix
