"""`judge`: a model of the true transformation, fitted to the annotations and to registrations.

Scores, ranks and probabilities of an evaluation come from samples of this model. With a panel, the registrations are
its references, which never saw an annotation: what is said of a method then depends on the annotations, the panel and
the method alone. Without one they are the transforms that are compared, so that sizes depend on the company.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Bools, Floats, as_points
from warpgauge.core.error_scores import ascending, norm_name
from warpgauge.core.process import Posterior
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.columns import draws_of
from warpgauge.evaluation.comparison import Comparison, Scene
from warpgauge.evaluation.cross_fit import CrossFit
from warpgauge.evaluation.error_model import ErrorModel
from warpgauge.evaluation.evidence import Evidence
from warpgauge.evaluation.flags import LEAK, Flag, common_offset, gross_errors, leak_flag, too_good
from warpgauge.evaluation.leaks import tested
from warpgauge.evaluation.panel import Hearing, heard, missed_failures, not_affine, sized
from warpgauge.evaluation.paper_judge import PaperJudge
from warpgauge.evaluation.truth import Judgement, Truth, TruthDraws

CENTRES = ("candidates", "prior")
FEWEST = 4
_ERROR_SAMPLES = 200


def judge(
    posterior: Posterior,
    transforms: Mapping[str, Any],
    *,
    panel: Sequence[str] | Mapping[str, Any] | None = None,
    sealed: Annotations | None = None,
    units: str | None = None,
) -> Truth:
    """Return the model of the true transformation by which transforms are evaluated.

    With fewer than four annotations the transforms cannot be compared at the annotations; they are then judged by the
    posterior alone, as in the paper.

    Parameters
    ----------
    posterior : Posterior
        What the open annotations say; preferably from `warpgauge.default_posterior`.
    transforms : mapping of name to transform
        All transforms to compare: objects with ``map``, or callables. They must not have seen the annotations. The
        identity is scored but not used to estimate the truth, so adding it as a baseline changes no other score.
    panel : sequence of str or mapping of name to transform, optional
        References that never saw an annotation: names among the transforms, or others. With a panel, a method's score,
        interval and flags depend on the annotations, the panel and the method alone.
    sealed : Annotations, optional
        Annotations that no transform can have seen. They test every method for a leak (`leak_tests`) and count in
        every score.
    units : str, optional
        World unit, for the sentences of flags.
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
    if not every or len(posterior.annotations) + (0 if sealed is None else len(sealed)) < FEWEST:
        return PaperJudge(posterior if sealed is None else posterior.append(sealed))
    return judge_of(Comparison.of(every, None, posterior, panel=names, sealed=sealed, scene=Scene(units=units)))


def judge_of(comparison: Comparison, fit: Callable[[Evidence], CrossFit] = CrossFit.of) -> Truth:
    """Return the model of the true transformation by which the transforms of a comparison are evaluated.

    Sealed answers test for leaks first; from then on they count like the others. ``fit`` is how the model is fitted.
    """
    leaks, given = tested(comparison), comparison.opened()
    if not given.transforms or len(given.annotations) < FEWEST:
        return PaperJudge(given.posterior)
    still = [bool(np.array_equal(one, given.annotations.fixed_points)) for one in given.values.annotations]
    every = list(given.transforms)
    guesses = [name for name, nothing in zip(every, still, strict=True) if not nothing]
    panel = [name for name in given.panel if name in guesses]
    leaked = tuple(leak_flag(name, test) for name, test in leaks.items() if test.leaked)
    methods = [name for name in every if name not in panel]
    flags = too_good(given.among(methods)) if methods else ()
    others = panel or _not_flagged(guesses, (*flags, *leaked))
    if flags and others:
        # Experts may draw ellipses that are too large: test again with the noise that the other transforms suggest.
        noise = ErrorModel.fit(Evidence.of(given.among(others))).believed_noise
        flags = too_good(given.among(methods), noise)
    # If all are flagged, the stated noise is more likely to be wrong than all transforms.
    trusted = panel or _not_flagged(guesses, (*flags, *leaked)) or guesses or every
    evidence = Evidence.of(given.among(trusted))
    known = evidence.comparison
    flags = (*leaked, *_with_use(flags, trusted), *gross_errors(known), *common_offset(known))
    nothing = {name for name, one in zip(every, still, strict=True) if one}
    passed = {name for name, test in leaks.items() if not test.leaked}
    return Judge(given, fit(evidence), flags, tuple(panel), frozenset({*panel, *nothing, *passed}))


