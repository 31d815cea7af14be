"""What warpgauge computed once, it computes again: the recorded figures of one made and two real projects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from golden.figures import CLOSED, DRAWN, ITEMS, REAL, differences, figures, make_project, recorded

Projects = Callable[[str], Path]


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Projects:
    """Make each project once, when the first item needs it."""
    made: dict[str, Path] = {}

    def project(kind: str) -> Path:
        if kind not in made:
            data = request.getfixturevalue("data_dir") if kind in REAL else None
            made[kind] = make_project(kind, tmp_path_factory.mktemp(kind), data)
        return made[kind]

    return project


@pytest.mark.parametrize("name", ITEMS)
def test_the_figures_are_those_recorded(name: str, projects: Projects, tmp_path: Path) -> None:
    """On every processor: what is computed to a millionth, what is drawn to four Monte Carlo errors."""
    found = figures(name, projects(ITEMS[name][0]), tmp_path)
    drawn = DRAWN - CLOSED if name.endswith("-prior") else DRAWN
    assert list(differences(recorded(name), found, drawn)) == []
