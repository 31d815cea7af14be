"""`judge`: which transforms testify about the true transformation, and joint draws of it.

References testify where there are any: registrations that never saw an annotation. What is said of a method then
depends on the annotations, the references and the method alone. Otherwise all transforms testify that are not suspected
of having seen the annotations. In the paper nobody testifies: the truth is drawn from the posterior.

Beside references a method is *heard* or *unheard*. The truth misses the mean mu of its models by ``r = phi - mu``, the
method by ``g = T - mu``. Unheard, r is as drawn. Heard, r is drawn anew as ``sqrt(1 - rho^2) r + rho (R / G) g``, with
R and G the root mean squares over the targets and rho from the method's residuals at the annotations, whose size counts
as well (`sized`). A method that may have seen the annotations is heard in half of the draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.process import Posterior
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.calibration import Trust
from warpgauge.evaluation.comparison import Comparison, Scene
from warpgauge.evaluation.error_model import ErrorModel
from warpgauge.evaluation.evidence import Evidence
from warpgauge.evaluation.flags import LEAK, SUSPECTED, Flag, common_offset, gross_errors, leak_flag, too_good
from warpgauge.evaluation.folds import Folds
from warpgauge.evaluation.leaks import tested

CENTRES = ("candidates", "prior")
FEWEST = 4
# Limits of the regression slope beta and of the correlation rho.
_SLOPES = (-0.2, 1.1)
_CORRELATIONS = (-0.3, 0.995)
# Squared errors vary at least so much (variance over squared mean), even where few annotations do not show it.
_LEAST_VARIATION = 2.0
# The model has heard the same residuals: their mean square counts for one in so many.
_TEMPER = 8.0
# Share of the stated noise in a mean square at the annotations: stated ellipses are too large as often as too small.
_NOISE_SHARE = 0.5


def judge(
    posterior: Posterior,
    transforms: Mapping[str, Any],
    *,
    panel: Sequence[str] | Mapping[str, Any] | None = None,
    sealed: Annotations | None = None,
    units: str | None = None,
) -> Judge:
    """Return the model of the true transformation by which transforms are evaluated.

    Parameters
    ----------
    posterior : Posterior
        What the open annotations say; preferably from `warpgauge.default_posterior`.
    transforms : mapping of name to transform
        All transforms to compare: objects with ``map``, or callables. The identity is scored but does not testify, so
        adding it as a baseline changes no other score.
    panel : sequence of str or mapping of name to transform, optional
        References that never saw an annotation: names among the transforms, or others.
    sealed : Annotations, optional
        Annotations that no transform can have seen. They test every method for a leak and count in every score.
    units : str, optional
        World unit, for words about lengths.
    """
    others: Mapping[str, Any] = panel if isinstance(panel, Mapping) else {}
    names = tuple(panel or ())
    unknown = [name for name in names if name not in transforms and name not in others]
    if unknown:
        raise InvalidInputError(f"The panel names {unknown[0]!r}, which is not among the transforms.")
    twice = [name for name in others if name in transforms and transforms[name] is not others[name]]
    if twice:
        raise InvalidInputError(f"{twice[0]!r} is a transform and another reference of the panel; rename one of them.")
    every = {**transforms, **others}
    scene = Scene(units=units)
    if len(posterior.annotations) + (0 if sealed is None else len(sealed)) < FEWEST:
        alone = posterior if sealed is None else posterior.append(sealed)
        return Judge(Comparison.of({}, None, alone, scene=scene), too_few=True)
    return judge_of(Comparison.of(every, None, posterior, panel=names, sealed=sealed, scene=scene))


def judge_of(comparison: Comparison) -> Judge:
    """Return the model of the true transformation by which the transforms of a comparison are evaluated.

    Sealed answers test for leaks first; from then on they count like the others.
    """
    leaks = tested(comparison)
    opened = comparison.opened()
    names = list(opened.transforms)
    if not names or len(opened.annotations) < FEWEST:
        return Judge(opened, too_few=len(opened.annotations) < FEWEST)
    fixed_points = opened.annotations.fixed_points
    still = {
        name
        for name, values in zip(names, opened.values.annotations, strict=True)
        if np.array_equal(values, fixed_points)
    }
    guesses = [name for name in names if name not in still]
    references = [name for name in opened.panel if name in guesses]
    methods = [name for name in names if name not in references]
    leaked = [leak_flag(name, test) for name, test in leaks.items() if test.leaked]
    suspicions = _suspicions(opened, methods, references or guesses, leaked)
    suspects = {flag.transform for flag in (*leaked, *suspicions)}
    # If all are suspected, the stated noise is more likely to be wrong than all transforms.
    witnesses = references or [name for name in guesses if name not in suspects] or guesses or names
    folds = Folds.of(Evidence.of(opened.among(witnesses)))
    known = folds.evidence.comparison
    passed = {name for name, test in leaks.items() if not test.leaked}
    if not references and set(guesses) <= suspects:
        suspicions = [flag.excused() for flag in suspicions]
    flags = (*leaked, *suspicions, *gross_errors(known), *common_offset(known))
    return Judge(opened, folds, flags, tuple(references), frozenset({*references, *still, *passed}))


def _suspicions(
    comparison: Comparison, methods: Sequence[str], witnesses: Sequence[str], leaked: Sequence[Flag]
) -> list[Flag]:
    """Return the flags of methods that are too good to be true, by the noise that the other transforms suggest."""
    if not methods:
        return []
    tried = comparison.among(methods)
    flags = too_good(tried)
    suspects = {flag.transform for flag in (*leaked, *flags)}
    others = [name for name in witnesses if name not in suspects]
    if not flags or not others:
        return flags
    # Experts may draw ellipses that are too large: test again with the noise that the other transforms suggest.
    return too_good(tried, ErrorModel.fit(Evidence.of(comparison.among(others))).believed_noise)


@dataclass(frozen=True, eq=False)
class Judge:
    """A model of the true transformation; made by `judge`.

    Attributes
    ----------
    folds : Folds or None
        Models of the truth, centred at the median of the transforms that testify. None: nobody testifies, the truth is
        drawn from the posterior and a score is the distance from its mean, as in the paper.
    panel : tuple of str
        References that the model rests on; empty where it rests on all transforms that are not suspected.
    vetted : frozenset of str
        Transforms that cannot have seen the annotations: the references, those that passed the leak test, and the
        identity.
    too_few : bool
        Whether there are too few annotations for transforms to testify.
    """

    comparison: Comparison
    folds: Folds | None = None
    flags: tuple[Flag, ...] = ()
    panel: tuple[str, ...] = ()
    vetted: frozenset[str] = frozenset()
    too_few: bool = False

    def __repr__(self) -> str:
        testify = 0 if self.folds is None else len(self.folds.evidence.names)
        known = counted(len(self.annotations), "annotation")
        return f"<Judge: {self.d}D, from {known} and {counted(testify, 'transform')}>"

    @property
    def d(self) -> int:
        """Dimension."""
        return self.posterior.d

    @property
    def posterior(self) -> Posterior:
        """What the annotations alone say."""
        return self.comparison.posterior

    @property
    def annotations(self) -> Annotations:
        """The annotations that the model knows."""
        return self.posterior.annotations

    @property
    def candidate_weights(self) -> dict[str, float] | None:
        """Weight of each transform that testifies in the median at which the model is centred; they add up to 1."""
        if self.folds is None:
            return None
        evidence = self.folds.evidence
        return dict(zip(evidence.names, (evidence.weights / evidence.weights.sum()).tolist(), strict=True))

    @property
    def trust(self) -> Trust:
        """Calibration of the very model that the numbers come from: each annotation predicted without its fold."""
        if self.folds is None:
            return Trust.of_posterior(self.posterior)
        widening = self.folds.widening
        return Trust.of(self.folds.residuals, self.folds.standardised / np.sqrt(widening.factor), widening.levels)

    @property
    def disqualified(self) -> frozenset[str]:
        """Transforms that have seen annotations, by the leak test: they are scored and not ranked."""
        return frozenset(flag.transform for flag in self.flags if flag.code == LEAK and flag.transform is not None)

    @property
    def suspected(self) -> frozenset[str]:
        """Transforms that have probably seen annotations: they are never named best without this."""
        return frozenset(flag.transform for flag in self.flags if flag.code in SUSPECTED and flag.transform is not None)

    def compared(self, transforms: Mapping[str, object], targets: ArrayLike) -> Comparison:
        """Return the comparison of transforms over targets; those that this model knows keep their values."""
        panel = tuple(name for name in self.panel if name in transforms)
        found = Comparison.of(transforms, targets, self.posterior, panel=panel, scene=self.comparison.scene)
        if set(found.transforms) == set(self.comparison.transforms) and self.comparison.holds(found.transforms):
            return self.comparison.over(found.targets).among(found.transforms)
        return found

    def without_flagged(self) -> Judge | None:
        """Return the judge fitted without the annotations flagged as gross errors, or None if none is flagged."""
        rows = [flag.row for flag in self.flags if flag.row is not None]
        return judge_of(self.comparison.without(rows)) if rows else None

    def truth(self, comparison: Comparison, count: int, seed: int = 0, *, whole: bool = False) -> tuple[Floats, Floats]:
        """Draw joint true matches (S, n, d) of a comparison's targets, by the fold models or by one of all annotations.

        Return also the mean (n, d) that they scatter about.
        """
        at = comparison.targets
        if self.folds is None:
            return self.posterior.sample(at, count, seed), self.posterior.mean(at)
        models = [self.folds.whole] if whole else self.folds.models
        rng = np.random.default_rng([seed, 3] if whole else seed)
        return self.folds.draws(models, at, self.folds.evidence.over(comparison), count, rng)

    def heard_errors(self, truth: tuple[Floats, Floats], comparison: Comparison, k: int, seed: int = 0) -> Floats:
        """Return the errors (S, n) of transform k in draws that know its residuals at the annotations.

        The draws go along with it as much as the annotations do, and their size is weighed by that of the residuals.
        Without references they are as drawn.
        """
        matches, mean = truth
        mapped = comparison.counted[k]
        if self.folds is None or not self.panel:
            return distances(matches, mapped)
        annotations = self.annotations
        values = comparison.values.annotations[k]
        deviations = values - (annotations.moving_points - self.folds.residuals)
        # The same random numbers for every method: copies are heard alike, and nothing depends on the company.
        rng = np.random.default_rng([seed, 2])
        slopes = heard_slopes(deviations, self.folds.residuals, self.folds.squares, len(matches), rng)
        lengths = distances(heard(matches, mean, mapped, slopes), mapped)
        squares = np.square(lengths).mean(axis=1)
        stated = self.posterior.prior.total_noise(annotations.covariances)
        noise = float(np.mean(np.trace(stated, axis1=1, axis2=2)))
        scaled = sized(squares, values - annotations.moving_points, noise, lengths.shape[1])
        return np.asarray(lengths * np.sqrt(scaled / np.where(squares > 0, squares, 1.0))[:, None])

    def unseen_failures(self, comparison: Comparison, count: int, seed: int = 0) -> Floats:
        """Draw what failures that no annotation met add to the squared errors at the targets, (count, n).

        They widen intervals and change no score and no call: they add the same to every transform.
        """
        if self.folds is None:
            return np.zeros((count, len(comparison.targets)))
        at = comparison.targets
        failed = missed_failures(at, self.annotations.fixed_points, count, np.random.default_rng([seed, 1]))
        # Where a registration fails, its error is about as large as the deformation itself, and independent of it.
        return np.asarray(failed * 2 * np.square(not_affine(at, self.posterior.mean(at))).sum(axis=1))

    def is_heard(self, names: Sequence[str]) -> Bools:
        """Return which transforms are heard in all draws: those that cannot have seen an annotation."""
        return np.array([not self.panel or name in self.vetted for name in names], dtype=bool)

    def error_draws(self, comparison: Comparison, count: int, seed: int = 0) -> Iterator[Floats]:
        """Yield draws (count, n) of the errors of each transform at the targets, as its score counts them."""
        truth = self.truth(comparison, count, seed)
        sure = self.is_heard(list(comparison.transforms))
        for k, mapped in enumerate(comparison.counted):
            drawn = self.heard_errors(truth, comparison, k, seed)
            if not sure[k]:
                drawn[1::2] = distances(truth[0], mapped)[1::2]
            yield drawn


def distances(matches: Floats, mapped: Floats) -> Floats:
    """Return the distances (S, n) of (n, d) mapped targets from (S, n, d) draws of their true matches."""
    return np.asarray(np.sqrt(np.square(matches - mapped).sum(axis=2)))


def heard_slopes(
    deviations: Floats, residuals: Floats, squares: Floats, count: int, rng: np.random.Generator
) -> Floats:
    """Draw slopes beta (count,) of the truth's residuals on a method's deviations at the annotations.

    Parameters
    ----------
    deviations, residuals : (n, d) array
        ``T - mu`` and ``y - mu`` at the annotations, mu from a model that does not know them.
    squares : (n,) array
        Standardised squared residuals; an annotation beyond what the model expects counts for less.
    """
    defined = np.isfinite(deviations).all(axis=1)
    g = deviations[defined]
    x = residuals[defined]
    w = 1 / np.maximum(squares[defined], 1.0)[:, None]
    n, d = g.shape
    size = np.sum(w * np.square(g))
    if n < 3 or size == 0:
        return np.zeros(count)
    slope = np.sum(w * g * x) / size
    left = np.sum(w * np.square(x - slope * g)) / (d * n - 1)
    # Residuals of neighbours and components go together: sqrt(d) widens the error that takes them as independent.
    error = np.sqrt(np.sqrt(d) * left / size)
    return np.asarray(np.clip(slope + error * rng.standard_t(n - 2, count), *_SLOPES))


def heard(matches: Floats, mean: Floats, mapped: Floats, slopes: Floats) -> Floats:
    """Return draws (S, n, d) of the truth that go along with a method, (n, d), by one slope per draw."""
    r = matches - mean
    g = mapped - mean
    R = np.sqrt(np.square(r).sum(axis=2).mean(axis=1))
    G = np.sqrt(np.square(g).sum(axis=1).mean())
    if G == 0:
        return matches
    # By draw: with one R for all, a few draws of heavy tails would keep the others from going along with the method.
    rho = np.clip(slopes * G / np.where(R > 0, R, np.inf), *_CORRELATIONS)
    return np.asarray(mean + np.sqrt(1 - np.square(rho))[:, None, None] * r + (rho * R / G)[:, None, None] * g)


def sized(squares: Floats, residuals: Floats, noise: float, targets: int) -> Floats:
    """Return draws (S,) of a mean squared error that know how large the (n, d) residuals at the annotations are.

    Poor references cannot know how small an error may be. Each draw is weighted by how well it explains the residuals'
    mean square, whose logarithm is normal about that of the drawn one, and becomes the weighted quantile of its rank:
    comparisons draw by draw stay as they are. ``noise`` is the mean squared length of the annotations' stated noise.
    """
    seen = np.square(residuals[np.isfinite(residuals).all(axis=1)]).sum(axis=1)
    if len(seen) < 3 or not seen.any() or not squares.all():
        return squares
    variation = max(float(np.var(seen, ddof=1) / np.mean(seen) ** 2), _LEAST_VARIATION)
    spread = _TEMPER * variation * (1 / len(seen) + 1 / targets)
    logs = -np.square(np.log(np.mean(seen)) - np.log(squares + _NOISE_SHARE * noise)) / (2 * spread)
    weights = np.exp(logs - logs.max())
    order = np.argsort(squares, kind="stable")
    ordered = weights[order] / weights.sum()
    levels = (np.arange(len(squares)) + 0.5) / len(squares)
    known = np.empty_like(squares)
    known[order] = np.interp(levels, np.cumsum(ordered) - ordered / 2, squares[order])
    return known


def missed_failures(points: Floats, annotated: Floats, count: int, rng: np.random.Generator) -> Bools:
    """Draw where failures that no annotation met may lie among (n, d) points, (count, n).

    The points nearest to one annotation are a region. L annotations that met no failure leave each region a probability
    pi of failing, Beta(1, L + 1): in about half of the draws nothing does.
    """
    regions = len(annotated)
    fails = rng.random((count, regions)) < rng.beta(1, regions + 1, count)[:, None]
    return np.asarray(fails[:, cKDTree(annotated).query(points)[1]])


def not_affine(points: Floats, mapped: Floats) -> Floats:
    """Return what an affine map leaves of the displacements of (n, d) points, (n, d)."""
    moved = mapped - points
    affine = np.column_stack([np.ones(len(points)), points - points.mean(axis=0)])
    return np.asarray(moved - affine @ np.linalg.lstsq(affine, moved, rcond=None)[0])
