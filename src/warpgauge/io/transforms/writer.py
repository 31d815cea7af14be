"""`write_transform`: linear transforms as ITK text, everything else as a dense field sampled on a grid."""

from __future__ import annotations

import gzip
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import replace_file
from warpgauge.io.transforms.base import Transform
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.linear import AffineTransform
from warpgauge.io.transforms.ngff import is_transformation, linear_parts, write_ngff
from warpgauge.io.transforms.ome_field import write_ome_field

SUFFIXES = (".tfm", ".txt", ".nii", ".nii.gz", ".nrrd", ".mha", ".zarr", ".ngff.zarr")
_BLOCK = 2**18
_LEVEL = 4  # of gzip: higher levels rarely shrink a field further


def write_transform(transform: Transform, path: str | os.PathLike[str], *, grid: Grid | None = None) -> Path:
    """Write a transform in a form that ITK, SimpleITK, ANTs and Slicer read; it maps fixed to moving points.

    Parameters
    ----------
    transform : Transform
        What to write.
    path : path
        Ends in ``.tfm`` or ``.txt`` (linear transforms and chains of them, exactly), or in ``.nii``, ``.nii.gz``,
        ``.nrrd`` or ``.mha`` (a displacement field), in ``.zarr`` (the same as OME-Zarr, of any size), or in
        ``.ngff.zarr`` (a coordinate transformation of OME-NGFF 0.6: affine matrices, or displacements).
    grid : Grid, optional
        Where to sample the field: the grid of the fixed image. That of the transform itself by default.

    Returns
    -------
    Path
        The file, which is replaced only when the new one is complete. Nodes outside the domain are NaN, with a warning
        that counts them.
    """
    file = Path(path)
    suffix = next((s for s in sorted(SUFFIXES, key=len, reverse=True) if file.name.lower().endswith(s)), None)
    if suffix is None:
        raise InvalidInputError(f"{file.name!r} must end in {', '.join(SUFFIXES)} to be written as a transform.")
    if not file.parent.is_dir():
        raise InvalidInputError(f"There is no folder {str(file.parent)!r} to write {file.name!r} into; make it first.")
    if suffix == ".ngff.zarr":
        _write_group(transform, file, grid)
        return file
    if suffix == ".zarr":
        nodes = _grid(transform, grid, file.name)
        _check_outside(write_ome_field(transform, file, nodes), nodes, file.name)
        return file
    if suffix in (".tfm", ".txt"):
        data = _itk_text(transform, file.name)
    else:
        nodes = _grid(transform, grid, file.name)
        vectors = _sampled(transform, nodes, file.name)
        writer = {".nrrd": _nrrd, ".mha": _metaimage}.get(suffix, _nifti)
        data = writer(vectors, nodes)
        if suffix == ".nii.gz":
            data = gzip.compress(data, _LEVEL, mtime=0)
    replace_file(file, data)
    return file


def _write_group(transform: Transform, folder: Path, grid: Grid | None) -> None:
    """Write OME-NGFF beside the aim and then put it there; only another transformation of its kind is replaced."""
    if folder.exists() and not (folder.is_dir() and (folder / "zarr.json").is_file() and is_transformation(folder)):
        raise InvalidInputError(f"{folder.name!r} already exists and is not an OME-NGFF transformation; it is kept.")
    nodes = vectors = None
    if not linear_parts(transform):
        nodes = _grid(transform, grid, folder.name)
        if not np.allclose(nodes.direction, np.eye(nodes.d)):
            raise InvalidInputError(
                f"{folder.name!r} is not written: the grid is turned, and fields of OME-NGFF stand along the axes; "
                "give grid=, a grid along the axes."
            )
        vectors = _sampled(transform, nodes, folder.name)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
        write_ngff(transform, Path(scratch) / "new", nodes, vectors)
        if folder.exists():
            folder.rename(Path(scratch) / "old")
        (Path(scratch) / "new").rename(folder)


def _flat(transform: Transform) -> Iterator[Transform]:
    if isinstance(transform, Chain):
        for part in transform.transforms:
            yield from _flat(part)
    else:
        yield transform


def _itk_text(transform: Transform, name: str) -> bytes:
    lines = ["#Insight Transform File V1.0"]
    parts: list[AffineTransform] = []
    for part in _flat(transform):
        if not isinstance(part, AffineTransform):
            raise InvalidInputError(
                f"{name!r} can hold linear transforms only, but this one has a {part.description.kind}; write it as a "
                f"field, for instance to .nii.gz."
            )
        parts.append(part)
    d = transform.d
    if len(parts) > 1:
        lines += ["#Transform 0", f"Transform: CompositeTransform_double_{d}_{d}"]
    # ITK applies the last stored transform first.
    for number, part in enumerate(reversed(parts), start=int(len(parts) > 1)):
        lines += [
            f"#Transform {number}",
            f"Transform: AffineTransform_double_{d}_{d}",
            f"Parameters: {_text(part.matrix)} {_text(part.offset)}",
            f"FixedParameters: {' '.join(['0'] * d)}",
        ]
    return ("\n".join(lines) + "\n").encode("ascii")


