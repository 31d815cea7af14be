"""Every number of a report, as plain values for the JSON beside it; the page shows a selection of the same."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from warpgauge._version import __version__
from warpgauge.core.arrays import Floats
from warpgauge.core.leave_one_out import left_out
from warpgauge.core.process import Posterior
from warpgauge.evaluation import Certificate, Evaluation, Trust
from warpgauge.io.images import Image
from warpgauge.io.transforms import Transform
from warpgauge.report.map_section import MethodMaps
from warpgauge.report.suspects import Suspect
from warpgauge.session.control_questions import RaterCertificate

SCHEMA = 2
_LIBRARIES = ("numpy", "scipy", "numba", "matplotlib", "nibabel", "SimpleITK")


@dataclass(frozen=True, eq=False)
class Content:
    """Content of a report.

    Attributes
    ----------
    title : str
    created : datetime
    units : str
        What one world unit is.
    evaluation : Evaluation
        With its trust, unless there is no annotation to test.
    errors : dict of (n,) arrays
        Expected error of each method at the targets, best method first; may be empty.
    landmark_errors : dict of (L,) arrays
        Distance of each method from each annotated match, best method first; NaN outside its domain.
    suspects : tuple of Suspect
        Annotations that are flagged as gross errors.
    certificate : Certificate or None
        The verdict of the audit, where there is one.
    raters : mapping of RaterCertificate
        What control questions and repeats say about each rater.
    maps : MethodMaps or None
    images : dict of Image
        ``"fixed"`` and ``"moving"``, as far as given.
    project, settings, hashes : mapping
        Names and values to be shown.
    labels : list of str
        Names of the annotations, in order.
    """

    title: str
    created: datetime
    units: str
    evaluation: Evaluation
    errors: dict[str, Floats]
    maps: MethodMaps | None
    images: dict[str, Image]
    project: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    landmark_errors: dict[str, Floats] = field(default_factory=dict)
    suspects: tuple[Suspect, ...] = ()
    raters: Mapping[str, RaterCertificate] = field(default_factory=dict)
    certificate: Certificate | None = None

    @property
    def posterior(self) -> Posterior:
        """What the annotations alone say."""
        return self.evaluation.posterior

    @property
    def trust(self) -> Trust | None:
        """Calibration and sensitivity; None where there is no annotation to test."""
        return self.evaluation.trust

    @property
    def region(self) -> str:
        """What the targets stand for, in words; empty where not stated."""
        return self.evaluation.region

    @property
    def transforms(self) -> dict[str, Transform]:
        """All transforms, best first."""
        every = self.evaluation.transforms
        return {name: every[name] for name in self.evaluation.ranking(self.norm)}

    @property
    def judged(self) -> float | None:
        """Share of the targets about which the annotations say enough: the one number for it."""
        return None if self.trust is None else self.trust.diagnostics.known

    @property
    def methods(self) -> list[str]:
        """Names best first, without the baseline."""
        return [name for name in self.evaluation.ranking(self.norm) if name != self.evaluation.baseline]

    @property
    def norm(self) -> str:
        """The norm that the page shows."""
        return self.evaluation.norm

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain values, None for what is not a number."""
        plain: dict[str, Any] = finite(
            {
                "schema": SCHEMA,
                "title": self.title,
                "created": self.created.isoformat(),
                "units": self.units,
                "norm_shown": self.norm,
                "evaluation": self.evaluation.to_dict(),
                "trust": None if self.trust is None else self.trust.to_dict(),
                "errors_at_targets": {name: _quantiles(values) for name, values in self.errors.items()},
                "errors_at_annotations": {name: values.tolist() for name, values in self.landmark_errors.items()},
                "targets": {"count": self.evaluation.targets, "region": self.region, "judged": self.judged},
                "maps": None if self.maps is None else self.maps.summary(),
                "annotations": annotation_rows(self),
                "flagged_annotations": [one.to_dict() for one in self.suspects],
                "certificate": None if self.certificate is None else self.certificate.content,
                "raters": {name: vars(one) for name, one in self.raters.items()},
                "transforms": {name: one.description.to_dict() for name, one in self.transforms.items()},
                "model": model(self.posterior),
                "images": {name: image.summary() for name, image in self.images.items()},
                "project": dict(self.project),
                "settings": dict(self.settings),
                "hashes": dict(self.hashes),
                "versions": versions(),
            }
        )
        return plain


def finite(value: Any) -> Any:
    """Turn a nested value into what JSON can hold; NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(key): finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, np.ndarray)):
        return [finite(one) for one in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, np.generic):
        return finite(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return str(value)


def _quantiles(values: Floats) -> dict[str, float]:
    names = {"p5": 5, "p25": 25, "median": 50, "p75": 75, "p95": 95}
    found = {name: float(np.percentile(values, q)) for name, q in names.items()}
    return {**found, "mean": float(values.mean()), "max": float(values.max())}


def model(posterior: Posterior) -> dict[str, Any]:
    """Return the parameters of the prior and the factor on the posterior's covariance."""
    prior = posterior.prior
    return {
        "kernel": prior.kernel.family,
        "scales": prior.kernel.scales.tolist(),
        "weights": prior.kernel.weights.tolist(),
        "mean": prior.mean if isinstance(prior.mean, str) else "a function",
        "extra_noise_variance": prior.noise,
        "covariance_factor": posterior.scale,
        "calibrated_by_leave_one_out": posterior.calibrates,
        "weights_learned": prior.fit is not None,
        "isotropic_noise": posterior.isotropic,
    }


def annotation_rows(content: Content) -> list[dict[str, Any]]:
    """Return a row for each annotation: points, uncertainty, and how well the others predict it."""
    given = content.posterior.annotations
    if len(given) == 0:
        return []
    found = left_out(content.posterior.conditioned, content.posterior.weights)
    diagnostics = None if content.trust is None else content.trust.diagnostics
    outlying = set() if diagnostics is None else {one.row for one in diagnostics.outliers}
    flagged = {one.row for one in content.suspects}
    spread = np.sqrt(np.trace(given.covariances, axis1=1, axis2=2) / given.d)
    return [
        {
            "number": row + 1,
            "label": content.labels[row] if content.labels else str(row + 1),
            "fixed": given.fixed_points[row].tolist(),
            "moving": given.moving_points[row].tolist(),
            "covariance": given.covariances[row].tolist(),
            "sd": float(spread[row]),
            "residual": float(np.linalg.norm(found.residuals[row])),
            "mahalanobis": None if diagnostics is None else float(diagnostics.mahalanobis[row]),
            "p": None if diagnostics is None else float(diagnostics.p[row]),
            "outlier": row in outlying,
            "flagged": row in flagged,
        }
        for row in range(len(given))
    ]


def versions() -> dict[str, str]:
    """Return the versions of this program and of the libraries that the numbers went through."""
    found = {"warpgauge": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
