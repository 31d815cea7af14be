"""`write_transform`: linear transforms as ITK text, everything else as a dense field sampled on a grid."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np

from warpgauge.errors import InvalidInputError, say, warn_suspicious
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import check_folder, replace_file
from warpgauge.io.images.array_files import nifti_image, nrrd_header
from warpgauge.io.transforms.transform import AffineTransform, Chain, Transform
from warpgauge.io.transforms.volumes import OWN_NAME

SUFFIXES = (".tfm", ".txt", ".nii", ".nii.gz", ".nrrd")
_BLOCK = 2**18
_LEVEL = 4  # of gzip: higher levels rarely shrink a field further


def write_transform(transform: Transform, path: str | os.PathLike[str], *, grid: Grid | None = None) -> Path:
    """Write a transform in a form that ITK, SimpleITK, ANTs and Slicer read; it maps fixed to moving points.

    Parameters
    ----------
    transform : Transform
        What to write.
    path : path
        Ends in ``.tfm`` or ``.txt`` (linear transforms and chains of them, exactly), or in ``.nii``, ``.nii.gz`` or
        ``.nrrd`` (a displacement field; NIfTI has a header of single precision).
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
    check_folder(file)
    if suffix in (".tfm", ".txt"):
        data = _itk_text(transform, file.name)
    else:
        nodes = _grid(transform, grid, file.name)
        vectors = _sampled(transform, nodes, file.name)
        data = _nrrd(vectors, nodes) if suffix == ".nrrd" else _nifti(vectors, nodes)
        if suffix == ".nii.gz":
            data = gzip.compress(data, _LEVEL, mtime=0)
    replace_file(file, data)
    return file


def _itk_text(transform: Transform, name: str) -> bytes:
    lines = ["#Insight Transform File V1.0"]
    parts: list[AffineTransform] = []
    for part in transform.parts() if isinstance(transform, Chain) else [transform]:
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
        raise InvalidInputError(f"{name!r} holds a field, which needs {say('grid')}, the grid of the fixed image.")
    if nodes.d != transform.d:
        raise InvalidInputError(f"The grid is {nodes.d}D, but the transform is {transform.d}D.")
    return nodes


def _sampled(transform: Transform, grid: Grid, name: str) -> Floats:
    vectors = np.empty((grid.d, grid.count))
    for part, points in grid.blocks(_BLOCK):
        vectors[:, part] = (transform.map(points) - points).T
    outside = int(np.count_nonzero(np.isnan(vectors[0])))
    if outside == grid.count:
        raise InvalidInputError(f"{name!r} is not written: the transform is defined at none of the {outside} nodes.")
    if outside:
        warn_suspicious(
            f"{name}: {outside} of {grid.count} nodes lie outside the transform's domain and are written as NaN."
        )
    return vectors.reshape(grid.d, *grid.shape)


def _interleaved(vectors: Floats) -> bytes:
    return np.ascontiguousarray(np.moveaxis(vectors, 0, -1), dtype="<f8").tobytes()


def _text(values: Floats) -> str:
    return " ".join(repr(float(x)) for x in values.ravel())


def _nifti(vectors: Floats, grid: Grid) -> bytes:
    image = nifti_image(np.moveaxis(vectors, 0, -1), grid)
    image.header["intent_name"] = OWN_NAME
    return bytes(image.to_bytes())


def _nrrd(vectors: Floats, grid: Grid) -> bytes:
    header = nrrd_header(np.moveaxis(vectors, 0, -1), grid)
    return header + gzip.compress(_interleaved(vectors), _LEVEL, mtime=0)
