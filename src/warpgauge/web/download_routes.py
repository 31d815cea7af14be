"""Files to take away: one's own marks, all marks, fused marks and the report, as the terminal's commands write them.

What a file may hold is decided where it is decided for ``export`` and ``report``: sealed answers are in neither.
"""

from __future__ import annotations

import io
import re
import tempfile
import zipfile
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks import Landmarks
from warpgauge.io.landmarks.registry import named_format
from warpgauge.io.landmarks.writer import write_landmarks
from warpgauge.project import NotAllowedError
from warpgauge.web.app_state import AtDesk, Desk
from warpgauge.web.auth import Asking, Organising

MarkFormat = Annotated[Literal["csv", "bigwarp", "slicer-json"], Query(alias="format")]
_ENDINGS = {"csv": ".csv", "bigwarp": "-bigwarp.csv", "slicer-json": ".mrk.json"}
_FILE: dict[str, object] = {
    "description": "A file; the header Content-Disposition has its name.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
router = APIRouter()


@router.get("/api/download/marks/{whose}", response_class=Response, responses={200: _FILE})
def marks(whose: Literal["mine", "all", "fused"], desk: AtDesk, asking: Asking, kind: MarkFormat = "csv") -> Response:
    """Return marks as a landmark file: one's own; for organisers also those of all raters, or one per location."""
    if whose != "mine" and not asking.organises:
        raise NotAllowedError("The marks of all raters are for the organiser; yours are at /api/download/marks/mine.")
    state = desk.project.state
    sealing = bool(state.sealed_locations()) or (desk.project.settings.audit > 0 and not state.unsealed)
    if whose == "mine" and sealing:
        # A file without them would tell which of the questions were drawn, and when the first one was.
        raise NotAllowedError(
            "Some answers of this project are sealed, so marks can be taken from here once the organiser unseals them."
        )
    if whose == "mine":
        found = desk.session.own_landmarks(asking.name)
    else:
        found = desk.session.landmarks(fused=whose == "fused")
    label = asking.name if whose == "mine" else whose
    return _landmark_file(desk, found, kind, f"{desk.project.folder.resolve().name}-{label}")


@router.get("/api/download/report", response_class=Response, responses={200: _FILE})
def report(desk: AtDesk, organising: Organising) -> Response:
    """Return the HTML report about the added transforms, computed now."""
    from warpgauge.report import write_project_report  # slow to import, and needs an extra

    if not desk.project.transform_names():
        raise InvalidInputError("The project has no registration results yet, so there is nothing to report about.")
    with tempfile.TemporaryDirectory() as folder:
        written = write_project_report(desk.project, Path(folder) / "report.html")
        return _sent(written.read_bytes(), f"{desk.project.folder.resolve().name}-report.html")


def _landmark_file(desk: Desk, found: Landmarks, kind: str, name: str) -> Response:
    """Write landmarks as ``warpgauge export --lossy`` does; a format with one file per image comes as a ZIP archive."""
    fixed, moving = desk.project.fixed_grid, desk.project.moving_grid
    ending, pairs = _ENDINGS[kind], named_format(kind).pairs
    with tempfile.TemporaryDirectory() as folder:
        parts = [""] if pairs else ["-fixed", "-moving"]
        files = [Path(folder) / f"{_plain(name)}{part}{ending}" for part in parts]
        write_landmarks(
            found, files[0], None if pairs else files[1], format=kind, fixed_grid=fixed, moving_grid=moving, lossy=True
        )
        if pairs:
            return _sent(files[0].read_bytes(), files[0].name)
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in files:
                packed.write(file, file.name)
        return _sent(archive.getvalue(), f"{name}.zip")


def _plain(name: str) -> str:
    """Return a name that a header and every file system can hold."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "warpgauge"


def _sent(content: bytes, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{_plain(name)}"', "Cache-Control": "no-store"}
    return Response(content, media_type="application/octet-stream", headers=headers)
