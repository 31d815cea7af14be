"""Placements and predictions on their way in and out."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpgauge.core.arrays import as_covariances
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.project import Placement, Project, Skipped
from warpgauge.project.records import Answer
from warpgauge.session import Prediction
from warpgauge.session.placement import check_placement


def read_placement(project: Project, point: list[float], covariance: list[list[float]]) -> tuple[Floats, Floats]:
    """Return a placement as arrays; refuse another shape, and what the session refuses of any placement."""
    d = project.d
    if len(point) != d or any(len(row) != d for row in covariance) or len(covariance) != d:
        raise InvalidInputError(f"A placement in this project has {d} coordinates and a {d} x {d} matrix.")
    place = np.asarray(point, dtype=np.float64)
    if not np.isfinite(place).all():
        raise InvalidInputError("The coordinates of a placement must be finite numbers.")
    matrix = as_covariances(np.asarray(covariance, dtype=np.float64)[None], 1, d, "The covariance")[0]
    check_placement(project, place, matrix)
    return place, matrix


def described(answer: Answer, *, hidden: bool = False) -> dict[str, Any] | None:
    """Describe an answer; where predictions are hidden, not whether it was far from one."""
    if isinstance(answer, Placement):
        return {
            "kind": "place",
            "point": list(answer.point),
            "covariance": [list(row) for row in answer.covariance],
            "alpha": answer.alpha,
            "fixed": None if answer.fixed is None else list(answer.fixed),
            "snapped_from": None if answer.snapped_from is None else list(answer.snapped_from),
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
