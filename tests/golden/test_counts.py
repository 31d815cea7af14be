"""How often the costly steps of one command or one click are done: each value is made once and passed on."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from command_tools import call
from golden.projects import bent, make_small
from warpgauge.io.transforms import Transform
from web.server_tools import answer, served

# Calls of `map` of one transform: once at all points, once at the neighbours for the Jacobians, and once over the grids
# of the report. Other readings of its file are tried at the annotations alone, which are few.
FEW = 18
MAPS_OF_EVALUATE = 2
MAPS_WITH_REPORT = 3


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More targets than draws are made at, so that a part of them is chosen as in large projects."""
    return make_small(tmp_path_factory.mktemp("counted"), targets=700)


@pytest.mark.parametrize(
    ("command", "most"), [(["evaluate"], MAPS_OF_EVALUATE), (["report", "--tolerance", "2"], MAPS_WITH_REPORT)]
)
def test_a_transform_is_asked_for_points_a_few_times_only(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], most: int
) -> None:
    """Every call counts, of whatever part of the program; these arrays are so short that none is asked in blocks."""
    calls: Counter[str] = Counter()
    mapped = Transform.map

    def counted(self: Transform, points_world: ArrayLike) -> Any:
        calls[self.description.source] += len(np.atleast_2d(points_world)) > FEW
        return mapped(self, points_world)

    monkeypatch.setattr(Transform, "map", counted)
    call(command[0], project, *command[1:])
    files = {source: count for source, count in calls.items() if source}  # the baseline is no file
    assert len(files) == 4
    assert max(files.values()) <= most, files


@contextmanager
def counted_calls(*names: str) -> Iterator[Counter[str]]:
    """Count the calls of functions by name in threads that are started meanwhile."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name in names:
            calls[frame.f_code.co_name] += 1

    before = threading.getprofile()
    threading.setprofile(count)
    try:
        yield calls
    finally:
        threading.setprofile(before)  # type: ignore[arg-type]  # typeshed does not know that None ends it


def test_a_click_is_checked_once_and_doubted_once(project: Path) -> None:
    """From the request of the page to the log."""
    with counted_calls("check_placement", "doubt_about") as calls, served(project, rater="ann") as server:
        client = server.client()
        query = client.get("/api/query").json()
        calls.clear()
        assert answer(client, query, bent(np.array([query["location"]]))[0].tolist()).status_code == 200
        found = dict(calls)
    assert found == {"check_placement": 1, "doubt_about": 1}
    assert sys.getprofile() is None
