"""transformix point files: ``point`` (world) or ``index`` (voxels), the number of points, then one point per line.

Without the keyword the file holds indices. transformix rounds indices to whole voxels; this reader does not.
"""

from __future__ import annotations

import numpy as np

from warpgauge.display import counted
from warpgauge.geometry import Floats
from warpgauge.io.landmarks.base import FileFrame, Format, Side, Table, stack, world_frame
from warpgauge.io.landmarks.text import coordinates, fail, lines, number_text, shown

KEYWORDS = ("point", "index")


def _parse(text: str, name: str, d: int | None) -> Table:
    """Read the points of one image."""
    content = lines(text)
    keyword = content[0][1] if content and content[0][1] in KEYWORDS else None
    rows = content[1:] if keyword else content
    if not rows or not (rows[0][1].isascii() and rows[0][1].isdigit() and len(rows[0][1]) < 12):
        found = shown(rows[0][1]) if rows else "the end of the file"
        fail(name, rows[0][0] if rows else None, f"the number of points should stand here, but there is {found}")
    count, body = int(rows[0][1]), rows[1:]
    if len(body) != count:
        fail(
            name,
            rows[0][0],
            f"the file announces {counted(count, 'point')} and holds {len(body)}",
            "it is cut or was edited",
        )
    points: list[list[float]] = []
    for line, row in body:
        tokens = row.split()
        if len(tokens) not in (2, 3) or len(tokens) != len(points[0] if points else tokens):
            fail(name, line, f"{counted(len(tokens), 'coordinate')}, but every point needs the same 2 or 3")
        points.append(coordinates(tokens, name, line))
    return _table(stack(points, name), keyword)


def _table(points: Floats, keyword: str | None) -> Table:
    assumptions = []
    if keyword is None:
        assumptions.append("The file has neither 'point' nor 'index'; as transformix does, its numbers are indices.")
    if keyword != "point" and np.any(points != np.round(points)):
        assumptions.append("Some indices lie between voxels; transformix itself would round them.")
    world: FileFrame = "LPS" if points.shape[1] == 3 else "image"
    side = Side(points, world if keyword == "point" else "index", frame_stated=keyword is not None)
    return Table(fixed=side, assumptions=assumptions)


def _render(table: Table) -> str:
    """Write the points of one image."""
    keyword = "index" if table.fixed.frame == "index" else "point"
    rows = (" ".join(number_text(value) for value in point) for point in table.fixed.points)
    return "\n".join([keyword, str(len(table)), *rows]) + "\n"


FORMAT = Format(
    name="transformix",
    title="transformix point file",
    parse=_parse,
    render=_render,
    write_frame=world_frame("index", "LPS", "image"),
)
