"""Projects and real servers for the tests of the annotator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from web.server_tools import Served, make_flat, make_solid, served


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    """Folder of a 2D project."""
    return make_flat(tmp_path / "flat")


@pytest.fixture(scope="session")
def flat_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of a 2D project with two raters, for tests that only look."""
    with served(make_flat(tmp_path_factory.mktemp("flat") / "flat"), "ada,ben") as server:
        yield server


@pytest.fixture(scope="session")
def solid_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of a 3D project, for tests that only look."""
    with served(make_solid(tmp_path_factory.mktemp("solid") / "solid"), "ada,ben") as server:
        yield server
