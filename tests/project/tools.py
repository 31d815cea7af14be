"""Small projects and the events that the tests write."""

from __future__ import annotations

import json
import shutil
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from PIL import Image

from warpgauge.project import Event, Project
from warpgauge.project.document import write_document
from warpgauge.project.events import read_event
from warpgauge.project.permission import permit_new
from warpgauge.project.postgres import store_rows

SIZE = (64, 48)
PLACED = {"moving": [11.0, 12.0], "covariance": [[1.0, 0.2], [0.2, 2.0]], "alpha": 0.01}
# Tests of what every store of the log has to do run on each of them.
EITHER_STORE = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)


def run_statement(project: Project, statement: str) -> None:
    """Execute SQL past warpgauge; the table is called EVENTS in it, the project's own rows are chosen by MINE."""
    address = project.document.database
    if address is None:
        path = project.folder / "annotations.sqlite"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(statement.replace("EVENTS", "events").replace("MINE", "TRUE"))
        return
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(statement.replace("EVENTS", "warpgauge.events").replace("MINE", f"project = '{project.id}'"))


def clone(folder: Path, target: Path) -> Path:
    """Copy a project to another folder, with a log of its own also where that is in a database."""
    shutil.copytree(folder, target)
    with Project.open(folder, check_images=False) as project:
        if project.document.database is not None:
            changed = project.document.model_copy(update={"id": str(uuid.uuid4())})
            store_rows(project.document.database, changed.id, project.log.read())
            write_document(target, changed)
            permit_new(target, changed)
    return target


def write_images(folder: Path) -> tuple[Path, Path]:
    """Two small grey images that differ."""
    rng = np.random.default_rng(3)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("fixed", "moving"):
        Image.fromarray(rng.integers(0, 255, SIZE[::-1], dtype=np.uint8)).save(folder / f"{name}.png")
    return folder / "fixed.png", folder / "moving.png"


def grid_points(count_x: int = 8, count_y: int = 6) -> np.ndarray:
    """Candidates on a lattice."""
    x, y = np.meshgrid(np.linspace(4, 60, count_x), np.linspace(4, 44, count_y))
    return np.stack([x.ravel(), y.ravel()], axis=1)


def draft(
    kind: str,
    rater: str,
    query: int | None = None,
    payload: dict[str, Any] | None = None,
    duration: float | None = None,
    base_generation: int | None = None,
) -> Event:
    """An event of a 2D project, read from what the log would hold."""
    row = (0, "2026-05-14T09:30:00Z", rater, kind, query, duration, base_generation, json.dumps(payload or {}))
    return read_event(row).model_copy(update={"time": ""})


def query(number: int, point: tuple[float, float] = (10.0, 10.0), rater: str = "ada", **more: object) -> Event:
    return draft("query", rater, number, {"point": list(point), "origin": "given", **more})


def place(number: int, point: tuple[float, float] = (11.0, 12.0), rater: str = "ada", **more: Any) -> Event:
    return draft("place", rater, number, {"placement": {**PLACED, "moving": list(point)}}, **more)


def edit(number: int, point: tuple[float, float], rater: str = "ada", **more: Any) -> Event:
    return draft("place", rater, number, {"placement": {**PLACED, "moving": list(point)}}, **more)


def skip(number: int, reason: str = "ambiguous", rater: str = "ada", text: str = "", **more: Any) -> Event:
    return draft("skip", rater, number, {"reason": reason, "text": text}, **more)


def step(project: Project, kind: str, rater: str = "ada") -> Event:
    """Undo or redo what is next."""
    steps = (project.state.done if kind == "undo" else project.state.undone)[rater]
    return draft(kind, rater, payload={"target": steps[-1].generation})
