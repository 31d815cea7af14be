"""Flags: what to look at before reading a ranking, each made with its words where it is found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.factors import mahalanobis
from warpgauge.display import joined, length, percent, rounded
from warpgauge.evaluation.comparison import Comparison
from warpgauge.evaluation.leaks import LeakTest
from warpgauge.session.doubts import Finding

if TYPE_CHECKING:
    from warpgauge.session.agreement import FarMark, RaterOffset

LEAK, TOO_GOOD, UNDEFINED, UNTESTED, LATE = "leak", "too_good", "undefined", "untested", "late"
GROSS, RATER_FAR, RATER_OFFSET, COMMON_OFFSET = "gross_error", "rater_far", "rater_offset", "common_offset"
EXCLUDED, MASKED = "excluded", "masked"
DOUBTS = ("misread", "worse", "outside", "normalised", "still")
# Transforms with one of these flags have probably seen annotations.
SUSPECTED = (LEAK, TOO_GOOD)

_CHANCE = 0.001
# Residuals below these quantiles of the noise are counted: of a method that saw some of the annotations, too many are.
_QUANTILES = (0.1, 0.01, 0.001, 0.0001)
_GROSS = 6.0
# A median needs some annotations before six times of it says anything.
_FEWEST_FOR_GROSS = 6
# An offset that is common to the better transforms is named where it is not chance, and most of what they miss.
_OFFSET_SHARE, _FEWEST_FOR_OFFSET = 0.6, 8
# Places where every transform is excluded are named from this share of the targets on.
_LEAST_EXCLUDED = 0.01
# A method is excluded where a region of this probability about the expected match does not hold it.
_EXCLUDED_LEVEL = 0.99


@dataclass(frozen=True)
class Flag:
    """Something that a person should look at before reading any ranking.

    Attributes
    ----------
    code : str
        What it is, for programs.
    short, sentence : str
        In at most twelve words, and with figures and what to do.
    transform : str or None
        Which transform; None where it concerns an annotation or all transforms.
    row : int or None
        Row of the annotation, from 0.
    label : str
        What the user calls that annotation.
    p : float or None
        Probability of something as odd by chance, where it was computed.
    numbers : dict
        Further figures: shares of the targets, and distances and points in world units.
    """

    code: str
    short: str
    sentence: str
    transform: str | None = None
    row: int | None = None
    label: str = ""
    p: float | None = None
    numbers: dict[str, float] = field(default_factory=dict)

    def excused(self) -> Flag:
        """Return the flag of a transform that testifies all the same, because all are flagged."""
        return replace(self, sentence=f"{self.sentence} It is still used, because all registrations are flagged.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def leak_flag(name: str, test: LeakTest) -> Flag:
    """Flag a transform that has seen open annotations."""
    return Flag(
        LEAK,
        f"{name} has seen the landmarks; it is not ranked",
        f"{name} has seen the open annotations: it fits them better than the {test.sealed} sealed ones "
        f"(p = {test.p:.1g}), as if it was bent to them by {percent(test.share)}. It is scored, but not ranked.",
        transform=name,
        p=test.p,
        numbers={"share": test.share, "sealed": float(test.sealed)},
    )


def too_good(comparison: Comparison, noise_factor: float = 1.0) -> list[Flag]:
    """Flag transforms whose residuals at the annotations are smaller than the noise allows, in all or in too many.

    Whatever the transform, unless it has seen the annotations or the noise is overstated, the squared Mahalanobis
    lengths of the residuals are at least chi-square variables with one degree of freedom per coordinate: so is their
    sum, and at most a share q of them lies below the quantile q. ``noise_factor`` is the part of the stated variances
    that is believed.
    """
    annotations = comparison.annotations
    flags = []
    for name, values in zip(comparison.transforms, comparison.values.annotations, strict=True):
        residuals = values - annotations.moving_points
        defined = np.isfinite(residuals).all(axis=1)
        if not defined.any():
            continue
        squares = mahalanobis(residuals[defined], annotations.covariances[defined]) / noise_factor
        count = len(squares)
        chances = [float(special.chdtr(annotations.d * count, squares.sum()))]
        shares = special.chdtr(annotations.d, squares)
        for quantile in _QUANTILES:
            below = int((shares < quantile).sum())
            chances.append(float(special.bdtrc(below - 1, count, quantile)) if below else 1.0)
        p = min(1.0, len(chances) * min(chances))
        if p < _CHANCE:
            flags.append(
                Flag(
                    TOO_GOOD,
                    f"{name} has probably seen the landmarks",
                    f"{name} fits the annotations, or many of them, better than their stated precision allows "
                    f"(p = {p:.1g}): it has probably seen them, or the stated uncertainty is too large. It is scored, "
                    "but not used to estimate the true transformation.",
                    transform=name,
                    p=p,
                )
            )
    return flags


def gross_errors(comparison: Comparison) -> list[Flag]:
    """Flag annotations that all good transforms miss by more than six times the usual distance."""
    annotations = comparison.annotations
    units = comparison.scene.units
    if not comparison.transforms or len(annotations) < _FEWEST_FOR_GROSS:
        return []
    lengths = np.where(np.isfinite(comparison.landmark_errors), comparison.landmark_errors, np.inf)
    order = np.argsort(np.median(lengths, axis=1), kind="stable")
    best = lengths[order[: (len(order) + 1) // 2]].min(axis=0)
    usual = float(np.median(best))
    if not np.isfinite(usual) or usual == 0:
        return []
    flags = []
    for row in np.flatnonzero(np.isfinite(best) & (best > _GROSS * usual)):
        name = comparison.label(row)
        at = ", ".join(rounded(x, 5) for x in annotations.fixed_points[row])
        flags.append(
            Flag(
                GROSS,
                f"{name} may be a wrong match",
                f"Look at {name} again: at ({at}) in the fixed image it lies {length(best[row], units)} from every "
                f"good transform, where {length(usual, units)} is usual; it may be a wrong match.",
                row=int(row),
                label=name,
                numbers={**_axes(annotations.fixed_points[row]), "distance": float(best[row]), "usual": usual},
            )
        )
    return flags


def common_offset(comparison: Comparison) -> list[Flag]:
    """Flag a constant offset between the annotations and all good transforms.

    Of what the better half of the transforms miss at each annotation, the median is taken as what they miss in common.
    Its mean is tested against 0 (Hotelling's T squared), and must be most of it. Doing nothing is no good transform,
    and a best one that has no such offset disproves it.
    """
    annotations = comparison.annotations
    units = comparison.scene.units
    moves = np.array([name != comparison.baseline for name in comparison.transforms])
    residuals = annotations.moving_points - comparison.values.annotations
    residuals = residuals[np.isfinite(residuals).all(axis=(1, 2)) & moves]
    n, d = len(annotations), annotations.d
    if len(residuals) < 2 or n < _FEWEST_FOR_OFFSET:
        return []
    sizes = np.square(residuals).sum(axis=2).mean(axis=1)
    better = np.argsort(sizes, kind="stable")[: max(2, (len(sizes) + 1) // 2)]
    common = np.median(residuals[better], axis=0)
    offset = common.mean(axis=0)
    scatter = np.cov(common.T) / n
    total = float(np.sqrt(np.mean(np.square(common).sum(axis=1))))
    if total == 0 or np.linalg.matrix_rank(scatter) < d:
        return []
    squared = float(offset @ np.linalg.solve(scatter, offset))
    p = float(special.fdtrc(d, n - d, squared * (n - d) / (d * (n - 1))))
    size = float(np.linalg.norm(offset))
    apart = np.linalg.norm(residuals[np.argmin(sizes)].mean(axis=0) - offset)
    if p >= _CHANCE or size <= _OFFSET_SHARE * total or apart > size / 2:
        return []
    shown = ", ".join(rounded(x) for x in offset)
    return [
        Flag(
            COMMON_OFFSET,
            f"landmarks and all methods are {length(size, units)} apart on average",
            f"The annotations have a constant offset of ({shown}){f' {units}' if units else ''} to all good "
            f"transforms, {percent(size / total)} of what these miss in common (p = {p:.1g}): a biased rater or a "
            "wrong origin looks like this, and so does an error that all registrations share. No interval includes a "
            "bias of the annotations, so check some of them.",
            p=p,
            numbers={**_axes(offset), "share": size / total, "distance": size},
        )
    ]


def undefined(comparison: Comparison) -> list[Flag]:
    """Flag transforms that are not defined at some of the targets, or at far more of the annotations than of these.

    What is undefined just where it would be tested shows neither its errors nor that it has seen an annotation. Points
    that a script hands over for the targets alone are what it says they are.
    """
    flags = []
    beside = ", or that of the worst reference if that is worse" if comparison.panel else ""
    gone = np.isnan(comparison.values.annotations[:, :, 0])
    for k, (name, transform) in enumerate(comparison.transforms.items()):
        missing = ~comparison.defined[k]
        share = float(missing.mean())
        if share > 0:
            sentence = (
                f"{name} is not defined at {percent(share)} of the targets, which count against it with the error "
                f"before registration{beside}."
            )
            short = f"{name} is undefined at {percent(share)} of the targets"
            flags.append(Flag(UNDEFINED, short, sentence, transform=name, numbers={"share": share}))
        if not gone[k].any() or not (transform.anywhere or transform.description.source):
            continue
        chance = (1 + int(missing.sum())) / (1 + len(missing))
        p = float(special.bdtrc(int(gone[k].sum()) - 1, len(gone[k]), chance))
        if p < _CHANCE:
            there = percent(float(gone[k].mean()))
            sentence = (
                f"{name} is not defined at {there} of the annotations, far more than at the targets (p = {p:.1g}): "
                "they cannot show there how good it is, or whether it has seen them."
            )
            flags.append(Flag(UNTESTED, f"{name} is undefined at {there} of the landmarks", sentence, name, p=p))
    return flags


def excluded(comparison: Comparison, smallest: float) -> list[Flag]:
    """Flag places where the annotations exclude every transform of a comparison.

    The judge centres the truth at the methods. Where all fail alike and nobody asked, only the annotations around show:
    all transforms lie outside the region in which the true match is expected, and farther from its middle than twice
    the ``smallest`` error.
    """
    at = comparison.targets
    posterior = comparison.posterior
    mean = posterior.mean(at)
    covariance = posterior.covariance(at)
    away = comparison.counted - mean
    distances = np.linalg.norm(away, axis=2)
    rows: Bools = (distances > 2 * smallest).all(axis=0)
    for one in away:
        rows &= posterior.level_of(mahalanobis(one, covariance)) >= _EXCLUDED_LEVEL
    share = float(rows.mean())
    if share < _LEAST_EXCLUDED:
        return []
    places = at[rows]
    middle = places[np.argmin(np.square(places - np.median(places, axis=0)).sum(axis=1))]
    nearest = float(distances[:, rows].min())
    where = ", ".join(rounded(x, 5) for x in middle)
    return [
        Flag(
            EXCLUDED,
            f"annotate near ({where}), where the landmarks exclude every method",
            f"At {percent(share)} of the targets, for example at ({where}), the annotations exclude every method: all "
            f"lie {length(nearest, comparison.scene.units)} or more from where the match is expected, which is more "
            "than the figures say. Annotate there.",
            numbers={**_axes(middle), "share": share, "distance": nearest},
        )
    ]


def late(name: str, is_changed: bool) -> Flag:
    """Flag a transform that came after the sealed answers were opened."""
    why = "is not what was added" if is_changed else "was added after the sealed answers were opened"
    sentence = f"{name} {why}, so that they cannot show whether it has seen the annotations."
    numbers = {"changed": float(is_changed)}
    return Flag(LATE, f"{name} {why}", sentence, transform=name, numbers=numbers)


def masked(share: float, of: str) -> Flag:
    """Flag the share of the area that the targets stand for which the mask of the project leaves without any."""
    sentence = (
        f"{percent(share)} of the {of} is not judged: the mask that the project was made with (new --missing) says "
        "that nothing there has a match."
    )
    return Flag(
        MASKED, f"{percent(share)} of the {of} has no match and is not judged", sentence, numbers={"share": share}
    )


def rater_offset(found: RaterOffset, units: str) -> Flag:
    """Flag a rater who is offset from the others by a constant."""
    error = float(np.linalg.norm(found.error))
    return Flag(
        RATER_OFFSET,
        f"rater {found.rater} places {length(found.size, units)} from the others on average",
        f"{found.rater} places {length(found.size, units)} from the other raters on average (standard error "
        f"{length(error, units)}): a constant offset is not in the intervals; look at what this rater marks.",
        p=found.p,
        numbers={**_axes(found.offset), "size": found.size, "error": error},
    )


def rater_far(found: FarMark, label: str, units: str) -> Flag:
    """Flag a rater's mark of a landmark that lies far from those of the other raters."""
    rater = found.mark.rater
    away = length(found.distance, units)
    return Flag(
        RATER_FAR,
        f"rater {rater} marked {label} {away} from the others",
        f"Rater {rater} marked {label} {away} from where {joined(found.others)} marked it: look at this mark again. It "
        "also enlarges the uncertainty of every other landmark that several raters marked.",
        label=label,
        numbers={"distance": found.distance},
    )


def doubt(found: Finding, name: str, units: str | None) -> Flag:
    """Return the flag of a transform whose file was probably misread or does not belong to the images."""
    numbers = dict(found.numbers)

    def written(key: str) -> str:
        return length(numbers[key], units)

    moved = f", while the annotations move by {written('expected')}" if "expected" in numbers else ""
    as_read = f"{written('given')} as it is read" if "given" in numbers else "unknown as it is read"
    check = "check that it belongs to these images, and its direction, units and scale"
    if found.code == "misread":
        short = f"may be misread: {found.text} fits better"
        words = (
            f"may be misread: its mean error at the annotations is {as_read}, {written('other')} read {found.text}, "
            f"and {written('nothing')} without any transform"
        )
    elif found.code == "worse":
        short = "makes things worse at the landmarks"
        words = (
            f"makes things worse: its mean error at the annotations is {as_read}, and {written('nothing')} without any "
            f"transform; {check}"
        )
    elif found.code == "outside":
        short = f"maps {percent(numbers['share'])} of the targets outside"
        words = f"maps {percent(numbers['share'])} of the targets outside the moving image or not at all; {check}"
    elif found.code == "normalised":
        short = "moves no target by more than 1, as a normalised field does"
        words = (
            f"moves no target by more than 1 in any direction (RMS {written('rms')}){moved}, as a field does that is "
            "normalised to [-1, 1] and read as displacements"
        )
    else:
        short = "hardly moves anything"
        words = f"hardly moves anything (RMS {written('rms')}){moved}"
    return Flag(found.code, f"{name} {short}", f"{name} {words}.", transform=name, numbers=numbers)


def _axes(point: Floats) -> dict[str, float]:
    return dict(zip("xyz", point.tolist(), strict=False))
