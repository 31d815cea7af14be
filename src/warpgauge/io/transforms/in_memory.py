"""`as_transform`: transforms that are in memory already, of other libraries or as arrays, become warpgauge's own.

What an array means (normalised or not, displacements or positions, which axis is which) cannot be seen from its
numbers, so the caller names the convention; nothing is guessed. Libraries are recognised by the type of what is given
and imported only then.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.arrays import as_points
from warpgauge.core.process import Posterior
from warpgauge.errors import AmbiguousFileError, InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import one_line
from warpgauge.io.transforms.base import Description, FunctionTransform, Transform, no_points
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.field import DisplacementField, field_description, positions_from_index_displacements
from warpgauge.io.transforms.field_files import index_from_normalised
from warpgauge.io.transforms.mapped_points import MappedPoints, points_description
from warpgauge.io.transforms.reader import Direction, read_transform

Convention = Literal["displacement", "position", "voxelmorph", "transmorph", "grid_sample", "unigradicon"]


@dataclass(frozen=True)
class _Layout:
    """How a convention lays its numbers out.

    ``components``: ``"first"`` or ``"last"`` axis; ``order``: of the components, ``"xyz"`` or that of the ``"axes"`` of
    the array; ``unit``: ``"world"``, ``"voxel"``, ``"-1 to 1"`` or ``"0 to 1"``.
    """

    components: str
    order: str
    unit: str
    absolute: bool
    words: str


_VOXELS = "displacements in voxels along the array's axes, components on the first axis"
_LAYOUTS: dict[str, _Layout] = {
    "displacement": _Layout("last", "xyz", "world", False, "world displacements (x, y[, z]) on the last axis"),
    "position": _Layout("last", "xyz", "world", True, "moving world positions (x, y[, z]) on the last axis"),
    "voxelmorph": _Layout("first", "axes", "voxel", False, _VOXELS),
    "transmorph": _Layout("first", "axes", "voxel", False, _VOXELS),
    "grid_sample": _Layout(
        "last", "xyz", "-1 to 1", True, "positions in the moving image from -1 to 1 (x, y[, z]) on the last axis"
    ),
    "unigradicon": _Layout(
        "first", "axes", "0 to 1", True, "positions in the moving image from 0 to 1 along the array's axes, first axis"
    ),
}
CONVENTIONS: tuple[str, ...] = tuple(_LAYOUTS)


def as_transform(
    source: Any,
    *,
    convention: Convention | None = None,
    grid: Any = None,
    moving: Any = None,
    axes: str | None = None,
    align_corners: bool = False,
    d: int | None = None,
    direction: Direction = "fixed_to_moving",
    at: ArrayLike | None = None,
    name: str = "",
) -> Transform:
    """Return a `Transform` for an object in memory that maps fixed to moving points.

    Whatever is taken as a transform anywhere comes through here. Where it is not defined it gives NaN rows.

    Parameters
    ----------
    source : object
        A path or a list of paths; a function of (n, d) world points, or an object whose ``map`` is one; a SimpleITK or
        ITK transform, or image of displacement vectors; the dictionary that ``ants.registration`` returns, or a
        transform of ANTsPy; a NumPy array or a torch tensor of displacements or positions; a posterior, for its mean; a
        `Transform`. A list is a chain in the order of application to points.
    convention : str, optional
        What the numbers of an array or tensor are; required for these:

        - ``"displacement"``, ``"position"``: ``(y, x, 2)`` or ``(z, y, x, 3)``, in world units, components x, y[, z];
        - ``"voxelmorph"``, ``"transmorph"``: ``([1,] d, ...)``, displacements in voxels, component i along axis i;
        - ``"grid_sample"``: ``([1,] ..., d)``, what ``torch.nn.functional.grid_sample`` takes: positions in the moving
          image from -1 to 1, components x, y[, z] (the last array axis first);
        - ``"unigradicon"``: ``([1,] d, ...)``, positions in the moving image from 0 to 1 between the centres of its
          outer voxels, component i along axis i.
    grid : Grid or image, optional
        Grid of the fixed image, on which an array stands; an image may be one of SimpleITK.
    moving : Grid or image, optional
        Grid of the moving image; that of the fixed image by default.
    axes : str, optional
        Order of the spatial axes of an array: ``"yx"`` or ``"zyx"`` (as arrays are here and in SimpleITK; the default),
        or ``"xy"`` or ``"xyz"`` (as nibabel loads volumes).
    align_corners : bool
        As the caller passed it to ``grid_sample``: whether -1 and 1 are the centres (True) or the outer edges (False,
        the default of torch) of the outer voxels.
    d : int, optional
        Dimension of a function, where no grid says it.
    direction : {"fixed_to_moving", "moving_to_fixed"}
        What it maps; the other way is inverted.
    at : (n, d) array, optional
        Fixed world points: an array without a convention then holds these points already mapped, and nothing else.
    name : str
        What messages call it.

    Raises
    ------
    AmbiguousFileError
        Where an array comes without its convention or grid.
    InvalidInputError
        Where the type is not known here, or the shape does not fit.
    """
    fixed = _as_grid(grid)
    if at is not None and convention is None and not can_map(source):
        return _table(source, as_points(at, "targets"), name)
    transform = _converted(source, convention, fixed, _as_grid(moving), axes, align_corners, d, name)
    if fixed is not None and transform.d != fixed.d:
        raise InvalidInputError(f"The transform is {transform.d}D, but grid= is {fixed.d}D; both must be the same.")
    if direction not in ("fixed_to_moving", "moving_to_fixed"):
        raise InvalidInputError(f"direction= is 'fixed_to_moving' or 'moving_to_fixed', got {direction!r}.")
    return transform.inverse().described(direction="fixed_to_moving") if direction != "fixed_to_moving" else transform


def speaks_for_itself(source: Any) -> bool:
    """Return whether `as_transform` needs no further words for an object.

    So it is with a path, what ``ants.registration`` returned, a transform or image of a library that is known by its
    type, and with a list of such objects or of transforms of warpgauge.
    """
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(one, Transform) or speaks_for_itself(one) for one in source)
    return isinstance(source, str | os.PathLike | Mapping) or _library(source) in _LIBRARIES


def can_map(source: Any) -> bool:
    """Return whether an object maps points by itself, so that `as_transform` needs at most its dimension."""
    if isinstance(source, list | tuple):
        return bool(source) and all(can_map(one) for one in source)
    return isinstance(source, Posterior) or hasattr(source, "map") or callable(source) or speaks_for_itself(source)


def _table(values: Any, at: Floats, name: str) -> MappedPoints:
    """Return the transform that is known at some points only, where its values are given."""
    try:
        array = np.asarray(object() if values is None else values, dtype=np.float64)  # NumPy takes None for NaN
    except (TypeError, ValueError, RuntimeError) as error:  # the last is torch's, for tensors with a gradient
        raise InvalidInputError(no_points(name, f"an object of type {type(values).__name__}")) from error
    if array.shape != at.shape:
        raise InvalidInputError(
            f"Transform {name!r} must give an array of shape {at.shape} for the targets, got {array.shape}; an array "
            "given as it is holds mapped targets, and a field goes through "
            "warpgauge.as_transform(array, convention=..., grid=...)."
        )
    return MappedPoints(at, array, tolerance=0.0, description=points_description("memory", "", at.shape[1]))


def _of_function(source: Any, d: int | None, name: str) -> FunctionTransform:
    """Return the transform of a function, of an object with ``map``, or of a posterior's mean."""
    if isinstance(source, Posterior):
        return FunctionTransform(source.mean, source.d, name=name, serial=False)
    if d is None:
        raise AmbiguousFileError("A function does not say its dimension; give d=2 or d=3, or grid=.")
    about = getattr(source, "description", None)
    known = about if isinstance(about, Description) else None
    return FunctionTransform(getattr(source, "map", source), d, known, name=name)


