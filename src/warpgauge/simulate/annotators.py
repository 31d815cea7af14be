"""Simulated annotators who know the truth and answer with a stated uncertainty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations, confidence_radius
from warpgauge.core.arrays import Floats, Ints, as_points
from warpgauge.core.rater_fusion import fuse_raters
from warpgauge.errors import InvalidInputError
from warpgauge.simulate.velocity import checked_rng

# Of the logarithm of the eigenvalues of Sigma, in px^2: the paper's user of the CIMA set.
CIMA_LOG_MEAN = 2.8927
CIMA_LOG_SD = 0.8295


@dataclass(frozen=True, eq=False)
class Answer:
    """Where an annotator put the match of one location, (d,), and the stated covariance, (d, d)."""

    placement: Floats
    covariance: Floats


@dataclass(frozen=True, eq=False)
class SimulatedAnswers:
    """Answers to many locations.

    Attributes
    ----------
    annotations : Annotations
        The placements, without the skipped locations.
    rows : (L,) array
        Which location each annotation belongs to.
    skipped : dict
        Reason of each skipped location, by row.
    """

    annotations: Annotations
    rows: Ints
    skipped: dict[int, str]


class Annotator(ABC):
    """Answers queried locations; a subclass gives `answer`."""

    @abstractmethod
    def answer(self, point: Floats, truth: Floats, rng: np.random.Generator) -> Answer:
        """Answer one location: a fixed world point (d,), whose true match ``phi(point)`` is ``truth``."""

    def answers(self, fixed_points: ArrayLike, true_map: Any, seed: int) -> SimulatedAnswers:
        """Answer (n, d) locations of the fixed world.

        ``true_map`` is a transform or a callable. Where it is not defined (NaN) the location is skipped as
        ``"outside_image"``. Each row has its own stream of random numbers, ``(seed, row)``: the answers to the first
        locations do not change when more are asked.
        """
        points, truth = _true_matches(fixed_points, true_map)
        d = points.shape[1]
        defined = np.isfinite(truth).all(axis=1)
        rows = np.flatnonzero(defined).astype(np.int64)
        answers = [self.answer(points[row], truth[row], checked_rng(seed, int(row))) for row in rows]
        placements = np.array([answer.placement for answer in answers]).reshape(-1, d)
        covariances = np.array([answer.covariance for answer in answers]).reshape(-1, d, d)
        skipped = dict.fromkeys(np.flatnonzero(~defined).tolist(), "outside_image")
        return SimulatedAnswers(Annotations(points[rows], placements, covariances), rows, skipped)

    def annotate(self, fixed_points: ArrayLike, true_map: Any, seed: int) -> Annotations:
        """Return the annotations of `answers` alone; skipped locations are left out.

        Examples
        --------
        >>> from warpgauge.simulate import IsotropicAnnotator
        >>> IsotropicAnnotator(radius=2.0, noisy=False).annotate([[1.0, 2.0]], lambda p: p + 5, seed=0).moving_points
        array([[6., 7.]])
        """
        return self.answers(fixed_points, true_map, seed).annotations


@dataclass(frozen=True)
class IsotropicAnnotator(Annotator):
    """States the same disc or ball everywhere.

    ``Sigma = (radius / gamma)^2 I``, with ``gamma`` from Eq. (covariance_matrix_from_ellipse).

    Parameters
    ----------
    radius : float
        Of the disc or ball that holds the true match with probability ``1 - alpha``, world units.
    alpha : float
    noisy : bool
        Whether placements scatter about the truth by ``N(0, Sigma)``; else they are exact.
    """

    radius: float
    alpha: float = 0.01
    noisy: bool = True

    def __post_init__(self) -> None:
        _positive(self.radius, "radius")
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
        Of the logarithm of the eigenvalues, for eigenvalues in squared pixels.
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

    Parameters
    ----------
    error_mean, error_sd : float
        Mean and standard deviation of the distance between placement and truth, world units.
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
    def alike(
        cls,
        count: int,
        error_mean: float,
        error_sd: float,
        *,
        method: Literal["pooled", "sample"] = "pooled",
        floor: float | None = None,
    ) -> ExpertPanel:
        """``count`` experts with the same mean and standard deviation of error, see `ExpertAnnotator`."""
        return cls((ExpertAnnotator(error_mean, error_sd),) * count, method, floor)

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
        fused = fuse_raters(placements[:, defined], method=self.method, floor=self.floor)
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
