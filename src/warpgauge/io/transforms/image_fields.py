"""Fields in image files: NIfTI (the intents 1006 and 1007 of ITK, and files without an intent), NRRD, MetaImage.

NRRD fields are written by ITK and Slicer, MetaImage fields by ITK and elastix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from warpgauge.errors import FileFormatError, say
from warpgauge.geometry import Grid
from warpgauge.io.files import existing_file, foreign_decoder, neighbour, read_head
from warpgauge.io.images import metaimage, nifti, nrrd_files
from warpgauge.io.images.frame import resolve_grid
from warpgauge.io.images.nrrd_files import nrrd_frame
from warpgauge.io.images.samples import Block, gzip_head
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Format, Options, Transform
from warpgauge.io.transforms.field import DisplacementField, Vectors
from warpgauge.io.transforms.field_files import (
    StoredField,
    as_floats,
    choose_frame,
    components_first,
    finish_field,
    settled,
    warn_of_other_extent,
    with_reference,
)

NIFTI = "NIfTI"
DISPLACEMENT, VECTOR = 1006, 1007  # NIFTI_INTENT_DISPVECT, NIFTI_INTENT_VECTOR
OWN_NAME = "warpgauge"  # intent name of the fields that warpgauge writes: displacements in the frame of the intent
_GZIP = b"\x1f\x8b"


def load_nifti(path: Path) -> StoredField:
    """Load vectors, grid and intent of a NIfTI file.

    The vectors are the fifth dimension, (X, Y, Z, 1, d), as ITK, ANTs and most programs write them, or the fourth,
    (X, Y, Z, 3). Intent 1006 in the first layout means RAS vectors, 1007 LPS; anything else leaves it open.
    """
    header_path, data_path = _files(path)
    with foreign_decoder(path, "a NIfTI field"):
        header, values = _load(header_path, data_path)
        dim = [int(n) for n in header["dim"]]
        components, size = _layout(path.name, dim)
        notes: list[str] = []
        suspicions: list[str] = []
        grid = _grid(header_path, header, size, notes, suspicions)
        vectors = values.reshape(components, *grid.shape)
        intent = int(header["intent_code"])
    frame = None
    named = text_of(header["intent_name"]) == OWN_NAME
    if dim[0] == 5 and intent in (DISPLACEMENT, VECTOR):
        frame = "RAS" if intent == DISPLACEMENT else "LPS"
        notes.append(f"NIfTI intent {intent}: ITK-based programs take its vectors as {frame}.")
    placed = int(header["sform_code"]) > 0 or int(header["qform_code"]) > 0
    return StoredField(path.name, NIFTI, vectors, grid, frame, notes, suspicions, placed, named)


@dataclass(frozen=True)
class Intent:
    """What a NIfTI header says about the meaning of its values: code, name, and the parameters p1 to p3."""

    code: int
    name: str
    parameters: tuple[float, float, float]


@overload
def nifti_intent(source: Path) -> Intent: ...
@overload
def nifti_intent(source: bytes) -> Intent | None: ...
def nifti_intent(source: Path | bytes) -> Intent | None:
    """Return the intent of a NIfTI file, or of the first bytes of a file; None where these are not a NIfTI header."""
    header = nifti.nifti_header(source[:540]) if isinstance(source, bytes) else _header(_files(source)[0])
    if header is None:
        return None
    first, second, third = (float(header[f"intent_p{n}"]) for n in (1, 2, 3))
    return Intent(int(header["intent_code"]), text_of(header["intent_name"]), (first, second, third))


def text_of(field: Any) -> str:
    """Return the text of a field of a NIfTI header, up to its first zero."""
    return bytes(np.asarray(field).item()).partition(b"\0")[0].decode("ascii", "replace").strip()


def nifti_extensions(path: Path) -> bool:
    """Return whether a NIfTI file says that extensions follow its header."""
    header_path, _ = _files(path)
    size = int(_header(header_path)["sizeof_hdr"])
    packed = read_head(header_path, 2) == _GZIP
    content = gzip_head(header_path, size + 4) if packed else read_head(header_path, size + 4)
    return content[size : size + 1] not in (b"", b"\0")


def nifti_dimensions(path: Path) -> tuple[list[int], int]:
    """Return the dimensions and the intent of a NIfTI file, without its values."""
    header_path, _ = _files(path)
    with foreign_decoder(path, "NIfTI"):
        header = _header(header_path)
        dim = [int(n) for n in header["dim"]]
        return dim[1 : 1 + max(0, min(dim[0], 7))], int(header["intent_code"])


def load_nifti_array(path: Path) -> tuple[Vectors, list[int]]:
    """Load the values of a NIfTI file in the order of its dimensions reversed (C order), and these dimensions."""
    header_path, data_path = _files(path)
    with foreign_decoder(path, "NIfTI"):
        header, values = _load(header_path, data_path)
        dim = [int(n) for n in header["dim"]]
    size = dim[1 : dim[0] + 1]
    return values.reshape(size[::-1]), size


def _files(path: Path) -> tuple[Path, Path]:
    existing_file(path, "field")
    return nifti.header_and_data(path)


def _header(path: Path) -> Any:
    packed = read_head(path, 2) == _GZIP
    header = nifti.nifti_header(gzip_head(path, 540) if packed else read_head(path, 540))
    if header is None:
        raise FileFormatError(f"{path.name!r} does not start with a NIfTI header; it is damaged or mislabelled.")
    return header


def _load(path: Path, data_path: Path) -> tuple[Any, Vectors]:
    header = _header(path)
    dim = [int(n) for n in header["dim"]]
    if not 1 <= dim[0] <= 7 or any(n < 1 for n in dim[1 : dim[0] + 1]):
        raise FileFormatError(f"{path.name!r} has the dimensions {dim}, which no field has; its header is damaged.")
    if int(header["datatype"]) in nifti.COLOURS:
        raise FileFormatError(
            f"{path.name!r} holds colours (RGB), but a field has vectors of floats; give the field itself."
        )
    dtype = nifti.sample_type(path, header)
    shape = tuple(dim[dim[0] : 0 : -1])
    offset = nifti.data_offset(path, header) if data_path == path else 0
    if read_head(data_path, 2) == _GZIP:
        values = Block(data_path, 0, dtype, shape, "gzip", skip=offset).unpack()
    else:
        values = Block(data_path, offset, dtype, shape).reader()(tuple(slice(None) for _ in shape))
    slope, intercept = float(header["scl_slope"]), float(header["scl_inter"])
    vectors = as_floats(values, path.name)
    if np.isfinite(slope) and slope != 0 and np.isfinite(intercept) and (slope, intercept) != (1.0, 0.0):
        with np.errstate(over="ignore"):
            vectors = vectors.astype(np.float64) * slope + intercept
    return header, vectors


def _layout(name: str, dim: list[int]) -> tuple[int, tuple[int, ...]]:
    """Return the number of components and the size of the grid."""
    size = dim[1 : dim[0] + 1]
    if dim[0] == 5 and size[3] == 1 and size[4] in (2, 3) and (size[4] == 3 or size[2] == 1):
        return size[4], tuple(size[: size[4]])
    if dim[0] == 4 and size[3] == 3:
        return 3, tuple(size[:3])
    advice = f" voxelmorph's and Learn2Reg's (2020) have 3 x X x Y x Z: give {say('format', 'learn2reg')} and "
    raise FileFormatError(
        f"{name!r} has the dimensions {' x '.join(map(str, size))}, but a field has X x Y x Z x 1 x 3, "
        f"X x Y x 1 x 1 x 2 or X x Y x Z x 3."
        + (f"{advice}{say('layout', '2020')}." if dim[0] == 4 and size[0] == 3 else "")
    )


def _grid(path: Path, header: Any, size: tuple[int, ...], notes: list[str], suspicions: list[str]) -> Grid:
    if int(header["xyzt_units"]) & 7 == 1:
        raise FileFormatError(f"{path.name!r} has lengths in metres, which leaves the unit of its vectors open.")
    grid, more = resolve_grid(nifti.header_frame(path, header, size, notes, suspicions), path, None, None)
    notes.extend(more)
    return grid


NRRD = "NRRD"
_SPATIAL = ("domain", "space")
_LPS = ("left-posterior-superior", "lps")
_WAYS = {"resampling": "fixed_to_moving", "modeling": "moving_to_fixed"}  # Slicer's words


def load_nrrd(path: Path) -> StoredField:
    """Load vectors and grid of a NRRD file.

    The vectors are in the space that the file names. ITK takes their components as they are, so only LPS (and 2D)
    files are clear; another space leaves the frame of the vectors open.
    """
    existing_file(path, "field")
    with foreign_decoder(path, "a NRRD field"):
        fields, header_end = nrrd_files.header_fields(path)
        sizes = nrrd_files.header_sizes(path, fields)
        axis, spatial = _axes(path, fields, sizes)
        size = tuple(sizes[i] for i in spatial)
        notes: list[str] = []
        grid, more = resolve_grid(nrrd_frame(path, fields, spatial, size, notes), path, None, None)
        shape = tuple(sizes[::-1])
        read, _ = nrrd_files.stored_samples(path, fields, header_end, nrrd_files.sample_type(path, fields), shape)
        values = as_floats(read(tuple(slice(None) for _ in shape)), path.name)
        vectors = _ordered(values, axis)
    stored = StoredField(path.name, NRRD, vectors, grid, _vector_frame(fields, len(size)), [*notes, *more])
    way = fields.get("displacement field type:=", "resampling")
    if way not in _WAYS:
        raise FileFormatError(
            f"{path.name!r} has displacement field type:={way[:40]}, but 'resampling' (fixed to moving points) or "
            f"'modeling' (moving to fixed points) is expected."
        )
    stored.direction = _WAYS[way]
    return stored


def _axes(path: Path, fields: nrrd_files.Fields, sizes: list[int]) -> tuple[int, list[int]]:
    """Find the axis of the components, first or last in the file, and the spatial axes."""
    kinds = fields.get("kinds", "").lower().split()
    d = len(sizes) - 1
    if d not in (2, 3) or "space directions" not in fields:
        raise FileFormatError(
            f"{path.name!r} has {len(sizes)} axes {'and no space directions ' * ('space directions' not in fields)}"
            f"but a NRRD field has 3 axes in 2D or 4 in 3D, and says where they lie."
        )
    directions = re.findall(r"\([^()]*\)|\S+", fields["space directions"])
    for axis in (0, d):
        loose = len(directions) == d + 1 and directions[axis].lower() == "none"
        named = len(kinds) == d + 1 and kinds[axis] not in _SPATIAL
        if sizes[axis] == d and (loose or named):
            return axis, [i for i in range(d + 1) if i != axis]
    raise FileFormatError(
        f"{path.name!r} has the sizes {sizes}, but a field has an axis of {d} components without a space direction, "
        f"first or last."
    )


def _ordered(values: Vectors, axis: int) -> Vectors:
    """Bring the components to the front; the file's first axis is the last one here."""
    return components_first(values) if axis == 0 else np.ascontiguousarray(values)


