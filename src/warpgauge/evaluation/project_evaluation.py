"""The single path from annotations and transforms to a verdict, and `evaluate_project`, which starts from a project.

The command line, the page, studies, the demonstration and the report all come through here, so that one project has
one set of numbers. A verdict rests on the annotations in force alone: the default model is fitted to them when the
verdict is asked for, not when a session last refitted. Projects with ``model = "paper"`` keep the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from warpgauge.candidates import targets_from_mask
from warpgauge.core.annotations import Annotations
from warpgauge.core.power_law import fitted_posterior
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.audit import audited_points
from warpgauge.evaluation.comparison import Comparison, Scene
from warpgauge.evaluation.flags import Flag, doubt, late, masked, rater_far, rater_offset
from warpgauge.evaluation.judge import CENTRES, Judge, judge_of
from warpgauge.evaluation.leaks import FEWEST
from warpgauge.evaluation.result import Evaluation
from warpgauge.evaluation.scores import Scoring, scored
from warpgauge.io.transforms import AffineTransform
from warpgauge.project import Project
from warpgauge.session.agreement import far_marks, offsets_of
from warpgauge.session.doubts import checked, transform_findings
from warpgauge.session.fused_annotations import LocatedAnnotations
from warpgauge.session.model import view_of
from warpgauge.session.prior import PAPER, current_prior
from warpgauge.session.seals import once_sealed

BASELINE = "identity"
# Smallest difference of two scores that matters, in pixels of the fixed image.
MARGIN_PX = 0.1
# Points of the foreground by which the share of a mask is measured.
_LATTICE = 10_000


def with_baseline(transforms: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Add the identity (no registration), unless there is already a transform of that name."""
    if BASELINE in transforms:
        return dict(transforms)
    return {**transforms, BASELINE: AffineTransform(np.eye(d), np.zeros(d), BASELINE)}


def evaluate_comparison(
    comparison: Comparison,
    *,
    centre: str = "candidates",
    margin: float | None = None,
    samples: int = 1000,
    seed: int = 0,
    tolerance: float | None = None,
) -> Evaluation:
    """Judge the transforms of a comparison.

    Parameters
    ----------
    comparison : Comparison
    centre : {"candidates", "prior"}
        By what the transforms are judged: `judge`, or the posterior itself as in the paper.
    margin : float, optional
        Smallest difference of two scores that matters, in world units; 0.1 pixels by default, or 0 without a grid.
    samples, seed, tolerance
        As `evaluate` takes them.
    """
    if centre not in CENTRES:
        raise InvalidInputError(f"centre must be one of {', '.join(CENTRES)}, got {centre!r}.")
    if not len(comparison.annotations):
        raise InvalidInputError(
            "There are no annotations yet, so the transforms cannot be compared; annotate some locations, or "
            "import landmarks."
        )
    grid = comparison.scene.grid
    opened = comparison.opened()
    truth = Judge(opened) if centre == "prior" else judge_of(comparison)
    smallest = (0.0 if grid is None else MARGIN_PX * grid.pixel) if margin is None else margin
    how = Scoring(samples=samples, seed=seed, tolerance=tolerance, margin=smallest)
    return scored(truth, opened, how)


def project_posterior(project: Project) -> Posterior:
    """Return the posterior of the project's model given the current annotations, with all raters fused."""
    settings = project.settings
    fits = project.state.fits
    if settings.model == PAPER or (fits and not fits[-1].rests_on):
        return view_of(project).posterior
    prior = current_prior(project, None)  # with an accepted rough alignment, and nothing learned yet
    return fitted_posterior(prior, view_of(project).located.annotations, project.fixed_grid.extent)


def evaluate_project(
    project: Project,
    transforms: Mapping[str, Any] | None = None,
    *,
    centre: str = "candidates",
    margin: float | None = None,
    samples: int = 1000,
    seed: int = 0,
    tolerance: float | None = None,
) -> Evaluation:
    """Evaluate a project's transforms over its targets, with its current annotations.

    Parameters
    ----------
    project : Project
    transforms : mapping of name to transform, optional
        All transforms of the project by default; one that cannot be read raises.
    centre : {"candidates", "prior"}
        By what the transforms are judged; projects with ``model = "paper"`` always by their posterior.
    margin, samples, seed, tolerance
        As `evaluate_comparison` takes them.
    """
    comparison = project_comparison(project, transforms)
    return evaluate_comparison(
        comparison,
        centre=project_centre(project, centre),
        margin=margin,
        samples=samples,
        seed=seed,
        tolerance=tolerance,
    )


