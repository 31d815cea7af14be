"""elastix: transform parameter files, the transforms that they name, and their chains of initial transforms.

A chain is ``Compose``, ``T1(T0(x))`` with ``T0`` the initial transform, or ``Add``, ``T0(x) + T1(x) - x``.
``GridDirection`` is stored by columns, affine matrices by rows. The files themselves are read by
`elastix_parameters`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError, InvalidInputError, say, warn_suspicious
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import linear
from warpgauge.io.transforms.base import (
    BY_CONTENT,
    NO,
    Description,
    Format,
    Options,
    Transform,
    default_units,
    grid_of_header,
    world_frame,
)
from warpgauge.io.transforms.chain import Chain, SumTransform
from warpgauge.io.transforms.elastix_parameters import ParameterTable, beside, read_parameters
from warpgauge.io.transforms.image_fields import read_world_field
from warpgauge.io.transforms.itk import read_itk
from warpgauge.io.transforms.splines import BSplineTransform, KernelSpline, bspline_description

_NO_INITIAL = "NoInitialTransform"
_INITIAL_KEYS = ("InitialTransformParameterFileName", "InitialTransformParametersFileName")
_LONGEST_CHAIN = 50


_TEXT = re.compile(rb"^\s*\(\s*[A-Za-z]\w*\s+\S", re.MULTILINE)
_TOML = re.compile(rb"^\s*[A-Za-z]\w*\s*=\s*\S", re.MULTILINE)


def _recognise(head: bytes, suffix: str) -> int:
    if b"\0" in head:
        return NO
    toml = _TOML.search(head) is not None and (suffix == ".toml" or b"Transform" in head)
    return BY_CONTENT if toml or _TEXT.search(head) is not None else NO


def read_elastix(path: Path, options: Options) -> Transform:
    """Read a transform parameter file, the last of a chain, and all the initial transforms that it names.

    The grids of the images are used only where the file ignored their directions.
    """
    transform, tables = _read_chain(path, ())
    ignored = [table for table in tables if not table.flag("UseDirectionCosines", True)]
    return _with_directions(transform, ignored[0], options) if ignored else transform


def initial_files(path: Path) -> list[Path]:
    """List the files that a parameter file draws in, itself not included: initial transforms, fields, other data."""
    _, tables = _read_chain(path, ())
    return [table.path.resolve() for table in tables[:-1]] + [file for table in tables for file in named_files(table)]


def _read_chain(path: Path, seen: tuple[Path, ...]) -> tuple[Transform, list[ParameterTable]]:
    if path.resolve() in seen:
        names = " -> ".join(file.name for file in (*seen, path))
        raise FileFormatError(f"{path.name!r} names itself as its initial transform through {names}; break the circle.")
    if len(seen) >= _LONGEST_CHAIN:
        raise FileFormatError(f"{path.name!r} ends a chain of {_LONGEST_CHAIN} initial transforms; that is too long.")
    table = read_parameters(path)
    current = own_transform(table)
    recorded = [table.text(key) for key in _INITIAL_KEYS if key in table]
    if len(set(recorded)) > 1:
        raise FileFormatError(f"{path.name!r} names two initial transforms, {recorded[0]!r} and {recorded[1]!r}.")
    if not recorded or recorded[0] == _NO_INITIAL:
        return current, [table]
    file, note = beside(table.path, recorded[0], "initial transform")
    initial, tables = _read_chain(file, (*seen, path.resolve()))
    return _combined(initial, current, table, note), [*tables, table]


def _combined(initial: Transform, current: Transform, table: ParameterTable, note: str) -> Transform:
    if initial.d != current.d:
        raise FileFormatError(f"{table.path.name!r} is {current.d}D, but its initial transform is {initial.d}D.")
    how = table.text("HowToCombineTransforms", "Compose")
    if how not in ("Compose", "Add"):
        raise FileFormatError(f"{table.path.name!r}: HowToCombineTransforms is 'Compose' or 'Add', got {how[:40]!r}.")
    if how == "Add":
        combined: Transform = SumTransform(initial, current)
    else:
        parts = initial.transforms if isinstance(initial, Chain) else (initial,)
        combined = Chain([*parts, current])
    words = combined.description.assuming(note) if note else combined.description
    return combined.described(assumptions=words.assumptions, source=table.path.name)


def _with_directions(transform: Transform, table: ParameterTable, options: Options) -> Transform:
    """Account for ``UseDirectionCosines "false"``: elastix then worked with ``origin + spacing * index``."""
    d, fixed, moving = transform.d, options.reference, options.moving
    if fixed is not None and moving is not None:
        enter, leave = _drop_direction(fixed), _drop_direction(moving).inverse()
        note = "Registered without directions (UseDirectionCosines false); those of the given grids are put back."
        chain = Chain([enter, transform, leave])
        return chain.described(source=table.path.name, assumptions=(note, *transform.description.assumptions))
    note = (
        'UseDirectionCosines is "false": points are origin + spacing * index of each image, its direction ignored; '
        f"give {say('reference')} and {say('moving')} to map true world points."
    )
    direction = table.numbers("Direction", d * d).reshape(d, d).T if "Direction" in table else np.eye(d)
    if not np.allclose(direction, np.eye(d), atol=1e-6):
        warn_suspicious(f"{table.path.name}: {note}")
    return transform.described(
        frame="world without direction cosines", assumptions=(note, *transform.description.assumptions)
    )


def _drop_direction(grid: Grid) -> linear.AffineTransform:
    """Return the map from the true world to the one that ignores the direction: same index, direction = identity."""
    back = np.linalg.inv(grid.direction)
    about = Description(kind="direction removed")
    return linear.AffineTransform(back, grid.origin - back @ grid.origin, about)


TITLE = "elastix"
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
            format=TITLE,
            kind=kind,
            frame=world_frame(self.d),
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
    about = bspline_description(order, TITLE, frame=plain.frame, units=plain.units, source=context.name)
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
    table = context.table
    file, note = beside(table.path, table.text("DeformationFieldFileName"), "deformation field")
    order = table.integer("DeformationFieldInterpolationOrder", 0)
    field = read_world_field(file, order=order, ignore_direction=not table.flag("UseDirectionCosines", True))
    if field.d != context.d:
        raise FileFormatError(f"{context.name!r} is {context.d}D, but its deformation field is {field.d}D.")
    words = (note,) if note else ()
    return field.described(format=TITLE, source=context.name, assumptions=(*field.description.assumptions, *words))


def _itk_file(context: _Context) -> Transform:
    file, note = beside(context.table.path, context.table.text("TransformFileName"), "ITK transform")
    transform = read_itk(file)
    if transform.d != context.d:
        raise FileFormatError(f"{context.name!r} is {context.d}D, but its ITK transform is {transform.d}D.")
    words = (note,) if note else ()
    return transform.described(source=context.name, assumptions=(*transform.description.assumptions, *words))


FORMAT = Format("elastix", read_elastix, _recognise, companions=initial_files)
