"""The error of a registration that may know more than the annotations do.

The posterior of the paper knows the annotations only. A registration has seen the images: where annotations are sparse
it is often closer to the truth than the posterior mean, and its distance from that mean then measures the posterior's
ignorance, not its error (a perfect registration scores the distance of the truth from the mean). Ranks hardly suffer,
since the ignorance is the same for all, but the size of the error is overstated, and its intervals lie too high.

Here the registration itself is the prior's mean, ``GP(phi_hat, k)``, and the kernel's weights are learned from its own
residuals at the annotations: the error field ``phi_hat - phi`` is a Gaussian process conditioned on them. How large the
field is follows from few residuals, so that too is drawn, as a scaled inverse chi-square factor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.hyperparameters import fit_kernel
from warpgauge.core.leave_one_out import PRIOR_ANNOTATIONS, left_out
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.mapping import function_of, mapped_points

FEWEST = 8


def residual_posterior(posterior: Posterior, transform: Any, *, fit: bool = True) -> Posterior:
    """Posterior of the true transformation with a registration as the prior's mean.

    Parameters
    ----------
    posterior : Posterior
        Brings the annotations, and the kernel's family, scales and starting weights.
    transform : object with ``map``, or callable
        Annotations outside its domain are left out.
    fit : bool
        Learn the weights from the registration's residuals.
    """
    if function_of(transform) is None:
        raise InvalidInputError("A residual posterior needs a transform with map or a callable, not mapped points.")
    given = posterior.annotations
    inside = np.isfinite(mapped_points("transform", transform, given.fixed_points)).all(axis=1)
    kept = given[np.flatnonzero(inside)]
    if len(kept) < FEWEST:
        raise InvalidInputError(
            f"A residual posterior needs at least {FEWEST} annotations within the transform's domain, got {len(kept)}."
        )
    prior = TransformationPrior(
        posterior.prior.kernel, mean=lambda points: mapped_points("transform", transform, points)
    )
    if fit:
        # The annotations' own covariances are all the noise: learning more would hide fine errors in it.
        prior = fit_kernel(prior, kept)
    return prior.condition(kept, calibrate=True)


def degrees_of_freedom(posterior: Posterior) -> float:
    """Half of how many numbers the leave-one-out residuals give about the field: ``sum_l tr(k_l (k_l + N_l)^-1)``.

    The pseudo-annotations behind the calibration's factor are counted too. Half, because neighbouring residuals go
    together and the weights were learned from them as well: with all of it intervals came out too narrow, with half of
    it they hold what they state (``docs/validation.md``).
    """
    predicted = left_out(posterior.conditioned, posterior.weights)
    noise = np.linalg.solve(predicted.covariances, posterior.conditioned.noise)
    about_field = np.maximum(posterior.d - np.trace(noise, axis1=1, axis2=2), 0.0)
    return float(PRIOR_ANNOTATIONS * posterior.d + about_field.sum()) / 2


def residual_samples(
    posterior: Posterior, transform: Any, targets: ArrayLike, samples: int = 1000, seed: int = 0
) -> Floats:
    """Draw error lengths of a registration at the targets, shape (samples, n), from its residual posterior.

    Targets outside its domain are to be left out before.
    """
    at = as_points(targets, "targets", posterior.d)
    own = residual_posterior(posterior, transform)
    mean = own.mean(at)
    deviations = own.sample(at, samples, seed) - mean
    freedom = degrees_of_freedom(own)
    factors = freedom / np.random.default_rng([seed, 1]).chisquare(freedom, samples)
    errors = mapped_points("transform", transform, at) - mean - np.sqrt(factors)[:, None, None] * deviations
    return np.asarray(np.linalg.norm(errors, axis=2))
