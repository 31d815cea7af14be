"""`as_transform`: transforms that are in memory already, of other libraries or as arrays, become warpgauge's own.

Libraries are recognised by the type of what is given and imported only then. What an array means stands in `arrays`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.arrays import as_points
from warpgauge.core.process import Posterior
from warpgauge.errors import AmbiguousFileError, InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import one_line
from warpgauge.io.transforms.arrays import CONVENTIONS, field_of_array
from warpgauge.io.transforms.lattice import DisplacementField
from warpgauge.io.transforms.mapped_points import MappedPoints
from warpgauge.io.transforms.reader import Direction, read_transform
from warpgauge.io.transforms.transform import Chain, Description, FunctionTransform, Transform, no_points

Convention = Literal[
    "displacement", "position", "voxels", "learn2reg", "learn2reg-2020", "voxelmorph", "transmorph", "monai", "skimage",
    "grid_sample", "unigradicon",
]  # fmt: skip


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
        What the numbers of an array or tensor are; required for these, a batch axis of 1 may come first:

        - ``"displacement"``, ``"position"``: ``(y, x, 2)`` or ``(z, y, x, 3)``, in world units, components x, y[, z];
        - ``"voxelmorph"``, ``"transmorph"``, ``"monai"``, ``"skimage"``: ``(d, ...)``, displacements in voxels,
          component i along axis i;
        - ``"voxels"``, ``"learn2reg"``: ``(..., d)``, the same with the components last;
        - ``"grid_sample"``: ``(..., d)``, what ``torch.nn.functional.grid_sample`` takes: positions in the moving
          image from -1 to 1, components x, y[, z] (the last array axis first);
        - ``"unigradicon"``: ``(d, ...)``, positions in the moving image from 0 to 1 between the centres of its outer
          voxels, component i along axis i.
    grid : Grid or image, optional
        Grid of the fixed image, on which an array stands; an image may be one of SimpleITK.
    moving : Grid or image, optional
        Grid of the moving image; that of the fixed image by default.
    axes : str, optional
        Order of the spatial axes of an array: ``"yx"`` or ``"zyx"`` (as arrays are here and in SimpleITK; the default,
        but for Learn2Reg), or ``"xy"`` or ``"xyz"`` (as nibabel loads volumes).
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

    Examples
    --------
    >>> import numpy as np
    >>> import warpgauge as wg
    >>> flow = np.zeros((2, 3, 4))  # of a network: rows first, in pixels
    >>> flow[1] = 0.5
    >>> transform = wg.as_transform(flow, convention="voxelmorph", grid=wg.Grid((4, 3)))
    >>> transform.map([[1.0, 2.0]]).tolist()
    [[1.5, 2.0]]
    """
    fixed = _as_grid(grid)
    if at is not None and convention is None and not can_map(source):
        return _table(source, as_points(at, "targets"), name)
    if direction not in ("fixed_to_moving", "moving_to_fixed"):
        raise InvalidInputError(f"direction= is 'fixed_to_moving' or 'moving_to_fixed', got {direction!r}.")
    if convention is not None and can_map(source):
        raise InvalidInputError(
            f"convention= says what the numbers of an array or tensor are, but this is an object of type "
            f"{type(source).__name__}, which says it itself; leave convention= out."
        )
    if convention not in (None, *CONVENTIONS):
        raise InvalidInputError(f"convention= must be one of {', '.join(CONVENTIONS)}, got {convention!r}.")
    of_array = partial(
        _of_array,
        convention=convention,
        grid=fixed,
        moving=_as_grid(moving),
        axes=axes,
        align_corners=align_corners,
        name=name,
    )
    transform = _converted(source, of_array, fixed, _as_grid(moving), d, name)
    if fixed is not None and transform.d != fixed.d:
        raise InvalidInputError(f"The transform is {transform.d}D, but grid= is {fixed.d}D; both must be the same.")
    if direction == "moving_to_fixed":
        return transform.inverse().described(direction="fixed_to_moving")
    return transform


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
    return MappedPoints(at, array, tolerance=0.0)


def _converted(
    source: Any,
    of_array: Callable[[NDArray[Any]], Transform],
    grid: Grid | None,
    moving: Grid | None,
    d: int | None,
    name: str,
) -> Transform:
    if isinstance(source, Transform):
        return source
    if isinstance(source, str | os.PathLike | Mapping):
        return _of_files(source, grid, moving)
    if _library(source) in _LIBRARIES:
        return _LIBRARIES[_library(source)](source)
    if _library(source) == "torch" and hasattr(source, "detach"):  # not a module, which is a function
        source = _tensor_values(source)
    if isinstance(source, np.ma.MaskedArray):
        source = np.where(source.mask, np.nan, source.data)
    if isinstance(source, np.ndarray):
        return of_array(source)
    if isinstance(source, Sequence) and source:
        return Chain([_converted(one, of_array, grid, moving, d, name) for one in source])
    return _function(source, d or (None if grid is None else grid.d), name)


