"""The transforms that ITK files name by type, parameters and fixed parameters.

The MATLAB files of ANTs and the files of Slicer share these names and parameters.
"""

from __future__ import annotations

import re

import numpy as np

from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import linear
from warpgauge.io.transforms.base import Description, Transform, default_units, grid_of_header, world_frame
from warpgauge.io.transforms.field import DisplacementField, Vectors, field_description
from warpgauge.io.transforms.itk_linear import LINEAR, take
from warpgauge.io.transforms.splines import BSplineTransform, KernelSpline, bspline_description

_TYPE = re.compile(r"([A-Za-z0-9]+)_(?:double|float)_(\d+)_(\d+)(?:_(\d+))?\Z")
_FIELDS = (
    "DisplacementFieldTransform",
    "GaussianSmoothingOnUpdateDisplacementFieldTransform",
    "BSplineSmoothingOnUpdateDisplacementFieldTransform",
)
_BSPLINES = ("BSplineTransform", "BSplineDeformableTransform")
_KERNELS = {
    "ThinPlateSplineKernelTransform": "ThinPlateSpline",
    "ThinPlateR2LogRSplineKernelTransform": "ThinPlateR2LogRSpline",
    "VolumeSplineKernelTransform": "VolumeSpline",
}


def split_type(type_name: str, path_name: str) -> tuple[str, int, int]:
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


def itk_transform(
    type_name: str, parameters: Vectors, fixed_parameters: Floats, file_format: str, path_name: str
) -> Transform:
    """Build the transform of one entry of an ITK file, its type named as in ``Euler3DTransform_double_3_3``."""
    name, d, order = split_type(type_name, path_name)
    for values, what in ((parameters, "parameters"), (fixed_parameters, "fixed parameters")):
        if name not in _FIELDS and not np.isfinite(values).all():
            raise FileFormatError(f"{path_name!r}: some {what} of its {name} are not finite numbers.")
    try:
        if name in _BSPLINES:
            return _bspline(parameters, fixed_parameters, d, order, file_format, path_name)
        if name in _FIELDS:
            return _field(parameters, fixed_parameters, d, file_format, path_name)
        if name in _KERNELS:
            return _spline(name, parameters, fixed_parameters, d, file_format, path_name)
        if name not in LINEAR:
            raise FileFormatError(
                f"{path_name!r} holds a {name!r}, which warpgauge does not read; convert it to a displacement field."
            )
        matrix, offset = LINEAR[name](np.asarray(parameters, dtype=np.float64), fixed_parameters, d)
        about = itk_description(file_format, path_name, d, kind=f"{name} (affine)")
        return linear.AffineTransform(matrix, offset, about)
    except InvalidInputError as error:
        raise FileFormatError(f"{path_name!r}: its {name} is not valid: {str(error).rstrip('.')}.") from error


def itk_description(file_format: str, path_name: str, d: int, kind: str) -> Description:
    """Describe a transform in ITK's world."""
    return Description(
        format=file_format,
        kind=kind,
        frame=world_frame(d),
        units=default_units(d),
        assumptions=("ITK files map fixed points to moving points in the world of the images (LPS in 3D).",),
        source=path_name,
    )


def _grid(fixed: Floats, d: int, count: int, path_name: str) -> Grid:
    """Grid of fixed parameters ``size, origin, spacing, direction`` (row-major), checked against the values stored."""
    take(fixed, 3 * d + d * d, "fixed parameters (size, origin, spacing, direction)")
    size, origin, spacing = fixed[:d], fixed[d : 2 * d], fixed[2 * d : 3 * d]
    direction = fixed[3 * d :].reshape(d, d)
    needed = d * float(np.prod(size))
    if needed != count:
        raise InvalidInputError(f"a grid of {size.tolist()} needs {needed:.0f} parameters, but there are {count}")
    return grid_of_header(path_name, size, spacing, origin, direction, default_units(d))


def _bspline(p: Vectors, fixed: Floats, d: int, order: int, file_format: str, path_name: str) -> Transform:
    grid = _grid(fixed, d, p.size, path_name)
    about = itk_description(file_format, path_name, d, "")
    words = bspline_description(order, file_format, frame=about.frame, units=about.units, source=path_name)
    return BSplineTransform(p.reshape(d, *grid.shape), grid, order, words.assuming(*about.assumptions))


def _field(p: Vectors, fixed: Floats, d: int, file_format: str, path_name: str) -> Transform:
    grid = _grid(fixed, d, p.size, path_name)
    about = itk_description(file_format, path_name, d, "")
    words = field_description(file_format, frame=about.frame, units=about.units, source=path_name)
    vectors = np.ascontiguousarray(np.moveaxis(p.reshape(*grid.shape, d), -1, 0))
    return DisplacementField(vectors, grid, description=words.assuming(*about.assumptions))


def _spline(name: str, p: Vectors, fixed: Floats, d: int, file_format: str, path_name: str) -> Transform:
    if p.size == 0 or p.size % d or p.size != fixed.size:
        raise InvalidInputError(
            f"it needs as many source as target landmarks, but has {p.size} and {fixed.size} numbers"
        )
    about = itk_description(file_format, path_name, d, kind=f"{_KERNELS[name]} through landmarks")
    return KernelSpline(p.reshape(-1, d), fixed.reshape(-1, d), _KERNELS[name], description=about)
