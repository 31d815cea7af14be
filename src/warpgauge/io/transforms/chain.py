"""Transforms made of others: chains, sums, and transforms for images of another scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.io.transforms.base import Bools, Description, Transform
from warpgauge.io.transforms.inverse import residual
from warpgauge.io.transforms.linear import AffineTransform


def _merged(parts: Sequence[Transform], kind: str, note: str) -> Description:
    abouts = [part.description for part in parts]
    formats = list(dict.fromkeys(about.format for about in abouts))
    units = list(dict.fromkeys(about.units for about in abouts if about.units != "unstated"))
    inner = [text for about in abouts for text in about.assumptions]
    ways = [about.interpolation for about in abouts if about.interpolation != "none"]
    limits = [f"member {i + 1} ({a.kind}): {a.outside}" for i, a in enumerate(abouts) if not parts[i].linear]
    return Description(
        format=" + ".join(formats),
        kind=kind,
        direction=abouts[0].direction,
        frame=abouts[0].frame,
        units=" / ".join(units) or "unstated",
        interpolation="; ".join(dict.fromkeys(ways)) or "none",
        outside="; ".join(limits) or "defined everywhere",
        assumptions=(note, *dict.fromkeys(inner)),
        source=abouts[-1].source,
    )


def _same_dimension(parts: Sequence[Transform], what: str) -> None:
    if not parts:
        raise InvalidInputError(f"A {what} needs at least one transform, got none.")
    for part in parts:
        if not isinstance(part, Transform):
            raise InvalidInputError(f"A {what} is made of transforms, but got an object of type {type(part).__name__}.")
    if len({part.d for part in parts}) > 1:
        raise InvalidInputError(
            f"A {what} needs transforms of one dimension, got {', '.join(f'{part.d}D' for part in parts)}."
        )


class Chain(Transform):
    """Transforms after each other; **the first of the list is applied to the points first**.

    Parameters
    ----------
    transforms : sequence of Transform
        In the order of application to points.
    description : Description, optional
        What is known of it.
    """

    def __init__(self, transforms: Sequence[Transform], description: Description | None = None) -> None:
        _same_dimension(transforms, "chain")
        kinds = ", then ".join(part.description.kind or type(part).__name__ for part in transforms)
        note = "Members apply to points in the order listed: " + kinds + "."
        about = description or _merged(transforms, f"chain of {len(transforms)} ({kinds})", note)
        super().__init__(about, transforms[0].d, transforms[0].support)
        self.transforms = tuple(transforms)

    @property
    def anywhere(self) -> bool:
        """Whether every member can be asked anywhere."""
        return all(one.anywhere for one in self.transforms)

    def _map(self, points: Floats) -> Floats:
        for transform in self.transforms:
            points = transform._map(points)
        return points

    def _domain(self, points: Floats) -> Bools:
        for transform in self.transforms[:-1]:
            points = transform._map(points)
        return self.transforms[-1]._domain(points)

    def inverse(self, *, tolerance: float = 1e-6) -> Transform:
        """Return the inverses of the members in the reversed order."""
        return InverseChain(self, tolerance=tolerance)

    def reversed_order(self) -> Chain:
        """Return the same members in the other order: the usual misreading of a list."""
        return Chain(self.transforms[::-1])


class InverseChain(Chain):
    """The inverse of a chain: the inverses of its members in the reversed order.

    Parameters
    ----------
    forward : Chain
        The chain to invert.
    tolerance : float
        Largest residual of each member's inverse in world units.
    """

    def __init__(self, forward: Chain, tolerance: float = 1e-6) -> None:
        self.forward = forward
        super().__init__([part.inverse(tolerance=tolerance) for part in reversed(forward.transforms)])
        self._description = replace(self._description, source=forward.description.source)

    def inverse(self, *, tolerance: float = 1e-6) -> Transform:
        """Return the chain that this one inverts (``tolerance`` plays no part)."""
        return self.forward

    def residual(self, points_world: ArrayLike) -> Floats:
        """Return ``|T(inverse(y)) - y|`` of each point in world units; NaN where the inverse is not defined."""
        return residual(self.forward, self, self._checked(points_world))


class SumTransform(Transform):
    """``x -> T0(x) + T1(x) - x``: displacements added at the same point, as elastix does for "Add".

    Parameters
    ----------
    first, second : Transform
        The two, whose order plays no part.
    """

    def __init__(self, first: Transform, second: Transform) -> None:
        _same_dimension((first, second), "sum")
        kinds = f"{first.description.kind} and {second.description.kind}"
        note = "Both displacements are taken at the same fixed point and added (elastix Add)."
        about = _merged((first, second), f"sum of {kinds}", note)
        super().__init__(about, first.d, second.support or first.support)
        self.transforms = (first, second)

    def _map(self, points: Floats) -> Floats:
        mapped = self.transforms[0]._map(points)
        mapped += self.transforms[1]._map(points)
        mapped -= points
        return mapped

    def _extended(self, points: Floats) -> Floats:
        sums: Floats = self.transforms[0]._extended(points) + self.transforms[1]._extended(points) - points
        return sums

    def _domain(self, points: Floats) -> Bools:
        return np.asarray(self.transforms[0]._domain(points) & self.transforms[1]._domain(points))


_SMALLEST, _LARGEST = 1e-9, 1e9


class ScaledTransform(Transform):
    """``x -> s T(x / s)``: every coordinate of ``T``, fixed and moving, multiplied by ``s``.

    Parameters
    ----------
    transform : Transform
        The transform ``T``.
    scale : float
        The factor ``s``: 0.25 for a transform of images four times as large along each axis.
    """

    def __init__(self, transform: Transform, scale: float) -> None:
        sentence = f"All coordinates of the transform, fixed and moving, were multiplied by {scale:g}."
        grid = transform.support
        grid = grid and replace(grid, spacing=grid.spacing * scale, origin=grid.origin * scale)
        super().__init__(transform.description.assuming(sentence), transform.d, grid)
        self.transform, self.scale = transform, float(scale)

    @property
    def anywhere(self) -> bool:
        """As the transform that is scaled."""
        return self.transform.anywhere

    def _map(self, points: Floats) -> Floats:
        return np.asarray(self.transform._map(points / self.scale) * self.scale)

    def _extended(self, points: Floats) -> Floats:
        return np.asarray(self.transform._extended(points / self.scale) * self.scale)

    def _domain(self, points: Floats) -> Bools:
        return self.transform._domain(points / self.scale)


def scaled(transform: Transform, scale: float) -> Transform:
    """Return the transform with all its coordinates, fixed and moving, multiplied by ``scale``."""
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not _SMALLEST <= scale <= _LARGEST:
        raise InvalidInputError(f"scale must be a number between {_SMALLEST:g} and {_LARGEST:g}, got {scale!r}.")
    wrapped = ScaledTransform(transform, scale)
    if isinstance(transform, AffineTransform):
        return AffineTransform(transform.matrix, transform.offset * scale, wrapped.description)
    return wrapped
