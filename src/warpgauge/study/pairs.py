"""The evaluation of one pair of a study."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.evaluation import (
    Comparison,
    Evaluation,
    Scene,
    challenge_metrics,
    evaluate_comparison,
    norm_name,
    project_comparison,
)
from warpgauge.evaluation.columns import draws_of
from warpgauge.evaluation.project_evaluation import BASELINE, project_centre, with_baseline
from warpgauge.geometry import Grid
from warpgauge.io.transforms import Transform
from warpgauge.project import Project
from warpgauge.study.challenge_figures import Figures as OfficialFigures
from warpgauge.study.challenge_figures import case_figures, learn2reg_field_figures
from warpgauge.study.challenge_tables import ANHIR, anhir_file, anhir_points
from warpgauge.study.description import MethodSpec, PairSpec, Study
from warpgauge.study.kept import keep_reference, kept_reference
from warpgauge.study.method_files import project_transform, read_method, transform_files
from warpgauge.study.outcome import Figures, Ground, PairOutcome, joined
from warpgauge.study.pair_files import load_pair
from warpgauge.study.pair_model import Learned, pair_posterior


@dataclass(frozen=True)
class Job:
    """One pair to be computed.

    Attributes
    ----------
    study : Study
    pair : PairSpec
    learned : Learned or None
        Weights learned on all pairs, where the study asks for that.
    kept : path or None
        Folder of what is kept of this pair beside the same references.
    wanted : frozenset of str or None
        Methods that are not kept there yet; None where nothing is.
    """

    study: Study
    pair: PairSpec
    learned: Learned | None = None
    kept: Path | None = None
    wanted: frozenset[str] | None = None

    @property
    def methods(self) -> list[MethodSpec]:
        """The methods that have to be read: the wanted ones, and whatever may be a reference."""
        loose = self.pair.project is not None
        return [
            one
            for one in self.study.methods
            if self.wanted is None or one.name in self.wanted or one.reference or (loose and not one.patterns)
        ]


@dataclass(frozen=True, eq=False)
class Gathered:
    """What a pair is judged by: its comparison, the points of each rater, the grids, and the model's centre."""

    compared: Comparison
    placements: Floats
    grids: tuple[Grid | None, Grid | None]
    centre: str

    def of(self, names: Collection[str], broken: Mapping[str, str]) -> Gathered:
        """Return the same with some of the transforms; ``broken`` are others, and why they are missing."""
        kept = {name: one for name, one in self.compared.transforms.items() if name in names}
        panel = tuple(name for name in self.compared.panel if name in kept)
        problems = {**self.compared.problems, **broken}
        return replace(
            self, compared=replace(self.compared, transforms=kept, panel=panel, problems=problems, _known={})
        )


@contextmanager
def gathered(job: Job, kept: dict[str, Floats] | None = None) -> Iterator[Gathered]:
    """Read the annotations and the transforms of a pair; a project stays open meanwhile.

    ``kept`` is what is known of the pair: its points, what its references say there, and its model. What is learned is
    added.
    """
    if job.pair.project is not None:
        with Project.open(job.pair.project, check_images=False) as project:
            yield _of_project(job, project)
        return
    study, pair = job.study, job.pair
    known = {} if kept is None else kept
    loaded = load_pair(pair, study.settings, known)
    grids, d = (loaded.fixed, loaded.moving), loaded.annotations.d
    asked = loaded.targets, np.concatenate([loaded.targets, loaded.annotations.fixed_points])

    def read(one: MethodSpec) -> Transform | str:
        if job.wanted is not None and one.name not in job.wanted:
            found = kept_reference(one.name, asked, known, lambda: _read(job, one, grids, d))
            if found is not None:
                return found
        return _read(job, one, grids, d)

    missing, present = _sorted({one.name: read(one) for one in job.methods})
    scene = Scene(loaded.fixed, None if loaded.fixed is None else loaded.fixed.units, loaded.region)
    posterior = pair_posterior(loaded, study.model, job.learned, known)
    panel = tuple(name for name in study.references if name in present)
    for name in panel:
        keep_reference(name, present[name], asked, known)
    compared = Comparison.of(
        with_baseline(present, d), loaded.targets, posterior, baseline=BASELINE, panel=panel, problems=missing,
        scene=scene,
    )  # fmt: skip
    yield Gathered(compared, loaded.placements, grids, study.settings.centre)