def _with_use(flags: Sequence[Flag], trusted: Sequence[str]) -> list[Flag]:
    """Add to each flagged transform whether it is used to estimate the true transformation."""
    return [replace(one, numbers={**one.numbers, "used": float(one.transform in trusted)}) for one in flags]


def _not_flagged(names: Sequence[str], flags: Sequence[Flag]) -> list[str]:
    suspect = {flag.transform for flag in flags}
    return [name for name in names if name not in suspect]


@dataclass(frozen=True, eq=False)
class Judge:
    """A model of the true transformation, made by `judge` from the annotations and the transforms.

    Attributes
    ----------
    comparison : Comparison
        The transforms and the annotations that it was made from.
    fitted : CrossFit
        Models of the truth, centred at the median of the transforms that are not flagged.
    flags : tuple of warpgauge.evaluation.Flag
        What a person should look at before any ranking.
    panel : tuple of str
        References that the model rests on; empty where it rests on all transforms that are not flagged.
    vetted : frozenset of str
        Transforms that cannot have seen the annotations: the panel, those that passed the leak test, and the identity.
    """

    comparison: Comparison
    fitted: CrossFit
    flags: tuple[Flag, ...]
    panel: tuple[str, ...] = ()
    vetted: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        known = counted(len(self.annotations), "annotation")
        return f"<Judge: {self.d}D, {counted(len(self.comparison.transforms), 'transform')}, from {known}>"

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
    def candidate_weights(self) -> dict[str, float]:
        """Weight of each transform in the median at which the model is centred; the weights add up to 1.

        Transforms that are not used, and copies of a transform listed before, have no entry.
        """
        found = self.fitted.evidence
        return dict(zip(found.names, (found.weights / found.weights.sum()).tolist(), strict=True))

    def compared(self, transforms: Mapping[str, object], targets: ArrayLike) -> Comparison:
        """Return the comparison of transforms over targets; those that this model knows keep their values."""
        panel = tuple(name for name in self.panel if name in transforms)
        found = Comparison.of(transforms, targets, self.posterior, panel=panel, scene=self.comparison.scene)
        if set(found.transforms) == set(self.comparison.transforms) and self.comparison.holds(found.transforms):
            return self.comparison.over(found.targets).among(found.transforms)
        return found

    @property
    def disqualified(self) -> frozenset[str]:
        """Transforms that have seen annotations, by the leak test."""
        return frozenset(flag.transform for flag in self.flags if flag.kind == LEAK and flag.transform is not None)

    def without_flagged(self) -> Truth | None:
        """Return the judge fitted without the annotations flagged as gross errors, or None if none is flagged."""
        rows = [flag.row for flag in self.flags if flag.row is not None]
        return judge_of(self.comparison.without(rows)) if rows else None

    def mean(self, points: ArrayLike) -> Floats:
        """Return the expected true matches of (n, d) points."""
        at = as_points(points, "points", self.d)
        return self.fitted.mean(at, self.fitted.evidence.at(at))

    def mean_over(self, comparison: Comparison) -> Floats:
        """Return the expected true matches of a comparison's targets, (n, d)."""
        return self.fitted.mean(comparison.targets, self.fitted.evidence.over(comparison))

    def sample(self, points: ArrayLike, count: int, seed: int = 0) -> Floats:
        """Draw joint samples of the true matches of (n, d) points, (count, n, d)."""
        at = as_points(points, "points", self.d)
        if int(count) != count or count < 0:
            raise InvalidInputError(f"sample needs a whole number of samples, got {count!r}.")
        return self.fitted.sample(at, self.fitted.evidence.at(at), int(count), np.random.default_rng(seed))

    def sample_over(self, comparison: Comparison, count: int, seed: int = 0) -> Floats:
        """Draw joint samples of the true matches of a comparison's targets, (count, n, d)."""
        here = self.fitted.evidence.over(comparison)
        return self.fitted.sample(comparison.targets, here, count, np.random.default_rng(seed))

    def draws_over(self, comparison: Comparison, count: int, seed: int = 0) -> tuple[TruthDraws, TruthDraws]:
        """Draw the truth at a comparison's targets: by five models for sizes, by one of all annotations for calls.

        With a panel, each method has draws of its own.
        """
        fitted, here, at = self.fitted, self.fitted.evidence.over(comparison), comparison.targets
        sizes = self.sample_over(comparison, count, seed)
        calls = fitted.compare(at, here, count, np.random.default_rng([seed, 3]))
        failed = missed_failures(at, self.annotations.fixed_points, count, np.random.default_rng([seed, 1]))
        # Where a registration fails, its error is about as large as the deformation itself, and independent of it.
        failure = 2 * np.square(not_affine(at, self.posterior.mean(at))).sum(axis=1)
        if not self.panel:
            return TruthDraws(comparison, sizes, failed, failure), TruthDraws(comparison, calls, failed, failure)
        return (
            PanelDraws(comparison, sizes, failed, failure, judge=self, mean=fitted.mean(at, here), seed=seed),
            PanelDraws(comparison, calls, failed, failure, judge=self, mean=fitted.whole_mean(at, here), seed=seed),
        )

    def hearing(self, values: Floats) -> Hearing:
        """Return how far the truth goes along with a method, from its (L, d) values at the annotations."""
        expected = self.annotations.moving_points - self.fitted.residuals
        return Hearing.of(values - expected, self.fitted.residuals, self.fitted.squares)

    def comparable(self, names: Iterable[str]) -> Bools:
        """Return which transforms the one model of all annotations may compare: beside a panel the vetted ones.

        A transform that has seen the annotations is near that model's mean, which knows them as well; of the five
        models, one knows nothing of each annotation.
        """
        return np.array([not self.panel or name in self.vetted for name in names], dtype=bool)

    def judgement(
        self, comparison: Comparison, norms: Sequence[float], draws: Mapping[str, Floats], calls: Floats, sound: Bools
    ) -> Judgement:
        """Score by the medians of the sound draws, and count in how many of all one transform beats another.

        Distances from the model's mean are not used: the mean lies near the leading transform and would favour it.
        """
        # A failure that nobody met is less likely than none: it widens the interval and leaves the score.
        scores = {norm_name(p): np.median(draws[draws_of(norm_name(p))][sound], axis=0) for p in norms}
        rms, able = draws["rms"], self.comparable(comparison.transforms)
        win = np.where(able[:, None] & able, _won(calls), _won(rms))
        return Judgement(scores, np.mean(np.square(rms), axis=0), win, ascending(np.median(rms[sound], axis=0)))

    def expected_errors(self, comparison: Comparison) -> Floats:
        """Median over samples of the error of each transform at every target, (K, n)."""
        samples = self.sample_over(comparison, _ERROR_SAMPLES)
        return np.stack([np.median(np.linalg.norm(samples - one, axis=2), axis=0) for one in comparison.counted])


