"""Further images of the same frame, such as another stain, a channel or a segmentation: to look at, not to mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.images import read_image
from warpgauge.project import Project
from warpgauge.web.tiled_image import TiledImage

Side = Literal["fixed", "moving"]


@dataclass(frozen=True)
class ContextImage:
    """An image that lies in the frame of the fixed or the moving one, at any resolution."""

    side: Side
    picture: TiledImage

    def describe(self) -> dict[str, Any]:
        """Return what the page must know of it."""
        return {"side": self.side, "image": self.picture.describe()}


def read_contexts(project: Project, named: Sequence[str]) -> list[ContextImage]:
    """Open images that are named ``fixed=FILE`` or ``moving=FILE``; refuse those of another frame."""
    found = []
    for text in named:
        side, equals, file = text.partition("=")
        if side not in ("fixed", "moving") or not equals or not file:
            raise InvalidInputError(f"--context {text!r} must read fixed=FILE or moving=FILE.")
        wanted = project.fixed_grid if side == "fixed" else project.moving_grid
        record = project.document.images[side]  # with the pixel size that was given for the image itself
        image = read_image(file, spacing=record.spacing, units=record.units)
        if not _same_frame(image.grid, wanted):
            raise InvalidInputError(
                f"{image.path.name!r} does not lie in the frame of the {side} image: it must have the same directions "
                f"and cover the same part of the world ({_extent(wanted)}), not {_extent(image.grid)}."
            )
        found.append(ContextImage(cast(Side, side), TiledImage(image, image.content_hash)))
    return found


def _same_frame(grid: Grid, wanted: Grid) -> bool:
    if grid.d != wanted.d or grid.units != wanted.units or not np.allclose(grid.direction, wanted.direction, atol=1e-4):
        return False
    # Corners of the outer pixels, to half of the larger pixel.
    room = 0.5 * np.maximum(grid.spacing, wanted.spacing).max()
    ends = ((np.full(one.d, -0.5), np.array(one.size) - 0.5) for one in (grid, wanted))
    (low, high), (first, last) = ends
    corners = grid.index_to_world(np.stack([low, high])) - wanted.index_to_world(np.stack([first, last]))
    return bool(np.abs(corners).max() <= room)


def _extent(grid: Grid) -> str:
    lengths = " x ".join(f"{n * step:.4g}" for n, step in zip(grid.size, grid.spacing.tolist(), strict=True))
    return f"{lengths} {grid.units} from {', '.join(f'{value:.4g}' for value in grid.origin)}"
