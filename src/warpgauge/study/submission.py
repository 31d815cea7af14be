"""One submission: what is wrong with its files before anything is scored, and its metrics for a challenge site.

`check_submission` needs the study's description, and of each pair the targets or the grid of the fixed image: landmarks
may be absent, so that a participant can run it without the truth. Whatever arrives, the answer is a list of problems.
``python -m warpgauge.study.submission STUDY FOLDER OUT`` writes ``OUT/metrics.json``.
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge._version import __version__
from warpgauge.core.arrays import Floats
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.evaluation.regularity import default_step, jacobian_determinants
from warpgauge.geometry import Grid
from warpgauge.io.files import PathLike, confined, one_line, plain, replace_file
from warpgauge.io.inside import Inside
from warpgauge.io.transforms import Transform
from warpgauge.project import Project
from warpgauge.study.description import Layout, Method, Pair, Study, below, read_study
from warpgauge.study.pairs import MOST_OUTSIDE, method_files, pair_grids, pair_targets, read_method
from warpgauge.study.runner import run_study

NAME = "submission"
# A registration that moves a typical target by more than this share of the image has another unit or frame.
FAR = 0.5
# One that moves none by more than this share of a pixel does nothing.
STILL = 1e-3
# Share of the targets that may land outside the moving image before that is worth a word.
OUTSIDE = 0.1
SERIOUS = ("missing", "unreadable", "undefined", "far", "extra")


def submission_of(study: Study | PathLike, folder: PathLike) -> Study:
    """Return a study with the submission in a folder as its only method that is no reference."""
    described = study if isinstance(study, Study) else read_study(study)
    place = Path(folder).resolve()
    if not place.is_dir():
        raise InvalidInputError(f"There is no folder {str(folder)!r} of a submission.")
    for entry in place.rglob("*"):  # a link could lead to the truth
        Inside(place, entry.relative_to(place).as_posix(), "file").path.exists()
    references = [method for method in described.methods if method.reference]
    alone = described.model_copy(update={"submissions": None})
    return alone.with_methods([*references, below(_layout(described), place, NAME)])


def _layout(study: Study) -> Layout:
    """Return how a submission is laid out below its own folder."""
    if study.submissions is not None:
        return study.submissions
    layouts = {}
    for method in study.methods:
        if not method.reference and any("{method}" in pattern for pattern in method.patterns):
            patterns = tuple(_below(pattern) for pattern in method.patterns)
            layouts[patterns, json.dumps(method.options, sort_keys=True)] = method
    if len(layouts) != 1:
        found = f"they have {len(layouts)}" if layouts else "none has such a pattern"
        raise InvalidInputError(
            "It must be known how a submission is laid out: give [submissions], or the methods of the study one common "
            f"pattern with {{method}}, as in 'submissions/{{method}}/{{pair}}.nii.gz', but {found}."
        )
    ((patterns, _), method) = next(iter(layouts.items()))
    if method.mapped_landmarks is not None:
        return Layout(mapped_landmarks=patterns[0], options=method.options)
    return Layout(transform=patterns, options=method.options)


def _below(pattern: str) -> str:
    """Return the part of a pattern below a method's folder; a file that only the method names becomes ``*.csv``."""
    parts = pattern.replace("\\", "/").split("/")
    own = next((at for at, part in enumerate(parts) if "{method}" in part), None)
    if own is None:
        raise InvalidInputError(f"The pattern {pattern!r} has no {{method}}, unlike others of the same method.")
    last = parts[own].replace("{method}", "*")
    return "/".join([last] if own == len(parts) - 1 else parts[own + 1 :]).replace("{method}", "*")


def evaluate_submission(study: Study | PathLike, folder: PathLike, out: PathLike) -> dict[str, Any]:
    """Score the submission in a folder and write ``metrics.json``: what its participant may know.

    Returns
    -------
    dict
        What was written: ``aggregates``, and ``case`` with an entry for each pair.
    """
    described = submission_of(study, folder)
    with tempfile.TemporaryDirectory() as scratch, confined(Path(scratch), described.folder, Path(folder)):
        result = run_study(described, scratch)
    if result.failed:  # the truth of a pair is broken: no figure may leave it out
        name, reason = next(iter(result.failed.items()))
        raise InvalidInputError(f"The pair {name!r} cannot be evaluated: {reason}")
    method = next(one for one in result.methods if one.name == NAME)
    if not method.cases:
        pair, reason = next((one.name, one.missing[NAME]) for one in result.outcomes)
        reason = reason.replace(f"{Path(folder).resolve()}/", "").rstrip(".")
        raise InvalidInputError(
            f"None of the {counted(len(result.outcomes), 'pair')} can be evaluated; of {pair!r}: {reason}."
        )
    cases = {}
    for row in result.case_rows():
        if row["method"] == NAME:
            shown = {name: row[name] for name in ("score", "low", "high", "landmark_mean", "missing")}
            cases[row["pair"]] = {**shown, **row["official"]}
    before = result.baseline
    aggregates: dict[str, Any] = {
        "mean_score": method.mean_score,
        "mean_score_low": method.score_interval.low,
        "mean_score_high": method.score_interval.high,
        "mean_score_before_registration": None if before is None else before["mean_score"],
        "cases": method.cases,
        "missing": method.missing,
        "too_good": len(result.flagged(NAME, "too_good")),
        **method.official,
    }
    metrics: dict[str, Any] = plain(
        {"study": described.name, "program": f"warpgauge {__version__}", "aggregates": aggregates, "case": cases}
    )
    Path(out).mkdir(parents=True, exist_ok=True)
    replace_file(Path(out) / "metrics.json", (json.dumps(metrics, indent=2, allow_nan=False) + "\n").encode())
    return metrics


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a submission, or worth a look.

    The code is one of those that `sentence` knows. ``pair`` is None for a file that belongs to none, ``about`` the file
    or what its reader says, and ``numbers`` holds the ``share`` of the targets, or the typical ``distance`` and the
    ``diagonal`` of the image.
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
            "extra": f"The file {self.about!r} belongs to no pair; check its name.",
        }[self.code]


