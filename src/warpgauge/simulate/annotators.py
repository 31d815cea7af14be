"""Simulated annotators who know the truth and answer with a stated uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations, confidence_radius
from warpgauge.core.arrays import Floats
from warpgauge.core.rater_fusion import fuse_raters
from warpgauge.errors import InvalidInputError
from warpgauge.simulate.answers import Annotator, Answer, positive, true_matches
from warpgauge.simulate.velocity import checked_rng

# Of the logarithm of the eigenvalues of Sigma, in px^2: the paper's user of the CIMA set.
CIMA_LOG_MEAN = 2.8927
CIMA_LOG_SD = 0.8295


@dataclass(frozen=True)
class IsotropicAnnotator(Annotator):
    """States the same disc or ball everywhere.

    ``Sigma = (radius / gamma)^2 I``, with ``gamma`` from Eq. (covariance_matrix_from_ellipse).

    Parameters
    ----------
    radius : float
        Of the disc or ball that holds the true match with probability ``1 - alpha``, world units.
    alpha : float
        Significance level.
    noisy : bool
        Whether placements scatter about the truth by ``N(0, Sigma)``; else they are exact.
    """

    radius: float
    alpha: float = 0.01
    noisy: bool = True

    def __post_init__(self) -> None:
        positive(self.radius, "radius")
        confidence_radius(2, self.alpha)  # refuses a bad alpha here rather than at the first answer

    def answer(self, point: Floats, truth: Floats, rng: np.random.Generator) -> Answer:
        """Answer one location, see `Annotator.answer`."""
        d = len(truth)
        sd = self.radius / confidence_radius(d, self.alpha)
        noise = rng.standard_normal(d)
        return Answer(truth + sd * noise if self.noisy else truth.copy(), sd**2 * np.eye(d))


@dataclass(frozen=True)
class EllipseAnnotator(Annotator):
    """States ellipses with log-normal semi-axes and a random orientation; the defaults are the paper's CIMA user.

    The eigenvalues of ``Sigma`` are independent, ``lambda_i = (scale * pixel_size)^2 exp(log_mean + log_sd z_i)`` with
    standard normal ``z_i``, and the orientation is uniform over all rotations. As a semi-axis is
    ``r_i = gamma sqrt(lambda_i)``, it is log-normal too, with half the standard deviation of the logarithm.

    Parameters
    ----------
    log_mean, log_sd : float
        Mean and standard deviation of the logarithm of the eigenvalues, for eigenvalues in squared pixels.
    scale : float
        Factor on the **semi-axes**, so that the eigenvalues grow by its square; the paper's fivefold is 5.
    pixel_size : float
        World units of one pixel.
    noisy : bool
        Whether placements scatter about the truth by ``N(0, Sigma)``; else they are exact.
    """

    log_mean: float = CIMA_LOG_MEAN
    log_sd: float = CIMA_LOG_SD
    scale: float = 1.0
    pixel_size: float = 1.0
    noisy: bool = True

    def __post_init__(self) -> None:
        positive(self.scale, "scale")
        positive(self.pixel_size, "pixel_size")
        if not (np.isfinite(self.log_mean) and np.isfinite(self.log_sd) and self.log_sd >= 0):
            raise InvalidInputError(
                f"log_mean must be finite and log_sd 0 or more, got {self.log_mean!r} and {self.log_sd!r}."
            )

    def answer(self, point: Floats, truth: Floats, rng: np.random.Generator) -> Answer:
        """Answer one location, see `Annotator.answer`."""
        d = len(truth)
        lengths = self.scale * self.pixel_size * np.exp((self.log_mean + self.log_sd * rng.standard_normal(d)) / 2)
        axes = random_axes(d, rng)
        root = axes * lengths
        noise = root @ rng.standard_normal(d)
        return Answer(truth + noise if self.noisy else truth.copy(), root @ root.T)


@dataclass(frozen=True)
class ExpertAnnotator(Annotator):
    """Errs by a length with the given mean and standard deviation, in a uniformly random direction.

    The length is gamma distributed, with shape ``(mean / sd)^2`` and scale ``sd^2 / mean``; a gamma distribution is
    positive and has any ratio of the two, also the standard deviations above the mean that observers show. Where
    ``error_sd`` is 0 the length is constant.

    The stated covariance is isotropic with the second moment of that error, ``(mean^2 + sd^2) / d`` in each
    direction.

    Parameters
    ----------
    error_mean, error_sd : float
        Mean and standard deviation of the distance between placement and truth, world units.
    """

    error_mean: float
    error_sd: float

    def __post_init__(self) -> None:
        positive(self.error_mean, "error_mean")
        if not (np.isfinite(self.error_sd) and self.error_sd >= 0):
            raise InvalidInputError(f"error_sd must be 0 or more, got {self.error_sd!r}.")

    def answer(self, point: Floats, truth: Floats, rng: np.random.Generator) -> Answer:
        """Answer one location, see `Annotator.answer`."""
        d = len(truth)
        length = self.error_mean
        if self.error_sd > 0:
            length = rng.gamma((self.error_mean / self.error_sd) ** 2, self.error_sd**2 / self.error_mean)
        covariance = (self.error_mean**2 + self.error_sd**2) / d * np.eye(d)
        return Answer(truth + length * random_direction(d, rng), covariance)


def random_direction(d: int, rng: np.random.Generator) -> Floats:
    """Return a unit vector, uniform over the circle or sphere."""
    vector = rng.standard_normal(d)
    return np.asarray(vector / np.linalg.norm(vector))


def random_axes(d: int, rng: np.random.Generator) -> Floats:
    """Return orthonormal columns, uniform over all orientations."""
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    # The factorisation fixes the signs in its own way; those of r's diagonal make q uniform (Haar).
    return np.asarray(q * np.sign(np.diag(r)))


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
    """

    experts: tuple[Annotator, ...]
    method: Literal["pooled", "sample"] = "pooled"
    floor: float | None = None

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
        """Return one fused annotation for each of (n, d) locations; those that no rater placed are left out."""
        points = np.asarray(fixed_points, dtype=np.float64)
        placed = self.placements(points, true_map, seed)
        kept = np.isfinite(placed[:, :, 0]).any(axis=0)
        if not kept.any():
            return Annotations.empty(points.shape[1])
        fused = fuse_raters(placed[:, kept], method=self.method, floor=self.floor)
        return Annotations(points[kept], fused.points, fused.covariances)
