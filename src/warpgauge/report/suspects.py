"""Annotations flagged as gross errors: where their match is expected, and how they look in the two images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.display import shown_units
from warpgauge.evaluation import Evaluation
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.maps import Picture, Plane, displayable, map_picture, warped_image
from warpgauge.maps.picture_parts import OKABE_ITO, fitting_level

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


def suspects(evaluation: Evaluation) -> tuple[Suspect, ...]:
    """Return the annotations that an evaluation flags, with the matches that are expected without them."""
    flagged = [(flag.row, flag.sentence) for flag in evaluation.flags if flag.row is not None]
    other, compared = evaluation.without_flagged, evaluation.comparison
    if other is None:
        return ()
    given = compared.annotations
    expected = other.judged_by.mean_over(compared.at_annotations([row for row, _ in flagged]))
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
