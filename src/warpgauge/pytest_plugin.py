"""A pytest fixture that gates a registration by the audit of a project; switch it on in ``conftest.py``.

``pytest_plugins = ["warpgauge.pytest_plugin"]`` gives tests the fixture ``registration_gate``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def registration_gate() -> Callable[..., Any]:
    """Return a function that fails the test where a registration is worse, and skips it where that is undecided.

    ``registration_gate(project, new, against, margin="0.1mm", level=0.95)``; transforms are files, anything that
    `warpgauge.read_transform` takes, or names of transforms of the project. Returns the `GateResult`.
    """
    from warpgauge.evaluation import gate_project
    from warpgauge.io.transforms import read_transform
    from warpgauge.project import Project

    def gated(project: str | Path, new: Any, against: Any, *, margin: str | float = 0.0, level: float = 0.95) -> Any:
        with Project.open(project) as opened:

            def read(one: Any) -> Any:
                if isinstance(one, str) and one in opened.state.transforms:
                    return opened.transform(one)
                return read_transform(one, reference=opened.fixed_grid, moving=opened.moving_grid)

            found = gate_project(opened, read(new), read(against), margin=margin, level=level)
        if found.code == 1:
            pytest.fail(found.sentence, pytrace=False)
        if found.code == 2:
            pytest.skip(found.sentence)
        return found

    return gated
