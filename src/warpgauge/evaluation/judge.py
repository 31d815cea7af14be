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
from warpgauge.core.error_scores import Flag, Judgement, Truth, ascending, norm_name
from warpgauge.core.parallel import only_one_thread, over_items
from warpgauge.core.process import Posterior
from warpgauge.core.sensitivity import Describer, Sensitivity, mean_squares, model_changes
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.columns import draws_of
from warpgauge.evaluation.cross_fit import CrossFit
from warpgauge.evaluation.error_model import ErrorModel
from warpgauge.evaluation.transforms import CandidateSet, Remembered, converted, function_of, mapped_points
from warpgauge.evaluation.trust import gross_errors, too_good

CENTRES = ("candidates", "prior")
FEWEST = 4
_ERROR_SAMPLES = 200
_MOST_POINTS = 500
_MOST_GROUPS = 40
_LEAD_SAMPLES = 200


def judge(posterior: Posterior, transforms: Mapping[str, Any], *, units: str | None = None) -> Truth:
    """Return the model of the true transformation by which transforms are evaluated.

    With fewer than four annotations the transforms cannot be compared at the annotations; the posterior is then
    returned unchanged.

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
    transforms = converted(transforms)
    if not transforms or len(posterior.annotations) < FEWEST:
        return posterior
    guesses = {name: one for name, one in transforms.items() if not _does_nothing(name, one, posterior)}
    flags = too_good(transforms, posterior.annotations)
    others = _not_flagged(guesses, flags)
    if flags and others:
        # Experts may draw ellipses that are too large: test again with the noise that the other transforms suggest.
        noise = ErrorModel.fit(CandidateSet(others, posterior)).believed_noise
        flags = too_good(transforms, posterior.annotations, noise)
    # If all are flagged, the stated noise is more likely to be wrong than all transforms.
    trusted = _not_flagged(guesses, flags) or guesses or dict(transforms)
    candidates = CandidateSet(trusted, posterior)
    flags = (*_with_use(flags, trusted), *gross_errors(candidates.transforms, posterior.annotations, units))
    return Judge(posterior, dict(transforms), CrossFit.of(candidates), flags, units)


def _with_use(flags: Sequence[Flag], trusted: Mapping[str, Any]) -> list[Flag]:
    """Add to the sentence of each flagged transform whether it is used to estimate the true transformation."""
    used = "It is still used to estimate the true transformation, because all registrations are flagged."
    unused = "It is scored, but not used to estimate the true transformation."
    return [
        replace(flag, sentence=f"{flag.sentence} {used if flag.transform in trusted else unused}") for flag in flags
    ]


def _not_flagged(transforms: Mapping[str, Any], flags: Sequence[Flag]) -> dict[str, Any]:
    suspect = {flag.transform for flag in flags}
    return {name: one for name, one in transforms.items() if name not in suspect}


def _does_nothing(name: str, transform: Any, posterior: Posterior) -> bool:
    """Return whether a transform leaves every annotated point where it is."""
    points = posterior.annotations.fixed_points
    return function_of(transform) is not None and np.array_equal(mapped_points(name, transform, points), points)


@dataclass(frozen=True, eq=False)
class Judge:
    """A model of the true transformation, made by `judge` from the annotations and the transforms.

    Attributes
    ----------
    posterior : Posterior
        What the annotations alone say.
    transforms : dict
        All transforms that are evaluated.
    fitted : CrossFit
        Models of the truth, centred at the median of the transforms that are not flagged.
    flags : tuple of warpgauge.evaluation.Flag
        What a person should look at before any ranking.
    units : str or None
        World unit, for the sentences of flags.
    """

    posterior: Posterior
    transforms: dict[str, Any]
    fitted: CrossFit
    flags: tuple[Flag, ...]
    units: str | None = None

    def __repr__(self) -> str:
        known = counted(len(self.annotations), "annotation")
        return f"<Judge: {self.d}D, {counted(len(self.transforms), 'transform')}, from {known}>"

    @property
    def d(self) -> int:
        """Dimension."""
        return self.posterior.d

    @property
    def annotations(self) -> Annotations:
        """The annotations that the model knows."""
        return self.posterior.annotations

    @property
    def candidate_weights(self) -> dict[str, float]:
        """Weight of each transform in the median at which the model is centred; the weights add up to 1.

        Transforms that are not used, and copies of a transform listed before, have no entry.
        """
        found = self.fitted.candidates
        return dict(zip(found.transforms, (found.weights / found.weights.sum()).tolist(), strict=True))

    def without_flagged(self) -> Truth | None:
        """Return the judge fitted without the annotations flagged as gross errors, or None if none is flagged."""
        rows = [flag.row for flag in self.flags if flag.kind == "gross_error"]
        if not rows:
            return None
        kept = np.setdiff1d(np.arange(len(self.annotations)), np.array(rows, dtype=np.int64))
        posterior = self.posterior.prior.condition(self.annotations[kept], calibrate=self.posterior.calibrates)
        return judge(posterior, self.transforms, units=self.units)

    def mean(self, points: ArrayLike) -> Floats:
        """Return the expected true matches of (n, d) points."""
        return self.fitted.mean(as_points(points, "points", self.d))

    def sample(self, points: ArrayLike, count: int, seed: int = 0) -> Floats:
        """Draw joint samples of the true matches, (count, n, d)."""
        at = as_points(points, "points", self.d)
        if int(count) != count or count < 0:
            raise InvalidInputError(f"sample needs a whole number of samples, got {count!r}.")
        return self.fitted.sample(at, int(count), np.random.default_rng(seed))

    def judgement(
        self, points: Floats, mapped: Floats, norms: Sequence[float], draws: Mapping[str, Floats]
    ) -> Judgement:
        """Score by the medians of the draws, and count in how many of them one transform beats another.

        Distances from the model's mean are not used: the mean lies near the leading transform and would favour it.
        """
        scores = {norm_name(p): np.median(draws[draws_of(norm_name(p))], axis=0) for p in norms}
        rms = draws["rms"]
        return Judgement(scores, np.mean(np.square(rms), axis=0), _won(rms), ascending(np.median(rms, axis=0)))

    def expected_errors(self, points: Floats, mapped: Floats) -> Floats:
        """Median over samples of the error of each transform at every point, (K, n)."""
        samples = self.sample(points, _ERROR_SAMPLES)
        return np.stack([np.median(np.linalg.norm(samples - one, axis=2), axis=0) for one in mapped])

    def further(
        self,
        judgement: Judgement,
        points: Floats,
        mapped: Floats,
        *,
        cap: int,
        samples: int,
        seed: int = 0,
        candidates: ArrayLike | None = None,
    ) -> FurtherAnnotations:
        """Estimate how many more annotations would decide the ranking, from how evidence grows with their number."""
        return further_by_growth(judgement.order, judgement.win, len(self.annotations), cap, samples)

    def sensitivity(self, names: Sequence[str], points: Floats, mapped: Floats, *, factor: float) -> Sensitivity:
        """Rank again by models refitted with other kernels, with other noise, and without some annotations."""
        return _sensitivity(self.posterior, self.fitted.candidates.transforms, names, points, mapped, factor=factor)


def _won(draws: Floats) -> Floats:
    """Share of the draws in which the row's value is below the column's; half of those where they are equal."""
    below = draws[:, :, None] < draws[:, None, :]
    equal = draws[:, :, None] == draws[:, None, :]
    return np.asarray(below.mean(axis=0) + 0.5 * equal.mean(axis=0))


def _sensitivity(
    posterior: Posterior,
    guesses: Mapping[str, Any],
    names: Sequence[str],
    points: Floats,
    mapped: Floats,
    *,
    factor: float,
    seed: int = 0,
) -> Sensitivity:
    """Rank by a model that is refitted for every change.

    The model averages over the size of the error, so it has no kernel weights to change. At most 500 targets are used.
    Annotations are left out in at most 40 groups; with up to 40 annotations, each group is one annotation.
    """
    if len(points) > _MOST_POINTS:
        rows = np.sort(np.random.default_rng(seed).choice(len(points), _MOST_POINTS, replace=False))
        points, mapped = points[rows], mapped[:, rows]
    remembered = {name: Remembered(name, one) for name, one in guesses.items()}

    def model(known: Posterior) -> ErrorModel:
        return ErrorModel.fit(CandidateSet(remembered, known))

    def squares(known: Posterior) -> Floats:
        return mean_squares(mapped, model(known).mean(points))

    describe = Describer(list(names), squares(posterior))
    variations = []
    for name, kind, changed in model_changes(posterior, factor):
        if name.startswith("kernel weights"):
            continue
        other = model(changed())
        lead = None
        if len(names) > 1:
            samples = other.sample(points, other.candidates.at(points), _LEAD_SAMPLES, np.random.default_rng(seed))
            lengths = np.linalg.norm(samples[:, None] - mapped, axis=3)
            rms = np.sqrt(np.mean(np.square(lengths), axis=2))
            ahead = (rms[:, describe.best, None] < rms).mean(axis=0)
            lead = float(np.delete(ahead, describe.best).min())
        variations.append(describe(name, kind, mean_squares(mapped, other.mean(points)), lead))
    given = posterior.annotations
    groups = np.array_split(np.argsort(np.arange(len(given)) % _MOST_GROUPS), min(len(given), _MOST_GROUPS))
    groups = [group for group in groups if len(given) - len(group) >= FEWEST]
    without = np.empty((len(groups), len(names)))

    def leave_out(item: int) -> None:
        kept = given[np.setdiff1d(np.arange(len(given)), groups[item])]
        with only_one_thread():
            without[item] = squares(posterior.prior.condition(kept))

    over_items(lambda: leave_out, len(groups))
    for group, found in zip(groups, without, strict=True):
        numbers = ", ".join(str(row + 1) for row in np.sort(group))
        name = f"without annotation{'s' if len(group) > 1 else ''} {numbers}"
        variations.append(describe(name, "left out", found, None))
    return Sensitivity(tuple(describe.names[k] for k in describe.order), tuple(variations))