def _as_grid(value: Any) -> Grid | None:
    found = getattr(value, "grid", value)
    if _library(found) == "SimpleITK" and hasattr(found, "GetDirection"):
        return _frame(found.GetSize(), found.GetSpacing(), found.GetOrigin(), found.GetDirection())
    if found is not None and not isinstance(found, Grid):
        raise InvalidInputError(
            "grid= and moving= take a Grid, an image of warpgauge (read_image) or one of SimpleITK, got an object of "
            f"type {type(value).__name__}."
        )
    return found


def _frame(size: Any, spacing: Any, origin: Any, direction: Any) -> Grid:
    """Return the grid of an image of ITK's kind."""
    d = len(size)
    return Grid(tuple(int(n) for n in size), spacing, origin, np.reshape(direction, (d, d)), "mm")


def _library(source: Any) -> str:
    return type(source).__module__.partition(".")[0]


def _converted(
    source: Any,
    convention: str | None,
    grid: Grid | None,
    moving: Grid | None,
    axes: str | None,
    align_corners: bool,
    d: int | None,
    name: str = "",
) -> Transform:
    if convention is not None and can_map(source):
        raise InvalidInputError(
            f"convention= says what the numbers of an array or tensor are, but this is an object of type "
            f"{type(source).__name__}, which says it itself; leave convention= out."
        )
    if isinstance(source, Transform | str | os.PathLike):
        return read_transform(source, reference=grid, moving=moving)
    if isinstance(source, Mapping):
        return _ants_result(source, grid)
    if _library(source) in _LIBRARIES:
        return _LIBRARIES[_library(source)](source)
    if _library(source) == "torch" and hasattr(source, "detach"):  # not a module, which is a function
        source = _tensor_values(source)
    if isinstance(source, np.ma.MaskedArray):
        source = np.where(source.mask, np.nan, source.data)
    if isinstance(source, np.ndarray):
        return _of_array(source, convention, grid, moving, axes, align_corners)
    if isinstance(source, Sequence) and source:
        return Chain([_converted(one, convention, grid, moving, axes, align_corners, d, name) for one in source])
    if can_map(source):
        return _of_function(source, d or (grid.d if grid is not None else None), name)
    raise InvalidInputError(
        f"as_transform takes a path, a function, an array or tensor, or a transform of SimpleITK, ITK or ANTsPy; "
        f"got an object of type {type(source).__name__}."
    )


