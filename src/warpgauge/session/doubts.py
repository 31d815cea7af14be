"""Doubts about transforms: what suggests that a file was misread or does not belong to the images.

They are found when a transform is added, and again at every verdict. Each has a code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.geometry import Floats, Grid
from warpgauge.io.misreadings import Fit, judge_reading
from warpgauge.io.transforms import Transform

# Codes: another reading fits better; worse than none; leads out of the image; within [-1, 1]; hardly moves anything.
MISREAD, WORSE, OUTSIDE, NORMALISED, STILL = "misread", "worse", "outside", "normalised", "still"
FEWEST = 3  # fewer annotations say too little about a transform
_MOST_OUTSIDE = 0.5
# A transform that moves no target by more than this, in pixels and on average, hardly moves anything.
_STILL = 0.1
# ... which is no doubt where the annotations move by less than so many times of it.
_EXPECTED = 2.0


@dataclass(frozen=True)
class Finding:
    """A doubt: its code, the figures behind it, and the name of a reading."""

    code: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    text: str = ""


def transform_findings(
    mapped: Floats, targets: Floats, annotations: Annotations, grids: tuple[Grid, Grid], check: Fit | None
) -> list[Finding]:
    """Return what speaks against a transform.

    It maps the (n, d) ``targets`` to ``mapped``. The annotations are those that are open, the grids those of the fixed
    and the moving image, and ``check`` is what `checked` returns.
    """
    finite = np.isfinite(mapped).all(axis=1)
    inside = np.zeros(len(mapped), dtype=bool)
    inside[finite] = grids[1].contains(mapped[finite])
    outside = float(np.mean(~inside)) if len(mapped) else 0.0
    findings = [Finding(OUTSIDE, {"share": outside})] if outside > _MOST_OUTSIDE else []
    findings += _small(mapped[finite] - targets[finite], annotations, grids[0])
    if check is None:
        return findings
    if check.kinds:
        numbers = {"other": check.better, "nothing": check.before}
        if np.isfinite(check.given):
            numbers["given"] = check.given
        findings.append(Finding(MISREAD, numbers, check.words))
    elif check.worse_than_nothing:
        findings.append(Finding(WORSE, {"given": check.given, "nothing": check.before}))
    return findings


def _small(shift: Floats, annotations: Annotations, grid: Grid) -> list[Finding]:
    """Doubt displacements that hardly move anything or lie within [-1, 1], unless the annotations are as small."""
    if not len(shift):
        return []
    apart = annotations.moving_points - annotations.fixed_points
    expected = float(np.median(np.linalg.norm(apart, axis=1))) if len(apart) >= FEWEST else np.inf
    rms = float(np.sqrt(np.mean(np.square(shift).sum(axis=1))))
    steps = shift @ np.linalg.inv(grid.direction * grid.spacing).T
    largest = min(float(np.abs(shift).max()), float(np.abs(steps).max()))
    if expected <= _EXPECTED * rms or expected <= grid.pixel:
        return []
    numbers = {"rms": rms, "expected": expected} if np.isfinite(expected) else {"rms": rms}
    if rms < _STILL * grid.pixel:
        return [Finding(STILL, numbers)]
    return [Finding(NORMALISED, {"largest": largest, **numbers})] if largest <= 1 else []


def checked(transform: Transform, annotations: Annotations, grids: tuple[Grid, Grid]) -> Fit | None:
    """Compare a transform with annotations as given and under the other readings; None with few annotations."""
    if len(annotations) < FEWEST:
        return None
    return judge_reading(transform, annotations.fixed_points, annotations.moving_points, *grids)