def _sorted(found: Mapping[str, Transform | str]) -> tuple[dict[str, str], dict[str, Transform]]:
    """Return the methods that are missing, and why, and the transforms of the others."""
    missing = {name: one for name, one in found.items() if isinstance(one, str)}
    return missing, {name: one for name, one in found.items() if not isinstance(one, str)}


def _read(job: Job, method: MethodSpec, grids: tuple[Grid | None, Grid | None], d: int) -> Transform | str:
    """Read a method's transform of the pair, or return why it is missing."""
    files = transform_files(job.study, job.pair, method)
    return files if isinstance(files, str) else read_method(files, job.pair, method, *grids, d)


def _of_project(job: Job, project: Project) -> Gathered:
    study, grids = job.study, (project.fixed_grid, project.moving_grid)
    missing, present = _sorted(
        {
            one.name: _read(job, one, grids, project.d) if one.patterns else project_transform(project, one)
            for one in job.methods
        }
    )
    # A method with files of its own is none of the project's references, whatever its name is.
    own = {one.name for one in job.methods if one.patterns}
    references = [name for name in project.reference_names() if name not in own]
    beside = {name: project.transform(name) for name in references if name not in present}
    panel = tuple(name for name in (*present, *beside) if name in (*references, *study.references))
    compared = replace(project_comparison(project, {**present, **beside}), panel=panel, problems=missing)
    placements = compared.annotations.moving_points[None]
    return Gathered(compared, placements, grids, project_centre(project, study.settings.centre))


def check_missing(job: Job, missing: Mapping[str, str]) -> None:
    """Stop where a method is missing and the study's rule is to stop."""
    if missing and job.study.settings.missing == "error":
        name, reason = next(iter(missing.items()))
        raise InvalidInputError(f"The method {name!r} is missing for the pair {job.pair.name!r}: {reason}.")


def compute_together(job: Job, given: Gathered) -> PairOutcome:
    """Return the outcome of a pair; a method that cannot be evaluated at all is missing there, and stops no other."""
    every, always = list(given.compared.transforms), {BASELINE, *given.compared.panel}
    try:
        return _outcome(job, given)
    except Exception:
        broken = broken_among(lambda names: _outcome(job, given.of({*names, *always}, {})), set(every) - always)
        if not broken:
            raise
        return _outcome(job, given.of([name for name in every if name not in broken], broken))


def broken_among(evaluated: Callable[[Collection[str]], Any], names: Collection[str]) -> dict[str, str]:
    """Return which of some methods cannot be evaluated by themselves, and why."""
    broken = {}
    for name in sorted(names):
        try:
            evaluated([name])
        except Exception as error:
            told = isinstance(error, WarpgaugeError)
            broken[name] = str(error) if told else f"it cannot be evaluated ({type(error).__name__})"
    return broken


def usable(job: Job, given: Gathered) -> tuple[Comparison, dict[str, str]]:
    """Return the comparison of the methods that are defined where it counts, and those that are missing, and why."""
    compared, missing, names = given.compared, dict(given.compared.problems), {one.name for one in job.methods}
    for name, outside in zip(compared.transforms, (~compared.defined).mean(axis=1), strict=True):
        if outside > job.study.settings.most_outside and name in names:
            missing[name] = f"it is undefined at {outside:.0%} of the targets"
    kept = compared.among(name for name in compared.transforms if name not in missing)
    return replace(kept, problems={}), missing


def _outcome(job: Job, given: Gathered) -> PairOutcome:
    """Evaluate all methods of a pair together."""
    settings = job.study.settings
    compared, missing = usable(job, given)
    check_missing(job, missing)
    options = {name: getattr(settings, name) for name in ("samples", "seed", "tolerance")}
    result = evaluate_comparison(compared, centre=given.centre, further=False, **options)
    about = result.to_dict()
    about["read_as"] = {name: one.description.to_dict() for name, one in compared.transforms.items()}
    about["panel"] = list(compared.panel)
    trusted = ("undetermined", "") if result.trust is None else (result.trust.verdict, result.trust.sentence)
    ground = ground_of(job, given, compared, result, about, trusted)
    names = [one.name for one in job.methods if one.name in compared.transforms or one.name in missing]
    return joined(job.pair.name, ground, figures_of(job, given, compared, result, names, missing, ground))


