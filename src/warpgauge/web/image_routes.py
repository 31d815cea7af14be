"""Routes for what is drawn: tiles of the images, overlays, foregrounds, and a proposed alignment."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request
from numpy.typing import NDArray
from pydantic import Field
from starlette.responses import Response

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.maps.dense import defined_rows
from warpgauge.project import NotAllowedError, Project
from warpgauge.web.app_state import Desk
from warpgauge.web.auth import Asking, Person, Writing
from warpgauge.web.failures import WRITE_REFUSALS, NotFoundError
from warpgauge.web.overlays import MapKind, plane_array, plane_frame, plane_grid, plane_lines, with_mark
from warpgauge.web.placements import read_placement
from warpgauge.web.wire import Based, Given, OverviewsAnswer, ProjectAnswer, Saved
from warpgauge.web.wire_reports import LinesAnswer, LinkedAnswer, PointsAnswer, TransformsAnswer

# The project's description and the tiles of its images.

Side = Literal["fixed", "moving"]
Small = Annotated[int, Query(ge=0, le=10_000_000)]
Axis = Annotated[int, Query(ge=0, le=2, description="Normal of the plane: 0 is x, 1 is y, 2 is z.")]
LevelNumber = Annotated[int, Query(ge=0, le=64)]


def image_router(desk: Desk) -> APIRouter:
    """Return the routes of the project and its images."""
    router = APIRouter()

    @router.get("/api/project", response_model=ProjectAnswer)
    def project(asking: Asking) -> dict[str, object]:
        """Return the project, its images, and who the visitor is."""
        return desk.describe(asking)

    @router.get("/api/overviews", response_model=OverviewsAnswer)
    def overviews(asking: Asking) -> dict[str, object]:
        """Return how far the overviews are that are made of images without coarse levels; tiles wait for them."""
        return {side: picture.overview() for side, picture in desk.pictures.items()}

    @router.get("/api/images/{side}/tile", response_class=Response, responses={200: RAW, 304: UNCHANGED})
    def tile(
        side: Side,
        request: Request,
        asking: Asking,
        axis: Axis = 2,
        index: Small = 0,
        level: LevelNumber = 0,
        row: Small = 0,
        column: Small = 0,
        v: Annotated[str, Query(max_length=64)] = "",
    ) -> Response:
        """Return raw little-endian samples of a tile: rows, then columns, then channels."""
        picture = desk.pictures[side]
        tag = f'"{picture.version}-{axis}-{index}-{level}-{row}-{column}"'
        lasting = v == picture.version
        headers = {"ETag": tag, "Cache-Control": f"private, {'max-age=86400, immutable' if lasting else 'no-cache'}"}
        samples = picture.tile(axis, index, level, row, column)
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        headers["X-Height"], headers["X-Width"] = str(samples.shape[0]), str(samples.shape[1])
        headers["X-Channels"] = str(samples.shape[2] if samples.ndim == 3 else 1)
        return Response(samples.tobytes(), media_type="application/octet-stream", headers=headers)

    return router


RAW: dict[str, object] = {
    "description": "Raw samples; the headers X-Height, X-Width and X-Channels tell their shape.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
UNCHANGED: dict[str, object] = {"description": "The copy that the browser has is still the same."}


# Routes for overlays, as raw planes and as points.

Width = Annotated[int, Query(ge=8, le=512, description="Columns at most.")]
TransformName = Annotated[str | None, Query(max_length=100)]
MOST_POINTS = 100


def overlay_router(desk: Desk) -> APIRouter:
    """Return the routes of the overlays."""
    router = APIRouter()

    @router.get("/api/linked", response_model=LinkedAnswer)
    def linked(
        asking: Asking,
        points: Annotated[str, Query(max_length=4000, description="x,y;x,y or x,y,z;x,y,z")],
        side: Annotated[Side, Query(alias="from")] = "fixed",
    ) -> dict[str, Any]:
        """Map points of one image to the other by the posterior mean, for linked views."""
        may_predict(desk, asking)
        mapped = desk.overlays.linked(desk.posterior(asking), side, parsed_points(points, desk.project.d))
        return {"points": rows_or_null(mapped)}

    @router.get("/api/map/{kind}", response_class=Response, responses={200: RAW})
    def overlay_map(
        kind: MapKind,
        asking: Asking,
        transform: TransformName = None,
        axis: Axis = 2,
        index: Small = 0,
        width: Width = 128,
    ) -> Response:
        """Return a map over a plane of the fixed image as raw float32; NaN where there is no value."""
        may_predict(desk, asking)  # deviations are scaled by residuals: a map of them locates what is hidden
        if kind in ("error", "blended"):
            _may_compare(desk, asking)
        values, grid, limits = desk.overlays.map(kind, desk.posterior(asking), transform, axis, index, width)
        return plane_response(values.astype("<f4"), grid, axis, limits)

    @router.get("/api/warped", response_class=Response, responses={200: RAW})
    def warped(
        asking: Asking,
        axis: Axis = 2,
        index: Small = 0,
        level: LevelNumber = 0,
        part: Annotated[str | None, Query(max_length=60, description="First column, first row, columns, rows.")] = None,
        mark: Annotated[
            str | None, Query(max_length=600, description="Fixed point; moving point; covariance, row by row.")
        ] = None,
    ) -> Response:
        """Return the moving image at the posterior mean of a plane of the fixed image, as tiles are sent.

        After the samples comes a byte for each element: 1 within the moving image, 0 where it has no sample. With a
        mark, as if that mark were stored.
        """
        may_predict(desk, asking)
        posterior = desk.posterior(asking)
        if mark is not None:
            posterior = with_mark(posterior, *parsed_mark(mark, desk.project))
        box = None if part is None else parsed_part(part)
        samples, within, grid = desk.overlays.warped(posterior, axis, index, level, box)
        return plane_response(samples, grid, axis, after=within.astype(np.uint8))

    @router.get("/api/grid_lines", response_model=LinesAnswer)
    def grid_lines(
        asking: Asking, axis: Axis = 2, index: Small = 0, lines: Annotated[int, Query(ge=2, le=60)] = 20
    ) -> dict[str, Any]:
        """Return a square lattice over a plane of the fixed image, mapped into the moving image by the mean."""
        may_predict(desk, asking)
        posterior = desk.posterior(asking)
        steps = 60
        found = plane_lines(desk.project.fixed_grid, axis, index, lines, steps)
        mapped = posterior.mean(np.concatenate(found)).reshape(len(found), steps, -1)
        return {"lines": [rows_or_null(line) for line in mapped]}

    @router.get("/api/candidates", response_model=PointsAnswer)
    def candidates(asking: Asking) -> dict[str, Any]:
        """Return the points that may be asked for."""
        return {"points": desk.project.candidates.tolist()}

    @router.get("/api/transforms", response_model=TransformsAnswer)
    def transforms(asking: Asking) -> dict[str, Any]:
        """Return the transforms that were added, and their ranking so far."""
        _may_compare(desk, asking)
        return desk.comparison.describe()

    return router


def may_predict(desk: Desk, person: Person) -> None:
    """Refuse where a person must not see what the model expects."""
    if not desk.predicts(person):
        raise NotAllowedError("In this project raters are not shown where the model expects matches.")


def _may_compare(desk: Desk, person: Person) -> None:
    if not desk.compares(person):
        raise NotAllowedError("In a blind project raters do not see the transforms that are to be judged.")


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


def parsed_part(text: str) -> tuple[int, int, int, int]:
    """Read ``column,row,columns,rows``."""
    try:
        column, row, columns, rows = (int(value) for value in text.split(","))
    except ValueError:
        raise InvalidInputError("A part of a plane must be written as column,row,columns,rows.") from None
    return column, row, columns, rows


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
    point, checked = read_placement(project, moving, covariance.tolist())
    return np.array(fixed), point, checked


def rows_or_null(points: Floats) -> list[list[float] | None]:
    """Return points as JSON can hold them."""
    defined = defined_rows(points)
    return [row if there else None for row, there in zip(points.tolist(), defined.tolist(), strict=True)]


def plane_response(
    values: NDArray[Any],
    grid: Grid,
    axis: int,
    limits: tuple[float, float] | None = None,
    after: NDArray[np.uint8] | None = None,
) -> Response:
    """Return a plane as raw values, with its shape and frame in the headers."""
    headers = {
        "X-Height": str(values.shape[0]),
        "X-Width": str(values.shape[1]),
        "X-Channels": str(values.shape[2] if values.ndim == 3 else 1),
        "X-Frame": json.dumps(plane_frame(grid, axis)),
    }
    if limits is not None:
        headers["X-Known-From-To"] = json.dumps(limits)
    content = np.ascontiguousarray(values).tobytes() + (b"" if after is None else after.tobytes())
    return Response(content, media_type="application/octet-stream", headers=headers)


# Routes for what is known before the first answer: the foregrounds of both images, and a proposed alignment.

_COLUMNS = 256


class AlignmentAnswer(Given):
    """A rough alignment: how the moving image lies to the fixed one."""

    status: Literal["none", "proposed", "accepted", "refused"]
    method: str = Field(description="How it was found, in a sentence.")
    asks: bool = Field(description="Whether this visitor is asked about it.")


class AlignmentRequest(Based):
    """A yes or a no to the proposed alignment."""

    accepted: bool


class AlignedAnswer(Given):
    """A yes or a no was saved."""

    saved: Saved


class Aligned:
    """The proposed alignment in the place of a posterior, for the warped picture."""

    def __init__(self, desk: Desk) -> None:
        from warpgauge.project.transforms import alignment_of

        event = desk.project.state.alignment
        if event is None:
            raise NotFoundError("No alignment was proposed.")
        self._alignment = alignment_of(event)

    def mean(self, points: Floats) -> Floats:
        """Map fixed to moving points."""
        return np.asarray(self._alignment.map(points))


def start_router(desk: Desk) -> APIRouter:
    """Return the routes of foregrounds and alignments."""
    router = APIRouter()

    @router.get("/api/foreground/{side}", response_class=Response, responses={200: RAW})
    def foreground(side: Side, asking: Asking, axis: Axis = 2, index: Small = 0) -> Response:
        """Return where an image shows something, a byte for each element of a plane: 1 in the foreground."""
        project = desk.project
        found = project.fixed_foreground if side == "fixed" else project.moving_foreground
        if found is None:
            raise NotFoundError("This project was made without looking for a foreground.")
        image = project.fixed_grid if side == "fixed" else project.moving_grid
        grid = plane_grid(image, axis, index, _COLUMNS)
        inside = found.contains(grid.points(0, grid.count)).reshape(grid.shape)
        return plane_response(plane_array(grid, axis, inside).astype(np.uint8), grid, axis)

    @router.get("/api/alignment", response_model=AlignmentAnswer)
    def alignment(asking: Asking) -> dict[str, Any]:
        """Return the rough alignment that was proposed last, and what was said to it."""
        return _described(desk, asking)

    @router.post("/api/alignment", response_model=AlignedAnswer, responses=WRITE_REFUSALS)
    def answer(body: AlignmentRequest, writing: Writing) -> dict[str, Any]:
        """Accept or refuse the proposed alignment; an accepted one is what predictions begin with."""
        if not _described(desk, writing)["asks"]:
            raise NotAllowedError("There is no alignment that you are asked about.")
        with desk.lock:
            event = desk.project.answer_alignment(body.accepted, writing.name)
            desk.changed()
        return {"saved": {"generation": event.generation, "time": event.time}}

    @router.get("/api/alignment/warped", response_class=Response, responses={200: RAW})
    def warped(
        asking: Asking, axis: Axis = 2, index: Small = 0, level: LevelNumber = 0, part: str | None = None
    ) -> Response:
        """Return the moving image as the proposed alignment lays it over a plane of the fixed one, as /api/warped."""
        may_predict(desk, asking)
        box = None if part is None else parsed_part(part)
        samples, within, grid = desk.overlays.warped(Aligned(desk), axis, index, level, box)
        return plane_response(samples, grid, axis, after=within.astype(np.uint8))

    return router


def _described(desk: Desk, person: Person) -> dict[str, Any]:
    event = desk.project.state.alignment
    if event is None or not desk.predicts(person):
        return {"status": "none", "method": "", "asks": False}
    said = event.payload["accepted"]
    status = "proposed" if said is None else "accepted" if said else "refused"
    # What one says counts for all: in a blind project the organiser decides.
    asks = said is None and person.writes and (person.organises or not desk.project.settings.blind)
    return {"status": status, "method": str(event.payload["method"]), "asks": asks}
