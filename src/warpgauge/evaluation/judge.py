"""`judge`: a model of the true transformation, fitted to the annotations *and* to the transforms that are compared.

Scores, ranks and probabilities of an evaluation come from samples of this model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotation_budget import FurtherAnnotations, further_by_growth
from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.error_scores import ascending, norm_name
from warpgauge.core.parallel import only_one_thread, over_items
from warpgauge.core.process import Posterior
from warpgauge.core.sensitivity import Describer, Sensitivity, mean_squares, model_changes
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.columns import draws_of
from warpgauge.evaluation.comparison import Comparison, Scene
from warpgauge.evaluation.cross_fit import CrossFit
from warpgauge.evaluation.error_model import ErrorModel
from warpgauge.evaluation.evidence import Evidence
from warpgauge.evaluation.flags import Flag, gross_errors, too_good
from warpgauge.evaluation.paper_judge import PaperJudge
from warpgauge.evaluation.truth import Judgement, Truth

CENTRES = ("candidates", "prior")
FEWEST = 4
_ERROR_SAMPLES = 200
_MOST_POINTS = 500
_MOST_GROUPS = 40
_LEAD_SAMPLES = 200


def judge(posterior: Posterior, transforms: Mapping[str, Any], *, units: str | None = None) -> Truth:
    """Return the model of the true transformation by which transforms are evaluated.

    With fewer than four annotations the transforms cannot be compared at the annotations; they are then judged by the
    posterior alone, as in the paper.

    Parameters
    ----------
    posterior : Posterior
        What the annotations say; preferably from `warpgauge.default_posterior`.
    transforms : mapping of name to transform
        All transforms to compare: objects with ``map``, or callables. They must not have seen the annotations. The
        identity is scored but not used to estimate the truth, so adding it as a baseline changes no other score.
    units : str, optional
        World unit, for the sentences of flags.
    """
    if not transforms or len(posterior.annotations) < FEWEST:
        return PaperJudge(posterior)
    return judge_of(Comparison.of(transforms, None, posterior, scene=Scene(units=units)))


def judge_of(comparison: Comparison) -> Truth:
    """Return the model of the true transformation by which the transforms of a comparison are evaluated."""
    if not comparison.transforms or len(comparison.annotations) < FEWEST:
        return PaperJudge(comparison.posterior)
    still = [bool(np.array_equal(one, comparison.annotations.fixed_points)) for one in comparison.values.annotations]
    every = list(comparison.transforms)
    guesses = [name for name, nothing in zip(every, still, strict=True) if not nothing]
    flags = too_good(comparison)
    others = _not_flagged(guesses, flags)
    if flags and others:
        # Experts may draw ellipses that are too large: test again with the noise that the other transforms suggest.
        flags = too_good(comparison, ErrorModel.fit(Evidence.of(comparison.among(others))).believed_noise)
    # If all are flagged, the stated noise is more likely to be wrong than all transforms.
    trusted = _not_flagged(guesses, flags) or guesses or every
    evidence = Evidence.of(comparison.among(trusted))
    flags = (*_with_use(flags, trusted), *gross_errors(evidence.comparison))
    return Judge(comparison, CrossFit.of(evidence), flags)


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
    """

    comparison: Comparison
    fitted: CrossFit
    flags: tuple[Flag, ...]

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
        found = Comparison.of(transforms, targets, self.posterior, scene=self.comparison.scene)
        if set(found.transforms) == set(self.comparison.transforms) and self.comparison.holds(found.transforms):
            return self.comparison.over(found.targets).among(found.transforms)
        return found

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

    def judgement(self, comparison: Comparison, norms: Sequence[float], draws: Mapping[str, Floats]) -> Judgement:
        """Score by the medians of the draws, and count in how many of them one transform beats another.

        Distances from the model's mean are not used: the mean lies near the leading transform and would favour it.
        """
        scores = {norm_name(p): np.median(draws[draws_of(norm_name(p))], axis=0) for p in norms}
        rms = draws["rms"]
        return Judgement(scores, np.mean(np.square(rms), axis=0), _won(rms), ascending(np.median(rms, axis=0)))

    def expected_errors(self, comparison: Comparison) -> Floats:
        """Median over samples of the error of each transform at every target, (K, n)."""
        samples = self.sample_over(comparison, _ERROR_SAMPLES)
        return np.stack([np.median(np.linalg.norm(samples - one, axis=2), axis=0) for one in comparison.values.targets])

    def further(
        self, judgement: Judgement, comparison: Comparison, *, cap: int, samples: int, seed: int = 0
    ) -> FurtherAnnotations:
        """Estimate how many more annotations would decide the ranking, from how evidence grows with their number."""
        return further_by_growth(judgement.order, judgement.win, len(self.annotations), cap, samples)

    def sensitivity(self, comparison: Comparison, *, factor: float) -> Sensitivity:
        """Rank again by models refitted with other kernels, with other noise, and without some annotations.

        The model averages over the size of the error, so it has no kernel weights to change. At most 500 targets are
        used. Annotations are left out in at most 40 groups; with up to 40 annotations, each group is one annotation.
        """
        part = comparison.part(_MOST_POINTS, 0)
        guesses, mapped = self.fitted.evidence.comparison, part.values.targets

        def squares(known: Comparison) -> Floats:
            model = ErrorModel.fit(Evidence.of(known))
            return mean_squares(mapped, model.mean(part.targets, model.evidence.over(part)))

        describe = Describer(list(part.transforms), squares(guesses))
        variations = []
        for code, name, changed in model_changes(self.posterior, factor):
            if code != "weights":
                other = ErrorModel.fit(Evidence.of(guesses.given(changed())))
                here = other.evidence.over(part)
                lead = None
                if len(mapped) > 1:
                    samples = other.sample(part.targets, here, _LEAD_SAMPLES, np.random.default_rng(0))
                    lead = _lead(samples, mapped, describe.best)
                variations.append(describe(name, code, mean_squares(mapped, other.mean(part.targets, here)), lead))
        groups = _groups(len(self.annotations))
        left = np.empty((len(groups), len(part.transforms)))

        def leave_out(item: int) -> None:
            with only_one_thread():
                left[item] = squares(guesses.without(groups[item]))

        over_items(lambda: leave_out, len(groups))
        for group, found in zip(groups, left, strict=True):
            numbers = ", ".join(str(row + 1) for row in np.sort(group))
            name = f"without annotation{'s' if len(group) > 1 else ''} {numbers}"
            variations.append(describe(name, "left_out", found, None))
        return Sensitivity(tuple(describe.names[k] for k in describe.order), tuple(variations))


def _groups(count: int) -> list[Any]:
    """Split rows of annotations into groups that can be left out in turn."""
    every = np.array_split(np.argsort(np.arange(count) % _MOST_GROUPS), min(count, _MOST_GROUPS))
    return [group for group in every if count - len(group) >= FEWEST]


def _lead(samples: Floats, mapped: Floats, best: int) -> float:
    """Smallest share of the samples in which the best transform beats another one."""
    lengths = np.linalg.norm(samples[:, None] - mapped, axis=3)
    rms = np.sqrt(np.mean(np.square(lengths), axis=2))
    ahead = (rms[:, best, None] < rms).mean(axis=0)
    return float(np.delete(ahead, best).min())


def _won(draws: Floats) -> Floats:
    """Share of the draws in which the row's value is below the column's; half of those where they are equal."""
    below = draws[:, :, None] < draws[:, None, :]
    equal = draws[:, :, None] == draws[:, None, :]
    return np.asarray(below.mean(axis=0) + 0.5 * equal.mean(axis=0))
