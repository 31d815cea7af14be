"""`check_submission`: what is wrong with the files of a submission, before anything is scored.

It needs the study's description, and of each pair the targets or the grid of the fixed image: landmarks and labels may
be absent, so that a participant can run it without the truth. Whatever arrives, the answer is a list of problems.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.errors import FileFormatError, WarpgaugeError
from warpgauge.evaluation.regularity import default_step, jacobian_determinants
from warpgauge.geometry import Grid
from warpgauge.io.files import PathLike
from warpgauge.io.transforms import Transform
from warpgauge.project import Project
from warpgauge.study.description import MethodSpec, PairSpec, Study, read_study
from warpgauge.study.method_files import read_method, transform_files
from warpgauge.study.pair_files import pair_targets, read_grid
from warpgauge.study.submission import located, submission_method

# A registration that moves a typical target by more than this share of the image has another unit or frame.
FAR = 0.5
# One that moves none by more than this share of a pixel does nothing.
STILL = 1e-3
# Share of the targets that may land outside the moving image before that is worth a word.
OUTSIDE = 0.1
SERIOUS = ("missing", "unreadable", "undefined", "far", "extra")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a submission, or worth a look.

    Attributes
    ----------
    code : {"missing", "unreadable", "undefined", "partly", "far", "outside", "still", "folded", "extra"}
    pair : str or None
        None for a file that belongs to no pair.
    about : str
        The file, or what its reader says.
    numbers : dict
        ``share`` of the targets, or the typical ``distance`` and the ``diagonal`` of the image.
    """

    code: str
    pair: str | None
    about: str = ""
    numbers: dict[str, float] = field(default_factory=dict)

    @property
    def serious(self) -> bool:
        """Whether the pair would count as missing, or its result as one that means something else."""
        return self.code in SERIOUS

    @property
    def sentence(self) -> str:
        """What it is and what to do, in a sentence."""
        of = "" if self.pair is None else f"Pair {self.pair!r}: "
        share = f"{100 * self.numbers.get('share', 0.0):.3g} %"
        return {
            "missing": f"{of}{self.about}; a pair without a result counts as the worst that is known for it.",
            "unreadable": f"{of}{self.about}",
            "undefined": f"{of}it is undefined at {share} of the targets, so it counts as missing; cover the image.",
            "partly": f"{of}it is undefined at {share} of the targets, which count as not registered; cover the image.",
            "far": (
                f"{of}it moves a typical target by {self.numbers.get('distance', 0.0):.4g} where the image has a "
                f"diagonal of {self.numbers.get('diagonal', 0.0):.4g}; check its unit, frame and direction."
            ),
            "outside": f"{of}it maps {share} of the targets outside the moving image; check its unit and frame.",
            "still": f"{of}it hardly moves anything; check its unit, and that it is not normalised to -1..1.",
            "folded": f"{of}it folds at {share} of the targets (Jacobian determinant of at most 0).",
            "extra": f"The file {self.about!r} belongs to no pair of the study; check its name.",
        }[self.code]


@dataclass(frozen=True)
class SubmissionCheck:
    """Result of `check_submission`: the pairs of the study, and every problem that was found."""

    pairs: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def fit(self) -> bool:
        """Whether every pair has a result that can be scored as it is meant."""
        return not any(one.serious for one in self.problems)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        found = [
            {"code": one.code, "pair": one.pair, "serious": one.serious, "sentence": one.sentence, **one.numbers}
            for one in self.problems
        ]
        return {"fit": self.fit, "pairs": list(self.pairs), "problems": found}


def check_submission(study: Study | PathLike, folder: PathLike) -> SubmissionCheck:
    """Check the files of one submission against a study.

    Parameters
    ----------
    study : Study or path
        Its methods say how a submission is laid out: all have the same pattern with ``{method}``.
    folder : path
        What a participant would upload: a folder, with ``predictions.json`` where an algorithm made it.
    """
    described = study if isinstance(study, Study) else read_study(study)
    layout = replace(described, methods=(submission_method(described),))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            given, root = located(layout, Path(folder).resolve(), Path(scratch))
        except FileFormatError as error:
            return _checked(described, [Problem("unreadable", None, str(error))])
        problems = [one for pair in described.pairs for one in _pair_problems(given, pair)]
        return _checked(described, [*problems, *_extra(given, root)])


