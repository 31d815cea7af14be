"""The evaluation of one pair of a study."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.evaluation import (
    Comparison,
    Scene,
    challenge_metrics,
    evaluate_comparison,
    norm_name,
    project_comparison,
)
from warpgauge.evaluation.columns import draws_of
from warpgauge.evaluation.overlap import label_overlap
from warpgauge.evaluation.project_evaluation import BASELINE, project_centre, with_baseline
from warpgauge.geometry import Grid
from warpgauge.io.images import read_image
from warpgauge.io.transforms import Transform
from warpgauge.io.transforms.mapped_points import MappedPoints
from warpgauge.project import Project
from warpgauge.study.challenge_figures import Figures, case_figures, learn2reg_field_figures, overlap_figures
from warpgauge.study.challenge_tables import ANHIR, anhir_file, anhir_points
from warpgauge.study.description import MethodSpec, PairSpec, Study
from warpgauge.study.method_files import project_transform, read_method, transform_files
from warpgauge.study.pair_files import load_pair, read_grid
from warpgauge.study.pair_model import Learned, pair_posterior

OVERLAP = ("dice", "hd95", "surface_distance")
_NOTHING = np.zeros(0)


@dataclass(frozen=True, eq=False)
class PairOutcome:
    """Result of one pair.

    Attributes
    ----------
    name : str
    methods : tuple of str
        All methods of the study.
    missing : dict
        Methods without a usable transform, and why.
    draws : (S, K) array
        Posterior draws of the study's score; those of a missing method are what its absence costs.
    scores : (K,) array
        The score; of a missing method, what its absence costs.
    landmark_errors : dict
        Classical errors of each method at the annotated points; what it costs where it is undefined or missing.
    initial_errors : list of float
        The same without registration (the identity).
    diagonal : float or None
    verdict, sentence : str
        Of the calibration.
    evaluation : dict
        Everything else, as :meth:`warpgauge.evaluation.Evaluation.to_dict` returns it; the identity is among its
        transforms.
    official : dict
        A challenge's own figures of each method, where the study names one.
    overlap : dict
        Of each method and of the identity, where the pair has label images: ``dice``, ``hd95`` and
        ``surface_distance`` (means over the labels), and ``labels``, each one's. Of a missing method, what its absence
        costs.
    """

    name: str
    methods: tuple[str, ...]
    missing: dict[str, str]
    draws: Floats
    scores: Floats
    landmark_errors: dict[str, list[float]]
    initial_errors: list[float]
    diagonal: float | None
    verdict: str
    sentence: str
    evaluation: dict[str, Any] = field(default_factory=dict)
    official: dict[str, Figures] = field(default_factory=dict)
    overlap: dict[str, dict[str, Any]] = field(default_factory=dict)

    def overlap_of(self, method: str) -> dict[str, float | None]:
        """Return a method's overlap figures; None where there are no labels."""
        found = self.overlap.get(method, {})
        return {name: found.get(name) for name in OVERLAP}


def mean_overlap(name: str, outcomes: Sequence[PairOutcome]) -> dict[str, float | None]:
    """Return the overlap of a method's labels, means over the pairs that have them."""
    found: dict[str, float | None] = {}
    for figure in OVERLAP:
        known = [value for one in outcomes if (value := one.overlap_of(name)[figure]) is not None]
        found[figure] = float(np.mean(known)) if known else None
    return found


@dataclass(frozen=True)
class Job:
    """One pair to be computed, with weights learned on all pairs where the study asks for that."""

    study: Study
    pair: PairSpec
    learned: Learned | None = None


def compute_pair(job: Job) -> PairOutcome:
    """Evaluate all methods on one pair."""
    if job.pair.project is not None:
        return _compute_project(job)
    if job.pair.labels_only:
        return _compute_labels(job)
    study, pair = job.study, job.pair
    loaded = load_pair(pair, study.settings)
    grids, d = (loaded.fixed, loaded.moving), loaded.annotations.d
    missing, present = _sorted({one.name: _read(job, one, grids, d) for one in study.methods})
    scene = Scene(loaded.fixed, None if loaded.fixed is None else loaded.fixed.units, loaded.region)
    posterior = pair_posterior(loaded, study.model, job.learned)
    panel = tuple(name for name in study.references if name in present)
    compared = Comparison.of(
        with_baseline(present, d), loaded.targets, posterior, baseline=BASELINE, panel=panel, problems=missing,
        scene=scene,
    )  # fmt: skip
    return _isolated(job, compared, loaded.placements, grids, study.settings.centre)


def _sorted(found: Mapping[str, Transform | str]) -> tuple[dict[str, str], dict[str, Transform]]:
    """Return the methods that are missing, and why, and the transforms of the others."""
    missing = {name: one for name, one in found.items() if isinstance(one, str)}
    return missing, {name: one for name, one in found.items() if not isinstance(one, str)}


