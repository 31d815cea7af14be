"""Doubts about transforms: what suggests that a file was misread or does not belong to the images.

They are found when a transform is added, when landmarks arrive, and again at every verdict. Each has a code; the log
keeps it (event ``note``) with what it is about, and it is repeated until an organiser accepts it (event ``accept``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.errors import InvalidInputError, Message
from warpgauge.geometry import Floats, Grid
from warpgauge.io.misreadings import Fit, judge_reading
from warpgauge.io.transforms import Transform
from warpgauge.project import Entry, Project
from warpgauge.project.events import Accept, Note
from warpgauge.project.values import ORGANISER
from warpgauge.session.queries import PROGRAM

# Codes: another reading fits better; worse than none; leads out of the image; within [-1, 1]; hardly moves anything.
MISREAD, WORSE, OUTSIDE, NORMALISED, STILL = "misread", "worse", "outside", "normalised", "still"
# Of an import that was forced.
FORCED = "forced"
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

    Parameters
    ----------
    mapped, targets : (n, d) array
        The targets, and the values of the transform there.
    annotations : Annotations
        Open ones.
    grids : (Grid, Grid)
        Of the fixed and the moving image.
    check : Fit or None
        What `checked` returns.
    """
    known = np.isfinite(mapped).all(axis=1)
    inside = np.zeros(len(mapped), dtype=bool)
    inside[known] = grids[1].contains(mapped[known])
    outside, found = float(np.mean(~inside)) if len(mapped) else 0.0, []
    if outside > _MOST_OUTSIDE:
        found.append(Finding(OUTSIDE, {"share": outside}))
    found += _small(mapped[known] - targets[known], annotations, grids[0])
    return found if check is None else found + _misread(check)


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
    if rms < _STILL * grid.pixel:
        return [Finding(STILL, {"rms": rms, **_finite(expected)})]
    return [Finding(NORMALISED, {"largest": largest, "rms": rms, **_finite(expected)})] if largest <= 1 else []


def _finite(expected: float) -> dict[str, float]:
    return {"expected": expected} if np.isfinite(expected) else {}


def _misread(check: Fit) -> list[Finding]:
    if check.kinds:
        numbers = {"other": check.better, "nothing": check.before}
        if np.isfinite(check.given):
            numbers["given"] = check.given
        return [Finding(MISREAD, numbers, check.words)]
    return [Finding(WORSE, {"given": check.given, "nothing": check.before})] if check.worse_than_nothing else []


def checked(transform: Transform, annotations: Annotations, grids: tuple[Grid, Grid]) -> Fit | None:
    """Compare a transform with annotations as given and under the other readings; None with few annotations."""
    if len(annotations) < FEWEST:
        return None
    return judge_reading(transform, annotations.fixed_points, annotations.moving_points, *grids)


def note_transform(project: Project, name: str, findings: Iterable[Finding]) -> list[Entry]:
    """Store doubts about a transform that are new, or whose figures have changed."""
    subject, state = project.state.transforms[name].subject, project.state
    new = [
        Note(rater=PROGRAM, subject=subject, code=one.code, numbers=dict(one.numbers), text=one.text)
        for one in findings
        if (subject, one.code) not in state.notes
    ]
    return list(project.append(*new)) if new else []


def note_import(project: Project, batch: str, problems: Iterable[str]) -> list[Entry]:
    """Store why an import was doubted that was forced."""
    text = str(Message("; ".join(problems)))
    return list(project.append(Note(rater=PROGRAM, subject=batch, code=FORCED, text=text))) if text else []


def forced_imports(project: Project) -> list[Finding]:
    """Return the doubts about imports that are in force and that nobody has accepted."""
    state = project.state
    batches = [batch for batch, count in state.batches.items() if count]
    return [Finding(note.code, {}, note.text) for batch in batches for note in state.doubts(batch)]


def accept_all(project: Project, subject: str, rater: str = ORGANISER) -> list[Entry]:
    """Accept every doubt about a transform or an import. Only for organisers."""
    events = [Accept(rater=rater, subject=subject, code=note.code) for note in project.state.doubts(subject)]
    return list(project.append(*events)) if events else []


def accept(project: Project, wanted: str, rater: str = ORGANISER) -> list[Entry]:
    """Accept a doubt, named as it is shown: ``NAME:CODE`` of a transform, or ``import``. Only for organisers."""
    state = project.state
    name, _, code = wanted.rpartition(":")
    if wanted == "import":
        keys = [(batch, note.code) for batch in state.batches for note in state.doubts(batch)]
    elif name in state.transforms:
        keys = [(state.transforms[name].subject, code)]
    else:
        keys = []
    if not keys or (name and code not in (MISREAD, WORSE, OUTSIDE, NORMALISED, STILL)):
        raise InvalidInputError(
            f"There is no doubt {wanted!r} to accept; name it as the verdict does, TRANSFORM:CODE, or import."
        )
    return list(project.append(*(Accept(rater=rater, subject=subject, code=one) for subject, one in keys)))