@dataclass(frozen=True, eq=False)
class PanelDraws(TruthDraws):
    """Draws of the truth by a panel's model; each method is heard by its own residuals at the annotations."""

    judge: Judge = field(kw_only=True)
    mean: Floats = field(kw_only=True)
    seed: int = field(kw_only=True)

    def lengths(self, k: int) -> tuple[Floats, Floats]:
        """Return the errors (S, n) of transform k, heard and unheard."""
        # The same random numbers for every method: copies are heard alike, and nothing depends on the company.
        rng, given, values = np.random.default_rng([self.seed, 2]), self.judge.annotations, self.comparison.values
        slopes = self.judge.hearing(values.annotations[k]).draw(len(self.samples), rng)
        squares = self.squares(heard(self.samples, self.mean, self.comparison.counted[k], slopes), k)
        stated = self.judge.posterior.prior.total_noise(given.covariances)
        means, noise = squares.mean(axis=1), float(np.mean(np.trace(stated, axis1=1, axis2=2)))
        wanted = sized(means, values.annotations[k] - given.moving_points, noise, squares.shape[1])
        known = self.lengths_of(squares * (wanted / np.where(means > 0, means, 1.0))[:, None])
        if list(self.comparison.transforms)[k] in self.judge.vetted:
            return known, known
        return known, self.lengths_of(self.squares(self.samples, k))


def _won(draws: Floats) -> Floats:
    """Share of the draws in which the row's value is below the column's; half of those where they are equal."""
    below = draws[:, :, None] < draws[:, None, :]
    equal = draws[:, :, None] == draws[:, None, :]
    return np.asarray(below.mean(axis=0) + 0.5 * equal.mean(axis=0))
