"""How numbers came about: the model behind them, and the versions of the programs they went through."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

from warpgauge._version import __version__
from warpgauge.core.process import Posterior

_LIBRARIES = ("numpy", "scipy", "numba", "matplotlib", "nibabel", "SimpleITK")


def model(posterior: Posterior) -> dict[str, Any]:
    """Return the parameters of the prior and the factor on the posterior's covariance."""
    prior = posterior.prior
    return {
        "kernel": prior.kernel.family,
        "scales": prior.kernel.scales.tolist(),
        "weights": prior.kernel.weights.tolist(),
        **({} if prior.kernel.regions is None else {"own_share_of_regions": prior.kernel.own.tolist()}),
        "mean": prior.mean if isinstance(prior.mean, str) else "a function",
        "extra_noise_variance": prior.noise,
        "covariance_factor": posterior.scale,
        "calibrated_by_leave_one_out": posterior.calibrates,
        "weights_learned": prior.fit is not None,
        "isotropic_noise": posterior.isotropic,
    }


def versions() -> dict[str, str]:
    """Return the versions of this program and of the libraries that the numbers went through."""
    found = {"warpgauge": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
