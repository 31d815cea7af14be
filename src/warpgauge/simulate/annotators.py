"""Simulated annotators who know the truth and answer with a stated uncertainty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations, confidence_radius
from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.rater_fusion import fuse_raters
from warpgauge.errors import InvalidInputError
from warpgauge.simulate.deformation import checked_rng

# Of the logarithm of the eigenvalues of Sigma, in px^2: the paper's user of the CIMA set.
CIMA_LOG_MEAN = 2.8927
CIMA_LOG_SD = 0.8295


@dataclass(frozen=True, eq=False)
class Answer:
    """Where an annotator put the match of one location, (d,), and the stated covariance, (d, d)."""

    placement: Floats
    covariance: Floats


class Annotator(ABC):
    """Answers queried locations; a subclass gives `answer`."""

    @abstractmethod
    def answer(self, point: Floats, truth: Floats, rng: np.random.Generator) -> Answer:
        """Answer one location: a fixed world point (d,), whose true match ``phi(point)`` is ``truth``."""

    def annotate(self, fixed_points: ArrayLike, true_map: Any, seed: int) -> Annotations:
        """Answer (n, d) locations of the fixed world; those where the truth is not defined (NaN) are left out.

        ``true_map`` is a transform or a callable. Each row has its own stream of random numbers, ``(seed, row)``: the
        answers to the first locations do not change when more are asked.

        Examples
        --------
        >>> from warpgauge.simulate import IsotropicAnnotator
        >>> IsotropicAnnotator(radius=2.0, noisy=False).annotate([[1.0, 2.0]], lambda p: p + 5, seed=0).moving_points
        array([[6., 7.]])
        """
        points, truth = _true_matches(fixed_points, true_map)
        d = points.shape[1]
        rows = np.flatnonzero(np.isfinite(truth).all(axis=1))
        answers = [self.answer(points[row], truth[row], checked_rng(seed, int(row))) for row in rows]
        placements = np.array([answer.placement for answer in answers]).reshape(-1, d)
        covariances = np.array([answer.covariance for answer in answers]).reshape(-1, d, d)
        return Annotations(points[rows], placements, covariances)


@dataclass(frozen=True)
class IsotropicAnnotator(Annotator):
    """States the same disc or ball everywhere.

    ``Sigma = (radius / gamma)^2 I``, with ``gamma`` from Eq. (covariance_matrix_from_ellipse): the true match lies in
    it with probability 0.99. Placements scatter about the truth by ``N(0, Sigma)``, or are exact.
    """

    radius: float
    noisy: bool = True

    def __post_init__(self) -> None:
        _positive(self.radius, "radius")

    def answer(self, point: Floats, truth: Floats, rng: np.random.Generator) -> Answer:
        """Answer one location, see `Annotator.answer`."""
        d = len(truth)
        sd = self.radius / confidence_radius(d)
        noise = rng.standard_normal(d)
        return Answer(truth + sd * noise if self.noisy else truth.copy(), sd**2 * np.eye(d))


@dataclass(frozen=True)
class EllipseAnnotator(Annotator):
    """States ellipses with log-normal semi-axes and a random orientation; the defaults are the paper's CIMA user.

    The eigenvalues of ``Sigma`` are independent, ``lambda_i = (scale * pixel_size)^2 exp(log_mean + log_sd z_i)`` with
    standard normal ``z_i``, and the orientation is uniform over all rotations. As a semi-axis is
    ``r_i = gamma sqrt(lambda_i)``, it is log-normal too, with half the standard deviation of the logarithm. ``scale``
    is a factor on the **semi-axes**: the paper's fivefold is 5. ``pixel_size`` is in world units. Placements scatter
    about the truth by ``N(0, Sigma)``, or are exact.
    """

    log_mean: float = CIMA_LOG_MEAN
    log_sd: float = CIMA_LOG_SD
    scale: float = 1.0
    pixel_size: float = 1.0
    noisy: bool = True

    def __post_init__(self) -> None:
        _positive(self.scale, "scale")
        _positive(self.pixel_size, "pixel_size")
        if not (np.isfinite(self.log_mean) and np.isfinite(self.log_sd) and self.log_sd >= 0):
            raise InvalidInputError(
                f"log_mean must be finite and log_sd 0 or more, got {self.log_mean!r} and {self.log_sd!r}."
            )

    def answer(self, point: Floats, truth: Floats, rng: np.random.Generator) -> Answer:
        """Answer one location, see `Annotator.answer`."""
        d = len(truth)
        lengths = self.scale * self.pixel_size * np.exp((self.log_mean + self.log_sd * rng.standard_normal(d)) / 2)
        q, r = np.linalg.qr(rng.standard_normal((d, d)))
        # The factorisation fixes the signs in its own way; those of r's diagonal make the axes uniform (Haar).
        root = q * np.sign(np.diag(r)) * lengths
        noise = root @ rng.standard_normal(d)
        return Answer(truth + noise if self.noisy else truth.copy(), root @ root.T)


@dataclass(frozen=True)
class ExpertAnnotator(Annotator):
    """Errs by a length with the given mean and standard deviation, in a uniformly random direction.

    The length is gamma distributed, which is positive and allows standard deviations above the mean, as observers show;
    where ``error_sd`` is 0 it is constant. The stated covariance is isotropic with the second moment of that error,
    ``(mean^2 + sd^2) / d`` in each direction.
    """

    error_mean: float
    error_sd: float

    def __post_init__(self) -> None:
        _positive(self.error_mean, "error_mean")
        if not (np.isfinite(self.error_sd) and self.error_sd >= 0):
            raise InvalidInputError(f"error_sd must be 0 or more, got {self.error_sd!r}.")

    def answer(self, point: Floats, truth: Floats, rng: np.random.Generator) -> Answer:
        """Answer one location, see `Annotator.answer`."""
        d = len(truth)
        length = self.error_mean
        if self.error_sd > 0:
            length = rng.gamma((self.error_mean / self.error_sd) ** 2, self.error_sd**2 / self.error_mean)
        direction = rng.standard_normal(d)
        covariance = (self.error_mean**2 + self.error_sd**2) / d * np.eye(d)
        return Answer(truth + length * direction / np.linalg.norm(direction), covariance)


@dataclass(frozen=True)
class ExpertPanel:
    """Two or more annotators who err independently, fused by :func:`warpgauge.fuse_raters` as in the COPDgene study.

    The uncertainty comes from how the placements scatter, pooled over all locations; what the single annotators state
    is not used. (The paper's sample covariance of three experts in 3D is singular.)
    """

    experts: tuple[Annotator, ...]

    def __post_init__(self) -> None:
        if len(self.experts) < 2 or not all(isinstance(expert, Annotator) for expert in self.experts):
            raise InvalidInputError("An ExpertPanel needs two or more annotators.")

    @classmethod
    def alike(cls, count: int, error_mean: float, error_sd: float) -> ExpertPanel:
        """``count`` experts with the same mean and standard deviation of error, see `ExpertAnnotator`."""
        return cls((ExpertAnnotator(error_mean, error_sd),) * count)

    def placements(self, fixed_points: ArrayLike, true_map: Any, seed: int) -> Floats:
        """Return each expert's placements, (experts, n, d), NaN where the truth is not defined."""
        points, truth = _true_matches(fixed_points, true_map)
        placements = np.full((len(self.experts), *points.shape), np.nan)
        for row in np.flatnonzero(np.isfinite(truth).all(axis=1)):
            for k, expert in enumerate(self.experts):
                placements[k, row] = expert.answer(points[row], truth[row], checked_rng(seed, int(row), k)).placement
        return placements

    def annotate(self, fixed_points: ArrayLike, true_map: Any, seed: int) -> Annotations:
        """Return one fused annotation for each of (n, d) locations; those without a true match are left out."""
        points = np.asarray(fixed_points, dtype=np.float64)
        placements = self.placements(points, true_map, seed)
        defined = np.isfinite(placements[0, :, 0])
        if not defined.any():
            return Annotations.empty(points.shape[1])
        fused = fuse_raters(placements[:, defined])
        return Annotations(points[defined], fused.points, fused.covariances)


def _true_matches(fixed_points: ArrayLike, true_map: Any) -> tuple[Floats, Floats]:
    """Return checked fixed points and their true matches, NaN where the map is not defined."""
    points = as_points(fixed_points, "fixed_points")
    mapping = getattr(true_map, "map", true_map)
    if not callable(mapping):
        raise InvalidInputError(
            f"true_map must have a map method or be callable, got {type(true_map).__name__}; a transform is one."
        )
    truth = np.asarray(mapping(points.copy()), dtype=np.float64)
    if truth.shape != points.shape:
        raise InvalidInputError(f"true_map gave shape {truth.shape} for points of shape {points.shape}.")
    return points, truth


def _positive(value: float, name: str) -> None:
    if not (np.isfinite(value) and value > 0):
        raise InvalidInputError(f"{name} must be a positive number, got {value!r}.")
