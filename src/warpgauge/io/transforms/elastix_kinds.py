"""The transforms of elastix: from one parameter file to a transform, without its initial transform.

``GridDirection`` is stored by columns, affine matrices by rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.io.transforms import linear
from warpgauge.io.transforms.base import Description, Transform
from warpgauge.io.transforms.elastix_parameters import ParameterTable, beside
from warpgauge.io.transforms.headers import default_units, grid_of_header
from warpgauge.io.transforms.splines import BSplineTransform, KernelSpline, bspline_description

FORMAT = "elastix"
_KNOWN = (
    "TranslationTransform, EulerTransform, SimilarityTransform, AffineTransform, AffineLogTransform, "
    "BSplineTransform, RecursiveBSplineTransform, SplineKernelTransform, DeformationFieldTransform and File"
)


@dataclass(frozen=True)
class _Context:
    """One parameter file and its dimension."""

    table: ParameterTable
    d: int

    @property
    def name(self) -> str:
        return self.table.path.name

    def describe(self, kind: str) -> Description:
        return Description(
            format=FORMAT,
            kind=kind,
            frame="world, LPS" if self.d == 3 else "world",
            units=default_units(self.d),
            assumptions=("elastix maps fixed points to moving points in the world of the images (LPS in 3D).",),
            source=self.name,
        )


def named_files(table: ParameterTable) -> list[Path]:
    """List the files beside the initial transform that a parameter file needs."""
    keys = {"DeformationFieldTransform": "DeformationFieldFileName", "File": "TransformFileName"}
    key = keys.get(table.text("Transform"))
    if key is None and table.flag("UseBinaryFormatForTransformationParameters", False):
        key = "TransformParameters"
    return [] if key is None else [beside(table.path, table.text(key), "data")[0].resolve()]


def own_transform(table: ParameterTable) -> Transform:
    """Build the transform of one file, without its initial transform."""
    name = table.path.name
    kind = table.text("Transform")
    d = table.integer("FixedImageDimension", table.integer("MovingImageDimension", 0))
    if d not in (2, 3) or table.integer("MovingImageDimension", d) != d:
        raise FileFormatError(
            f"{name!r} is for images of {table.text('FixedImageDimension', '?')} and "
            f"{table.text('MovingImageDimension', '?')} dimensions, but both must be 2 or both 3."
        )
    context = _Context(table, d)
    try:
        if kind in ("BSplineTransform", "RecursiveBSplineTransform"):
            return _bspline(context, kind)
        if kind == "SplineKernelTransform":
            return _kernel_spline(context)
        if kind == "DeformationFieldTransform":
            return _deformation_field(context)
        if kind == "File":
            return _itk_file(context)
        return _linear(context, kind)
    except InvalidInputError as error:
        raise FileFormatError(f"{name!r}: its {kind} is not valid: {str(error).rstrip('.')}.") from error


def _parameters(context: _Context) -> Floats:
    table = context.table
    if table.flag("UseBinaryFormatForTransformationParameters", False):
        values = _binary_parameters(table)
    else:
        values = table.numbers("TransformParameters")
    if "NumberOfParameters" in table and table.integer("NumberOfParameters", 0) != values.size:
        raise FileFormatError(
            f"{context.name!r} promises {table.integer('NumberOfParameters', 0)} TransformParameters, but has "
            f"{values.size}; it is truncated or was edited."
        )
    return values


def _binary_parameters(table: ParameterTable) -> Floats:
    file, _ = beside(table.path, table.text("TransformParameters"), "parameter data")
    size = file.stat().st_size
    if size != 8 * table.integer("NumberOfParameters", 0):
        raise FileFormatError(f"{file.name!r} has {size} bytes, but {table.path.name!r} promises 8 for each parameter.")
    values = np.fromfile(file, dtype="<f8")
    if not np.isfinite(values).all():
        raise FileFormatError(f"{file.name!r}: some parameters are not finite (NaN or infinity).")
    return values


def _count(context: _Context, values: Floats, wanted: int) -> Floats:
    if values.size != wanted:
        raise FileFormatError(
            f"{context.name!r}: a {context.table.text('Transform')} in {context.d}D has {wanted} parameters, but the "
            f"file has {values.size}."
        )
    return values


def _linear(context: _Context, kind: str) -> Transform:
    from scipy.linalg import expm

    table, d = context.table, context.d
    if kind == "TranslationTransform":
        about = context.describe("translation")
        return linear.AffineTransform(np.eye(d), _count(context, _parameters(context), d), about)
    if kind not in ("EulerTransform", "SimilarityTransform", "AffineTransform", "AffineLogTransform"):
        raise FileFormatError(f"{context.name!r} holds a {kind[:60]!r}, which is not read; known are {_KNOWN}.")
    p = _parameters(context)
    centre = table.numbers("CenterOfRotationPoint", d)
    if kind == "EulerTransform":
        _count(context, p, 3 if d == 2 else 6)
        zyx = table.flag("ComputeZYX", False)
        matrix = linear.rotation_2d(p[0]) if d == 2 else linear.rotation_3d(p[:3], zyx)
        shift = p[1:] if d == 2 else p[3:]
    elif kind == "SimilarityTransform":
        _count(context, p, 4 if d == 2 else 7)
        matrix = p[0] * linear.rotation_2d(p[1]) if d == 2 else p[6] * linear.rotation_of_versor(p[:3])
        shift = p[2:] if d == 2 else p[3:6]
    else:
        _count(context, p, d * d + d)
        matrix = p[: d * d].reshape(d, d)
        if kind == "AffineLogTransform":
            matrix = np.asarray(expm(matrix))
        shift = p[d * d :]
    about = context.describe(f"{kind.removesuffix('Transform')} (affine)")
    return linear.AffineTransform(*linear.centred(matrix, centre, shift), about)


def _bspline(context: _Context, kind: str) -> Transform:
    table, d = context.table, context.d
    if table.flag("UseCyclicTransform", False):
        raise FileFormatError(f"{context.name!r} is a cyclic B-spline (over time), which is not read.")
    order = table.integer("BSplineTransformSplineOrder", 3)
    size = table.numbers("GridSize", d)
    values = _parameters(context)
    if d * float(np.prod(size)) != values.size:
        raise FileFormatError(
            f"{context.name!r}: a control grid of {' x '.join(f'{n:g}' for n in size)} needs {d * np.prod(size):.0f} "
            f"parameters, but the file has {values.size}."
        )
    # elastix writes matrices by columns; files older than 4.2 have no GridDirection.
    direction = table.numbers("GridDirection", d * d).reshape(d, d).T if "GridDirection" in table else np.eye(d)
    grid = grid_of_header(
        context.name, size, table.numbers("GridSpacing", d), table.numbers("GridOrigin", d), direction, default_units(d)
    )
    if "GridIndex" in table:
        grid = replace(grid, origin=grid.index_to_world(table.numbers("GridIndex", d)))
    plain = context.describe(kind)
    about = bspline_description(order, FORMAT, frame=plain.frame, units=plain.units, source=context.name)
    return BSplineTransform(values.reshape(d, *grid.shape), grid, order, about.assuming(*plain.assumptions))


def _kernel_spline(context: _Context) -> Transform:
    table, d = context.table, context.d
    kernel = table.text("SplineKernelType")
    target = _parameters(context)
    source = table.numbers("FixedImageLandmarks")
    if source.size != target.size or source.size == 0 or source.size % d:
        raise FileFormatError(
            f"{context.name!r} has {source.size} numbers of fixed landmarks and {target.size} of moving ones, but "
            f"both must be the same multiple of {d}."
        )
    return KernelSpline(
        source.reshape(-1, d),
        target.reshape(-1, d),
        kernel if d == 3 else "ThinPlateR2LogRSpline",  # the only one that elastix has in 2D, whatever the file says
        stiffness=table.number("SplineRelaxationFactor", 0.0),
        poisson=table.number("SplinePoissonRatio", 0.3),
        description=context.describe(f"{kernel} through {source.size // d} landmarks"),
    )


def _deformation_field(context: _Context) -> Transform:
    from warpgauge.io.transforms.dense_files import read_world_field

    table = context.table
    file, note = beside(table.path, table.text("DeformationFieldFileName"), "deformation field")
    order = table.integer("DeformationFieldInterpolationOrder", 0)
    field = read_world_field(file, order=order, ignore_direction=not table.flag("UseDirectionCosines", True))
    if field.d != context.d:
        raise FileFormatError(f"{context.name!r} is {context.d}D, but its deformation field is {field.d}D.")
    words = (note,) if note else ()
    return field.described(format=FORMAT, source=context.name, assumptions=(*field.description.assumptions, *words))


def _itk_file(context: _Context) -> Transform:
    from warpgauge.io.transforms.reading import read_itk

    file, note = beside(context.table.path, context.table.text("TransformFileName"), "ITK transform")
    transform = read_itk(file)
    if transform.d != context.d:
        raise FileFormatError(f"{context.name!r} is {context.d}D, but its ITK transform is {transform.d}D.")
    words = (note,) if note else ()
    return transform.described(source=context.name, assumptions=(*transform.description.assumptions, *words))
