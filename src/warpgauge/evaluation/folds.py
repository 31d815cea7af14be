"""Models of the truth that were each fitted without a fifth of the annotations, and how far those fifths lie from them.

The truth is drawn from these models, not from one fitted to all annotations: what is used is what was checked, and how
much the models differ from each other is part of what is not known.

`Widening` corrects the models' spread by the annotations that each was not fitted to. Their standardised squared
residuals, ``r^T (C + f Sigma)^-1 r / d``, are taken as ``c F(d, nu)`` with a common factor c and tails nu. Both have a
prior (log c about 0 with SD 1, log(nu - 2) about log 6 with SD 1) and are integrated out on a grid. Draws of the truth
are then widened about their mean by ``sqrt(c w(x))`` with ``w = nu / chi^2_nu``, one w for each of as many regions as
there are annotations: a failure may reach as far as the gap between two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from warpgauge.core.arrays import Floats
from warpgauge.evaluation.error_model import ErrorModel, joint_samples
from warpgauge.evaluation.evidence import Evidence, EvidenceValues

_LOG_FACTOR_SD = 1.0
_LOG_TAILS, _LOG_TAILS_SD = float(np.log(6.0)), 1.0
_LOG_FACTORS = np.linspace(-3.5, 3.5, 71)
_TAILS = 2 + np.exp(_LOG_TAILS + _LOG_TAILS_SD * np.linspace(-2.5, 2.5, 21))
_FOLDS = 5
_SEED = 0


@dataclass(frozen=True, eq=False)
class Widening:
    """Posterior of the factor c and the tails nu.

    Attributes
    ----------
    squares : (L,) array
        Standardised squared residuals of the cross-fitted annotations; 1 on average where the models are right.
    logs : (L, 71, 21) array
        Log density of each on the grid of log c and nu.
    d : int
    """

    squares: Floats
    logs: Floats
    d: int

    @classmethod
    def of_squares(cls, squares: Floats, d: int) -> Widening:
        """Weigh the grid by standardised squared residuals in d dimensions."""
        relative = np.maximum(squares[:, None, None] / np.exp(_LOG_FACTORS)[:, None], 1e-12)
        return cls(squares, _log_f_density(relative, d, _TAILS) - _LOG_FACTORS[:, None], d)

    @property
    def weights(self) -> Floats:
        """Weights (71, 21) of the grid of log c and nu; they add up to 1."""
        return _normalised(self.logs.sum(axis=0))

    @cached_property
    def levels(self) -> Floats:
        """Probability (L,) of the region about its prediction that just holds each annotation.

        The factor and the tails are those that the other annotations show.
        """
        others = _normalised(self.logs.sum(axis=0) - self.logs)
        relative = self.squares[:, None, None] / np.exp(_LOG_FACTORS)[:, None]
        return np.asarray((others * special.fdtr(self.d, _TAILS, relative)).sum(axis=(1, 2)))

    @property
    def factor(self) -> float:
        """Typical factor c on the squares."""
        return float(np.exp(self.weights.sum(axis=1) @ _LOG_FACTORS))

    def draw(self, points: Floats, count: int, rng: np.random.Generator) -> Floats:
        """Draw ``sqrt(c w(x))`` at (n, d) points, (count, n)."""
        weights = self.weights
        chosen = rng.choice(weights.size, count, p=weights.reshape(-1))
        factors = np.exp(_LOG_FACTORS)[chosen // len(_TAILS)]
        tails = _TAILS[chosen % len(_TAILS)]
        regions = min(len(self.squares), len(points))
        drawn = np.empty((count, len(points)))
        for row, (factor, nu) in enumerate(zip(factors, tails, strict=True)):
            seeds = points[rng.choice(len(points), regions, replace=False)]
            # Nearest seed: |x|^2 is the same for all.
            nearest = np.argmin(np.square(seeds).sum(axis=1) - 2 * points @ seeds.T, axis=1)
            drawn[row] = np.sqrt(factor * nu / rng.chisquare(nu, regions))[nearest]
        return drawn


def _normalised(logs: Floats) -> Floats:
    """Return weights (..., 71, 21) of log likelihoods with the prior of the grid."""
    prior = np.square(_LOG_FACTORS / _LOG_FACTOR_SD)[:, None]
    prior = prior + np.square((np.log(_TAILS - 2) - _LOG_TAILS) / _LOG_TAILS_SD)
    total = logs - 0.5 * prior
    weights = np.exp(total - total.max(axis=(-2, -1), keepdims=True))
    return np.asarray(weights / weights.sum(axis=(-2, -1), keepdims=True))


def _log_f_density(values: Floats, d: int, nu: Floats) -> Floats:
    """Log density of Fisher's F with d and nu degrees of freedom."""
    constant = special.gammaln((d + nu) / 2) - special.gammaln(d / 2) - special.gammaln(nu / 2) + d / 2 * np.log(d / nu)
    return np.asarray(constant + (d / 2 - 1) * np.log(values) - (d + nu) / 2 * np.log1p(d * values / nu))


