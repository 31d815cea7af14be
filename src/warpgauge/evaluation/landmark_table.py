"""Errors of every transform at every annotated point, as tidy rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.evaluation.mapping import converted, mapped_points


def landmark_table(annotations: Annotations, transforms: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row per annotation and transform.

    Columns: ``annotation`` (from 1), ``transform``, ``fixed_x`` ..., ``moving_x`` ... (the expert's match), ``sd``
    (root mean variance that the expert stated), ``mapped_x`` ... (where the transform puts the point), ``error`` (its
    distance from the match) and ``error_in_sd``. World units; NaN where a transform is undefined.
    """
    axes = "xyz"[: annotations.d]
    sd = np.sqrt(np.trace(annotations.covariances, axis1=1, axis2=2) / annotations.d)
    rows = []
    for name, transform in converted(transforms).items():
        mapped = mapped_points(name, transform, annotations.fixed_points)
        errors = np.linalg.norm(mapped - annotations.moving_points, axis=1)
        for at in range(len(annotations)):
            row: dict[str, Any] = {"annotation": at + 1, "transform": name}
            for kind, points in (
                ("fixed", annotations.fixed_points),
                ("moving", annotations.moving_points),
                ("mapped", mapped),
            ):
                row |= {f"{kind}_{axis}": float(value) for axis, value in zip(axes, points[at], strict=True)}
            row |= {"sd": float(sd[at]), "error": float(errors[at]), "error_in_sd": float(errors[at] / sd[at])}
            rows.append(row)
    return rows
