r"""The default model: weights that follow a power law of the scale, learned by averaging instead of optimising.

.. math:: \theta_s = (a D)^2 (\rho_s / L)^p

``D`` is the diagonal and ``L`` the longest side of the image, ``a`` how far the deformation strays from its affine
trend at the scale of the image, and ``p`` how smooth it is. Two numbers are all that ten annotations can tell; free
weights of nine scales, fitted to so few, are overconfident. Nothing is optimised either: the weights are
the mean over a grid of (a, p), each with its prior times the likelihood of the annotations, so that what the
annotations leave open stays open.

The prior was set from 105 pairs of four public landmark sets (docs/validation.md): ``a`` about 0.5 %, ``p`` about 1.2,
both so wide that it is the annotations that decide.

Where the image has regions, a third number is averaged in the same way: the share of the weights that each region has
to itself, 0 (nothing slides) to 1 (only the trend is common).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from warpgauge.core.annotations import Annotations, warn_of_one_spot
from warpgauge.core.arrays import Floats, thinned_rows
from warpgauge.core.fit_reports import PowerLawReport
from warpgauge.core.kernels import KernelBundle, Regions
from warpgauge.core.parallel import blas_threads_for
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.errors import InvalidInputError, NumericalWarning, SingularModelError

AMPLITUDE = 0.005
LOG_AMPLITUDE_SD = 1.0
SLOPE = 1.2
SLOPE_SD = 0.8
DEFAULT_TAILS = 4.0
# Smallest scale in pixels, or in world units where no image says what a pixel is.
SMALLEST = 10.0
FAMILY = "wendland"
# Before the third annotation there is nothing to learn the weights from.
FEWEST_TO_FIT = 3
# Of more annotations some are drawn: a fit factors their matrix for each cell of the grid.
MOST_TO_FIT = 2_000
# Trend of images that lie nearly alike, as those of all four sets do: matrix entries, and the translation as a share of
# the diagonal. Images that are turned or far apart keep the wide trend, by their likelihood.
NARROW_LINEAR_SD = 0.1
NARROW_TRANSLATION = 0.05
_STEP = 0.4
_LOG_AMPLITUDES = np.log(AMPLITUDE) + _STEP * np.arange(-5, 6)
_SLOPES = 0.2 + _STEP * np.arange(11)  # up to 4.2: simulated deformations are smoother than any real ones
# Shares of the weights that each region has to itself, and their prior: labels do not say whether tissue slides.
_OWN = np.array([0.0, 0.5, 1.0])
_OWN_PRIOR = np.array([0.5, 0.25, 0.25])
# Standard deviations of an extra noise, as shares of the diagonal, where it is asked for.
_NOISES = np.array([0.0, 0.0005, 0.001, 0.002, 0.004, 0.008])


@dataclass(frozen=True, eq=False)
class _Cells:
    """The grid, flattened: parameters and log prior of every cell, and the weights that they give."""

    log_amplitudes: Floats
    slopes: Floats
    noises: Floats
    own: Floats
    log_priors: Floats
    weights: Floats

    @classmethod
    def of(cls, prior_kernel: KernelBundle, extent: Floats, noises: Floats) -> _Cells:
        """Make the cells for a kernel's scales; regions add the shares that they have to themselves."""
        divided = prior_kernel.regions is not None
        shares = _OWN if divided else np.zeros(1)
        axes = np.meshgrid(_LOG_AMPLITUDES, _SLOPES, noises, np.arange(len(shares)), indexing="ij")
        a, p, noise, share = (grid.reshape(-1) for grid in axes)
        log_priors = -0.5 * (((a - np.log(AMPLITUDE)) / LOG_AMPLITUDE_SD) ** 2 + ((p - SLOPE) / SLOPE_SD) ** 2)
        if divided:
            log_priors += np.log(_OWN_PRIOR)[share]
        ratios = prior_kernel.scales / float(extent.max())
        weights = np.exp(2 * a[:, None]) * float(np.square(extent).sum()) * ratios ** p[:, None]
        return cls(a, p, noise, shares[share], log_priors, weights)

    def averaged(self, kernel: KernelBundle, shares: Floats) -> KernelBundle:
        """Return the kernel with the mean of the weights, and of what regions have of them to themselves."""
        weights = shares @ self.weights
        own = (shares * self.own) @ self.weights / weights
        return kernel.with_weights(weights).with_own(kernel.regions, own)


def _checked_extent(extent: ArrayLike) -> Floats:
    sides = np.asarray(extent, dtype=np.float64)
    if sides.ndim != 1 or sides.size not in (2, 3) or not np.isfinite(sides).all() or not (sides > 0).all():
        raise InvalidInputError(f"The extent must be the image's 2 or 3 sides in world units, got {extent!r}.")
    return sides