def _vector_frame(fields: nrrd_files.Fields, d: int) -> str | None:
    if "measurement frame" in fields:
        numbers = re.findall(r"[-+0-9.eE]+", fields["measurement frame"])
        try:
            rotated = [float(n) for n in numbers] != np.eye(d).ravel().tolist()
        except ValueError:
            rotated = True
        if rotated:
            return None
    return "LPS" if d == 2 or fields.get("space", "").lower() in _LPS else None


METAIMAGE = "MetaImage"


def load_metaimage(path: Path) -> StoredField:
    """Load vectors and grid of a MetaImage file; ITK's vectors are in the world of the image."""
    existing_file(path, "field")
    with foreign_decoder(path, "a MetaImage field"):
        fields, header_end = metaimage.header_fields(path)
        d = metaimage.whole_numbers(path, "NDims", fields.get("NDims", ""))
        channels = metaimage.whole_numbers(path, "ElementNumberOfChannels", fields.get("ElementNumberOfChannels", "1"))
        if fields.get("ObjectType", "Image") != "Image" or d not in (2, 3) or channels != d:
            raise FileFormatError(
                f"{path.name!r} is a {d}D {fields.get('ObjectType', 'Image')} with {channels} numbers at each node, "
                f"but a displacement field is an Image in 2D with 2 or in 3D with 3."
            )
        numbers = metaimage.header_numbers(path, "DimSize", fields.get("DimSize", ""), d)
        if (numbers < 1).any() or (numbers % 1 != 0).any() or (numbers > 2**31).any():
            raise FileFormatError(f"{path.name!r} has DimSize = {fields['DimSize']!r}, which are not node counts.")
        size = tuple(int(n) for n in numbers)
        notes: list[str] = []
        grid, more = resolve_grid(metaimage.header_frame(path, fields, size, notes), path, None, None)
        shape = (*size[::-1], channels)
        read, _ = metaimage.stored_samples(path, fields, header_end, metaimage.sample_type(path, fields), shape)
        values = read(tuple(slice(None) for _ in range(d + 1)))
    vectors = components_first(as_floats(values, path.name))
    placed = "ElementSpacing" in fields or "ElementSize" in fields
    return StoredField(path.name, METAIMAGE, vectors, grid, "LPS", [*notes, *more], placed=placed)


