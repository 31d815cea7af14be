"""Transforms: maps of fixed world points to moving world points. Linear ones, functions, and chains of others."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid

# Points beyond this are nowhere, and their powers would overflow; like NaN they are outside every domain.
_FARTHEST = 1e90
OTHER_WAY = {"fixed_to_moving": "moving_to_fixed", "moving_to_fixed": "fixed_to_moving"}
_SMALLEST, _LARGEST = 1e-9, 1e9
_ONE_AT_A_TIME = threading.RLock()  # of functions of unknown origin


@dataclass(frozen=True)
class Description:
    """Kind of a transform and the assumptions made to read it; all values are JSON-compatible.

    ``direction`` says between which points it maps, always ``"fixed_to_moving"`` from `read_transform`; ``frame`` and
    ``units`` are those of the coordinates that it takes and gives; ``assumptions`` are whatever the file leaves open,
    one sentence each; ``source`` names the file.
    """

    format: str = "memory"
    kind: str = ""
    direction: str = "fixed_to_moving"
    frame: str = "world"
    units: str = "unstated"
    assumptions: tuple[str, ...] = ()
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "assumptions": list(self.assumptions)}


class Transform(ABC):
    """A map of fixed world points to moving world points.

    A subclass gives ``_map`` (of checked points; NaN where it is not defined) and its words for the description. The
    ``support`` spans where it is defined; None where that is everywhere, or nobody knows.
    """

    linear: ClassVar[bool] = False

    def __init__(
        self, d: int, kind: str, *, support: Grid | None = None, units: str = "", notes: Sequence[str] = ()
    ) -> None:
        self.d = d
        self.support = support
        # Options of `read_transform`, also those that the file settled; "stated": the file says that it was inverted.
        self.read_with: dict[str, Any] = {}
        self.description = Description(
            kind=kind,
            frame="world, LPS" if d == 3 else "world",
            units=units or "unstated",
            assumptions=tuple(notes),
        )

    @property
    def anywhere(self) -> bool:
        """Whether it can be asked at any point of its domain; False for a table, which knows the listed points only."""
        return True

    @abstractmethod
    def _map(self, points: Floats) -> Floats:
        """Map checked (n, d) points into a new array."""

    def _extended(self, points: Floats) -> Floats:
        """Map beyond the border too where that is possible: only for iterations, whose end must lie inside."""
        return self._map(points)

    def map(self, points_world: ArrayLike) -> Floats:
        """Map (n, d) fixed world points, in the order x, y[, z]; rows outside the domain are NaN."""
        points = np.asarray(points_world, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.d:
            raise InvalidInputError(
                f"A {self.d}D transform maps points of shape (n, {self.d}), but these have shape {points.shape}."
            )
        # Two reductions without a temporary array; NaN makes both comparisons false.
        if points.size and not (points.min() > -_FARTHEST and points.max() < _FARTHEST):
            near = np.asarray((np.abs(points) < _FARTHEST).all(axis=1))
            points = np.where(near[:, None], points, np.nan)
        return self._map(points)

    def inverse(self) -> Transform:
        """Return the inverse: exact for linear transforms, else solved point by point."""
        from warpgauge.io.transforms.inverse import NumericalInverse  # a kind of transform, so it builds on this module

        return NumericalInverse(self)

    def described(self, *notes: str, **changes: Any) -> Transform:
        """Return the same transform with other words in its description, and further notes before its assumptions."""
        twin = copy.copy(self)
        about = replace(self.description, **changes)
        twin.description = replace(about, assumptions=(*notes, *about.assumptions))
        return twin

    def _turned(self, *notes: str) -> dict[str, Any]:
        """Return the words of the description that an inverse has from this transform."""
        about = self.description
        return {
            "format": about.format,
            "direction": OTHER_WAY[about.direction],
            "units": about.units,
            "source": about.source,
            "assumptions": (*about.assumptions, *notes),
        }

    def __repr__(self) -> str:
        about = self.description
        return f"<{type(self).__name__} {self.d}D {about.kind!r} from {about.source or about.format}>"


class AffineTransform(Transform):
    """``x -> matrix @ x + offset``, defined everywhere, of a (d, d) matrix and the (d,) image of the origin."""

    linear: ClassVar[bool] = True

    def __init__(
        self, matrix: ArrayLike, offset: ArrayLike, kind: str = "affine", *, units: str = "", notes: Sequence[str] = ()
    ) -> None:
        self.matrix = np.array(matrix, dtype=np.float64)
        self.offset = np.array(offset, dtype=np.float64)
        d = self.offset.size
        super().__init__(d, kind, units=units, notes=notes)
        if d not in (2, 3) or self.offset.shape != (d,) or self.matrix.shape != (d, d):
            raise InvalidInputError(
                f"An affine transform needs a d x d matrix and d offsets with d = 2 or 3, got shapes "
                f"{self.matrix.shape} and {self.offset.shape}."
            )
        if not (np.isfinite(self.matrix).all() and np.isfinite(self.offset).all()):
            raise InvalidInputError("An affine transform needs finite numbers, but its matrix or offset has others.")
        self.matrix.flags.writeable = False
        self.offset.flags.writeable = False

    def _map(self, points: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            mapped = points @ self.matrix.T
            mapped += self.offset
            total = mapped.sum()
        # A row is NaN whole or not at all; the sum finds NaN without an array of flags.
        if not np.isfinite(total):
            mapped[~np.isfinite(mapped).all(axis=1)] = np.nan
        return mapped

    def inverse(self) -> Transform:
        """Return the exact inverse; a singular matrix is refused."""
        if not np.linalg.cond(self.matrix) < 1e12:
            raise InvalidInputError(
                f"This affine transform cannot be inverted: its matrix is singular "
                f"(determinant {np.linalg.det(self.matrix):.3g})."
            )
        matrix = np.linalg.inv(self.matrix)
        inverse = AffineTransform(matrix, -matrix @ self.offset, self.description.kind)
        return inverse.described(**self._turned("Inverted exactly."))


def centred(matrix: ArrayLike, centre: ArrayLike, translation: ArrayLike) -> tuple[Floats, Floats]:
    """Return matrix and offset of ``x -> matrix @ (x - centre) + centre + translation``."""
    linear = np.asarray(matrix, dtype=np.float64)
    middle = np.asarray(centre, dtype=np.float64)
    return linear, middle + np.asarray(translation, dtype=np.float64) - linear @ middle


class FunctionTransform(Transform):
    """A transform given as a Python function: (n, d) fixed world points to as many moving ones, NaN where undefined.

    ``name`` is what messages call it; where ``serial``, threads call it and other such functions one after the other,
    as functions of unknown origin need; its inverse is looked for on the ``support``.
    """

    def __init__(
        self, function: Any, d: int, *, name: str = "", serial: bool = True, support: Grid | None = None
    ) -> None:
        if not callable(function):
            raise InvalidInputError(f"A FunctionTransform needs a callable, got {type(function).__name__}.")
        if d not in (2, 3):
            raise InvalidInputError(f"A transform has dimension 2 or 3, got {d!r}.")
        super().__init__(
            d,
            f"Python function {getattr(function, '__name__', type(function).__name__)!r}",
            support=support,
            notes=("The function takes fixed world points and gives moving world points.",),
        )
        self.function = function
        self._name = name
        self._serial = serial

    def _map(self, points: Floats) -> Floats:
        with _ONE_AT_A_TIME if self._serial else nullcontext():
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


def no_points(name: str, what: str) -> str:
    """Return the sentence about an object that cannot be taken as points."""
    return (
        f"{f'Transform {name!r}' if name else 'The transform'} is {what}, which cannot be taken as points; give a "
        "path, a function of points, a transform, or what warpgauge.as_transform makes of an array or tensor."
    )


class Chain(Transform):
    """Transforms after each other; **the first of the list is applied to the points first**.

    Its support is that of the first member, unless another is given.
    """

    def __init__(self, transforms: Sequence[Transform], *, support: Grid | None = None) -> None:
        if not transforms:
            raise InvalidInputError("A chain needs at least one transform, got none.")
        for part in transforms:
            if not isinstance(part, Transform):
                raise InvalidInputError(
                    f"A chain is made of transforms, but got an object of type {type(part).__name__}."
                )
        if len({part.d for part in transforms}) > 1:
            raise InvalidInputError(
                f"A chain needs transforms of one dimension, got {', '.join(f'{part.d}D' for part in transforms)}."
            )
        self.transforms = tuple(transforms)
        abouts = [part.description for part in transforms]
        kinds = ", then ".join(about.kind for about in abouts)
        units = {about.units: None for about in abouts if about.units != "unstated"}
        super().__init__(
            transforms[0].d,
            f"chain of {len(transforms)} ({kinds})",
            support=support or transforms[0].support,
            units=" / ".join(units),
            notes=(
                f"Members apply to points in the order listed: {kinds}.",
                *{note: None for about in abouts for note in about.assumptions},
            ),
        )
        self.description = replace(
            self.description,
            format=" + ".join({about.format: None for about in abouts}),
            direction=abouts[0].direction,
            source=abouts[-1].source,
        )

    @property
    def anywhere(self) -> bool:
        """Whether every member can be asked anywhere."""
        return all(part.anywhere for part in self.transforms)

    def _map(self, points: Floats) -> Floats:
        for transform in self.transforms:
            points = transform._map(points)
        return points

    def inverse(self) -> Transform:
        """Return the inverses of the members in the reversed order."""
        inverse = Chain([part.inverse() for part in reversed(self.transforms)])
        return inverse.described(source=self.description.source)

    def parts(self) -> list[Transform]:
        """Return the members in the order of application, those of chains within the chain among them."""
        parts: list[Transform] = []
        for part in self.transforms:
            parts += part.parts() if isinstance(part, Chain) else [part]
        return parts


def scaled(transform: Transform, scale: float) -> Transform:
    """Return the transform with all its coordinates, fixed and moving, multiplied by ``scale``: ``s T(x / s)``."""
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not _SMALLEST <= scale <= _LARGEST:
        raise InvalidInputError(f"scale must be a number between {_SMALLEST:g} and {_LARGEST:g}, got {scale!r}.")
    about = transform.description
    note = f"All coordinates of the transform, fixed and moving, were multiplied by {scale:g}."
    words = {**vars(about), "assumptions": (*about.assumptions, note)}
    if isinstance(transform, AffineTransform):
        return AffineTransform(transform.matrix, transform.offset * scale).described(**words)
    grid = transform.support
    if grid is not None:
        grid = replace(grid, spacing=grid.spacing * scale, origin=grid.origin * scale)
    nothing = np.zeros(transform.d)
    smaller = AffineTransform(np.eye(transform.d) / scale, nothing)
    larger = AffineTransform(np.eye(transform.d) * scale, nothing)
    return Chain([smaller, transform, larger], support=grid).described(**words)
