"""Annotators that wrap others: with skips, with gross errors, and panels of experts whose answers are fused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.raters import fuse_raters
from warpgauge.errors import InvalidInputError
from warpgauge.simulate.annotators import ExpertAnnotator, random_direction
from warpgauge.simulate.answers import Annotator, Answer, checked_reason, positive, true_matches
from warpgauge.simulate.velocity import checked_rng


def _probability(value: float) -> None:
    if not 0 <= value <= 1:
        raise InvalidInputError(f"probability must lie between 0 and 1, got {value!r}.")


@dataclass(frozen=True)
class SkippingAnnotator(Annotator):
    """Answers as another annotator does, but skips with a probability, independently at each location.

    The other's answer is drawn first and then dropped, so that with the same seed the locations that are not skipped
    get the very answers that the other alone would give.

    Parameters
    ----------
    annotator : Annotator
        Who answers.
    probability : float
        Of a skip.
    reason : str
        One of `SKIP_REASONS`.
    """

    annotator: Annotator
    probability: float
    reason: str = "not_visible"

    def __post_init__(self) -> None:
        _probability(self.probability)
        checked_reason(self.reason)

    def answer(self, point: Floats, truth: Floats, rng: np.random.Generator) -> Answer:
        """Answer one location, see `Annotator.answer`."""
        given = self.annotator.answer(point, truth, rng)
        skips = rng.random() < self.probability
        return Answer.skip(self.reason) if skips else given


@dataclass(frozen=True)
class GrossErrorAnnotator(Annotator):
    """Answers as another annotator does, but puts some placements far off without knowing it.

    A gross error moves the other's placement by ``distance`` in a uniformly random direction; the stated covariance
    stays what it was. The other locations get the very answers that the other alone would give.

    Parameters
    ----------
    annotator : Annotator
        Who answers.
    probability : float
        Of a gross error, independently at each location that is not skipped.
    distance : float
        Length of the error, world units.
    """

    annotator: Annotator
    probability: float
    distance: float

    def __post_init__(self) -> None:
        _probability(self.probability)
        positive(self.distance, "distance")

    def answer(self, point: Floats, truth: Floats, rng: np.random.Generator) -> Answer:
        """Answer one location, see `Annotator.answer`."""
        given = self.annotator.answer(point, truth, rng)
        errs = rng.random() < self.probability
        offset = self.distance * random_direction(len(truth), rng)
        if given.placement is None or not errs:
            return given
        return Answer(given.placement + offset, given.covariance, gross=True)


@dataclass(frozen=True)
class ExpertPanel:
    """Several annotators whose placements are fused by :func:`warpgauge.fuse_raters`, as in the paper's COPDgene study.

    The uncertainty comes from how the placements scatter; what the single annotators state is not used.

    Parameters
    ----------
    experts : tuple of Annotator
        Two or more; they err independently of one another.
    method : {"pooled", "sample"}
        As for ``fuse_raters``. ``"sample"`` is the paper's, but with three experts in 3D its covariance is singular,
        so that it needs a ``floor``.
    floor : float, optional
        Smallest standard deviation in any direction, world units.
    covariance_of : {"placement", "mean"}
        As for ``fuse_raters``.
    """

    experts: tuple[Annotator, ...]
    method: Literal["pooled", "sample"] = "pooled"
    floor: float | None = None
    covariance_of: Literal["placement", "mean"] = "placement"

    def __post_init__(self) -> None:
        if len(self.experts) < 2 or not all(isinstance(expert, Annotator) for expert in self.experts):
            raise InvalidInputError("An ExpertPanel needs two or more annotators.")

    @classmethod
    def alike(cls, count: int, error_mean: float, error_sd: float, **fusion: Any) -> ExpertPanel:
        """``count`` experts with the same mean and standard deviation of error, see `ExpertAnnotator`."""
        return cls((ExpertAnnotator(error_mean, error_sd),) * count, **fusion)

    def placements(self, fixed_points: ArrayLike, true_map: Any, seed: int) -> Floats:
        """Return each expert's placements, (experts, n, d), NaN where skipped or where the truth is not defined."""
        points, truth = true_matches(fixed_points, true_map)
        out = np.full((len(self.experts), *points.shape), np.nan)
        for row in np.flatnonzero(np.isfinite(truth).all(axis=1)):
            for k, expert in enumerate(self.experts):
                given = expert.answer(points[row], truth[row], checked_rng(seed, int(row), k))
                if given.placement is not None:
                    out[k, row] = given.placement
        return out

    def annotate(self, fixed_points: ArrayLike, true_map: Any, seed: int) -> Annotations:
        """Return one fused annotation for each of (n, d) locations; those that nobody placed are left out."""
        points = np.asarray(fixed_points, dtype=np.float64)
        placed = self.placements(points, true_map, seed)
        kept = np.isfinite(placed[:, :, 0]).any(axis=0)
        if not kept.any():
            return Annotations.empty(points.shape[1])
        fused = fuse_raters(placed[:, kept], method=self.method, floor=self.floor, covariance_of=self.covariance_of)
        return Annotations(points[kept], fused.points, fused.covariances)
