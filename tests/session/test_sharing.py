"""Raters who share the locations: each is placed by as many as the setting says, also across servers."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from session.tools import make, true_map
from warpgauge.errors import InvalidInputError
from warpgauge.project import Project
from warpgauge.session import Session

RATERS = ("ada", "ben", "cyd")


def place(session: Session, query: object) -> None:
    session.place(query, true_map(np.array(query.point)), radius=2.0, confirmed=True)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
@pytest.mark.parametrize("most", [1, 2])
def test_locations_are_shared_out(tmp_path: Path, store: str, most: int, request: pytest.FixtureRequest) -> None:
    """Raters on servers of their own, who all have a query before them, never make more answers than wanted."""
    database = request.getfixturevalue("postgres").url if store == "postgres" else None
    settings = {"answers_per_location": most, "budget": 6, "refit": "never"}
    with make(tmp_path / "project", settings, database=database) as project:
        for name in RATERS:
            project.add_rater(name)
    with ExitStack() as stack:
        projects = [stack.enter_context(Project.open(project.folder, check_images=False)) for _ in RATERS]
        sessions = [Session(opened, name) for opened, name in zip(projects, RATERS, strict=True)]
        held = [session.next_query() for session in sessions]
        for turn in range(6 * len(RATERS)):
            k = turn % len(RATERS)
            place(sessions[k], held[k])
            held[k] = sessions[k].next_query()
        state = projects[0].state
        placed = Counter(number for (_, number), cell in state.cells.items() if cell.placement is not None)
        assert sum(placed.values()) == 6 * len(RATERS)
        assert max(placed.values()) == most
        assert held == [None] * len(RATERS)


def test_what_a_rater_leaves_behind_is_asked_of_the_others(tmp_path: Path) -> None:
    """cyd never comes: the questions of her share go to ada and ben, each once, two rounds later or at the end."""
    settings = {"answers_per_location": 1, "refit": "never"}
    with make(
        tmp_path / "project", settings, candidates=np.array([[40.0 + 20 * k, 60.0 + 9 * k] for k in range(12)])
    ) as project:
        for name in RATERS:
            project.add_rater(name)
        sessions = [Session(project, name) for name in RATERS[:2]]
        order = []
        for turn in range(12):
            query = sessions[turn % 2].next_query()
            order.append(query.number)
            place(sessions[turn % 2], query)
        assert sorted(order) == list(range(12))
        assert order.index(2) >= 6
        assert [session.next_query() for session in sessions] == [None, None]


def test_a_location_needs_at_least_one_answer(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="answers_per_location of the settings is wrong"):
        make(tmp_path / "project", {"answers_per_location": 0})
