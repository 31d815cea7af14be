"""Grids of a pair's images: taken from the image, or from a small file ``*.grid.json`` where images stay away."""

from __future__ import annotations

import json
from pathlib import Path

from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.files import read_text, replace_file
from warpgauge.io.images import read_image
from warpgauge.project.document import grid_from_dict, grid_to_dict

SUFFIX = ".grid.json"


def read_grid(path: Path) -> Grid:
    """Return the grid of an image, or of a file that `write_grid` wrote."""
    if not path.name.endswith(SUFFIX):
        return read_image(path).grid
    try:
        return grid_from_dict(json.loads(read_text(path, "grid")))
    except (ValueError, KeyError, TypeError, InvalidInputError) as error:
        raise FileFormatError(
            f"{path.name!r} is not a grid: it needs size, spacing, origin, direction and units as JSON."
        ) from error


def write_grid(grid: Grid, path: Path) -> None:
    """Write a grid as JSON."""
    replace_file(path, (json.dumps(grid_to_dict(grid), indent=2) + "\n").encode())