def _function(source: Any, d: int | None, name: str) -> FunctionTransform:
    """Return the transform of a function, of an object with ``map``, or of a posterior's mean."""
    if isinstance(source, Posterior):
        return FunctionTransform(source.mean, source.d, name=name, serial=False)
    if not can_map(source):
        raise InvalidInputError(
            f"as_transform takes a path, a function, an array or tensor, or a transform of SimpleITK, ITK or ANTsPy; "
            f"got an object of type {type(source).__name__}."
        )
    if d is None:
        raise AmbiguousFileError("A function does not say its dimension; give d=2 or d=3, or grid=.")
    transform = FunctionTransform(getattr(source, "map", source), d, name=name)
    about = getattr(source, "description", None)
    if isinstance(about, Description):
        transform.description = about
    return transform


def _as_grid(value: Any) -> Grid | None:
    grid = getattr(value, "grid", value)
    if _library(grid) == "SimpleITK" and hasattr(grid, "GetDirection"):
        return _frame(grid.GetSize(), grid.GetSpacing(), grid.GetOrigin(), grid.GetDirection())
    if grid is not None and not isinstance(grid, Grid):
        raise InvalidInputError(
            "grid= and moving= take a Grid, an image of warpgauge (read_image) or one of SimpleITK, got an object of "
            f"type {type(value).__name__}."
        )
    return grid


def _frame(size: Any, spacing: Any, origin: Any, direction: Any) -> Grid:
    """Return the grid of an image of ITK's kind."""
    d = len(size)
    return Grid(tuple(int(n) for n in size), spacing, origin, np.reshape(direction, (d, d)), "mm")


def _library(source: Any) -> str:
    return type(source).__module__.partition(".")[0]


def _tensor_values(tensor: Any) -> NDArray[Any]:
    """Return a tensor's numbers, of whatever precision and wherever it lies."""
    plain = tensor.detach().cpu()
    try:
        return np.asarray(plain.numpy())
    except TypeError:  # a type that NumPy does not have, as bfloat16
        return np.asarray(plain.double().numpy())


def _of_array(
    array: NDArray[Any], *, convention: str | None, grid: Grid | None, moving: Grid | None, **words: Any
) -> Transform:
    if convention is None or grid is None:
        missing = f"convention=, one of {', '.join(CONVENTIONS)}" if convention is None else "grid=, of the fixed image"
        raise AmbiguousFileError(f"An array of shape {array.shape} does not say what its numbers are; give {missing}.")
    if moving is not None and moving.d != grid.d:
        raise InvalidInputError(f"grid= is {grid.d}D and moving= {moving.d}D; both must be the same.")
    return field_of_array(array, convention, grid, moving, **words)


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
    vectors = np.ascontiguousarray(np.moveaxis(np.asarray(array, dtype=np.float64), -1, 0))
    return DisplacementField(vectors, _frame(size, spacing, origin, direction))


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
    raise _unknown(source, "SimpleITK")


def _itk(source: Any) -> Transform:
    import itk

    if hasattr(source, "GetLargestPossibleRegion"):
        d = int(source.GetImageDimension())
        frame = (itk.size(source), itk.spacing(source), itk.origin(source))
        return _vector_image(itk.array_from_image(source), d, *frame, itk.array_from_matrix(source.GetDirection()))
    if hasattr(source, "TransformPoint"):
        return _through_file(lambda path: itk.transformwrite([source], path), ".h5")
    raise _unknown(source, "ITK")


def _ants(source: Any) -> Transform:
    if hasattr(source, "apply_to_point"):
        import ants

        return _through_file(lambda path: ants.write_transform(source, path), ".mat")
    if hasattr(source, "numpy") and hasattr(source, "spacing"):
        d = int(source.dimension)
        array = source.numpy()  # axes x, y[, z], then components
        array = array.transpose(*range(d - 1, -1, -1), *range(d, array.ndim))
        return _vector_image(array, d, source.shape, source.spacing, source.origin, source.direction)
    raise _unknown(source, "ANTsPy")


def _of_files(source: Any, grid: Grid | None, moving: Grid | None) -> Transform:
    """Read a path, or the files that ``ants.registration`` names."""
    if not isinstance(source, Mapping):
        return read_transform(source, reference=grid, moving=moving)
    files = source.get("fwdtransforms")
    if not files:
        raise InvalidInputError(
            "A dictionary is taken as what ants.registration returns, but this one has no 'fwdtransforms'."
        )
    return read_transform(list(files), reference=grid)


def _unknown(source: Any, library: str) -> InvalidInputError:
    return InvalidInputError(
        f"as_transform takes transforms and images of {library}, not an object of type {type(source).__name__}."
    )


_LIBRARIES: dict[str, Callable[[Any], Transform]] = {"SimpleITK": _simpleitk, "itk": _itk, "ants": _ants}