def _checked(study: Study, problems: list[Problem]) -> SubmissionCheck:
    return SubmissionCheck(tuple(pair.name for pair in study.pairs), tuple(problems))


def _pair_problems(given: Study, pair: PairSpec) -> Iterator[Problem]:
    method = given.methods[0]
    try:
        files = transform_files(given, pair, method)
        if isinstance(files, str):
            yield Problem("missing", pair.name, files)
            return
        targets, fixed, moving = _scene(given, pair)
        transform = read_method(files, pair, method, fixed, moving, targets.shape[1])
        if isinstance(transform, str):
            yield Problem("unreadable", pair.name, transform)
            return
        yield from _transform_problems(given, pair, transform, targets, fixed, moving)
    except WarpgaugeError as error:
        yield Problem("unreadable", pair.name, str(error))
    except Exception as error:  # whatever arrives, a participant gets a sentence
        yield Problem("unreadable", pair.name, f"it cannot be used ({type(error).__name__}); check how it was written.")


def _scene(study: Study, pair: PairSpec) -> tuple[Floats, Grid | None, Grid | None]:
    """Return the targets of a pair and the grids of its images, without its landmarks."""
    if pair.project is not None:
        with Project.open(pair.project, check_images=False) as project:
            return project.targets, project.fixed_grid, project.moving_grid
    files = (pair.fixed, pair.moving)
    fixed, moving = (None if file is None else read_grid(file) for file in files)
    return pair_targets(pair, study.settings, fixed), fixed, moving


def _transform_problems(
    given: Study, pair: PairSpec, transform: Transform, targets: Floats, fixed: Grid | None, moving: Grid | None
) -> Iterator[Problem]:
    with np.errstate(all="ignore"):
        mapped = transform.map(targets)
        known = np.isfinite(mapped).all(axis=1)
        undefined = float(np.mean(~known))
        if undefined:
            code = "undefined" if undefined > given.settings.most_outside else "partly"
            yield Problem(code, pair.name, numbers={"share": undefined})
        if not known.any():
            return
        moved = np.linalg.norm(mapped[known] - targets[known], axis=1)
        diagonal = float(np.linalg.norm(np.ptp(targets, axis=0))) if fixed is None else fixed.diagonal
        pixel = diagonal / 1000 if fixed is None else fixed.pixel
        typical = float(np.median(moved))
    if not typical <= FAR * diagonal:
        yield Problem("far", pair.name, numbers={"distance": typical, "diagonal": diagonal})
        return
    if moved.max() < STILL * pixel:
        yield Problem("still", pair.name)
    if moving is not None:
        index = moving.world_to_index(mapped[known])
        share = float(np.mean(((index < -0.5) | (index > np.asarray(moving.size) - 0.5)).any(axis=1)))
        if share > OUTSIDE:
            yield Problem("outside", pair.name, numbers={"share": share})
    if transform.anywhere:
        found = jacobian_determinants(transform, targets, default_step(targets if fixed is None else fixed))
        folded = float(np.mean(found[np.isfinite(found)] <= 0)) if np.isfinite(found).any() else 0.0
        if folded:
            yield Problem("folded", pair.name, numbers={"share": folded})


def _extra(given: Study, folder: Path) -> Iterator[Problem]:
    """Find files with the ending of results that fit no pair, as a wrong name leaves them."""
    method = given.methods[0]
    if not all("{pair}" in pattern for pattern in method.patterns):
        return
    used = {Path(one).resolve() for pair in given.pairs for one in _files_of(given, pair, method)}
    endings = {_ending(pattern) for pattern in method.patterns}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name.endswith(tuple(endings)) and file.resolve() not in used:
            yield Problem("extra", None, file.relative_to(folder).as_posix())


def _files_of(given: Study, pair: PairSpec, method: MethodSpec) -> list[Path]:
    try:
        files = transform_files(given, pair, method)
    except WarpgaugeError:
        return []
    return [] if isinstance(files, str) else files


def _ending(pattern: str) -> str:
    """Return what a pattern has behind its last field or wildcard."""
    return pattern[max(pattern.rfind("}"), pattern.rfind("*"), pattern.rfind("/")) + 1 :]