def _read(job: Job, method: MethodSpec, grids: tuple[Grid | None, Grid | None], d: int) -> Transform | str:
    """Read a method's transform of the pair, or return why it is missing."""
    files = transform_files(job.study, job.pair, method)
    return files if isinstance(files, str) else read_method(files, job.pair, method, *grids, d)


def _compute_project(job: Job) -> PairOutcome:
    study, folder = job.study, job.pair.project
    if folder is None:
        raise InvalidInputError(f"The pair {job.pair.name!r} is not a project.")
    with Project.open(folder, check_images=False) as project:
        grids = (project.fixed_grid, project.moving_grid)
        missing, present = _sorted(
            {
                one.name: _read(job, one, grids, project.d) if one.patterns else project_transform(project, one)
                for one in study.methods
            }
        )
        # A method with files of its own is none of the project's references, whatever its name is.
        own = {one.name for one in study.methods if one.patterns}
        references = [name for name in project.reference_names() if name not in own]
        beside = {name: project.transform(name) for name in references if name not in present}
        panel = tuple(name for name in (*present, *beside) if name in (*references, *study.references))
        compared = replace(project_comparison(project, {**present, **beside}), panel=panel, problems=missing)
        placements = compared.annotations.moving_points[None]
        return _isolated(job, compared, placements, grids, project_centre(project, study.settings.centre))


def _compute_labels(job: Job) -> PairOutcome:
    """Compare the methods by the overlap of a pair's labels; without landmarks nothing is known of the errors."""
    study, pair, settings = job.study, job.pair, job.study.settings
    fixed, moving = (
        read_grid(own or label)
        for own, label in ((pair.fixed, pair.fixed_labels), (pair.moving, pair.moving_labels))
        if label is not None
    )
    found = {one.name: _read(job, one, (fixed, moving), fixed.d) for one in study.methods}
    missing, present = _sorted(found)
    overlap = _overlaps(pair, with_baseline(present, fixed.d))
    for name in list(present):
        if overlap[name]["outside"] > settings.most_outside:
            missing[name] = f"it maps {overlap.pop(name)['outside']:.0%} of the labels outside the moving image"
            del present[name]
    _check_missing(job, missing)
    official = {
        name: {**_official(job, name, None, (fixed, moving), None, _NOTHING, None),
               **overlap_figures(settings.challenge, overlap[name])}
        for name in present
    }  # fmt: skip
    overlap |= _overlap_cost(missing, overlap)
    scores = np.array([1 - overlap[name]["dice"] for name in found])
    return PairOutcome(
        pair.name,
        tuple(found),
        missing,
        np.tile(scores, (settings.samples, 1)),  # nothing but the choice of pairs varies
        scores,
        {name: [] for name in found},
        [],
        None,
        "undetermined",
        "There are no landmarks; overlap of labels does not say how large errors are.",
        {"read_as": {name: one.description.to_dict() for name, one in present.items()}},
        official,
        overlap,
    )


def _check_missing(job: Job, missing: Mapping[str, str]) -> None:
    if missing and job.study.settings.missing == "error":
        name, reason = next(iter(missing.items()))
        raise InvalidInputError(f"The method {name!r} is missing for the pair {job.pair.name!r}: {reason}.")


def _isolated(
    job: Job, compared: Comparison, placements: Floats, grids: tuple[Grid | None, Grid | None], centre: str
) -> PairOutcome:
    """Return the outcome of a pair; a method that cannot be evaluated at all is missing there, and stops no other."""

    def of(names: Collection[str], broken: Mapping[str, str]) -> PairOutcome:
        kept = {name: one for name, one in compared.transforms.items() if name in names}
        panel = tuple(name for name in compared.panel if name in kept)
        part = replace(compared, transforms=kept, panel=panel, problems={**compared.problems, **broken}, _known={})
        return _outcome(job, part, placements, grids, centre)

    every, always = list(compared.transforms), {BASELINE, *compared.panel}
    try:
        return of(every, {})
    except Exception:
        broken = {}
        for name in every:
            try:
                if name not in always:
                    of({name, *always}, {})
            except Exception as error:
                told = isinstance(error, WarpgaugeError)
                broken[name] = str(error) if told else f"it cannot be evaluated ({type(error).__name__})"
        if not broken:
            raise
        return of([name for name in every if name not in broken], broken)


