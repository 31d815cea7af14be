"""Placements and predictions on their way in and out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warpgauge.core.arrays import as_covariances
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.project import Placement, Skipped
from warpgauge.project.records import Answer
from warpgauge.session import Prediction

_FARTHEST = 20.0  # diagonals of the moving image that a placement may lie from its middle
_THINNEST = 1e-4  # pixels that a standard deviation must have
_WIDEST = 20.0  # diagonals that a standard deviation may have


def sane_placement(grid: Grid, point: list[float], covariance: list[list[float]]) -> tuple[Any, Any]:
    """Refuse what no person means and no model survives: points far out, hair-thin or endless ellipses."""
    if len(point) != grid.d or any(len(row) != grid.d for row in covariance) or len(covariance) != grid.d:
        raise InvalidInputError(
            f"A placement in this project has {grid.d} coordinates and a {grid.d} x {grid.d} matrix."
        )
    matrix = as_covariances(np.asarray(covariance, dtype=np.float64)[None], 1, grid.d, "The covariance")[0]
    middle = grid.centre
    if math.dist(point, middle) > _FARTHEST * grid.diagonal:
        raise InvalidInputError("The point lies far away from the moving image; place it within or near the image.")
    sizes = np.sqrt(np.linalg.eigvalsh(matrix))
    if sizes[0] < _THINNEST * float(grid.spacing.min()) or sizes[-1] > _WIDEST * grid.diagonal:
        raise InvalidInputError(
            f"The ellipse is too thin or too large: its standard deviations must lie between {_THINNEST:g} pixels and "
            f"{_WIDEST:g} times the image, got {sizes[0]:.3g} to {sizes[-1]:.3g} {grid.units}."
        )
    return np.asarray(point, dtype=np.float64), matrix


def described(answer: Answer, *, hidden: bool = False) -> dict[str, Any] | None:
    """Describe an answer; where predictions are hidden, not whether it was far from one."""
    if isinstance(answer, Placement):
        return {
            "kind": "place",
            "point": list(answer.point),
            "covariance": [list(row) for row in answer.covariance],
            "alpha": answer.alpha,
            "fixed": None if answer.fixed is None else list(answer.fixed),
            "flagged": not hidden and answer.flag is not None,
            "generation": answer.generation,
            "time": answer.time,
        }
    if isinstance(answer, Skipped):
        return {
            "kind": "skip",
            "reason": answer.reason,
            "text": answer.text,
            "generation": answer.generation,
            "time": answer.time,
        }
    return None


def predicted(prediction: Prediction) -> dict[str, Any]:
    """Describe a prediction."""
    return {
        "mean": prediction.mean.tolist(),
        "covariance": prediction.covariance.tolist(),
        "ellipse": {"half_lengths": prediction.half_lengths.tolist(), "axes": prediction.axes.tolist()},
        "alpha": prediction.alpha,
        "outside": not prediction.inside,
    }


def rough(value: float) -> float:
    """Round to one significant digit, for a person who must not find out a prediction from the digits."""
    return float(f"{value:.0e}")
