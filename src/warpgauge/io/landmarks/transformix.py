"""transformix point files: ``point`` (world) or ``index`` (voxels), the number of points, then one point per line.

Without the keyword the file holds indices. transformix rounds indices to whole voxels; this reader does not.
"""

from __future__ import annotations

import numpy as np

from warpgauge.display import counted
from warpgauge.io.formats import Files
from warpgauge.io.landmarks.base import Format, Side, Table, stack
from warpgauge.io.landmarks.text import coordinates, fail, is_count, lines, number_text, shown

_KEYWORDS = ("point", "index")


def _parse(text: str, name: str, d: int | None) -> Table:
    content = lines(text)
    keyword = content.pop(0)[1] if content and content[0][1] in _KEYWORDS else None
    line, count = content[0] if content else (None, "the end of the file")
    if not is_count(count):
        fail(name, line, f"the number of points should stand here, but there is {shown(count)}")
    body = content[1:]
    if len(body) != int(count):
        problem = f"the file announces {counted(int(count), 'point')} and holds {len(body)}"
        fail(name, line, problem, "it is cut or was edited")
    rows: list[list[float]] = []
    for number, row in body:
        tokens = row.split()
        if len(tokens) not in (2, 3) or len(tokens) != len(rows[0] if rows else tokens):
            fail(name, number, f"{counted(len(tokens), 'coordinate')}, but every point needs the same 2 or 3")
        rows.append(coordinates(tokens, name, number))
    points = stack(rows, name)
    table = Table(Side(points, "index", frame_stated=keyword is not None))
    if keyword == "point":
        table.fixed.frame = "LPS" if table.d == 3 else "image"
    if keyword is None:
        note = "The file has neither 'point' nor 'index'; as transformix does, its numbers are indices."
        table.assumptions.append(note)
    if keyword != "point" and np.any(points != np.round(points)):
        table.assumptions.append("Some indices lie between voxels; transformix itself would round them.")
    return table


def _render(table: Table) -> str:
    keyword = "index" if table.fixed.frame == "index" else "point"
    rows = (" ".join(number_text(value) for value in point) for point in table.fixed.points)
    return "\n".join([keyword, str(len(table)), *rows]) + "\n"


FORMAT = Format(
    name="transformix",
    title="transformix point file",
    written=(
        Files("elastix", "point or index file", "5", "one file per image", "LPS, or voxels from 0", "mm or voxels",
              "transformix itself"),
    ),
    fits=lambda start: start.line in _KEYWORDS or is_count(start.line, 400),
    parse=_parse,
    render=_render,
    frames=("world", "index", "LPS", "image"),
)  # fmt: skip
