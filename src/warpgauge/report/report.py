"""A report as one value: an evaluation, what is shown beside it, and every number of both for the JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.display import shown_units
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import AuditVerdict, Evaluation
from warpgauge.io.files import plain
from warpgauge.io.images import Image
from warpgauge.io.transforms import Transform
from warpgauge.report.map_section import MethodMaps
from warpgauge.report.provenance import model, versions
from warpgauge.report.suspects import Suspect, suspects
from warpgauge.session.control_questions import RaterCertificate

SCHEMA = 2
_SAMPLES = 200


@dataclass(frozen=True, eq=False)
class Report:
    """What a report shows.

    Attributes
    ----------
    evaluation : Evaluation
        With its trust, unless there is no annotation to test.
    maps : MethodMaps or None
    fixed, moving : Image or None
        The fixed one is shown below the maps, both as a checkerboard; their hashes and frames are listed.
    title : str
    labels : sequence of str
        Names of the annotations; their numbers by default.
    project, settings, hashes : mapping
        Further names and values to be listed, for instance of the project, and hashes of files.
    raters : mapping of RaterCertificate
        What control questions and repeats say about each rater.
    audit : AuditVerdict or None
    created : datetime
        Now by default.
    """

    evaluation: Evaluation
    maps: MethodMaps | None = None
    fixed: Image | None = None
    moving: Image | None = None
    title: str = "Registration report"
    labels: Sequence[str] = ()
    project: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    raters: Mapping[str, RaterCertificate] = field(default_factory=dict)
    audit: AuditVerdict | None = None
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        given = len(self.evaluation.posterior.annotations)
        if self.labels and len(self.labels) != given:
            raise InvalidInputError(f"{len(self.labels)} labels were given for {given} annotations.")

    @property
    def units(self) -> str:
        """World unit, as it is written beside numbers."""
        return shown_units(self.evaluation.units or ("px" if self.fixed is None else self.fixed.grid.units))

    @property
    def images(self) -> dict[str, Image]:
        """``"fixed"`` and ``"moving"``, as far as given."""
        return {name: one for name, one in (("fixed", self.fixed), ("moving", self.moving)) if one is not None}

    @property
    def transforms(self) -> dict[str, Transform]:
        """All transforms, best first."""
        return {name: self.evaluation.transforms[name] for name in self._ranking}

    @property
    def judged(self) -> float | None:
        """Share of the targets that the annotations inform: the one number for it."""
        return self.evaluation.verdict.known

    @property
    def methods(self) -> list[str]:
        """Names best first, without the baseline."""
        return [name for name in self._ranking if name != self.evaluation.baseline]

    @property
    def _ranking(self) -> list[str]:
        return self.evaluation.ranking(self.evaluation.norm)

    @cached_property
    def errors(self) -> dict[str, Floats]:
        """Median error of each method at the targets, of many at random parts of them, best method first."""
        judge = self.evaluation.judged_by
        medians = [
            np.stack([np.median(drawn, axis=0) for drawn in judge.error_draws(part, _SAMPLES)])
            for part in self.evaluation.comparison.parts(seed=0)
        ]
        by_name = dict(zip(self.evaluation.scores, np.concatenate(medians, axis=1), strict=True))
        return {name: by_name[name] for name in self._ranking}

    @cached_property
    def landmark_errors(self) -> dict[str, Floats]:
        """Distance of each method from each annotated match, best first; NaN outside its domain.

        Tables of points that know none of the annotated ones are left out.
        """
        compared = self.evaluation.comparison
        by_name = dict(zip(self.evaluation.scores, compared.landmark_errors, strict=True))
        return {
            name: by_name[name]
            for name, one in self.transforms.items()
            if len(by_name[name]) and (one.anywhere or np.isfinite(by_name[name]).any())
        }

    @cached_property
    def suspects(self) -> tuple[Suspect, ...]:
        """Annotations that are flagged as gross errors."""
        return suspects(self.evaluation)

    @cached_property
    def annotation_rows(self) -> list[dict[str, Any]]:
        """A row for each annotation: points, uncertainty, and how well the others predict it."""
        posterior, trust = self.evaluation.posterior, self.evaluation.trust
        given = posterior.annotations
        if len(given) == 0:
            return []
        outlying = set() if trust is None else set(trust.outliers)
        flagged = {one.row for one in self.suspects}
        spread = np.sqrt(np.trace(given.covariances, axis1=1, axis2=2) / given.d)
        return [
            {
                "number": row + 1,
                "label": str(self.labels[row]) if self.labels else self.evaluation.comparison.label(row),
                "fixed": given.fixed_points[row].tolist(),
                "moving": given.moving_points[row].tolist(),
                "covariance": given.covariances[row].tolist(),
                "sd": float(spread[row]),
                "residual": None if trust is None else float(np.linalg.norm(trust.residuals[row])),
                "mahalanobis": None if trust is None else float(trust.mahalanobis[row]),
                "p": None if trust is None else float(trust.p[row]),
                "outlier": row in outlying,
                "flagged": row in flagged,
            }
            for row in range(len(given))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain values, None for what is not a number."""
        found = self.evaluation
        numbers: dict[str, Any] = plain(
            {
                "schema": SCHEMA,
                "title": self.title,
                "created": self.created.isoformat(),
                "units": self.units,
                "norm_shown": found.norm,
                "evaluation": found.to_dict(),
                "trust": None if found.trust is None else found.trust.to_dict(),
                "errors_at_targets": {name: _quantiles(values) for name, values in self.errors.items()},
                "errors_at_annotations": self.landmark_errors,
                "targets": {"count": found.targets, "region": found.region, "judged": self.judged},
                "maps": None if self.maps is None else self.maps.summary(),
                "annotations": self.annotation_rows,
                "flagged_annotations": [one.to_dict() for one in self.suspects],
                "audit": None if self.audit is None else self.audit.to_dict(),
                "raters": {name: vars(one) for name, one in self.raters.items()},
                "transforms": {name: one.description.to_dict() for name, one in self.transforms.items()},
                "model": model(found.posterior),
                "images": {name: image.summary() for name, image in self.images.items()},
                "project": self.project,
                "settings": self.settings,
                "hashes": self.hashes,
                "versions": versions(),
            }
        )
        return numbers


def _quantiles(values: Floats) -> dict[str, float]:
    names = {"p5": 5, "p25": 25, "median": 50, "p75": 75, "p95": 95}
    found = {name: float(np.percentile(values, q)) for name, q in names.items()}
    return {**found, "mean": float(values.mean()), "max": float(values.max())}
