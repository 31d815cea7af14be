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

    The path ends in ``.tfm`` or ``.txt`` (linear transforms and chains of them, exactly), or in ``.nii``, ``.nii.gz``
    or ``.nrrd``: a displacement field on the grid of the fixed image, by default that of the transform itself. NIfTI
    has a header of single precision. A file is replaced only when the new one is complete. Nodes outside the domain
    are NaN, with a warning that counts them.
    """
    file = Path(path)
    suffix = next((s for s in sorted(SUFFIXES, key=len, reverse=True) if file.name.lower().endswith(s)), None)
    if suffix is None:
        raise InvalidInputError(f"{file.name!r} must end in {', '.join(SUFFIXES)} to be written as a transform.")
    check_folder(file)
    if suffix in (".tfm", ".txt"):
        replace_file(file, _itk_text(transform, file.name))
        return file
    nodes = grid or transform.support
    if nodes is None:
        raise InvalidInputError(f"{file.name!r} holds a field, which needs {say('grid')}, the grid of the fixed image.")
    if nodes.d != transform.d:
        raise InvalidInputError(f"The grid is {nodes.d}D, but the transform is {transform.d}D.")
    vectors = _sampled(transform, nodes, file.name)
    if suffix == ".nrrd":
        samples = gzip.compress(np.ascontiguousarray(vectors, dtype="<f8").tobytes(), _LEVEL, mtime=0)
        replace_file(file, nrrd_header(vectors, nodes) + samples)
        return file
    image = nifti_image(vectors, nodes)
    image.header["intent_name"] = OWN_NAME
    data = image.to_bytes()
    replace_file(file, gzip.compress(data, _LEVEL, mtime=0) if suffix == ".nii.gz" else data)
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
            f"Parameters: {' '.join(repr(float(x)) for x in (*part.matrix.ravel(), *part.offset))}",
            f"FixedParameters: {' '.join(['0'] * d)}",
        ]
    return ("\n".join(lines) + "\n").encode("ascii")


def _sampled(transform: Transform, grid: Grid, name: str) -> Floats:
    """Return the displacements at all nodes, components last."""
    vectors = np.empty((grid.count, grid.d))
    for part, points in grid.blocks(_BLOCK):
        vectors[part] = transform.map(points) - points
    outside = int(np.count_nonzero(np.isnan(vectors[:, 0])))
    if outside == grid.count:
        raise InvalidInputError(f"{name!r} is not written: the transform is defined at none of the {outside} nodes.")
    if outside:
        warn_suspicious(
            f"{name}: {outside} of {grid.count} nodes lie outside the transform's domain and are written as NaN."
        )
    return vectors.reshape(*grid.shape, grid.d)