def _tensor_values(tensor: Any) -> NDArray[Any]:
    """Return a tensor's numbers, of whatever precision and wherever it lies."""
    plain = tensor.detach().cpu()
    try:
        return np.asarray(plain.numpy())
    except TypeError:  # a type that NumPy does not have, as bfloat16
        return np.asarray(plain.double().numpy())


def _of_array(
    array: NDArray[Any],
    convention: str | None,
    grid: Grid | None,
    moving: Grid | None,
    axes: str | None,
    align_corners: bool,
) -> Transform:
    if convention is None or grid is None:
        missing = (
            "convention=, one of " + ", ".join(CONVENTIONS) if convention is None else "grid=, that of the fixed image"
        )
        raise AmbiguousFileError(f"An array of shape {array.shape} does not say what its numbers are; give {missing}.")
    if convention not in _LAYOUTS:
        raise InvalidInputError(f"convention= must be one of {', '.join(CONVENTIONS)}, got {convention!r}.")
    if array.dtype.kind not in "fiu":
        raise InvalidInputError(f"A field holds real numbers, but this array is of type {array.dtype.name}.")
    layout, target = _LAYOUTS[convention], moving or grid
    if target.d != grid.d:
        raise InvalidInputError(f"grid= is {grid.d}D and moving= {target.d}D; both must be the same.")
    vectors = _components_first(array, layout, grid, _axes(axes, grid.d), convention)
    if layout.unit == "world":
        world, absolute = vectors, layout.absolute
    elif layout.unit == "voxel":
        world, absolute = positions_from_index_displacements(vectors, grid, target)
    else:
        world, absolute = _from_normalised(vectors, layout, target, align_corners), True
    corners = f", align_corners={align_corners}" if convention == "grid_sample" else ""
    note = f"The array is read as {convention!r}{corners}: {layout.words}, as the caller says."
    about = field_description("memory", units=grid.units, assumptions=(note,))
    return DisplacementField(world, grid, absolute=absolute, description=about)


def _axes(axes: str | None, d: int) -> str:
    known = "zyx"[3 - d :]
    if axes is None:
        return known
    if axes not in (known, known[::-1]):
        raise InvalidInputError(f"axes= of a {d}D array must be {known!r} or {known[::-1]!r}, got {axes!r}.")
    return axes


def _components_first(array: NDArray[Any], layout: _Layout, grid: Grid, axes: str, convention: str) -> Floats:
    """Return vectors (d, *grid.shape) with components x, y[, z]."""
    d = grid.d
    sizes = dict(zip("xyz", grid.size, strict=False))
    spatial = tuple(sizes[axis] for axis in axes)
    wanted = (d, *spatial) if layout.components == "first" else (*spatial, d)
    given = array[0] if array.ndim == d + 2 and array.shape[0] == 1 else array
    if given.shape != wanted:
        raise InvalidInputError(
            f"An array of convention {convention!r} on a grid of size {' x '.join(map(str, grid.size))} with axes "
            f"{axes!r} has the shape {wanted}, with or without a batch axis of 1 before it, not {array.shape}."
        )
    values = np.asarray(given if layout.components == "first" else np.moveaxis(given, -1, 0), dtype=np.float64)
    # Components in the order x, y[, z], then the spatial axes in the order of arrays here.
    order = axes if layout.order == "axes" else "xyz"[:d]
    values = values[[order.index(axis) for axis in "xyz"[:d]]]
    if axes != "zyx"[3 - d :]:
        values = values.transpose(0, *range(d, 0, -1))
    return np.ascontiguousarray(values)


