"""Routes for overlays, as raw planes and as points, and for the ranking of the transforms."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query
from starlette.responses import Response

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats
from warpgauge.maps.dense import defined_rows
from warpgauge.project import Project
from warpgauge.session.plausibility import check_placement
from warpgauge.web.app_state import AtDesk
from warpgauge.web.auth import Asking
from warpgauge.web.overlays import MapKind, with_mark
from warpgauge.web.plane_answers import RAW, Axis, Channels, LevelNumber, Side, Small, parsed_part, plane_response
from warpgauge.web.planes import plane_lines
from warpgauge.web.wire import drawn_placement
from warpgauge.web.wire_reports import LinesAnswer, LinkedAnswer, PointsAnswer, TransformsAnswer

Width = Annotated[int, Query(ge=8, le=512, description="Columns at most.")]
TransformName = Annotated[str | None, Query(max_length=100)]
MOST_POINTS = 100
router = APIRouter()


@router.get("/api/linked", response_model=LinkedAnswer)
def linked(
    desk: AtDesk,
    asking: Asking,
    points: Annotated[str, Query(max_length=4000, description="x,y;x,y or x,y,z;x,y,z")],
    side: Annotated[Side, Query(alias="from")] = "fixed",
) -> dict[str, Any]:
    """Map points of one image to the other by the posterior mean, for linked views."""
    desk.check_predicts(asking)
    mapped = desk.overlays.linked(desk.posterior(asking), side, parsed_points(points, desk.project.d))
    return {"points": rows_or_null(mapped)}


@router.get("/api/map/{kind}", response_class=Response, responses={200: RAW})
def overlay_map(
    kind: MapKind,
    desk: AtDesk,
    asking: Asking,
    transform: TransformName = None,
    axis: Axis = 2,
    index: Small = 0,
    width: Width = 128,
) -> Response:
    """Return a map over a plane of the fixed image as raw float32; NaN where there is no value."""
    desk.check_predicts(asking)  # deviations are scaled by residuals: a map of them locates what is hidden
    if kind in ("error", "blended"):
        desk.check_compares(asking)
    values, grid, limits = desk.overlays.map(kind, desk.posterior(asking), transform, axis, index, width)
    return plane_response(values.astype("<f4"), grid, axis, limits)


@router.get("/api/warped", response_class=Response, responses={200: RAW})
def warped(
    desk: AtDesk,
    asking: Asking,
    axis: Axis = 2,
    index: Small = 0,
    level: LevelNumber = 0,
    part: Annotated[str | None, Query(max_length=60, description="First column, first row, columns, rows.")] = None,
    mark: Annotated[
        str | None, Query(max_length=600, description="Fixed point; moving point; covariance, row by row.")
    ] = None,
    channels: Channels = "",
) -> Response:
    """Return the moving image at the posterior mean of a plane of the fixed image, as tiles are sent.

    After the samples comes a byte for each element: 1 within the moving image, 0 where it has no sample. With a
    mark, as if that mark were stored.
    """
    desk.check_predicts(asking)
    posterior = desk.posterior(asking)
    if mark is not None:
        posterior = with_mark(posterior, *parsed_mark(mark, desk.project))
    box = None if part is None else parsed_part(part)
    samples, within, grid = desk.overlays.warped(posterior, axis, index, level, box, channels)
    return plane_response(samples, grid, axis, after=within.astype(np.uint8))


@router.get("/api/grid_lines", response_model=LinesAnswer)
def grid_lines(
    desk: AtDesk, asking: Asking, axis: Axis = 2, index: Small = 0, lines: Annotated[int, Query(ge=2, le=60)] = 20
) -> dict[str, Any]:
    """Return a square lattice over a plane of the fixed image, mapped into the moving image by the mean."""
    desk.check_predicts(asking)
    posterior = desk.posterior(asking)
    steps = 60
    found = plane_lines(desk.project.fixed_grid, axis, index, lines, steps)
    mapped = posterior.mean(np.concatenate(found)).reshape(len(found), steps, -1)
    return {"lines": [rows_or_null(line) for line in mapped]}


@router.get("/api/candidates", response_model=PointsAnswer)
def candidates(desk: AtDesk, asking: Asking) -> dict[str, Any]:
    """Return the points that may be asked for."""
    return {"points": desk.project.candidates.tolist()}


@router.get("/api/transforms", response_model=TransformsAnswer)
def transforms(desk: AtDesk, asking: Asking) -> dict[str, Any]:
    """Return the transforms that were added, and their ranking so far."""
    desk.check_compares(asking)
    return desk.ranking.table()


def parsed_points(text: str, d: int) -> Floats:
    """Read ``x,y;x,y``."""
    rows = [part.split(",") for part in text.split(";")] if text else []
    if len(rows) > MOST_POINTS:
        raise InvalidInputError(f"At most {MOST_POINTS} points are mapped at a time, not {len(rows)}.")
    try:
        points = np.array([[float(value) for value in row] for row in rows]).reshape(len(rows), -1)
    except ValueError:
        points = np.empty((0, 0))
    if points.shape[1:] != (d,) or not len(points) or not np.all(np.abs(points) <= 1e9):
        raise InvalidInputError(f"Points must be written as {'x,y;x,y' if d == 2 else 'x,y,z;x,y,z'}, finite numbers.")
    return points


def parsed_mark(text: str, project: Project) -> tuple[Floats, Floats, Floats]:
    """Read ``fixed;moving;covariance`` of a mark that is not stored."""
    d = project.d
    parts = text.split(";")
    try:
        fixed, moving, entries = ([float(value) for value in part.split(",")] for part in parts)
        covariance = np.array(entries).reshape(d, d)
        if len(fixed) != d or not np.all(np.isfinite(fixed)):
            raise ValueError("fixed")
    except ValueError:
        raise InvalidInputError(
            f"A mark must be written as fixed;moving;covariance with {d}, {d} and {d * d} numbers."
        ) from None
    placement = drawn_placement(d, moving=moving, covariance=covariance.tolist(), alpha=project.settings.alpha)
    if not np.isfinite(moving).all():
        raise InvalidInputError("The coordinates of a placement must be finite numbers.")
    check_placement(project, placement)
    return np.array(fixed), np.array(placement.moving), placement.covariance_world


def rows_or_null(points: Floats) -> list[list[float] | None]:
    """Return points as JSON can hold them."""
    defined = defined_rows(points)
    return [row if there else None for row, there in zip(points.tolist(), defined.tolist(), strict=True)]
