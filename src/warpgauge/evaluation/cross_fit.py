"""Models of the truth that were each fitted without a fifth of the annotations, and how far those fifths lie from them.

The truth is drawn from these models, not from one fitted to all annotations: what is used is what was checked, and how
much the models differ from each other is part of what is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.factors import mahalanobis
from warpgauge.evaluation.error_model import ErrorModel, joint_samples
from warpgauge.evaluation.transforms import CandidateSet
from warpgauge.evaluation.widening import Widening

_FOLDS = 5
_SEED = 0


@dataclass(frozen=True, eq=False)
class CrossFit:
    """One model per fold; made by :meth:`CrossFit.of`.

    Attributes
    ----------
    models : tuple of ErrorModel
        Each fitted without its fold.
    residuals : (L, d) array
        What the annotations miss of the mean of the model that does not know them.
    squares : (L,) array
        Their standardised squares, ``r^T (C + f Sigma)^-1 r / d``: 1 on average where the models are right.
    """

    models: tuple[ErrorModel, ...]
    residuals: Floats
    squares: Floats

    @classmethod
    def of(cls, candidates: CandidateSet) -> CrossFit:
        """Fit without each fold of the candidates' annotations, drawn at random, and predict the fold."""
        given = candidates.fallback.annotations
        values = candidates.at(given.fixed_points)
        noise = candidates.fallback.prior.total_noise(given.covariances)
        L, d = given.fixed_points.shape
        fold_of = np.random.default_rng(_SEED).permutation(L) % min(_FOLDS, L)
        models, residuals, squares = [], np.empty((L, d)), np.empty(L)
        for fold in range(int(fold_of.max()) + 1):
            out = np.flatnonzero(fold_of == fold)
            model = ErrorModel.fit(candidates, np.flatnonzero(fold_of != fold), values)
            mean, covariance = model.moments(given.fixed_points[out], values[out])
            residuals[out] = given.moving_points[out] - mean
            squares[out] = mahalanobis(residuals[out], covariance + model.noise_factor * noise[out]) / d
            models.append(model)
        return cls(tuple(models), residuals, squares)

    @property
    def candidates(self) -> CandidateSet:
        """The transforms about whose median the truth is modelled."""
        return self.models[0].candidates

    @property
    def noise_factor(self) -> float:
        """Expected factor on the stated variances of the annotations."""
        return float(np.mean([model.noise_factor for model in self.models]))

    @cached_property
    def widening(self) -> Widening:
        """How far the truth strays from the models' means."""
        return Widening.of_squares(self.squares, self.residuals.shape[1])

    def mean(self, points: Floats) -> Floats:
        """Return the expected matches of (n, d) points."""
        here = self.candidates.at(points)
        return np.asarray(np.mean([model.mean_at(points, here) for model in self.models], axis=0))

    def sample(self, points: Floats, count: int, rng: np.random.Generator) -> Floats:
        """Draw joint samples of the true matches, (count, n, d), an equal share from each model, widened."""
        here = self.candidates.at(points)
        model_of = rng.permutation(np.arange(count) % len(self.models))
        samples = joint_samples(self.models, points, here, model_of, rng)
        means = np.stack([model.mean_at(points, here) for model in self.models])
        spread = self.widening.draw(points, count, rng)
        for row, at in enumerate(model_of):
            samples[row] = means[at] + spread[row][:, None] * (samples[row] - means[at])
        return samples
