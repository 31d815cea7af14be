"""Flags: what to look at before reading a ranking. Transforms too good to be true, and grossly wrong annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from warpgauge.core.factors import mahalanobis
from warpgauge.evaluation import sentences
from warpgauge.evaluation.comparison import Comparison
from warpgauge.evaluation.leaks import LeakTest

LEAK, UNDEFINED, LATE = "leak", "undefined", "late"
RATER_OFFSET, COMMON_OFFSET = "rater_offset", "common_offset"
# All methods lie on one side of the annotations: so many standard errors each, and alike by this share of the offset.
_OFFSET_ERRORS, _OFFSET_ALIKE = 4.0, 0.5
TOO_GOOD = 0.001
GROSS = 6.0
# A median needs some annotations before six times of it says anything.
_FEWEST_FOR_GROSS = 6


@dataclass(frozen=True)
class Flag:
    """Something that a person should look at before reading any ranking.

    Attributes
    ----------
    code : {"too_good", "leak", "late", "undefined", "gross_error"}
        A transform that fits the annotations better than their stated precision allows, so that it has probably seen
        them; one that fits open annotations better than sealed ones; one that was added or changed after these were
        opened; one that is not defined at some targets; or an annotation that the transforms and the other
        annotations contradict; ``"rater_offset"``, a rater who is offset from the others by a constant, and
        ``"common_offset"``, annotations that are offset from all methods. Doubts that nobody has accepted have the
        codes of `warpgauge.session.doubts`.
    transform : str or None
        Which transform; None for ``"gross_error"``.
    row : int or None
        Row of the annotation, from 0, for ``"gross_error"``; sentences count from 1.
    numbers : dict
        What was found: ``p``, the probability of something as odd by chance, and ``used``, whether the transform is
        used to estimate the truth all the same; ``sealed`` and ``share`` of a leak test; ``share`` of the targets and
        whether a ``panel`` counts beside no registration; or ``distance`` and the ``usual`` distance from the good
        transforms, and the fixed point ``x``, ``y``, ``z``.
    units : str or None
        World unit, where it is known.
    text : str
        The reading that fits better, or what was said of an import.
    """

    code: str
    transform: str | None = None
    row: int | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    units: str | None = None
    text: str = ""

    @property
    def kind(self) -> str:
        """The code."""
        return self.code

    @property
    def p(self) -> float | None:
        """Probability of something as odd by chance, where it was computed."""
        return self.numbers.get("p")

    @property
    def sentence(self) -> str:
        """What it is about, and what to do."""
        return sentences.flag(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "kind": self.kind,
            "sentence": self.sentence,
            "transform": self.transform,
            "row": self.row,
            "p": self.p,
            "code": self.code,
            "numbers": dict(self.numbers),
            **({"text": self.text} if self.text else {}),
        }


def leak_flag(name: str, test: LeakTest) -> Flag:
    """Flag a transform that has seen open annotations."""
    return Flag(LEAK, transform=name, numbers={"p": test.p, "share": test.share, "sealed": float(test.sealed)})


def undefined(comparison: Comparison) -> tuple[Flag, ...]:
    """Flag transforms that are not defined at some of the targets."""
    shares, panel = (~comparison.defined).mean(axis=1), float(bool(comparison.panel))
    return tuple(
        Flag(UNDEFINED, transform=name, numbers={"share": float(share), "panel": panel})
        for name, share in zip(comparison.transforms, shares, strict=True)
        if share > 0
    )


def too_good(comparison: Comparison, noise_factor: float = 1.0) -> tuple[Flag, ...]:
    """Flag transforms whose residuals at the annotations are smaller than the noise allows.

    The squared Mahalanobis lengths of the residuals add up to at least a chi-square variable with one degree of freedom
    per coordinate, whatever the transform, unless it has seen the annotations or the noise is overstated.
    ``noise_factor`` is the part of the stated variances that is believed.
    """
    given, flags = comparison.annotations, []
    for name, values in zip(comparison.transforms, comparison.values.annotations, strict=True):
        residuals = values - given.moving_points
        known = np.isfinite(residuals).all(axis=1)
        if not known.any():
            continue
        total = float(mahalanobis(residuals[known], given.covariances[known]).sum())
        p = float(special.chdtr(given.d * int(known.sum()), total / noise_factor))
        if p < TOO_GOOD:
            flags.append(Flag("too_good", transform=name, numbers={"p": p}))
    return tuple(flags)


def common_offset(comparison: Comparison) -> tuple[Flag, ...]:
    """Flag a constant offset of the annotations from all methods, of which there are at least two."""
    given, names = comparison.annotations, list(comparison.transforms)
    kept = [row for row, name in enumerate(names) if name != comparison.baseline]
    residuals = given.moving_points - comparison.values.annotations[kept]
    residuals = residuals[:, np.isfinite(residuals).all(axis=(0, 2))]
    count = residuals.shape[1]
    if len(kept) < 2 or count < _FEWEST_FOR_GROSS:
        return ()
    means = residuals.mean(axis=1)
    common = means.mean(axis=0)
    size = float(np.linalg.norm(common))
    along = residuals @ (common / (size or 1.0))
    errors = along.std(axis=1, ddof=1) / np.sqrt(count)
    if not size or np.linalg.norm(means - common, axis=1).max() > _OFFSET_ALIKE * size:
        return ()
    if not (along.mean(axis=1) > _OFFSET_ERRORS * errors).all():
        return ()
    numbers = {**dict(zip("xyz", common.tolist(), strict=False)), "size": size, "error": float(errors.max())}
    numbers["methods"] = float(len(kept))
    return (Flag(COMMON_OFFSET, numbers=numbers, units=comparison.scene.units),)


def gross_errors(comparison: Comparison) -> tuple[Flag, ...]:
    """Flag annotations that all good transforms miss by more than six times the usual distance."""
    given, units = comparison.annotations, comparison.scene.units
    if not comparison.transforms or len(given) < _FEWEST_FOR_GROSS:
        return ()
    lengths = comparison.landmark_errors
    lengths[~np.isfinite(lengths)] = np.inf
    order = np.argsort(np.median(lengths, axis=1), kind="stable")
    best = lengths[order[: (len(order) + 1) // 2]].min(axis=0)
    usual = float(np.median(best))
    if not np.isfinite(usual) or usual == 0:
        return ()
    return tuple(
        Flag(
            "gross_error",
            row=int(row),
            numbers={
                **dict(zip("xyz", given.fixed_points[row].tolist(), strict=False)),
                "distance": float(best[row]),
                "usual": usual,
            },
            units=units,
        )
        for row in np.flatnonzero(np.isfinite(best) & (best > GROSS * usual))
    )
