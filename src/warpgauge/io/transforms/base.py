"""What transforms and formats share: the interface of a transform, that of a format, and checks of headers."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.display import html_facts
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import UNITS, Floats, Grid, Units

Bools = NDArray[np.bool_]
# Points beyond this are nowhere, and their powers would overflow; like NaN they are outside every domain.
_FARTHEST = 1e90


@dataclass(frozen=True)
class Description:
    """Kind of a transform and the assumptions made to read it; all values are JSON-compatible.

    Parameters
    ----------
    format : str
        The file format, or ``"memory"``.
    kind : str
        What it computes, for instance ``"affine"`` or ``"cubic B-spline"``.
    direction : str
        Between which points it maps; always ``"fixed_to_moving"`` from `read_transform`.
    frame : str
        The coordinates that it takes and gives.
    units : str
        What one unit of these coordinates is.
    interpolation : str
        How values between stored ones are found.
    outside : str
        Where it is defined, and what happens elsewhere.
    assumptions : tuple of str
        Whatever the file leaves open, one sentence each.
    source : str
        Name of the file.
    """

    format: str = "memory"
    kind: str = ""
    direction: str = "fixed_to_moving"
    frame: str = "world"
    units: str = "unstated"
    interpolation: str = "none"
    outside: str = "defined everywhere"
    assumptions: tuple[str, ...] = ()
    source: str = ""

    def assuming(self, *sentences: str) -> Description:
        """Return a copy with further assumptions."""
        return replace(self, assumptions=self.assumptions + sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = asdict(self)
        plain["assumptions"] = list(self.assumptions)
        return plain


_OTHER_WAY = {"fixed_to_moving": "moving_to_fixed", "moving_to_fixed": "fixed_to_moving"}


def flipped(about: Description) -> Description:
    """Return a description with the other direction, as an inverse needs it."""
    return replace(about, direction=_OTHER_WAY.get(about.direction, about.direction))


@dataclass(frozen=True)
class Options:
    """Options of `read_transform` for what files do not state."""

    reference: Grid | None = None
    moving: Grid | None = None
    layout: str | None = None
    components: str | None = None
    convention: str | None = None
    frame: str | None = None
    d: int | None = None
    direction: str = "fixed_to_moving"

    def given(self) -> set[str]:
        """Return the names of the options that were given, the grids and the direction aside."""
        names = {field.name for field in fields(self)} - {"reference", "moving", "direction"}
        return {name for name in names if getattr(self, name) is not None}


# How sure a format is of a file: not its own; its name fits and the content does not contradict; its content fits;
# it begins with the format's signature.
NO, BY_NAME, BY_CONTENT, BY_SIGNATURE = range(4)


def never(head: bytes, suffix: str) -> int:
    """Recognise nothing: the caller has to name the format."""
    return NO


@dataclass(frozen=True)
class Format:
    """One format of transform files.

    Parameters
    ----------
    name : str
        What ``read_transform(format=...)`` calls it.
    read : callable
        ``read(path, options)`` gives the transform.
    recognise : callable
        ``recognise(head, suffix)`` says from the first bytes and the lower-case suffix of a file how sure it is.
    takes : frozenset of str
        Options that apply beside the grids; any other that is given is an error, never ignored.
    on_reference : bool
        Whether its vectors stand on the reference grid, so that their scale is that of the project.
    packed : bool
        Whether its files may be packed by gzip as a whole.
    companions : callable
        ``companions(path)`` gives the other files that a file cannot be read without.
    """

    name: str
    read: Callable[[Any, Options], Transform]
    recognise: Callable[[bytes, str], int] = never
    takes: frozenset[str] = frozenset()
    on_reference: bool = False
    packed: bool = False
    companions: Callable[[Path], Sequence[Path]] = lambda path: ()


class Transform(ABC):
    """A map of fixed world points to moving world points.

    A subclass gives ``_map`` (of checked points, NaN where undefined), and where that is cheaper than mapping,
    ``_domain``.

    Parameters
    ----------
    description : Description
        What is known of it.
    d : int
        Dimension, 2 or 3.
    support : Grid, optional
        What spans where it is defined.
    """

    linear: ClassVar[bool] = False

    def __init__(self, description: Description, d: int, support: Grid | None = None) -> None:
        self._description, self.d, self._support = description, d, support

    @property
    def description(self) -> Description:
        """Kind of the transform and assumptions made to read it."""
        return self._description

    @property
    def support(self) -> Grid | None:
        """A grid that spans where the transform is defined; None where it is defined everywhere or unknown."""
        return self._support

    @property
    def anywhere(self) -> bool:
        """Whether it can be asked at any point of its domain; False for a table, which knows the listed points only."""
        return True

    @abstractmethod
    def _map(self, points: Floats) -> Floats:
        """Map checked (n, d) points into a new array."""

    def _domain(self, points: Floats) -> Bools:
        return np.asarray(np.isfinite(self._map(points)).all(axis=1))

    def _extended(self, points: Floats) -> Floats:
        """Map beyond the border too where that is possible: only for iterations, whose end must lie inside."""
        return self._map(points)

    def _checked(self, points_world: ArrayLike) -> Floats:
        points = np.asarray(points_world, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.d:
            raise InvalidInputError(
                f"A {self.d}D transform maps points of shape (n, {self.d}), but these have shape {points.shape}."
            )
        # Two reductions without a temporary array; NaN makes both comparisons false.
        if points.size and not (points.min() > -_FARTHEST and points.max() < _FARTHEST):
            near = np.asarray((np.abs(points) < _FARTHEST).all(axis=1))
            points = np.where(near[:, None], points, np.nan)
        return points

    def map(self, points_world: ArrayLike) -> Floats:
        """Map (n, d) world points; rows outside the domain are NaN.

        Parameters
        ----------
        points_world : (n, d) array
            Points of the fixed image in the order x, y[, z].
        """
        return self._map(self._checked(points_world))

    def domain(self, points_world: ArrayLike) -> Bools:
        """Return for which of (n, d) world points the transform is defined."""
        return self._domain(self._checked(points_world))

    def outside_count(self, points_world: ArrayLike) -> int:
        """Count the points that the transform does not map."""
        return int(np.count_nonzero(~self.domain(points_world)))

    def inverse(self, *, tolerance: float = 1e-6) -> Transform:
        """Return the inverse: exact for linear transforms, else solved point by point.

        Parameters
        ----------
        tolerance : float
            Largest residual in world units that a numerical solution may have; points without one are masked.
        """
        from warpgauge.io.transforms.inverse import NumericalInverse  # a kind of transform, so it builds on this module

        return NumericalInverse(self, tolerance=tolerance)

    def described(self, **changes: Any) -> Transform:
        """Return the same transform with other words in its description."""
        twin = copy.copy(self)
        twin._description = replace(self._description, **changes)
        return twin

    def _repr_html_(self) -> str:
        facts = {"dimension": self.d, **self.description.to_dict()}
        return html_facts({name: value for name, value in facts.items() if value}, type(self).__name__)

    def __repr__(self) -> str:
        about = self.description
        return f"<{type(self).__name__} {self.d}D {about.kind!r} from {about.source or about.format}>"


class FunctionTransform(Transform):
    """A transform given as a Python function of (n, d) points.

    Parameters
    ----------
    function : callable
        Maps an (n, d) float64 array of fixed world points to as many moving world points; NaN rows are undefined.
    d : int
        Dimension.
    description : Description, optional
        What is known of it.
    name : str
        What messages call it.
    serial : bool
        Whether threads call the function one after the other, which functions of unknown origin need.
    """

    def __init__(
        self, function: Any, d: int, description: Description | None = None, *, name: str = "", serial: bool = True
    ) -> None:
        if not callable(function):
            raise InvalidInputError(f"A FunctionTransform needs a callable, got {type(function).__name__}.")
        if d not in (2, 3):
            raise InvalidInputError(f"A transform has dimension 2 or 3, got {d!r}.")
        kind = getattr(function, "__name__", type(function).__name__)
        super().__init__(
            description
            or Description(
                format="callable",
                kind=f"Python function {kind!r}",
                interpolation="the function's own",
                outside="masked (NaN) where the function gives NaN or infinity",
                assumptions=("The function takes fixed world points and gives moving world points.",),
            ),
            d,
        )
        self.function, self._name = function, name
        self._turn: AbstractContextManager[Any] = _Turn() if serial else nullcontext()

    def _map(self, points: Floats) -> Floats:
        with self._turn:
            # A copy, since a function that works in place must not change the caller's points.
            values = self.function(points.copy())
        try:
            mapped = np.array(object() if values is None else values, dtype=np.float64)  # NumPy takes None for NaN
        except (TypeError, ValueError, RuntimeError) as error:  # the last is torch's, for tensors with a gradient
            what = f"a function that returns an object of type {type(values).__name__}"
            raise InvalidInputError(no_points(self._name, what)) from error
        if mapped.shape != points.shape:
            who = f"Transform {self._name!r} is a function that" if self._name else "The function of this transform"
            raise InvalidInputError(
                f"{who} gave shape {mapped.shape} for points of shape {points.shape}; "
                f"it has to give one moving point for each fixed point."
            )
        mapped[~np.isfinite(mapped).all(axis=1)] = np.nan
        return mapped


class _Turn:
    """A lock that threads take one after the other; a copy in another process has its own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[_Turn], tuple[()]]:
        return _Turn, ()


