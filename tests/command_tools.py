"""The command line within a test's own process, and answers as a script gives them."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from warpgauge.cli.app import run


def call(*arguments: object, code: int = 0) -> str:
    """Run a command as its entry point does and check its exit code; return what it printed, or its error."""
    out, err = io.StringIO(), io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("default")  # notes are printed, as for a user
        result = run([str(one) for one in arguments])
    assert result == code, err.getvalue()
    return out.getvalue() if code == 0 else err.getvalue()


def ask(*arguments: object) -> Any:
    """Run a command with ``--json`` and return what it says."""
    return json.loads(call(*arguments, "--json"))


def notes(*arguments: object) -> str:
    """Run a command that succeeds and return what it says on standard error."""
    err = io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(err):
        warnings.simplefilter("default")
        assert run([str(one) for one in arguments]) == 0, err.getvalue()
    return err.getvalue()


def place(
    project: Path,
    query: int,
    point: Sequence[float],
    *,
    rater: str = "organiser",
    radius: float | None = None,
    ellipse: tuple[float, float] | None = None,
    angle: float = 0.0,
) -> None:
    """Answer a query of a project; a 2D ellipse is turned by an angle in degrees from x towards y."""
    turn = np.deg2rad(angle)
    axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    drawn = None if ellipse is None else (ellipse, axes)
    with wg.Project.open(project) as opened:
        wg.Session(opened, rater).place(query, point, radius=radius, ellipse=drawn, confirmed=True)


def volunteer(
    project: Path, fixed: Sequence[float], moving: Sequence[float], *, rater: str, radius: float | None = None
) -> None:
    """Add a landmark of a rater's own choice to a project."""
    with wg.Project.open(project) as opened:
        wg.Session(opened, rater).volunteer(fixed, moving, radius=radius, confirmed=True)


def skip(project: Path, query: int, reason: str = "not_visible", *, rater: str = "organiser") -> None:
    """Skip a query of a project."""
    with wg.Project.open(project) as opened:
        wg.Session(opened, rater).skip(query, reason)
