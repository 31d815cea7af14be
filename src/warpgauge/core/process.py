"""The Gaussian-process model of the true transformation and its conditioning (section III-B)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations, ellipse_from_covariance
from warpgauge.core.arrays import Floats, Ints, as_covariances, as_points, readonly
from warpgauge.core.factors import full, is_isotropic, log_determinants, mahalanobis, refuse_lost
from warpgauge.core.fit_reports import FitReport, PowerLawReport
from warpgauge.core.kernels import KernelBundle, PriorKernel, TrendKernel, prior_draws
from warpgauge.core.leave_one_out import LeaveOneOut, left_out, left_out_beside, scale_factor
from warpgauge.core.posterior_covariance import Conditioned
from warpgauge.core.tails import GAUSSIAN, check_tails, level_of, mixing_factors, squared_radius
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError

MeanFunction = Callable[[Floats], Floats]
# Rows of the factor of the annotations at most.
MOST_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class TransformationPrior:
    """Prior ``GP(mu, k)`` of the true transformation, Eq. (gaussian_process_definition).

    Parameters
    ----------
    kernel : KernelBundle
        The scalar kernel that multiplies I_d.
    mean : {"identity", "affine"} or callable
        ``"identity"`` is the paper's. ``"affine"`` adds to it a linear trend whose coefficients have wide, proper
        Gaussian priors and are integrated out, so that it works from zero annotations on. A callable maps (n, d) fixed
        points to (n, d) expected moving points.
    noise : float
        Variance, in squared world units, added to the covariance of every annotation in every direction.
    center : (d,) array, optional
        Point about which the linear part of an affine trend acts; the origin by default. Best the image's middle.
    translation_sd, linear_sd : float, optional
        Prior standard deviations of the trend: of its translation at ``center`` (by default the largest scale of the
        kernel) and of each entry of its matrix (by default 1).
    tails : float
        Degrees of freedom, more than 2, of the deviations from the posterior mean: infinite for a Gaussian process,
        which is the paper's, finite for Student-t deviations with the same covariance. Mean and covariance do not
        depend on it; regions, error scores, samples and the leave-one-out factor do.
    about : callable, optional
        What an affine trend is added to instead of the identity: a rough alignment that maps (n, d) fixed points to
        (n, d) moving points.

    Examples
    --------
    >>> import warpgauge as wg
    >>> kernel = wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=6, weight=1.0)
    >>> prior = wg.TransformationPrior(kernel, mean="affine", center=[50.0, 50.0])
    >>> posterior = prior.condition(wg.Annotations.isotropic([[40.0, 60.0]], [[42.0, 60.0]], sd=0.1))
    >>> posterior.mean([[40.0, 60.0]]).round(1).tolist()
    [[42.0, 60.0]]
    """

    kernel: KernelBundle
    mean: Literal["identity", "affine"] | MeanFunction = "identity"
    noise: float = 0.0
    center: ArrayLike | None = None
    translation_sd: float | None = None
    linear_sd: float = 1.0
    fit: FitReport | PowerLawReport | None = None  # how the weights were fitted, where they were
    tails: float = GAUSSIAN
    about: MeanFunction | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, KernelBundle):
            raise InvalidInputError(f"The kernel must be a KernelBundle, got {type(self.kernel).__name__}.")
        if not callable(self.mean) and self.mean not in ("identity", "affine"):
            raise InvalidInputError(f'The mean must be "identity", "affine" or a callable, got {self.mean!r}.')
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise InvalidInputError(f"The noise must be a variance of at least 0, got {self.noise!r}.")
        for name in ("translation_sd", "linear_sd"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0):
                raise InvalidInputError(f"{name} must be a positive standard deviation, got {value!r}.")
        if self.about is not None and (self.mean != "affine" or not callable(self.about)):
            raise InvalidInputError(
                'about must be a callable, and needs mean="affine": it is what the trend is added to.'
            )
        check_tails(self.tails)

    def with_kernel(self, kernel: KernelBundle, noise: float | None = None) -> TransformationPrior:
        """Return the same prior with another kernel and, where given, another noise variance."""
        return replace(self, kernel=kernel, noise=self.noise if noise is None else noise, fit=None)

    def scalar_kernel(self, d: int) -> PriorKernel:
        """Return the scalar that multiplies I_d: the bundle, and the trend's kernel where there is a trend."""
        kernel = self.kernel
        if self.mean != "affine":
            return kernel
        center = np.zeros(d) if self.center is None else np.asarray(self.center, dtype=np.float64)
        if center.shape != (d,) or not np.isfinite(center).all():
            raise InvalidInputError(f"The center of the affine trend must be {d} finite numbers, got {self.center!r}.")
        translation_sd = float(kernel.scales.max()) if self.translation_sd is None else self.translation_sd
        return TrendKernel(kernel, translation_sd, self.linear_sd, readonly(center.copy()))

    def prior_mean(self, points: Floats) -> Floats:
        """``mu`` at (n, d) points."""
        function = self.mean if callable(self.mean) else self.about
        if function is None:
            return points
        values = np.asarray(function(points), dtype=np.float64)
        if values.shape != points.shape or not np.isfinite(values).all():
            raise InvalidInputError(
                f"The mean must give finite points of shape {points.shape}, got shape {values.shape}"
                + ("." if values.shape != points.shape else " with values that are not finite.")
            )
        return values

    def total_noise(self, covariances: Floats) -> Floats:
        """``Sigma_l`` plus the extra noise."""
        return np.asarray(covariances + self.noise * np.eye(covariances.shape[-1]))

    def condition(self, annotations: Annotations, *, calibrate: bool = False) -> Posterior:
        """Condition on annotations, Eqs. (gaussian_process_mean_conditioned) and (…covariance_conditioned).

        Without any the posterior is the prior. ``calibrate`` scales the posterior covariance by the factor that the
        leave-one-out residuals ask for (see :func:`warpgauge.calibration`).
        """
        if not isinstance(annotations, Annotations):
            raise InvalidInputError(f"condition needs wg.Annotations, got {type(annotations).__name__}.")
        spots = annotations.merged(self.noise)
        noise = self.total_noise(spots.covariances) if spots is annotations else spots.covariances
        kernel = self.scalar_kernel(annotations.d)
        rows = len(spots) * (1 if is_isotropic(noise) else annotations.d)
        if rows > MOST_ROWS:
            raise InvalidInputError(
                f"{len(spots):,} annotated places need a factor of {rows:,} rows, minutes and gigabytes: at "
                f"most {MOST_ROWS:,} are made, one for each place, or {annotations.d} where any uncertainty is "
                "anisotropic; condition on a part of them."
            )
        posterior = Posterior(self, annotations, spots, Conditioned.on(kernel, spots.fixed_points, noise))
        return posterior.calibrated() if calibrate else posterior


