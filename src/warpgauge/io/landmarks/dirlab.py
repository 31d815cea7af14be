"""DIR-Lab landmarks (4DCT, COPDgene): one text file per image, three voxel indices per line, counted from 1."""

from __future__ import annotations

from warpgauge.display import counted
from warpgauge.io.landmarks.base import Format, Side, Table, one_frame, stack
from warpgauge.io.landmarks.text import coordinates, fail, lines, number_text


def _parse(text: str, name: str, d: int | None) -> Table:
    """Read the landmarks of one image."""
    rows = []
    for line, content in lines(text):
        tokens = content.split()
        if len(tokens) != 3:
            fail(
                name,
                line,
                f"{counted(len(tokens), 'column')}, but a DIR-Lab file has 3",
                "the file is cut or another format",
            )
        rows.append(coordinates(tokens, name, line))
    return Table(
        fixed=Side(stack(rows, name), "index1"),
        assumptions=["Coordinates are voxel indices x, y, z counted from 1; rows correspond."],
    )


def _render(table: Table) -> str:
    """Write the landmarks of one image, separated by tabs."""
    return "".join("\t".join(number_text(value) for value in point) + "\n" for point in table.fixed.points)


FORMAT = Format(
    name="dirlab",
    title="DIR-Lab text file",
    parse=_parse,
    render=_render,
    write_frame=one_frame("index1"),
    dimensions=(3,),
)
