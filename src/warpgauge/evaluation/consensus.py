"""A posterior centred on what the candidate transforms have in common, for judging them.

The paper leaves the mean function open ("any other function deemed as more relevant for the given application could be
chosen instead"). Centred on the identity or an affine map, the model has to explain the whole deformation from the
annotations, so its own error between them can exceed that of a good registration: every candidate then looks worse
than it is, and smooth ones look better than detailed ones. The candidates were made from the images, not from the
annotations, so their pointwise median is a fair centre that favours none of them, and only what it leaves unexplained
at the annotations has to be modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.hyperparameters import fit_kernel
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.diagnostics import diagnose
from warpgauge.evaluation.reliability import Trust, trust

# With fewer annotations the residuals say too little about scales, and the given weights stay.
FEWEST_TO_FIT = 10


class MedianTransform:
    """Pointwise, componentwise median of transforms, each point over those that are defined there.

    Where none is defined the given posterior's mean stands in, so that annotations there still count.
    """

    def __init__(self, transforms: Mapping[str, Any], fallback: Posterior) -> None:
        self.functions = [one.map if hasattr(one, "map") else one for one in transforms.values()]
        if not self.functions or not all(callable(one) for one in self.functions):
            raise InvalidInputError(
                "A consensus needs transforms that can be evaluated anywhere: objects with map, or callables; "
                "mapped targets alone do not say what happens at the annotations."
            )
        self.fallback = fallback

    def __call__(self, points: Floats) -> Floats:
        """Map (n, d) fixed points."""
        mapped = np.stack([np.asarray(one(points), dtype=np.float64) for one in self.functions])
        nowhere = np.isnan(mapped).any(axis=2).all(axis=0)
        if nowhere.any():
            mapped[:, nowhere] = self.fallback.mean(points[nowhere])
        return np.asarray(np.nanmedian(mapped, axis=0))


def consensus_posterior(posterior: Posterior, transforms: Mapping[str, Any]) -> Posterior:
    """Condition on the same annotations about the median of the transforms, calibrated by leave-one-out.

    Parameters
    ----------
    posterior : Posterior
        Its annotations, kernel and noise are used; with ten annotations or more the weights are fitted anew, because
        what a registration leaves over is smaller than the deformation itself.
    transforms : mapping of name to transform
        Objects with ``map``, or callables.
    """
    prior = TransformationPrior(
        posterior.prior.kernel, mean=MedianTransform(transforms, posterior), noise=posterior.prior.noise
    )
    if len(posterior.annotations) >= FEWEST_TO_FIT:
        fitted = fit_kernel(prior, posterior.annotations)
        prior = replace(prior, kernel=fitted.kernel, fit=fitted.fit)
    return prior.condition(posterior.annotations, calibrate=True)


def consensus_trust(plain: Posterior, centred: Posterior, transforms: Mapping[str, Any], targets: ArrayLike) -> Trust:
    """Say how far a comparison about the consensus can be trusted.

    Calibration and sensitivity are those of the centred posterior, which was used. How many targets the annotations say
    nothing about is taken from the plain one: about the consensus little is left to be said almost everywhere.
    """
    found = trust(centred, transforms, targets)
    share = diagnose(plain, as_points(targets, "targets", plain.d)).uninformed
    return replace(found, diagnostics=replace(found.diagnostics, uninformed=share))