def _grid(transform: Transform, grid: Grid | None, name: str) -> Grid:
    nodes = grid or transform.support
    if nodes is None:
        raise InvalidInputError(f"{name!r} holds a field, which needs grid=, the grid of the fixed image.")
    if nodes.d != transform.d:
        raise InvalidInputError(f"The grid is {nodes.d}D, but the transform is {transform.d}D.")
    return nodes


def _sampled(transform: Transform, grid: Grid, name: str) -> Floats:
    vectors = np.empty((grid.d, grid.count))
    for part, points in grid.blocks(_BLOCK):
        vectors[:, part] = (transform.map(points) - points).T
    _check_outside(int(np.count_nonzero(np.isnan(vectors[0]))), grid, name)
    return vectors.reshape(grid.d, *grid.shape)


def _check_outside(outside: int, grid: Grid, name: str) -> None:
    """Warn of nodes at which the transform is not defined, or refuse a field that has no others."""
    if outside == grid.count:
        raise InvalidInputError(f"{name!r} is not written: the transform is defined at none of the {outside} nodes.")
    if outside:
        warnings.warn(
            f"{name}: {outside} of {grid.count} nodes lie outside the transform's domain and are written as NaN.",
            SuspiciousDataWarning,
            stacklevel=4,
        )


def _interleaved(vectors: Floats) -> bytes:
    return np.ascontiguousarray(np.moveaxis(vectors, 0, -1), dtype="<f8").tobytes()


def _text(values: Floats) -> str:
    return " ".join(repr(float(x)) for x in values.ravel())


def _nifti(vectors: Floats, grid: Grid) -> bytes:
    """Write intent 1007 with LPS vectors in (X, Y, Z, 1, d), the layout that ITK writes and reads."""
    import nibabel

    affine = np.eye(4)
    affine[: grid.d, : grid.d] = grid.affine[: grid.d, : grid.d]
    affine[: grid.d, 3] = grid.origin
    data = vectors.reshape(grid.d, 1, *((1,) * (3 - grid.d)), *grid.shape).T
    image = nibabel.Nifti1Image(data, np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine, dtype=np.float64)
    image.header.set_intent(1007)
    image.set_sform(image.affine, 1)
    image.set_qform(image.affine, 1)
    image.header.set_xyzt_units({"px": 0, "um": 3}.get(grid.units, 2))
    return bytes(image.to_bytes())


def _nrrd(vectors: Floats, grid: Grid) -> bytes:
    columns = (grid.direction * grid.spacing).T
    directions = " ".join(f"({','.join(repr(float(x)) for x in column)})" for column in columns)
    lines = [
        "NRRD0004",
        "type: double",
        f"dimension: {grid.d + 1}",
        "space: left-posterior-superior" if grid.d == 3 else "space dimension: 2",
        f"sizes: {grid.d} {' '.join(map(str, grid.size))}",
        f"space directions: none {directions}",
        f"kinds: vector {' '.join(['domain'] * grid.d)}",
        "endian: little",
        "encoding: gzip",
        f"space origin: ({','.join(repr(float(x)) for x in grid.origin)})",
    ]
    if grid.units == "um":
        lines.append("space units: " + " ".join(['"um"'] * grid.d))
    return ("\n".join(lines) + "\n\n").encode("ascii") + gzip.compress(_interleaved(vectors), _LEVEL, mtime=0)


def _metaimage(vectors: Floats, grid: Grid) -> bytes:
    lines = [
        "ObjectType = Image",
        f"NDims = {grid.d}",
        "BinaryData = True",
        "BinaryDataByteOrderMSB = False",
        "CompressedData = False",
        f"TransformMatrix = {_text(grid.direction.T)}",
        f"Offset = {_text(grid.origin)}",
        f"ElementSpacing = {_text(grid.spacing)}",
        f"DimSize = {' '.join(map(str, grid.size))}",
        f"ElementNumberOfChannels = {grid.d}",
        "ElementType = MET_DOUBLE",
        "ElementDataFile = LOCAL",
    ]
    if grid.units == "um":
        lines.insert(-1, "DistanceUnits = um")
    return ("\n".join(lines) + "\n").encode("ascii") + _interleaved(vectors)