def ground_of(
    job: Job,
    given: Gathered,
    compared: Comparison,
    result: Evaluation,
    about: dict[str, Any],
    trusted: tuple[str, str],
) -> Ground:
    """Return what a pair says beside its methods, from an evaluation of those that say what absence costs.

    ``about`` is of the evaluation, ``trusted`` the verdict of its calibration and the sentence.
    """
    norm, annotations = norm_name(job.study.settings.p), compared.annotations
    drawn = dict(zip(result.scores, result.draws[draws_of(norm)].T, strict=True))
    found = {name: one.score[norm] for name, one in result.scores.items()}
    initial = np.linalg.norm(annotations.fixed_points - annotations.moving_points, axis=1)
    lengths = dict(zip(compared.transforms, compared.landmark_errors, strict=True))
    own = job.pair.diagonal
    return Ground(
        np.max([*_counted(compared, drawn).values()], axis=0),
        max(_counted(compared, found).values()),
        np.nanmax([initial, *_counted(compared, lengths).values()], axis=0).tolist(),
        initial.tolist(),
        own if own is not None or given.grids[0] is None else given.grids[0].diagonal,
        *trusted,
        about,
    )


def figures_of(
    job: Job,
    given: Gathered,
    compared: Comparison,
    result: Evaluation | None,
    names: Sequence[str],
    missing: Mapping[str, str],
    ground: Ground,
) -> dict[str, Figures]:
    """Return what is said of each of some methods, from an evaluation in which they are; None if all are missing."""
    norm, annotations = norm_name(job.study.settings.p), compared.annotations
    lengths = dict(zip(compared.transforms, compared.landmark_errors, strict=True))
    mapped = dict(zip(compared.transforms, compared.values.annotations, strict=True))
    unmoved = _rater_errors(annotations.fixed_points, given.placements)
    found = {}
    for name in names:
        by_rater = _rater_errors(mapped[name], given.placements) if name in mapped else None
        official = _official(job, name, annotations, given.grids, by_rater, unmoved, ground.diagonal)
        if name in missing or result is None:
            found[name] = Figures(missing[name], official=official)
            continue
        errors = np.where(np.isfinite(lengths[name]), lengths[name], ground.worst).tolist()
        score, drawn = result.scores[name].score[norm], result.draws[draws_of(norm)]
        own = np.array(drawn[:, list(result.scores).index(name)])
        found[name] = Figures(None, own, score, errors, official)
    return found


def _counted(compared: Comparison, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of those transforms that say what a missing case costs: the worst of them.

    No registration and the panel's references; all methods where there is no panel. Leaving out what is hard must not
    gain, and what is said of one method must not depend on others.
    """
    kept = {compared.baseline, *compared.panel} if compared.panel else set(compared.transforms)
    return {name: value for name, value in values.items() if name in kept}


def _rater_errors(mapped: Floats, placements: Floats) -> Floats:
    """Return the error of a method at each landmark, as the mean of the distances from all raters' points."""
    lengths = np.linalg.norm(mapped - placements, axis=2)
    placed = np.isfinite(placements).all(axis=2)
    return np.asarray(np.where(placed, lengths, 0.0).sum(axis=0) / placed.sum(axis=0))


def _official(
    job: Job,
    name: str,
    given: Annotations | None,
    grids: tuple[Grid | None, Grid | None],
    errors: Floats | None,
    initial: Floats,
    diagonal: float | None,
) -> OfficialFigures:
    """Return the figures of the challenge that the study names, of one method on this pair.

    Files in the challenge's own layout are read as its own program reads them.
    """
    challenge = job.study.settings.challenge
    method = next(one for one in job.study.methods if one.name == name)
    fixed, moving = grids[0], grids[1] or grids[0]
    files = transform_files(job.study, job.pair, method) if method.patterns else []
    if isinstance(files, str) or len(files) != 1:
        return case_figures(challenge, errors, initial, diagonal)
    if challenge == "learn2reg" and method.options.get("format") == "learn2reg" and fixed and moving:
        if given is not None and errors is None:
            return {}  # it could not be read, or misses most of the targets
        return learn2reg_field_figures(files[0], str(method.options.get("layout")), given, fixed, moving)
    if challenge == "anhir" and method.options.get("format") == ANHIR and given is not None:
        errors = _anhir_errors(files[0], job.pair, given)
    return case_figures(challenge, errors, initial, diagonal)


def _anhir_errors(table: Path, pair: PairSpec, given: Annotations) -> Floats | None:
    """Return the errors of the warped landmarks in a submission to ANHIR; None if the pair is not whole in it."""
    try:
        warped = anhir_points(anhir_file(table, pair))
    except WarpgaugeError:
        return None  # `missing` says why
    if warped.shape != given.moving_points.shape:
        return None
    return challenge_metrics.target_registration_errors(warped, given.moving_points)
