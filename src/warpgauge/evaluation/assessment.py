"""The single path from annotations and transforms to a verdict, and `evaluate_project`, which starts from a project.

The command line, the page, studies, the demonstration and the report all come through here, so that one project has
one set of numbers. A verdict rests on the annotations in force alone: the default model is fitted to them when the
verdict is asked for, not when a session last refitted. Weights that `warpgauge fit` learned from other projects stay as
they are, and projects with ``model = "paper"`` keep the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.error_scores import Truth
from warpgauge.core.parallel import one_blas_thread
from warpgauge.core.power_law import fitted_posterior
from warpgauge.core.process import Posterior
from warpgauge.display import Tabular
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import sentences
from warpgauge.evaluation.judge import CENTRES, judge
from warpgauge.evaluation.result import Evaluation
from warpgauge.evaluation.scores import evaluate
from warpgauge.evaluation.transforms import converted
from warpgauge.evaluation.trust import Trust, trust
from warpgauge.evaluation.verdict import Verdict
from warpgauge.geometry import Grid
from warpgauge.io.transforms import read_transform
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.session.prior import PAPER, current_prior

BASELINE = "identity"
SAMPLES = 1000
# Smallest difference of two scores that matters, in pixels of the fixed image.
MARGIN_PX = 0.1


@dataclass(frozen=True, eq=False)
class Assessment(Tabular):
    """A verdict with the data behind it; ``print`` shows the output of ``warpgauge evaluate``.

    Attributes
    ----------
    posterior : Posterior
        What the annotations alone say: for maps and calibration.
    judged_by : Truth
        What the scores were made with.
    transforms : dict
        All that were judged, the baseline among them.
    targets : (n, d) array
        Fixed world points over which errors count.
    evaluation : Evaluation
    trust : Trust or None
        None where it was not asked for.
    problems : dict
        Transforms that could not be read, and why.
    units : str
        World unit.
    """

    posterior: Posterior
    judged_by: Truth
    transforms: dict[str, Any]
    targets: Floats
    evaluation: Evaluation
    trust: Trust | None
    problems: dict[str, str] = field(default_factory=dict)
    units: str = "px"

    @property
    def baseline(self) -> str | None:
        """Name of the transform that does nothing."""
        return self.evaluation.baseline

    @property
    def region(self) -> str:
        """What the targets stand for, in words: "the foreground of the fixed image"."""
        return sentences.region_words("given") if self.verdict.region is None else self.verdict.region.words

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return self.evaluation.verdict

    @property
    def target_sentence(self) -> str:
        """What errors are averaged over, in a sentence."""
        return sentences.targets(self.evaluation.verdict)

    @property
    def title(self) -> str:
        """Title of the table, with what the targets stand for."""
        return self.evaluation.title

    @property
    def sentences_before(self) -> list[str]:
        """What to look at, and whether the model can be trusted."""
        return [*self.evaluation.sentences_before, *([] if self.trust is None else [self.trust.sentence])]

    @property
    def sentence_after(self) -> str:
        """The verdict."""
        return self.verdict

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and rows of the evaluation's table."""
        return self.evaluation.table()

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the evaluation: one per transform, with all numbers."""
        return self.evaluation.rows()

    def plot(self, ax: Any = None) -> Any:
        """Draw the RMS error of each transform with its 90 % interval; return the axes."""
        return self.evaluation.plot(ax)

    def __repr__(self) -> str:
        return f"<Assessment: {self.evaluation!r}>"

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain Python values."""
        return {
            **self.evaluation.to_dict(),
            "target_set": {"region": self.region, "sentence": self.target_sentence},
            "units": self.units,
            "unreadable": dict(self.problems),
            "trust": None if self.trust is None else self.trust.sentence,
        }


