"""Report sections with maps of the methods, and before and after: fixed and moving image as a checkerboard."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.arrays import Floats
from warpgauge.evaluation.sentences import judged_share
from warpgauge.io.images import Image
from warpgauge.maps import Picture, displayable, map_picture, picture_bytes, picture_grid, warped_image
from warpgauge.report.content import Content
from warpgauge.report.html import heading, image, paragraph
from warpgauge.report.method_maps import MOST_SHOWN, MethodMaps

_DPI = 110


def map_section(content: Content) -> str:
    """Return the maps of the methods side by side, in the order of their ranks."""
    made = content.maps
    if made is None:
        return paragraph("No maps were made: they need the transforms and the grid of the fixed image.")
    points = content.posterior.annotations.fixed_points
    shown = MethodMaps(**{**vars(made), "expected": _first(made.expected, content.evaluation.baseline),
                          "exceedance": _first(made.exceedance, content.evaluation.baseline)})  # fmt: skip
    left = len(made.expected) - len(shown.expected)
    parts = [
        paragraph(
            "Colours are the distance from the true match that is to be expected at each place, best method first, and "
            "the same for all methods. It is large where a method is wrong, and also where nothing is known."
            + (f" The {left} methods with the largest errors are not drawn." if left else "")
        ),
        _picture(
            shown.picture("expected error", points, _top(shown.expected, content.evaluation.baseline)),
            "Maps of the expected error of " + ", ".join(shown.expected) + ", with the same colours.",
            "Expected error of each method. Circles: annotated points. Line: inside it the annotations say enough.",
        ),
    ]
    if shown.exceedance:
        parts += [
            heading("Probability of an error above the tolerance"),
            _picture(
                shown.picture("exceedance", points),
                f"Maps of the probability of an error above {made.tolerance:g} {content.units} for each method.",
                f"Probability that the method is off by more than {made.tolerance:g} {content.units}.",
            ),
        ]
    parts += [
        heading("How much the annotations say"),
        paragraph("" if content.judged is None else judged_share(content.judged)),
        _picture(
            made.picture("standard deviation", points),
            "Map of the standard deviation of the true match, with the annotated points.",
            "How far the true match may lie from what the annotations alone say. It does not depend on the method.",
            width=6.5 if content.posterior.d == 2 else 10.0,
        ),
    ]
    return "".join(parts)


def overlay_section(content: Content) -> str:
    """Return the checkerboards of fixed and moving image, before and after the best method."""
    best = next((name for name in content.methods if name in content.transforms), None)
    if best is None or set(content.images) != {"fixed", "moving"}:
        return ""
    transform = content.transforms[best]
    if not (hasattr(transform, "map") or callable(transform)):
        return ""
    picture = checkerboards(content.images["fixed"], content.images["moving"], (best, transform))
    return heading("Before and after") + _picture(
        picture,
        f"Checkerboards of the fixed and the moving image, before registration and after {best}.",
        f"Fixed and moving image in turn, as the moving image lies and as {best} puts it: where edges go on from tile "
        "to tile, the images match.",
        dpi=150,
    )


def _first(maps: dict[str, Floats], baseline: str | None) -> dict[str, Floats]:
    """Return the maps of the best methods, and of the baseline where there is room for it."""
    names = list(maps)
    shown = names[:MOST_SHOWN]
    if baseline in names and baseline not in shown:
        shown = [*shown[:-1], str(baseline)]
    return {name: maps[name] for name in shown}


def _top(maps: dict[str, Floats], baseline: str | None) -> float | None:
    """Return the upper end of the colours: that of the methods, so that the baseline does not flatten them."""
    known = [values[np.isfinite(values)] for name, values in maps.items() if name != baseline or len(maps) == 1]
    return max((float(np.percentile(one, 98)) for one in known if one.size), default=None)


def _picture(picture: Picture, alt: str, caption: str, width: float = 10.0, dpi: float = _DPI) -> str:
    return image(picture_bytes(map_picture(picture, width=width), "png", dpi=dpi), "png", alt, caption)


_ELEMENTS = {2: 640, 3: 128}
_TILES = 8  # along the longest axis


def checkerboards(fixed: Image, moving: Image, best: tuple[str, Any]) -> Picture:
    """Return two panels: the moving image where it lies, and as the best method puts it, in turn with the fixed one.

    Parameters
    ----------
    fixed, moving : Image
    best : (str, transform)
        Name and transform of the best method.
    """
    name, transform = best
    grid = picture_grid(fixed.grid, _ELEMENTS[fixed.grid.d])
    below = _grey(displayable(warped_image(fixed, lambda points: points, grid)), grid.d)
    panels = {}
    for title, one in (("before registration", lambda points: points), (f"after {name}", transform)):
        panels[title] = _mixed(below, _grey(displayable(warped_image(moving, one, grid)), grid.d))
    return Picture(panels, grid, "image")


def _grey(samples: NDArray[Any], d: int) -> NDArray[Any]:
    """Return one channel: colours of two stains differ anyway, and edges are what is to be seen."""
    return samples.mean(axis=-1) if samples.ndim > d else samples


def _mixed(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Return a checkerboard of two images; where the other has no sample, it stays grey."""
    tile = max(1, int(np.ceil(max(one.shape) / _TILES)))
    parity = sum(np.indices(one.shape) // tile) % 2
    return np.where(parity == 0, one, other)