def project_centre(project: Project, centre: str = "candidates") -> str:
    """Return by what the transforms of a project are judged."""
    return "prior" if project.settings.model == PAPER else centre


def project_comparison(project: Project, transforms: Mapping[str, Any] | None = None) -> Comparison:
    """Return the comparison of a project's transforms, the identity as a baseline among them."""
    if transforms is None:
        transforms = {name: project.transform(name) for name in project.transform_names()}
    every = with_baseline(transforms, project.d)
    grid = project.fixed_grid
    posterior = project_posterior(project)
    located = view_of(project).located
    labels = annotation_labels(project, located)
    references = tuple(name for name in project.reference_names() if name in every)
    answers = once_sealed(project)
    order = np.concatenate([np.flatnonzero(~answers.rows), np.flatnonzero(answers.rows)])
    given = Comparison.of(
        every,
        project.judged_targets,
        posterior,
        baseline=BASELINE,
        panel=references,
        audited=audited_points(project),
        scene=Scene(grid, grid.units, project.document.targets.region, project.missing),
        labels=tuple(labels[row] for row in order),
    )
    notes = [*_masked(project), *_of_raters(project, located, labels)]
    if answers.rows.any():
        annotations = posterior.annotations

        def conditioned(known: Annotations) -> Posterior:
            return posterior.prior.condition(known, calibrate=posterior.calibrates)

        tested = [name for name in every if name not in (*references, BASELINE)]
        seen = {name: ~answers.hidden_from(project, name) for name in tested}
        notes += [
            late(name, answers.is_changed(project, name)) for name, known in seen.items() if (~known).sum() < FEWEST
        ]
        given = replace(
            given,
            posterior=conditioned(annotations[np.flatnonzero(~answers.rows)]),
            sealed=annotations[np.flatnonzero(answers.rows)],
            seen=seen,
            whole=conditioned(annotations[order]),
        )
    return replace(given, notes=(*notes, *_doubts(project, given)), _known=dict(vars(given.values)))


def annotation_labels(project: Project, located: LocatedAnnotations) -> list[str]:
    """Return what the user calls each annotation: its name in the file that it came from, or its place's number."""
    queries = project.state.queries
    return [queries[at].name or f"annotation {at + 1}" for at in located.locations]


def _masked(project: Project) -> list[Flag]:
    """Flag the share of the area that the targets stand for which the mask of the project leaves without any."""
    mask = project.masked_missing
    if mask is None:
        return []
    area = project.fixed_foreground
    share = mask.share
    of = "fixed image"
    if project.document.targets.region in ("foreground", "mask") and area is not None and not area.whole:
        lattice = targets_from_mask(area.mask, area.grid, _LATTICE, method="regular")
        share = float(mask.contains(lattice).mean())
        of = "fixed image's foreground"
    return [masked(share, of)] if share else []


def _of_raters(project: Project, located: LocatedAnnotations, labels: Sequence[str]) -> list[Flag]:
    """Flag raters who are offset from the others, and single marks of a rater that lie far from those of the others."""
    far = []
    for mark in far_marks(located):
        row = located.row_of(mark.mark)
        far.append(rater_far(mark, "a landmark" if row is None else labels[row], project.units))
    return [*far, *(rater_offset(one, project.units) for one in offsets_of(located))]


def _doubts(project: Project, comparison: Comparison) -> list[Flag]:
    """Flag transforms whose files were probably misread or do not belong to the images."""
    grids = (project.fixed_grid, project.moving_grid)
    annotations = comparison.annotations
    flags = []
    for (name, transform), values in zip(comparison.transforms.items(), comparison.values.targets, strict=True):
        if name != comparison.baseline:
            check = checked(transform, annotations, grids)
            findings = transform_findings(values, comparison.targets, annotations, grids, check)
            flags += [doubt(finding, name, project.units) for finding in findings]
        elif not np.allclose(values, comparison.targets, rtol=0, atol=1e-6):
            raise InvalidInputError(
                f"The name {name!r} stands for no transform at all, which every comparison has; choose another name."
            )
    return flags