def with_baseline(transforms: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Add the identity (no registration), unless there is already a transform of that name."""
    if BASELINE in transforms:
        return dict(transforms)
    return {**transforms, BASELINE: read_transform(lambda points: points, d=d)}


@one_blas_thread()
def assess(
    posterior: Posterior,
    transforms: Mapping[str, Any],
    targets: ArrayLike,
    *,
    region: str = "given",
    centre: str = "candidates",
    grid: Grid | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    tolerance: float | None = None,
    margin: float | None = None,
    candidates: ArrayLike | None = None,
    further: bool = True,
    with_trust: bool = True,
    problems: Mapping[str, str] | None = None,
) -> Assessment:
    """Judge transforms, the identity as a baseline among them.

    Parameters
    ----------
    posterior : Posterior
        What the annotations say.
    transforms : mapping of name to transform
    targets : (n, d) array
        Fixed world points over which errors count.
    region : str
        What the targets stand for: ``"domain"``, ``"foreground"``, ``"mask"``, ``"labels"``, ``"file"`` or
        ``"given"``, or words of your own.
    centre : {"candidates", "prior"}
        By what the transforms are judged: `judge`, or the posterior itself as in the paper.
    grid : Grid, optional
        Of the fixed image; for errors relative to its diagonal, the margin, and the unit.
    samples, seed, tolerance
        As `evaluate` takes them.
    margin : float, optional
        Smallest difference of two scores that matters, in world units; 0.1 pixels by default, or 0 without a grid.
    candidates : (m, d) array, optional
        Where further annotations may be suggested.
    further, with_trust : bool
        Whether the number of further annotations is estimated, and whether calibration and sensitivity are.
    problems : mapping, optional
        Transforms that could not be read, and why.
    """
    if centre not in CENTRES:
        raise InvalidInputError(f"centre must be one of {', '.join(CENTRES)}, got {centre!r}.")
    if not len(posterior.annotations):
        raise InvalidInputError(
            "There are no annotations yet, so the transforms cannot be compared; annotate some locations, or "
            "import landmarks."
        )
    judged = with_baseline(converted(transforms), posterior.d)
    points = as_points(targets, "targets", posterior.d)
    units = "px" if grid is None else grid.units
    truth = posterior if centre == "prior" else judge(posterior, judged, units=units)
    options: dict[str, Any] = {} if further else {"further": 0}
    result = evaluate(
        truth,
        judged,
        points,
        samples=samples,
        seed=seed,
        tolerance=tolerance,
        diagonal=grid,
        candidates=candidates,
        baseline=BASELINE,
        margin=(0.0 if grid is None else MARGIN_PX * grid.pixel) if margin is None else margin,
        **options,
    )
    believed = None
    if with_trust:
        believed = trust(posterior, judged, points, judged_by=truth, pixel=None if grid is None else grid.pixel)
    result = replace(result, verdict=result.verdict.with_trust(region, believed))
    return Assessment(posterior, truth, judged, points, result, believed, dict(problems or {}), units=units)


def project_posterior(project: Project) -> Posterior:
    """Return the posterior of the project's model given the current annotations, with all raters fused."""
    session, settings = Session(project), project.settings
    fits = project.state.fits
    if settings.model == PAPER or (fits and fits[-1].from_projects):
        return session.posterior()
    noise = bool(fits and fits[-1].fitted_noise)
    prior = current_prior(project, None)  # with an accepted rough alignment, and nothing learned yet
    return fitted_posterior(prior, session.annotations(), project.fixed_grid.extent, noise=noise)


def evaluate_project(
    project: Project,
    transforms: Mapping[str, Any] | None = None,
    *,
    centre: str = "candidates",
    **options: Any,
) -> Assessment:
    """Evaluate a project's transforms over its targets, with its current annotations.

    Parameters
    ----------
    project : Project
    transforms : mapping of name to transform, optional
        All transforms of the project by default; one that cannot be read raises.
    centre : {"candidates", "prior"}
        By what the transforms are judged; projects with ``model = "paper"`` always by their posterior.
    **options
        As `assess` takes them: ``samples``, ``seed``, ``tolerance``, ``margin``, ``further``, ``with_trust``.

    Returns
    -------
    Assessment
    """
    if transforms is None:
        transforms = {name: project.transform(name) for name in project.transform_names()}
    return assess(
        project_posterior(project),
        transforms,
        project.targets,
        region=project.document.targets.region,
        centre="prior" if project.settings.model == PAPER else centre,
        grid=project.fixed_grid,
        candidates=project.candidates,
        **options,
    )
