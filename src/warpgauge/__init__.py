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
    from warpgauge.core.calibration import calibration, leave_one_out_residuals
    from warpgauge.core.error_scores import displacement_norm, error_score
    from warpgauge.core.hyperparameters import fit_kernel, leave_one_out_loss
    from warpgauge.core.kernels import KernelBundle
    from warpgauge.core.power_law import default_posterior
    from warpgauge.core.process import TransformationPrior
    from warpgauge.core.rater_fusion import fuse_raters
    from warpgauge.core.suggestion import Suggester
    from warpgauge.evaluation import certify_project, evaluate, evaluate_project, gate_project, judge
    from warpgauge.evaluation.tre import tre
    from warpgauge.geometry import Grid
    from warpgauge.io.images import read_image
    from warpgauge.io.landmarks import Landmarks, read_landmarks
    from warpgauge.io.transforms import as_transform, read_transform
    from warpgauge.maps import blended_map, entropy_map, error_map, mean_map
    from warpgauge.plots import plot_map
    from warpgauge.project import Project
    from warpgauge.report.compared import compare
    from warpgauge.session import Session
    from warpgauge.web.notebook import annotate

# The public names that each module holds.
_HOMES = {
    "warpgauge.core.annotations": "Annotations covariance_from_ellipse ellipse_from_covariance",
    "warpgauge.core.rater_fusion": "fuse_raters",
    "warpgauge.core.calibration": "calibration leave_one_out_residuals",
    "warpgauge.core.hyperparameters": "fit_kernel leave_one_out_loss",
    "warpgauge.core.kernels": "KernelBundle",
    "warpgauge.core.power_law": "default_posterior",
    "warpgauge.core.process": "TransformationPrior",
    "warpgauge.core.error_scores": "displacement_norm error_score",
    "warpgauge.core.suggestion": "Suggester",
    "warpgauge.evaluation": "certify_project evaluate evaluate_project gate_project judge",
    "warpgauge.evaluation.tre": "tre",
    "warpgauge.geometry": "Grid",
    "warpgauge.io.images": "read_image",
    "warpgauge.io.landmarks": "Landmarks read_landmarks",
    "warpgauge.io.transforms": "as_transform read_transform",
    "warpgauge.maps": "blended_map entropy_map error_map mean_map",
    "warpgauge.plots": "plot_map",
    "warpgauge.project": "Project",
    "warpgauge.report.compared": "compare",
    "warpgauge.session": "Session",
    "warpgauge.web.notebook": "annotate",
}
_SUBPACKAGES = (
    "candidates", "core", "errors", "evaluation", "geometry", "io", "maps", "project", "registration", "report",
    "session", "simulate", "study",
)  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Annotations",
    "Grid",
    "KernelBundle",
    "Landmarks",
    "Project",
    "Session",
    "Suggester",
    "TransformationPrior",
    "__version__",
    "annotate",
    "as_transform",
    "blended_map",
    "calibration",
    "certify_project",
    "compare",
    "covariance_from_ellipse",
    "default_posterior",
    "displacement_norm",
    "ellipse_from_covariance",
    "entropy_map",
    "error_map",
    "error_score",
    "evaluate",
    "evaluate_project",
    "fit_kernel",
    "fuse_raters",
    "gate_project",
    "judge",
    "leave_one_out_loss",
    "leave_one_out_residuals",
    "mean_map",
    "plot_map",
    "read_image",
    "read_landmarks",
    "read_transform",
    "tre",
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