def no_points(name: str, what: str) -> str:
    """Return the sentence about an object that cannot be taken as points."""
    return (
        f"{f'Transform {name!r}' if name else 'The transform'} is {what}, which cannot be taken as points; give a "
        "path, a function of points, a transform, or what warpgauge.as_transform makes of an array or tensor."
    )


def world_frame(d: int) -> str:
    """Return what a `Description` calls the world of images: LPS in 3D, as ITK has it."""
    return "world, LPS" if d == 3 else "world"


def default_units(d: int) -> str:
    """Return the unit of files that name none: millimetres by the convention of medical volumes, else not stated."""
    return "mm" if d == 3 else "unstated"


def grid_of_header(
    path_name: str, size: ArrayLike, spacing: ArrayLike, origin: ArrayLike, direction: ArrayLike, units: str
) -> Grid:
    """Return the grid of a header; raise, with the file's name, where there is none."""
    extent = np.asarray(size, dtype=np.float64)
    if not (np.isfinite(extent).all() and (extent == np.round(extent)).all() and (np.abs(extent) < 2**31).all()):
        raise FileFormatError(f"{path_name!r} has a grid size of {extent.tolist()}, which are not node counts.")
    known = cast(Units, units if units in UNITS else "px")
    try:
        return Grid(
            tuple(int(n) for n in extent), np.asarray(spacing), np.asarray(origin), np.asarray(direction), known
        )
    except InvalidInputError as error:
        raise FileFormatError(f"{path_name!r} describes no valid grid: {str(error).rstrip('.')}.") from error


def check_room(path_name: str, needed: int, at_hand: int, what: str) -> None:
    """Refuse a header that promises more bytes than the file can hold, before anything of that size is allocated."""
    if needed > at_hand:
        raise FileFormatError(
            f"{path_name!r} is truncated, or its header is wrong: {what} need {needed} bytes, but at most {at_hand} "
            f"can be there."
        )
