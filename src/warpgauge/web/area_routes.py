"""Routes for areas of the fixed image: regions of its own, what has no match, and what organisers draw."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path
from numpy.typing import NDArray
from starlette.responses import Response

from warpgauge.geometry import Grid
from warpgauge.project import Project
from warpgauge.web.app_state import AtDesk
from warpgauge.web.auth import Asking, Organising
from warpgauge.web.failures import WRITE_REFUSALS
from warpgauge.web.plane_answers import RAW, Axis, Small, plane_response
from warpgauge.web.planes import plane_array, plane_grid
from warpgauge.web.wire import AreaRequest, AreasAnswer, AreaSavedAnswer

BOUNDARY, MISSING = 1, 2
_COLUMNS = 512
router = APIRouter()


@router.get("/api/areas", response_model=AreasAnswer)
def areas(desk: AtDesk, asking: Asking) -> dict[str, Any]:
    """Return the areas that were drawn; they are the organisers', and tell nothing of anybody's answers."""
    drawn = desk.project.state.outlines.values()
    return {"areas": [{"number": one.generation, "what": one.what, "name": one.name} for one in drawn]}


@router.get("/api/areas/plane", response_class=Response, responses={200: RAW})
def plane(desk: AtDesk, asking: Asking, axis: Axis = 2, index: Small = 0) -> Response:
    """Return a byte for each element of a plane: 1 at boundaries of regions, 2 where nothing has a match."""
    grid = plane_grid(desk.project.fixed_grid, axis, index, _COLUMNS)
    return plane_response(plane_array(grid, axis, area_codes(desk.project, grid)), grid, axis)


def area_codes(project: Project, grid: Grid) -> NDArray[np.uint8]:
    """Return what areas say on a grid; of two neighbours with different labels the later one is the boundary."""
    points, codes = grid.points(), np.zeros(grid.shape, dtype=np.uint8)
    if project.missing is not None:
        codes[project.missing(points).reshape(grid.shape)] = MISSING
    if project.regions is not None:
        labels = project.regions(points).reshape(grid.shape)
        for axis in range(grid.d):
            later = [slice(None)] * grid.d
            later[axis] = slice(1, None)
            codes[tuple(later)][np.diff(labels, axis=axis) != 0] = BOUNDARY
    return codes


@router.post("/api/areas", response_model=AreaSavedAnswer, responses=WRITE_REFUSALS)
def draw(body: AreaRequest, desk: AtDesk, organising: Organising) -> dict[str, Any]:
    """Draw an area of a 2D image: one without a match, or a piece that moves on its own."""
    with desk.lock:
        event = desk.project.draw_area(body.what, body.corners, name=body.name, rater=organising.name)
        desk.changed()
    return {"saved": {"generation": event.generation, "time": event.time}}


@router.post("/api/areas/{n}/erase", response_model=AreaSavedAnswer, responses=WRITE_REFUSALS)
def erase(n: Annotated[int, Path(ge=0, le=2**53)], desk: AtDesk, organising: Organising) -> dict[str, Any]:
    """Take an area back."""
    with desk.lock:
        event = desk.project.erase_area(n, rater=organising.name)
        desk.changed()
    return {"saved": {"generation": event.generation, "time": event.time}}
