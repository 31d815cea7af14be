"""Warps of FreeSurfer: ``.mgz`` and ``.mgh`` whose header says that it is a warp.

They stand on the atlas (target, fixed) and hold places of the image (moving). All numbers are big-endian; tags with the
geometry of both images follow the nodes.
"""

from __future__ import annotations

import gzip
import struct
from io import BufferedReader
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import foreign_decoder, read_head
from warpgauge.io.images.frame import frame_from_affine, resolve_grid
from warpgauge.io.limits import INFLATION, check_memory
from warpgauge.io.transforms.base import BY_NAME, BY_SIGNATURE, NO, Format, Options, Transform, check_room
from warpgauge.io.transforms.field import Vectors
from warpgauge.io.transforms.field_files import StoredField, finish_field
from warpgauge.io.transforms.freesurfer import voxels_to_ras

TITLE = "FreeSurfer warp"
_MORPHS = (".m3z", ".m3d")  # whose first number is the version 1.0
_WARP = bytes([0, 0, 3, 1])  # version 1 and intent 3, a warp
_MGH_DATA = 284  # bytes before the values
_GEOMETRY, _TYPE, _LABELS, _META, _OLD_TABLE, _OLD_RAS, _OLD_SURFACE = 10, 11, 12, 13, 1, 2, 20
_VOLUME = struct.Struct(">4i15f512x")
_Stream = gzip.GzipFile | BufferedReader
# What the numbers of an .mgz are, by its code: whether positions, and their frame.
_KINDS = {0: (True, "index"), 1: (False, "index"), 2: (True, "RAS"), 3: (False, "RAS")}


def read_warp(path: Path, options: Options) -> Transform:
    """Read a warp of FreeSurfer; the geometry of both images is its own."""
    packed = read_head(path, 2) == b"\x1f\x8b"
    with foreign_decoder(path, "a warp of FreeSurfer"), gzip.open(path) if packed else path.open("rb") as stream:
        if stream.read(4) != _WARP:
            raise FileFormatError(f"{path.name!r} is not a warp in .mgz; write a morph as one with mri_warp_convert.")
        stored, moving, absolute, frame = _read_mgh(path, stream)
    return finish_field(stored, frame, absolute=absolute, moving=moving)


_Read = tuple[StoredField, Grid, bool, str]


def _exactly(path: Path, stream: _Stream, count: int) -> bytes:
    """Read so many bytes, of which a file that lies about its size has too few."""
    check_room(path.name, count, path.stat().st_size * INFLATION, "its nodes")
    check_memory(path.name, 4 * count, path.stat().st_size)
    found = stream.read(count)
    if len(found) < count:
        raise FileFormatError(f"{path.name!r} is truncated: {count} bytes were to follow, {len(found)} do.")
    return found


def _read_mgh(path: Path, stream: _Stream) -> _Read:
    *size, frames, kind, _ = struct.unpack(">6i", _exactly(path, stream, 24))
    _exactly(path, stream, _MGH_DATA - 28)
    if min(size) < 1 or frames != 3 or kind != 3:
        raise FileFormatError(f"{path.name!r} has {frames} numbers of type {kind} at a voxel; a warp has 3 floats.")
    values = np.frombuffer(_exactly(path, stream, 4 * 3 * int(np.prod(size, dtype=object))), ">f4")
    _exactly(path, stream, 20)  # parameters of the scan
    sides, meta = None, None
    while len(tag := stream.read(4)) == 4 and (code := int.from_bytes(tag, "big")):
        if code == _GEOMETRY:
            sides = _sides(path, stream)
        elif code in (_OLD_TABLE, _OLD_RAS, _OLD_SURFACE, _TYPE, _LABELS):
            break  # without a length
        else:
            content = _exactly(path, stream, int.from_bytes(_exactly(path, stream, 8), "big"))
            meta = int.from_bytes(content[:4], "big") if code == _META else meta
    if meta not in _KINDS:
        raise FileFormatError(f"{path.name!r} does not say what its numbers are; write it with mri_warp_convert.")
    places = np.moveaxis(values.reshape(3, *size[::-1]).astype(np.float32), 0, -1).transpose(2, 1, 0, 3)
    absolute, frame = _KINDS[meta]
    return _stored(path, places, sides, absolute=absolute, frame=frame)


def _sides(path: Path, stream: _Stream) -> tuple[tuple[Floats, tuple[int, ...]], ...]:
    """Return matrix and size of the image (moving) and of the atlas (fixed)."""
    found = []
    for side in ("source", "target"):
        valid, *numbers = _VOLUME.unpack(_exactly(path, stream, _VOLUME.size))
        if valid != 1:
            raise FileFormatError(f"{path.name!r} says that the geometry of its {side} is not valid, which is needed.")
        size, values = np.array(numbers[:3]), np.array(numbers[3:])
        axes = values[3:12].reshape(3, 3).T
        found.append((voxels_to_ras(size, values[:3], axes, values[12:]), tuple(int(n) for n in size)))
    return tuple(found)


def _stored(
    path: Path, places: Floats | Vectors, sides: tuple[tuple[Floats, tuple[int, ...]], ...] | None,
    *, absolute: bool, frame: str
) -> _Read:  # fmt: skip
    """Return the field of places (x, y, z, 3), the grid of the moving image, and what the numbers are."""
    if sides is None:
        raise FileFormatError(f"{path.name!r} has no geometry of its images; write it again with mri_warp_convert.")
    (image, size), (atlas, _) = sides

    def grid(matrix: Floats, extent: tuple[int, ...]) -> Grid:
        world = np.diag([-1.0, -1.0, 1.0, 1.0]) @ matrix
        return resolve_grid(frame_from_affine(path, world, extent, "mm"), path, None, None)[0]

    nodes = grid(atlas, places.shape[:3])
    vectors = np.ascontiguousarray(places.transpose(3, 2, 1, 0))
    told = ["FreeSurfer's warp stands on the target (fixed) and holds places of the source (moving)."]
    return StoredField(path.name, TITLE, vectors, nodes, frame, told), grid(image, size), absolute, frame


def _recognise(head: bytes, suffix: str) -> int:
    """By the version and the intent of an .mgz; morphs, which are refused with advice, by their name."""
    if head[:4] == _WARP:
        return BY_SIGNATURE
    return BY_NAME if suffix in _MORPHS else NO


FORMAT = Format("freesurfer-warp", read_warp, _recognise, packed=True)
