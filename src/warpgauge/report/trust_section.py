"""Report sections on trust: flagged annotations, calibration, ranking sensitivity, and certificates of the raters.

Annotations flagged as gross errors are shown with their expected match, and as they look in the two images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.evaluation import Evaluation, Truth
from warpgauge.evaluation.sentences import judged_share, length, without
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.maps import Picture, Plane, displayable, map_picture, picture_bytes, warped_image
from warpgauge.maps.picture_parts import OKABE_ITO, fitting_level, shown_units
from warpgauge.report import charts
from warpgauge.report.html import (
    Cell,
    box,
    chart,
    figure_cell,
    heading,
    image,
    number,
    paragraph,
    percent_cell,
    sampled_cell,
    table,
    text_cell,
)
from warpgauge.session.check_questions import RaterCertificate

if TYPE_CHECKING:
    from warpgauge.report.content import Content


_ELEMENTS = 200  # along each side of a thumbnail
_FEWEST_PIXELS = 60  # so many pixels are shown along each side at least
_AROUND = 3.0  # side of a thumbnail, in distances between the mark and the expected match
_MARK, _EXPECTED = OKABE_ITO[1], OKABE_ITO[5]


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


def suspects(evaluation: Evaluation, truth: Truth) -> tuple[Suspect, ...]:
    """Return the annotations that an evaluation flags, with the matches that are expected without them."""
    flagged = [(flag.row, flag.sentence) for flag in evaluation.flags if flag.row is not None]
    other = truth.without_flagged() if flagged else None
    if other is None:
        return ()
    given = truth.annotations
    expected = other.mean(given.fixed_points[[row for row, _ in flagged]])
    return tuple(
        Suspect(row, sentence, given.fixed_points[row], given.moving_points[row], match)
        for (row, sentence), match in zip(flagged, expected, strict=True)
    )


def thumbnails(fixed: Image, moving: Image, suspect: Suspect) -> Any:
    """Draw the fixed image around the point and the moving image around the mark, at one scale; return the figure.

    In 3D the plane is that of the fixed image's axes in which mark and expected match differ most.
    """
    from matplotlib import patheffects
    from matplotlib.lines import Line2D

    frame = fixed.grid
    offset = frame.direction.T @ (suspect.expected - suspect.moving)
    axis = 2 if frame.d == 2 else int(np.argmin(np.abs(offset)))
    within = np.delete(offset, axis) if frame.d == 3 else offset
    side = max(_AROUND * float(np.linalg.norm(within)), _FEWEST_PIXELS * float(max(frame.pixel, moving.grid.pixel)))
    here, there = (Plane(_patch(frame, point, side, axis), axis) for point in (suspect.fixed, suspect.moving))
    titles = [
        "\n".join(part for part in (title, plane.caption) if part)
        for title, plane in ((f"fixed image, annotation {suspect.row + 1}", here), ("moving image", there))
    ]
    panels = {"fixed": _sampled(fixed, here.grid), "moving": _sampled(moving, there.grid)}
    # Both patches have the same shape and scale, so that one picture holds both; marks and titles are each one's own.
    figure = map_picture(Picture(panels, here.grid, "image", planes=[here]), width=6.4)
    halo = [patheffects.withStroke(linewidth=3.5, foreground="black")]
    cross: dict[str, Any] = {"marker": "+", "color": _MARK, "markersize": 14, "markeredgewidth": 2, "linestyle": ""}
    ring: dict[str, Any] = {
        "marker": "o", "color": _EXPECTED, "markerfacecolor": "none", "markersize": 12, "markeredgewidth": 2,
        "linestyle": "",
    }  # fmt: skip
    for place, plane, title, marks in (
        (figure.axes[0], here, titles[0], [(suspect.fixed, cross)]),
        (figure.axes[1], there, titles[1], [(suspect.moving, cross), (suspect.expected, ring)]),
    ):
        place.set_title(title, fontsize=9)
        for point, style in marks:
            at, _ = plane.positions(point[None])
            place.plot(*at.T, path_effects=halo, zorder=7, **style)
    figure.legend(
        handles=[
            Line2D([], [], label="annotated point and its mark", **cross),
            Line2D([], [], label=f"expected match, {suspect.distance:.3g} {shown_units(frame.units)} away", **ring),
        ],
        loc="outside lower center", ncols=2, fontsize=9, frameon=False,
    )  # fmt: skip
    return figure


def _patch(frame: Grid, point: Floats, side: float, axis: int) -> Grid:
    """Return a square of a given side around a point, one element thick in 3D, along the axes of a frame."""
    size = np.full(frame.d, _ELEMENTS)
    if frame.d == 3:
        size[axis] = 1
    spacing = np.full(frame.d, side / _ELEMENTS)
    origin = point - frame.direction @ (spacing * (size - 1) / 2)
    return Grid(tuple(size.tolist()), spacing, origin, frame.direction, frame.units)


def _sampled(image: Image, patch: Grid) -> Floats:
    """Return an image on a small grid, in [0, 1]; only what lies around the grid is read, NaN outside the image."""
    level = fitting_level(image, float(patch.spacing.min()))
    frame = image.level_grid(level)
    index = frame.world_to_index(patch.points())
    low = np.clip(np.floor(index.min(axis=0)).astype(int) - 1, 0, frame.size)
    high = np.clip(np.ceil(index.max(axis=0)).astype(int) + 2, 0, frame.size)
    if np.any(low >= high):
        return np.full(patch.shape, np.nan)
    width, height = (high - low)[:2].tolist()
    tiles = [
        image.tile(2, z, level, int(low[1]), int(low[0]), height, width)
        for z in (range(int(low[2]), int(high[2])) if frame.d == 3 else [0])
    ]
    samples = np.stack(tiles) if frame.d == 3 else tiles[0]
    part = Grid(tuple((high - low).tolist()), frame.spacing, frame.index_to_world(low), frame.direction, frame.units)
    return displayable(warped_image((samples, part), lambda points: points, patch))


# More than this is not a matter of single slips, so the rest is only listed.
MOST_DRAWN = 12
_DPI = 110


def suspect_section(content: Content) -> str:
    """Return the flagged annotations with two thumbnails each, the verdict without them, and both sets of scores."""
    parts = [
        paragraph(
            "Every good method misses these annotations by far more than usual. They are still used: nothing was "
            "deleted. Check each one. If the mark is wrong, correct or undo it and write the report again. If it is "
            "right, all methods are wrong there."
        )
    ]
    drawn = content.suspects[:MOST_DRAWN] if _drawable(content) else ()
    parts.append('<div class="pair">')
    for one in drawn:
        away = length(one.distance, content.units)
        parts.append(
            image(
                picture_bytes(thumbnails(content.images["fixed"], content.images["moving"], one), "png", dpi=_DPI),
                "png",
                f"Annotation {one.row + 1}: the fixed image around the point and the moving image around its mark, at "
                f"one scale. The expected match lies {away} from the mark.",
                f"{one.sentence} The methods and the other annotations predict the match {away} from the mark.",
            )
        )
    parts.append("</div>")
    left = len(content.suspects) - len(drawn)
    if drawn and left:
        parts.append(paragraph(f"{left} more are not drawn; they are marked in the list of annotations."))
    return "".join(parts) + _without(content)


def _drawable(content: Content) -> bool:
    return set(content.images) == {"fixed", "moving"} and content.images["fixed"].grid.d == content.posterior.d


def _without(content: Content) -> str:
    """Return the verdict without the flagged annotations, and the scores with and without them."""
    found, norm = content.evaluation, content.norm
    other = found.without_flagged
    if other is None:
        return ""
    rows: list[tuple[str, list[Cell]]] = []
    for name in found.ranking(norm):
        cells = []
        for one in (found, other):
            score = one.scores[name]
            low, high = score.interval[norm]
            cells += [
                figure_cell(score.score[norm]),
                Cell(f"{number(low)}\u00a0to\u00a0{number(high)}"),
                sampled_cell(score.probability_best[norm], one.samples),
            ]
        rows.append((name, cells))
    heads = (f"error ({content.units})", "90 % interval", "probability of being best")
    return (
        heading("What changes without them")
        + paragraph(without([one.row for one in content.suspects], other.verdict))
        + table(
            f"Errors from all {found.annotations} annotations, and from the {other.annotations} that are not flagged.",
            ("method", *heads, *(f"without: {head}" for head in heads)),
            rows,
            baseline=found.baseline,
            name="without-flagged",
        )
    )


def trust_section(content: Content) -> str:
    """Return coverage, residuals, quantiles, factor, outliers and sensitivity."""
    if content.trust is None:
        return paragraph("There are no annotations to test the model with.")
    found = content.trust.diagnostics
    said = "; ".join(f"{one.inside} of {one.count} in the {100 * one.level:.0f} % region" for one in found.coverage)
    rows = [
        (f"{100 * one.level:.0f} %", [Cell(f"{one.inside} of {one.count}", one.inside), percent_cell(one.share),
         percent_cell(one.low), percent_cell(one.high), text_cell("yes" if one.consistent else "no")])
        for one in found.coverage
    ]  # fmt: skip
    parts = [
        box("warning" if found.verdict == "overconfident" else "notice", found.sentence),
        paragraph(
            "The test predicts each annotation from all others. If the model is well calibrated, about half of the "
            "annotations lie in the predicted 50 % region, and 19 of 20 in the 95 % region."
            + ("" if content.judged is None else f" {judged_share(content.judged)}")
        ),
        table(
            "Leave-one-out coverage with 95 % binomial intervals.",
            ("region", "inside", "share", "interval from", "to", "consistent"),
            rows,
            flagged=frozenset(f"{100 * one.level:.0f} %" for one in found.coverage if not one.consistent),
            name="coverage",
        ),
        paragraph(
            f"The model's standard deviations are multiplied by {number(np.sqrt(found.applied_factor))}, to match the "
            "residuals."
            if found.applied_factor != 1
            else "The model's standard deviations are used unchanged."
        ),
        '<div class="pair">',
        chart(
            charts.coverage(found),
            f"Bars of coverage: {said}.",
            "Share of the annotations inside each region: observed (bars) and expected (dashed).",
        ),
        chart(
            charts.residuals(found),
            f"Standardised residuals of {len(found.p)} annotations; "
            f"{int((np.abs(found.standardised) > 1.96).sum())} of {found.standardised.size} beyond 1.96.",
            "Standardised residuals. 95 % of them should lie in the shaded band.",
        ),
        chart(
            charts.quantiles(found),
            f"Quantile plot of the residual lengths; the largest is {number(float(found.mahalanobis.max()))}.",
            "Lengths of the standardised residuals, observed against expected. Points above the line mean that the "
            "model is overconfident.",
        ),
        chart(
            charts.components(found),
            "Quantile plot of the components of the standardised residuals against what the model states.",
            "Components of the standardised residuals, observed against expected (normal or Student-t).",
        ),
        "</div>",
    ]
    return "".join(parts) + _sensitivity(content)


def _sensitivity(content: Content) -> str:
    tested = None if content.trust is None else content.trust.sensitivity
    if tested is None or len(tested.ranking) < 2:
        return ""
    shown = [one for one in tested.variations if one.kind != "left out" or one.best_changes]
    rows = [
        (one.name, [text_cell(one.ranking[0]), figure_cell(one.spearman), percent_cell(one.kendall_distance),
                    percent_cell(one.lead)])
        for one in shown
    ]  # fmt: skip
    return (
        heading("Ranking sensitivity")
        + paragraph(tested.sentence)
        + table(
            "The ranking under changed assumptions. Leaving out an annotation is listed only if it changes the best.",
            ("change", "best method", "rank correlation", "pairs that change order", "probability that the best leads"),
            rows,
            flagged=frozenset(one.name for one in shown if one.best_changes),
            name="sensitivity",
        )
    )


def rater_section(content: Content) -> str:
    """Return a certificate for each rater: bias, scatter and repeatability with 95 % intervals."""
    rows = []
    for name, one in content.raters.items():
        spread = [(one.sd, one.sd_low, one.sd_high), (one.repeat_sd, one.repeat_low, one.repeat_high)]
        rows.append(
            (
                name,
                [
                    Cell(f"{one.inside} of {one.controls}" if one.controls else "-", one.inside),
                    text_cell("-" if one.bias is None else "; ".join(_biases(one))),
                    *(cell for value, low, high in spread for cell in (figure_cell(value), _interval(low, high))),
                    Cell(str(one.repeats), one.repeats),
                ],
            )
        )
    units = content.units
    heads = ("rater", "known matches in the drawn region", f"bias, {units}", f"SD, {units}", "interval",
             f"repeatability SD, {units}", "interval", "repeats")  # fmt: skip
    return paragraph(
        "Control questions have known matches, and raters cannot tell them from other questions. Bias: mean offset "
        "from the known matches. SD: scatter of a mark about that offset, per direction. Repeatability: scatter "
        "between two marks of the same place. The verdict does not use the answers to control questions."
    ) + table("Certificates of the raters, with 95 % intervals.", heads, rows, name="raters")


def _biases(one: RaterCertificate) -> list[str]:
    assert one.bias is not None
    assert one.bias_low is not None
    assert one.bias_high is not None
    parts = zip("xyz", one.bias, one.bias_low, one.bias_high, strict=False)
    return [f"{axis} {number(value)} ({number(low)} to {number(high)})" for axis, value, low, high in parts]


def _interval(low: float | None, high: float | None) -> Cell:
    return text_cell("-" if low is None or high is None else f"{number(low)} to {number(high)}")