@dataclass(frozen=True, eq=False)
class Folds:
    """One model per fold; made by :meth:`Folds.of`.

    Attributes
    ----------
    models : tuple of ErrorModel
        Each fitted without its fold.
    residuals, standardised : (L, d) array
        What the annotations miss of the mean of the model that does not know them, in world units and whitened.
    """

    models: tuple[ErrorModel, ...]
    residuals: Floats
    standardised: Floats

    @classmethod
    def of(cls, evidence: Evidence) -> Folds:
        """Fit without each fold of the annotations, drawn at random, and predict the fold."""
        annotations = evidence.posterior.annotations
        values = evidence.at_annotations
        noise = evidence.posterior.prior.total_noise(annotations.covariances)
        L, d = annotations.fixed_points.shape
        fold_of = np.random.default_rng(_SEED).permutation(L) % min(_FOLDS, L)
        models = []
        residuals = np.empty((L, d))
        standardised = np.empty((L, d))
        for fold in range(int(fold_of.max()) + 1):
            rows = np.flatnonzero(fold_of == fold)
            model = ErrorModel.fit(evidence, np.flatnonzero(fold_of != fold))
            mean, covariance = model.moments(annotations.fixed_points[rows], values[rows])
            residuals[rows] = annotations.moving_points[rows] - mean
            root = np.linalg.cholesky(covariance + model.noise_factor * noise[rows])
            standardised[rows] = np.linalg.solve(root, residuals[rows][:, :, None])[:, :, 0]
            models.append(model)
        return cls(tuple(models), residuals, standardised)

    @property
    def evidence(self) -> Evidence:
        """The transforms about whose median the truth is modelled."""
        return self.models[0].evidence

    @property
    def squares(self) -> Floats:
        """Standardised squared residuals (L,): 1 on average where the models are right."""
        return np.asarray(np.square(self.standardised).mean(axis=1))

    @cached_property
    def widening(self) -> Widening:
        """How far the truth strays from the models' means."""
        return Widening.of_squares(self.squares, self.residuals.shape[1])

    @cached_property
    def whole(self) -> ErrorModel:
        """The model of all annotations."""
        return ErrorModel.fit(self.evidence)

    def draws(
        self, models: Sequence[ErrorModel], points: Floats, here: EvidenceValues, count: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Draw joint true matches (count, n, d), an equal share from each model, widened; return also their mean.

        ``here`` is what the transforms say at the (n, d) points.
        """
        model_of = rng.permutation(np.arange(count) % len(models))
        truth = joint_samples(models, points, here, model_of, rng)
        means = np.stack([model.mean(points, here) for model in models])
        spread = self.widening.draw(points, count, rng)
        for row, at in enumerate(model_of):
            truth[row] = means[at] + spread[row][:, None] * (truth[row] - means[at])
        return truth, means.mean(axis=0)
