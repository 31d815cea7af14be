"""Flags: what to look at before reading a ranking. Transforms too good to be true, and grossly wrong annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.factors import mahalanobis
from warpgauge.evaluation import sentences
from warpgauge.evaluation.comparison import Comparison
from warpgauge.evaluation.leaks import LeakTest

LEAK, UNDEFINED, LATE, EXCLUDED, MASKED = "leak", "undefined", "late", "excluded", "masked"
RATER_OFFSET, COMMON_OFFSET, UNTESTED = "rater_offset", "common_offset", "untested"
TOO_GOOD = 0.001
GROSS = 6.0
# A median needs some annotations before six times of it says anything.
_FEWEST_FOR_GROSS = 6
# An offset that is common to the better transforms is named where it is not chance, and most of what they miss.
_OFFSET_P, _OFFSET_SHARE, _FEWEST_FOR_OFFSET = 0.001, 0.6, 8
# Places where every transform is excluded are named from this share of the targets on.
_LEAST_EXCLUDED = 0.01


@dataclass(frozen=True)
class Flag:
    """Something that a person should look at before reading any ranking.

    Attributes
    ----------
    code : {"too_good", "leak", "late", "undefined", "gross_error", "excluded"}
        A transform that fits the annotations better than their stated precision allows, so that it has probably seen
        them; one that fits open annotations better than sealed ones; one that was added or changed after these were
        opened; one that is not defined at some targets, or (``"untested"``) at many annotations; an annotation that the
        transforms and the other annotations contradict; or places where the annotations exclude every transform.
        ``"rater_offset"`` is a rater who is offset from the others by a constant, ``"common_offset"`` an offset of the
        annotations from all good transforms, and
        ``"masked"`` what the project's mask says to have no match. Doubts that nobody has accepted have the codes of
        `warpgauge.session.doubts`.
    transform : str or None
        Which transform; None for ``"gross_error"`` and what concerns all.
    row : int or None
        Row of the annotation, from 0, for ``"gross_error"``; sentences count from 1.
    numbers : dict
        What was found: ``p``, the probability of something as odd by chance, and ``used``, whether the transform is
        used to estimate the truth all the same; ``sealed`` and ``share`` of a leak test; ``share`` of the targets and
        whether a ``panel`` counts beside no registration; ``distance`` and the ``usual`` distance from the good
        transforms, and the fixed point ``x``, ``y``, ``z``; the offset ``x``, ``y``, ``z``, its length ``distance`` and
        the ``share`` of the common residuals that it is; or the ``share`` of the targets, the least ``distance`` of a
        transform there, and one of the places.
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


def untested(comparison: Comparison) -> tuple[Flag, ...]:
    """Flag transforms that are not defined at the annotations much more often than at the targets.

    What is undefined just where it would be tested shows neither its errors nor that it has seen an annotation. Points
    that a script hands over for the targets alone are what it says they are.
    """
    gone, flags = np.isnan(comparison.values.annotations[:, :, 0]), []
    for (name, transform), here, known in zip(comparison.transforms.items(), gone, comparison.defined, strict=True):
        if not transform.anywhere and not transform.description.source:
            continue
        chance = (1 + int((~known).sum())) / (1 + len(known))
        p = float(special.bdtrc(int(here.sum()) - 1, len(here), chance)) if here.any() else 1.0
        if p < TOO_GOOD:
            flags.append(Flag(UNTESTED, transform=name, numbers={"p": p, "share": float(here.mean())}))
    return tuple(flags)


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
                **_axes(given.fixed_points[row]),
                "distance": float(best[row]),
                "usual": usual,
            },
            units=units,
        )
        for row in np.flatnonzero(np.isfinite(best) & (best > GROSS * usual))
    )


def common_offset(comparison: Comparison) -> tuple[Flag, ...]:
    """Flag a constant offset between the annotations and all good transforms.

    Of what the better half of the transforms miss at each annotation, the median is taken as what they miss in common.
    Its mean is tested against 0 (Hotelling's T squared), and must be most of it. Doing nothing is no good transform,
    and a best one that has no such offset disproves it.
    """
    given, residuals = comparison.annotations, comparison.annotations.moving_points - comparison.values.annotations
    done = np.array([name != comparison.baseline for name in comparison.transforms])
    residuals = residuals[np.isfinite(residuals).all(axis=(1, 2)) & done]
    n, d = len(given), given.d
    if len(residuals) < 2 or n < _FEWEST_FOR_OFFSET:
        return ()
    sizes = np.square(residuals).sum(axis=2).mean(axis=1)
    common = np.median(residuals[np.argsort(sizes, kind="stable")[: max(2, (len(sizes) + 1) // 2)]], axis=0)
    offset, scatter = common.mean(axis=0), np.cov(common.T) / n
    total = float(np.sqrt(np.mean(np.square(common).sum(axis=1))))
    if total == 0 or np.linalg.matrix_rank(scatter) < d:
        return ()
    squared = float(offset @ np.linalg.solve(scatter, offset))
    p, share = float(special.fdtrc(d, n - d, squared * (n - d) / (d * (n - 1)))), float(np.linalg.norm(offset)) / total
    apart = np.linalg.norm(residuals[np.argmin(sizes)].mean(axis=0) - offset)
    if p >= _OFFSET_P or share <= _OFFSET_SHARE or apart > np.linalg.norm(offset) / 2:
        return ()
    numbers = {"p": p, "share": share, "distance": float(np.linalg.norm(offset))}
    return (Flag(COMMON_OFFSET, numbers={**_axes(offset), **numbers}, units=comparison.scene.units),)


def excluded(comparison: Comparison, rows: Bools) -> tuple[Flag, ...]:
    """Flag places, by rows of the targets, where the annotations exclude every transform of a comparison."""
    if rows.mean() < _LEAST_EXCLUDED:
        return ()
    at = comparison.targets[rows]
    nearest = np.linalg.norm(comparison.counted[:, rows] - comparison.posterior.mean(at), axis=2).min()
    middle = at[np.argmin(np.square(at - np.median(at, axis=0)).sum(axis=1))]
    numbers = {**_axes(middle), "share": float(rows.mean()), "distance": float(nearest)}
    return (Flag(EXCLUDED, numbers=numbers, units=comparison.scene.units),)


def _axes(point: Floats) -> dict[str, float]:
    return dict(zip("xyz", point.tolist(), strict=False))