def doubling_scales(smallest: float, longest: float) -> Floats:
    """Scales that double from the smallest until one reaches the longest side of the image."""
    levels = 1 + max(0, int(np.ceil(np.log2(longest / smallest) - 1e-9)))
    return np.asarray(smallest * 2.0 ** np.arange(levels), dtype=np.float64)


def default_prior(
    extent: ArrayLike, *, center: ArrayLike, smallest: float, family: str = FAMILY, regions: Regions | None = None
) -> TransformationPrior:
    """Return the default model before any annotation: affine trend, power-law weights, Student-t tails.

    ``extent`` and ``center`` are the sides of the fixed image and its middle, about which the trend acts, in world
    units; scales double from the smallest until one reaches the longest side.
    """
    sides = _checked_extent(extent)
    if not (np.isfinite(smallest) and smallest > 0):
        raise InvalidInputError(f"The smallest scale must be a positive length, got {smallest!r}.")
    scales = doubling_scales(smallest, float(sides.max()))
    kernel = KernelBundle(family, scales, np.ones_like(scales), regions)
    cells = _Cells.of(kernel, sides, np.zeros(1))
    kernel = cells.averaged(kernel, _normalised(cells.log_priors))
    return TransformationPrior(kernel, mean="affine", center=center, tails=DEFAULT_TAILS)


def fit_power_law(
    prior: TransformationPrior,
    sets: Sequence[Annotations] | Annotations,
    extent: ArrayLike,
    noise: bool = False,
) -> TransformationPrior:
    """Learn amplitude and smoothness from annotations, and return the prior with the weights averaged over them.

    Family, scales, mean and tails of the prior are kept; its weights play no part. An affine trend is made narrow
    (matrix entries of 0.1, translation of 5 % of the diagonal) where that makes the annotations likelier. The sets are
    the pair's own annotations, or those of several pairs that are alike; ``extent`` are the sides of the fixed image in
    world units. With ``noise`` an extra noise variance is learned as well, by a third dimension of the grid. The
    ``fit`` of what is returned is a :class:`PowerLawReport`.

    The likelihood is the Gaussian one with the trend integrated out; each annotation's covariance counts in it with its
    mean variance over the directions, which keeps every matrix L x L. The posterior uses the full covariances.
    """
    parts = [sets] if isinstance(sets, Annotations) else list(sets)
    if not all(isinstance(part, Annotations) for part in parts):
        raise InvalidInputError("fit_power_law needs one or more wg.Annotations sets.")
    sides = _checked_extent(extent)
    if any(part.d != sides.size for part in parts):
        raise InvalidInputError(f"The extent has {sides.size} sides, but there are annotations of another dimension.")
    noises = np.square(_NOISES * np.linalg.norm(sides)) if noise else np.array([prior.noise])
    cells = _Cells.of(prior.kernel, sides, noises)
    annotated = sum(len(part) for part in parts)
    for part in parts:
        if len(part) > MOST_TO_FIT:
            warnings.warn(
                f"Amplitude and smoothness are learned from {MOST_TO_FIT} of {len(part)} annotations, drawn at random: "
                "all would take hours. The posterior uses all.",
                NumericalWarning,
                stacklevel=2,
            )
    parts = [part[thinned_rows(len(part), MOST_TO_FIT)] for part in parts]
    if not noise and prior.noise == 0:
        parts = [part.merged() for part in parts]  # the same likelihood but for a constant
    priors = [prior]
    if prior.mean == "affine":
        translation = NARROW_TRANSLATION * float(np.linalg.norm(sides))
        if prior.translation_sd is None:
            translation = min(translation, float(prior.kernel.scales.max()))
        else:
            translation = min(translation, prior.translation_sd)
        linear = min(prior.linear_sd, NARROW_LINEAR_SD)
        priors.append(replace(prior, linear_sd=linear, translation_sd=translation))
    # Log posterior of every cell by each prior, which differ in their trend alone.
    logs_by_prior = np.tile(cells.log_priors, (len(priors), 1))
    for part in parts:
        if len(part):
            logs_by_prior += _log_likelihoods(priors, part, cells)
    evidence = np.logaddexp.reduce(logs_by_prior, axis=1)
    narrow = len(priors) > 1 and bool(evidence[1] > evidence[0])
    prior = priors[int(narrow)]
    logs = logs_by_prior[int(narrow)]
    if not np.isfinite(logs).any():
        raise SingularModelError(
            "The covariance of the annotations is singular for all weights: locations coincide; merge them or give the "
            "annotations more uncertainty."
        )
    shares = _normalised(logs)
    mean_a = float(shares @ cells.log_amplitudes)
    mean_p = float(shares @ cells.slopes)
    report = PowerLawReport(
        float(np.exp(mean_a)),
        mean_p,
        float(np.sqrt(shares @ np.square(cells.log_amplitudes - mean_a))),
        float(np.sqrt(shares @ np.square(cells.slopes - mean_p))),
        annotated,
        narrow,
    )
    kernel = cells.averaged(prior.kernel, shares)
    return replace(prior.with_kernel(kernel, float(shares @ cells.noises)), fit=report)