@dataclass(frozen=True)
class SubmissionCheck:
    """What `check_submission` found: the pairs that it looked at, and the problems."""

    pairs: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def fit(self) -> bool:
        """Whether everything can be scored."""
        return not any(problem.serious for problem in self.problems)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        found = [
            {"code": one.code, "pair": one.pair, "serious": one.serious, "sentence": one.sentence, **one.numbers}
            for one in self.problems
        ]
        return {"fit": self.fit, "pairs": list(self.pairs), "problems": found}


def check_submission(study: Study | PathLike, folder: PathLike) -> SubmissionCheck:
    """Check the files of one submission, which lie in a folder, against a study.

    Its methods say how a submission is laid out: all have the same pattern with ``{method}``.
    """
    described = study if isinstance(study, Study) else read_study(study)
    names = tuple(pair.name for pair in described.pairs)
    try:
        given = submission_of(described, folder)
    except WarpgaugeError as error:
        return SubmissionCheck(names, (Problem("unreadable", None, str(error)),))
    method = given.methods[-1]
    problems = [problem for pair in given.pairs for problem in _pair_problems(given, pair, method)]
    return SubmissionCheck(names, (*problems, *_extra(given, method, Path(folder).resolve())))


def _pair_problems(given: Study, pair: Pair, method: Method) -> Iterator[Problem]:
    try:
        files = method_files(given, pair, method)
        if isinstance(files, str):
            yield Problem("missing", pair.name, files)
            return
        targets, fixed, moving = _scene(given, pair)
        transform = read_method(given, pair, method, (fixed, moving), targets.shape[1])
        if isinstance(transform, str):
            yield Problem("unreadable", pair.name, transform)
            return
        yield from _transform_problems(pair, transform, targets, fixed, moving)
    except WarpgaugeError as error:
        yield Problem("unreadable", pair.name, str(error))
    except Exception as error:  # whatever arrives, a participant gets a sentence
        yield Problem("unreadable", pair.name, f"it cannot be used ({type(error).__name__}); check how it was written.")


def _scene(study: Study, pair: Pair) -> tuple[Floats, Grid | None, Grid | None]:
    """Return the targets of a pair and the grids of its images, without its landmarks."""
    if pair.project is not None:
        with Project.open(pair.project, check_images=False) as project:
            return project.targets, project.fixed_grid, project.moving_grid
    fixed, moving = pair_grids(pair)
    return pair_targets(pair, study.settings, fixed), fixed, moving


def _transform_problems(
    pair: Pair, transform: Transform, targets: Floats, fixed: Grid | None, moving: Grid | None
) -> Iterator[Problem]:
    with np.errstate(all="ignore"):
        mapped = transform.map(targets)
        known = np.isfinite(mapped).all(axis=1)
        undefined = float(np.mean(~known))
        if undefined:
            code = "undefined" if undefined > MOST_OUTSIDE else "partly"
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


def _extra(given: Study, method: Method, folder: Path) -> Iterator[Problem]:
    """Find files with the ending of results that fit no pair, as a wrong name leaves them."""
    if not all("{pair}" in pattern for pattern in method.patterns):
        return
    used = set()
    for pair in given.pairs:
        files = method_files(given, pair, method)
        used |= set() if isinstance(files, str) else {file.resolve() for file in files}
    # What a pattern has behind its last field or wildcard.
    endings = {pattern[max(pattern.rfind(sign) for sign in "}*/") + 1 :] for pattern in method.patterns}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name.endswith(tuple(endings)) and file.resolve() not in used:
            yield Problem("extra", None, file.relative_to(folder).as_posix())


def main(arguments: list[str] | None = None) -> int:
    """Run as the entry point of an evaluation container: ``STUDY FOLDER OUT``."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        study, folder, out = (Path(word) for word in words)
        metrics = evaluate_submission(study, folder, out)
    except WarpgaugeError as error:
        # The last line of standard error is what participants see.
        print(f"The submission could not be evaluated: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # whatever a submission causes
        traceback.print_exc()
        reason = f"{type(error).__name__}: {one_line(error)}"
        print(f"The submission could not be evaluated ({reason}); tell the organisers.", file=sys.stderr)
        return 1
    print(json.dumps(metrics["aggregates"], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
