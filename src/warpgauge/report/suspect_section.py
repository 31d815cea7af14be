"""The part of the page that shows the annotations flagged as gross errors, and what the verdict is without them."""

from __future__ import annotations

from warpgauge.evaluation.sentences import length, without
from warpgauge.maps import picture_bytes
from warpgauge.report.content import Content
from warpgauge.report.html import Cell, figure_cell, heading, image, number, paragraph, sampled_cell, table
from warpgauge.report.suspects import thumbnails

# So many are drawn; whoever has more has another problem than single slips.
MOST_DRAWN = 12
_DPI = 110


def suspect_section(content: Content) -> str:
    """Return the flagged annotations with two thumbnails each, the verdict without them, and both sets of scores."""
    parts = [
        paragraph(
            "Every good method misses these annotations by far more than usual. They were used as they are: nothing "
            "was deleted. Look at each. If the mark is in the wrong place, correct it or take it back, and make the "
            "report again. If it is right, all methods are wrong there."
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
                f"{one.sentence} By the methods and the other annotations, the match is expected {away} from the mark.",
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
    heads = (f"error ({content.units})", "90 % interval", "best with probability")
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
