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
from warpgauge.session import Query, Session


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
@pytest.mark.parametrize(("most", "raters"), [(1, 3), (2, 3)])
def test_locations_are_shared_out(
    tmp_path: Path, store: str, most: int, raters: int, request: pytest.FixtureRequest
) -> None:
    """Raters on servers of their own, who all have a query before them, never make more answers than wanted."""
    database = request.getfixturevalue("postgres").url if store == "postgres" else None
    settings = {"answers_per_location": most, "budget": 6, "refit": "never", "blind": False}
    folder = make(tmp_path / "project", settings, database=database).folder
    with ExitStack() as stack:
        projects = [stack.enter_context(Project.open(folder, check_images=False)) for _ in range(raters)]
        sessions = [Session(project, f"rater {k}") for k, project in enumerate(projects)]
        held: list[Query | None] = [session.next_query() for session in sessions]
        seen = Counter(query.number for query in held if query is not None)
        assert max(seen.values()) <= most
        assert len(seen) == -(-raters // most)
        for turn in range(6 * raters):
            k = turn % raters
            query = held[k]
            assert query is not None
            sessions[k].place(query, true_map(_at(query)), radius=2.0, confirmed=True)
            held[k] = sessions[k].next_query()
        state = projects[0].state
        placed = Counter(number for (_, number), cell in state.cells.items() if cell.placement is not None)
        assert sum(placed.values()) == 6 * raters
        assert max(placed.values()) == most
        assert held == [None] * raters


def _at(query: Query) -> np.ndarray:
    return np.array(query.point)


def test_wrong_numbers_are_refused(tmp_path: Path) -> None:
    """A location needs at least one answer."""
    with pytest.raises(InvalidInputError, match="answers_per_location must be a whole number from 1"):
        make(tmp_path / "project", {"answers_per_location": 0})
