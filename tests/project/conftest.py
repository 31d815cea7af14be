"""Small projects for the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from project.tools import grid_points, write_images
from warpgauge.project import Project


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[..., Project]:
    """Make a project with lattice candidates; further arguments go to Project.create."""

    def make(name: str = "project", **options: object) -> Project:
        fixed, moving = write_images(tmp_path / "pictures")
        return Project.create(tmp_path / name, fixed=fixed, moving=moving, **{"candidates": grid_points(), **options})

    return make