@dataclass(frozen=True, eq=False)
class Posterior:
    """``GP(mu_|A, k_|A)``: the true transformation given annotations. Made by ``TransformationPrior.condition``.

    Attributes
    ----------
    prior : TransformationPrior
    annotations : Annotations
        As they were given.
    spots : Annotations
        One per location, the annotations themselves where no two share one: what the rows of ``conditioned`` and of
        `weights` belong to. Observations of one location that agree to rounding make ``K_AA`` singular; merged they
        say exactly the same. Where locations were merged, the prior's extra noise is in their covariances.
    scale : float
        Factor on the posterior covariance, 1 unless calibrated.

    Examples
    --------
    >>> import warpgauge as wg
    >>> prior = wg.TransformationPrior(wg.KernelBundle("wendland", scales=[30.0], weights=[4.0]))
    >>> posterior = prior.condition(wg.Annotations.isotropic([[0.0, 0.0]], [[1.0, 0.0]], sd=0.5))
    >>> mean, covariance = posterior.moments([[0.0, 0.0], [100.0, 0.0]])
    >>> mean.round(2).tolist(), covariance[:, 0, 0].round(2).tolist()  # b = 1: the noise is isotropic
    ([[0.94, 0.0], [100.0, 0.0]], [0.24, 4.0])
    >>> posterior.sample([[0.0, 0.0]], count=3, seed=0).shape
    (3, 1, 2)
    >>> posterior.append(wg.Annotations.isotropic([[100.0, 0.0]], [[101.0, 0.0]], sd=0.5))
    <Posterior: 2D, from 2 annotations>
    """

    prior: TransformationPrior
    annotations: Annotations
    spots: Annotations
    conditioned: Conditioned
    scale: float = 1.0
    calibrates: bool = False

    def __repr__(self) -> str:
        known = counted(len(self.annotations), "annotation")
        return f"<Posterior: {self.d}D, from {known}{f', scale {self.scale:.3g}' if self.calibrates else ''}>"

    @property
    def d(self) -> int:
        """Dimension."""
        return self.annotations.d

    @property
    def isotropic(self) -> bool:
        """Whether all noise is isotropic, so that every covariance is a scalar times I_d."""
        return self.conditioned.b == 1

    def calibrated(self) -> Posterior:
        """Scale the covariance by the factor estimated from the leave-one-out residuals."""
        return replace(self, scale=self.asked_factor(), calibrates=True)

    def asked_factor(self) -> float:
        """Return the factor on the covariance that the leave-one-out residuals ask for; each location is left out once.

        Annotations of one location predict each other, whatever the transformation is: what they disagree by says how
        wrong their covariances are, not the model elsewhere. They are merged before.
        """
        return scale_factor(self._spots_left_out(GAUSSIAN), self.conditioned.noise, self.prior.tails)

    def append(self, annotations: Annotations) -> Posterior:
        """Posterior given further annotations as well, by a block update; a calibrated one is recalibrated."""
        if annotations.d != self.d:
            raise InvalidInputError(f"Cannot append {annotations.d}D annotations to a {self.d}D posterior.")
        together = Annotations.concatenate([self.annotations, annotations])
        noise = self.prior.total_noise(annotations.covariances)
        apart = self.spots is self.annotations
        further = annotations if apart else Annotations(annotations.fixed_points, annotations.moving_points, noise)
        spots = together if apart else Annotations.concatenate([self.spots, further])
        if spots.merged() is not spots:  # somebody annotated a location again
            return self.prior.condition(together, calibrate=self.calibrates)
        grown = Posterior(self.prior, together, spots, self.conditioned.append(annotations.fixed_points, noise))
        return grown.calibrated() if self.calibrates else grown

    @cached_property
    def weights(self) -> Floats:
        """``K_AA^-1 (Y - mu(X))``, one row per spot: the ``q`` of Eq. (gpp_loss_simplified)."""
        residuals = self.spots.moving_points - self.prior.prior_mean(self.spots.fixed_points)
        return self.conditioned.solve(residuals[:, :, None])[:, :, 0]

    def _spots_left_out(self, tails: float) -> LeaveOneOut:
        """Predict each spot from all others."""
        return left_out(self.conditioned, self.weights, tails)

    @cached_property
    def noise(self) -> Floats:
        """Covariance of each annotation with the prior's extra noise, (L, d, d)."""
        return self.prior.total_noise(self.annotations.covariances)

    @cached_property
    def spot_of(self) -> Ints:
        """Row of each annotation's location among the spots, (L,)."""
        row = {tuple(place): number for number, place in enumerate(self.spots.fixed_points.tolist())}
        return np.array([row[tuple(place)] for place in self.annotations.fixed_points.tolist()], dtype=np.int64)

    def left_out(self, tails: float = GAUSSIAN) -> LeaveOneOut:
        """Predict each annotation from all others, those of its own location among them."""
        found = self._spots_left_out(tails)
        if self.spots is self.annotations:
            return found
        at = self.spot_of
        residuals = found.residuals[at]
        covariances = found.covariances[at]
        merged = self.conditioned.noise[at]
        offsets = self.annotations.moving_points - self.spots.moving_points[at]
        return left_out_beside(residuals, covariances, merged, offsets, self.noise, tails)

    def moments(self, points: ArrayLike, *, covariances: bool = True) -> tuple[Floats, Floats]:
        """Posterior mean (n, d) and covariance (n, b, b) at (n, d) points.

        Eqs. (gaussian_process_mean_conditioned) and (gaussian_process_covariance_conditioned). b is d, or 1 where all
        noise is isotropic: the covariance is then that number times I_d. Without ``covariances`` there are none.
        """
        at = as_points(points, "points", self.d)
        sums, found = self.conditioned.moments(at, self.weights, covariances=covariances)
        return self.prior.prior_mean(at) + sums, self.scale * found

    def mean(self, points: ArrayLike) -> Floats:
        """Posterior mean at (n, d) points, Eq. (gaussian_process_mean_conditioned)."""
        return self.moments(points, covariances=False)[0]

    def covariance(self, points: ArrayLike) -> Floats:
        """Posterior covariance at each point, (n, d, d), Eq. (gaussian_process_covariance_conditioned)."""
        return full(self._covariances(points), self.d)

    def _covariances(self, points: ArrayLike) -> Floats:
        """Posterior covariance at each point, (n, b, b), see `moments`."""
        at = as_points(points, "points", self.d)
        return np.asarray(self.scale * self.conditioned.moments(at)[1])

    def standard_deviation(self, points: ArrayLike) -> Floats:
        """Root mean variance over the directions at each point, ``sqrt(tr k / d)``, in world units, shape (n,)."""
        return _deviations(self._covariances(points))

    def mean_and_covariance(self, points: ArrayLike) -> tuple[Floats, Floats]:
        """Posterior mean (n, d) and covariance (n, d, d), at little more than the cost of the covariance."""
        mean, covariances = self.moments(points)
        return mean, full(covariances, self.d)

    def mean_and_deviation(self, points: ArrayLike) -> tuple[Floats, Floats]:
        """Posterior mean (n, d) and `standard_deviation` (n,), at little more than the cost of the latter."""
        mean, covariances = self.moments(points)
        return mean, _deviations(covariances)

    def squared_lengths(self, points: ArrayLike, mapped_points: ArrayLike) -> Floats:
        """Squared Mahalanobis lengths of mapped points from the posterior mean, shape (n,).

        Their :meth:`level_of` is the error score ``e(x)``.
        """
        mean, covariances = self.moments(points)
        return mahalanobis(as_points(mapped_points, "mapped_points", self.d) - mean, covariances)

    def plot(self, ax: Any = None) -> Any:
        """Draw the annotations as arrows with the ellipses that hold 99 % of each (2D); return the axes."""
        from warpgauge.plots import plot_landmarks

        given = self.annotations
        drawn = [ellipse_from_covariance(one) for one in given.covariances]
        return plot_landmarks(
            given.fixed_points,
            given.moving_points,
            half_lengths=[lengths for lengths, _ in drawn],
            axes_of_ellipses=[axes for _, axes in drawn],
            ax=ax,
        )

    def entropy(self, points: ArrayLike) -> Floats:
        """Differential entropy, in nats, Eq. (entropy_gp), of a normal with the posterior covariance at each point.

        With Student-t tails it differs from that of the true match by a constant of their degrees of freedom.
        """
        covariances = self._covariances(points)
        repeats = self.d // covariances.shape[-1]
        return np.asarray(0.5 * repeats * log_determinants(covariances) + 0.5 * self.d * np.log(2 * np.pi * np.e))

    def annotation_covariance(self, points: ArrayLike, covariances: ArrayLike) -> Floats:
        """Covariance of a further annotation there: posterior + its own Sigma + extra noise, (n, d, d)."""
        at = as_points(points, "points", self.d)
        own = as_covariances(np.broadcast_to(covariances, (len(at), self.d, self.d)), len(at), self.d)
        return np.asarray(self.covariance(at) + self.prior.total_noise(own))

    def level_of(self, squares: ArrayLike) -> Floats:
        """Probability of a smaller squared Mahalanobis length of a deviation: chi-square, or F with Student-t tails."""
        return level_of(squares, self.d, self.prior.tails)

    def squared_radius(self, level: float) -> float:
        """Squared Mahalanobis length that the region of a level reaches: the inverse of :meth:`level_of`."""
        return squared_radius(level, self.d, self.prior.tails)

    def region(self, points: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
        """Ellipses or ellipsoids about the mean that hold the true matches with probability ``level``.

        Half-lengths (n, d), ascending, in world units, and axes (n, d, d), unit vectors as columns in the same order.
        """
        variances, axes = np.linalg.eigh(self.covariance(points))
        return np.sqrt(np.maximum(variances, 0) * self.squared_radius(level)), np.asarray(axes)

    def joint_covariance(self, points: ArrayLike) -> Floats:
        """Joint covariance of the true matches of all points, (n d, n d), ordered point by point."""
        return np.asarray(self.scale * self.conditioned.joint(as_points(points, "points", self.d)))

    def sample(self, points: ArrayLike, count: int, seed: int = 0) -> Floats:
        """Exact joint samples of the true transformation at the points, shape (count, n, d).

        A draw from the prior is corrected by the annotations' residuals (Matheron's rule), so that only a scalar matrix
        is factored, even where the noise is anisotropic. With Student-t tails all deviations of one sample share one
        random factor: a t process, whose marginals are those of :meth:`region`.
        """
        at = as_points(points, "points", self.d)
        if int(count) != count or count < 0:
            raise InvalidInputError(f"sample needs a whole number of samples, got {count!r}.")
        rng = np.random.default_rng(seed)
        mean = self.mean(at)
        fixed = self.spots.fixed_points
        # Drawn with zero mean: what is added to the posterior mean is the deviation from it.
        draws = prior_draws(self.prior.scalar_kernel(self.d), np.concatenate([at, fixed]), int(count), rng)
        deviations = draws[:, : len(at)]
        if len(fixed):
            factors = np.linalg.cholesky(self.conditioned.noise)
            noise = np.einsum("lab,slb->sla", factors, rng.standard_normal((int(count), *fixed.shape)))
            residuals = draws[:, len(at) :] + noise
            deviations = deviations - self._predicted(at, residuals)
        if np.isinf(self.prior.tails):
            return np.asarray(mean + np.sqrt(self.scale) * deviations)
        # From a stream of their own, so that the Gaussian deviations are those of the same seed without tails.
        factors = mixing_factors(int(count), self.prior.tails, np.random.default_rng([seed, 1]))
        return np.asarray(mean + np.sqrt(self.scale * factors)[:, None, None] * deviations)

    def _predicted(self, points: Floats, residuals: Floats) -> Floats:
        """``K_X(points)^T K_AA^-1`` applied to (S, L, d) residuals, shape (S, n, d)."""
        samples, L, d = residuals.shape
        solved = self.conditioned.solve(residuals.transpose(1, 2, 0)).transpose(0, 2, 1).reshape(L, samples * d)
        block = self.conditioned.kernel.matrix(points, self.conditioned.locations)
        return np.asarray((block @ solved).reshape(len(points), samples, d).transpose(1, 0, 2))


def _deviations(covariances: Floats) -> Floats:
    """Return root mean variances; raise where rounding has taken one below 0."""
    variances = np.trace(covariances, axis1=1, axis2=2) / covariances.shape[-1]
    refuse_lost(variances >= 0)
    return np.asarray(np.sqrt(variances))
