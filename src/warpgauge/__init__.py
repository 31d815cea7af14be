"""warpgauge: how good a deformable registration is, and how sure we are of it."""

from warpgauge._version import __version__
from warpgauge.core.annotations import Annotations, covariance_from_ellipse, ellipse_from_covariance
from warpgauge.core.calibration import Calibration, calibration, leave_one_out_residuals
from warpgauge.core.decisions import DecisionSuggester
from warpgauge.core.expected_noise import NoiseModel, fit_noise_model
from warpgauge.core.hyperparameters import FitReport, fit_kernel, leave_one_out_gradient, leave_one_out_loss
from warpgauge.core.kernels import KernelBundle
from warpgauge.core.leave_one_out import LeaveOneOut
from warpgauge.core.power_law import PowerLawReport, default_prior, fit_power_law
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
from warpgauge.evaluation import CandidateAverage, Evaluation, Trust, candidate_average, evaluate, trust
from warpgauge.geometry import Grid
from warpgauge.io.images import Image, read_image
from warpgauge.io.landmarks import Landmarks, read_landmarks, write_landmarks
from warpgauge.io.transforms import Transform, check_transform, read_transform, write_transform
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
from warpgauge.project import Project
from warpgauge.session import Session

__all__ = [
    "Annotations",
    "Calibration",
    "CandidateAverage",
    "DecisionSuggester",
    "Evaluation",
    "FitReport",
    "FusedPlacements",
    "Grid",
    "Image",
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
    "blended_map",
    "calibration",
    "candidate_average",
    "check_transform",
    "covariance_from_ellipse",
    "default_prior",
    "displacement_norm",
    "ellipse_from_covariance",
    "entropy_map",
    "error_map",
    "error_score",
    "evaluate",
    "exceedance_map",
    "expected_squared_error",
    "fit_kernel",
    "fit_noise_model",
    "fit_power_law",
    "fuse_raters",
    "landmark_score",
    "leave_one_out_gradient",
    "leave_one_out_loss",
    "leave_one_out_residuals",
    "mean_map",
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