def default_posterior(
    annotations: Annotations,
    extent: Any,
    smallest: float | None = None,
    *,
    center: ArrayLike | None = None,
    regions: Regions | None = None,
) -> Posterior:
    """Return the default model given annotations: fitted to them, heavy-tailed, calibrated.

    It is the model of sessions, studies and experiments, and what `warpgauge evaluate` starts from. ``extent`` are the
    sides of the fixed image in world units, or its grid. The smallest scale is 10 pixels of the grid by default, or 10
    world units without one; the affine trend acts about ``center``, by default the middle of the grid, or half of the
    extent, as of an image whose first corner is the origin. ``regions`` says which region each of (n, d) points lies
    in, as (n,) whole numbers, where parts of the image may move on their own; how much they do is learned.

    Examples
    --------
    >>> import numpy as np
    >>> import warpgauge as wg
    >>> x = np.random.default_rng(0).uniform(0, 200, (30, 2))
    >>> pairs = wg.Annotations.isotropic(x, x + 4 * np.sin(x[:, ::-1] / 40), sd=0.5)
    >>> posterior = wg.default_posterior(pairs, extent=[200, 200])
    >>> posterior.prior.mean, posterior.prior.tails, posterior.d
    ('affine', 4.0, 2)
    """
    if hasattr(extent, "pixel"):
        sides = extent.extent
        middle = extent.centre
        pixel = extent.pixel
    else:
        sides = _checked_extent(extent)
        middle = sides / 2
        pixel = 1.0
    smallest = SMALLEST * pixel if smallest is None else smallest
    center = middle if center is None else center
    prior = default_prior(sides, center=center, smallest=smallest, regions=regions)
    return fitted_posterior(prior, annotations, sides)


def fitted_posterior(
    prior: TransformationPrior,
    annotations: Annotations,
    extent: ArrayLike,
    *,
    noise: bool = False,
) -> Posterior:
    """Condition a prior of the default model on annotations: weights learned from them, then calibrated."""
    warn_of_one_spot(annotations, float(prior.kernel.scales.min()))
    if len(annotations) >= FEWEST_TO_FIT:
        prior = fit_power_law(prior, annotations, extent, noise)
    return prior.condition(annotations, calibrate=True)


def _normalised(logs: Floats) -> Floats:
    shares = np.exp(logs - logs.max())
    return np.asarray(shares / shares.sum())


def _log_likelihoods(priors: list[TransformationPrior], annotations: Annotations, cells: _Cells) -> Floats:
    """Log likelihood of the annotations in every cell by each prior, (P, C), but for a constant.

    The factor of a cell is without the trend, whose few columns F are added by ``I + F^T K^-1 F``, so that one factor
    serves all trends. -inf where rounding makes a cell singular.
    """
    prior = priors[0]
    X = annotations.fixed_points
    (L, d) = annotations.fixed_points.shape
    residuals = annotations.moving_points - prior.prior_mean(X)
    upper = np.triu_indices(L)
    whole = prior.kernel.with_own(prior.kernel.regions, 0.0)
    basis = whole.basis(X, *upper)
    apart = ~prior.kernel.common(X, *upper)
    features = [one.scalar_kernel(d).features(X) for one in priors]
    known = np.column_stack([*features, residuals])
    noise = np.trace(annotations.covariances, axis1=1, axis2=2) / d
    diagonal = np.diag_indices(L)
    matrix = np.empty((L, L))
    logs = np.full((len(priors), len(cells.weights)), -np.inf)
    with blas_threads_for(L):
        for row, weights in enumerate(cells.weights):
            values = weights @ basis
            if cells.own[row]:
                values[apart] *= 1 - cells.own[row]
            matrix[upper] = values
            matrix[diagonal] += noise + cells.noises[row]
            factor, info = lapack.dpotrf(matrix.T, lower=1, clean=1)
            if info == 0:
                solved, _ = lapack.dtrtrs(factor, known, lower=1)
                alone = -d * np.log(np.diagonal(factor)).sum()
                *trends, left = np.split(solved, np.cumsum([one.shape[1] for one in features]), axis=1)
                logs[:, row] = [alone + _with_trend(trend, left) for trend in trends]
    return logs


def _with_trend(trend: Floats, residuals: Floats) -> float:
    """Return what whitened columns of a trend and whitened residuals add to a log likelihood."""
    root = np.linalg.cholesky(np.eye(trend.shape[1]) + trend.T @ trend)
    fitted = np.linalg.solve(root, trend.T @ residuals)
    squares = np.square(residuals).sum() - np.square(fitted).sum()
    return float(-residuals.shape[1] * np.log(np.diagonal(root)).sum() - 0.5 * squares)
