"""Reliability of a ranking: diagnostics, warnings and sensitivity in one value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import ArrayLike

from warpgauge.core.arrays import as_points
from warpgauge.core.process import Posterior
from warpgauge.core.sensitivity import FACTOR, Sensitivity
from warpgauge.evaluation.comparison import comparable
from warpgauge.evaluation.diagnostics import Diagnostics, diagnose
from warpgauge.evaluation.sentences import judged_share
from warpgauge.evaluation.truth import Truth

# Sensitivity ranks again many times; a random part of so many targets serves for more.
_MOST_POINTS = 1000


@dataclass(frozen=True, eq=False)
class Trust:
    """Diagnostics of the posterior, and sensitivity of the ranking (None without transforms).

    ``verdict`` is that of the diagnostics; ``sentence`` is to be read before any ranking.
    """

    diagnostics: Diagnostics
    sensitivity: Sensitivity | None

    @property
    def verdict(self) -> str:
        """``"calibrated"``, ``"overconfident"``, ``"underconfident"`` or ``"undetermined"``."""
        return self.diagnostics.verdict

    @property
    def calibrated(self) -> bool:
        """Whether the test of calibration found nothing wrong (and could have)."""
        return self.diagnostics.calibrated

    @property
    def sentence(self) -> str:
        """The diagnostics' sentence, what the annotations leave open, and the sensitivity's."""
        parts = [self.diagnostics.sentence]
        share = self.diagnostics.known
        if share is not None:
            parts.append(judged_share(share))
        if self.sensitivity is not None:
            parts.append(self.sensitivity.sentence)
        return " ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain Python values."""
        found = self.diagnostics
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "coverage": [asdict(one) | {"consistent": one.consistent} for one in found.coverage],
            "standardised": found.standardised.tolist(),
            "mahalanobis": found.mahalanobis.tolist(),
            "p": found.p.tolist(),
            "adjusted_p": found.adjusted_p.tolist(),
            "qq_normal": found.qq_normal.tolist(),
            "qq_chi": found.qq_chi.tolist(),
            "applied_factor": found.applied_factor,
            "asked_factor": found.asked_factor,
            "outliers": [asdict(one) for one in found.outliers],
            "known": found.known,
            "sensitivity": None if self.sensitivity is None else asdict(self.sensitivity),
        }

    def to_json(self) -> str:
        """All numbers as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


def trust(
    posterior: Posterior,
    transforms: Mapping[str, Any] | None = None,
    targets: ArrayLike | None = None,
    *,
    factor: float = FACTOR,
    judged_by: Truth | None = None,
    pixel: float | None = None,
) -> Trust:
    """Return whether a posterior is calibrated, and how sensitive the ranking of transforms is.

    Parameters
    ----------
    posterior : Posterior
        As used for the evaluation; its own scale is what is tested.
    transforms : mapping, optional
        As for :func:`warpgauge.evaluate`; without them there is no sensitivity.
    targets : (n, d) array, optional
        Fixed points over which the error counts.
    factor : float
        By which weights and noise are changed.
    judged_by : Truth, optional
        What the transforms are ranked by, as `judge` returns it; the posterior by default.
    pixel : float, optional
        World length of a pixel: what is known to a pixel counts as known.
    """
    points = None if targets is None else as_points(targets, "targets", posterior.d)
    found = diagnose(posterior, points, pixel=pixel)
    if not transforms or points is None:
        return Trust(found, None)
    common = comparable(posterior, transforms, points)
    ranked_by = posterior if judged_by is None else judged_by
    return Trust(found, ranked_by.sensitivity(list(transforms), *common.part(_MOST_POINTS, 0), factor=factor))
