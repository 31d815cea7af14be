"""ITK transform files: text, HDF5, and the MATLAB form that ANTs writes.

A file names each transform by its type, as ``Euler3DTransform_double_3_3``, with parameters and fixed parameters.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, warn_suspicious
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import quiet, read_head, read_text
from warpgauge.io.limits import INFLATION, check_memory, check_parts, check_room
from warpgauge.io.transforms.lattice import BSplineTransform, DisplacementField, LandmarkSpline, Vectors
from warpgauge.io.transforms.meaning import Options
from warpgauge.io.transforms.transform import AffineTransform, Chain, Transform, centred

TEXT = b"#Insight Transform File"
HDF5 = b"\x89HDF\r\n\x1a\n"
COMPOSITE = "CompositeTransform"
NOTES = ("ITK files map fixed points to moving points in the world of the images (LPS in 3D).",)
# A dense field written as text has about 20 bytes per number; this is a field of 256^3.
_TEXT_LIMIT = 2**30
_MAT_LIMIT = 2**20
_BOM = b"\xef\xbb\xbf"


@dataclass
class Entry:
    """One transform of an ITK file, as stored."""

    type_name: str
    parameters: Vectors | None = None
    fixed_parameters: Floats | None = None


def is_itk(head: bytes, suffix: str) -> bool:
    """Return whether a file is one of ITK, in text or HDF5."""
    return head.startswith(HDF5) or head.removeprefix(_BOM).startswith(TEXT)


def is_mat4(head: bytes, suffix: str) -> bool:
    """Return whether a file starts with the header of a version 4 matrix of floats of MATLAB, in either byte order."""
    if len(head) < 20:
        return False
    for order, machine in (("<", 0), (">", 1000)):
        kind, rows, columns, imaginary, name = struct.unpack(order + "5i", head[:20])
        if kind in (machine, machine + 10) and min(rows, columns) >= 0 and imaginary == 0 and 1 < name < 256:
            return True
    return False


def read_itk(path: Path, options: Options) -> Transform:
    """Read an ITK transform file, by its content: text, HDF5, or the MATLAB form of ANTs."""
    head = read_head(path, 64)
    if head.startswith(HDF5):
        return _combined(_hdf5_entries(path), path.name).described(format="ITK HDF5")
    if is_mat4(head, ""):
        return _combined([_mat_entry(path)], path.name).described(format="ANTs .mat")
    return _combined(_text_entries(path), path.name).described(format="ITK text")


def _text_entries(path: Path) -> list[Entry]:
    name = path.name
    text = read_text(path, "ITK transform file", _TEXT_LIMIT)
    if not text.startswith(TEXT.decode()):
        raise FileFormatError(
            f"{name!r} is not an ITK transform file: its first line is not '#Insight Transform File V1.0'."
        )
    if not text.endswith("\n"):
        warn_suspicious(
            f"{name} does not end with a line end, as ITK writes it, so its last number may be cut; check it."
        )
    entries: list[Entry] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        key, colon, value = line.partition(":")
        if not colon:
            raise FileFormatError(f"{name!r}, line {number}: expected 'Key: values', got {line[:60]!r}.")
        if key == "Transform":
            entries.append(Entry(value.strip()))
            check_parts(name, len(entries) - 1)  # the first is the composite itself
            continue
        if key not in ("Parameters", "FixedParameters"):
            raise FileFormatError(f"{name!r}, line {number}: unknown key {key[:60]!r} in an ITK transform file.")
        if not entries:
            raise FileFormatError(f"{name!r}, line {number}: {key!r} comes before any 'Transform:' line.")
        try:
            numbers = np.array(value.split(), dtype=np.float64)
        except ValueError as error:
            raise FileFormatError(f"{name!r}, line {number}: some of its values are not numbers.") from error
        if key == "Parameters":
            entries[-1].parameters = numbers
        else:
            entries[-1].fixed_parameters = numbers
    return entries


def _mat_entry(path: Path) -> Entry:
    """Return the transform of a ``.mat`` file: a matrix named after the type, and ``fixed``."""
    from scipy.io import loadmat, whosmat

    size = path.stat().st_size
    if size > _MAT_LIMIT:
        raise FileFormatError(f"{path.name!r} has {size} bytes, far more than a linear transform needs.")
    data = io.BytesIO(path.read_bytes())  # from which no more is read than there is, whatever a header promises
    with quiet():
        names = [name for name, _, _ in whosmat(data)]
        matrices = loadmat(data)
    kinds = [name for name in names if name != "fixed"]
    if len(kinds) != 1 or len(names) != 2:
        listed = ", ".join(repr(name) for name in names[:5])
        raise FileFormatError(f"{path.name!r} must hold one ITK transform and 'fixed', but holds {listed}.")
    if any(matrices[name].dtype.kind != "f" for name in names):
        raise FileFormatError(f"{path.name!r} holds a matrix that is not of real floating point numbers.")
    parameters, fixed = (np.asarray(matrices[name], dtype=np.float64).ravel("F") for name in (kinds[0], "fixed"))
    return Entry(kinds[0], parameters, fixed)


# Old versions of ITK wrote the second spelling.
_PARAMETERS = ("TransformParameters", "TranformParameters")
_FIXED = ("TransformFixedParameters", "TranformFixedParameters")


def _hdf5_entries(path: Path) -> list[Entry]:
    import h5py

    with h5py.File(path, "r") as store:
        if "TransformGroup" not in store:
            raise FileFormatError(
                f"{path.name!r} is an HDF5 file without 'TransformGroup', so it is not an ITK transform."
            )
        group = _own_member(store, "TransformGroup", path)
        check_parts(path.name, len(group) - 1)
        return [_hdf5_entry(group, str(i), path) for i in range(len(group))]


def _hdf5_entry(group: Any, key: str, path: Path) -> Entry:
    if key not in group or "TransformType" not in _own_member(group, key, path):
        raise FileFormatError(f"{path.name!r} has no type of its transform number {key}; the file is damaged.")
    member = _own_member(group, key, path)
    stored = _own_member(member, "TransformType", path)
    if stored.size != 1:
        raise FileFormatError(f"{path.name!r} has a type of its transform number {key} that is not one text.")
    value = np.asarray(stored[()]).reshape(-1)[0]
    kind = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    fixed = _hdf5_numbers(member, _FIXED, path)
    return Entry(
        kind, _hdf5_numbers(member, _PARAMETERS, path), None if fixed is None else np.asarray(fixed, dtype=np.float64)
    )


def _own_member(group: Any, key: str, path: Path) -> Any:
    """Return a member that this very file holds; HDF5 can also point into other files, which are not read."""
    import h5py

    link = group.get(key, getlink=True)
    member = group[key] if isinstance(link, h5py.HardLink) else None
    if isinstance(member, h5py.Dataset) and (member.external or member.is_virtual):
        member = None
    if member is None:
        raise FileFormatError(
            f"{path.name!r} keeps {key!r} in another file (an HDF5 link, virtual data or external storage), which is "
            f"not read; save the transform as one file."
        )
    return member


def _hdf5_numbers(member: Any, names: tuple[str, str], path: Path) -> Vectors | None:
    name = next((name for name in names if name in member), None)
    if name is None:
        return None
    dataset = _own_member(member, name, path)
    if dataset.dtype.kind != "f":
        raise FileFormatError(f"{path.name!r}: {names[0]} are of type {dataset.dtype}, but must be floating point.")
    # A dataset may promise any shape and store nothing: ask what is on the disk before allocating.
    needed = int(dataset.size) * dataset.dtype.itemsize
    stored = dataset.id.get_storage_size()
    check_room(path.name, needed, stored * INFLATION, names[0])
    check_memory(path.name, needed, stored)
    values = np.asarray(dataset[()]).reshape(-1)
    return values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64, copy=False)


def _combined(entries: list[Entry], name: str) -> Transform:
    """Make one transform of the entries of a file.

    A composite stands first and has no parameters; its members follow, and **the last of them is applied first**.
    """
    if not entries:
        raise FileFormatError(f"{name!r} holds no transform.")
    kinds = [_split_type(entry.type_name, name)[0] for entry in entries]
    if kinds[0] != COMPOSITE:
        if len(entries) > 1:
            raise AmbiguousFileError(
                f"{name!r} holds {len(entries)} transforms without a CompositeTransform that says how to apply them; "
                f"split it and give its parts as a list of files, in the order of application to points."
            )
        return _transform(entries[0], name)
    if COMPOSITE in kinds[1:]:
        raise FileFormatError(f"{name!r} holds a composite within a composite, which ITK does not write; flatten it.")
    if len(entries) == 1:
        raise FileFormatError(f"{name!r} holds a composite without members, so it maps nothing.")
    members = [_transform(entry, name) for entry in reversed(entries[1:])]
    if len({member.d for member in members}) > 1:
        raise FileFormatError(f"{name!r} mixes 2D and 3D transforms in one composite.")
    return Chain(members).described(
        "ITK composites apply the last stored transform first; the members are listed in the order of application."
    )


_TYPE = re.compile(r"([A-Za-z0-9]+)_(?:double|float)_(\d+)_(\d+)(?:_(\d+))?\Z")


def _split_type(type_name: str, path_name: str) -> tuple[str, int, int]:
    """Return name, dimension and spline order (3 by default) of a type like ``AffineTransform_double_3_3``."""
    match = _TYPE.match(type_name.strip())
    if match is None:
        raise FileFormatError(
            f"{path_name!r} names the transform type {type_name.strip()[:80]!r}, which is not of the form of ITK, "
            f"as in 'AffineTransform_double_3_3'."
        )
    name, from_d, to_d, order = match.groups()
    if from_d != to_d or from_d not in ("2", "3"):
        raise FileFormatError(
            f"{path_name!r} holds a transform from {from_d}D to {to_d}D, but only 2D to 2D and 3D to 3D are read."
        )
    return name, int(from_d), 3 if order is None else int(order)


_FIELDS = (
    "DisplacementFieldTransform",
    "GaussianSmoothingOnUpdateDisplacementFieldTransform",
    "BSplineSmoothingOnUpdateDisplacementFieldTransform",
)
_BSPLINES = ("BSplineTransform", "BSplineDeformableTransform")
_SPLINES = "ThinPlateSpline", "ThinPlateR2LogRSpline", "VolumeSpline"


def _transform(entry: Entry, path_name: str) -> Transform:
    """Build the transform of one entry."""
    name, d, order = _split_type(entry.type_name, path_name)
    p = entry.parameters
    fixed = entry.fixed_parameters
    if p is None or fixed is None:
        missing = "parameters" if p is None else "fixed parameters"
        raise FileFormatError(f"{path_name!r} has no {missing} of its {entry.type_name[:60]}; it is truncated.")
    for values, what in ((p, "parameters"), (fixed, "fixed parameters")):
        if name not in _FIELDS and not np.isfinite(values).all():
            raise FileFormatError(f"{path_name!r}: some {what} of its {name} are not finite numbers.")
    try:
        if name in _BSPLINES:
            grid = _grid_of_parameters(fixed, d, p.size)
            return BSplineTransform(p.reshape(d, *grid.shape), grid, order, notes=NOTES)
        if name in _FIELDS:
            grid = _grid_of_parameters(fixed, d, p.size)
            vectors = np.ascontiguousarray(np.moveaxis(p.reshape(*grid.shape, d), -1, 0))
            return DisplacementField(vectors, grid, name=path_name, notes=NOTES)
        kernel = name.removesuffix("KernelTransform")
        if kernel in _SPLINES and kernel != name:
            if p.size == 0 or p.size % d or p.size != fixed.size:
                raise InvalidInputError(
                    f"it needs as many source as target landmarks, but has {p.size} and {fixed.size} numbers"
                )
            return LandmarkSpline(p.reshape(-1, d), fixed.reshape(-1, d), kernel, notes=NOTES)
        if name not in LINEAR:
            raise FileFormatError(
                f"{path_name!r} holds a {name!r}, which warpgauge does not read; save it again as AffineTransform, or "
                f"as a displacement field."
            )
        matrix, offset = _linear(name, np.asarray(p, dtype=np.float64), fixed, d)
        return AffineTransform(matrix, offset, f"{name} (affine)", notes=NOTES)
    except InvalidInputError as error:
        raise FileFormatError(f"{path_name!r}: its {name} is not valid: {str(error).rstrip('.')}.") from error


def _grid_of_parameters(fixed: Floats, d: int, count: int) -> Grid:
    """Return the grid of fixed parameters ``size, origin, spacing, direction`` (row-major) of so many parameters."""
    _count(fixed, 3 * d + d * d, "fixed parameters (size, origin, spacing, direction)")
    size = fixed[:d]
    needed = d * float(np.prod(size))
    if needed != count:
        raise InvalidInputError(f"a grid of {size.tolist()} needs {needed:.0f} parameters, but there are {count}")
    return grid_of_numbers(size, fixed[2 * d : 3 * d], fixed[d : 2 * d], fixed[3 * d :].reshape(d, d))


def grid_of_numbers(size: Floats, spacing: Floats, origin: Floats, direction: Floats) -> Grid:
    """Return the grid of numbers in a file without a unit: millimetres in 3D, by the convention of medical volumes."""
    if not (np.isfinite(size).all() and (size == np.round(size)).all() and (np.abs(size) < 2**31).all()):
        raise InvalidInputError(f"a grid size of {size.tolist()} is not a count of nodes")
    return Grid(tuple(int(n) for n in size), spacing, origin, direction, "mm" if size.size == 3 else "px")


def _count(values: Floats, count: int, what: str) -> Floats:
    if values.size != count:
        raise InvalidInputError(f"it needs {count} {what}, but has {values.size}")
    return values


def turn_2d(angle: float) -> Floats:
    """Rotate by ``angle`` radians from x to y."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def turn_euler(angles: ArrayLike, zyx: bool = False) -> Floats:
    """Rotate by Euler angles about x, y, z: ``Rz Rx Ry``, or ``Rz Ry Rx`` where ``zyx``, as ITK and elastix do."""
    from scipy.spatial.transform import Rotation

    x, y, z = np.asarray(angles, dtype=np.float64)
    turns = Rotation.from_euler("ZYX", [z, y, x]) if zyx else Rotation.from_euler("ZXY", [z, x, y])
    return np.asarray(turns.as_matrix())