def _outcome(
    job: Job, compared: Comparison, placements: Floats, grids: tuple[Grid | None, Grid | None], centre: str
) -> PairOutcome:
    settings, missing, given = job.study.settings, dict(compared.problems), compared.annotations
    names, norm = tuple(one.name for one in job.study.methods), norm_name(settings.p)
    for name, outside in zip(compared.transforms, (~compared.defined).mean(axis=1), strict=True):
        if outside > settings.most_outside and name in names:
            missing[name] = f"it is undefined at {outside:.0%} of the targets"
    _check_missing(job, missing)
    compared = replace(compared.among(name for name in compared.transforms if name not in missing), problems={})
    options = {name: getattr(settings, name) for name in ("samples", "seed", "tolerance")}
    result = evaluate_comparison(compared, centre=centre, further=False, **options)
    drawn = dict(zip(compared.transforms, result.draws[draws_of(norm)].T, strict=True))
    found = {name: one.score[norm] for name, one in result.scores.items()}
    cost, cost_draws = max(_counted(compared, found).values()), np.max([*_counted(compared, drawn).values()], axis=0)
    draws = np.stack([drawn.get(name, cost_draws) for name in names], axis=1)
    scores = np.array([found.get(name, cost) for name in names])
    initial = np.linalg.norm(given.fixed_points - given.moving_points, axis=1)
    diagonal = job.pair.diagonal if job.pair.diagonal is not None or grids[0] is None else grids[0].diagonal
    lengths = dict(zip(compared.transforms, compared.landmark_errors, strict=True))
    worst = np.nanmax([initial, *_counted(compared, lengths).values()], axis=0)
    errors = {name: np.where(np.isfinite(one := lengths.get(name, worst)), one, worst) for name in names}
    by_rater = {
        name: _rater_errors(mapped, placements)
        for name, mapped in zip(compared.transforms, compared.values.annotations, strict=True)
    }
    unmoved = _rater_errors(given.fixed_points, placements)
    overlap = _overlaps(job.pair, compared.transforms)
    official = {
        name: {
            **_official(job, name, given, grids, by_rater.get(name), unmoved, diagonal),
            **overlap_figures(settings.challenge, overlap.get(name)),
        }
        for name in names
    }
    overlap |= _overlap_cost(missing, _counted(compared, overlap))
    about = result.to_dict()
    about["read_as"] = {name: one.description.to_dict() for name, one in compared.transforms.items()}
    about["panel"] = list(compared.panel)
    believed = result.trust
    return PairOutcome(
        job.pair.name,
        names,
        missing,
        draws,
        scores,
        {name: lengths.tolist() for name, lengths in errors.items()},
        initial.tolist(),
        diagonal,
        "undetermined" if believed is None else believed.verdict,
        "" if believed is None else believed.sentence,
        about,
        official,
        overlap,
    )


def _counted(compared: Comparison, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of those transforms that say what a missing case costs: the worst of them.

    No registration and the panel's references; all methods where there is no panel. Leaving out what is hard must not
    gain, and what is said of one method must not depend on others.
    """
    kept = {compared.baseline, *compared.panel} if compared.panel else set(compared.transforms)
    return {name: value for name, value in values.items() if name in kept}


def _overlap_cost(missing: Mapping[str, str], counted: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the overlap that counts for the methods that are missing; none without labels."""
    if not counted:
        return {}
    cost: dict[str, Any] = {"dice": min(one["dice"] for one in counted.values()), "labels": []}
    for name in OVERLAP[1:]:
        known = [one[name] for one in counted.values() if one[name] is not None]
        cost[name] = max(known) if known else None
    return dict.fromkeys(missing, cost)


def _rater_errors(mapped: Floats, placements: Floats) -> Floats:
    """Return the error of a method at each landmark, as the mean of the distances from all raters' points."""
    lengths = np.linalg.norm(mapped - placements, axis=2)
    placed = np.isfinite(placements).all(axis=2)
    return np.asarray(np.where(placed, lengths, 0.0).sum(axis=0) / placed.sum(axis=0))


def _overlaps(pair: PairSpec, transforms: Mapping[str, Transform]) -> dict[str, dict[str, Any]]:
    """Return the overlap of a pair's labels after each transform that maps any point; none without labels."""
    if pair.fixed_labels is None or pair.moving_labels is None:
        return {}
    fixed, moving = read_image(pair.fixed_labels), read_image(pair.moving_labels)
    sides = fixed.read(), fixed.grid, moving.read(), moving.grid
    shared = set(np.unique(sides[2]).tolist())
    found = {}
    for name, one in transforms.items():
        if isinstance(one, MappedPoints):
            continue  # known at the landmarks alone
        result = label_overlap(one, *sides, name=name)
        means = {"dice": result.mean_dice, "hd95": result.mean_hd95, "surface_distance": result.mean_surface_distance}
        labels = [{**row, "in_moving": row["label"] in shared} for row in result.rows()]
        found[name] = {**means, "outside": result.outside, "labels": labels}
    return found


def _official(
    job: Job,
    name: str,
    given: Annotations | None,
    grids: tuple[Grid | None, Grid | None],
    errors: Floats | None,
    initial: Floats,
    diagonal: float | None,
) -> Figures:
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
