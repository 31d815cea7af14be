"""What is said of one method beside a panel of references that never saw an annotation.

One model of the truth is fitted to the panel and the annotations. Its mean is mu, its draws of the truth are phi. A
method T deviates from the mean by ``g = T - mu``, the truth by ``r = phi - mu``. Whether the two go together is one
number, their correlation rho over the targets. *Unheard* (rho = 0), the method's error is ``|r - g|``. *Heard*, r is
drawn anew as ``sqrt(1 - rho^2) r + rho (R / G) g``, with R and G the root mean squares of r and g, and rho learned from
the method's residuals at the annotations (`Hearing`). A method that may have seen the annotations is not heard: its
residuals there say nothing.

Nothing here depends on other methods: what is said of a method is the same in any company.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.core.arrays import Bools, Floats

# Limits of the regression slope beta and of the correlation rho.
_SLOPE = (-0.2, 1.1)
_CORRELATION = (-0.3, 0.995)


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
    R, G = np.sqrt(np.mean(np.square(r).sum(axis=2))), np.sqrt(np.mean(np.square(g).sum(axis=1)))
    if R == 0 or G == 0:
        return samples
    rho = np.clip(slopes * (G / R), *_CORRELATION)[:, None, None]
    return np.asarray(mean + np.sqrt(1 - np.square(rho)) * r + rho * (R / G) * g)


def missed_failures(points: Floats, annotations: int, count: int, rng: np.random.Generator) -> Bools:
    """Draw where a failure that no annotation met may lie, (count, n).

    n annotations that met no failure leave a share of the targets of about Beta(1, n + 1) that may fail. In half of the
    draws nothing does; in the others what fails is one region of that size, the targets nearest to a random one.

    Parameters
    ----------
    points : (n, d) array
        Targets.
    annotations, count : int
    rng : Generator
    """
    failed = np.zeros((count, len(points)), dtype=bool)
    if not annotations:
        return failed
    shares, centres = rng.beta(1, annotations + 1, count), rng.integers(len(points), size=count)
    for row in np.flatnonzero(np.arange(count) % 4 < 2):  # half of the heard and half of the unheard draws
        size = round(len(points) * shares[row])
        if size:
            distances = np.square(points - points[centres[row]]).sum(axis=1)
            failed[row, np.argpartition(distances, size - 1)[:size]] = True
    return failed


def missed_share(annotations: int, level: float = 0.95) -> float:
    """Return the share of the targets up to which a failure could have gone unseen, with this probability."""
    return float(1 - (1 - level) ** (1 / (annotations + 1)))


def not_affine(points: Floats, mapped: Floats) -> float:
    """Root mean square of what an affine map leaves of the displacements of (n, d) points."""
    moved = mapped - points
    affine = np.column_stack([np.ones(len(points)), points - points.mean(axis=0)])
    left = moved - affine @ np.linalg.lstsq(affine, moved, rcond=None)[0]
    return float(np.sqrt(np.mean(np.square(left).sum(axis=1))))