def turn_versor(versor: Floats) -> Floats:
    """Rotation of the right part ``(x, y, z)`` of a unit quaternion, whose scalar part is not negative."""
    from scipy.spatial.transform import Rotation

    length = float(versor @ versor)
    if length > 1 + 1e-9:
        raise InvalidInputError(f"the versor {versor.tolist()} is longer than 1, so it stands for no rotation")
    return np.asarray(Rotation.from_quat([*versor, np.sqrt(max(0.0, 1 - length))]).as_matrix())


class Linear(NamedTuple):
    """A linear kind: dimension (0: both), number of parameters (0: by ``d``), matrix, place of the translation."""

    d: int
    parameters: int
    matrix: Callable[[Floats, Floats, int], Floats]
    shift: slice | None = None


def _skewed(p: Floats, _fixed: Floats, _d: int) -> Floats:
    matrix = turn_versor(p[:3]) + np.diag(p[6:9] - 1)
    matrix[[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]] += p[9:]
    return matrix


_AFFINE = Linear(0, 0, lambda p, fixed, d: p[: d * d].reshape(d, d))
_RIGID = Linear(2, 3, lambda p, fixed, d: turn_2d(p[0]), slice(1, 3))
LINEAR: dict[str, Linear] = {
    "AffineTransform": _AFFINE,
    "MatrixOffsetTransformBase": _AFFINE,
    "TranslationTransform": Linear(0, 0, lambda p, fixed, d: np.eye(d)),
    "ScaleTransform": Linear(0, 0, lambda p, fixed, d: np.diag(p)),
    "IdentityTransform": Linear(0, 0, lambda p, fixed, d: np.eye(d)),
    "Rigid2DTransform": _RIGID,
    "Euler2DTransform": _RIGID,
    "Similarity2DTransform": Linear(2, 4, lambda p, fixed, d: p[0] * turn_2d(p[1]), slice(2, 4)),
    # The fourth fixed parameter, after the centre, may ask for the order Z Y X.
    "Euler3DTransform": Linear(3, 6, lambda p, fixed, d: turn_euler(p[:3], bool(fixed[3:].any())), slice(3, 6)),
    "VersorTransform": Linear(3, 3, lambda p, fixed, d: turn_versor(p[:3])),
    "VersorRigid3DTransform": Linear(3, 6, lambda p, fixed, d: turn_versor(p[:3]), slice(3, 6)),
    "Similarity3DTransform": Linear(3, 7, lambda p, fixed, d: p[6] * turn_versor(p[:3]), slice(3, 6)),
    # ITK adds (scale - 1) to the diagonal of the rotation; it does not multiply.
    "ScaleVersor3DTransform": Linear(3, 9, lambda p, fixed, d: turn_versor(p[:3]) + np.diag(p[6:9] - 1), slice(3, 6)),
    "ScaleSkewVersor3DTransform": Linear(3, 15, _skewed, slice(3, 6)),
}


def _linear(name: str, p: Floats, fixed: Floats, d: int) -> tuple[Floats, Floats]:
    """Return matrix and offset of a linear kind; the centre of rotation is among the fixed parameters."""
    kind = LINEAR[name]
    if kind.d not in (0, d):
        raise InvalidInputError(f"this kind exists in {kind.d}D only, but the file says {d}D")
    if name == "IdentityTransform":
        return np.eye(d), np.zeros(d)
    if name == "TranslationTransform":
        return np.eye(d), _count(p, d, "parameters")
    _count(p, kind.parameters or (d if name == "ScaleTransform" else d * d + d), "parameters")
    if name == "Euler3DTransform" and fixed.size > 4:
        raise InvalidInputError(f"it needs 3 or 4 fixed parameters (centre, ComputeZYX), but has {fixed.size}")
    centre = fixed[:3] if name == "Euler3DTransform" else fixed
    if centre.size == 0:  # old files leave it out where it is the origin
        centre = np.zeros(d)
    _count(centre, d, "fixed parameters (the centre)")
    if kind is _AFFINE:
        shift = p[d * d :]
    else:
        shift = np.zeros(d) if kind.shift is None else p[kind.shift]
    return centred(kind.matrix(p, fixed, d), centre, shift)
