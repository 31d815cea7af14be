"""warpgauge: evaluation of deformable image registration from few and uncertain landmarks.

Names are loaded from their modules when they are first used, so that ``import warpgauge`` and ``warpgauge --help``
wait neither for the compiler of the inner loops nor for scipy or the image readers. A new public name is added to
the imports for type checkers, to ``_HOMES`` and to ``__all__``; a test compares the three.
"""

import importlib
from typing import TYPE_CHECKING, Any

from warpgauge._version import __version__

if TYPE_CHECKING:
    from warpgauge.core.annotations import Annotations, covariance_from_ellipse, ellipse_from_covariance
    from warpgauge.core.calibration import Calibration, LeaveOneOut, calibration, leave_one_out_residuals
    from warpgauge.core.decisions import DecisionSuggester
    from warpgauge.core.expected_noise import NoiseModel, fit_noise_model
    from warpgauge.core.hyperparameters import FitReport, fit_kernel, leave_one_out_gradient, leave_one_out_loss
    from warpgauge.core.kernels import KernelBundle
    from warpgauge.core.power_law import PowerLawReport, default_posterior, default_prior, fit_power_law
    from warpgauge.core.process import Posterior, TransformationPrior
    from warpgauge.core.raters import FusedPlacements, fuse_raters
    from warpgauge.core.scoring import (
        displacement_norm,
        error_score,
        expected_squared_error,
        landmark_score,
        posterior_score,
        probability_of_smaller_error,
        rank_distribution,
        win_probabilities,
    )
    from warpgauge.core.suggestion import StoppingRule, Suggester
    from warpgauge.evaluation import (
        Assessment,
        Certificate,
        Evaluation,
        GateResult,
        Judge,
        Trust,
        certify_project,
        evaluate,
        evaluate_project,
        gate_project,
        judge,
        trust,
    )
    from warpgauge.geometry import Grid
    from warpgauge.io.images import Image, read_image
    from warpgauge.io.landmarks import Landmarks, read_landmarks, write_landmarks
    from warpgauge.io.transforms import Transform, as_transform, check_transform, read_transform, write_transform
    from warpgauge.maps import (
        blended_map,
        entropy_map,
        error_map,
        exceedance_map,
        mean_map,
        significance_map,
        standard_deviation_map,
        write_map,
    )
    from warpgauge.plots import plot_map
    from warpgauge.project import Project
    from warpgauge.session import Session

# The public names that each module holds.
_HOMES = {
    "warpgauge.core.annotations": "Annotations covariance_from_ellipse ellipse_from_covariance",
    "warpgauge.core.calibration": "Calibration LeaveOneOut calibration leave_one_out_residuals",
    "warpgauge.core.decisions": "DecisionSuggester",
    "warpgauge.core.expected_noise": "NoiseModel fit_noise_model",
    "warpgauge.core.hyperparameters": "FitReport fit_kernel leave_one_out_gradient leave_one_out_loss",
    "warpgauge.core.kernels": "KernelBundle",
    "warpgauge.core.power_law": "PowerLawReport default_posterior default_prior fit_power_law",
    "warpgauge.core.process": "Posterior TransformationPrior",
    "warpgauge.core.raters": "FusedPlacements fuse_raters",
    "warpgauge.core.scoring": (
        "displacement_norm error_score expected_squared_error landmark_score posterior_score "
        "probability_of_smaller_error rank_distribution win_probabilities"
    ),
    "warpgauge.core.suggestion": "StoppingRule Suggester",
    "warpgauge.evaluation": (
        "Assessment Certificate Evaluation GateResult Judge Trust certify_project evaluate evaluate_project "
        "gate_project judge trust"
    ),
    "warpgauge.geometry": "Grid",
    "warpgauge.io.images": "Image read_image",
    "warpgauge.io.landmarks": "Landmarks read_landmarks write_landmarks",
    "warpgauge.io.transforms": "Transform as_transform check_transform read_transform write_transform",
    "warpgauge.maps": (
        "blended_map entropy_map error_map exceedance_map mean_map significance_map standard_deviation_map write_map"
    ),
    "warpgauge.plots": "plot_map",
    "warpgauge.project": "Project",
    "warpgauge.session": "Session",
}
_SUBPACKAGES = (
    "candidates", "core", "errors", "evaluation", "experiments", "geometry", "io", "maps", "project", "registration",
    "report", "session", "simulate", "study",
)  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Annotations",
    "Assessment",
    "Calibration",
    "Certificate",
    "DecisionSuggester",
    "Evaluation",
    "FitReport",
    "FusedPlacements",
    "GateResult",
    "Grid",
    "Image",
    "Judge",
    "KernelBundle",
    "Landmarks",
    "LeaveOneOut",
    "NoiseModel",
    "Posterior",
    "PowerLawReport",
    "Project",
    "Session",
    "StoppingRule",
    "Suggester",
    "Transform",
    "TransformationPrior",
    "Trust",
    "__version__",
    "as_transform",
    "blended_map",
    "calibration",
    "certify_project",
    "check_transform",
    "covariance_from_ellipse",
    "default_posterior",
    "default_prior",
    "displacement_norm",
    "ellipse_from_covariance",
    "entropy_map",
    "error_map",
    "error_score",
    "evaluate",
    "evaluate_project",
    "exceedance_map",
    "expected_squared_error",
    "fit_kernel",
    "fit_noise_model",
    "fit_power_law",
    "fuse_raters",
    "gate_project",
    "judge",
    "landmark_score",
    "leave_one_out_gradient",
    "leave_one_out_loss",
    "leave_one_out_residuals",
    "mean_map",
    "plot_map",
    "posterior_score",
    "probability_of_smaller_error",
    "rank_distribution",
    "read_image",
    "read_landmarks",
    "read_transform",
    "significance_map",
    "standard_deviation_map",
    "trust",
    "win_probabilities",
    "write_landmarks",
    "write_map",
    "write_transform",
]


def __getattr__(name: str) -> Any:
    """Load a public name, or a subpackage, when it is first asked for (PEP 562)."""
    if name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    elif name in _SUBPACKAGES:
        value = importlib.import_module(f"warpgauge.{name}")
    else:
        raise AttributeError(f"module 'warpgauge' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBPACKAGES})
