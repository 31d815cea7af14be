"""The part of the page that says where each method is wrong."""

from __future__ import annotations

from warpgauge.maps import Picture, map_picture, picture_bytes
from warpgauge.report.content import Content
from warpgauge.report.html import heading, image, paragraph, percent, percent_cell, table
from warpgauge.report.method_maps import SIGNIFICANT

_DPI = 110


def map_section(content: Content) -> str:
    """Give the maps of all methods side by side."""
    made = content.maps
    if made is None:
        return paragraph("No maps were made: they need the transforms and the grid of the fixed image.")
    points, summary = content.posterior.annotations.fixed_points, made.summary()
    rows = []
    for name, one in summary["methods"].items():
        rows.append(
            (
                name,
                [
                    percent_cell(one["contradicted"]),
                    percent_cell(one["expected_above_tolerance"]),
                    percent_cell(one["outside"]),
                ],
            )
        )
    above = (
        "expected above the tolerance"
        if made.tolerance is None
        else f"expected above {made.tolerance:g} {content.units}"
    )
    parts = [
        paragraph(
            f"The annotations say enough about {percent(summary['known'])} of the image. Elsewhere the maps are "
            f"hatched and fade away: unknown is not good."
        ),
        table(
            f"Shares of the image. Contradicted: Benjamini-Hochberg-adjusted p at most {SIGNIFICANT:g}.",
            ("method", "contradicted by the annotations", above, "outside its domain"),
            rows,
            name="map-shares",
        ),
        heading("Error of each method"),
        _picture(
            made.picture("error", points),
            "Maps of the error score of " + ", ".join(made.error) + ", with the same colours.",
            "Error score e(x): 1 where the method contradicts the annotations, 0 where it agrees. All methods have the "
            "same colours.",
        ),
    ]
    if made.exceedance:
        parts += [
            heading("Probability of an error above the tolerance"),
            _picture(
                made.picture("exceedance", points),
                f"Maps of the probability of an error above {made.tolerance:g} {content.units} for each method.",
                "Probability that the method is off by more than the tolerance.",
            ),
        ]
    parts += [
        heading("How much the annotations say"),
        _picture(
            made.picture("standard deviation", points),
            "Map of the posterior standard deviation, with the annotated points.",
            "Standard deviation of the true match, given the annotations. It does not depend on the method.",
            width=5.5 if content.posterior.d == 2 else 10.0,
        ),
    ]
    if made.warped:
        panels = ({} if made.fixed is None else {"fixed image": made.fixed}) | made.warped
        parts += [
            heading("Warped moving image"),
            _picture(
                Picture(panels, made.grid, "image"),
                "The fixed image, and the moving image warped by each method.",
                "What each method makes of the moving image; grey where it is not defined.",
            ),
        ]
    return "".join(parts)


def _picture(picture: Picture, alt: str, caption: str, width: float = 10.0) -> str:
    return image(picture_bytes(map_picture(picture, width=width), "png", dpi=_DPI), "png", alt, caption)
