r"""Correction of the model's spread, learned from annotations that the model was not fitted to.

The standardised squared residuals of the cross-fitted annotations, ``r^T (C + f Sigma)^-1 r / d``, are taken as
``c F(d, nu)`` with a common factor c and tails nu. Both have a prior (log c about 0 with SD 1, log(nu - 2) about log 6
with SD 1) and are integrated out on a grid. Samples of the truth are then widened about their mean by
``sqrt(c w(x))`` with ``w = nu / chi^2_nu``, one w for each of as many regions as there are annotations: a failure may
reach as far as the gap between two of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from warpgauge.core.arrays import Floats

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

    @property
    def factor(self) -> float:
        """Posterior mean of the factor on the squared deviations, tails included."""
        return float(np.sum(self.weights * np.exp(_LOG_FACTORS)[:, None] * _TAILS / (_TAILS - 2)))

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
