"""The single path from annotations and transforms to a verdict, and `evaluate_project`, which starts from a project.

The command line, the page, studies, the demonstration and the report all come through here, so that one project has
one set of numbers. A verdict rests on the annotations in force alone: the default model is fitted to them when the
verdict is asked for, not when a session last refitted. Weights that `warpgauge fit` learned from other projects stay as
they are, and projects with ``model = "paper"`` keep the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from warpgauge.candidates import targets_from_mask
from warpgauge.core.annotation_budget import CAP
from warpgauge.core.annotations import Annotations
from warpgauge.core.parallel import one_blas_thread
from warpgauge.core.power_law import fitted_posterior
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.audit import audited_points
from warpgauge.evaluation.comparison import Comparison, Scene
from warpgauge.evaluation.diagnostics import trust
from warpgauge.evaluation.flags import LATE, MASKED, RATER_OFFSET, Flag
from warpgauge.evaluation.judge import CENTRES, judge_of
from warpgauge.evaluation.leaks import FEWEST
from warpgauge.evaluation.paper_judge import PaperJudge
from warpgauge.evaluation.result import Evaluation
from warpgauge.evaluation.scores import Scoring, scored
from warpgauge.io.transforms import AffineTransform
from warpgauge.project import Project
from warpgauge.session.doubts import checked, transform_findings
from warpgauge.session.prior import PAPER, current_prior
from warpgauge.session.reading import annotations_of, posterior_of, rater_offsets
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


@one_blas_thread()
def evaluate_comparison(
    comparison: Comparison,
    *,
    centre: str = "candidates",
    further: bool = True,
    with_trust: bool = True,
    margin: float | None = None,
    **options: Any,
) -> Evaluation:
    """Judge the transforms of a comparison.

    Parameters
    ----------
    comparison : Comparison
    centre : {"candidates", "prior"}
        By what the transforms are judged: `judge`, or the posterior itself as in the paper.
    further, with_trust : bool
        Whether the number of further annotations is estimated, and whether calibration is.
    margin : float, optional
        Smallest difference of two scores that matters, in world units; 0.1 pixels by default, or 0 without a grid.
    **options
        ``samples``, ``seed`` and ``tolerance``, as `evaluate` takes them.
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
    truth = PaperJudge(opened.posterior) if centre == "prior" else judge_of(comparison)
    smallest = (0.0 if grid is None else MARGIN_PX * grid.pixel) if margin is None else margin
    how = Scoring(
        diagonal=None if grid is None else grid.diagonal, margin=smallest, further=CAP if further else 0, **options
    )
    found = scored(truth, opened, how)
    return found.trusted(trust(opened.posterior)) if with_trust else found


def project_posterior(project: Project) -> Posterior:
    """Return the posterior of the project's model given the current annotations, with all raters fused."""
    settings = project.settings
    fits = project.state.fits
    if settings.model == PAPER or (fits and fits[-1].from_projects):
        return posterior_of(project)
    noise = bool(fits and fits[-1].fitted_noise)
    prior = current_prior(project, None)  # with an accepted rough alignment, and nothing learned yet
    return fitted_posterior(prior, annotations_of(project), project.fixed_grid.extent, noise=noise)


def evaluate_project(
    project: Project,
    transforms: Mapping[str, Any] | None = None,
    *,
    centre: str = "candidates",
    **options: Any,
) -> Evaluation:
    """Evaluate a project's transforms over its targets, with its current annotations.

    Parameters
    ----------
    project : Project
    transforms : mapping of name to transform, optional
        All transforms of the project by default; one that cannot be read raises.
    centre : {"candidates", "prior"}
        By what the transforms are judged; projects with ``model = "paper"`` always by their posterior.
    **options
        As `evaluate_comparison` takes them: ``samples``, ``seed``, ``tolerance``, ``margin``, ``further``,
        ``with_trust``.
    """
    return evaluate_comparison(
        project_comparison(project, transforms), centre=project_centre(project, centre), **options
    )


def project_centre(project: Project, centre: str = "candidates") -> str:
    """Return by what the transforms of a project are judged."""
    return "prior" if project.settings.model == PAPER else centre


def project_comparison(project: Project, transforms: Mapping[str, Any] | None = None) -> Comparison:
    """Return the comparison of a project's transforms, the identity as a baseline among them."""
    if transforms is None:
        transforms = {name: project.transform(name) for name in project.transform_names()}
    grid = project.fixed_grid
    targets = project.judged_targets
    scene = Scene(grid, grid.units, project.document.targets.region, project.missing)
    every, posterior = with_baseline(transforms, project.d), project_posterior(project)
    panel = tuple(name for name in project.reference_names() if name in every)
    about = {"baseline": BASELINE, "panel": panel, "audited": audited_points(project), "scene": scene}
    answers = once_sealed(project)
    if not answers.rows.any():
        return with_doubts(project, Comparison.of(every, targets, posterior, **about))
    given, rows = posterior.annotations, answers.rows
    seen = {name: ~answers.hidden_from(project, name) for name in every if name not in (*panel, BASELINE)}
    late = tuple(
        Flag(LATE, transform=name, numbers={"changed": float(answers.is_changed(project, name))})
        for name, known in seen.items()
        if (~known).sum() < FEWEST
    )

    def conditioned(annotations: Annotations) -> Posterior:
        return posterior.prior.condition(annotations, calibrate=posterior.calibrates)

    sealed, whole = given[rows], conditioned(Annotations.concatenate([given[~rows], given[rows]]))
    opened = {"sealed": sealed, "seen": seen, "whole": whole, "notes": late}
    return with_doubts(project, Comparison.of(every, targets, conditioned(given[~rows]), **about, **opened))


def _masked(project: Project) -> list[Flag]:
    """Flag the share of the area that the targets stand for which the mask of the project leaves without any."""
    mask, area = project.masked_missing, project.fixed_foreground
    if mask is None:
        return []
    share, of = mask.share, "fixed image"
    if project.document.targets.region in ("foreground", "mask") and area is not None and not area.whole:
        lattice = targets_from_mask(area.mask, area.grid, _LATTICE, method="regular")
        share, of = float(mask.contains(lattice).mean()), "fixed image's foreground"
    return [Flag(MASKED, numbers={"share": share}, text=of)] if share else []


def _offsets(project: Project) -> list[Flag]:
    """Flag raters who are offset from the others by a constant."""
    return [
        Flag(
            RATER_OFFSET,
            numbers={**dict(zip("xyz", one.offset.tolist(), strict=False)), "size": one.size, "p": one.p,
                     "error": float(np.linalg.norm(one.error))},
            units=project.units,
            text=one.rater,
        )
        for one in rater_offsets(project)
    ]  # fmt: skip


def with_doubts(project: Project, comparison: Comparison) -> Comparison:
    """Add the doubts about the project's transforms."""
    grids, units = (project.fixed_grid, project.moving_grid), project.units
    notes = [*_masked(project), *_offsets(project)]
    values, given = comparison.values, comparison.annotations
    for row, (name, transform) in enumerate(comparison.transforms.items()):
        if name == comparison.baseline:
            if not np.allclose(values.targets[row], comparison.targets, rtol=0, atol=1e-6):
                raise InvalidInputError(
                    f"The name {name!r} stands for no transform at all, which every comparison has; choose another "
                    "name."
                )
            continue
        check = checked(transform, given, grids)
        found = transform_findings(values.targets[row], comparison.targets, given, grids, check)
        notes += [Flag(one.code, transform=name, numbers=one.numbers, units=units, text=one.text) for one in found]
    return replace(comparison, notes=(*comparison.notes, *notes), _known=dict(vars(values)))
