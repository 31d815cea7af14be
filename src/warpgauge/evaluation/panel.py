"""What is said of one method beside a panel of references that never saw an annotation.

One model of the truth is fitted to the panel and the annotations. Its mean is mu, its draws of the truth are phi. A
method T deviates from the mean by ``g = T - mu``, the truth by ``r = phi - mu``. Whether the two go together is one
number, their correlation rho over the targets. *Unheard* (rho = 0), the method's error is ``|r - g|``. *Heard*, r is
drawn anew as ``sqrt(1 - rho^2) r + rho (R / G) g``, with R and G the root mean squares over the targets of this draw's
r and of g, and rho learned from the method's residuals at the annotations (`Hearing`). How large these residuals are is
heard, too (`sized`): a poor panel cannot know how small an error may be. A method that may have seen the annotations is
not heard: its residuals there say nothing.

Nothing here depends on other methods: what is said of a method is the same in any company.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from warpgauge.core.arrays import Bools, Floats

# Limits of the regression slope beta and of the correlation rho.
_SLOPE = (-0.2, 1.1)
_CORRELATION = (-0.3, 0.995)
# Squared errors vary at least so much (variance over squared mean), even where few annotations do not show it.
_LEAST_VARIATION = 2.0
# The model has heard the same residuals: their mean square counts for one in so many.
_TEMPER = 8.0
# Share of the stated noise in a mean square at the annotations: stated ellipses are too large as often as too small.
_NOISE_SHARE = 0.5


@dataclass(frozen=True)
class Hearing:
    """Slope beta of the truth's residuals on a method's deviations at the annotations, Student-t with n - 2 degrees.

    Attributes
    ----------
    slope, error : float
        Estimate and standard error.
    freedom : int
    """

    slope: float
    error: float
    freedom: int

    @classmethod
    def of(cls, deviations: Floats, residuals: Floats, squares: Floats) -> Hearing:
        """Regress cross-fitted residuals on a method's deviations from the same cross-fitted means.

        Parameters
        ----------
        deviations, residuals : (n, d) array
            ``T - mu`` and ``y - mu`` at the annotations, mu from a model that does not know them.
        squares : (n,) array
            Standardised squared residuals; an annotation beyond what the model expects counts for less.
        """
        defined = np.isfinite(deviations).all(axis=1)
        g, x, w = deviations[defined], residuals[defined], 1 / np.maximum(squares[defined], 1.0)
        n, d = g.shape
        size = float(np.sum(w[:, None] * np.square(g)))
        if n < 3 or size == 0:
            return cls(0.0, 0.0, 1)
        slope = float(np.sum(w[:, None] * g * x)) / size
        left = float(np.sum(w[:, None] * np.square(x - slope * g))) / (d * n - 1)
        # Residuals of neighbours and components go together: sqrt(d) widens the error that takes them as independent.
        return cls(slope, float(np.sqrt(np.sqrt(d) * left / size)), n - 2)

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw slopes, (count,)."""
        return np.asarray(np.clip(self.slope + self.error * rng.standard_t(self.freedom, count), *_SLOPE))


def heard(samples: Floats, mean: Floats, mapped: Floats, slopes: Floats) -> Floats:
    """Return draws of the truth that know the method, (S, n, d).

    Parameters
    ----------
    samples : (S, n, d) array
        Draws of the truth by the panel's model.
    mean, mapped : (n, d) array
        The model's mean and the method, at the same targets.
    slopes : (S,) array
        Draws of beta.
    """
    r, g = samples - mean, mapped - mean
    R = np.sqrt(np.mean(np.square(r).sum(axis=2), axis=1))
    G = np.sqrt(np.mean(np.square(g).sum(axis=1)))
    if G == 0:
        return samples
    # By draw: with one R for all, a few draws of heavy tails would keep the others from going along with the method.
    rho = np.clip(slopes * G / np.where(R > 0, R, np.inf), *_CORRELATION)
    return np.asarray(mean + np.sqrt(1 - np.square(rho))[:, None, None] * r + (rho * R / G)[:, None, None] * g)


def sized(squares: Floats, residuals: Floats, noise: float, targets: int) -> Floats:
    """Return draws of a mean squared error that know how large the residuals at the annotations are, (S,).

    Each draw is weighted by how well it explains the residuals' mean square, whose logarithm is normal about that of
    the drawn one. The draws keep their order: each becomes the weighted quantile of its rank, so that comparisons draw
    by draw stay as they are.

    Parameters
    ----------
    squares : (S,) array
        Draws of the mean squared error over the targets.
    residuals : (n, d) array
        Of the method at the annotations; NaN rows where it is not defined.
    noise : float
        Mean squared length of the annotations' stated noise.
    targets : int
        Their number: a few are a sample, too.
    """
    seen = np.square(residuals[np.isfinite(residuals).all(axis=1)]).sum(axis=1)
    if len(seen) < 3 or not seen.any() or not squares.all():
        return squares
    variation = max(float(np.var(seen, ddof=1) / np.mean(seen) ** 2), _LEAST_VARIATION)
    spread = _TEMPER * variation * (1 / len(seen) + 1 / targets)
    logs = -np.square(np.log(np.mean(seen)) - np.log(squares + _NOISE_SHARE * noise)) / (2 * spread)
    weights = np.exp(logs - logs.max())
    order, found, count = np.argsort(squares, kind="stable"), np.empty_like(squares), len(squares)
    ordered = weights[order] / weights.sum()
    found[order] = np.interp((np.arange(count) + 0.5) / count, np.cumsum(ordered) - ordered / 2, squares[order])
    return found


def missed_failures(points: Floats, annotated: Floats, count: int, rng: np.random.Generator) -> Bools:
    """Draw where failures that no annotation met may lie, (count, n).

    The targets nearest to one annotation are a region. n annotations that met no failure leave each region a
    probability pi of failing, Beta(1, n + 1): in about half of the draws nothing does.

    Parameters
    ----------
    points, annotated : (n, d) and (L, d) array
        Targets and annotated points.
    count : int
    rng : Generator
    """
    if not len(annotated):
        return np.zeros((count, len(points)), dtype=bool)
    regions = len(annotated)
    fails = rng.random((count, regions)) < rng.beta(1, regions + 1, count)[:, None]
    return np.asarray(fails[:, cKDTree(annotated).query(points)[1]])


def missed_share(annotations: int, level: float = 0.95) -> float:
    """Return the share of the targets up to which a failure could have gone unseen, with this probability."""
    return float(1 - (1 - level) ** (1 / (annotations + 1)))


def not_affine(points: Floats, mapped: Floats) -> Floats:
    """Return what an affine map leaves of the displacements of (n, d) points, (n, d)."""
    moved = mapped - points
    affine = np.column_stack([np.ones(len(points)), points - points.mean(axis=0)])
    return np.asarray(moved - affine @ np.linalg.lstsq(affine, moved, rcond=None)[0])
