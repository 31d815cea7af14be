"""Small projects for the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from project.tools import grid_points, write_images
from warpgauge.project import Project


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    """Where the log is kept: a file, or PostgreSQL with `project.tools.EITHER_STORE`."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture
def make_project(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Project]]:
    """Make a project with lattice candidates; further arguments go to Project.create."""
    database = request.getfixturevalue("postgres").url if store == "postgres" else None

    def make(name: str = "project", **options: object) -> Project:
        fixed, moving = write_images(tmp_path / "pictures")
        given = {"candidates": grid_points(), "database": database, **options}
        made.append(Project.create(tmp_path / name, fixed=fixed, moving=moving, **given))
        return made[-1]

    made: list[Project] = []
    yield make
    for project in made:
        project.close()