def load_field(path: Path) -> StoredField:
    """Load a field from a NIfTI, NRRD or MetaImage file, by its content."""
    head = read_head(path, 4096)
    if head.startswith(b"NRRD"):
        return load_nrrd(path)
    if metaimage.looks_like_metaimage(head):
        return load_metaimage(path)
    return load_nifti(path)


def data_files(path: Path) -> list[Path]:
    """Return the file of the samples where a header has one of its own."""
    head = read_head(path, 4096)
    if head.startswith(b"NRRD"):
        name = nrrd_files.header_fields(path)[0].get("data file")
    elif metaimage.looks_like_metaimage(head):
        name = metaimage.header_fields(path)[0]["ElementDataFile"]
        name = None if name.upper() == "LOCAL" else name
    else:
        return [one for one in nifti.header_and_data(path) if one != path]
    return [] if name is None else [neighbour(path, name)]


def read_world_field(path: Path, order: int, ignore_direction: bool) -> DisplacementField:
    """Read a field as ITK does, for the deformation fields that elastix names; elastix may ignore the direction."""
    stored = load_field(path)
    frame = choose_frame(stored, None, "write it again with ITK, as elastix does")
    if ignore_direction:
        stored.grid = replace(stored.grid, direction=np.eye(stored.grid.d))
    return finish_field(stored, frame, order=order)


def _read(path: Path, options: Options) -> Transform:
    stored = with_reference(load_field(path), options.reference)
    warn_of_other_extent(stored, options.reference if stored.direction == "fixed_to_moving" else options.moving)
    frame, absolute = settled(
        stored,
        options,
        f"give {say('frame', 'LPS')}, 'RAS' or 'index', or {say('format', 'learn2reg')} or 'fsl' where it is one of "
        "those",
    )
    return finish_field(stored, frame, absolute=absolute, moving=options.moving)


_TAKES = frozenset({"convention", "frame"})
FORMATS = (
    Format(
        "nifti",
        _read,
        lambda head, suffix: BY_SIGNATURE if nifti.nifti_header(head) is not None else NO,
        _TAKES,
        packed=True,
        companions=data_files,
    ),
    Format(
        "nrrd",
        _read,
        lambda head, suffix: BY_SIGNATURE if head.startswith(b"NRRD") else NO,
        _TAKES,
        companions=data_files,
    ),
    Format(
        "metaimage",
        _read,
        lambda head, suffix: BY_SIGNATURE if metaimage.looks_like_metaimage(head) else NO,
        _TAKES,
        companions=data_files,
    ),
)
