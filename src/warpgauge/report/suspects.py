"""Annotations flagged as gross errors, and where their match is expected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.evaluation import Evaluation


@dataclass(frozen=True, eq=False)
class Suspect:
    """An annotation that is flagged as a gross error.

    Attributes
    ----------
    row : int
        Of the annotation, from 0.
    sentence : str
        Why it is flagged.
    fixed, moving : (d,) array
        The annotated point, and the mark in the moving image.
    expected : (d,) array
        The match that is expected from the transforms and all annotations that are not flagged.
    """

    row: int
    sentence: str
    fixed: Floats
    moving: Floats
    expected: Floats

    @property
    def distance(self) -> float:
        """Between the mark and the expected match, in world units."""
        return float(np.linalg.norm(self.expected - self.moving))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the number counts from 1."""
        return {
            "number": self.row + 1,
            "fixed": self.fixed.tolist(),
            "moving": self.moving.tolist(),
            "expected": self.expected.tolist(),
            "distance": self.distance,
        }


def suspects(evaluation: Evaluation) -> tuple[Suspect, ...]:
    """Return the annotations that an evaluation flags, with the matches that are expected without them."""
    flagged = [(flag.row, flag.sentence) for flag in evaluation.flags if flag.row is not None]
    other, compared = evaluation.without_flagged, evaluation.comparison
    if other is None:
        return ()
    given = compared.annotations
    expected = other.judged_by.mean(given.fixed_points[[row for row, _ in flagged]])
    return tuple(
        Suspect(row, sentence, given.fixed_points[row], given.moving_points[row], match)
        for (row, sentence), match in zip(flagged, expected, strict=True)
    )