def _from_normalised(vectors: Floats, layout: _Layout, moving: Grid, align_corners: bool) -> Floats:
    """Turn positions from -1 to 1, or from 0 to 1, into world positions of the moving image."""
    frame = "unit" if layout.unit == "0 to 1" else "normalised" if align_corners else "edges"
    world = moving.index_to_world(np.moveaxis(index_from_normalised(vectors, frame, moving), 0, -1))
    return np.ascontiguousarray(np.moveaxis(world, -1, 0))


def _through_file(write: Callable[[str], Any], suffix: str) -> Transform:
    """Have a library write its transform and read it, so that it means here what its file means."""
    with tempfile.TemporaryDirectory(prefix="warpgauge-") as folder:
        path = Path(folder) / f"transform{suffix}"
        try:
            write(str(path))
        except RuntimeError as error:
            raise InvalidInputError(f"Its own library cannot write this transform: {one_line(error)}.") from error
        return read_transform(path).described(source="", format="memory")


def _vector_image(array: NDArray[Any], d: int, size: Any, spacing: Any, origin: Any, direction: Any) -> Transform:
    if array.ndim != d + 1 or array.shape[-1] != d:
        raise InvalidInputError(
            f"An image of displacements needs {d} components in {d}D, but this one has an array of shape {array.shape}."
        )
    grid = _frame(size, spacing, origin, direction)
    vectors = np.ascontiguousarray(np.moveaxis(np.asarray(array, dtype=np.float64), -1, 0))
    return DisplacementField(vectors, grid, description=field_description("memory", units="mm"))


def _simpleitk(source: Any) -> Transform:
    import SimpleITK as sitk  # noqa: N813

    if isinstance(source, sitk.Image):
        frame = (source.GetSize(), source.GetSpacing(), source.GetOrigin(), source.GetDirection())
        return _vector_image(sitk.GetArrayFromImage(source), source.GetDimension(), *frame)
    if isinstance(source, sitk.Transform):
        if source.GetTransformEnum() == sitk.sitkComposite:
            source = sitk.CompositeTransform(source)  # a copy
            source.FlattenTransform()  # files hold no composites of composites
        return _through_file(lambda path: sitk.WriteTransform(source, path), ".h5")
    raise InvalidInputError(
        f"as_transform takes transforms and images of SimpleITK, not an object of type {type(source).__name__}."
    )


def _itk(source: Any) -> Transform:
    import itk

    if hasattr(source, "GetLargestPossibleRegion"):
        d = int(source.GetImageDimension())
        frame = (itk.size(source), itk.spacing(source), itk.origin(source))
        return _vector_image(itk.array_from_image(source), d, *frame, itk.array_from_matrix(source.GetDirection()))
    if hasattr(source, "TransformPoint"):
        return _through_file(lambda path: itk.transformwrite([source], path), ".h5")
    raise InvalidInputError(
        f"as_transform takes transforms and images of ITK, not an object of type {type(source).__name__}."
    )


def _ants(source: Any) -> Transform:
    if hasattr(source, "apply_to_point"):
        import ants

        return _through_file(lambda path: ants.write_transform(source, path), ".mat")
    if hasattr(source, "numpy") and hasattr(source, "spacing"):
        d = int(source.dimension)
        array = source.numpy()  # axes x, y[, z], then components
        array = array.transpose(*range(d - 1, -1, -1), *range(d, array.ndim))
        return _vector_image(array, d, source.shape, source.spacing, source.origin, source.direction)
    raise InvalidInputError(
        f"as_transform takes transforms and images of ANTsPy, not an object of type {type(source).__name__}."
    )


def _ants_result(source: Mapping[Any, Any], grid: Grid | None) -> Transform:
    files = source.get("fwdtransforms")
    if not files:
        raise InvalidInputError(
            "A dictionary is taken as what ants.registration returns, but this one has no 'fwdtransforms'."
        )
    return read_transform(list(files), reference=grid)


_LIBRARIES: dict[str, Callable[[Any], Transform]] = {"SimpleITK": _simpleitk, "itk": _itk, "ants": _ants}
