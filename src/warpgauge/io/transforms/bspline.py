"""B-spline transforms of ITK and elastix: coefficients on a control grid."""

from __future__ import annotations

from typing import Any

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms.base import Description
from warpgauge.io.transforms.lattice import BORDER, LatticeTransform, Vectors

_NAMES = {1: "linear", 2: "quadratic", 3: "cubic"}


class BSplineTransform(LatticeTransform):
    """``x -> x + sum_i c_i B(u(x) - i)`` with ``u`` the control index and ``B`` the centred B-spline of ``order``.

    It is defined where the whole support lies on the control grid, ``(order - 1) / 2 <= u <= n - 1 - (order - 1) / 2``
    along each axis. ITK and elastix give the identity beyond that; here such points are masked.

    Parameters
    ----------
    coefficients : (d, y, x) or (d, z, y, x) array
        Displacement coefficients, world components x, y[, z] first.
    grid : Grid
        The control grid.
    order : int
        1, 2 or 3.
    description : Description, optional
        What is known of it.
    """

    def __init__(
        self, coefficients: Vectors, grid: Grid, order: int = 3, description: Description | None = None
    ) -> None:
        if order not in _NAMES:
            raise InvalidInputError(f"A B-spline transform has order 1, 2 or 3, got {order!r}.")
        margin = (order - 1) / 2
        super().__init__(
            coefficients,
            grid,
            order=order,
            margin=margin,
            absolute=False,
            description=description or bspline_description(order, "memory"),
        )
        if self._gaps:
            raise InvalidInputError("The coefficients of a B-spline transform must be finite, but some are not.")


def bspline_description(order: int, file_format: str, **more: Any) -> Description:
    """Describe a B-spline transform of a given order."""
    margin = (order - 1) / 2
    return Description(
        format=file_format,
        kind=f"{_NAMES.get(order, order)} B-spline",
        interpolation=f"B-spline of order {order} on its control grid",
        outside=(
            f"masked (NaN) outside control indices [{margin:g}, n - {1 + margin:g}] (within {BORDER:g} of the border "
            f"counts as on it), where ITK and elastix would jump to the identity"
        ),
        **more,
    )
