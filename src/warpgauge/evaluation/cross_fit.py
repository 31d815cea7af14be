"""Models of the truth that were each fitted without a fifth of the annotations, and how far those fifths lie from them.

For the sizes of errors the truth is drawn from these models, not from one fitted to all annotations: what is used is
what was checked, and how much the models differ from each other is part of what is not known. For the question which of
two transforms is better, `CrossFit.compare` draws from one model of all annotations, widened by the squares of the
cross-fitted residuals with random weights (a Bayesian bootstrap) and, from few annotations, by 14 over their number: it
names the best with fewer annotations (docs/validation.md).

`Widening` corrects the models' spread by the annotations that each was not fitted to. Their standardised squared
residuals, ``r^T (C + f Sigma)^-1 r / d``, are taken as ``c F(d, nu)`` with a common factor c and tails nu. Both have a
prior (log c about 0 with SD 1, log(nu - 2) about log 6 with SD 1) and are integrated out on a grid. Samples of the
truth are then widened about their mean by ``sqrt(c w(x))`` with ``w = nu / chi^2_nu``, one w for each of as many
regions as there are annotations: a failure may reach as far as the gap between two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from warpgauge.core.arrays import Floats
from warpgauge.core.factors import mahalanobis
from warpgauge.evaluation.error_model import ErrorModel, joint_samples
from warpgauge.evaluation.evidence import Evidence, EvidenceValues

_LOG_FACTOR_SD = 1.0
_LOG_TAILS, _LOG_TAILS_SD = float(np.log(6.0)), 1.0
_LOG_FACTORS = np.linspace(-3.5, 3.5, 71)
_TAILS = 2 + np.exp(_LOG_TAILS + _LOG_TAILS_SD * np.linspace(-2.5, 2.5, 21))


@dataclass(frozen=True, eq=False)
class Widening:
    """Posterior of the factor c and the tails nu.

    Attributes
    ----------
    squares : (L,) array
        Standardised squared residuals of the cross-fitted annotations; 1 on average where the model is right.
    weights : (71, 21) array
        Of the grid of log c and nu; adds up to 1.
    """

    squares: Floats
    weights: Floats

    @classmethod
    def of_squares(cls, squares: Floats, d: int) -> Widening:
        """Weigh the grid by standardised squared residuals in d dimensions."""
        relative = squares[:, None, None] / np.exp(_LOG_FACTORS)[:, None]
        logs = _log_f_density(np.maximum(relative, 1e-12), d, _TAILS) - _LOG_FACTORS[:, None]
        prior = np.square(_LOG_FACTORS / _LOG_FACTOR_SD)[:, None]
        prior = prior + np.square((np.log(_TAILS - 2) - _LOG_TAILS) / _LOG_TAILS_SD)
        total = logs.sum(axis=0) - 0.5 * prior
        weights = np.exp(total - total.max())
        return cls(squares, weights / weights.sum())

    def draw(self, points: Floats, count: int, rng: np.random.Generator) -> Floats:
        """Draw ``sqrt(c w(x))`` at (n, d) points, (count, n)."""
        chosen = rng.choice(self.weights.size, count, p=self.weights.reshape(-1))
        factors = np.exp(_LOG_FACTORS)[chosen // len(_TAILS)]
        tails = _TAILS[chosen % len(_TAILS)]
        regions = min(len(self.squares), len(points))
        out = np.empty((count, len(points)))
        for row, (factor, nu) in enumerate(zip(factors, tails, strict=True)):
            seeds = points[rng.choice(len(points), regions, replace=False)]
            # Nearest seed: |x|^2 is the same for all.
            nearest = np.argmin(np.square(seeds).sum(axis=1) - 2 * points @ seeds.T, axis=1)
            out[row] = np.sqrt(factor * nu / rng.chisquare(nu, regions))[nearest]
        return out


def _log_f_density(values: Floats, d: int, nu: Floats) -> Floats:
    """Log density of Fisher's F with d and nu degrees of freedom."""
    constant = special.gammaln((d + nu) / 2) - special.gammaln(d / 2) - special.gammaln(nu / 2) + d / 2 * np.log(d / nu)
    return np.asarray(constant + (d / 2 - 1) * np.log(values) - (d + nu) / 2 * np.log1p(d * values / nu))


_FOLDS = 5
_SEED = 0
# With few annotations calls by one model were overconfident on development pairs (docs/validation.md).
_ENOUGH = 14


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
    def of(cls, evidence: Evidence) -> CrossFit:
        """Fit without each fold of the annotations, drawn at random, and predict the fold."""
        given = evidence.posterior.annotations
        values = evidence.at_annotations
        noise = evidence.posterior.prior.total_noise(given.covariances)
        L, d = given.fixed_points.shape
        fold_of = np.random.default_rng(_SEED).permutation(L) % min(_FOLDS, L)
        models, residuals, squares = [], np.empty((L, d)), np.empty(L)
        for fold in range(int(fold_of.max()) + 1):
            out = np.flatnonzero(fold_of == fold)
            model = ErrorModel.fit(evidence, np.flatnonzero(fold_of != fold))
            mean, covariance = model.moments(given.fixed_points[out], values[out])
            residuals[out] = given.moving_points[out] - mean
            squares[out] = mahalanobis(residuals[out], covariance + model.noise_factor * noise[out]) / d
            models.append(model)
        return cls(tuple(models), residuals, squares)

    @property
    def evidence(self) -> Evidence:
        """The transforms about whose median the truth is modelled."""
        return self.models[0].evidence

    @property
    def noise_factor(self) -> float:
        """Expected factor on the stated variances of the annotations."""
        return float(np.mean([model.noise_factor for model in self.models]))

    @cached_property
    def widening(self) -> Widening:
        """How far the truth strays from the models' means."""
        return Widening.of_squares(self.squares, self.residuals.shape[1])

    def mean(self, points: Floats, here: EvidenceValues) -> Floats:
        """Return the expected matches of (n, d) points; ``here`` is what the transforms say there."""
        return np.asarray(np.mean([model.mean(points, here) for model in self.models], axis=0))

    @cached_property
    def whole(self) -> ErrorModel:
        """The model of all annotations."""
        return ErrorModel.fit(self.evidence)

    def whole_mean(self, points: Floats, here: EvidenceValues) -> Floats:
        """Return the expected matches of (n, d) points by the one model of all annotations."""
        return self.whole.mean(points, here)

    def compare(self, points: Floats, here: EvidenceValues, count: int, rng: np.random.Generator) -> Floats:
        """Draw joint samples of the true matches, (count, n, d), from the one model of all annotations."""
        mean = self.whole_mean(points, here)
        known = len(self.squares)
        spread = max(1.0, _ENOUGH / known) * np.sqrt(rng.dirichlet(np.ones(known), count) @ self.squares)
        samples = self.whole.sample(points, here, count, rng)
        return np.asarray(mean + spread[:, None, None] * (samples - mean))

    def sample(self, points: Floats, here: EvidenceValues, count: int, rng: np.random.Generator) -> Floats:
        """Draw joint samples of the true matches, (count, n, d), an equal share from each model, widened."""
        model_of = rng.permutation(np.arange(count) % len(self.models))
        samples = joint_samples(self.models, points, here, model_of, rng)
        means = np.stack([model.mean(points, here) for model in self.models])
        spread = self.widening.draw(points, count, rng)
        for row, at in enumerate(model_of):
            samples[row] = means[at] + spread[row][:, None] * (samples[row] - means[at])
        return samples
