"""Projects, real servers and a real browser for the tests of the annotator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from web.page_tools import Shared, launched
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for the tests of one file."""
    with launched() as found:
        yield found


@pytest.fixture
def server(shared: Shared) -> Served:
    """The server that the tests of a file share; the file says which project it has."""
    return shared.server


@pytest.fixture
def me(shared: Shared) -> str:
    """A rater of that server who has not done anything."""
    return shared.newcomer()
