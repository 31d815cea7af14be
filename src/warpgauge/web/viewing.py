"""What is looked at: the project as the page opens it, tiles of its images, and overlays on their planes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from warpgauge.errors import InvalidInputError
from warpgauge.web.desk import Visiting
from warpgauge.web.overlays import MapKind
from warpgauge.web.planes import RAW, Axis, Channels, LevelNumber, Small, parsed_part, plane_response, shape_headers
from warpgauge.web.tiled_image import ImageAnswer
from warpgauge.web.wire import Coordinate, Given, Role, Side

UNCHANGED: dict[str, object] = {"description": "The copy that the browser has is still the same."}
router = APIRouter()


class SettingsAnswer(Given):
    """Settings that the page needs."""

    hide_prediction: bool
    alpha: float
    budget: int | None


class ProjectAnswer(Given):
    """The project, and who the visitor is in it; ``compare`` says whether they may see its transforms."""

    name: str
    d: int
    units: str
    rater: str
    role: Role
    generation: int
    readonly: bool
    compare: bool
    settings: SettingsAnswer
    images: dict[Side, ImageAnswer]


class LinkedAnswer(Given):
    """A point in the other image; null where there is none."""

    point: list[float] | None


@router.get("/project")
def project(visit: Visiting) -> ProjectAnswer:
    """Return the project, its images, and who the visitor is."""
    project, desk = visit.project, visit.desk
    known = project.known  # not the state, which may be at work: a picture does not wait for a question
    if desk.lock.acquire(blocking=False):
        try:
            known = project.state
        finally:
            desk.lock.release()
    return ProjectAnswer(
        name=project.folder.resolve().name,
        d=project.d,
        units=project.units,
        rater=visit.name,
        role="organiser" if visit.person.organises else "rater",
        generation=known.generation,
        readonly=project.readonly,
        compare=visit.compares,
        settings=SettingsAnswer.model_validate(project.settings),
        images={side: picture.describe() for side, picture in desk.pictures.items()},
    )


@dataclass(frozen=True)
class TilePlace:
    """Which tile of an image is wanted; ``v`` is the image's version, where the browser knows it."""

    axis: Axis = 2
    index: Small = 0
    level: LevelNumber = 0
    row: Small = 0
    column: Small = 0
    v: Annotated[str, Query(max_length=64)] = ""
    channels: Channels = ""


@router.get("/images/{side}/tile", response_class=Response, responses={200: RAW, 304: UNCHANGED})
def tile(side: Side, request: Request, visit: Visiting, place: Annotated[TilePlace, Depends()]) -> Response:
    """Return raw little-endian samples of a tile: rows, then columns, then channels."""
    picture = visit.desk.pictures[side]
    where = (place.axis, place.index, place.level, place.row, place.column)
    tag = f'"{"-".join([picture.version, *map(str, where), place.channels])}"'
    lasting = "max-age=86400, immutable" if place.v == picture.version else "no-cache"
    headers = {"ETag": tag, "Cache-Control": f"private, {lasting}"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    samples = picture.chosen(picture.tile(*where), place.channels)
    headers |= shape_headers(samples)
    return Response(samples.tobytes(), media_type="application/octet-stream", headers=headers)


@router.get("/linked")
def linked(visit: Visiting, x: Coordinate, y: Coordinate, z: Coordinate | None = None) -> LinkedAnswer:
    """Map a point of the fixed image to the other by the posterior mean."""
    visit.check_predicts()
    point = [x, y] if z is None else [x, y, z]
    if len(point) != visit.project.d:
        raise InvalidInputError(f"A point of this project has {visit.project.d} coordinates, not {len(point)}.")
    mapped = visit.posterior().mean(np.array([point]))[0]
    return LinkedAnswer(point=mapped.tolist() if np.isfinite(mapped).all() else None)


@router.get("/map/{kind}", response_class=Response, responses={200: RAW})
def overlay_map(
    kind: MapKind,
    visit: Visiting,
    transform: Annotated[str | None, Query(max_length=100)] = None,
    axis: Axis = 2,
    index: Small = 0,
    width: Annotated[int, Query(ge=8, le=512, description="Columns at most.")] = 128,
) -> Response:
    """Return a map over a plane of the fixed image as raw float32; NaN where there is no value."""
    visit.check_predicts()  # deviations are scaled by residuals: a map of them locates what is hidden
    if kind == "blended":
        visit.check_compares()
    values, grid, limits = visit.desk.overlays.map(kind, visit.posterior(), transform, axis, index, width)
    return plane_response(values.astype("<f4"), grid, axis, known=json.dumps(limits))


@router.get("/warped", response_class=Response, responses={200: RAW})
def warped(
    visit: Visiting,
    axis: Axis = 2,
    index: Small = 0,
    level: LevelNumber = 0,
    part: Annotated[str | None, Query(max_length=60, description="First column, first row, columns, rows.")] = None,
    channels: Channels = "",
) -> Response:
    """Return the moving image at the posterior mean of a plane of the fixed image, as tiles are sent.

    After the samples comes a byte for each element: 1 within the moving image, 0 where it has no sample.
    """
    visit.check_predicts()
    box = None if part is None else parsed_part(part)
    samples, within, grid = visit.desk.overlays.warped(visit.posterior(), axis, index, level, box, channels)
    return plane_response(samples, grid, axis, after=within.astype(np.uint8).tobytes())
